/*-------------------------------------------------------------------------
 *
 * sources.c
 *		watch(): the streams whose records are values of a state table, the caller's
 *		rights, and positions as jsonb.
 *
 *		{"watch": "52f0a7c1d2e3b4a5",
 *		 "streams": {"public.telemetry": {"0": {"offset": 17, "epoch": 1}}}}
 *
 * A position is good for the watch that gave it: "watch" is a fingerprint of the
 * table's name, its mounts, and the filter.  With another one the state is told
 * afresh, because what the reader knows is not what this watch would have told him.
 * So it is when what follows the position is gone: the head has passed it, or it
 * lies beyond the end of its epoch (another log, after a failover or a restore).
 *
 * Rights: SELECT on the table, by which the caller may see the state, and on the
 * streams, by which he may see records.  Row-level security is each relation's
 * own: rows of the table come by its policies, changes by those of the stream they
 * are read from.  A caller whom only one of the two restricts would be shown too
 * much or too little, so that is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/rls.h"
#include "watch_internal.h"

/* ---- rights ------------------------------------------------------------------------ */

static void
check_table(Oid state)
{
	const char *name = get_rel_name(state);
	AclResult	acl;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", state)));
	if (!fl_state_is_table(state))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a state table", name),
				 errhint("State tables are made with fleetlog.create_state().")));
	acl = pg_class_aclcheck(state, GetUserId(), ACL_SELECT);
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, name);
}

static void
check_policies(Oid state, const FlWatchSource *source)
{
	bool		table = fl_rls_applies(state);

	if (table == source->policies)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("row-level security restricts you on \"%s\" and not on \"%s\"",
					get_rel_name(table ? state : source->stream), get_rel_name(table ? source->stream : state)),
			 errdetail("The state comes by the policies of the table, its changes by those of the stream."),
			 errhint("Have the same policies on both.")));
}

/* ---- which streams -------------------------------------------------------------------- */

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

static uint64
hash_more(uint64 h, const void *data, Size len)
{
	/* The length as well: what ends one part must not begin the next. */
	h = hash_bytes_extended((const unsigned char *) &len, sizeof(len), h);
	return hash_bytes_extended(data, (int) len, h);
}

static uint64
hash_filter(const FlWatchFilter *f)
{
	uint64		h = f->by_keys ? 1 : 0;

	for (int i = 0; i < f->nkeys; i++)
		h = hash_more(h, VARDATA_ANY(f->keys[i]), VARSIZE_ANY_EXHDR(f->keys[i]));
	return f->prefix ? hash_more(h + 2, f->prefix, f->prefix_len) : h;
}

/* Streams of the table's mounts, ascending; returns the fingerprint. */
static uint64
streams_of(const FlWatch *w, Oid **streams, int *count)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);
	char	   *name = qualified_name(w->state);
	uint64		h = hash_more(hash_filter(&w->filter), name, strlen(name));

	*streams = palloc(sizeof(Oid) * Max(n, 1));
	*count = 0;
	for (int i = 0; i < n; i++)
	{
		uint8		keep = mounts[i].keep == FL_KEEP_LAST;
		int			at;

		if (mounts[i].state != w->state || get_rel_name(mounts[i].stream) == NULL)
			continue;
		name = qualified_name(mounts[i].stream);
		h = hash_more(h, mounts[i].prefix, mounts[i].prefix_len);
		h = hash_more(h, name, strlen(name));
		h = hash_more(h, &keep, 1);
		for (at = 0; at < *count && (*streams)[at] < mounts[i].stream; at++)
			;
		if (at < *count && (*streams)[at] == mounts[i].stream)
			continue;
		memmove(*streams + at + 1, *streams + at, sizeof(Oid) * (*count - at));
		(*streams)[at] = mounts[i].stream;
		(*count)++;
	}
	return h;
}

/* Room for this many shards; the new ones begin at their first record. */
static void
set_shards(FlWatchSource *s, MemoryContext mcxt, int nshards)
{
	FlShardPosition *more;

	if (nshards <= s->nshards)
		return;
	more = MemoryContextAllocZero(mcxt, sizeof(FlShardPosition) * nshards);
	if (s->nshards > 0)
		memcpy(more, s->shards, sizeof(FlShardPosition) * s->nshards);
	s->shards = more;
	s->nshards = nshards;
}

