/*-------------------------------------------------------------------------
 *
 * log.c
 *	  Catalog, log, ingest and state tables in memory: see fake.h.
 *
 * Two mounts, "acme/" with a state table in stream 100 (two shards) and "p/"
 * without one in stream 101, whose record key is not the topic; no stream for
 * anything else.  A record is durable when its answer is given, in the order in
 * which it was handed over, and what it says of a session is applied to the
 * real store then (src/session), as the transaction's commit would do.
 *
 *-------------------------------------------------------------------------
 */
#include "fake.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "fleetlog/catalog.h"
#include "fleetlog/cursor.h"
#include "fleetlog/headers.h"
#include "fleetlog/ingest.h"
#include "fleetlog/log.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "fleetlog/memory_topic.h"
#include "fleetlog/read.h"
#include "fleetlog/topic.h"
#include "fleetlog/totals.h"
#include "fleetlog/turn.h"
#include "fleetlog/worker.h"

#include "../../../src/session/session_internal.h"
#include "../../../src/shmem/shmem_internal.h"

#define MAX_RECORDS 4096
#define JOURNAL     200
#define STATE       300

static const FlStreamInfo streams[] = {
	{.relid = 100, .schema = "public", .name = "telemetry", .shards = 2},
	{.relid = 101, .schema = "public", .name = "other", .shards = 1},
	{.relid = JOURNAL, .schema = "fleetlog", .name = "session_journal", .shards = 1},
};

static FlMount mounts[2];
static const FlTenant tenant = {.name = "acme",
								.prefix = "acme/",
								.prefix_len = 5,
								.max_subscriptions = 20,
								.max_wildcard_subscriptions = 10,
								.max_queued_messages = 30,
								.max_queued_bytes = 20000};

/* ---- what other processes would have ---- */

FlShared *fl_shared = NULL;
FlCore *fl_core = NULL;
FlWorkerSlot *fl_my_slot = NULL;
char *fl_stop_points = NULL;
int fl_max_connections = 6;
int fl_max_record_kb = 1024;
int fl_workers = 1;

void
fl_stop_point_slow(const char *name)
{
}

void
fl_worker_wake(FlWorkerKind kind, int index)
{
}

void
fl_worker_own_resources(void)
{
}

void
fl_worker_absorb_error(MemoryContext context)
{
	MemoryContextSwitchTo(context);
	EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
}

static void *
context_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	return old == NULL ? MemoryContextAllocHuge((MemoryContext) ctx, new_size) : repalloc_huge(old, new_size);
}

static void
context_free(void *ctx, void *p)
{
	if (p != NULL)
		pfree(p);
}

void
fl_context_allocator(FlAllocator *alloc, MemoryContext context)
{
	*alloc = (FlAllocator) {context_realloc, context_free, context};
}

void
fl_worker_set_state(const char *fmt, ...)
{
}

bool
fl_worker_should_stop(void)
{
	return false;
}

int
fl_slot_number(FlWorkerKind kind, int index)
{
	return index;
}

TimestampTz
fl_wall_now(void)
{
	return fake_now_us;
}

TimestampTz
fl_clock_now(void)
{
	return fake_now_us++;
}

TimestampTz
fl_clock_tick(void)
{
	return fake_now_us++;
}

/* ---- catalog ---- */

bool
fl_catalog_is_stale(void)
{
	return false;
}

void
fl_catalog_refresh(void)
{
}

uint64
fl_catalog_version(void)
{
	return 1;
}

uint32
fl_catalog_mounts_digest(void)
{
	return 1;
}

const FlStreamInfo *
fl_stream_lookup(Oid relid)
{
	for (int i = 0; i < (int) lengthof(streams); i++)
		if (streams[i].relid == relid)
			return &streams[i];
	return NULL;
}

const FlMount *
fl_mount_list(int *count)
{
	*count = lengthof(mounts);
	return mounts;
}

const FlMount *
fl_mount_match(const char *topic, size_t len)
{
	for (int i = 0; i < (int) lengthof(mounts); i++)
		if (len >= mounts[i].prefix_len && memcmp(topic, mounts[i].prefix, mounts[i].prefix_len) == 0)
			return &mounts[i];
	return NULL;
}

const FlTenant *
fl_tenant_lookup(const char *name)
{
	return strcmp(name, "acme") == 0 ? &tenant : NULL;
}

