/*-------------------------------------------------------------------------
 *
 * verify.c
 *		fleetlog.verify(stream) and fleetlog.rebuild_state(state).
 *
 * verify reads every batch of a stream: checksums, density of offsets, order of
 * times; and compares each state table of its mounts with what the history implies.
 * It runs beside writers and blocks nobody.
 *
 * rebuild_state corrects the rows that differ, and only those.  It takes no shard: a
 * row that it writes is locked until it commits, so that values that come meanwhile
 * wait in state_pending as behind anybody's lock; and it leaves alone what has
 * changed since it looked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "compare.h"

PG_FUNCTION_INFO_V1(fl_sql_verify);
PG_FUNCTION_INFO_V1(fl_sql_rebuild_state);

#define SHOWN_FAULTS	5

/* ---- results ------------------------------------------------------------------- */

static void
put_result(ReturnSetInfo *rsinfo, int32 shard, const char *check, bool ok, const char *detail)
{
	Datum		values[4] = {Int32GetDatum(shard), CStringGetTextDatum(check), BoolGetDatum(ok), (Datum) 0};
	bool		nulls[4] = {shard < 0, false, false, detail == NULL};

	if (detail != NULL)
		values[3] = CStringGetTextDatum(detail);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* ---- the log ---------------------------------------------------------------------- */

typedef struct LogCheck
{
	int64		head;
	int64		tail;
	int64		next;			/* offset that the next batch must have */
	TimestampTz last_ts;
	int64		batches;
	int64		records;
	char	   *checksum;		/* first fault of each kind, NULL: none */
	char	   *density;
	char	   *order;
} LogCheck;

static void
check_batch(LogCheck *c, FlBatchDecoder *decoder, const FlStoredBatch *b)
{
	FlResult	res = fl_batch_verify(b->body, b->body_len);
	FlLogRecord rec;
	int64		n = 0;

	if (res != FL_OK && c->checksum == NULL)
		c->checksum = psprintf("batch at offset " INT64_FORMAT ": %s", b->base_offset, fl_result_name(res));
	/* The first one may begin below the head. */
	if (b->base_offset != c->next && (c->batches > 0 || b->base_offset > c->next) && c->density == NULL)
		c->density = psprintf("offset " INT64_FORMAT " follows " INT64_FORMAT, b->base_offset, c->next - 1);
	if (b->append_ts < c->last_ts && c->order == NULL)
		c->order = psprintf("append time steps back at offset " INT64_FORMAT, b->base_offset);
	if (res == FL_OK)
	{
		fl_batch_decoder_open(decoder, b);
		while (fl_batch_decoder_next(decoder, &rec))
			n++;
		if (n != b->count && c->density == NULL)
			c->density = psprintf("batch at offset " INT64_FORMAT " has " INT64_FORMAT " records instead of %d",
								  b->base_offset, n, b->count);
	}
	c->batches++;
	c->records += b->count;
	c->last_ts = Max(c->last_ts, b->append_ts);
	c->next = b->base_offset + b->count;
}

static void
check_shard(Oid stream, int32 shard, LogCheck *c)
{
	FlLogPosition pos = {0};
	FlBatchDecoder *decoder = fl_batch_decoder_create(CurrentMemoryContext);
	FlLogReader *reader;
	FlStoredBatch batch;

	memset(c, 0, sizeof(*c));
	c->tail = fl_log_tail(stream, shard);
	c->head = c->next = pos.offset = fl_log_head(stream, shard);
	c->last_ts = DT_NOBEGIN;
	if (c->head >= c->tail)
		return;
	reader = fl_log_reader_begin(stream, shard, &pos, c->tail);
	while (fl_log_reader_next(reader, &batch))
	{
		CHECK_FOR_INTERRUPTS();
		check_batch(c, decoder, &batch);
	}
	fl_log_reader_end(reader);
	if (c->next < c->tail && c->density == NULL)
		c->density = psprintf("records from offset " INT64_FORMAT " to the tail " INT64_FORMAT " are missing", c->next, c->tail);
}

/* A page that cannot be read at all is a result, too, and not the end of the others. */
static void
verify_shard(ReturnSetInfo *rsinfo, Oid stream, int32 shard)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	LogCheck	c = {0};
	char	   *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		check_shard(stream, shard, &c);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(cxt);
		edata = CopyErrorData();
		if (edata->sqlerrcode == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		error = edata->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	put_result(rsinfo, shard, "checksums", error == NULL && c.checksum == NULL,
			   error != NULL ? error : c.checksum != NULL ? c.checksum :
			   psprintf(INT64_FORMAT " records in " INT64_FORMAT " batches", c.records, c.batches));
	if (error != NULL)
		return;
	put_result(rsinfo, shard, "density", c.density == NULL,
			   c.density != NULL ? c.density : psprintf("offsets " INT64_FORMAT " to " INT64_FORMAT, c.head, c.tail));
	put_result(rsinfo, shard, "time order", c.order == NULL, c.order);
}

/* ---- state tables -------------------------------------------------------------------- */

static char *
describe(const FlCompareResult *r)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, INT64_FORMAT " keys agree", r->agree);
	if (r->older > 0)
		appendStringInfo(&s, ", " INT64_FORMAT " are older than the history", r->older);
	if (r->foreign > 0)
		appendStringInfo(&s, ", " INT64_FORMAT " are of topics that are not kept here any more", r->foreign);
	if (r->pending > 0)
		appendStringInfo(&s, ", " INT64_FORMAT " values wait for a lock", r->pending);
	if (r->nfaults > 0)
		appendStringInfo(&s, "; " INT64_FORMAT " differ: ", r->nfaults);
	for (int64 i = 0; i < r->nfaults && i < SHOWN_FAULTS; i++)
		appendStringInfo(&s, "%skey \"%s\" %s", i > 0 ? ", " : "", text_to_cstring(r->faults[i].key), r->faults[i].what);
	if (r->nfaults > SHOWN_FAULTS)
		appendStringInfoString(&s, ", ...");
	return s.data;
}

