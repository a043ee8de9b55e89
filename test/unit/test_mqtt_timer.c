/*
 * test_mqtt_timer.c
 *		The timer wheel: everything fires once, in time, whatever the clock does.
 */
#include "fl_unit.h"

#include "../../bgworker/net/timer.c"

#define N 2000

typedef struct Entry
{
	FlTimer timer; /* must come first */
	int64_t due;
	int fired;
} Entry;

static Entry entries[N];
static int64_t clock_ms;
static int64_t last_ms; /* clock at the advance before */
static FlTimerWheel wheel;

static void
on_fire(FlTimer *timer, void *arg)
{
	Entry *e = (Entry *) timer;

	(void) arg;
	e->fired++;
	FL_CHECK(!fl_timer_is_armed(timer));
	FL_CHECK(e->due <= clock_ms);
	/* It was not due, within a tick, at the advance before. */
	FL_CHECK(e->due + FL_TIMER_TICK_MS > last_ms);
}

static void
arm(Entry *e, int64_t due)
{
	e->due = due;
	e->fired = 0;
	fl_timer_arm(&wheel, &e->timer, due);
}

static void
advance(int64_t ms)
{
	last_ms = clock_ms;
	clock_ms += ms;
	fl_timer_advance(&wheel, clock_ms, on_fire, NULL);
}

static void
test_random_times(void)
{
	memset(entries, 0, sizeof(entries));
	clock_ms = last_ms = 1000000007;
	fl_timer_wheel_init(&wheel, clock_ms);
	for (int round = 0; round < 20; round++)
	{
		int left = N;

		for (int i = 0; i < N; i++)
		{
			int64_t span = INT64_C(1) << fl_unit_random_below(34);

			arm(&entries[i], clock_ms + 1 + (int64_t) (fl_unit_random() % (uint64_t) span));
		}
		FL_CHECK_INT(wheel.armed, N);
		while (left > 0)
		{
			int64_t wait = fl_timer_wait(&wheel, clock_ms);
			int64_t first = INT64_MAX;

			for (int i = 0; i < N; i++)
				if (entries[i].fired == 0 && entries[i].due < first)
					first = entries[i].due;
			FL_CHECK(wait >= 0);
			/* Never told to sleep past the next timer and its tick. */
			FL_CHECK(wait <= (first > clock_ms ? first - clock_ms : 0) + FL_TIMER_TICK_MS);
			advance(wait > 0 ? wait : 1);
			left = 0;
			for (int i = 0; i < N; i++)
			{
				FL_CHECK(entries[i].fired <= 1);
				if (entries[i].fired == 0)
				{
					left++;
					FL_CHECK(entries[i].due + FL_TIMER_TICK_MS > clock_ms);
				}
			}
		}
		FL_CHECK_INT(wheel.armed, 0);
	}
	FL_CHECK_INT(fl_timer_wait(&wheel, clock_ms), -1);
}

/* A clock that jumps by days fires all that lies between, once. */
static void
test_jump(void)
{
	memset(entries, 0, sizeof(entries));
	clock_ms = last_ms = 42;
	fl_timer_wheel_init(&wheel, clock_ms);
	for (int i = 0; i < N; i++)
		arm(&entries[i], clock_ms + 1 + (int64_t) i * 60000);
	advance(INT64_C(86400000) * 10);
	for (int i = 0; i < N; i++)
		FL_CHECK_INT(entries[i].fired, 1);
}

static void
test_cancel_and_rearm(void)
{
	memset(entries, 0, sizeof(entries));
	clock_ms = last_ms = 5000;
	fl_timer_wheel_init(&wheel, clock_ms);
	arm(&entries[0], clock_ms + 100);
	arm(&entries[1], clock_ms + 100);
	fl_timer_cancel(&wheel, &entries[0].timer);
	fl_timer_cancel(&wheel, &entries[0].timer);
	FL_CHECK_INT(wheel.armed, 1);
	fl_timer_cancel(&wheel, &entries[1].timer);
	FL_CHECK_INT(fl_timer_wait(&wheel, clock_ms), -1);
	advance(1000);
	FL_CHECK_INT(entries[0].fired + entries[1].fired, 0);
	/* A keep alive that is moved on a thousand times fires once. */
	for (int i = 0; i < 1000; i++)
	{
		arm(&entries[2], clock_ms + 1500);
		advance(10);
		FL_CHECK_INT(entries[2].fired, 0);
	}
	advance(2000);
	FL_CHECK_INT(entries[2].fired, 1);
	/* The past means soon. */
	arm(&entries[3], clock_ms - 100000);
	entries[3].due = clock_ms;
	advance(FL_TIMER_TICK_MS * 2);
	FL_CHECK_INT(entries[3].fired, 1);
}

FL_UNIT_MAIN(FL_RUN(test_random_times); FL_RUN(test_jump); FL_RUN(test_cancel_and_rearm);)
