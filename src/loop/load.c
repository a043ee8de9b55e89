/*-------------------------------------------------------------------------
 *
 * load.c
 *		What a turn begins with: the shard's position, locked; versions of the policy;
 *		requests that are answered; readings; states of their keys.
 *
 * Tables of the extension are read as its owner, the source as the loop's owner:
 * what row-level security hides from him is no reading of the loop.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/hashfn.h"
#include "common/sha2.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/loop.h"
#include "fleetlog/rls.h"
#include "loop_internal.h"

/* ---- columns of rows ----------------------------------------------------------------- */

static Datum
column(HeapTuple tuple, TupleDesc desc, int n, bool *isnull)
{
	return SPI_getbinval(tuple, desc, n, isnull);
}

static int64
int_column(HeapTuple tuple, TupleDesc desc, int n)
{
	bool		isnull;
	Datum		value = column(tuple, desc, n, &isnull);

	if (isnull)
		return 0;
	return TupleDescAttr(desc, n - 1)->atttypid == INT8OID ? DatumGetInt64(value) : DatumGetInt32(value);
}

/* Copies into the turn's context. */
static char *
text_column(FlLoopTurn *t, HeapTuple tuple, TupleDesc desc, int n)
{
	MemoryContext old = MemoryContextSwitchTo(t->mcxt);
	bool		isnull;
	Datum		value = column(tuple, desc, n, &isnull);
	char	   *copy = isnull ? NULL : TextDatumGetCString(value);

	MemoryContextSwitchTo(old);
	return copy;
}

static Jsonb *
jsonb_column(FlLoopTurn *t, HeapTuple tuple, TupleDesc desc, int n)
{
	MemoryContext old = MemoryContextSwitchTo(t->mcxt);
	bool		isnull;
	Datum		value = column(tuple, desc, n, &isnull);
	Jsonb	   *copy = isnull ? NULL : DatumGetJsonbPCopy(value);

	MemoryContextSwitchTo(old);
	return copy;
}

/* ---- keys ------------------------------------------------------------------------------ */

static uint32
hash_name(const void *key, Size size)
{
	const char *name = *(const char *const *) key;

	return DatumGetUInt32(hash_any((const unsigned char *) name, (int) strlen(name)));
}