/* State tables of the stream's mounts, each once; the list is copied. */
static int
states_of(Oid stream, Oid **out)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);
	Oid		   *states = palloc(sizeof(Oid) * Max(n, 1));
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		bool		known = !OidIsValid(mounts[i].state) || mounts[i].stream != stream;

		for (int j = 0; j < count && !known; j++)
			known = states[j] == mounts[i].state;
		if (!known)
			states[count++] = mounts[i].state;
	}
	*out = states;
	return count;
}

Datum
fl_sql_verify(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			stream = PG_GETARG_OID(0);
	const FlStreamInfo *info;
	Oid		   *states;
	int32		shards;
	int			n;

	fl_require_preload();
	info = fl_stream_lookup(stream);
	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream) ? get_rel_name(stream) : "?"),
				 errhint("Streams are listed in the view fleetlog.stream.")));
	if (!FL_OWNS_TABLE(stream, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(stream));
	shards = info->shards;
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	fl_flush_published();
	for (int32 i = 0; i < shards; i++)
		verify_shard(rsinfo, stream, i);
	n = states_of(stream, &states);
	for (int i = 0; i < n; i++)
	{
		FlCompareResult *r = fl_state_compare(states[i], stream);

		put_result(rsinfo, -1, psprintf("state %s", get_rel_name(states[i])), r->nfaults == 0, describe(r));
	}
	return (Datum) 0;
}

/* ---- rebuilding -------------------------------------------------------------------------- */

/* The change that makes the row what it should be. */
static bool
correction(Oid state, Oid stream, const FlStateFault *f, FlStateChange *c)
{
	if (f->has_value)
		return fl_state_change_at(stream, f->expected.shard, f->expected.log_offset, FL_STATE_ALL, c) && c->state == state;
	memset(c, 0, sizeof(*c));
	c->state = state;
	c->stream = stream;
	c->key = (struct varlena *) f->key;
	c->pos = f->expected;
	c->cleared = true;
	return true;
}

static int64
correct(Oid state, Oid stream, const FlCompareResult *r, int64 *left)
{
	FlStateWriter writer;
	int64		n = 0;
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "fleetlog rebuild row", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	fl_state_writer_begin(&writer);
	if (!fl_state_writer_open(&writer, state))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("state table \"%s\" is locked by another session", get_rel_name(state))));
	for (int64 i = 0; i < r->nfaults; i++)
	{
		const FlStateFault *f = &r->faults[i];
		FlStateChange c;
		bool		done;

		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(row);
		done = correction(state, stream, f, &c) && fl_state_force(&writer, &c, f->has_row ? &f->found : NULL);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
		n += done;
		*left += !done;
	}
	fl_state_writer_end(&writer);
	MemoryContextDelete(row);
	return n;
}

Datum
fl_sql_rebuild_state(PG_FUNCTION_ARGS)
{
	Oid			state = PG_GETARG_OID(0);
	int			n;
	const FlMount *mounts;
	Oid		   *streams;
	int			nstreams = 0;
	int64		corrected = 0;
	int64		left = 0;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.rebuild_state()");
	if (!fl_state_is_table(state))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a state table", get_rel_name(state) ? get_rel_name(state) : "?"),
				 errhint("Create one with fleetlog.create_state.")));
	if (!FL_OWNS_TABLE(state, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(state));
	mounts = fl_mount_list(&n);
	streams = palloc(sizeof(Oid) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		bool		known = mounts[i].state != state;

		for (int j = 0; j < nstreams && !known; j++)
			known = streams[j] == mounts[i].stream;
		if (!known)
			streams[nstreams++] = mounts[i].stream;
	}
	for (int i = 0; i < nstreams; i++)
		corrected += correct(state, streams[i], fl_state_compare(state, streams[i]), &left);
	ereport(NOTICE,
			(errmsg("state table \"%s\": " INT64_FORMAT " rows were corrected", get_rel_name(state), corrected),
			 left > 0 ? errdetail(INT64_FORMAT " rows were written, or locked, by somebody else meanwhile and left alone.", left) : 0));
	PG_RETURN_VOID();
}