bool
fl_acl_check(const FlIdentity *id, FlAction action, const char *topic, size_t len, const char **why)
{
	bool ok = len < 3 || memcmp(topic, "no/", 3) != 0;

	if (why != NULL)
		*why = ok ? "its own" : "no rule";
	return ok;
}

bool
fl_acl_may_receive(const FlIdentity *id, const char *topic, size_t len)
{
	return true;
}

bool
fl_acl_is_guarded(const char *filter, size_t len)
{
	return false;
}

bool
fl_topic_is_command(const char *topic, size_t len)
{
	return len >= 9 && memcmp(topic, "acme/cmd/", 9) == 0;
}

Oid
fl_command_stream(void)
{
	return InvalidOid;
}

bool
fl_topic_is_shadow(const char *topic, size_t len)
{
	return false;
}

void
fl_roles_init(void)
{
}

bool
fl_roles_are_stale(void)
{
	return false;
}

void
fl_roles_refresh(void)
{
}

uint64
fl_roles_version(void)
{
	return 1;
}

const char *
fl_role_admit(const FlIdentity *id)
{
	return NULL;
}

bool
fl_role_is_same(const FlIdentity *id)
{
	return true;
}

bool
fl_role_may_read(Oid role, Oid stream)
{
	return stream == 100;
}

int32
fl_epoch_of(Oid stream, int32 shard, int64 offset)
{
	return 1;
}

int64
fl_epoch_end(Oid stream, int32 shard, int32 epoch, bool *known)
{
	*known = epoch == 1;
	return PG_INT64_MAX;
}

/* ---- log ---- */

typedef struct Record
{
	FlShard *shard;
	FlLogRecord rec;
	char *topic; /* of a value for the state table; NULL: none */
	int topic_len;
	uint8 *bytes;
} Record;

static Record records[MAX_RECORDS];
static int n_records;
static FlShard shards[4];
static int n_shards;

static FlShard *
shard_of(Oid stream, int32 number)
{
	for (int i = 0; i < n_shards; i++)
		if (shards[i].key.stream == stream && shards[i].key.shard == number)
			return &shards[i];
	FL_FUZZ_ASSERT(!"a shard that is not there");
	return NULL;
}

FlShard *
fl_shard_open(Oid stream, int32 shard, bool quorum)
{
	return shard_of(stream, shard);
}

FlShard *
fl_shard_find(Oid stream, int32 shard)
{
	for (int i = 0; i < n_shards; i++)
		if (shards[i].key.stream == stream && shards[i].key.shard == shard)
			return &shards[i];
	return NULL;
}

int64
fl_shard_durable_tail(FlShard *shard)
{
	return shard->next_offset;
}

int64
fl_log_tail(Oid stream, int32 shard)
{
	return shard_of(stream, shard)->next_offset;
}

int64
fl_log_head(Oid stream, int32 shard)
{
	return 0;
}

int64
fl_log_offset_for_time(Oid stream, int32 shard, TimestampTz at)
{
	for (int i = 0; i < n_records; i++)
		if (records[i].shard == shard_of(stream, shard) && records[i].rec.ts >= at)
			return records[i].rec.log_offset;
	return -1;
}

struct FlLogReader
{
	FlShard *shard;
	FlLogPosition *pos;
	int64 limit;
};

struct FlBatchDecoder
{
	const Record *record; /* NULL: it has been given */
};

FlLogReader *
fl_log_reader_begin(Oid stream, int32 shard, FlLogPosition *pos, int64 limit)
{
	FlLogReader *reader = palloc(sizeof(FlLogReader));

	reader->shard = shard_of(stream, shard);
	reader->pos = pos;
	reader->limit = limit;
	FL_FUZZ_ASSERT(IsTransactionState() && pos->offset >= 0 && limit <= reader->shard->next_offset);
	return reader;
}

bool
fl_log_reader_next(FlLogReader *reader, FlStoredBatch *out)
{
	for (int i = 0; i < n_records; i++)
	{
		if (records[i].shard != reader->shard || records[i].rec.log_offset < reader->pos->offset ||
			records[i].rec.log_offset >= reader->limit)
			continue;
		memset(out, 0, sizeof(*out));
		out->base_offset = records[i].rec.log_offset;
		out->count = 1;
		out->leader_epoch = 1;
		out->append_ts = records[i].rec.ts;
		out->body = (const uint8 *) &records[i];
		reader->pos->offset = out->base_offset + 1;
		return true;
	}
	return false;
}

