/*-------------------------------------------------------------------------
 *
 * tail.c
 *		Reading a stream from positions up to its durable tails, and waiting for
 *		more: the common half of poll() and take().
 *
 * Records are read below the durable tail without a snapshot, so also those that
 * were appended while the caller slept.  Where row security applies to the
 * caller, the executor reads, with a snapshot taken for the pass: all below the
 * durable tail is committed and hence visible to it.
 *
 * A pass shares what is wanted among the shards, so that one that is written
 * faster than it is read does not keep the others from being read.
 *
 * While a pass sleeps no lock is held on the stream and no page is pinned; the
 * caller's own snapshot, however, is as old as his statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "fleetlog/headers.h"
#include "fleetlog/rls.h"
#include "fleetlog/topic.h"
#include "fleetlog/watch.h"

/* Offsets that the executor looks at in one call, so that a long history of others is read in steps. */
#define FL_EXECUTOR_SPAN	10000

int
fl_tail_check_stream(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	AclResult	acl;

	if (info == NULL)
		ereport(ERROR,
				(errcode(get_rel_name(stream) ? ERRCODE_WRONG_OBJECT_TYPE : ERRCODE_UNDEFINED_TABLE),
				 get_rel_name(stream) ? errmsg("\"%s\" is not a stream", get_rel_name(stream)) :
				 errmsg("stream with OID %u does not exist", stream),
				 errhint("Streams are listed in the view fleetlog.stream.")));
	acl = pg_class_aclcheck(stream, GetUserId(), ACL_SELECT);
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, get_rel_name(stream));
	return info->shards;
}

TimestampTz
fl_wait_until(const Interval *wait)
{
	double		us = (double) wait->time +
		((double) wait->day + (double) wait->month * DAYS_PER_MONTH) * (double) USECS_PER_DAY;
	TimestampTz now = GetCurrentTimestamp();

	if (us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait must not be negative")));
	/* WaitLatch takes no more than some weeks; nobody waits that long in one statement. */
	return now + (TimestampTz) Min(us, 24.0 * USECS_PER_DAY);
}

/* ---- the filter ------------------------------------------------------------------ */

static bool
topic_matches(const FlTailReader *r, const uint8 *topic, size_t len)
{
	return len > 0 && fl_topic_matches(topic, len, r->filter, r->filter_len) &&
		fl_topic_name_valid(topic, len);
}

/* Of a record as read: its topic is header fl.topic of ours, else the key. */
static bool
record_matches(const FlTailReader *r, const FlLogRecord *rec)
{
	FlHeaderIter it;
	FlHeader	h;

	if (r->filter == NULL)
		return true;
	fl_header_iter_init_record(&it, rec->reserved, rec->headers_count, rec->headers, rec->headers ? (size_t) rec->headers_len : 0);
	while (rec->reserved > 0 && fl_header_iter_next(&it, &h) && h.is_reserved)
		if (h.name_len == strlen("fl.topic") && memcmp(h.name, "fl.topic", h.name_len) == 0)
			return h.value_len > 0 && topic_matches(r, h.value, h.value_len);
	return rec->key_len > 0 && topic_matches(r, rec->key, rec->key_len);
}

/* The same of a row. */
static bool
row_matches(const FlTailReader *r, Datum *values, bool *isnull)
{
	FlHeader	h;
	struct varlena *v;

	if (r->filter == NULL)
		return true;
	if (!isnull[FL_ATT_HEADERS - 1])
	{
		v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(values[FL_ATT_HEADERS - 1]));
		if (fl_headers_find_reserved((uint8 *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), "fl.topic", &h))
			return h.value_len > 0 && topic_matches(r, h.value, h.value_len);
	}
	if (isnull[FL_ATT_KEY - 1])
		return false;
	v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(values[FL_ATT_KEY - 1]));
	return topic_matches(r, (uint8 *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
}

/* ---- reading one shard -------------------------------------------------------------- */

/* Directly from the log; stops when `upto` rows are found in all. */
static void
read_log(FlTailReader *r, int shard, int64 tail, int32 upto)
{
	FlShardPosition *p = &r->pos->shards[shard];
	FlLogPosition at = p->at;
	FlLogReader *reader = fl_log_reader_begin(r->pos->stream, shard, &at, tail);
	FlBatchDecoder *dec = fl_batch_decoder_create(CurrentMemoryContext);
	FlStoredBatch batch;
	char	   *scratch = NULL;
	size_t		scratch_cap = 0;
	int64		from = p->at.offset;

	while (r->found < upto && r->looked_at < FL_TAIL_MAX_LOOK && fl_log_reader_next(reader, &batch))
	{
		FlLogRecord rec;

		fl_batch_decoder_open(dec, &batch);
		while (r->found < upto && fl_batch_decoder_next(dec, &rec))
		{
			Datum		values[FL_NATTS];
			bool		isnull[FL_NATTS];

			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < from)
				continue;
			from = rec.log_offset + 1;
			r->looked_at++;
			if (!record_matches(r, &rec))
			{
				r->skipped = true;
				continue;
			}
			fl_columns_build(&rec, shard, 1, FL_NATTS, &scratch, &scratch_cap,
							 CurrentMemoryContext, values, isnull);
			r->sink(r->arg, values, isnull);
			r->found++;
		}
		/* The hint leads to this batch, which is right also when it was not read to its end. */
		p->at.leaf = at.leaf;
		p->at.block = at.block;
		if (r->pos->with_epochs)
			p->epoch = batch.leader_epoch;
	}
	p->at.offset = from;
	fl_log_reader_end(reader);
}

