/*-------------------------------------------------------------------------
 *
 * catchup.c
 *		Last values that are not in their table yet, when their mount changes.
 *
 * The folder judges records by the mounts of the moment at which it reads them.  When
 * a mount ends, or keeps something else from now on, what it has not read, or not
 * written, would be nobody's.  So whoever changes the mount does it himself, with the
 * shards held: he notes the values between `state_flushed` and the tail, which are
 * written when he commits (collect.c), and moves the offsets to the tail.
 *
 * The folder may write some of the same values at the same time.  Positions decide
 * then as always, and who meets a row that the other one is writing puts it off.
 *
 * Called by alter_mount and unmount, before they change anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "fleetlog/config.h"
#include "state_internal.h"

static int64
flushed_offset(Oid state, Oid stream, int32 shard)
{
	Oid			types[3] = {REGCLASSOID, REGCLASSOID, INT4OID};
	Datum		values[3] = {ObjectIdGetDatum(state), ObjectIdGetDatum(stream), Int32GetDatum(shard)};
	bool		isnull;
	int64		offset = fl_config_query_int("SELECT log_offset FROM fleetlog.state_flushed"
											 " WHERE state = $1 AND stream = $2 AND shard = $3", 3, types, values, &isnull);

	return isnull ? 0 : offset;
}

static void
move_offset(Oid state, Oid stream, int32 shard, int64 tail)
{
	Oid			types[4] = {REGCLASSOID, REGCLASSOID, INT4OID, INT8OID};
	Datum		values[4] = {
		ObjectIdGetDatum(state), ObjectIdGetDatum(stream), Int32GetDatum(shard), Int64GetDatum(tail)
	};

	fl_config_execute("INSERT INTO fleetlog.state_flushed AS f (state, stream, shard, log_offset) VALUES ($1, $2, $3, $4)"
					  " ON CONFLICT (state, stream, shard) DO UPDATE"
					  " SET log_offset = greatest(f.log_offset, excluded.log_offset)", 4, types, values, NULL);
}

static void
note_batch(Oid state, Oid stream, int32 shard, FlBatchDecoder *decoder, const FlStoredBatch *batch, int64 from)
{
	FlLogRecord rec;
	FlStateChange c;

	fl_batch_decoder_open(decoder, batch);
	while (fl_batch_decoder_next(decoder, &rec))
		if (rec.log_offset >= from && fl_state_change_of(stream, shard, &rec, FL_STATE_FOLDED, &c) && c.state == state)
			fl_state_note(&c);
}

static void
note_range(Oid state, Oid stream, int32 shard, int64 from, int64 tail)
{
	FlLogPosition pos = {.offset = Max(from, fl_log_head(stream, shard))};
	FlBatchDecoder *decoder;
	FlLogReader *reader;
	FlStoredBatch batch;
	MemoryContext old;

	if (pos.offset >= tail)
		return;
	from = pos.offset;
	decoder = fl_batch_decoder_create(CurrentMemoryContext);
	reader = fl_log_reader_begin(stream, shard, &pos, tail);
	while (fl_log_reader_next(reader, &batch))
	{
		CHECK_FOR_INTERRUPTS();
		/* What is noted stays there until the transaction ends. */
		old = MemoryContextSwitchTo(fl_state_note_context());
		note_batch(state, stream, shard, decoder, &batch, from);
		MemoryContextSwitchTo(old);
	}
	fl_log_reader_end(reader);
}

void
fl_state_catch_up(Oid state, Oid stream, bool folded)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	int32		shards = info->shards;
	bool		quorum = info->durability == FL_DURABILITY_QUORUM;

	for (int32 i = 0; i < shards; i++)
	{
		FlShard    *shard = fl_shard_open(stream, i, quorum);
		int64		tail;

		/* Held already, unless this transaction has made the stream. */
		fl_shard_lock(shard, FL_LOCK_TIMEOUT);
		tail = fl_log_next_offset(shard);
		if (folded)
			note_range(state, stream, i, flushed_offset(state, stream, i), tail);
		move_offset(state, stream, i, tail);
	}
}
