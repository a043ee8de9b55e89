/*-------------------------------------------------------------------------
 *
 * apply.c
 *		One change of one key: compare with what is there, then write it.
 *
 * A value is written only over an earlier one, and a clear leaves its position in
 * state_cleared, so the outcome does not depend on the order in which records of
 * different shards arrive here.  Within a shard arrival is offset order anyway.
 *
 * Nothing waits.  Where somebody holds the key's shard, the row, or the table, the
 * caller is told, and what was done until then does no harm when the same change
 * comes again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fleetlog/config.h"
#include "state_internal.h"

Oid
fl_state_headers_type(void)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("headers"),
						   ObjectIdGetDatum(get_namespace_oid(FL_STATE_SCHEMA, false)));
}

/* ---- the lock of the key ------------------------------------------------------- */

bool
fl_state_lock_home(const FlStateChange *c)
{
	const FlStreamInfo *info = fl_stream_lookup(c->stream);
	FlShard    *shard;

	/* The stream has been dropped: there is nothing to agree with. */
	if (info == NULL)
		return true;
	if (c->home >= info->shards)
		return false;
	shard = fl_shard_open(c->stream, c->home, info->durability == FL_DURABILITY_QUORUM);
	return fl_shard_lock(shard, FL_LOCK_NOWAIT);
}

/* ---- open tables of a run ---------------------------------------------------------- */

void
fl_state_writer_begin(FlStateWriter *w)
{
	memset(w, 0, sizeof(*w));
	w->mcxt = CurrentMemoryContext;
}

/* Callers may reset their own context between two changes. */
static FlStateTable *
open_table(FlStateWriter *w, Oid relid, int nkeys)
{
	MemoryContext old = MemoryContextSwitchTo(w->mcxt);
	FlStateTable *t = fl_state_table_open(relid, nkeys);

	MemoryContextSwitchTo(old);
	return t;
}

void
fl_state_writer_end(FlStateWriter *w)
{
	fl_state_table_close(w->table);
	fl_state_table_close(w->cleared);
	memset(w, 0, sizeof(*w));
}

/* Changes come sorted, so each table is opened once. */
static FlStateTable *
table_of(FlStateWriter *w, Oid state)
{
	if (!w->tried || w->state != state)
	{
		fl_state_table_close(w->table);
		w->table = NULL;
		w->state = state;
		w->tried = true;
		w->table = open_table(w, state, 2);
	}
	return w->table;
}

bool
fl_state_writer_open(FlStateWriter *w, Oid state)
{
	return table_of(w, state) != NULL;
}

static FlStateTable *
cleared_table(FlStateWriter *w)
{
	if (!w->cleared_tried)
	{
		Oid			relid = get_relname_relid("state_cleared", get_namespace_oid(FL_STATE_SCHEMA, false));

		w->cleared_tried = true;
		w->cleared = open_table(w, relid, 3);
	}
	return w->cleared;
}

/* ---- rows -------------------------------------------------------------------------------- */

static Datum
nullable(struct varlena *v, bool *isnull)
{
	*isnull = v == NULL;
	return PointerGetDatum(v);
}

static void
fill_row(const FlStateChange *c, Datum *values, bool *nulls)
{
	memset(nulls, 0, sizeof(bool) * FL_ST_NATTS);
	values[FL_ST_STREAM - 1] = ObjectIdGetDatum(c->stream);
	values[FL_ST_KEY - 1] = PointerGetDatum(c->key);
	values[FL_ST_SHARD - 1] = Int32GetDatum(c->pos.shard);
	values[FL_ST_OFFSET - 1] = Int64GetDatum(c->pos.log_offset);
	values[FL_ST_TS - 1] = TimestampTzGetDatum(c->pos.ts);
	values[FL_ST_TENANT - 1] = nullable(c->tenant, &nulls[FL_ST_TENANT - 1]);
	values[FL_ST_DEVICE - 1] = nullable(c->device, &nulls[FL_ST_DEVICE - 1]);
	values[FL_ST_HEADERS - 1] = nullable(c->headers, &nulls[FL_ST_HEADERS - 1]);
	values[FL_ST_PAYLOAD - 1] = nullable(c->payload, &nulls[FL_ST_PAYLOAD - 1]);
}

static void
fill_cleared(const FlStateChange *c, Datum *values, bool *nulls)
{
	memset(nulls, 0, sizeof(bool) * FL_SC_NATTS);
	values[FL_SC_STATE - 1] = ObjectIdGetDatum(c->state);
	values[FL_SC_STREAM - 1] = ObjectIdGetDatum(c->stream);
	values[FL_SC_KEY - 1] = PointerGetDatum(c->key);
	values[FL_SC_SHARD - 1] = Int32GetDatum(c->pos.shard);
	values[FL_SC_OFFSET - 1] = Int64GetDatum(c->pos.log_offset);
	values[FL_SC_TS - 1] = TimestampTzGetDatum(c->pos.ts);
}

