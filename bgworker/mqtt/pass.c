/*
 * pass.c
 *		The reader: reads the log for connections that are far behind, once for all
 *		who want the same.
 *
 *	TOPICS ─► lane of the shard: waits ─► a pass: from the lowest position on, up to the durable tail
 *	                                        │ each record: whose keys has its topic?
 *	                                        ├─► RECORD to the door of each
 *	                                        └─► at the tail: UPTO to everybody
 *
 * Ten thousand devices that come back at once and want three records each read the
 * history together, and not in the loop of a front door (REQUIREMENTS M7,
 * docs/design/catch-up.md).  Who asks for something ahead of a pass that is under
 * way joins it; who asks for something behind it waits for the next one.  That one
 * begins when nobody has come for a while, which is the longer the more would be
 * read again: a microsecond a record, and ten in all.
 *
 * Pages that a pass reads go through a small ring of buffers, the same one all the
 * time, so that they drive nothing out of the server's.  A door that wants to read by itself (WARM) has the
 * pages brought into them before, so that it waits for no disk.
 *
 * Nobody is waited for: who has had as many records as it said is let go, and so is
 * who takes nothing out of its ring for a second.
 *
 * Memory: a want is some hundred bytes, and each lagging connection has one a
 * shard; beyond MAX_WANTS the door is told to look by itself.
 *
 * Called by fl_main_reader.  It delivers nothing, and whatever a door gets from here
 * it checks as if it had read it.
 */
#include "postgres.h"

#include <sched.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/mqtt.h"
#include "fleetlog/read.h"
#include "fleetlog/worker.h"
#include "mqtt.h"

#define MAX_WANTS       200000
#define MAX_KEYS        1000000 /* of all of them */
#define MARKS_PER_KEY   16      /* bits */
#define MIN_MARKS       UINT64CONST(1024)
#define MAX_MARKS       (UINT64CONST(1) << 23)
#define STEP_US         10000 /* of one lane, then the others have their turn */
#define GIVE_WAY_US     200 /* of work, then whoever waits for the processor has it */
#define GIVE_WAY_MAX_US 3000 /* ... where whoever had it before has kept it long */
#define GIVE_WAY_EVERY  256 /* records; then the clock is looked at */
#define WARM_PAGES      256
#define QUIET_MAX_US    INT64CONST(1000000)
#define GATHER_MAX_US   INT64CONST(10000000)
#define STUCK_US        INT64CONST(1000000) /* a door that takes nothing for so long is not waited for */
#define BLOCKED_NAP_MS  2
#define OWING_NAP_MS    10
#define FORGET_LANE_US  INT64CONST(300000000)
#define PACKED_BYTES    16384 /* to begin with */
#define REPORT_US       INT64CONST(1000000)
#define MAX_FRUITLESS   3
#define LOCK_TIMEOUT    "500ms"

typedef struct LaneKey
{
	Oid stream;
	int32 shard;
} LaneKey;

typedef struct Lane
{
	LaneKey key; /* hash key: must come first */
	dlist_head wants;
	dlist_node node; /* in lanes */
	HTAB *topics;    /* KeyEntry by FlReadKey; NULL: nobody wants anything */
	uint64 *marks;   /* a bit for each of their hashes: most records are for nobody */
	uint64 marks_mask; /* their number less one */
	uint32 uses[FL_READ_MAX_LEVELS + 1]; /* keys by their slashes */
	int passing;     /* wants that the pass is for; 0: there is none */
	int waiting;     /* ... and for the next one */
	int64 from;      /* the lowest of these */
	bool stale;      /* ... or it was one that has gone */
	FlLogPosition pos; /* of the pass */
	int64 seen;      /* all that it has read below has been offered; pos may be ahead, after an error */
	int64 read_to;   /* how far the last one came */
	int64 passed_at; /* when that was; 0: there was none */
	int fruitless;   /* steps in a row that found nothing */
	int64 first_wait;
	int64 last_wait;
	int64 used;
} Lane;

typedef struct KeyEntry
{
	FlReadKey key; /* hash key: must come first */
	dlist_head links;
} KeyEntry;

struct Want;

typedef struct Link
{
	dlist_node node;
	struct Want *want;
	KeyEntry *entry;
} Link;