static int
match_name(const void *a, const void *b, Size size)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void
make_keys(FlLoopTurn *t)
{
	HASHCTL		ctl = {.keysize = sizeof(char *),.entrysize = sizeof(FlLoopKey),.hash = hash_name,.match = match_name,.hcxt = t->mcxt};

	t->keys = hash_create("fleetlog loop keys", 256, &ctl, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

/* `name` lives as long as the turn. */
static FlLoopKey *
get_key(FlLoopTurn *t, const char *name)
{
	bool		found;
	FlLoopKey  *key = hash_search(t->keys, &name, HASH_ENTER, &found);

	if (!found)
	{
		memset(key, 0, sizeof(*key));
		key->name = name;
		t->key_list = lappend(t->key_list, key);
	}
	return key;
}

static char *
hashed_name(const uint8 *bytes, size_t len)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	char	   *name = palloc(7 + 2 * sizeof(digest) + 1);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 || pg_cryptohash_update(ctx, bytes, len) < 0 ||
		pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		elog(ERROR, "key cannot be hashed");
	pg_cryptohash_free(ctx);
	strcpy(name, "sha256:");
	hex_encode((char *) digest, sizeof(digest), name + 7);
	name[7 + 2 * sizeof(digest)] = '\0';
	return name;
}

/* tenant/device, else the record's key, else the empty string. */
static char *
key_name(const FlLoopReading *r)
{
	struct varlena *v;

	if (!r->isnull[FL_ATT_DEVICE - 1])
		return psprintf("%s/%s", r->isnull[FL_ATT_TENANT - 1] ? "" : TextDatumGetCString(r->values[FL_ATT_TENANT - 1]),
						TextDatumGetCString(r->values[FL_ATT_DEVICE - 1]));
	if (!r->isnull[FL_ATT_KEY - 1])
		v = PG_DETOAST_DATUM_PACKED(r->values[FL_ATT_KEY - 1]);
	else if (!r->isnull[FL_ATT_KEY_BYTES - 1])
		v = PG_DETOAST_DATUM_PACKED(r->values[FL_ATT_KEY_BYTES - 1]);
	else
		return pstrdup("");
	if (r->isnull[FL_ATT_KEY - 1] || VARSIZE_ANY_EXHDR(v) > FL_LOOP_KEY_MAX)
		return hashed_name((uint8 *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
	return pnstrdup(VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
}

/* ---- readings ---------------------------------------------------------------------------- */

typedef struct ReadState
{
	FlLoopTurn *t;
	List	   *readings;
	size_t		bytes;
} ReadState;

static FlLoopReading *
new_reading(FlLoopTurn *t, Datum *values, bool *isnull)
{
	FlLoopReading *r = palloc(sizeof(FlLoopReading));
	HeapTuple	tuple = heap_form_tuple(t->record_desc, values, isnull);

	r->record = HeapTupleGetDatum(tuple);
	heap_deform_tuple(tuple, t->record_desc, r->values, r->isnull);
	r->log_offset = DatumGetInt64(r->values[FL_ATT_OFFSET - 1]);
	r->ts = DatumGetTimestampTz(r->values[FL_ATT_TS - 1]);
	r->key = get_key(t, key_name(r));
	t->bytes += HeapTupleHeaderGetDatumLength(DatumGetHeapTupleHeader(r->record));
	return r;
}

static void
take_reading(void *arg, Datum *values, bool *isnull)
{
	ReadState  *s = arg;
	MemoryContext old = MemoryContextSwitchTo(s->t->mcxt);
	FlLoopReading *r = new_reading(s->t, values, isnull);

	s->readings = lappend(s->readings, r);
	s->bytes += HeapTupleHeaderGetDatumLength(DatumGetHeapTupleHeader(r->record));
	MemoryContextSwitchTo(old);
}

static int64
read_batches(FlLoopTurn *t, ReadState *s, int64 from, int64 limit, int32 max)
{
	FlLogPosition pos = {.offset = from};
	FlLogReader *reader = fl_log_reader_begin(t->source, t->shard, &pos, limit);
	FlBatchDecoder *dec = fl_batch_decoder_create(CurrentMemoryContext);
	FlStoredBatch batch;
	char	   *scratch = NULL;
	size_t		scratch_cap = 0;
	bool		full = false;
	int64		next = limit;

	while (!full && fl_log_reader_next(reader, &batch))
	{
		FlLogRecord rec;

		fl_batch_decoder_open(dec, &batch);
		while (!full && fl_batch_decoder_next(dec, &rec))
		{
			Datum		values[FL_NATTS];
			bool		isnull[FL_NATTS];

			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < from)
				continue;
			if (rec.log_offset >= limit)
				break;
			fl_columns_build(&rec, t->shard, 1, FL_NATTS, &scratch, &scratch_cap, t->mcxt, values, isnull);
			take_reading(s, values, isnull);
			full = list_length(s->readings) >= max || s->bytes >= FL_LOOP_BYTES;
			if (full)
				next = rec.log_offset + 1;
		}
	}
	fl_log_reader_end(reader);
	return next;
}

int64
fl_loop_read(FlLoopTurn *t, int64 from, int64 limit, int32 max, List **readings)
{
	ReadState	s = {.t = t};
	Oid			save_user;
	int			save_context;
	int64		next;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(t->owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	if (fl_rls_applies(t->source))
		next = fl_rls_read(t->source, t->shard, from, limit, Min(max, 100), take_reading, &s);
	else
		next = read_batches(t, &s, from, limit, max);
	SetUserIdAndSecContext(save_user, save_context);
	MemoryContextSwitchTo(t->mcxt);
	*readings = s.readings;
	return next;
}

/* ---- states -------------------------------------------------------------------------------- */

static void
on_key(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlLoopTurn *t = arg;
	FlLoopKey  *key = get_key(t, text_column(t, tuple, desc, 1));
	bool		isnull;

	key->state = jsonb_column(t, tuple, desc, 2);
	key->has_row = key->state != NULL;
	key->pending = DatumGetBool(column(tuple, desc, 3, &isnull));
}

/* An array of what is asked for; keys that were loaded before are left as they are. */
static void
load_named(FlLoopTurn *t, Datum *names, int n)
{
	Oid			types[4] = {TEXTOID, INT4OID, TEXTARRAYOID, BOOLOID};
	Datum		values[4] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard), (Datum) 0, BoolGetDatum(t->waiting > 0)};

	if (n == 0)
		return;
	values[2] = PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
	/* No reading is decided before one of its key that waits. */
	fl_config_query("SELECT k.key, s.state, r.key IS NOT NULL OR ($4 AND EXISTS (SELECT FROM fleetlog.loop_waiting w"
					" WHERE w.loop = $1 AND w.shard = $2 AND w.key = k.key COLLATE \"C\")) FROM unnest($3) k(key)"
					" LEFT JOIN fleetlog.loop_state s ON s.loop = $1 AND s.shard = $2 AND s.key = k.key COLLATE \"C\""
					" LEFT JOIN fleetlog.loop_request r ON r.loop = $1 AND r.shard = $2 AND r.key = k.key COLLATE \"C\"",
					4, types, values, on_key, t);
	MemoryContextSwitchTo(t->mcxt);
}

static int	keys_loaded;		/* of t->key_list, in this turn */

void
fl_loop_load_keys(FlLoopTurn *t, List *readings)
{
	int			n = list_length(t->key_list);
	Datum	   *names = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = keys_loaded; i < n; i++)
		names[i - keys_loaded] = CStringGetTextDatum(((FlLoopKey *) list_nth(t->key_list, i))->name);
	load_named(t, names, n - keys_loaded);
	keys_loaded = n;
}

/* ---- what waits ------------------------------------------------------------------------------ */

static void
on_offset(void *arg, HeapTuple tuple, TupleDesc desc)
{
	List	  **offsets = arg;
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(*offsets));
	int64	   *offset = palloc(sizeof(int64));

	*offset = int_column(tuple, desc, 1);
	*offsets = lappend(*offsets, offset);
	MemoryContextSwitchTo(old);
}