/* The row's position; columns are not null in our tables, but an owner may have changed that. */
static FlStatePos
pos_of(const Datum *values, const bool *nulls, int shard, int offset, int ts)
{
	FlStatePos	pos = {
		.ts = nulls[ts - 1] ? DT_NOBEGIN : DatumGetTimestampTz(values[ts - 1]),
		.shard = nulls[shard - 1] ? 0 : DatumGetInt32(values[shard - 1]),
		.log_offset = nulls[offset - 1] ? -1 : DatumGetInt64(values[offset - 1])
	};

	return pos;
}

/* ---- one change ------------------------------------------------------------------------------ */

/* What is there for the key. */
typedef struct Present
{
	bool		row;
	FlStatePos	row_pos;
	bool		cleared;
	FlStatePos	cleared_pos;
} Present;

/* False: somebody is changing it. */
static bool
look(FlStateWriter *w, const FlStateChange *c, Present *p)
{
	Datum		key[3] = {ObjectIdGetDatum(c->stream), PointerGetDatum(c->key)};
	Datum		values[FL_ST_NATTS];
	bool		nulls[FL_ST_NATTS];
	bool		locked;
	FlStateTable *cleared;

	memset(p, 0, sizeof(*p));
	p->row = fl_state_table_find(w->table, key, values, nulls, &locked);
	if (locked)
		return false;
	if (p->row)
		p->row_pos = pos_of(values, nulls, FL_ST_SHARD, FL_ST_OFFSET, FL_ST_TS);
	cleared = cleared_table(w);
	if (cleared == NULL)
		return false;
	if (fl_state_table_is_empty(cleared))
		return true;
	key[0] = ObjectIdGetDatum(c->state);
	key[1] = ObjectIdGetDatum(c->stream);
	key[2] = PointerGetDatum(c->key);
	p->cleared = fl_state_table_find(cleared, key, values, nulls, &locked);
	if (p->cleared)
		p->cleared_pos = pos_of(values, nulls, FL_SC_SHARD, FL_SC_OFFSET, FL_SC_TS);
	return !locked;
}

static bool
write_value(FlStateWriter *w, const FlStateChange *c, const Present *p)
{
	Datum		values[FL_ST_NATTS];
	bool		nulls[FL_ST_NATTS];

	fill_row(c, values, nulls);
	if (!(p->row ? fl_state_table_update(w->table, values, nulls) : fl_state_table_insert(w->table, values, nulls)))
		return false;
	/* An older clear that stays behind does no harm. */
	if (p->cleared)
		(void) fl_state_table_delete(w->cleared);
	pg_atomic_fetch_add_u64(&fl_state_stats()->applied, 1);
	return true;
}

static bool
write_clear(FlStateWriter *w, const FlStateChange *c, const Present *p)
{
	Datum		values[FL_SC_NATTS];
	bool		nulls[FL_SC_NATTS];

	if (p->row && !fl_state_table_delete(w->table))
		return false;
	fill_cleared(c, values, nulls);
	if (!(p->cleared ? fl_state_table_update(w->cleared, values, nulls) :
		  fl_state_table_insert(w->cleared, values, nulls)))
		return false;
	pg_atomic_fetch_add_u64(&fl_state_stats()->cleared, 1);
	return true;
}

FlStateOutcome
fl_state_write(FlStateWriter *w, const FlStateChange *c)
{
	Present		p;

	if (table_of(w, c->state) == NULL || !look(w, c, &p))
		return FL_STATE_LOCKED;
	if ((p.row && fl_state_pos_cmp(&p.row_pos, &c->pos) >= 0) ||
		(p.cleared && fl_state_pos_cmp(&p.cleared_pos, &c->pos) >= (c->cleared && p.row ? 1 : 0)))
	{
		pg_atomic_fetch_add_u64(&fl_state_stats()->stale, 1);
		return FL_STATE_STALE;
	}
	if (!(c->cleared ? write_clear(w, c, &p) : write_value(w, c, &p)))
		return FL_STATE_LOCKED;
	return FL_STATE_DONE;
}

bool
fl_state_force(FlStateWriter *w, const FlStateChange *c, const FlStatePos *seen)
{
	Present		p;

	if (table_of(w, c->state) == NULL || !look(w, c, &p))
		return false;
	if (p.row != (seen != NULL) || (p.row && fl_state_pos_cmp(&p.row_pos, seen) != 0))
		return false;
	if (!c->cleared)
		return (!p.cleared || fl_state_pos_cmp(&p.cleared_pos, &c->pos) < 0) && write_value(w, c, &p);
	/* The clear is noted already, or so long ago that it is forgotten. */
	return !p.row || fl_state_table_delete(w->table);
}
