/*-------------------------------------------------------------------------
 *
 * sql_publish.c
 *		fleetlog.publish(): a message that is written when the transaction commits
 *		(an outbox without a second system).
 *
 * Messages wait in memory with the subtransaction that published them; a rolled
 * back savepoint drops its own.  Just before commit they are written, shards in
 * ascending order, each shard's messages in the order of the calls.  The shard
 * is therefore held only for the moment of the commit, however long the
 * transaction was.
 *
 * The callback is registered anew in each transaction that publishes, so that
 * it runs before those of other extensions (postgres_fdw commits its remote
 * transactions in the same event) and before xact.c computes tails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "fleetlog/topic.h"
#include "fleetlog/utf8.h"
#include "sql_record.h"

PG_FUNCTION_INFO_V1(fl_sql_publish);

typedef struct Message
{
	Oid			stream;
	uint32		hash;			/* of the shard key */
	int32		shard;			/* at commit: shards may be added until then */
	int			number;			/* order of the calls */
	SubTransactionId subid;
	int32		key_len;
	int32		payload_len;	/* -1: NULL */
	int32		headers_len;
	uint8	   *key;
	uint8	   *payload;
	uint8	   *headers;		/* FlHeaders form */
} Message;

/* In TopTransactionContext: gone with the transaction. */
static Message *queue = NULL;
static int	n_queued = 0;
static int	max_queued = 0;
static Size queued_bytes = 0;
static bool registered_before = false;

/* Of each of a message's three pieces: the allocator's header and rounding. */
#define ALLOC_OVERHEAD	32

static void
forget_queue(void)
{
	/* The memory goes with the transaction's context. */
	queue = NULL;
	n_queued = max_queued = 0;
	queued_bytes = 0;
}

/* What a message takes of memory, about: small ones are mostly overhead. */
static Size
message_bytes(const Message *m)
{
	return sizeof(Message) + 3 * ALLOC_OVERHEAD +
		m->key_len + Max(m->payload_len, 0) + m->headers_len;
}

static void
free_message(Message *m)
{
	queued_bytes -= message_bytes(m);
	pfree(m->key);
	if (m->payload_len >= 0)
		pfree(m->payload);
	pfree(m->headers);
}

/* ---- writing ----------------------------------------------------------------------- */

static int
message_cmp(const void *a, const void *b)
{
	const Message *x = a,
			   *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->number - y->number;
}

static const FlStreamInfo *
stream_of(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);

	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("a stream that was published to has been dropped in this transaction")));
	return info;
}

/* Messages first .. last - 1 are of one shard. */
static void
write_shard(int first, int last)
{
	const FlStreamInfo *info = stream_of(queue[first].stream);
	int32		shards = info->shards;
	FlShard    *shard;
	FlBatchBuilder b;

	shard = fl_shard_open(queue[first].stream, queue[first].shard,
						  info->durability == FL_DURABILITY_QUORUM);
	fl_shard_lock(shard, FL_LOCK_TIMEOUT);
	info = stream_of(queue[first].stream);
	if (info->shards != shards)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_MAP_CHANGED)),
				 errmsg("the number of shards of stream \"%s\" was changed at the same time", info->name),
				 errhint("Retry the transaction.")));
	fl_batch_builder_init(&b, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	for (int i = first; i < last; i++)
	{
		Message    *m = &queue[i];

		if (fl_batch_builder_add(&b, FL_NO_TIMESTAMP, m->key, m->key_len, m->payload, m->payload_len,
								 m->headers[0], m->headers + 1, m->headers_len - 1) != FL_OK)
			ereport(ERROR,
					(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
					 errmsg("message cannot be encoded")));
		if (fl_sql_batch_is_full(&b))
			(void) fl_sql_write_batch(shard, info, &b);
	}
	if (fl_batch_builder_count(&b) > 0)
		(void) fl_sql_write_batch(shard, info, &b);
	fl_batch_builder_free(&b);
}