List *
fl_loop_load_waiting(FlLoopTurn *t, FlLoopKey *key)
{
	Oid			types[3] = {TEXTOID, INT4OID, TEXTOID};
	Datum		values[3] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard), CStringGetTextDatum(key->name)};
	List	   *offsets = list_make1(NULL);

	fl_config_query("SELECT w.log_offset FROM fleetlog.loop_waiting w WHERE w.loop = $1 AND w.shard = $2 AND w.key = $3 COLLATE \"C\" ORDER BY w.log_offset",
					3, types, values, on_offset, &offsets);
	MemoryContextSwitchTo(t->mcxt);
	return list_delete_first(offsets);
}

/* ---- the turn's beginning ----------------------------------------------------------------------- */

static void
on_position(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlLoopTurn *t = arg;
	bool		isnull;

	t->position = int_column(tuple, desc, 1);
	t->owner = DatumGetObjectId(column(tuple, desc, 2, &isnull));
	t->source = DatumGetObjectId(column(tuple, desc, 3, &isnull));
	t->requests = DatumGetObjectId(column(tuple, desc, 4, &isnull));
	t->responses = DatumGetObjectId(column(tuple, desc, 5, &isnull));
	t->decisions = DatumGetObjectId(column(tuple, desc, 6, &isnull));
	t->copies = strcmp(text_column(t, tuple, desc, 7), "copy") == 0;
	t->waiting = int_column(tuple, desc, 8);
}

static void
on_version(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlLoopTurn *t = arg;
	FlLoopVersion *v = &t->versions[t->nversions++];
	bool		isnull;

	memset(v, 0, sizeof(*v));
	v->number = (int) int_column(tuple, desc, 1);
	v->from_offset = int_column(tuple, desc, 2);
	v->replayable = DatumGetBool(column(tuple, desc, 3, &isnull));
	v->model = text_column(t, tuple, desc, 4);
	v->model_version = text_column(t, tuple, desc, 5);
	v->parameters = text_column(t, tuple, desc, 6);
}

