/*-------------------------------------------------------------------------
 *
 * fl_powercut.c
 *		A preloaded library that lets a test cut the power of a cluster.
 *
 * kill -9 loses nothing that a process has written: the kernel has it.  A power
 * cut loses what was not flushed.  This library stands between the server and
 * its files and writes down, before each change, what was there; an fsync throws
 * those notes away.  After a cut (tool.c) the notes that are left are
 * played backwards, and the files are as a disk would show them.
 *
 * Modelled: write, pwrite, pwritev, ftruncate, truncate, fallocate,
 * copy_file_range, O_TRUNC, O_SYNC and O_DSYNC; creation of a file (durable with
 * its own fsync, as on ext4 and XFS, or its directory's), rename, link and unlink (durable with the
 * directory's fsync).  sync_file_range makes nothing durable, which is true.
 * Not modelled: stdio, which the server uses only for files that it fsyncs or rebuilds;
 * mkdir, rmdir, symlink and renames of directories, which are durable at once;
 * syncfs, which is passed on and believed to have done nothing.
 *
 * It also stands in for a small disk: a volume's free bytes can be bounded, then
 * what would make a file grow beyond them fails with ENOSPC, and statvfs says so.
 *
 * FL_POWERCUT_ROOT is the data directory, FL_POWERCUT_SIDE the side folder made by
 * the tool; without them the library does nothing.  Invariants: a note is complete before its
 * change begins, and note and change happen under the file's journal lock, which a
 * killed process gives up; so kill -9 at any instant leaves the notes true.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fl_powercut.h"

#define MAX_FD		65536
#define CHUNK		(1024 * 1024)
#define PUNCH_FROM	(4 * 1024 * 1024)

/* What is known of a descriptor. */
enum
{
	FD_UNKNOWN = 0,
	FD_FOREIGN,
	FD_DATA,					/* 2 + volume */
	FD_WAL
};

static uint8_t fd_kind[MAX_FD];
static uint64_t fd_inode[MAX_FD];

static const char *side = NULL;
static char root[PATH_MAX];
static size_t root_len;
static FlControl *control = NULL;

#define REAL(ret, name, ...) static ret (*real_##name) (__VA_ARGS__)
REAL(int, open, const char *, int,...);
REAL(int, openat, int, const char *, int,...);
REAL(int, close, int);
REAL(int, fclose, FILE *);
REAL(int, dup2, int, int);
REAL(ssize_t, write, int, const void *, size_t);
REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
REAL(int, fsync, int);
REAL(int, fdatasync, int);
REAL(int, ftruncate, int, off_t);
REAL(int, truncate, const char *, off_t);
REAL(int, posix_fallocate, int, off_t, off_t);
REAL(int, fallocate, int, int, off_t, off_t);
REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
REAL(int, rename, const char *, const char *);
REAL(int, link, const char *, const char *);
REAL(int, unlink, const char *);
REAL(int, statvfs, const char *, struct statvfs *);

#define LOAD_ALL(X) \
	X(open) X(openat) X(close) X(fclose) X(dup2) X(write) X(pwrite) X(pwritev) X(fsync) \
	X(fdatasync) X(ftruncate) X(truncate) X(posix_fallocate) X(fallocate) X(copy_file_range) \
	X(rename) X(link) X(unlink) X(statvfs)