typedef struct WantKey
{
	uint64 conn;
	int32 door;
	int32 feed;
} WantKey;

typedef struct Want
{
	WantKey key; /* hash key: must come first */
	uint64 token;
	Lane *lane;      /* NULL: pages only, or over */
	dlist_node node; /* in lane->wants, warm, or owed */
	dlist_node over_node;
	LaneKey place;
	int64 next; /* records below are not for it, or were sent */
	uint32 most;
	bool passing;
	bool over; /* in ended: it gets nothing more */
	uint16 end; /* FlReadEnd */
	uint16 key_count;
	Link *links;
} Want;

static MemoryContext reader_context;
static MemoryContext step_context;
static HTAB *lane_table;
static HTAB *want_table;
static dlist_head lanes = DLIST_STATIC_INIT(lanes);
static dlist_head warm = DLIST_STATIC_INIT(warm);
static dlist_head ended = DLIST_STATIC_INIT(ended);         /* over, still in their lanes */
static dlist_head owed[FL_MAX_FRONT_DOORS];                 /* over, and not told yet */
static uint32 runs[FL_MAX_FRONT_DOORS];
static bool to_wake[FL_MAX_FRONT_DOORS];
static uint64 taken[FL_MAX_FRONT_DOORS];                    /* by a door whose ring is full */
static int64 full_since[FL_MAX_FRONT_DOORS];                /* 0: it is not */
static FlBatchDecoder *decoder;
static BufferAccessStrategy ring; /* that passes read through */
static uint8 *packed = NULL;
static Size packed_cap = 0;
static int64 next_due; /* when a pass is to begin; 0: none */
static int64 keys_held;

