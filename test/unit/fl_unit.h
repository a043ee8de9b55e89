/*-------------------------------------------------------------------------
 *
 * fl_unit.h
 *	  The unit-test harness: a test is a function, a program is a list of them.
 *
 * Each program prints TAP.  A test is one line of it, however many checks it
 * makes, so that a loop over a million inputs stays readable; a failed check
 * names its place and the test goes on, unless it was FL_REQUIRE.
 *
 *	static void
 *	test_something(void)
 *	{
 *		FL_CHECK(1 + 1 == 2);
 *		FL_CHECK_INT(fl_topic_levels(...), 3);
 *	}
 *
 *	int
 *	main(void)
 *	{
 *		fl_unit_begin();
 *		FL_RUN(test_something);
 *		return fl_unit_end();
 *	}
 *
 * Exactly-sized copies (fl_unit_copy) make the address sanitizer see a read of
 * one byte too many.  Random tests are repeatable: FLEETLOG_SEED chooses
 * another sequence.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_UNIT_H
#define FL_UNIT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fl_unit_tests;      /* tests run so far */
static int fl_unit_failures;   /* tests failed */
static int fl_unit_bad_checks; /* failed checks in the current test */
static uint64_t fl_unit_random_state = UINT64_C(0x9E3779B97F4A7C15);

/* More failed checks than this in one test are counted, not printed. */
#define FL_UNIT_MAX_DIAGNOSTICS 10

static inline bool
fl_unit_check(bool ok, const char *file, int line, const char *what)
{
	if (!ok && ++fl_unit_bad_checks <= FL_UNIT_MAX_DIAGNOSTICS)
		printf("# %s:%d: failed: %s\n", file, line, what);
	return ok;
}

static inline bool
fl_unit_check_int(int64_t got, int64_t expected, const char *file, int line, const char *what)
{
	if (got != expected && ++fl_unit_bad_checks <= FL_UNIT_MAX_DIAGNOSTICS)
		printf("# %s:%d: failed: %s: got %" PRId64 ", expected %" PRId64 "\n", file, line, what, got, expected);
	return got == expected;
}

static inline void
fl_unit_print_bytes(const char *label, const uint8_t *p, size_t len)
{
	printf("#   %s (%zu):", label, len);
	for (size_t i = 0; i < len && i < 64; i++)
		printf(" %02x", p[i]);
	printf("%s\n", len > 64 ? " ..." : "");
}

static inline bool
fl_unit_check_bytes(const void *got, size_t got_len, const void *expected, size_t expected_len, const char *file,
					int line, const char *what)
{
	bool ok = got_len == expected_len && (got_len == 0 || memcmp(got, expected, got_len) == 0);

	if (!ok && ++fl_unit_bad_checks <= FL_UNIT_MAX_DIAGNOSTICS)
	{
		printf("# %s:%d: failed: %s\n", file, line, what);
		fl_unit_print_bytes("got", got, got_len);
		fl_unit_print_bytes("expected", expected, expected_len);
	}
	return ok;
}

#define FL_CHECK(cond) fl_unit_check((cond), __FILE__, __LINE__, #cond)

#define FL_CHECK_INT(got, expected) fl_unit_check_int((int64_t) (got), (int64_t) (expected), __FILE__, __LINE__, #got)

#define FL_CHECK_BYTES(got, got_len, expected, expected_len)                                                           \
	fl_unit_check_bytes((got), (got_len), (expected), (expected_len), __FILE__, __LINE__, #got)

/* A check without which the rest of the test makes no sense. */
#define FL_REQUIRE(cond)                                                                                               \
	do                                                                                                                 \
	{                                                                                                                  \
		if (!FL_CHECK(cond))                                                                                           \
			return;                                                                                                    \
	} while (0)

static inline void
fl_unit_run(void (*test)(void), const char *name)
{
	fl_unit_bad_checks = 0;
	test();
	fl_unit_tests++;
	if (fl_unit_bad_checks > FL_UNIT_MAX_DIAGNOSTICS)
		printf("# %d failed checks in all\n", fl_unit_bad_checks);
	if (fl_unit_bad_checks > 0)
		fl_unit_failures++;
	printf("%sok %d - %s\n", fl_unit_bad_checks > 0 ? "not " : "", fl_unit_tests, name);
	fflush(stdout);
}

/* A test that cannot run here says so; it counts neither way. */
static inline void
fl_unit_skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++fl_unit_tests, name, why);
}

#define FL_RUN(test) fl_unit_run(test, #test)

static inline void
fl_unit_begin(void)
{
	const char *seed = getenv("FLEETLOG_SEED");

	if (seed != NULL && *seed != '\0')
		fl_unit_random_state ^= strtoull(seed, NULL, 0) * UINT64_C(0xD1342543DE82EF95);
	if (fl_unit_random_state == 0)
		fl_unit_random_state = 1;
}

/* Prints the plan; the exit status of the program. */
static inline int
fl_unit_end(void)
{
	printf("1..%d\n", fl_unit_tests);
	return fl_unit_failures > 0 ? 1 : 0;
}

/* A whole main function around a few FL_RUN. */
#define FL_UNIT_MAIN(body)                                                                                             \
	int main(void)                                                                                                     \
	{                                                                                                                  \
		fl_unit_begin();                                                                                               \
		body return fl_unit_end();                                                                                     \
	}

/* xorshift64*: repeatable everywhere, which rand() is not. */
static inline uint64_t
fl_unit_random(void)
{
	uint64_t x = fl_unit_random_state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	fl_unit_random_state = x;
	return x * UINT64_C(0x2545F4914F6CDD1D);
}

/* 0 .. n - 1 */
static inline uint32_t
fl_unit_random_below(uint32_t n)
{
	return (uint32_t) ((fl_unit_random() >> 32) % n);
}

/* A copy in memory of exactly that size, to be freed by the caller. */
static inline uint8_t *
fl_unit_copy(const void *data, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);

	if (copy == NULL)
		abort();
	if (len > 0)
		memcpy(copy, data, len);
	return copy;
}

#endif /* FL_UNIT_H */
