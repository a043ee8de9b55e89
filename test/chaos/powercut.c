/*-------------------------------------------------------------------------
 *
 * powercut.c
 *		The tool beside the library: makes a side folder, cuts the power.
 *
 *	powercut init SIDE
 *	powercut set SIDE name=value...		skip_fsync, fsync_delay_us, free_data, free_wal
 *	powercut show SIDE					counters
 *	powercut cut SIDE ROOT all|some SEED
 *
 * "cut" stops every process that has the side folder mapped, at once, and then
 * reverts what was not durable: all of it, or ("some") a random part as a disk would leave it:
 * for each 512-byte sector a random prefix of the writes to it has survived, and a
 * random prefix of the directory operations.  Seed and contents decide, nothing else.
 * Then the side folder is as after "init".
 *
 * Run by the tests (FleetlogTest::Powercut); never beside a live cluster except by "cut" and "set".
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fl_powercut.h"

#define SECTOR		512

static const char *side;
static const char *root;
static int	some;
static uint64_t seed;

static uint64_t n_records, n_files, n_kept, n_ops;

static void
die(const char *what)
{
	fprintf(stderr, "powercut: %s: %s\n", what, strerror(errno));
	exit(1);
}

static char *
side_path(const char *name)
{
	static char path[4][PATH_MAX];
	static int	next = 0;

	next = (next + 1) % 4;
	snprintf(path[next], PATH_MAX, "%s/%s", side, name);
	return path[next];
}

/* A number between 0 and n - 1 that depends on the seed and on what it is for. */
static uint64_t
chance(uint64_t a, uint64_t b, uint64_t c, uint64_t n)
{
	uint64_t	x = seed ^ (a * 0x9e3779b97f4a7c15ULL) ^ (b * 0xc2b2ae3d27d4eb4fULL) ^ (c * 0x165667b19e3779f9ULL);

	for (int i = 0; i < 2; i++)
	{
		x ^= x >> 30;
		x *= 0xbf58476d1ce4e5b9ULL;
		x ^= x >> 27;
		x *= 0x94d049bb133111ebULL;
		x ^= x >> 31;
	}
	return x % n;
}

/* ---- the side folder ------------------------------------------------------------ */

static FlControl *
control_map(void)
{
	int			fd = open(side_path("control"), O_RDWR);
	FlControl  *c;

	if (fd < 0)
		die(side_path("control"));
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		die("mmap");
	close(fd);
	return c;
}

