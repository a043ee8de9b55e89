/*-------------------------------------------------------------------------
 *
 * truth.c
 *		The log of what a server has promised and of what it has delivered.
 *
 * Lines of text, one for each event, fields separated by a space:
 *
 *	A connection sequence packet-id nanoseconds			acknowledged (PUBACK or PUBCOMP without an error)
 *	S connection sequence packet-id flags nanoseconds	sent again after a reconnect; flags: d with DUP, - without
 *	R subscriber connection sequence flags nanoseconds	received; flags are letters: d dup, r retained, - none
 *	E connection sent									at the end: messages 0 .. sent - 1 have left at least once
 *
 * The time is CLOCK_MONOTONIC, as in the payload.  All processes append to one
 * file; since each hands over whole lines only, they do not mix.  The file is
 * behind by 100 ms at most, so that whoever kills this program as well has all
 * but the last moment of it.  check_truth.pl compares it with a stream.
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
#define FLUSH_TIME  (100 * FL_MS)

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

/* Bytes in the buffer. */
static size_t buffered;

static void
hand_over(FILE *f)
{
	if (fflush(f) != 0)
	{
		perror("fl_load: truth log");
		exit(1);
	}
	buffered = 0;
}

/* A buffer that fills in the middle of a line would be written there, and another process's line fall in between. */
static void __attribute__((format(printf, 2, 3))) put_line(FILE *f, const char *format, ...)
{
	va_list args;
	int n;

	if (buffered + LINE_SIZE > BUFFER_SIZE)
		hand_over(f);
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
fl_truth_resent(FlProc *p, const FlConn *c, const FlSlot *slot, bool dup)
{
	if (p->truth != NULL)
		put_line(p->truth, "S %d %llu %u %c %lld\n", c->number, (unsigned long long) slot->seq, slot->id, dup ? 'd' : '-',
				 (long long) fl_now());
}

void
fl_truth_received(FlProc *p, const FlConn *c, const FlMqPublish *m, int number, uint64_t seq, int64_t now)
{
	if (p->truth != NULL)
		put_line(p->truth, "R %d %d %llu %s%s%s %lld\n", c->number, number, (unsigned long long) seq, m->dup ? "d" : "",
				 m->retain ? "r" : "", m->dup || m->retain ? "" : "-", (long long) now);
}

void
fl_truth_flush(FlProc *p, int64_t now)
{
	static int64_t last;

	if (p->truth == NULL || buffered == 0 || now - last < FLUSH_TIME)
		return;
	last = now;
	hand_over(p->truth);
}

void
fl_truth_close(FlProc *p)
{
	if (p->truth == NULL)
		return;
	for (int i = 0; i < p->npublishers; i++)
		put_line(p->truth, "E %d %llu\n", p->conns[i].number, (unsigned long long) p->conns[i].seq);
	hand_over(p->truth);
	if (fclose(p->truth) != 0)
	{
		perror("fl_load: truth log");
		exit(1);
	}
}