void
fl_log_reader_bound(FlLogReader *reader, uint32 pages)
{
}

bool
fl_log_reader_stopped(const FlLogReader *reader)
{
	return false;
}

void
fl_log_reader_end(FlLogReader *reader)
{
	pfree(reader);
}

FlBatchDecoder *
fl_batch_decoder_create(MemoryContext parent)
{
	return MemoryContextAllocZero(parent, sizeof(FlBatchDecoder));
}

void
fl_batch_decoder_open(FlBatchDecoder *decoder, const FlStoredBatch *batch)
{
	decoder->record = (const Record *) batch->body;
}

bool
fl_batch_decoder_next(FlBatchDecoder *decoder, FlLogRecord *rec)
{
	if (decoder->record == NULL)
		return false;
	*rec = decoder->record->rec;
	decoder->record = NULL;
	return true;
}

/* ---- writing ---- */

typedef struct Waiting
{
	struct Waiting *next;
	Record record; /* shard NULL: only events */
	uint8 *events;
	uint32 events_len;
	bool wait;
	uint64 conn_id;
	uint64 cookie;
} Waiting;

static Waiting *first_waiting;
static Waiting **last_waiting = &first_waiting;
static uint64 fake_ingest_added;
static FlIngestDone done;
static void *done_arg;
int fake_ingest_answers = -1;
uint32 fake_ingest_faults = 0;
bool fake_ingest_full = false;

int
fake_ingest_waiting(void)
{
	int n = 0;

	for (Waiting *w = first_waiting; w != NULL; w = w->next)
		n++;
	return n;
}

FlIngest *
fl_ingest_create(int door, FlIngestDone callback, void *arg)
{
	done = callback;
	done_arg = arg;
	return (FlIngest *) &done;
}

/* Bytes of the record in one piece of memory of its own. */
static const uint8 *
take_bytes(uint8 **at, const uint8 *from, int32 len)
{
	uint8 *to = *at;

	if (len > 0)
		memcpy(to, from, (size_t) len);
	*at += Max(len, 0);
	return to;
}

/* The sender stands in front of the headers and is a column when it is read. */
static void
split_sender(FlLogRecord *rec, const FlIngestRecord *in)
{
	FlReader r;
	const uint8 *start = rec->headers;

	fl_reader_init(&r, rec->headers, (size_t) in->headers_len);
	rec->headers_count = fl_read_varint(&r);
	FL_FUZZ_ASSERT(!r.failed && rec->headers_count >= in->reserved);
	for (;;)
	{
		FlReader before = r;
		int32 len;
		const uint8 *name;
		int32 value_len;
		const uint8 *value;

		rec->headers = start + (r.pos - start);
		if (rec->headers_count == 0)
			break;
		len = fl_read_varint(&r);
		name = fl_read_bytes(&r, (size_t) len);
		value_len = fl_read_varint(&r);
		value = fl_read_bytes(&r, (size_t) Max(value_len, 0));
		FL_FUZZ_ASSERT(!r.failed);
		if (len == 9 && memcmp(name, "fl.tenant", 9) == 0 && rec->tenant_len < 0)
		{
			rec->tenant = value;
			rec->tenant_len = value_len;
		}
		else if (len == 9 && memcmp(name, "fl.device", 9) == 0 && rec->device_len < 0)
		{
			rec->device = value;
			rec->device_len = value_len;
		}
		else
		{
			r = before;
			break;
		}
		rec->headers_count--;
		rec->reserved--;
	}
	rec->headers_len = (int32) (start + in->headers_len - rec->headers);
	/* All of them are what they say. */
	for (int i = 0; i < rec->headers_count; i++)
	{
		int32 len = fl_read_varint(&r);

		FL_FUZZ_ASSERT(len >= 0);
		(void) fl_read_bytes(&r, (size_t) len);
		len = fl_read_varint(&r);
		(void) fl_read_bytes(&r, (size_t) Max(len, 0));
	}
	FL_FUZZ_ASSERT(!r.failed && r.pos == r.end);
}