/* Calls may come from other libraries' constructors, before ours. */
static void
load(void)
{
	static int	loaded = 0;
	char		path[PATH_MAX];
	const char *dir;
	int			fd;

	if (loaded)
		return;
	loaded = 1;
#define LOAD(name) *(void **) &real_##name = dlsym(RTLD_NEXT, #name);
	LOAD_ALL(LOAD)

	dir = getenv("FL_POWERCUT_ROOT");
	side = getenv("FL_POWERCUT_SIDE");
	if (dir == NULL || side == NULL || realpath(dir, root) == NULL)
		return;
	side = strdup(side);
	root_len = strlen(root);
	snprintf(path, sizeof(path), "%s/control", side);
	fd = real_open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	control = mmap(NULL, sizeof(FlControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	real_close(fd);
	if (control == MAP_FAILED || control->magic != FL_CONTROL_MAGIC)
		control = NULL;
}

/* The tool looks here for whom to kill. */
static void
enter(void)
{
	control->pids[__atomic_fetch_add(&control->n_pids, 1, __ATOMIC_RELAXED) % FL_PIDS] = getpid();
}

static __attribute__((constructor)) void
fl_powercut_begin(void)
{
	load();
	if (control == NULL)
		return;
	enter();
	pthread_atfork(NULL, NULL, enter);
}

/* Nothing comes back from a machine without power. */
static void
stay_if_cut(void)
{
	while (__atomic_load_n(&control->cut, __ATOMIC_ACQUIRE))
		pause();
}

/* A test that cannot rely on the layer must not go on. */
static void
broken(const char *what)
{
	dprintf(2, "fl_powercut: %s: %s\n", what, strerror(errno));
	abort();
}

/* ---- which files are ours ------------------------------------------------------ */

/* Files that the server throws away or rebuilds at start. */
static int
excluded(const char *rest)
{
	static const char *const words[] = {
		"pgsql_tmp", "postmaster.", "pg_internal.init", "pg_stat_tmp/", "current_logfiles", "pg_dynshmem/", NULL
	};

	for (int i = 0; words[i] != NULL; i++)
		if (strstr(rest, words[i]) != NULL)
			return 1;
	return 0;
}

static int
kind_of_path(const char *path)
{
	if (strncmp(path, root, root_len) != 0 || path[root_len] != '/' || excluded(path + root_len))
		return FD_FOREIGN;
	return strncmp(path + root_len, "/pg_wal/", 8) == 0 ? FD_WAL : FD_DATA;
}

/* The server's paths are relative to its data directory, which is its own. */
static int
absolute(const char *path, char *buf)
{
	if (path[0] == '/')
		return snprintf(buf, PATH_MAX, "%s", path) < PATH_MAX;
	if (getcwd(buf, PATH_MAX) == NULL)
		return 0;
	if (strncmp(path, "./", 2) == 0)
		path += 2;
	{
		size_t		n = strlen(buf);

		return snprintf(buf + n, PATH_MAX - n, "/%s", path) < (int) (PATH_MAX - n);
	}
}

static int
is_ours_path(const char *path, char *buf)
{
	return control != NULL && absolute(path, buf) && kind_of_path(buf) != FD_FOREIGN;
}

static void
forget_fd(int fd)
{
	if (fd >= 0 && fd < MAX_FD)
		fd_kind[fd] = FD_UNKNOWN;
}

static int
classify(int fd)
{
	struct stat st;
	char		name[64],
				path[PATH_MAX];
	ssize_t		n;
	int			kind = FD_FOREIGN;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0)
	{
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, path, sizeof(path) - 1);
		if (n > 0)
		{
			path[n] = '\0';
			kind = kind_of_path(path);
		}
	}
	fd_inode[fd] = st.st_ino;
	fd_kind[fd] = (uint8_t) kind;
	return kind;
}

static int
is_ours(int fd)
{
	int			saved = errno;
	int			kind;

	load();
	if (control == NULL || fd < 0 || fd >= MAX_FD)
		return 0;
	kind = fd_kind[fd] != FD_UNKNOWN ? fd_kind[fd] : classify(fd);
	errno = saved;
	return kind != FD_FOREIGN;
}

/* ---- free space ------------------------------------------------------------------ */

static int64_t *
volume_of(int fd)
{
	return &control->free[fd_kind[fd] - FD_DATA];
}

