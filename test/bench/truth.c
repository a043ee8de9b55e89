/*-------------------------------------------------------------------------
 *
 * truth.c
 *		The log of what a server has promised and of what it has delivered.
 *
 * Lines of text, one for each event, fields separated by a space:
 *
 *	A connection sequence packet-id nanoseconds			acknowledged (PUBACK or PUBCOMP without an error)
 *	R subscriber connection sequence flags nanoseconds	received; flags are letters: d dup, r retained, - none
 *
 * The time is CLOCK_MONOTONIC, as in the payload.  All processes append to one
 * file; since each hands over whole lines only, they do not mix.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_SIZE (64 * 1024)
#define LINE_SIZE   160

FILE *
fl_truth_open(const char *name)
{
	/* The C library takes a size only together with a buffer. */
	static char buffer[BUFFER_SIZE];
	int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "a");

	if (f == NULL)
	{
		perror(name);
		exit(1);
	}
	setvbuf(f, buffer, _IOFBF, BUFFER_SIZE);
	return f;
}

/* A buffer that fills in the middle of a line would be written there, and another process's line fall in between. */
static void
put_line(FILE *f, const char *format, ...)
{
	static size_t buffered;
	va_list args;
	int n;

	if (buffered + LINE_SIZE > BUFFER_SIZE)
	{
		fflush(f);
		buffered = 0;
	}
	va_start(args, format);
	n = vfprintf(f, format, args);
	va_end(args);
	if (n < 0)
	{
		perror("fl_load: truth log");
		exit(1);
	}
	buffered += n;
}

void
fl_truth_acked(FlProc *p, const FlConn *c, const FlSlot *slot, int64_t now)
{
	if (p->truth != NULL)
		put_line(p->truth, "A %d %llu %u %lld\n", c->number, (unsigned long long) slot->seq, slot->id, (long long) now);
}

void
fl_truth_received(FlProc *p, const FlConn *c, const FlMqPublish *m, int number, uint64_t seq, int64_t now)
{
	if (p->truth != NULL)
		put_line(p->truth, "R %d %d %llu %s%s%s %lld\n", c->number, number, (unsigned long long) seq, m->dup ? "d" : "",
				 m->retain ? "r" : "", m->dup || m->retain ? "" : "-", (long long) now);
}