static void
make_record(Record *record, const FlIngestRecord *in)
{
	uint8 *at = malloc((size_t) (in->key_len + in->payload_len + in->headers_len) + 1);
	FlLogRecord *rec = &record->rec;
	const FlStreamInfo *stream = fl_stream_lookup(in->stream);

	FL_FUZZ_ASSERT(stream != NULL && in->shards == stream->shards && in->key_len >= 0 && in->payload_len >= 0);
	memset(record, 0, sizeof(*record));
	record->bytes = at;
	record->shard = shard_of(in->stream, (int32) (hash_bytes(in->shard_key, in->shard_key_len) % (uint32) in->shards));
	rec->key = take_bytes(&at, in->key, in->key_len);
	rec->key_len = in->key_len;
	rec->payload = take_bytes(&at, in->payload, in->payload_len);
	rec->payload_len = in->payload_len;
	rec->headers = take_bytes(&at, in->headers, in->headers_len);
	rec->tenant_len = rec->device_len = -1;
	rec->reserved = in->reserved;
	rec->created_ms = in->created_ms;
	rec->leader_epoch = 1;
	split_sender(rec, in);
	if (in->state)
	{
		record->topic = (char *) rec->key;
		record->topic_len = rec->key_len;
	}
}

static Waiting *
add_waiting(void)
{
	Waiting *w = calloc(1, sizeof(Waiting));

	fake_ingest_added++;
	*last_waiting = w;
	last_waiting = &w->next;
	return w;
}

FlError
fl_ingest_add(FlIngest *ing, const FlIngestRecord *rec)
{
	Waiting *w;

	if (fake_ingest_full || n_records + fake_ingest_waiting() >= MAX_RECORDS)
		return FL_ERR_SHARD_BUSY;
	w = add_waiting();
	make_record(&w->record, rec);
	if (rec->event != NULL)
	{
		w->events = malloc(rec->event_len);
		memcpy(w->events, rec->event, rec->event_len);
		w->events_len = rec->event_len;
	}
	w->wait = rec->wait;
	w->conn_id = rec->conn_id;
	w->cookie = rec->cookie;
	return FL_ERR_NONE;
}

FlError
fl_ingest_add_events(FlIngest *ing, const FlIngestEvents *events)
{
	Waiting *w;

	FL_FUZZ_ASSERT(events->journal == JOURNAL && events->len > 0);
	if (fake_ingest_full)
		return FL_ERR_SHARD_BUSY;
	w = add_waiting();
	w->events = malloc(events->len);
	memcpy(w->events, events->bytes, events->len);
	w->events_len = events->len;
	w->wait = events->wait;
	w->conn_id = events->conn_id;
	w->cookie = events->cookie;
	return FL_ERR_NONE;
}

static void
append(Record *record)
{
	record->rec.log_offset = record->shard->next_offset++;
	record->rec.ts = fl_clock_now();
	pg_atomic_write_u64(&fl_shared->append_clock, (uint64) record->rec.ts);
	records[n_records++] = *record;
}

/* What the transaction's commit would do: the record is there, and what it says of a session. */
static void
commit(Waiting *w)
{
	FlSessionEvent at = {.type = FL_SESSION_AT};
	uint8 room[64];
	FlBuf out;

	if (w->record.shard != NULL)
	{
		append(&w->record);
		w->record.bytes = NULL;
		at.stream = w->record.shard->key.stream;
		at.shard = (uint16) w->record.shard->key.shard;
		at.log_offset = w->record.rec.log_offset;
	}
	if (w->events == NULL)
		return;
	if (w->record.shard != NULL)
	{
		uint8 *joined;

		fl_buf_init_fixed(&out, room, sizeof(room));
		fl_session_encode_event(&out, &at);
		joined = malloc(out.len + w->events_len);
		memcpy(joined, room, out.len);
		memcpy(joined + out.len, w->events, w->events_len);
		FL_FUZZ_ASSERT(fl_store_apply(joined, out.len + w->events_len) == FL_OK);
		free(joined);
	}
	else
		FL_FUZZ_ASSERT(fl_store_apply(w->events, w->events_len) == FL_OK);
}

