/*-------------------------------------------------------------------------
 *
 * seen.h
 *		Which commands a device has begun: its memory against replays, kept in a
 *		small file that survives a power cut.
 *
 * The memory is bounded without a hole.  It has room for so many commands; one
 * is forgotten only after its own expiry, and the latest expiry that was ever
 * forgotten is kept as the horizon: whatever expires at or before the horizon
 * is refused by its time, whatever the clock says.  So an id that is neither in
 * the memory nor behind the horizon was never begun.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXAMPLE_SEEN_H
#define EXAMPLE_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#define SEEN_ID_SIZE	 65	 /* of an id, with its terminator */
#define SEEN_ANSWER_SIZE 512 /* of the answer that is kept, with its terminator */

typedef struct SeenEntry
{
	char id[SEEN_ID_SIZE];
	int64_t expires_at;            /* ms since 1970 */
	char answer[SEEN_ANSWER_SIZE]; /* "" as long as there is none */
} SeenEntry;

typedef struct Seen Seen;

/* Reads the file, or begins one.  limit: commands that it has room for.  NULL: it cannot be read or written (errno). */
extern Seen *seen_open(const char *path, int limit);
extern void seen_close(Seen *seen);

/* The command of this id; NULL: it is not known. */
extern const SeenEntry *seen_find(const Seen *seen, const char *id);

/* The latest expiry that was forgotten, ms since 1970. */
extern int64_t seen_horizon(const Seen *seen);

/*
 * Notes that a command begins; it is on disk when this returns true.  safe_before: what expired before this time may be
 * forgotten to make room.  False: there is no room, or no disk, and the command must not be carried out.
 */
extern bool seen_begin(Seen *seen, const char *id, int64_t expires_at, int64_t safe_before);

/* Notes the answer of a command that has begun.  It is a line of text; what is too long for the memory is not kept. */
extern bool seen_finish(Seen *seen, const char *id, const char *answer);

#endif /* EXAMPLE_SEEN_H */