/* Takes space for growth; 0 when there is not enough. */
static int
take_space(int64_t *left, int64_t growth)
{
	if (growth <= 0 || __atomic_load_n(left, __ATOMIC_RELAXED) < 0)
		return 1;
	if (__atomic_sub_fetch(left, growth, __ATOMIC_RELAXED) >= 0)
		return 1;
	__atomic_add_fetch(left, growth, __ATOMIC_RELAXED);
	__atomic_add_fetch(&control->refused, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
give_space(int64_t *left, int64_t bytes)
{
	if (bytes > 0 && __atomic_load_n(left, __ATOMIC_RELAXED) >= 0)
		__atomic_add_fetch(left, bytes, __ATOMIC_RELAXED);
}

/* ---- undo journals ------------------------------------------------------------------ */

typedef struct Journal
{
	int			fd;
	FlUndoHeader head;
} Journal;

static void
lock_file(int fd)
{
	while (flock(fd, LOCK_EX) != 0)
		if (errno != EINTR)
			broken("flock");
	stay_if_cut();
}

/* Opens and locks the journal of an inode; makes it when asked to. */
static int
journal_open(Journal *j, uint64_t inode, int create)
{
	char		path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/j/%llu", side, (unsigned long long) inode);
	j->fd = real_open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
	if (j->fd < 0)
	{
		if (create)
			broken(path);
		return 0;
	}
	lock_file(j->fd);
	if (pread(j->fd, &j->head, sizeof(j->head), 0) != sizeof(j->head))
		j->head = (FlUndoHeader) {.magic = FL_UNDO_MAGIC};
	return 1;
}

static void
journal_save(Journal *j)
{
	if (real_pwrite(j->fd, &j->head, sizeof(j->head), 0) != sizeof(j->head))
		broken("journal header");
}

static void
journal_close(Journal *j)
{
	real_close(j->fd);
}

/* Writes down what lies at [offset, offset + length) of a file; its change follows. */
static void
journal_note(Journal *j, int fd, uint64_t offset, uint64_t length, uint64_t size, int truncate)
{
	static char *buf = NULL;
	uint64_t	at = offset,
				end = offset + length;

	if (buf == NULL && (buf = malloc(CHUNK)) == NULL)
		broken("memory");
	do
	{
		uint64_t	n = end - at < CHUNK ? end - at : CHUNK;
		FlUndoRecord r = {FL_UNDO_MAGIC, (uint32_t) truncate, at, n, size, 0};
		struct iovec v[2] = {{&r, sizeof(r)}, {buf, 0}};
		off_t		to = (off_t) (sizeof(j->head) + j->head.end - j->head.base);

		if (at < size)
			r.saved = size - at < n ? size - at : n;
		if (r.saved > 0 && pread(fd, buf, r.saved, (off_t) at) != (ssize_t) r.saved)
		{
			/* A file that was opened for writing only. */
			char		name[64];
			int			other;
			ssize_t		got;

			snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
			other = real_open(name, O_RDONLY | O_CLOEXEC);
			got = pread(other, buf, r.saved, (off_t) at);
			real_close(other);
			if (got != (ssize_t) r.saved)
				broken("reading what is to be overwritten");
		}
		v[1].iov_len = r.saved;
		if (real_pwritev(j->fd, v, 2, to) != (ssize_t) (sizeof(r) + r.saved))
			broken("journal");
		j->head.end += sizeof(r) + r.saved;
		at += n;
	} while (at < end);
	journal_save(j);
}

/* Everything up to a position is durable. */
static void
journal_forget(Journal *j, uint64_t upto)
{
	uint64_t	from = j->head.start;

	if (upto <= from)
		return;
	j->head.start = upto;
	if (upto == j->head.end)
	{
		j->head.base = upto;
		if (real_ftruncate(j->fd, sizeof(j->head)) != 0)
			broken("journal");
	}
	else if (upto - j->head.base > PUNCH_FROM)
		(void) !real_fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096,
							   (off_t) (upto - j->head.base) / 4096 * 4096 - 4096);
	journal_save(j);
}

/* ---- the list of directory operations ------------------------------------------------- */

static int
ops_open(void)
{
	char		path[PATH_MAX];
	int			fd;

	snprintf(path, sizeof(path), "%s/ops", side);
	fd = real_open(path, O_RDWR | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		broken(path);
	lock_file(fd);
	return fd;
}

static __attribute__((format(printf, 2, 3))) void
ops_add(int fd, const char *format,...)
{
	char		line[3 * PATH_MAX];
	va_list		args;
	int			n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n >= (int) sizeof(line) || real_write(fd, line, n) != n)
		broken("ops");
}

static uint64_t
directory_inode(const char *path)
{
	char		dir[PATH_MAX];
	char	   *slash;
	struct stat st;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		return 0;
	*slash = '\0';
	return stat(dir, &st) == 0 ? st.st_ino : 0;
}

/* A second name for a file that is about to lose its own; 0 when there is no file. */
static uint64_t
keep_alive(const char *path, uint64_t dir)
{
	char		dead[PATH_MAX];
	uint64_t	n = __atomic_add_fetch(&control->seq, 1, __ATOMIC_RELAXED);

	snprintf(dead, sizeof(dead), "%s/dead/%llu.%llu", side, (unsigned long long) dir, (unsigned long long) n);
	return real_link(path, dead) == 0 ? n : 0;
}

static void
let_die(uint64_t dir, uint64_t n)
{
	char		dead[PATH_MAX];

	snprintf(dead, sizeof(dead), "%s/dead/%llu.%llu", side, (unsigned long long) dir, (unsigned long long) n);
	real_unlink(dead);
}

/* A directory was flushed: what it lost is lost for good. */
static void
bury(uint64_t dir)
{
	char		path[2 * PATH_MAX],
				prefix[32];
	DIR		   *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/dead", side);
	snprintf(prefix, sizeof(prefix), "%llu.", (unsigned long long) dir);
	if ((d = opendir(path)) == NULL)
		return;
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
		{
			struct stat st;

			snprintf(path, sizeof(path), "%s/dead/%s", side, e->d_name);
			if (stat(path, &st) == 0 && st.st_nlink == 1)
			{
				char		journal[PATH_MAX];

				snprintf(journal, sizeof(journal), "%s/j/%llu", side, (unsigned long long) st.st_ino);
				real_unlink(journal);
			}
			real_unlink(path);
		}
	closedir(d);
}

/* ---- changes of content ------------------------------------------------------------------ */

static int	sync_ours(int fd, int (*real) (int));

/* Before a write: takes the lock and notes; false with errno when the disk is full. */
static int
begin_write(Journal *j, int fd, uint64_t length, off_t *offset, int *synced)
{
	struct stat st;
	int			flags = fcntl(fd, F_GETFL);

	journal_open(j, fd_inode[fd], 1);
	if (fstat(fd, &st) != 0)
		broken("fstat");
	if (*offset < 0)
		*offset = flags & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
	if (!take_space(volume_of(fd), *offset + (int64_t) length - st.st_size))
	{
		journal_close(j);
		errno = ENOSPC;
		return 0;
	}
	journal_note(j, fd, *offset, length, st.st_size, 0);
	__atomic_add_fetch(&control->writes, 1, __ATOMIC_RELAXED);
	*synced = (flags & (O_SYNC | O_DSYNC)) != 0;
	return 1;
}

static int
no_fsync(int fd)
{
	(void) fd;
	return 0;
}

static ssize_t
end_write(Journal *j, int fd, ssize_t result, int synced)
{
	int			saved = errno;

	journal_close(j);
	if (synced && result >= 0)
		sync_ours(fd, no_fsync);
	errno = saved;
	return result;
}

ssize_t
write(int fd, const void *buf, size_t n)
{
	Journal		j;
	off_t		offset = -1;
	int			synced;

	if (!is_ours(fd))
		return real_write(fd, buf, n);
	if (!begin_write(&j, fd, n, &offset, &synced))
		return -1;
	return end_write(&j, fd, real_write(fd, buf, n), synced);
}

ssize_t
pwrite(int fd, const void *buf, size_t n, off_t offset)
{
	Journal		j;
	int			synced;

	if (!is_ours(fd))
		return real_pwrite(fd, buf, n, offset);
	if (!begin_write(&j, fd, n, &offset, &synced))
		return -1;
	return end_write(&j, fd, real_pwrite(fd, buf, n, offset), synced);
}

ssize_t
pwritev(int fd, const struct iovec *v, int count, off_t offset)
{
	Journal		j;
	uint64_t	n = 0;
	int			synced;

	if (!is_ours(fd))
		return real_pwritev(fd, v, count, offset);
	for (int i = 0; i < count; i++)
		n += v[i].iov_len;
	if (!begin_write(&j, fd, n, &offset, &synced))
		return -1;
	return end_write(&j, fd, real_pwritev(fd, v, count, offset), synced);
}

ssize_t
copy_file_range(int in, off64_t *in_off, int out, off64_t *out_off, size_t n, unsigned flags)
{
	Journal		j;
	off_t		offset = out_off != NULL ? *out_off : -1;
	int			synced;

	if (!is_ours(out))
		return real_copy_file_range(in, in_off, out, out_off, n, flags);
	if (!begin_write(&j, out, n, &offset, &synced))
		return -1;
	return end_write(&j, out, real_copy_file_range(in, in_off, out, out_off, n, flags), synced);
}

int
ftruncate(int fd, off_t length)
{
	Journal		j;
	struct stat st;
	int			result;

	if (!is_ours(fd))
		return real_ftruncate(fd, length);
	journal_open(&j, fd_inode[fd], 1);
	if (fstat(fd, &st) != 0)
		broken("fstat");
	journal_note(&j, fd, length, length < st.st_size ? st.st_size - length : 0, st.st_size, 1);
	result = real_ftruncate(fd, length);
	if (result == 0)
		give_space(volume_of(fd), st.st_size - length);
	end_write(&j, fd, result, 0);
	return result;
}

int
truncate(const char *path, off_t length)
{
	char		full[PATH_MAX];
	int			fd,
				result,
				saved;

	load();
	if (!is_ours_path(path, full))
		return real_truncate(path, length);
	fd = real_open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	forget_fd(fd);
	result = ftruncate(fd, length);
	saved = errno;
	forget_fd(fd);
	real_close(fd);
	errno = saved;
	return result;
}

/* Only growth is noted: nothing that was there changes.  Punching holes and the like is not what a server does. */
static int
allocate(int fd, int mode, off_t offset, off_t length, int posix)
{
	Journal		j;
	struct stat st;
	int			result = ENOSPC;

	journal_open(&j, fd_inode[fd], 1);
	if (fstat(fd, &st) != 0)
		broken("fstat");
	if (take_space(volume_of(fd), offset + length - st.st_size))
	{
		journal_note(&j, fd, st.st_size, 0, st.st_size, 0);
		if (posix)
			result = real_posix_fallocate(fd, offset, length);
		else
			result = real_fallocate(fd, mode, offset, length) == 0 ? 0 : errno;
	}
	journal_close(&j);
	return result;
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	return is_ours(fd) ? allocate(fd, 0, offset, length, 1) : real_posix_fallocate(fd, offset, length);
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (!is_ours(fd))
		return real_fallocate(fd, mode, offset, length);
	errno = allocate(fd, mode, offset, length, 0);
	return errno == 0 ? 0 : -1;
}

/* ---- what makes it durable ------------------------------------------------------------------ */

static int
sync_ours(int fd, int (*real) (int))
{
	Journal		j;
	uint64_t	upto;
	int			created,
				result;

	if (!journal_open(&j, fd_inode[fd], 0))
		return control->skip_fsync ? 0 : real(fd);
	upto = j.head.end;
	journal_close(&j);

	if (control->fsync_delay_us > 0)
		usleep(control->fsync_delay_us);
	result = control->skip_fsync ? 0 : real(fd);
	if (result != 0)
		return result;
	if (!journal_open(&j, fd_inode[fd], 0))
		return 0;
	created = j.head.created;
	j.head.created = 0;
	journal_forget(&j, upto);
	journal_save(&j);
	journal_close(&j);
	if (created)
	{
		int			ops = ops_open();

		ops_add(ops, "F\t%llu\n", (unsigned long long) fd_inode[fd]);
		real_close(ops);
	}
	__atomic_add_fetch(&control->fsyncs, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
sync_directory(int fd)
{
	struct stat st;
	int			saved = errno,
				ops;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
	{
		ops = ops_open();
		ops_add(ops, "S\t%llu\n", (unsigned long long) st.st_ino);
		bury(st.st_ino);
		real_close(ops);
	}
	errno = saved;
}

static int
sync_any(int fd, int (*real) (int))
{
	int			result;

	if (is_ours(fd))
		return sync_ours(fd, real);
	result = real(fd);
	if (result == 0 && control != NULL)
		sync_directory(fd);
	return result;
}

int
fsync(int fd)
{
	load();
	return sync_any(fd, real_fsync);
}

int
fdatasync(int fd)
{
	load();
	return sync_any(fd, real_fdatasync);
}

/* ---- names --------------------------------------------------------------------------------- */

static int
open_ours(const char *path, const char *full, int flags, mode_t mode)
{
	int			ops,
				fd;

	if (flags & O_CREAT)
	{
		ops = ops_open();
		fd = real_open(path, (flags & ~O_TRUNC) | O_EXCL, mode);
		if (fd >= 0)
		{
			struct stat st;
			Journal		j;

			forget_fd(fd);
			if (fstat(fd, &st) != 0)
				broken("fstat");
			journal_open(&j, st.st_ino, 1);
			j.head.created = 1;
			journal_save(&j);
			journal_close(&j);
			ops_add(ops, "C\t%llu\t%llu\t%s\n", (unsigned long long) directory_inode(full),
					(unsigned long long) st.st_ino, full);
		}
		else if (errno == EEXIST && (flags & O_EXCL) == 0)
		{
			real_close(ops);
			return open_ours(path, full, flags & ~O_CREAT, mode);
		}
		{
			int			saved = errno;

			real_close(ops);
			errno = saved;
		}
		return fd;
	}
	fd = real_open(path, flags & ~O_TRUNC, mode);
	forget_fd(fd);
	if (fd >= 0 && (flags & O_TRUNC) && ftruncate(fd, 0) != 0)
		broken("O_TRUNC");
	return fd;
}

static int
open_any(const char *path, int flags, mode_t mode)
{
	char		full[PATH_MAX];
	int			fd;

	load();
	if ((flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE && is_ours_path(path, full))
		return open_ours(path, full, flags, mode);
	fd = real_open(path, flags, mode);
	forget_fd(fd);
	return fd;
}

#define OPEN_MODE(flags, mode) \
	if ((flags) & (O_CREAT | O_TMPFILE)) \
	{ \
		va_list args; \
		va_start(args, flags); \
		mode = va_arg(args, mode_t); \
		va_end(args); \
	}

int
open(const char *path, int flags,...)
{
	mode_t		mode = 0;

	OPEN_MODE(flags, mode);
	return open_any(path, flags, mode);
}

int
openat(int dir, const char *path, int flags,...)
{
	mode_t		mode = 0;
	int			fd;

	OPEN_MODE(flags, mode);
	load();
	if (dir == AT_FDCWD || path[0] == '/')
		return open_any(path, flags, mode);
	fd = real_openat(dir, path, flags, mode);
	forget_fd(fd);
	return fd;
}

int
close(int fd)
{
	load();
	forget_fd(fd);
	return real_close(fd);
}

int
fclose(FILE *file)
{
	load();
	forget_fd(fileno(file));
	return real_fclose(file);
}

int
dup2(int from, int to)
{
	load();
	forget_fd(to);
	return real_dup2(from, to);
}

int
rename(const char *from, const char *to)
{
	char		old[PATH_MAX],
				new[PATH_MAX];
	struct stat st;
	uint64_t	dir,
				dead;
	int			ops,
				result,
				saved;

	load();
	if (!is_ours_path(to, new) || !absolute(from, old) || lstat(old, &st) != 0 || S_ISDIR(st.st_mode))
		return real_rename(from, to);
	ops = ops_open();
	dir = directory_inode(new);
	dead = keep_alive(new, dir);
	result = real_rename(from, to);
	saved = errno;
	if (result == 0)
		ops_add(ops, "R\t%llu\t%llu\t%s\t%s\n", (unsigned long long) dir, (unsigned long long) dead, old, new);
	else if (dead)
		let_die(dir, dead);
	real_close(ops);
	errno = saved;
	return result;
}

int
link(const char *from, const char *to)
{
	char		new[PATH_MAX];
	int			ops,
				result,
				saved;

	load();
	if (!is_ours_path(to, new))
		return real_link(from, to);
	ops = ops_open();
	result = real_link(from, to);
	saved = errno;
	if (result == 0)
		ops_add(ops, "L\t%llu\t%s\n", (unsigned long long) directory_inode(new), new);
	real_close(ops);
	errno = saved;
	return result;
}

int
unlink(const char *path)
{
	char		full[PATH_MAX];
	struct stat st;
	uint64_t	dir,
				dead;
	int			ops,
				result,
				saved;

	load();
	if (!is_ours_path(path, full) || lstat(full, &st) != 0 || !S_ISREG(st.st_mode))
		return real_unlink(path);
	ops = ops_open();
	dir = directory_inode(full);
	dead = keep_alive(full, dir);
	result = real_unlink(path);
	saved = errno;
	if (result == 0)
	{
		ops_add(ops, "U\t%llu\t%llu\t%s\n", (unsigned long long) dir, (unsigned long long) dead, full);
		if (st.st_nlink == 1)
			give_space(&control->free[kind_of_path(full) - FD_DATA], st.st_size);
	}
	else if (dead)
		let_die(dir, dead);
	real_close(ops);
	errno = saved;
	return result;
}

int
statvfs(const char *path, struct statvfs *out)
{
	char		full[PATH_MAX];
	int			result;

	load();
	result = real_statvfs(path, out);
	if (result == 0 && control != NULL && absolute(path, full) &&
		strncmp(full, root, root_len) == 0 && (full[root_len] == '/' || full[root_len] == '\0'))
	{
		int64_t		left = control->free[strncmp(full + root_len, "/pg_wal", 7) == 0 ? FL_VOLUME_WAL : FL_VOLUME_DATA];

		if (left >= 0)
			out->f_bavail = out->f_bfree = (fsblkcnt_t) (left / (int64_t) out->f_frsize);
	}
	return result;
}

/* The same under the names that large-file builds use. */
#define ALIAS(name, ...) __VA_ARGS__ __attribute__((alias(#name)))
ALIAS(open, int open64(const char *, int,...));
ALIAS(openat, int openat64(int, const char *, int,...));
ALIAS(pwrite, ssize_t pwrite64(int, const void *, size_t, off_t));
ALIAS(pwritev, ssize_t pwritev64(int, const struct iovec *, int, off_t));
ALIAS(ftruncate, int ftruncate64(int, off_t));
ALIAS(truncate, int truncate64(const char *, off_t));
ALIAS(fallocate, int fallocate64(int, int, off_t, off_t));
ALIAS(posix_fallocate, int posix_fallocate64(int, off_t, off_t));

/* Where files are large anyway, the two structures are one. */
int
statvfs64(const char *path, struct statvfs64 *out)
{
	_Static_assert(sizeof(struct statvfs64) == sizeof(struct statvfs), "64-bit machine");
	return statvfs(path, (struct statvfs *) out);
}
