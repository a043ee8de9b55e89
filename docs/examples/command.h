/*-------------------------------------------------------------------------
 *
 * command.h
 *		What a command of fleetlog says, and whether it may be carried out.
 *
 * Nothing here knows a connection: these functions take bytes and times, so a
 * device maker can test them with any clock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXAMPLE_COMMAND_H
#define EXAMPLE_COMMAND_H

#include "seen.h"

#include <cjson/cJSON.h>
#include <stddef.h>

#define COMMAND_NAME_SIZE 129

typedef struct Command
{
	char id[SEEN_ID_SIZE];
	char name[COMMAND_NAME_SIZE];
	int64_t issued_at, expires_at; /* ms since 1970 */
	cJSON *payload;                /* NULL: none */
} Command;

typedef enum Verdict
{
	VERDICT_DO,     /* begin it: its id is on disk */
	VERDICT_REPLAY, /* begun before: not again */
	VERDICT_EXPIRED,
	VERDICT_FUTURE, /* issued after now: our clock is behind, and no expiry can be judged */
	VERDICT_NO_ROOM
} Verdict;

/* A time of RFC 3339 as ms since 1970; false: it is none. */
extern bool command_time(const char *text, int64_t *out);

/* Sets id and times from text; false: one of them is missing or wrong, and there is nothing to answer to. */
extern bool command_set(Command *c, const char *id, const char *issued_at, const char *expires_at);

/* Takes a 3.1.1 envelope {id, name, issued_at, expires_at, payload} apart.  The caller frees c->payload. */
extern bool command_from_envelope(Command *c, const char *bytes, size_t len);

/*
 * May it be carried out now?  tolerance: ms by which the device's clock may be wrong.  A command is expired when
 * expires_at + tolerance has passed, and from the future when it is issued later than now + tolerance.
 */
extern Verdict command_judge(const Command *c, Seen *seen, int64_t now, int64_t tolerance);

#endif /* EXAMPLE_COMMAND_H */