int
fl_ingest_poll(FlIngest *ing)
{
	int n = 0;

	while (first_waiting != NULL && (fake_ingest_answers < 0 || n < fake_ingest_answers))
	{
		static const FlError faults[] = {FL_ERR_INTERNAL, FL_ERR_DISK_RESERVE, FL_ERR_SHARD_BUSY, FL_ERR_QUOTA};
		Waiting *w = first_waiting;
		FlError err = FL_ERR_NONE;

		first_waiting = w->next;
		if (first_waiting == NULL)
			last_waiting = &first_waiting;
		if (fake_ingest_faults != 0 && fake_random(fake_ingest_faults) == 0)
			err = faults[fake_random(lengthof(faults))];
		else
			commit(w);
		if (w->wait && w->record.shard != NULL && err == FL_ERR_NONE)
			(void) done(done_arg, w->conn_id, w->cookie, err, w->record.shard->key.stream, w->record.shard->key.shard,
						w->record.rec.log_offset);
		else if (w->wait)
			(void) done(done_arg, w->conn_id, w->cookie, err, JOURNAL, 0, 0);
		free(w->record.bytes);
		free(w->events);
		free(w);
		n++;
	}
	return n;
}

bool
fl_ingest_write(FlIngest *ing)
{
	return false;
}

long
fl_ingest_flush(FlIngest *ing)
{
	return -1;
}

long
fl_ingest_due_in(FlIngest *ing)
{
	return -1;
}

int64
fl_ingest_outstanding(FlIngest *ing)
{
	return fake_ingest_waiting();
}

uint64
fl_ingest_added(const FlIngest *ing)
{
	return fake_ingest_added;
}

/* In their order, one by one. */
bool
fl_ingest_await(FlIngest *ing, uint64 added)
{
	return fake_ingest_added - (uint64) fake_ingest_waiting() >= added;
}

bool
fl_ingest_has_room(FlIngest *ing)
{
	return !fake_ingest_full;
}

bool
fl_journal_stream(Oid *stream)
{
	*stream = JOURNAL;
	return true;
}

void
fake_log_append(const char *topic, const char *payload, int qos, bool retain)
{
	Record record = {0};
	size_t topic_len = strlen(topic);
	size_t payload_len = strlen(payload);
	uint8 *at = malloc(topic_len + payload_len + 32);
	FlHeadersBuilder b;
	FlBuf out;
	char digit = (char) ('0' + qos);

	record.bytes = at;
	record.shard = shard_of(100, (int32) (hash_bytes((const uint8 *) topic, (int) topic_len) % 2));
	record.rec.key = take_bytes(&at, (const uint8 *) topic, (int32) topic_len);
	record.rec.key_len = (int32) topic_len;
	record.rec.payload = take_bytes(&at, (const uint8 *) payload, (int32) payload_len);
	record.rec.payload_len = (int32) payload_len;
	record.rec.tenant_len = record.rec.device_len = -1;
	record.rec.created_ms = FL_NO_TIMESTAMP;
	record.rec.leader_epoch = 1;
	record.rec.reserved = record.rec.headers_count = 1;
	fl_buf_init_fixed(&out, at, 32);
	fl_headers_builder_begin(&b, &out);
	fl_headers_builder_add_reserved(&b, "fl.qos", 6, &digit, 1);
	FL_FUZZ_ASSERT(fl_headers_builder_end(&b) == FL_OK);
	/* The array's count and the number of ours stand before it. */
	record.rec.headers = at + 2;
	record.rec.headers_len = (int32) out.len - 2;
	if (retain)
	{
		record.topic = (char *) record.rec.key;
		record.topic_len = (int) topic_len;
	}
	append(&record);
}

/* ---- state tables: the newest record of a topic ---- */

struct FlStateScan
{
	const uint8 *prefix;
	int32 prefix_len;
	bool exact;
	char *after;
	int32 after_len;
};

bool
fl_state_is_value(const FlMount *mount, bool retain)
{
	return OidIsValid(mount->state) && retain;
}

static int
compare_keys(const char *a, int a_len, const char *b, int b_len)
{
	int c = memcmp(a, b, (size_t) Min(a_len, b_len));

	return c != 0 ? c : a_len - b_len;
}

FlStateScan *
fl_state_scan_begin(Oid state, Oid stream, const uint8 *prefix, int32 prefix_len, bool exact, const uint8 *after,
					int32 after_len)
{
	FlStateScan *scan = palloc0(sizeof(FlStateScan));

	FL_FUZZ_ASSERT(IsTransactionState() && state == STATE);
	scan->prefix = prefix;
	scan->prefix_len = prefix_len;
	scan->exact = exact;
	if (after != NULL)
	{
		scan->after = palloc((Size) after_len + 1);
		memcpy(scan->after, after, (size_t) after_len);
		scan->after_len = after_len;
	}
	return scan;
}