/* Microseconds.  The wall clock may be set back, and then nobody must wait for it. */
static int64
now_us(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* ---- wants ---------------------------------------------------------------------- */

static HTAB *
create_table(const char *name, Size key, Size entry)
{
	HASHCTL ctl = {.keysize = key, .entrysize = entry, .hcxt = reader_context};

	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
unlink_keys(Want *want)
{
	Lane *lane = want->lane;

	for (int i = 0; i < want->key_count; i++)
	{
		KeyEntry *entry = want->links[i].entry;

		dlist_delete(&want->links[i].node);
		lane->uses[entry->key.slashes]--;
		if (dlist_is_empty(&entry->links))
			hash_search(lane->topics, &entry->key, HASH_REMOVE, NULL);
	}
	if (want->links != NULL)
		pfree(want->links);
	keys_held -= want->key_count;
	want->links = NULL;
	want->key_count = 0;
}

/* The lowest position of those who wait for the next pass. */
static void
find_lowest(Lane *lane)
{
	dlist_iter iter;

	if (!lane->stale)
		return;
	lane->stale = false;
	lane->from = PG_INT64_MAX;
	dlist_foreach (iter, &lane->wants)
	{
		Want *want = dlist_container(Want, node, iter.cur);

		if (!want->passing)
			lane->from = Min(lane->from, want->next);
	}
}

static void
leave_lane(Want *want)
{
	Lane *lane = want->lane;

	if (lane == NULL)
		return;
	unlink_keys(want);
	dlist_delete(&want->node);
	if (want->passing)
		lane->passing--;
	else
	{
		lane->waiting--;
		lane->stale = true;
	}
	lane->used = now_us();
	/* Where the last of a pass has gone, it ends here. */
	if (want->passing && lane->passing == 0)
	{
		lane->read_to = lane->pos.offset;
		lane->passed_at = lane->used;
	}
	want->lane = NULL;
}

/* It was told, or nobody is there to be told. */
static void
drop_want(Want *want)
{
	if (want->lane != NULL)
		leave_lane(want);
	else
		dlist_delete(&want->node);
	hash_search(want_table, &want->key, HASH_REMOVE, NULL);
}

/* It gets nothing more; what is below `upto` has been looked at. */
static void
end_want(Want *want, FlReadEnd end, int64 upto)
{
	if (want->over)
		return;
	want->over = true;
	want->end = (uint16) end;
	want->next = Max(want->next, upto);
	dlist_push_tail(&ended, &want->over_node);
}

/* Those that were ended leave their lanes; not while somebody walks through these. */
static void
settle(void)
{
	while (!dlist_is_empty(&ended))
	{
		Want *want = dlist_container(Want, over_node, dlist_pop_head_node(&ended));

		if (want->lane != NULL)
			leave_lane(want);
		else
			dlist_delete(&want->node);
		dlist_push_tail(&owed[want->key.door], &want->node);
	}
}

static void
end_all(Lane *lane, FlReadEnd end, int64 upto)
{
	dlist_iter iter;

	dlist_foreach (iter, &lane->wants)
	{
		Want *want = dlist_container(Want, node, iter.cur);

		if (want->passing)
			end_want(want, end, upto);
	}
	settle();
}

static FlReadItem
item_for(const Want *want, FlReadKind kind, int64 offset)
{
	return (FlReadItem) {.kind = (uint16) kind,
						 .token = want->token,
						 .conn = want->key.conn,
						 .feed = want->key.feed,
						 .stream = want->place.stream,
						 .shard = want->place.shard,
						 .offset = offset,
						 .run = runs[want->key.door]};
}

static void
tell_ends(int door)
{
	while (!dlist_is_empty(&owed[door]))
	{
		Want *want = dlist_head_element(Want, node, &owed[door]);
		FlReadItem item = item_for(want, FL_READ_UPTO, want->next);

		item.count = want->end;
		if (!fl_read_put(FL_READ_TO_DOOR, door, &item, NULL, 0))
			return;
		to_wake[door] = true;
		drop_want(want);
	}
}

/* ---- what most records are told apart by ------------------------------------------ */

/* Some more than those who want something now: who has gone is forgotten when the next pass begins. */
static void
mark(Lane *lane, uint64 hash)
{
	hash &= lane->marks_mask;
	lane->marks[hash / 64] |= UINT64CONST(1) << hash % 64;
}

static bool
is_marked(const Lane *lane, uint64 hash)
{
	hash &= lane->marks_mask;
	return (lane->marks[hash / 64] >> hash % 64 & 1) != 0;
}

static void
mark_all(Lane *lane)
{
	HASH_SEQ_STATUS seq;
	KeyEntry *entry;
	uint64 *old = lane->marks;
	uint64 bits = MIN_MARKS;

	while (bits < MAX_MARKS && bits < (uint64) hash_get_num_entries(lane->topics) * MARKS_PER_KEY)
		bits *= 2;
	lane->marks = MemoryContextAllocZero(reader_context, bits / 8);
	lane->marks_mask = bits - 1;
	if (old != NULL)
		pfree(old);
	hash_seq_init(&seq, lane->topics);
	while ((entry = hash_seq_search(&seq)) != NULL)
		mark(lane, entry->key.hash);
}

/* ---- what doors ask for ----------------------------------------------------------- */

static Lane *
get_lane(const LaneKey *key)
{
	bool found;
	Lane *lane = hash_search(lane_table, key, HASH_ENTER, &found);

	if (found)
		return lane;
	memset((char *) lane + sizeof(LaneKey), 0, sizeof(Lane) - sizeof(LaneKey));
	dlist_init(&lane->wants);
	lane->from = PG_INT64_MAX;
	lane->topics = create_table("fleetlog topics of a lane", sizeof(FlReadKey), sizeof(KeyEntry));
	dlist_push_tail(&lanes, &lane->node);
	return lane;
}

static void
link_keys(Want *want, const FlReadKey *keys, int count)
{
	want->links = MemoryContextAlloc(reader_context, sizeof(Link) * (Size) Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		FlReadKey key = {.hash = keys[i].hash, .slashes = Min(keys[i].slashes, FL_READ_MAX_LEVELS)};
		bool found;
		KeyEntry *entry = hash_search(want->lane->topics, &key, HASH_ENTER, &found);

		if (!found)
			dlist_init(&entry->links);
		want->links[i].want = want;
		want->links[i].entry = entry;
		dlist_push_tail(&entry->links, &want->links[i].node);
		want->lane->uses[key.slashes]++;
		if (want->lane->marks != NULL)
			mark(want->lane, key.hash);
		want->key_count++;
		keys_held++;
	}
}

static void
enter_lane(Want *want, const FlReadItem *item)
{
	Lane *lane = get_lane(&want->place);
	int64 now = now_us();

	want->lane = lane;
	dlist_push_tail(&lane->wants, &want->node);
	link_keys(want, fl_read_body(item), (int) Min(item->count, item->body_len / sizeof(FlReadKey)));
	lane->used = now;
	want->passing = lane->passing > 0 && want->next >= lane->pos.offset;
	if (want->passing)
	{
		lane->passing++;
		return;
	}
	if (lane->waiting++ == 0)
		lane->first_wait = now;
	lane->last_wait = now;
	lane->from = Min(lane->from, want->next);
}

static void
forget(const WantKey *key)
{
	Want *want = hash_search(want_table, key, HASH_FIND, NULL);

	if (want != NULL)
		drop_want(want);
}

static void
take_want(int door, const FlReadItem *item)
{
	WantKey key = {.conn = item->conn, .door = door, .feed = item->feed};
	Want *want;

	forget(&key);
	want = hash_search(want_table, &key, HASH_ENTER, NULL);
	memset((char *) want + sizeof(WantKey), 0, sizeof(Want) - sizeof(WantKey));
	want->token = item->token;
	want->place.stream = item->stream;
	want->place.shard = item->shard;
	want->next = item->offset;
	want->most = Max(item->most, 1);
	if (item->kind == FL_READ_TOPICS && hash_get_num_entries(want_table) <= MAX_WANTS && keys_held <= MAX_KEYS)
		enter_lane(want, item);
	else
	{
		dlist_push_tail(&warm, &want->node);
		if (item->kind == FL_READ_TOPICS)
			end_want(want, FL_READ_UNABLE, item->offset);
		settle();
	}
}

/* What a door wanted before it was started anew. */
static void
forget_door(int door)
{
	HASH_SEQ_STATUS seq;
	Want *want;

	hash_seq_init(&seq, want_table);
	while ((want = hash_seq_search(&seq)) != NULL)
		if (want->key.door == door)
			drop_want(want);
	full_since[door] = 0;
}

static void
notice_door(int door)
{
	uint32 run = fl_read_door_run(door);

	if (run == runs[door])
		return;
	forget_door(door);
	runs[door] = run;
}

static void
take_requests(int door)
{
	const FlReadItem *item;

	notice_door(door);
	while ((item = fl_read_next(FL_READ_TO_READER, door)) != NULL)
	{
		WantKey key = {.conn = item->conn, .door = door, .feed = item->feed};

		/* It may have been started since. */
		if (item->run != runs[door])
			notice_door(door);
		if (item->run == runs[door] && item->kind == FL_READ_FORGET)
			forget(&key);
		else if (item->run == runs[door])
			take_want(door, item);
		fl_read_done(FL_READ_TO_READER, door);
	}
}

/* ---- what is found ---------------------------------------------------------------- */

/* A record under way to all who want it. */
typedef struct Match
{
	Lane *lane;
	const FlLogRecord *rec;
	bool tried; /* to pack it */
	bool fits;
	uint32 len;
} Match;

/* The ring of its door is full.  True: the door has taken nothing for so long that it is left alone. */
static bool
is_stuck(int door)
{
	int64 now = now_us();
	uint64 at = fl_read_taken(FL_READ_TO_DOOR, door);

	to_wake[door] = true;
	if (full_since[door] == 0 || at != taken[door])
	{
		taken[door] = at;
		full_since[door] = now;
	}
	return now - full_since[door] >= STUCK_US;
}

/* False: not now. */
static bool
send_record(Match *m, Want *want)
{
	FlReadItem item = item_for(want, FL_READ_RECORD, m->rec->log_offset);

	if (!m->tried)
		m->fits = fl_read_pack(m->rec, &packed, &packed_cap, &m->len);
	m->tried = true;
	if (!m->fits)
	{
		end_want(want, FL_READ_UNABLE, m->rec->log_offset);
		return true;
	}
	if (!fl_read_put(FL_READ_TO_DOOR, want->key.door, &item, packed, m->len))
	{
		if (!is_stuck(want->key.door))
			return false;
		end_want(want, FL_READ_ENOUGH, m->rec->log_offset);
		return true;
	}
	full_since[want->key.door] = 0;
	to_wake[want->key.door] = true;
	want->next = m->rec->log_offset + 1;
	FL_COUNT(FL_C_RECORDS, 1);
	if (--want->most == 0)
		end_want(want, FL_READ_ENOUGH, want->next);
	return true;
}

static bool
look_up(Match *m, const uint8 *topic, Size len, uint32 slashes)
{
	FlReadKey key = {.hash = fl_read_hash(topic, len, slashes), .slashes = slashes};
	KeyEntry *entry;
	dlist_iter iter;

	if (!is_marked(m->lane, key.hash))
		return true;
	entry = hash_search(m->lane->topics, &key, HASH_FIND, NULL);
	if (entry == NULL)
		return true;
	dlist_foreach (iter, &entry->links)
	{
		Want *want = dlist_container(Link, node, iter.cur)->want;

		if (want->passing && !want->over && m->rec->log_offset >= want->next && !send_record(m, want))
			return false;
	}
	return true;
}

/* False: a ring is full, and the record has to be offered again to those who have not got it. */
static bool
match_record(Lane *lane, const FlLogRecord *rec)
{
	Match m = {.lane = lane, .rec = rec};
	FlMqttBytes topic;
	uint32 slashes = 0;

	if (!fl_mqtt_record_topic(rec, &topic))
		return true;
	if (lane->uses[0] > 0 && !look_up(&m, topic.data, topic.len, 0))
		return false;
	for (uint32 i = 0; i < topic.len && slashes < FL_READ_MAX_LEVELS; i++)
		if (topic.data[i] == '/' && lane->uses[++slashes] > 0 && !look_up(&m, topic.data, i + 1, slashes))
			return false;
	return true;
}

/* ---- a pass ------------------------------------------------------------------------- */

static bool
find_bounds(const LaneKey *key, int64 *head, int64 *tail)
{
	FlShard *shard = fl_shard_find(key->stream, key->shard);

	if (shard == NULL)
		return false;
	*head = (int64) pg_atomic_read_u64(&shard->head);
	*tail = fl_shard_durable_tail(shard);
	return true;
}

/*
 * When the next pass may begin: the more of it others may want, too, the longer it
 * waits for them.  One that goes on where the last has just ended, because somebody
 * can take more now, reads nothing again.
 */
static int64
due_at(const Lane *lane, int64 tail)
{
	bool goes_on = lane->last_wait - lane->passed_at < QUIET_MAX_US && lane->from <= lane->read_to;
	int64 again = Max((goes_on ? lane->read_to : tail) - lane->from, 0);
	int64 quiet = Min(again, QUIET_MAX_US);

	return Min(lane->last_wait + quiet, lane->first_wait + quiet * (GATHER_MAX_US / QUIET_MAX_US));
}

/* False: nobody wants one, or it is not due yet. */
static bool
begin_pass(Lane *lane, int64 tail)
{
	int64 due;
	dlist_iter iter;

	if (lane->waiting == 0)
		return false;
	find_lowest(lane);
	due = due_at(lane, tail);
	if (now_us() < due)
	{
		next_due = next_due == 0 ? due : Min(next_due, due);
		return false;
	}
	dlist_foreach (iter, &lane->wants)
		dlist_container(Want, node, iter.cur)->passing = true;
	mark_all(lane);
	lane->passing = lane->waiting;
	lane->waiting = 0;
	if (lane->pos.offset != lane->from)
		lane->pos = (FlLogPosition) {.offset = lane->from};
	lane->seen = lane->pos.offset;
	lane->from = PG_INT64_MAX;
	lane->fruitless = 0;
	FL_COUNT(FL_C_TURNS, 1);
	return true;
}

/*
 * Front doors and the appender work for microseconds at a time, and others wait for it;
 * where there are no more processors than work, they would wait for the end of this
 * process's time slice.  Where others keep the processor for long it works as long
 * before it gives way again: the scheduler takes the rest of a slice for forfeited, and a
 * pass would stand still on a machine that is busy.  No lock is held here but that on
 * the table.
 */
static void
give_way(void)
{
	static int64 since = 0;
	static int64 burst = GIVE_WAY_US;
	int64 now = now_us();

	if (now - since < burst)
		return;
	(void) sched_yield();
	since = now_us();
	burst = Max(GIVE_WAY_US, Min(since - now, GIVE_WAY_MAX_US));
}

/* Looks at one batch; false: at a record of it a ring was full, and there it goes on. */
static bool
match_batch(Lane *lane, const FlStoredBatch *batch, const FlLogPosition *start)
{
	FlLogRecord rec;
	int n = 0;

	FL_COUNT(FL_C_BATCHES, 1);
	fl_batch_decoder_open(decoder, batch);
	while (fl_batch_decoder_next(decoder, &rec))
	{
		if (rec.log_offset >= start->offset && !match_record(lane, &rec))
		{
			lane->pos = *start;
			lane->pos.offset = rec.log_offset;
			return false;
		}
		if (++n % GIVE_WAY_EVERY == 0)
			give_way();
	}
	give_way();
	return true;
}

/* Some batches; false: a ring is full. */
static bool
read_batches(Lane *lane, int64 tail)
{
	int64 end = now_us() + STEP_US;
	FlLogReader *reader = fl_log_reader_begin(lane->key.stream, lane->key.shard, &lane->pos, tail);
	bool room = true;
	bool any = false;

	fl_log_reader_share_ring(reader, ring);
	fl_log_reader_bound(reader, FL_MQTT_FEED_PAGES);
	while (room && lane->passing > 0 && now_us() < end)
	{
		FlLogPosition start = lane->pos;
		FlStoredBatch batch;

		if (!fl_log_reader_next(reader, &batch))
		{
			any = any || fl_log_reader_stopped(reader);
			break;
		}
		any = true;
		room = match_batch(lane, &batch, &start);
		lane->seen = lane->pos.offset;
		settle();
	}
	fl_log_reader_end(reader);
	lane->fruitless = any ? 0 : lane->fruitless + 1;
	return room;
}

/* One step of a lane.  True: there is more to do at once. */
static bool
run_lane(Lane *lane)
{
	int64 head;
	int64 tail;
	bool room = true;

	if (lane->passing == 0 && lane->waiting == 0)
		return false;
	if (!find_bounds(&lane->key, &head, &tail))
		head = tail = 0;
	if (lane->passing == 0 && !begin_pass(lane, tail))
		return false;
	/* Retention was quicker: the door counts what is lost, and asks again. */
	if (lane->pos.offset < head)
	{
		end_all(lane, FL_READ_ENOUGH, lane->pos.offset);
		return true;
	}
	if (lane->pos.offset < tail)
	{
		StartTransactionCommand();
		MemoryContextSwitchTo(step_context);
		room = read_batches(lane, tail);
		CommitTransactionCommand();
		fl_worker_own_resources();
		MemoryContextSwitchTo(step_context);
	}
	if (lane->pos.offset >= tail)
		end_all(lane, FL_READ_AT_TAIL, tail);
	else if (lane->fruitless > MAX_FRUITLESS)
		end_all(lane, FL_READ_UNABLE, lane->pos.offset);
	return room;
}

/* Pages into the server's buffers, for a door that will read them by itself. */
static void
warm_up(Want *want)
{
	FlLogPosition pos = {.offset = want->next};
	FlStoredBatch batch;
	FlLogReader *reader;
	int64 head;
	int64 tail;

	if (!find_bounds(&want->place, &head, &tail) || pos.offset < head || pos.offset >= tail)
	{
		end_want(want, FL_READ_UNABLE, want->next);
		return;
	}
	StartTransactionCommand();
	MemoryContextSwitchTo(step_context);
	reader = fl_log_reader_begin(want->place.stream, want->place.shard, &pos, tail);
	fl_log_reader_bound(reader, WARM_PAGES);
	while (fl_log_reader_next(reader, &batch))
		give_way();
	fl_log_reader_end(reader);
	CommitTransactionCommand();
	fl_worker_own_resources();
	MemoryContextSwitchTo(step_context);
	end_want(want, FL_READ_ENOUGH, pos.offset);
}

/* ---- the worker ----------------------------------------------------------------------- */

/* What fails is the door's to look at, which knows what to do about it. */
static bool
guarded_lane(Lane *lane)
{
	volatile bool more = false;

	PG_TRY();
	{
		more = run_lane(lane);
	}
	PG_CATCH();
	{
		fl_worker_absorb_error(reader_context);
		FL_COUNT(FL_C_ERRORS, 1);
		settle();
		end_all(lane, FL_READ_UNABLE, lane->seen);
	}
	PG_END_TRY();
	MemoryContextReset(step_context);
	return more;
}

static void
guarded_warm_up(Want *want)
{
	PG_TRY();
	{
		warm_up(want);
	}
	PG_CATCH();
	{
		fl_worker_absorb_error(reader_context);
		FL_COUNT(FL_C_ERRORS, 1);
		end_want(want, FL_READ_UNABLE, want->next);
	}
	PG_END_TRY();
	MemoryContextReset(step_context);
	settle();
}

static void
run_warm(void)
{
	while (!dlist_is_empty(&warm) && !fl_worker_should_stop())
		guarded_warm_up(dlist_head_element(Want, node, &warm));
}

static void
forget_lane(Lane *lane)
{
	dlist_delete(&lane->node);
	hash_destroy(lane->topics);
	if (lane->marks != NULL)
		pfree(lane->marks);
	hash_search(lane_table, &lane->key, HASH_REMOVE, NULL);
}

static void
tell_doors(void)
{
	for (int i = 0; i < fl_workers; i++)
	{
		tell_ends(i);
		if (to_wake[i])
			fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
		to_wake[i] = false;
	}
}

/* Between any two steps, so that a door waits for one of them at most. */
static void
serve_doors(void)
{
	for (int i = 0; i < fl_workers; i++)
		take_requests(i);
	run_warm();
	tell_doors();
}

/* True: some lane can go on at once; *blocked: one waits for room in a ring. */
static bool
run_lanes(bool *blocked)
{
	int64 now = now_us();
	dlist_mutable_iter iter;
	bool more = false;

	*blocked = false;
	next_due = 0;
	serve_doors();
	dlist_foreach_modify (iter, &lanes)
	{
		Lane *lane = dlist_container(Lane, node, iter.cur);

		if (guarded_lane(lane))
			more = true;
		else if (lane->passing > 0)
			*blocked = true;
		else if (dlist_is_empty(&lane->wants) && now - lane->used > FORGET_LANE_US)
			forget_lane(lane);
		if (more || *blocked)
			serve_doors();
	}
	tell_doors();
	return more;
}

static bool
is_owing(void)
{
	for (int i = 0; i < fl_workers; i++)
		if (!dlist_is_empty(&owed[i]))
			return true;
	return false;
}

static long
next_wait(bool blocked)
{
	long wait = 1000;

	if (blocked)
		return BLOCKED_NAP_MS;
	if (is_owing())
		return OWING_NAP_MS;
	if (next_due != 0)
		wait = Min(wait, Max((long) ((next_due - now_us()) / 1000) + 1, 1));
	return wait;
}

/* The server's own go by the end of the last transaction, of which an idle reader has none. */
static void
report_statistics(void)
{
	static int64 reported = 0;
	int64 now = now_us();

	if (now - reported < REPORT_US)
		return;
	reported = now;
	(void) pgstat_report_stat(true);
}

static void
end_reader(int code, Datum arg)
{
	fl_read_reader_end();
	for (int i = 0; i < fl_workers; i++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
}

void
fl_mqtt_reader(void)
{
	reader_context = AllocSetContextCreate(TopMemoryContext, "fleetlog reader", ALLOCSET_DEFAULT_SIZES);
	step_context = AllocSetContextCreate(reader_context, "fleetlog step", ALLOCSET_DEFAULT_SIZES);
	/* Who waits for one table must not make all others wait. */
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	lane_table = create_table("fleetlog lanes", sizeof(LaneKey), sizeof(Lane));
	want_table = create_table("fleetlog wants", sizeof(WantKey), sizeof(Want));
	decoder = fl_batch_decoder_create(reader_context);
	MemoryContextSwitchTo(reader_context);
	ring = GetAccessStrategy(BAS_BULKREAD);
	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
		dlist_init(&owed[i]);
	before_shmem_exit(end_reader, (Datum) 0);
	/* A record is packed in a step, and the buffer outlives that. */
	packed_cap = PACKED_BYTES;
	packed = MemoryContextAlloc(reader_context, packed_cap);
	MemoryContextSwitchTo(reader_context);
	fl_read_reader_start();
	while (!fl_worker_should_stop())
	{
		bool blocked;
		bool more;

		fl_worker_turn();
		FL_STOP_POINT("reader_turn");
		more = run_lanes(&blocked);
		report_statistics();
		if (!more)
			fl_worker_wait(next_wait(blocked));
	}
}
