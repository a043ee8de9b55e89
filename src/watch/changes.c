/*-------------------------------------------------------------------------
 *
 * changes.c
 *		watch(): what the records of a piece of log mean for the state table.
 *
 * Records are read below the durable tail, without a snapshot.  Where row-level
 * security restricts the caller, the executor reads them, as for poll(): what its
 * policies hide means nothing here.
 *
 * What a record means is decided by src/state/values.c alone, so a watch tells
 * what the table is told.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/rls.h"
#include "watch_internal.h"

/* Offsets that the executor looks at in one call, so that a long history of others is read in steps. */
#define EXECUTOR_SPAN	1000

#define COMPACT_AT		10000

/* ---- the list -------------------------------------------------------------------- */

FlWatchChanges *
fl_watch_changes_create(MemoryContext parent, bool newest_only)
{
	MemoryContext mcxt = AllocSetContextCreate(parent, "fleetlog watch changes", ALLOCSET_DEFAULT_SIZES);
	FlWatchChanges *l = MemoryContextAllocZero(mcxt, sizeof(FlWatchChanges));

	l->mcxt = mcxt;
	l->newest_only = newest_only;
	l->compact_at = COMPACT_AT;
	return l;
}

void
fl_watch_changes_free(FlWatchChanges *l)
{
	MemoryContextDelete(l->mcxt);
}

static void
free_change(FlStateChange *c)
{
	struct varlena *parts[5] = {c->key, c->tenant, c->device, c->headers, c->payload};

	for (int i = 0; i < lengthof(parts); i++)
		if (parts[i] != NULL)
			pfree(parts[i]);
}

static int
bytes_cmp(const struct varlena *a, const struct varlena *b)
{
	int32		alen = VARSIZE_ANY_EXHDR(a);
	int32		blen = VARSIZE_ANY_EXHDR(b);
	int			c = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(alen, blen));

	return c != 0 ? c : alen - blen;
}

static int
key_cmp(const FlStateChange *a, const FlStateChange *b)
{
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return bytes_cmp(a->key, b->key);
}

/* The newest of a key comes first. */
static int
key_and_age_cmp(const void *x, const void *y)
{
	const FlStateChange *a = &((const FlWatchChange *) x)->c;
	const FlStateChange *b = &((const FlWatchChange *) y)->c;
	int			c = key_cmp(a, b);

	return c != 0 ? c : fl_state_pos_cmp(&b->pos, &a->pos);
}

void
fl_watch_changes_compact(FlWatchChanges *l)
{
	int			keep = 0;

	if (l->n > 1)
		qsort(l->list, l->n, sizeof(FlWatchChange), key_and_age_cmp);
	for (int i = 0; i < l->n; i++)
	{
		if (keep > 0 && key_cmp(&l->list[keep - 1].c, &l->list[i].c) == 0)
		{
			free_change(&l->list[i].c);
			continue;
		}
		l->list[keep++] = l->list[i];
	}
	l->n = keep;
}

