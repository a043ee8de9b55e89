/*
 * timer.h
 *		A hierarchical timer wheel: arming, cancelling and firing cost the same
 *		however many timers there are.
 *
 * Why so: a worker holds a timer for every connection (CONNECT timeout, keep
 * alive), nearly all of which are moved before they fire.
 *
 * The wheel knows no clock: whoever owns it passes the time, which is how tests
 * move it.  Times are milliseconds on any scale that does not step back; a
 * timer fires up to FL_TIMER_TICK_MS late, never early.
 *
 * No server headers: it is unit-tested alone.
 */
#ifndef FLEETLOG_TIMER_H
#define FLEETLOG_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define FL_TIMER_TICK_MS 8
#define FL_TIMER_LEVELS  5
#define FL_TIMER_SLOTS   64

/* Embedded in what it belongs to; zeroed memory is a timer that is not armed. */
typedef struct FlTimer
{
	struct FlTimer *next;
	struct FlTimer *prev;
	int64_t due; /* in ticks */
} FlTimer;

typedef struct FlTimerWheel
{
	int64_t now; /* in ticks; everything due up to it has fired */
	uint32_t armed;
	uint64_t occupied[FL_TIMER_LEVELS];              /* bit per slot that is not empty */
	FlTimer slots[FL_TIMER_LEVELS * FL_TIMER_SLOTS]; /* list heads */
} FlTimerWheel;

/* Called with the timer no longer armed; may arm and cancel any timer. */
typedef void (*FlTimerFire)(FlTimer *timer, void *arg);

extern void fl_timer_wheel_init(FlTimerWheel *wheel, int64_t now_ms);

/* (Re)arms; a time in the past means at the next advance. */
extern void fl_timer_arm(FlTimerWheel *wheel, FlTimer *timer, int64_t due_ms);
extern void fl_timer_cancel(FlTimerWheel *wheel, FlTimer *timer);

static inline bool
fl_timer_is_armed(const FlTimer *timer)
{
	return timer->next != 0;
}

/* Fires what is due at now_ms. */
extern void fl_timer_advance(FlTimerWheel *wheel, int64_t now_ms, FlTimerFire fire, void *arg);

/*
 * Milliseconds from now_ms after which advance should be called again, or -1
 * when no timer is armed.  It may be earlier than the next timer (when a far
 * one moves to a finer level), never later.
 */
extern int64_t fl_timer_wait(const FlTimerWheel *wheel, int64_t now_ms);

#endif /* FLEETLOG_TIMER_H */