static void
load_versions(FlLoopTurn *t)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	bool		isnull;
	int64		n = fl_config_query_int("SELECT count(*) FROM fleetlog.loop_policy_range g WHERE g.loop = $1 AND g.shard = $2", 2, types, values, &isnull);

	t->versions = MemoryContextAlloc(t->mcxt, sizeof(FlLoopVersion) * Max(n, 1));
	fl_config_query("SELECT p.policy_version, g.from_offset, p.replayable, p.model, p.model_version, p.parameters::text"
					" FROM fleetlog.loop_policy_range g JOIN fleetlog.loop_policy p ON p.loop = g.loop AND p.policy_version = g.policy_version"
					" WHERE g.loop = $1 AND g.shard = $2 ORDER BY p.policy_version",
					2, types, values, on_version, t);
}

static void
on_answer(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlLoopTurn *t = arg;
	MemoryContext old = MemoryContextSwitchTo(t->mcxt);
	FlLoopAnswer *a = palloc0(sizeof(FlLoopAnswer));
	HeapTupleData record = {0};
	bool		isnull;

	a->request_shard = (int32) int_column(tuple, desc, 1);
	a->request_offset = int_column(tuple, desc, 2);
	a->version = (int) int_column(tuple, desc, 3);
	a->response = jsonb_column(t, tuple, desc, 5);
	a->response_shard = (int32) int_column(tuple, desc, 6);
	a->response_offset = int_column(tuple, desc, 7);
	a->responded_at = DatumGetTimestampTz(column(tuple, desc, 8, &isnull));
	record.t_data = DatumGetHeapTupleHeaderCopy(column(tuple, desc, 4, &isnull));
	record.t_len = HeapTupleHeaderGetDatumLength(record.t_data);
	{
		Datum		values[FL_NATTS];
		bool		nulls[FL_NATTS];

		heap_deform_tuple(&record, t->record_desc, values, nulls);
		a->reading = new_reading(t, values, nulls);
	}
	t->bytes += VARSIZE(a->response);
	t->answers = lappend(t->answers, a);
	MemoryContextSwitchTo(old);
}

static void
on_orphan(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlLoopTurn *t = arg;
	char	   *name = text_column(t, tuple, desc, 1);
	MemoryContext old = MemoryContextSwitchTo(t->mcxt);

	t->orphans = lappend(t->orphans, get_key(t, name));
	MemoryContextSwitchTo(old);
}

static void
on_fitting(void *arg, HeapTuple tuple, TupleDesc desc)
{
	int64	   *n = arg;

	n[0] = int_column(tuple, desc, 1);
	n[1] = int_column(tuple, desc, 2);
}

/* How many answers this turn takes: one at least. */
static int32
fitting_answers(FlLoopTurn *t)
{
	Oid			types[4] = {TEXTOID, INT4OID, INT4OID, INT8OID};
	Datum		values[4] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard), Int32GetDatum(FL_LOOP_ANSWERS), Int64GetDatum(FL_LOOP_TURN_BYTES / 2)};
	int64		n[2] = {0, 0};

	fl_config_query("SELECT count(*) FILTER (WHERE x.bytes <= $4), count(*) FROM (SELECT sum(pg_column_size(r.reading) + pg_column_size(r.response)) OVER (ORDER BY r.log_offset) AS bytes"
					" FROM fleetlog.loop_request r WHERE r.loop = $1 AND r.shard = $2 AND r.responded_at IS NOT NULL ORDER BY r.log_offset LIMIT $3) x",
					4, types, values, on_fitting, n);
	MemoryContextSwitchTo(t->mcxt);
	n[0] = Max(n[0], Min(n[1], 1));
	t->has_more = n[0] < n[1];
	return (int32) n[0];
}