/* Below the head the executor would show nothing, and silently. */
static void
check_head(FlTailReader *r, int shard)
{
	int64		head = fl_log_head(r->pos->stream, shard);
	int64		from = r->pos->shards[shard].at.offset;

	if (from < head)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_OFFSET_TOO_OLD)),
				 errmsg("offset " INT64_FORMAT " of shard %d of stream \"%s\" is too old",
						from, shard, get_rel_name(r->pos->stream)),
				 errdetail("The oldest offset is " INT64_FORMAT ".", head)));
}

static void
on_row(void *arg, Datum *values, bool *isnull)
{
	FlTailReader *r = arg;

	if (!row_matches(r, values, isnull))
		return;
	r->sink(r->arg, values, isnull);
	r->found++;
}

/* With the policies of the caller; what they hide is passed over like what the filter does not want. */
static void
read_executor(FlTailReader *r, int shard, int64 tail, int32 upto)
{
	FlShardPosition *p = &r->pos->shards[shard];
	int64		begin = p->at.offset;
	int32		found = r->found;

	while (r->found < upto && p->at.offset < tail && r->looked_at < FL_TAIL_MAX_LOOK)
	{
		int64		from = p->at.offset;

		p->at.offset = fl_rls_read(r->pos->stream, shard, from, Min(tail, from + FL_EXECUTOR_SPAN),
								   upto - r->found, on_row, r);
		r->looked_at += p->at.offset - from;
	}
	r->skipped |= p->at.offset - begin > r->found - found;
	if (r->pos->with_epochs && p->at.offset > begin)
		p->epoch = fl_epoch_of(r->pos->stream, shard, p->at.offset - 1);
}

/* ---- a pass over all shards ------------------------------------------------------------ */

static int64
tail_of(FlTailReader *r, int shard)
{
	FlShard    *s;

	/* Asking for publication waits for a flush: once, not at every wake-up. */
	if (r->ask_flusher || RecoveryInProgress() || !fl_flusher_runs() ||
		(s = fl_shard_find(r->pos->stream, shard)) == NULL)
		return fl_log_tail(r->pos->stream, shard);
	return fl_shard_durable_tail(s);
}

/* Where to begin: elsewhere each time when there are not enough records wanted for all shards. */
static int
first_shard(const FlTailReader *r)
{
	uint64		sum = 0;

	if (r->max >= r->pos->nshards)
		return 0;
	for (int s = 0; s < r->pos->nshards; s++)
		sum += (uint64) r->pos->shards[s].at.offset;
	return (int) (sum % (uint64) r->pos->nshards);
}

void
fl_tail_read(FlTailReader *r)
{
	FlPositions *p = r->pos;
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog tail read", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	bool		policies = fl_rls_applies(p->stream);
	int64	   *tails = palloc(sizeof(int64) * p->nshards);
	int			first = first_shard(r);
	int			behind = 0;

	for (int s = 0; s < p->nshards; s++)
	{
		tails[s] = tail_of(r, s);
		behind += p->shards[s].at.offset < tails[s];
		check_head(r, s);
	}
	/* Twice: what one shard leaves of its share is for the others. */
	for (int round = 0; round < 2; round++)
	{
		int			left = behind;

		for (int i = 0; i < p->nshards && r->found < r->max; i++)
		{
			int			s = (first + i) % p->nshards;
			int32		share = r->max - r->found;

			if (p->shards[s].at.offset >= tails[s])
				continue;
			if (round == 0)
				share = Max(1, share / Max(1, left));
			left--;
			if (policies)
				read_executor(r, s, tails[s], r->found + share);
			else
				read_log(r, s, tails[s], r->found + share);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
}

/*
 * What may have happened while we slept: more shards, other rights, other
 * policies, no stream any more.
 */
static void
look_again(FlTailReader *r)
{
	if (fl_tail_wait_is_gone())
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the stream was dropped while this session waited for it")));
	AcceptInvalidationMessages();
	fl_positions_grow(r->pos, fl_tail_check_stream(r->pos->stream));
	r->ask_flusher = false;
}

void
fl_tail_read_wait(FlTailReader *r, FlWaitKind kind, TimestampTz until)
{
	bool		again = until > GetCurrentTimestamp();

	if (!again || r->max == 0)
	{
		fl_tail_read(r);
		return;
	}
	fl_tail_wait_begin(r->pos->stream, kind, until);
	PG_TRY();
	{
		for (;;)
		{
			fl_tail_wait_arm();
			fl_tail_read(r);
			fl_tail_wait_found(r->found);
			if (r->found > 0 || r->looked_at >= FL_TAIL_MAX_LOOK || !fl_tail_wait_sleep(until))
				break;
			look_again(r);
		}
	}
	PG_FINALLY();
	{
		fl_tail_wait_end();
	}
	PG_END_TRY();
}
