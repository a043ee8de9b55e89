/*-------------------------------------------------------------------------
 *
 * fleet_test.c
 *		The law of backoff.h, held against its words, and the words of the
 *		control input; `make check` runs it.
 *
 * Spread is judged by counts of seeded draws, with limits of six standard
 * deviations, so that neither a clock nor chance can make it fail.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <stdlib.h>

static int failed;

static void
ok(bool condition, const char *what)
{
	printf("%s - %s\n", condition ? "ok" : "not ok", what);
	failed += !condition;
}

static const FlBackoffLaw law = {.base = FL_SECOND,
								 .cap = 60 * FL_SECOND,
								 .stable = 30 * FL_SECOND,
								 .busy_factor = 4,
								 .long_cap = 600 * FL_SECOND};

static void
test_windows(void)
{
	bool doubles = true, capped = true;

	for (int n = 0; n < 6; n++)
		doubles &= fl_backoff_window(&law, n, FL_CAUSE_BROKEN) == FL_SECOND << n;
	for (int n = 6; n <= FL_BACKOFF_MAX; n++)
		capped &= fl_backoff_window(&law, n, FL_CAUSE_BROKEN) == 60 * FL_SECOND;
	ok(doubles, "the window doubles with each failure in a row");
	ok(capped, "and never exceeds the cap, whatever the count");
	ok(fl_backoff_window(&law, 0, FL_CAUSE_BUSY) == 4 * FL_SECOND &&
		   fl_backoff_window(&law, 30, FL_CAUSE_BUSY) == 240 * FL_SECOND,
	   "a busy server gets a longer window");
}

static void
test_spread(void)
{
	/* 40,000 draws in 20 parts: 2,000 each, standard deviation 43.6. */
	int part[20] = {0};
	uint64_t rng = 1;
	int64_t window = fl_backoff_window(&law, 3, FL_CAUSE_BROKEN);
	bool inside = true, even = true;

	for (int i = 0; i < 40000; i++)
	{
		int64_t pause = fl_backoff_pause(&law, 3, FL_CAUSE_BROKEN, fl_random(&rng));

		inside &= pause >= 0 && pause <= window;
		part[pause * 20 / (window + 1)]++;
	}
	for (int i = 0; i < 20; i++)
		even &= abs(part[i] - 2000) < 262;
	ok(inside, "no pause lies outside of its window");
	ok(even, "pauses are spread evenly over all of the window");
	ok(fl_backoff_pause(&law, 3, FL_CAUSE_BROKEN, (uint64_t) window) == window &&
		   fl_backoff_pause(&law, 3, FL_CAUSE_BROKEN, 0) == 0,
	   "both ends of the window belong to it");
}

static void
test_long_pauses(void)
{
	uint64_t rng = 2;
	bool inside = true;
	int low = 0;

	for (int i = 0; i < 10000; i++)
	{
		int64_t pause = fl_backoff_pause(&law, 0, i % 2 ? FL_CAUSE_DENIED : FL_CAUSE_TAKEN_OVER, fl_random(&rng));

		inside &= pause >= 300 * FL_SECOND && pause <= 600 * FL_SECOND;
		low += pause < 450 * FL_SECOND;
	}
	ok(inside, "who is denied or taken over waits at least half of the long pause");
	ok(abs(low - 5000) < 300, "and is spread all the same");
}

/* The largest pause that the law gives after so many failures and a connection that lived so long. */
static int64_t
largest_after(int failures, int64_t lived)
{
	uint64_t rng = 3;
	int64_t largest = 0;

	for (int i = 0; i < 2000; i++)
	{
		int before = failures;
		int64_t pause = fl_backoff_next(&law, &before, lived, FL_CAUSE_BROKEN, fl_random(&rng));

		if (pause > largest)
			largest = pause;
	}
	return largest;
}

static void
test_reset(void)
{
	int failures = 0;
	int64_t sum = 0;

	for (int n = 0; n < 40; n++)
		sum += fl_backoff_next(&law, &failures, 0, FL_CAUSE_BROKEN, UINT64_MAX);
	ok(failures == FL_BACKOFF_MAX && sum > 0, "the count of failures has an end");
	ok(largest_after(0, 0) <= FL_SECOND, "the first pause is within the base");
	ok(largest_after(4, 0) > 15 * FL_SECOND, "a failed attempt counts");
	ok(largest_after(4, law.stable - 1) > 15 * FL_SECOND, "a connection that was thrown out early counts, too");
	ok(largest_after(4, law.stable) <= FL_SECOND, "only one that has lived resets the count");
}

static void
test_causes(void)
{
	static const struct
	{
		int version;
		uint8_t code;
		FlCause cause;
	} expected[] = {{5, 0x80, FL_CAUSE_BROKEN},     {5, 0x86, FL_CAUSE_DENIED}, {5, 0x87, FL_CAUSE_DENIED},
					{5, 0x89, FL_CAUSE_BUSY},       {5, 0x8b, FL_CAUSE_BUSY},   {5, 0x8d, FL_CAUSE_BROKEN},
					{5, 0x8e, FL_CAUSE_TAKEN_OVER}, {5, 0x97, FL_CAUSE_BUSY},   {5, 0x9c, FL_CAUSE_BUSY},
					{5, 0x9d, FL_CAUSE_BUSY},       {5, 0x9f, FL_CAUSE_BUSY},   {4, 3, FL_CAUSE_BUSY},
					{4, 4, FL_CAUSE_DENIED},        {4, 5, FL_CAUSE_DENIED},    {4, 0, FL_CAUSE_BROKEN}};
	bool right = true;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		right &= fl_backoff_cause(expected[i].version, expected[i].code) == expected[i].cause;
	ok(right, "reason codes are taken for what they say");
}

static void
test_commands(void)
{
	static const char *const wrong[] = {"",         "dro 5%",     "drop 0%", "drop 101%",  "drop 5",
										"drop -5%", "burst",      "burst 0", "burst 5000", "pause 5%",
										"quit now", "drop 5% 6%", "dropall", "stop"};
	FlCommand c;
	bool right = true, refused = true;

	right &= fl_command_parse("drop 30%", &c) && c.verb == FL_VERB_DROP && c.percent == 30;
	right &= fl_command_parse("reboot all", &c) && c.verb == FL_VERB_REBOOT && c.percent == 100;
	right &= fl_command_parse("stop reading 5%", &c) && c.verb == FL_VERB_DEAFEN && c.percent == 5;
	right &= fl_command_parse(" burst 20 10% ", &c) && c.verb == FL_VERB_BURST && c.percent == 10 && c.count == 20;
	right &= fl_command_parse("burst 7", &c) && c.count == 7 && c.percent == 100;
	right &= fl_command_parse("quit\r", &c) && c.verb == FL_VERB_QUIT;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused &= !fl_command_parse(wrong[i], &c);
	ok(right, "commands are understood");
	ok(refused, "what is no command is refused");
}

int
main(void)
{
	test_windows();
	test_spread();
	test_long_pauses();
	test_reset();
	test_causes();
	test_commands();
	return failed == 0 ? 0 : 1;
}
