/*-------------------------------------------------------------------------
 *
 * backoff.h
 *		How long a well-behaved device waits before it connects again.
 *
 * The law is full jitter: the pause is uniform in [0, window], and the window
 * is min(cap, base * 2^n) after n failures in a row.  A crowd that fails at
 * one moment so spreads over the whole window instead of coming back in waves.
 * n returns to 0 only after a connection that has lived a while: a server that
 * lets devices in and throws them out again must not be hammered.
 *
 * What the server says counts.  "Busy" widens the window at once; a refusal
 * that will not heal by itself gets a pause that is long for certain.
 *
 * Pure functions over the caller's random number, so that they can be tested
 * without a clock; all times are nanoseconds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_FLEET_BACKOFF_H
#define FL_FLEET_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* Why a connection is no more, as far as it matters for coming back. */
typedef enum FlCause
{
	FL_CAUSE_BROKEN,     /* no connection, no answer, or closed without a reason */
	FL_CAUSE_BUSY,       /* server busy, unavailable, shutting down, quota or rate exceeded, use another server */
	FL_CAUSE_DENIED,     /* identity, password, right or version are not accepted */
	FL_CAUSE_TAKEN_OVER, /* somebody else uses our client identifier; who fights over it makes two devices flap */
	FL_CAUSES
} FlCause;

typedef struct FlBackoffLaw
{
	int64_t base;
	int64_t cap;
	int64_t stable;   /* a connection that lived so long makes up for all failures before it */
	int busy_factor;  /* base and cap are so many times longer after FL_CAUSE_BUSY */
	int64_t long_cap; /* after DENIED and TAKEN_OVER: uniform in [long_cap / 2, long_cap] */
} FlBackoffLaw;

/* Failures in a row are counted up to here; base * 2^30 is beyond any cap that makes sense. */
#define FL_BACKOFF_MAX 30

/* The largest pause after `failures` failures in a row. */
extern int64_t fl_backoff_window(const FlBackoffLaw *law, int failures, FlCause cause);

/* The pause itself, of 64 random bits. */
extern int64_t fl_backoff_pause(const FlBackoffLaw *law, int failures, FlCause cause, uint64_t random);

/*
 * One more connection (or attempt: lived 0) has ended: the pause before the next one.  *failures, the failures in a
 * row before it, is kept up to date.
 */
extern int64_t fl_backoff_next(const FlBackoffLaw *law, int *failures, int64_t lived, FlCause cause, uint64_t random);

/* What a code of CONNACK or DISCONNECT means for coming back.  version: 4 or 5, as in CONNECT. */
extern FlCause fl_backoff_cause(int version, uint8_t code);

#endif /* FL_FLEET_BACKOFF_H */