static void
choose_shards(void)
{
	AcceptInvalidationMessages();
	for (int i = 0; i < n_queued; i++)
		queue[i].shard = fl_partition_of_hash(queue[i].hash, stream_of(queue[i].stream)->shards);
}

static void
write_queue(void)
{
	int			n = n_queued;
	MemoryContext mcxt = AllocSetContextCreate(TopTransactionContext, "fleetlog publish",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);

	choose_shards();
	qsort(queue, n, sizeof(Message), message_cmp);
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < n;)
	{
		int			end = i + 1;

		while (end < n && queue[end].stream == queue[i].stream && queue[end].shard == queue[i].shard)
			end++;
		write_shard(i, end);
		i = end;
	}
	PopActiveSnapshot();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
	forget_queue();
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (n_queued == 0)
	{
		/* Also when all of it was rolled back to a savepoint and the rest is prepared. */
		if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
			forget_queue();
		return;
	}
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			write_queue();
			break;
		case XACT_EVENT_PRE_PREPARE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has published to a stream"),
					 errhint("Commit the transaction in one phase.")));
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_COMMIT:
			forget_queue();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	int			keep = 0;

	if (n_queued == 0)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = 0; i < n_queued; i++)
			if (queue[i].subid == my)
				queue[i].subid = parent;
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		for (int i = 0; i < n_queued; i++)
		{
			if (queue[i].subid != my)
				queue[keep++] = queue[i];
			else
				free_message(&queue[i]);
		}
		n_queued = keep;
	}
}

/* ---- queueing ----------------------------------------------------------------------- */

static uint8 *
keep_bytes(const void *data, int32 len)
{
	uint8	   *p = MemoryContextAlloc(TopTransactionContext, Max(len, 1));

	if (len > 0)
		memcpy(p, data, len);
	return p;
}

static void
enqueue(Message *m)
{
	Size		bytes = message_bytes(m);

	if (queued_bytes + bytes > (Size) fl_publish_queue_kb * 1024)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many messages published in one transaction"),
				 errdetail("They wait in memory until commit, at most %d kB of them.", fl_publish_queue_kb),
				 errhint("Use fleetlog.append(), commit more often, or raise fleetlog.publish_queue.")));
	if (max_queued == 0)
	{
		if (registered_before)
			UnregisterXactCallback(xact_callback, NULL);
		else
			RegisterSubXactCallback(subxact_callback, NULL);
		RegisterXactCallback(xact_callback, NULL);
		registered_before = true;
	}
	if (n_queued == max_queued)
	{
		int			n = max_queued ? max_queued * 2 : 16;

		queue = queue ? repalloc_huge(queue, n * sizeof(Message)) :
			MemoryContextAlloc(TopTransactionContext, n * sizeof(Message));
		max_queued = n;
	}
	m->number = n_queued;
	m->subid = GetCurrentSubTransactionId();
	m->key = keep_bytes(m->key, m->key_len);
	if (m->payload_len >= 0)
		m->payload = keep_bytes(m->payload, m->payload_len);
	m->headers = keep_bytes(m->headers, m->headers_len);
	queue[n_queued++] = *m;
	queued_bytes += bytes;
}

/* Expand a mount's template into palloc'd bytes. */
static uint8 *
expand(const FlTemplate *t, const char *topic, int topic_len, int32 *len)
{
	size_t		need = fl_template_expand(t, topic, topic_len, NULL, NULL, NULL, 0);
	char	   *s = palloc(need + 1);

	*len = (int32) fl_template_expand(t, topic, topic_len, NULL, NULL, s, need);
	return (uint8 *) s;
}

