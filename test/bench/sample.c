/*-------------------------------------------------------------------------
 *
 * sample.c
 *		CPU and memory of the server under load, read from /proc.
 *
 * A watched process counts with all its descendants, so that naming a
 * postmaster is enough; each is reported apart, by its command line, which the
 * server keeps telling what the process is.  Processes that have ended between
 * two samples are missed; a server's workers do not.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Entry
{
	pid_t pid;
	pid_t parent;
	double cpu;
	bool chosen;
} Entry;

/* Reads a small file of /proc; false when it is gone or closed to us. */
static bool
read_file(char *out, size_t size, pid_t pid, const char *name, size_t *len)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	*len = fread(out, 1, size - 1, f);
	out[*len] = '\0';
	fclose(f);
	return true;
}

/* The name in the second field may hold spaces and parentheses: counting begins after the last one. */
static bool
read_entry(Entry *e, pid_t pid)
{
	char text[1024];
	size_t len;
	char *rest;
	int parent;
	unsigned long user, system;

	if (!read_file(text, sizeof(text), pid, "stat", &len) || (rest = strrchr(text, ')')) == NULL)
		return false;
	if (sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &parent, &user, &system) != 3)
		return false;
	e->pid = pid;
	e->parent = parent;
	e->cpu = (double) (user + system) / sysconf(_SC_CLK_TCK);
	e->chosen = false;
	return true;
}

static int
read_entries(Entry **entries)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int n = 0, size = 0;

	*entries = NULL;
	while (dir != NULL && (d = readdir(dir)) != NULL)
	{
		if (!isdigit((unsigned char) d->d_name[0]))
			continue;
		if (n == size)
		{
			size = size * 2 + 256;
			*entries = realloc(*entries, size * sizeof(Entry));
			if (*entries == NULL)
				exit(1);
		}
		if (read_entry(&(*entries)[n], (pid_t) atoi(d->d_name)))
			n++;
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static void
choose(Entry *entries, int n, const FlOptions *o)
{
	bool more = true;

	for (int i = 0; i < n; i++)
	{
		for (int k = 0; k < o->nwatched; k++)
			entries[i].chosen |= entries[i].pid == o->watched[k];
	}
	while (more)
	{
		more = false;
		for (int i = 0; i < n; i++)
		{
			for (int k = 0; k < n && !entries[i].chosen; k++)
			{
				if (entries[k].chosen && entries[k].pid == entries[i].parent)
					entries[i].chosen = more = true;
			}
		}
	}
}

/* A value in kB of a file with lines such as "Rss:  123 kB", in bytes. */
static int64_t
kilobytes(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line == NULL ? 0 : atoll(line + strlen(name)) * 1024;
}

static void
read_memory(FlProcessSample *s)
{
	char text[4096];
	size_t len;

	if (!read_file(text, sizeof(text), s->pid, "smaps_rollup", &len))
		return;
	s->rss = kilobytes(text, "\nRss:");
	s->anonymous = kilobytes(text, "\nAnonymous:");
}

static void
read_name(FlProcessSample *s)
{
	char text[FL_NAME_SIZE];
	size_t len = 0;

	if (!read_file(text, sizeof(text), s->pid, "cmdline", &len))
		len = 0;
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) text[i] < ' ' || text[i] == '"' || text[i] == '\\')
			text[i] = ' ';
	}
	while (len > 0 && text[len - 1] == ' ')
		len--;
	snprintf(s->name, sizeof(s->name), "%.*s", (int) len, text);
}

void
fl_sample_take(FlSample *s, const FlOptions *o, bool memory)
{
	Entry *entries;
	int n;

	s->count = 0;
	s->process = NULL;
	if (o->nwatched == 0)
		return;
	n = read_entries(&entries);
	choose(entries, n, o);
	s->process = calloc(n, sizeof(FlProcessSample));
	if (s->process == NULL)
		exit(1);
	for (int i = 0; i < n; i++)
	{
		FlProcessSample *p = &s->process[s->count];
		char text[1024];
		size_t len;

		if (!entries[i].chosen)
			continue;
		p->pid = entries[i].pid;
		p->cpu = entries[i].cpu;
		p->written = -1;
		if (read_file(text, sizeof(text), p->pid, "io", &len) && strstr(text, "\nwrite_bytes:") != NULL)
			p->written = atoll(strstr(text, "\nwrite_bytes:") + 13);
		read_name(p);
		if (memory)
			read_memory(p);
		s->count++;
	}
	free(entries);
}

const FlProcessSample *
fl_sample_find(const FlSample *s, pid_t pid)
{
	for (int i = 0; i < s->count; i++)
	{
		if (s->process[i].pid == pid)
			return &s->process[i];
	}
	return NULL;
}