static void
empty_folder(const char *name)
{
	char	   *dir = strdup(side_path(name));
	DIR		   *d = opendir(dir);
	struct dirent *e;
	char		path[PATH_MAX + 300];

	if (d == NULL)
	{
		if (mkdir(dir, 0700) != 0)
			die(dir);
		return;
	}
	while ((e = readdir(d)) != NULL)
	{
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	closedir(d);
	free(dir);
}

static void
clear_side(void)
{
	int			fd;

	empty_folder("j");
	empty_folder("dead");
	fd = open(side_path("ops"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		die("ops");
	close(fd);
}

static void
init(void)
{
	FlControl	c = {.magic = FL_CONTROL_MAGIC,.free = {-1, -1}};
	int			fd;

	if (mkdir(side, 0700) != 0 && errno != EEXIST)
		die(side);
	clear_side();
	fd = open(side_path("control"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, &c, sizeof(c)) != sizeof(c))
		die("control");
	close(fd);
}

static void
set(int n, char **args)
{
	FlControl  *c = control_map();

	for (int i = 0; i < n; i++)
	{
		char	   *eq = strchr(args[i], '=');
		long long	value = eq != NULL ? atoll(eq + 1) : 0;

		if (eq == NULL)
			die(args[i]);
		*eq = '\0';
		if (strcmp(args[i], "skip_fsync") == 0)
			c->skip_fsync = (uint32_t) value;
		else if (strcmp(args[i], "fsync_delay_us") == 0)
			c->fsync_delay_us = (uint32_t) value;
		else if (strcmp(args[i], "free_data") == 0)
			c->free[FL_VOLUME_DATA] = value;
		else if (strcmp(args[i], "free_wal") == 0)
			c->free[FL_VOLUME_WAL] = value;
		else
			die(args[i]);
	}
}

static void
show(void)
{
	FlControl  *c = control_map();

	printf("writes=%" PRIu64 " fsyncs=%" PRIu64 " refused=%" PRIu64 " free_data=%" PRId64 " free_wal=%" PRId64 "\n",
		   c->writes, c->fsyncs, c->refused, c->free[FL_VOLUME_DATA], c->free[FL_VOLUME_WAL]);
}

/* ---- stopping everybody -------------------------------------------------------------- */

static int
has_mapped(const char *pid, const char *path)
{
	char		name[64],
				line[PATH_MAX + 200];
	FILE	   *f;
	int			found = 0;

	snprintf(name, sizeof(name), "/proc/%.20s/maps", pid);
	if ((f = fopen(name, "r")) == NULL)
		return 0;
	while (!found && fgets(line, sizeof(line), f) != NULL)
		found = strstr(line, path) != NULL;
	fclose(f);
	return found;
}

static int	victims[FL_PIDS];

/* Stops whoever has the control page mapped; how many there were.  A pid may be another process's by now. */
static int
stop_all(const FlControl *c, const char *path)
{
	uint64_t	end = __atomic_load_n(&c->n_pids, __ATOMIC_ACQUIRE);
	int			n = 0;

	for (uint64_t i = end < FL_PIDS ? 0 : end - FL_PIDS; i < end; i++)
	{
		char		name[16];
		int			pid = c->pids[i % FL_PIDS];

		snprintf(name, sizeof(name), "%d", pid);
		if (pid > 0 && pid != getpid() && kill(pid, 0) == 0 && has_mapped(name, path) && kill(pid, SIGSTOP) == 0)
			victims[n++] = pid;
	}
	return n;
}

static void
wait_gone(int pid, const char *path)
{
	char		name[32];

	snprintf(name, sizeof(name), "%d", pid);
	for (int turn = 0; turn < 20000; turn++)
	{
		if (kill(pid, 0) != 0 || !has_mapped(name, path))
			return;
		usleep(1000);
	}
	errno = ETIMEDOUT;
	die("a process does not die");
}

/* Stops all first, so that nobody sees the others die, and kills until nobody is left. */
static int
kill_all(const FlControl *c)
{
	char		path[PATH_MAX];
	int			killed = 0,
				n;

	if (realpath(side_path("control"), path) == NULL)
		die("control");
	while ((n = stop_all(c, path)) > 0)
	{
		for (int i = 0; i < n; i++)
			kill(victims[i], SIGKILL);
		for (int i = 0; i < n; i++)
			wait_gone(victims[i], path);
		killed += n;
	}
	return killed;
}

/* ---- where each inode is ----------------------------------------------------------------- */

typedef struct Place
{
	uint64_t	inode;
	char	   *path;
} Place;

static Place *places = NULL;
static size_t n_places = 0,
			max_places = 0;

static int
note_place(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void) ftw;
	if (type != FTW_F)
		return 0;
	if (n_places == max_places)
	{
		max_places = max_places ? max_places * 2 : 4096;
		places = realloc(places, max_places * sizeof(Place));
		if (places == NULL)
			die("memory");
	}
	places[n_places++] = (Place) {st->st_ino, strdup(path)};
	return 0;
}

static const char *
place_of(uint64_t inode)
{
	for (size_t i = 0; i < n_places; i++)
		if (places[i].inode == inode)
			return places[i].path;
	return NULL;
}

/* ---- contents ------------------------------------------------------------------------------ */

/* Sectors of one file that keep what they have now. */
typedef struct Kept
{
	uint8_t    *bits;
	uint64_t	sectors;
	uint64_t	end;			/* behind the last one, in bytes */
} Kept;

static int
is_kept(const Kept *k, uint64_t sector)
{
	return sector < k->sectors && (k->bits[sector / 8] >> (sector % 8) & 1);
}

static void
keep(Kept *k, uint64_t sector, uint64_t end)
{
	if (sector >= k->sectors)
	{
		uint64_t	n = (sector + 1) * 2;

		k->bits = realloc(k->bits, n / 8 + 1);
		if (k->bits == NULL)
			die("memory");
		memset(k->bits + (k->sectors ? k->sectors / 8 + 1 : 0), 0, n / 8 + 1 - (k->sectors ? k->sectors / 8 + 1 : 0));
		k->sectors = n;
	}
	k->bits[sector / 8] |= (uint8_t) (1 << (sector % 8));
	if (end > k->end)
		k->end = end;
	n_kept++;
}

static void
put_back(int fd, const char *data, uint64_t at, uint64_t n, uint64_t saved_end, const char *zeros)
{
	uint64_t	have = at < saved_end ? (saved_end - at < n ? saved_end - at : n) : 0;

	if (have > 0 && pwrite(fd, data, have, (off_t) at) != (ssize_t) have)
		die("pwrite");
	if (n > have && pwrite(fd, zeros, n - have, (off_t) (at + have)) != (ssize_t) (n - have))
		die("pwrite");
}

/* Takes back one change, except in sectors where it survived. */
static void
undo_record(int fd, uint64_t inode, uint64_t number, const FlUndoRecord *r, const char *data, Kept *k, int odds)
{
	static const char zeros[SECTOR];
	uint64_t	size = r->old_size;

	if (!some || r->truncate)
	{
		if (r->saved > 0 && pwrite(fd, data, r->saved, (off_t) r->offset) != (ssize_t) r->saved)
			die("pwrite");
		if (r->truncate)
			k->end = k->end > size ? size : k->end;
	}
	else
	{
		for (uint64_t at = r->offset, end = r->offset + r->length; at < end;)
		{
			uint64_t	next = (at / SECTOR + 1) * SECTOR;
			uint64_t	n = (next < end ? next : end) - at;

			if (is_kept(k, at / SECTOR))
				 /* as it is */ ;
			else if ((int) chance(inode, at / SECTOR, number, 100) < odds)
				keep(k, at / SECTOR, at + n);
			else
				put_back(fd, data + (at - r->offset), at, n, r->offset + r->saved, zeros);
			at += n;
		}
		if (k->end > size)
			size = k->end;
	}
	if (ftruncate(fd, (off_t) size) != 0)
		die("ftruncate");
	n_records++;
}

static void
undo_file(const char *name)
{
	char		path[PATH_MAX];
	uint64_t	inode = strtoull(name, NULL, 10);
	const char *target;
	struct stat st;
	char	   *map;
	const FlUndoHeader *h;
	uint64_t   *at = NULL;
	size_t		n = 0,
				max = 0;
	int			fd,
				odds;
	Kept		kept = {0};

	snprintf(path, sizeof(path), "%s/j/%s", side, name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	if (st.st_size < (off_t) sizeof(FlUndoHeader))
	{
		close(fd);
		return;
	}
	map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		die("mmap");
	h = (const FlUndoHeader *) map;
	target = place_of(inode);
	if (h->start == h->end || target == NULL)
	{
		munmap(map, (size_t) st.st_size);
		return;
	}
	for (uint64_t p = h->start; p < h->end;)
	{
		uint64_t	where = sizeof(*h) + p - h->base;
		FlUndoRecord r;

		memcpy(&r, map + where, sizeof(r));
		if (r.magic != FL_UNDO_MAGIC)
		{
			fprintf(stderr, "powercut: journal of %s is damaged at %" PRIu64 "\n", target, p);
			exit(1);
		}
		if (n == max)
		{
			max = max ? max * 2 : 1024;
			at = realloc(at, max * sizeof(*at));
			if (at == NULL)
				die("memory");
		}
		at[n++] = where;
		p += sizeof(r) + r.saved;
	}
	fd = open(target, O_RDWR);
	if (fd < 0)
		die(target);
	odds = (int[]) {0, 10, 50, 90}[chance(inode, 1, 1, 4)];
	while (n > 0)
	{
		FlUndoRecord r;

		memcpy(&r, map + at[--n], sizeof(r));
		undo_record(fd, inode, n, &r, map + at[n] + sizeof(r), &kept, odds);
	}
	close(fd);
	free(at);
	free(kept.bits);
	munmap(map, (size_t) st.st_size);
	n_files++;
}

static void
undo_contents(void)
{
	DIR		   *d;
	struct dirent *e;

	if (nftw(root, note_place, 64, FTW_PHYS) != 0 || nftw(side_path("dead"), note_place, 64, FTW_PHYS) != 0)
		die("nftw");
	d = opendir(side_path("j"));
	if (d == NULL)
		die("j");
	while ((e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			undo_file(e->d_name);
	closedir(d);
}

/* ---- names -------------------------------------------------------------------------------- */

typedef struct Op
{
	char		kind;			/* C, R, L, U, S, F */
	uint64_t	dir;
	uint64_t	number;			/* inode, or name of the dead link */
	char	   *path;
	char	   *path2;
	int			durable;
} Op;

static Op *
read_ops(size_t *count)
{
	FILE	   *f = fopen(side_path("ops"), "r");
	char	   *line = NULL;
	size_t		cap = 0,
				n = 0,
				max = 0;
	Op		   *ops = NULL;

	if (f == NULL)
		die("ops");
	while (getline(&line, &cap, f) > 0)
	{
		char	   *field[5] = {NULL};
		char	   *rest = line;
		int			fields = 0;

		line[strcspn(line, "\n")] = '\0';
		while (fields < 5 && (field[fields] = strsep(&rest, "\t")) != NULL)
			fields++;
		if (n == max)
		{
			max = max ? max * 2 : 1024;
			ops = realloc(ops, max * sizeof(Op));
			if (ops == NULL)
				die("memory");
		}
		ops[n] = (Op) {.kind = field[0][0],.dir = strtoull(field[1], NULL, 10)};
		switch (ops[n].kind)
		{
			case 'F':
				ops[n].number = ops[n].dir;
				break;
			case 'L':
				ops[n].path = strdup(field[2]);
				break;
			case 'C':
			case 'U':
				ops[n].number = strtoull(field[2], NULL, 10);
				ops[n].path = strdup(field[3]);
				break;
			case 'R':
				ops[n].number = strtoull(field[2], NULL, 10);
				ops[n].path = strdup(field[3]);
				ops[n].path2 = strdup(field[4]);
				break;
			case 'S':
				break;
			default:
				die("ops");
		}
		n++;
	}
	free(line);
	fclose(f);
	*count = n;
	return ops;
}

/* What a later fsync of the directory, or of the new file itself, has made durable. */
static size_t
mark_durable(Op *ops, size_t n)
{
	size_t		left = 0;

	for (size_t i = 0; i < n; i++)
	{
		if (ops[i].kind == 'S' || ops[i].kind == 'F')
		{
			ops[i].durable = 1;
			continue;
		}
		for (size_t k = i + 1; k < n && !ops[i].durable; k++)
			ops[i].durable = (ops[k].kind == 'S' && ops[k].dir == ops[i].dir) ||
				(ops[k].kind == 'F' && ops[i].kind == 'C' && ops[k].number == ops[i].number);
		left += !ops[i].durable;
	}
	return left;
}

static void
undo_op(const Op *op)
{
	struct stat st;
	char		dead[PATH_MAX];

	snprintf(dead, sizeof(dead), "%s/dead/%" PRIu64 ".%" PRIu64, side, op->dir, op->number);
	switch (op->kind)
	{
		case 'C':
			if (lstat(op->path, &st) == 0 && st.st_ino == op->number)
				unlink(op->path);
			break;
		case 'L':
			unlink(op->path);
			break;
		case 'U':
			if (op->number != 0 && lstat(op->path, &st) != 0)
				rename(dead, op->path);
			break;
		case 'R':
			if (lstat(op->path2, &st) == 0)
				rename(op->path2, op->path);
			if (op->number != 0)
				rename(dead, op->path2);
			break;
	}
	n_ops++;
}

static void
undo_names(void)
{
	size_t		n,
				left,
				spared;
	Op		   *ops = read_ops(&n);

	left = mark_durable(ops, n);
	spared = some && left > 0 ? chance(n, 2, 2, left + 1) : 0;
	for (size_t i = 0; i < n && spared > 0; i++)
		if (!ops[i].durable)
		{
			ops[i].durable = 1;
			spared--;
		}
	while (n > 0)
		if (!ops[--n].durable)
			undo_op(&ops[n]);
}

static void
cut(void)
{
	FlControl  *c = control_map();
	int			killed;

	__atomic_store_n(&c->cut, 1, __ATOMIC_RELEASE);
	killed = kill_all(c);
	undo_contents();
	undo_names();
	clear_side();
	c->cut = 0;
	c->free[0] = c->free[1] = -1;
	printf("killed=%d records=%" PRIu64 " files=%" PRIu64 " kept=%" PRIu64 " ops=%" PRIu64 "\n",
		   killed, n_records, n_files, n_kept, n_ops);
}

int
main(int argc, char **argv)
{
	if (argc < 3)
	{
		fprintf(stderr, "usage: powercut init|set|show|cut SIDE ...\n");
		return 2;
	}
	side = argv[2];
	if (strcmp(argv[1], "init") == 0)
		init();
	else if (strcmp(argv[1], "set") == 0)
		set(argc - 3, argv + 3);
	else if (strcmp(argv[1], "show") == 0)
		show();
	else if (strcmp(argv[1], "cut") == 0 && argc == 6)
	{
		root = argv[3];
		some = strcmp(argv[4], "some") == 0;
		seed = strtoull(argv[5], NULL, 10);
		cut();
	}
	else
	{
		fprintf(stderr, "usage: powercut cut SIDE ROOT all|some SEED\n");
		return 2;
	}
	return 0;
}
