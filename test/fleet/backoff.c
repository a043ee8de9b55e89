/*-------------------------------------------------------------------------
 *
 * backoff.c
 *		Full-jitter exponential back-off: see backoff.h for the law and why.
 *
 *-------------------------------------------------------------------------
 */
#include "backoff.h"

/* Uniform in [0, limit].  The bias of a remainder of 64 bits is beyond measuring for any limit that is a time. */
static int64_t
uniform(uint64_t random, int64_t limit)
{
	return (int64_t) (random % ((uint64_t) limit + 1));
}

int64_t
fl_backoff_window(const FlBackoffLaw *law, int failures, FlCause cause)
{
	int64_t factor = cause == FL_CAUSE_BUSY ? law->busy_factor : 1;
	int64_t cap = law->cap * factor;
	int64_t base = law->base * factor;

	if (cause == FL_CAUSE_DENIED || cause == FL_CAUSE_TAKEN_OVER)
		return law->long_cap;
	/* Compared this way round, so that nothing overflows. */
	if (failures > FL_BACKOFF_MAX || base > cap >> failures)
		return cap;
	return base << failures;
}

int64_t
fl_backoff_pause(const FlBackoffLaw *law, int failures, FlCause cause, uint64_t random)
{
	int64_t window = fl_backoff_window(law, failures, cause);

	switch (cause)
	{
		case FL_CAUSE_BROKEN:
		case FL_CAUSE_BUSY:
			break;
		case FL_CAUSE_DENIED:
		case FL_CAUSE_TAKEN_OVER:
			return window / 2 + uniform(random, window - window / 2);
		case FL_CAUSES:
			break;
	}
	return uniform(random, window);
}

int64_t
fl_backoff_next(const FlBackoffLaw *law, int *failures, int64_t lived, FlCause cause, uint64_t random)
{
	int64_t pause;

	if (lived >= law->stable)
		*failures = 0;
	pause = fl_backoff_pause(law, *failures, cause, random);
	if (*failures < FL_BACKOFF_MAX)
		(*failures)++;
	return pause;
}

FlCause
fl_backoff_cause(int version, uint8_t code)
{
	if (version != 5)
	{
		/* MQTT 3.1.1, table 3.1: 3 is "server unavailable"; 1, 2, 4 and 5 do not heal by themselves. */
		if (code == 3)
			return FL_CAUSE_BUSY;
		return code >= 1 && code <= 5 ? FL_CAUSE_DENIED : FL_CAUSE_BROKEN;
	}
	switch (code)
	{
		case 0x88: /* server unavailable */
		case 0x89: /* server busy */
		case 0x8b: /* server shutting down */
		case 0x96: /* message rate too high */
		case 0x97: /* quota exceeded */
		case 0x9c: /* use another server */
		case 0x9d: /* server moved */
		case 0x9f: /* connection rate exceeded */
			return FL_CAUSE_BUSY;
		case 0x84: /* unsupported protocol version */
		case 0x85: /* client identifier not valid */
		case 0x86: /* bad user name or password */
		case 0x87: /* not authorized */
		case 0x8a: /* banned */
		case 0x8c: /* bad authentication method */
			return FL_CAUSE_DENIED;
		case 0x8e:
			return FL_CAUSE_TAKEN_OVER;
		default:
			return FL_CAUSE_BROKEN;
	}
}
