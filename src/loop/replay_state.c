/*-------------------------------------------------------------------------
 *
 * replay_state.c
 *		The state of each key of a shard while its readings are replayed.
 *
 * Its memory grows with the number of devices and the size of their states, as that
 * of the loop does, and not with the number of readings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "fleetlog/compat.h"
#include "replay_internal.h"

#define SH_PREFIX		keystate
#define SH_ELEMENT_TYPE FlKeyState
#define SH_KEY_TYPE		const char *
#define SH_KEY			key
#define SH_HASH_KEY(tb, key)	hash_bytes((const unsigned char *) (key), strlen(key))
#define SH_EQUAL(tb, a, b)		(strcmp((a), (b)) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a)		((a)->hash)
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct FlKeyStates
{
	MemoryContext mcxt;
	keystate_hash *hash;
	bool		known;
};

FlKeyStates *
fl_key_states_create(bool known)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog replay states", ALLOCSET_DEFAULT_SIZES);
	FlKeyStates *s = MemoryContextAllocZero(mcxt, sizeof(FlKeyStates));

	s->mcxt = mcxt;
	s->hash = keystate_create(mcxt, 1024, NULL);
	s->known = known;
	return s;
}

void
fl_key_states_free(FlKeyStates *states)
{
	MemoryContextDelete(states->mcxt);
}

FlKeyState *
fl_key_state(FlKeyStates *states, const char *key)
{
	bool		found;
	FlKeyState *e = keystate_insert(states->hash, key, &found);

	if (!found)
	{
		e->key = MemoryContextStrdup(states->mcxt, key);
		e->known = states->known;
		e->blocked = false;
		e->state = NULL;
	}
	return e;
}

void
fl_key_state_set(FlKeyStates *states, FlKeyState *entry, Jsonb *state)
{
	Jsonb	   *old = entry->state;

	entry->known = true;
	if (state == old)
		return;
	entry->state = NULL;
	if (state != NULL && old != NULL && VARSIZE(state) == VARSIZE(old))
	{
		memcpy(old, state, VARSIZE(state));
		entry->state = old;
		return;
	}
	if (state != NULL)
	{
		entry->state = MemoryContextAlloc(states->mcxt, VARSIZE(state));
		memcpy(entry->state, state, VARSIZE(state));
	}
	if (old != NULL)
		pfree(old);
}
