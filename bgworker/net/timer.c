/*
 * timer.c
 *		The timer wheel of timer.h.
 *
 * Five levels of 64 slots.  A slot of level n covers 64^n ticks; when the time
 * reaches it, its timers move ("cascade") to finer levels.  A bitmap per level
 * lets an idle wheel jump over empty slots, so that a clock moved by hours
 * (tests, a suspended machine) costs no walk over every tick.
 *
 * Invariant: a timer with due tick d in level n satisfies d - now < 64^(n+1)
 * when it was put there, and is moved down before now reaches d.
 */
#include "fleetlog/timer.h"

#include <stddef.h>

#define SLOT_BITS 6
#define SLOT_MASK (FL_TIMER_SLOTS - 1)
#define MAX_DELTA ((INT64_C(1) << (SLOT_BITS * FL_TIMER_LEVELS)) - 1)

void
fl_timer_wheel_init(FlTimerWheel *wheel, int64_t now_ms)
{
	wheel->now = now_ms / FL_TIMER_TICK_MS;
	wheel->armed = 0;
	for (int level = 0; level < FL_TIMER_LEVELS; level++)
		wheel->occupied[level] = 0;
	for (int i = 0; i < FL_TIMER_LEVELS * FL_TIMER_SLOTS; i++)
	{
		wheel->slots[i].next = wheel->slots[i].prev = &wheel->slots[i];
		wheel->slots[i].due = 0;
	}
}

static void
put(FlTimerWheel *wheel, FlTimer *timer)
{
	int64_t delta = timer->due - wheel->now;
	int64_t at = delta > MAX_DELTA ? wheel->now + MAX_DELTA : timer->due;
	int level = 0;
	int slot;
	FlTimer *head;

	while (level < FL_TIMER_LEVELS - 1 && (delta >> (SLOT_BITS * (level + 1))) != 0)
		level++;
	slot = (int) (at >> (SLOT_BITS * level)) & SLOT_MASK;
	head = &wheel->slots[level * FL_TIMER_SLOTS + slot];
	timer->next = head;
	timer->prev = head->prev;
	head->prev->next = timer;
	head->prev = timer;
	wheel->occupied[level] |= UINT64_C(1) << slot;
}

static void
unlink_timer(FlTimerWheel *wheel, FlTimer *timer)
{
	FlTimer *head = timer->next == timer->prev ? timer->next : NULL;

	timer->next->prev = timer->prev;
	timer->prev->next = timer->next;
	timer->next = timer->prev = NULL;
	/* The last of its list: its only neighbour is the list head itself. */
	if (head >= wheel->slots && head < wheel->slots + FL_TIMER_LEVELS * FL_TIMER_SLOTS)
	{
		ptrdiff_t i = head - wheel->slots;

		wheel->occupied[i / FL_TIMER_SLOTS] &= ~(UINT64_C(1) << (i % FL_TIMER_SLOTS));
	}
}

void
fl_timer_arm(FlTimerWheel *wheel, FlTimer *timer, int64_t due_ms)
{
	int64_t due = (due_ms + FL_TIMER_TICK_MS - 1) / FL_TIMER_TICK_MS;

	fl_timer_cancel(wheel, timer);
	timer->due = due > wheel->now ? due : wheel->now + 1;
	put(wheel, timer);
	wheel->armed++;
}

void
fl_timer_cancel(FlTimerWheel *wheel, FlTimer *timer)
{
	if (!fl_timer_is_armed(timer))
		return;
	unlink_timer(wheel, timer);
	wheel->armed--;
}

/* Takes a slot's list over into *list, a list head of the caller's. */
static void
take_slot(FlTimerWheel *wheel, int level, int slot, FlTimer *list)
{
	FlTimer *head = &wheel->slots[level * FL_TIMER_SLOTS + slot];

	list->next = list->prev = list;
	if (head->next == head)
		return;
	list->next = head->next;
	list->prev = head->prev;
	list->next->prev = list;
	list->prev->next = list;
	head->next = head->prev = head;
	wheel->occupied[level] &= ~(UINT64_C(1) << slot);
}

static void
cascade(FlTimerWheel *wheel, int level)
{
	FlTimer list;

	take_slot(wheel, level, (int) (wheel->now >> (SLOT_BITS * level)) & SLOT_MASK, &list);
	while (list.next != &list)
	{
		FlTimer *timer = list.next;

		unlink_timer(wheel, timer);
		put(wheel, timer);
	}
}

/*
 * Timers are taken off the slot one by one, never all at once: a callback may
 * leave by longjmp, and the others must then still be where they were.  None
 * that is armed meanwhile can land in this slot (its due tick is later).
 */
static void
fire_slot(FlTimerWheel *wheel, FlTimerFire fire, void *arg)
{
	FlTimer *head = &wheel->slots[wheel->now & SLOT_MASK];

	while (head->next != head)
	{
		FlTimer *timer = head->next;

		unlink_timer(wheel, timer);
		wheel->armed--;
		fire(timer, arg);
	}
}

void
fl_timer_advance(FlTimerWheel *wheel, int64_t now_ms, FlTimerFire fire, void *arg)
{
	int64_t target = now_ms / FL_TIMER_TICK_MS;

	while (wheel->now < target)
	{
		if (wheel->armed == 0)
		{
			wheel->now = target;
			return;
		}
		if (wheel->occupied[0] == 0)
		{
			/* Nothing to fire before the next cascade. */
			int64_t last = wheel->now | SLOT_MASK;

			if (last >= target)
			{
				wheel->now = target;
				return;
			}
			wheel->now = last;
		}
		wheel->now++;
		for (int level = 1; level < FL_TIMER_LEVELS; level++)
		{
			if ((wheel->now & ((INT64_C(1) << (SLOT_BITS * level)) - 1)) != 0)
				break;
			cascade(wheel, level);
		}
		fire_slot(wheel, fire, arg);
	}
}

/* Ticks from `from` to the next occupied slot of a bitmap, 1 .. 64. */
static int
next_slot(uint64_t occupied, int from)
{
	int start = (from + 1) & SLOT_MASK;
	uint64_t turned = start == 0 ? occupied : (occupied >> start) | (occupied << (FL_TIMER_SLOTS - start));

	return __builtin_ctzll(turned) + 1;
}

int64_t
fl_timer_wait(const FlTimerWheel *wheel, int64_t now_ms)
{
	int64_t best = INT64_MAX;
	int64_t wait;

	if (wheel->armed == 0)
		return -1;
	for (int level = 0; level < FL_TIMER_LEVELS; level++)
	{
		int64_t unit = wheel->now >> (SLOT_BITS * level);
		int64_t at;

		if (wheel->occupied[level] == 0)
			continue;
		at = (unit + next_slot(wheel->occupied[level], (int) unit & SLOT_MASK)) << (SLOT_BITS * level);
		if (at < best)
			best = at;
	}
	wait = best * FL_TIMER_TICK_MS - now_ms;
	return wait > 0 ? wait : 0;
}