static void
load_answers(FlLoopTurn *t, bool look_for_orphans)
{
	Oid			types[3] = {TEXTOID, INT4OID, INT4OID};
	Datum		values[3] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard), Int32GetDatum(fitting_answers(t))};

	fl_config_query("SELECT r.request_shard, r.request_offset, r.policy_version, r.reading, r.response, r.response_shard, r.response_offset, r.responded_at"
					" FROM fleetlog.loop_request r WHERE r.loop = $1 AND r.shard = $2 AND r.responded_at IS NOT NULL ORDER BY r.log_offset LIMIT $3"
					" FOR UPDATE SKIP LOCKED",
					3, types, values, on_answer, t);
	if (look_for_orphans && t->waiting > 0)
		fl_config_query("SELECT DISTINCT w.key FROM fleetlog.loop_waiting w WHERE w.loop = $1 AND w.shard = $2 AND NOT EXISTS"
						" (SELECT FROM fleetlog.loop_request r WHERE r.loop = w.loop AND r.shard = w.shard AND r.key = w.key) LIMIT " CppAsString2(FL_LOOP_ANSWERS),
						2, types, values, on_orphan, t);
	if (list_length(t->orphans) == FL_LOOP_ANSWERS)
		t->has_more = true;
	MemoryContextSwitchTo(t->mcxt);
}

/* The worker's own role may do nothing; the owner must be able to do all this by himself. */
static void
check_rights(FlLoopTurn *t)
{
	Oid			streams[] = {t->source, t->requests, t->responses, t->decisions};

	for (int i = 0; i < lengthof(streams); i++)
	{
		AclResult	acl = pg_class_aclcheck(streams[i], t->owner, i == 0 ? ACL_SELECT : ACL_INSERT);

		if (fl_stream_lookup(streams[i]) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("a stream of loop \"%s\" does not exist", t->loop)));
		if (acl != ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("owner \"%s\" of loop \"%s\" has no right to %s stream \"%s\"", GetUserNameFromId(t->owner, false), t->loop,
							i == 0 ? "read" : "write to", get_rel_name(streams[i]))));
	}
}

static void
load_readings(FlLoopTurn *t)
{
	int64		head = fl_log_head(t->source, t->shard);

	t->tail = fl_log_tail(t->source, t->shard);
	t->next_position = t->position;
	if (t->position < head)
	{
		t->ngone += head - t->position;
		t->next_position = head;
	}
	if (t->next_position < t->tail && t->waiting < fl_loop_max_waiting)
		t->next_position = fl_loop_read(t, t->next_position, t->tail, (int32) Min(FL_LOOP_READINGS, fl_loop_max_waiting - t->waiting), &t->readings);
}

static Oid
record_type(void)
{
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("log_record"),
									   ObjectIdGetDatum(get_namespace_oid("fleetlog", false)));

	if (!OidIsValid(type))
		elog(ERROR, "type fleetlog.log_record does not exist");
	return type;
}

bool
fl_loop_load(FlLoopTurn *t, bool look_for_orphans, bool *busy)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	bool		isnull;

	t->position = -1;
	fl_config_query("SELECT o.log_offset, l.owner::oid, l.source::oid, l.requests::oid, l.responses::oid, l.decisions::oid, l.evidence,"
					" (SELECT count(*) FROM fleetlog.loop_waiting w WHERE w.loop = o.loop AND w.shard = o.shard)"
					" FROM fleetlog.loop_position o JOIN fleetlog.loop_config l ON l.loop = o.loop"
					" WHERE o.loop = $1 AND o.shard = $2 AND o.error_offset IS NULL AND NOT l.paused FOR UPDATE OF o SKIP LOCKED",
					2, types, values, on_position, t);
	MemoryContextSwitchTo(t->mcxt);
	*busy = false;
	if (t->position < 0)
	{
		*busy = fl_config_query_int("SELECT count(*) FROM fleetlog.loop_position o JOIN fleetlog.loop_config l ON l.loop = o.loop"
									" WHERE o.loop = $1 AND o.shard = $2 AND o.error_offset IS NULL AND NOT l.paused", 2, types, values, &isnull) > 0;
		return false;
	}
	check_rights(t);
	t->record_desc = lookup_rowtype_tupdesc_copy(record_type(), -1);
	make_keys(t);
	keys_loaded = 0;
	load_versions(t);
	load_answers(t, look_for_orphans);
	load_readings(t);
	fl_loop_load_keys(t, NIL);
	return true;
}