FlWatchChange *
fl_watch_changes_find(FlWatchChanges *l, Oid stream, text *key)
{
	FlStateChange wanted = {.stream = stream,.key = (struct varlena *) key};
	int			low = 0;
	int			high = l->n;

	while (low < high)
	{
		int			mid = low + (high - low) / 2;
		int			c = key_cmp(&wanted, &l->list[mid].c);

		if (c == 0)
			return &l->list[mid];
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static void
add_change(FlWatchChanges *l, const FlWatchChange *change)
{
	if (l->n == l->max)
	{
		l->max = Max(64, l->max * 2);
		l->list = l->list ? repalloc_huge(l->list, sizeof(FlWatchChange) * l->max) :
			MemoryContextAllocHuge(l->mcxt, sizeof(FlWatchChange) * l->max);
	}
	l->list[l->n++] = *change;
	l->bytes += change->c.bytes;
	if (l->newest_only && l->n >= l->compact_at)
	{
		fl_watch_changes_compact(l);
		l->compact_at = Max(COMPACT_AT, l->n * 2);
	}
}

/* ---- records ------------------------------------------------------------------------ */

typedef struct Reading
{
	FlWatch    *w;
	FlWatchRange *r;
	FlWatchChanges *out;
	MemoryContext row;			/* for one row of the executor */
} Reading;

static bool
is_enough(const Reading *rd)
{
	const FlWatchRange *r = rd->r;

	if (r->max_changes == 0)
		return false;
	return rd->out->n >= r->max_changes || rd->out->bytes >= r->max_bytes || rd->w->looked_at >= r->max_look;
}

static void
take_record(Reading *rd, const FlLogRecord *rec, int32 epoch)
{
	FlWatchRange *r = rd->r;
	FlWatchChange change = {.source = r->source,.epoch = epoch};
	Oid			stream = rd->w->sources[r->source].stream;
	FlStateScope scope = FL_STATE_ALL;
	const uint8 *topic;
	int32		len;
	MemoryContext old;

	rd->w->looked_at++;
	r->last_ts = rec->ts;
	if (rec->log_offset < r->values_from && rec->log_offset < r->folded_from)
		return;
	if (rec->log_offset < r->folded_from)
		scope = FL_STATE_IN_TRANSACTION;
	else if (rec->log_offset < r->values_from)
		scope = FL_STATE_FOLDED;
	/* The filter first: it is cheap, and most records are not wanted. */
	if (!fl_state_topic_of(rec, &topic, &len) || !fl_watch_filter_wants(&rd->w->filter, topic, len))
		return;
	old = MemoryContextSwitchTo(rd->out->mcxt);
	if (fl_state_change_of(stream, r->shard, rec, scope, &change.c))
	{
		if (change.epoch < 0)
			change.epoch = fl_epoch_of(stream, r->shard, rec->log_offset);
		if (change.c.state == rd->w->state)
			add_change(rd->out, &change);
		else
			free_change(&change.c);
	}
	MemoryContextSwitchTo(old);
}

static void
read_log(Reading *rd)
{
	FlWatchRange *r = rd->r;
	Oid			stream = rd->w->sources[r->source].stream;
	FlLogPosition at = r->at;
	FlLogReader *reader = fl_log_reader_begin(stream, r->shard, &at, r->upto);
	FlBatchDecoder *decoder = fl_batch_decoder_create(CurrentMemoryContext);
	FlStoredBatch batch;

	while (!is_enough(rd) && fl_log_reader_next(reader, &batch))
	{
		FlLogRecord rec;

		fl_batch_decoder_open(decoder, &batch);
		while (!is_enough(rd) && fl_batch_decoder_next(decoder, &rec))
		{
			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < r->at.offset || rec.log_offset >= r->upto)
				continue;
			r->at.offset = rec.log_offset + 1;
			r->epoch = batch.leader_epoch;
			take_record(rd, &rec, batch.leader_epoch);
		}
		/* The hint leads to this batch, which is right also when it was not read to its end. */
		r->at.leaf = at.leaf;
		r->at.block = at.block;
	}
	fl_log_reader_end(reader);
}

/* ---- the same by the executor, with the policies of the caller -------------------------- */

static const uint8 *
bytes_of(Datum *values, bool *isnull, int att, int32 *len)
{
	struct varlena *v;

	*len = -1;
	if (isnull[att - 1])
		return NULL;
	v = PG_DETOAST_DATUM_PACKED(values[att - 1]);
	*len = VARSIZE_ANY_EXHDR(v);
	return (const uint8 *) VARDATA_ANY(v);
}

static void
on_row(void *arg, Datum *values, bool *isnull)
{
	Reading    *rd = arg;
	FlLogRecord rec;
	const uint8 *headers;
	int32		len;
	MemoryContext old;

	if (is_enough(rd))
		return;
	MemoryContextReset(rd->row);
	old = MemoryContextSwitchTo(rd->row);
	memset(&rec, 0, sizeof(rec));
	rec.log_offset = DatumGetInt64(values[FL_ATT_OFFSET - 1]);
	rec.ts = DatumGetTimestampTz(values[FL_ATT_TS - 1]);
	rec.created_ms = FL_NO_TIMESTAMP;
	rec.tenant = bytes_of(values, isnull, FL_ATT_TENANT, &rec.tenant_len);
	rec.device = bytes_of(values, isnull, FL_ATT_DEVICE, &rec.device_len);
	rec.key = bytes_of(values, isnull, FL_ATT_KEY, &rec.key_len);
	headers = bytes_of(values, isnull, FL_ATT_HEADERS, &len);
	fl_state_split_headers(headers, len, &rec);
	rec.payload = bytes_of(values, isnull, FL_ATT_PAYLOAD, &rec.payload_len);
	rd->r->at.offset = rec.log_offset + 1;
	take_record(rd, &rec, FL_NO_EPOCH);
	MemoryContextSwitchTo(old);
}

static void
read_executor(Reading *rd)
{
	FlWatchRange *r = rd->r;
	Oid			stream = rd->w->sources[r->source].stream;

	rd->row = AllocSetContextCreate(CurrentMemoryContext, "fleetlog watch row", ALLOCSET_DEFAULT_SIZES);
	while (r->at.offset < r->upto && !is_enough(rd))
	{
		int64		from = r->at.offset;
		int64		next = fl_rls_read(stream, r->shard, from, Min(r->upto, from + EXECUTOR_SPAN), EXECUTOR_SPAN, on_row, rd);

		CHECK_FOR_INTERRUPTS();
		/* Those that were hidden were looked at, too, if we have come to their end. */
		if (!is_enough(rd))
		{
			rd->w->looked_at += next - from;
			r->at.offset = next;
		}
	}
	r->epoch = fl_epoch_of(stream, r->shard, r->at.offset - 1);
}

void
fl_watch_read_range(FlWatch *w, FlWatchRange *r, FlWatchChanges *out)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog watch read", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	Reading		rd = {.w = w,.r = r,.out = out};

	r->last_ts = DT_NOBEGIN;
	if (r->at.offset < r->upto)
	{
		if (w->sources[r->source].policies)
			read_executor(&rd);
		else
			read_log(&rd);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
}
