/*-------------------------------------------------------------------------
 *
 * victim.c
 *		A program whose power is cut, to show what the layer reverts.
 *
 * Runs one command a line from its standard input in the folder it was given,
 * and answers each with "ok" or the error's name; the test knows what must be left.
 *
 *	open NAME [creat] [trunc] [dsync]	write TEXT		pwrite OFFSET TEXT
 *	truncate SIZE	allocate SIZE	fsync	close	fsyncdir	rename A B	unlink A	link A B
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int	file = -1;

static int
open_file(const char *name, const char *flags)
{
	int			f = O_RDWR;

	if (strstr(flags, "creat"))
		f |= O_CREAT;
	if (strstr(flags, "trunc"))
		f |= O_TRUNC;
	if (strstr(flags, "dsync"))
		f |= O_DSYNC;
	file = open(name, f, 0600);
	return file < 0 ? -1 : 0;
}

static int
fsync_directory(void)
{
	int			fd = open(".", O_RDONLY);
	int			result = fsync(fd);

	close(fd);
	return result;
}

static int
run(char *line)
{
	char		word[32] = "",
				a[256] = "",
				b[256] = "";

	if (sscanf(line, "%31s %255s %255[^\n]", word, a, b) < 1)
		return -1;
	if (strcmp(word, "open") == 0)
		return open_file(a, b);
	if (strcmp(word, "write") == 0)
		return write(file, a, strlen(a)) == (ssize_t) strlen(a) ? 0 : -1;
	if (strcmp(word, "pwrite") == 0)
		return pwrite(file, b, strlen(b), atol(a)) == (ssize_t) strlen(b) ? 0 : -1;
	if (strcmp(word, "truncate") == 0)
		return ftruncate(file, atol(a));
	if (strcmp(word, "allocate") == 0)
		return fallocate(file, 0, 0, atol(a));
	if (strcmp(word, "fsync") == 0)
		return fdatasync(file);
	if (strcmp(word, "close") == 0)
		return close(file);
	if (strcmp(word, "fsyncdir") == 0)
		return fsync_directory();
	if (strcmp(word, "rename") == 0)
		return rename(a, b);
	if (strcmp(word, "unlink") == 0)
		return unlink(a);
	if (strcmp(word, "link") == 0)
		return link(a, b);
	errno = EINVAL;
	return -1;
}

int
main(int argc, char **argv)
{
	char		line[1024];

	if (argc != 2 || chdir(argv[1]) != 0)
		return 2;
	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		printf("%s\n", run(line) == 0 ? "ok" : strerrorname_np(errno));
		fflush(stdout);
	}
	return 0;
}