bool
fl_watch_find_sources(FlWatch *w)
{
	MemoryContext mcxt = GetMemoryChunkContext(w);
	Oid		   *streams;
	int			n;
	uint64		fingerprint;
	bool		others;

	check_table(w->state);
	fingerprint = streams_of(w, &streams, &n);
	others = n != w->nsources || fingerprint != w->fingerprint;
	for (int i = 0; i < n && !others; i++)
		others = streams[i] != w->sources[i].stream;
	if (others)
	{
		w->sources = MemoryContextAllocZero(mcxt, sizeof(FlWatchSource) * Max(n, 1));
		w->nsources = n;
		w->fingerprint = fingerprint;
	}
	for (int i = 0; i < n; i++)
	{
		FlWatchSource *s = &w->sources[i];

		s->stream = streams[i];
		s->name = MemoryContextStrdup(mcxt, qualified_name(streams[i]));
		set_shards(s, mcxt, fl_tail_check_stream(streams[i]));
		s->policies = fl_rls_applies(streams[i]);
		check_policies(w->state, s);
	}
	pfree(streams);
	return others;
}

/* ---- positions -------------------------------------------------------------------------- */

static void
bad_position(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("since is not a position of watch()"),
			 errdetail("%s", detail),
			 errhint("Give column position of the last event, or NULL to begin with the state.")));
}

static JsonbValue *
member(JsonbContainer *object, const char *name, JsonbValue *buf)
{
	return getKeyJsonValueFromContainer(object, name, (int) strlen(name), buf);
}

static JsonbContainer *
object_of(const JsonbValue *v)
{
	if (v->type != jbvBinary || !JsonContainerIsObject(v->val.binary.data))
		bad_position("It lacks an object where one belongs.");
	return v->val.binary.data;
}

static int64
number_of(JsonbContainer *object, const char *name, int64 max)
{
	JsonbValue	buf;
	JsonbValue *v = member(object, name, &buf);
	int64		n;

	if (v == NULL || v->type != jbvNumeric)
		bad_position(psprintf("It lacks the number \"%s\".", name));
	n = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric)));
	if (n < 0 || n > max)
		bad_position(psprintf("Number \"%s\" is out of range.", name));
	return n;
}

bool
fl_watch_position_holds(Oid stream, int shard, const FlShardPosition *p)
{
	bool		known;
	int64		end = fl_epoch_end(stream, shard, p->epoch, &known);

	return known && p->at.offset <= end;
}

static bool
parse_source(FlWatchSource *s, JsonbContainer *shards)
{
	for (int i = 0; i < s->nshards; i++)
	{
		FlShardPosition *p = &s->shards[i];
		char		name[16];
		JsonbValue	buf;
		JsonbValue *v;

		snprintf(name, sizeof(name), "%d", i);
		v = member(shards, name, &buf);
		memset(p, 0, sizeof(*p));
		/* A shard that was added since begins with its first record. */
		if (v != NULL)
		{
			p->at.offset = number_of(object_of(v), "offset", PG_INT64_MAX);
			p->epoch = (int32) number_of(object_of(v), "epoch", PG_INT32_MAX);
		}
		if (!fl_watch_position_holds(s->stream, i, p) || p->at.offset < fl_log_head(s->stream, i))
			return false;
	}
	return true;
}

static char *
fingerprint_text(uint64 fingerprint)
{
	return psprintf("%016llx", (unsigned long long) fingerprint);
}

bool
fl_watch_parse_positions(FlWatch *w, Jsonb *json)
{
	JsonbValue	buf;
	JsonbValue *v;
	JsonbContainer *streams;
	char	   *mine = fingerprint_text(w->fingerprint);

	if (!JB_ROOT_IS_OBJECT(json))
		bad_position("It is not an object.");
	if (member(&json->root, "lsn", &buf) != NULL)
		bad_position("It is the position of a watch with a replication slot.");
	v = member(&json->root, "watch", &buf);
	if (v == NULL || v->type != jbvString)
		bad_position("It lacks the text \"watch\".");
	if (v->val.string.len != strlen(mine) || memcmp(v->val.string.val, mine, v->val.string.len) != 0)
		return false;
	v = member(&json->root, "streams", &buf);
	if (v == NULL)
		bad_position("It lacks \"streams\".");
	streams = object_of(v);
	for (int i = 0; i < w->nsources; i++)
	{
		v = member(streams, w->sources[i].name, &buf);
		if (v == NULL || !parse_source(&w->sources[i], object_of(v)))
			return false;
	}
	return true;
}

Datum
fl_watch_positions_datum(const FlWatch *w, FlShardPosition *const *at)
{
	StringInfoData buf;
	Datum		result;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"watch\":\"%s\",\"streams\":{", fingerprint_text(w->fingerprint));
	for (int i = 0; i < w->nsources; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, ',');
		escape_json(&buf, w->sources[i].name);
		appendStringInfoString(&buf, ":{");
		for (int s = 0; s < w->sources[i].nshards; s++)
			appendStringInfo(&buf, "%s\"%d\":{\"offset\":" INT64_FORMAT ",\"epoch\":%d}", s > 0 ? "," : "", s,
							 at[i][s].at.offset, at[i][s].epoch);
		appendStringInfoChar(&buf, '}');
	}
	appendStringInfoString(&buf, "}}");
	result = DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
	pfree(buf.data);
	return result;
}
