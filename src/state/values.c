/*-------------------------------------------------------------------------
 *
 * values.c
 *		What a record means for the state table of its mount.
 *
 * The one place that decides it, for the transaction of the append, for the folder
 * of last values, for a rebuild and for verify: these must agree, whoever looks.
 *
 *		keep => 'retained'	a record published with retain sets the value, with an
 *							empty payload it clears it
 *		keep => 'last'		every record sets the value; retain with an empty
 *							payload clears it
 *		both				a tombstone (payload NULL) clears it
 *
 * The topic is header fl.topic where the record has it, else its key; a record
 * whose topic belongs to another stream's mount means nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "fleetlog/compat.h"
#include "fleetlog/cursor.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/topic.h"
#include "fleetlog/utf8.h"
#include "state_internal.h"

int
fl_state_pos_cmp(const FlStatePos *a, const FlStatePos *b)
{
	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	return a->log_offset < b->log_offset ? -1 : a->log_offset > b->log_offset;
}

static int
key_cmp(const FlStateChange *a, const FlStateChange *b)
{
	Size		alen = VARSIZE_ANY_EXHDR(a->key);
	Size		blen = VARSIZE_ANY_EXHDR(b->key);
	int			c = memcmp(VARDATA_ANY(a->key), VARDATA_ANY(b->key), Min(alen, blen));

	if (c != 0)
		return c;
	return alen < blen ? -1 : alen > blen;
}

int
fl_state_change_cmp(const void *x, const void *y)
{
	const FlStateChange *a = x;
	const FlStateChange *b = y;
	int			c;

	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	c = key_cmp(a, b);
	return c != 0 ? c : fl_state_pos_cmp(&a->pos, &b->pos);
}

bool
fl_state_same_key(const FlStateChange *a, const FlStateChange *b)
{
	return a->state == b->state && a->stream == b->stream && key_cmp(a, b) == 0;
}

bool
fl_state_is_folded(const FlMount *mount)
{
	return OidIsValid(mount->state) && mount->keep == FL_KEEP_LAST && mount->state_lag_us > 0;
}

bool
fl_state_is_value(const FlMount *mount, bool retain)
{
	if (!OidIsValid(mount->state))
		return false;
	return !fl_state_is_folded(mount) && (retain || mount->keep == FL_KEEP_LAST);
}

bool
fl_state_concerns(Oid stream)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	for (int i = 0; i < n; i++)
		if (mounts[i].stream == stream && OidIsValid(mounts[i].state))
			return true;
	return false;
}

/* ---- headers ------------------------------------------------------------------- */

static bool
find_reserved(const FlLogRecord *rec, const char *name, const uint8 **value, int32 *len)
{
	size_t		name_len = strlen(name);
	FlReader	r;

	fl_reader_init(&r, rec->headers, rec->headers != NULL ? rec->headers_len : 0);
	for (int i = 0; i < rec->reserved && !r.failed; i++)
	{
		int32		n = fl_read_varint(&r);
		const uint8 *h = fl_read_bytes(&r, n < 0 ? 0 : (size_t) n);
		int32		v = fl_read_varint(&r);
		const uint8 *data = fl_read_bytes(&r, v < 0 ? 0 : (size_t) v);

		if (r.failed || n != (int32) name_len || memcmp(h, name, name_len) != 0)
			continue;
		*value = data;
		*len = v;
		return true;
	}
	return false;
}

bool
fl_state_topic_of(const FlLogRecord *rec, const uint8 **topic, int32 *len)
{
	if (!find_reserved(rec, "fl.topic", topic, len))
	{
		*topic = rec->key;
		*len = rec->key_len;
	}
	return *len > 0 && *len <= FL_STATE_KEY_MAX && fl_topic_name_valid(*topic, *len);
}

/* ---- the change ------------------------------------------------------------------ */

static struct varlena *
make_varlena(const void *data, int32 len)
{
	struct varlena *v;

	if (len < 0)
		return NULL;
	v = palloc(VARHDRSZ + len);
	SET_VARSIZE(v, VARHDRSZ + len);
	if (len > 0)
		memcpy(VARDATA(v), data, len);
	return v;
}

/* The SQL type's form: reserved count, number of headers, headers. */
static struct varlena *
make_headers(const FlLogRecord *rec)
{
	Size		room = fl_record_headers_room(rec);
	struct varlena *v;

	/* As in the stream itself: no headers are NULL. */
	if (room == 0)
		return NULL;
	v = palloc(VARHDRSZ + room);
	SET_VARSIZE(v, fl_record_put_headers((uint8 *) VARDATA(v), rec) - (uint8 *) v);
	return v;
}