static const FlMount *
checked_mount(const char *topic, int len)
{
	const FlMount *mount;

	if (!fl_topic_name_valid((const uint8 *) topic, len))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%.*s\" is not a topic name", len, topic),
				 errhint("A topic is not empty, at most 65535 bytes, and has no wildcards.")));
	mount = fl_mount_match(topic, len);
	if (mount == NULL)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_NO_MOUNT)),
				 errmsg("no mount for topic \"%.*s\"", len, topic),
				 errhint("Make one: SELECT fleetlog.mount('<prefix>/', '<stream>');")));
	if (mount->commands)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("topic \"%.*s\" is one of commands", len, topic),
				 errhint("Commands are sent by fleetlog.send_command.")));
	return mount;
}

static void
check_retain(const FlMount *mount, const char *topic, int len)
{
	if (!OidIsValid(mount->state))
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RETAIN)),
				 errmsg("topic \"%.*s\" cannot be retained, because mount \"%s\" has no state table", len, topic, mount->prefix),
				 errhint("Give it one: SELECT fleetlog.alter_mount('%s', state => fleetlog.create_state('<name>'));", mount->prefix)));
	if (len > FL_STATE_KEY_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("topic of %d bytes is too long to be retained", len),
				 errdetail("A state table takes topics of at most %d bytes.", FL_STATE_KEY_MAX)));
}

Datum
fl_sql_publish(PG_FUNCTION_ARGS)
{
	text	   *topic;
	char	   *t;
	int			t_len;
	const FlMount *mount;
	const FlStreamInfo *info;
	FlBuf		headers;
	Message		m = {.payload_len = -1};
	uint8	   *shard_key;
	int32		shard_key_len;
	int			qos;
	bool		retain;
	char	   *tenant = NULL;
	char	   *device = NULL;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.publish()");
	PreventCommandIfParallelMode("fleetlog.publish()");
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("topic must not be NULL")));
	retain = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
	qos = PG_ARGISNULL(4) ? 1 : PG_GETARG_INT32(4);
	if (qos < 0 || qos > 2)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("qos must be 0, 1 or 2")));

	/* _publish_as: on behalf of a device; the function is granted to nobody. */
	if (PG_NARGS() > 5 && !PG_ARGISNULL(5) && !PG_ARGISNULL(6))
	{
		tenant = text_to_cstring(PG_GETARG_TEXT_PP(5));
		device = text_to_cstring(PG_GETARG_TEXT_PP(6));
	}
	topic = PG_GETARG_TEXT_PP(0);
	t = VARDATA_ANY(topic);
	t_len = VARSIZE_ANY_EXHDR(topic);
	mount = checked_mount(t, t_len);
	if (retain)
		check_retain(mount, t, t_len);
	if (!OidIsValid(mount->stream))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("topic \"%.*s\" is carried in memory only, between MQTT clients", t_len, t),
				 errdetail("Mount \"%s\" has no stream.", mount->prefix)));
	info = fl_stream_lookup(mount->stream);
	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the stream of mount \"%s\" does not exist", mount->prefix)));
	fl_sql_check_insert(mount->stream);

	m.stream = mount->stream;
	m.key = expand(&mount->record_key, t, t_len, &m.key_len);
	shard_key = expand(&mount->shard_key, t, t_len, &shard_key_len);
	m.hash = fl_murmur2(shard_key, shard_key_len);
	if (!PG_ARGISNULL(1))
	{
		bytea	   *payload = PG_GETARG_BYTEA_PP(1);

		m.payload = (uint8 *) VARDATA_ANY(payload);
		m.payload_len = VARSIZE_ANY_EXHDR(payload);
	}
	fl_buf_init(&headers, fl_server_allocator(), MaxAllocSize);
	fl_sql_headers(&headers, PG_ARGISNULL(2) ? NULL : PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(2)),
				   tenant, device,
				   m.key_len == t_len && memcmp(m.key, t, t_len) == 0 ? NULL : t, t_len, qos, retain);
	m.headers = headers.data;
	m.headers_len = (int32) headers.len;
	fl_sql_check_size(info, m.key_len + (size_t) Max(m.payload_len, 0) + headers.len);
	enqueue(&m);
	PG_RETURN_VOID();
}
