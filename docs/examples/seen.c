/*-------------------------------------------------------------------------
 *
 * seen.c
 *		The memory of seen.h: a file of lines, appended and synced.
 *
 *		H <horizon>
 *		B <expiry> <id>			a command begins
 *		E <id> <answer>			and ends
 *
 * A line that a power cut has torn is the last one and is left out when the
 * file is read.  Opening writes the file anew, under another name that is then
 * renamed, and so does growing to several times the room.
 *
 *-------------------------------------------------------------------------
 */
#include "seen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file is written anew when it has so many times the lines that it needs. */
#define SLACK 8

#define LINE_SIZE (SEEN_ID_SIZE + SEEN_ANSWER_SIZE + 32)

struct Seen
{
	char path[PATH_MAX];
	FILE *file; /* open for appending */
	int lines;
	int limit, used;
	int64_t horizon;
	SeenEntry *entry; /* limit of them */
};

/* Renaming is durable when the folder is. */
static bool
sync_folder(const char *path)
{
	char copy[PATH_MAX];
	bool ok;
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = fsync(fd) == 0;
	close(fd);
	return ok;
}

static bool
flush(FILE *file)
{
	return fflush(file) == 0 && fdatasync(fileno(file)) == 0;
}

static bool
rewrite(Seen *seen)
{
	char path[PATH_MAX + 4];
	FILE *file;

	snprintf(path, sizeof(path), "%s.new", seen->path);
	file = fopen(path, "we");
	if (file == NULL)
		return false;
	fprintf(file, "H %" PRId64 "\n", seen->horizon);
	seen->lines = 1;
	for (int i = 0; i < seen->used; i++)
	{
		const SeenEntry *e = &seen->entry[i];

		fprintf(file, "B %" PRId64 " %s\n", e->expires_at, e->id);
		if (e->answer[0] != '\0')
			fprintf(file, "E %s %s\n", e->id, e->answer);
		seen->lines += 2;
	}
	if (!flush(file) || rename(path, seen->path) != 0 || !sync_folder(seen->path))
	{
		fclose(file);
		return false;
	}
	if (seen->file != NULL)
		fclose(seen->file);
	seen->file = file;
	return true;
}

/* One more line, on disk when it returns true. */
static bool
append(Seen *seen, const char *line)
{
	if (seen->lines >= SLACK * seen->limit)
		return rewrite(seen); /* which has the new state as well */
	seen->lines++;
	return fputs(line, seen->file) >= 0 && flush(seen->file);
}

static SeenEntry *
find(const Seen *seen, const char *id)
{
	for (int i = 0; i < seen->used; i++)
		if (strcmp(seen->entry[i].id, id) == 0)
			return &seen->entry[i];
	return NULL;
}

/* Room for one more: what expires first goes, if it has expired before the given time. */
static SeenEntry *
make_room(Seen *seen, int64_t safe_before)
{
	SeenEntry *first = &seen->entry[0];

	if (seen->used < seen->limit)
		return &seen->entry[seen->used++];
	for (int i = 1; i < seen->used; i++)
		if (seen->entry[i].expires_at < first->expires_at)
			first = &seen->entry[i];
	if (first->expires_at >= safe_before)
		return NULL;
	if (first->expires_at > seen->horizon)
		seen->horizon = first->expires_at;
	return first;
}

/* A line of the file; the last one may be torn, so what does not read well is passed over. */
static void
take_line(Seen *seen, const char *line)
{
	char id[SEEN_ID_SIZE];
	int64_t time;
	int at = 0;
	SeenEntry *e;

	if (sscanf(line, "H %" SCNd64, &time) == 1)
	{
		if (time > seen->horizon)
			seen->horizon = time;
	}
	else if (sscanf(line, "B %" SCNd64 " %64s", &time, id) == 2 && find(seen, id) == NULL)
	{
		/* Of more than there is room for, those that expire first were forgotten when this was written. */
		e = make_room(seen, INT64_MAX);
		*e = (SeenEntry){.expires_at = time};
		strcpy(e->id, id);
	}
	else if (sscanf(line, "E %64s %n", id, &at) == 1 && at > 0 && (e = find(seen, id)) != NULL)
		snprintf(e->answer, sizeof(e->answer), "%s", line + at);
}

static bool
load(Seen *seen)
{
	char line[LINE_SIZE];
	FILE *file = fopen(seen->path, "re");

	if (file == NULL)
		return errno == ENOENT;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char *end = strchr(line, '\n');

		if (end == NULL)
			break; /* torn: its writer never got as far as to act on it */
		*end = '\0';
		take_line(seen, line);
	}
	fclose(file);
	return true;
}

Seen *
seen_open(const char *path, int limit)
{
	Seen *seen = calloc(1, sizeof(Seen));

	if (seen == NULL)
		return NULL;
	snprintf(seen->path, sizeof(seen->path), "%s", path);
	seen->limit = limit;
	seen->entry = calloc(limit, sizeof(SeenEntry));
	if (seen->entry == NULL || !load(seen) || !rewrite(seen))
	{
		seen_close(seen);
		return NULL;
	}
	return seen;
}

void
seen_close(Seen *seen)
{
	if (seen->file != NULL)
		fclose(seen->file);
	free(seen->entry);
	free(seen);
}

const SeenEntry *
seen_find(const Seen *seen, const char *id)
{
	return find(seen, id);
}

int64_t
seen_horizon(const Seen *seen)
{
	return seen->horizon;
}

bool
seen_begin(Seen *seen, const char *id, int64_t expires_at, int64_t safe_before)
{
	char line[LINE_SIZE];
	int64_t horizon = seen->horizon;
	SeenEntry *e = make_room(seen, safe_before);

	if (e == NULL)
		return false;
	*e = (SeenEntry){.expires_at = expires_at};
	snprintf(e->id, sizeof(e->id), "%s", id);
	/* A horizon that has moved goes before what took the place. */
	if (seen->horizon > horizon)
	{
		snprintf(line, sizeof(line), "H %" PRId64 "\n", seen->horizon);
		if (!append(seen, line))
			return false;
	}
	snprintf(line, sizeof(line), "B %" PRId64 " %s\n", expires_at, id);
	return append(seen, line);
}

bool
seen_finish(Seen *seen, const char *id, const char *answer)
{
	char line[LINE_SIZE];
	SeenEntry *e = find(seen, id);

	if (e == NULL || strlen(answer) >= sizeof(e->answer) || strchr(answer, '\n') != NULL)
		return false;
	strcpy(e->answer, answer);
	snprintf(line, sizeof(line), "E %s %s\n", id, answer);
	return append(seen, line);
}