/* From the SQL type's form to the record's: reserved count, number, headers. */
void
fl_state_split_headers(const uint8 *data, int32 len, FlLogRecord *rec)
{
	FlReader	r;

	rec->reserved = 0;
	rec->headers = NULL;
	rec->headers_len = rec->headers_count = 0;
	rec->role = NULL;
	rec->role_len = -1;
	if (data == NULL)
		return;
	fl_reader_init(&r, data, len);
	rec->reserved = fl_read_u8(&r);
	rec->headers_count = fl_read_varint(&r);
	if (r.failed)
	{
		rec->reserved = rec->headers_count = 0;
		return;
	}
	rec->headers = r.pos;
	rec->headers_len = (int32) fl_reader_left(&r);
}

/* The shard that the mount gives the topic now; templates of such mounts read the topic only. */
static int32
home_shard(const FlMount *mount, const uint8 *topic, int32 len)
{
	const FlStreamInfo *info = fl_stream_lookup(mount->stream);
	const FlTemplate *t = mount->shard_key_same ? &mount->record_key : &mount->shard_key;
	char		room[FL_STATE_KEY_MAX * 2];
	char	   *key = room;
	size_t		need;
	int32		shard;

	if (info == NULL || info->shards <= 1)
		return 0;
	if (t->is_topic)
		return fl_partition(topic, len, info->shards);
	need = fl_template_expand(t, (const char *) topic, len, NULL, NULL, room, sizeof(room));
	if (need > sizeof(room))
	{
		key = palloc(need);
		need = fl_template_expand(t, (const char *) topic, len, NULL, NULL, key, need);
	}
	shard = fl_partition((const uint8 *) key, need, info->shards);
	if (key != room)
		pfree(key);
	return shard;
}

int32
fl_state_home_of(Oid stream, const uint8 *topic, int32 len)
{
	const FlMount *mount = fl_mount_match((const char *) topic, len);

	return mount != NULL && mount->stream == stream ? home_shard(mount, topic, len) : 0;
}

bool
fl_state_change_of(Oid stream, int32 shard, const FlLogRecord *rec, FlStateScope scope,
				   FlStateChange *out)
{
	const uint8 *topic;
	const uint8 *value;
	int32		len;
	int32		value_len;
	const FlMount *mount;
	bool		retain;

	if (!fl_state_topic_of(rec, &topic, &len))
		return false;
	mount = fl_mount_match((const char *) topic, len);
	if (mount == NULL || mount->stream != stream || !OidIsValid(mount->state))
		return false;
	if (scope != FL_STATE_ALL && fl_state_is_folded(mount) != (scope == FL_STATE_FOLDED))
		return false;
	retain = find_reserved(rec, "fl.retain", &value, &value_len);
	if (mount->keep == FL_KEEP_RETAINED && !retain && rec->payload_len >= 0)
		return false;

	memset(out, 0, sizeof(*out));
	out->state = mount->state;
	out->stream = stream;
	out->pos = (FlStatePos) {.ts = rec->ts,.shard = shard,.log_offset = rec->log_offset};
	out->home = home_shard(mount, topic, len);
	out->cleared = rec->payload_len < 0 || (retain && rec->payload_len == 0);
	out->key = make_varlena(topic, len);
	out->bytes = sizeof(FlStateChange) + len;
	if (out->cleared)
		return true;
	out->tenant = make_varlena(rec->tenant, rec->tenant_len);
	out->device = make_varlena(rec->device, rec->device_len);
	out->headers = make_headers(rec);
	out->payload = make_varlena(rec->payload, rec->payload_len);
	out->bytes += (out->headers != NULL ? VARSIZE(out->headers) : 0) + rec->payload_len;
	return true;
}

bool
fl_state_change_at(Oid stream, int32 shard, int64 log_offset, FlStateScope scope, FlStateChange *out)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog state record", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	FlLogPosition pos = {.offset = log_offset};
	FlLogReader *reader;
	FlBatchDecoder *decoder;
	FlStoredBatch batch;
	FlLogRecord rec;
	bool		found = false;

	if (log_offset < fl_log_head(stream, shard))
		return false;
	MemoryContextSwitchTo(mcxt);
	decoder = fl_batch_decoder_create(mcxt);
	reader = fl_log_reader_begin(stream, shard, &pos, log_offset + 1);
	if (fl_log_reader_next(reader, &batch))
	{
		fl_batch_decoder_open(decoder, &batch);
		while (!found && fl_batch_decoder_next(decoder, &rec))
			found = rec.log_offset == log_offset;
	}
	MemoryContextSwitchTo(old);
	found = found && fl_state_change_of(stream, shard, &rec, scope, out);
	fl_log_reader_end(reader);
	MemoryContextDelete(mcxt);
	return found;
}