static bool
is_in_scan(const FlStateScan *scan, const Record *r)
{
	if (r->topic == NULL || r->topic_len < scan->prefix_len || memcmp(r->topic, scan->prefix, (size_t) scan->prefix_len) != 0 ||
		(scan->exact && r->topic_len != scan->prefix_len))
		return false;
	return scan->after == NULL || compare_keys(r->topic, r->topic_len, scan->after, scan->after_len) > 0;
}

bool
fl_state_scan_next(FlStateScan *scan, FlStateRow *row)
{
	const Record *best;

	do
	{
		best = NULL;
		for (int i = 0; i < n_records; i++)
			if (is_in_scan(scan, &records[i]) &&
				(best == NULL || compare_keys(records[i].topic, records[i].topic_len, best->topic, best->topic_len) <= 0))
				best = &records[i];
		if (best == NULL)
			return false;
		scan->after = best->topic;
		scan->after_len = best->topic_len;
		/* An empty one takes the value away. */
	} while (best->rec.payload_len == 0);
	row->key = best->topic;
	row->key_len = best->topic_len;
	row->shard = best->shard->key.shard;
	row->rec = best->rec;
	return true;
}

void
fl_state_scan_end(FlStateScan *scan)
{
	pfree(scan);
}

bool
fl_state_last(Oid state, Oid stream, const uint8 *key, int32 len, FlStateRow *row, bool *cleared)
{
	return false;
}

bool
fl_state_is_folded_to(Oid state, Oid stream, int32 shard, int64 log_offset)
{
	return true;
}

bool
fl_state_is_flushed_to(Oid state, Oid stream, int32 shard, int64 log_offset)
{
	return true;
}

void
fl_state_await_flush(void)
{
}

int
fake_registered(void)
{
	return (int) hash_get_num_entries(fl_registry);
}

/* ---- an input ---- */

static void
make_mount(FlMount *mount, const char *prefix, Oid stream, Oid state, const char *key)
{
	mount->prefix = prefix;
	mount->prefix_len = strlen(prefix);
	mount->stream = stream;
	mount->state = state;
	mount->shard_key_same = true;
	FL_FUZZ_ASSERT(fl_template_parse(key, &mount->record_key) == NULL);
}

static void
make_shared(void)
{
	make_mount(&mounts[0], "acme/", 100, STATE, "{topic}");
	make_mount(&mounts[1], "p/", 101, InvalidOid, "{device}:{level 2}");
	fl_shared = calloc(1, sizeof(FlShared));
	fl_core = calloc(1, sizeof(FlCore));
	fl_shared->slots[0].pid = 1;
	fl_session_memory_kb = 64;
	fl_max_sessions = 10;
	fl_sessions_init();
	fl_registry_init();
	fl_share_init();
	fl_mount_stats_init();
	fl_memory_init();
	/* Nobody is at their other end. */
	fl_read_init();
}

void
fake_log_begin(void)
{
	if (fl_shared == NULL)
		make_shared();
	for (int i = 0; i < n_records; i++)
		free(records[i].bytes);
	n_records = 0;
	memset(shards, 0, sizeof(shards));
	n_shards = 0;
	for (int i = 0; i < (int) lengthof(streams); i++)
		for (int32 s = 0; s < streams[i].shards; s++)
		{
			shards[n_shards].key.stream = streams[i].relid;
			shards[n_shards++].key.shard = s;
		}
	fl_store_reset(MyDatabaseId);
	fl_store_loaded(fake_now_us);
	pg_atomic_write_u64(&fl_core->next_conn_id, 1);
	fake_ingest_answers = -1;
	fake_ingest_faults = 0;
	fake_ingest_full = false;
	fake_logins_wait = false;
}

/* ---- messages in memory, and what $SYS tells ---- */

/* Small, so that it wraps. */
int fl_memory_topic_kb = 64;

void
fl_totals_read(FlTotals *totals)
{
	memset(totals, 0, sizeof(*totals));
}

void
fl_load_sample(int interval_s)
{
}
