/*-------------------------------------------------------------------------
 *
 * truth.c
 *		The log of what the server has promised, in the form that
 *		test/bench/check_truth.pl reads (test/bench/README.md).
 *
 * All herds append to one file.  Each hands over whole lines only, at most
 * 100 ms late, so lines do not mix, and whoever kills this program as well has
 * all but its last moment.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_SIZE (64 * 1024)
#define LINE_SIZE   160
#define FLUSH_TIME  (100 * FL_MS)

static char buffer[BUFFER_SIZE];
static size_t buffered; /* bytes that the stream has not handed over */

static void
give_up(const char *what)
{
	perror(what);
	exit(1);
}

FILE *
fl_fleet_truth_open(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "a");

	if (f == NULL)
		give_up(name);
	setvbuf(f, buffer, _IOFBF, BUFFER_SIZE);
	return f;
}

static void
hand_over(FlHerd *h)
{
	if (fflush(h->truth) != 0)
		give_up("fl_fleet: truth log");
	buffered = 0;
}

void
fl_fleet_truth(FlHerd *h, const char *format, ...)
{
	va_list args;
	int n;

	if (h->truth == NULL)
		return;
	/* A buffer that fills in the middle of a line would be written there. */
	if (buffered + LINE_SIZE > BUFFER_SIZE)
		hand_over(h);
	va_start(args, format);
	n = vfprintf(h->truth, format, args);
	va_end(args);
	if (n < 0)
		give_up("fl_fleet: truth log");
	buffered += n;
}

void
fl_fleet_truth_flush(FlHerd *h, int64_t now)
{
	static int64_t last;

	if (buffered == 0 || now - last < FLUSH_TIME)
		return;
	last = now;
	hand_over(h);
}

void
fl_fleet_truth_close(FlHerd *h)
{
	if (h->truth == NULL)
		return;
	for (int i = 0; i < h->ndevices; i++)
	{
		for (int class = 0; class < FL_CLASSES; class ++)
			fl_fleet_truth(h, "E %d %llu\n", 10 * h->devices[i].number + class,
						   (unsigned long long) h->devices[i].seq[class]);
	}
	hand_over(h);
	if (fclose(h->truth) != 0)
		give_up("fl_fleet: truth log");
}
