/*-------------------------------------------------------------------------
 *
 * views.c
 *		Rows of fleetlog.stat_group and fleetlog.stat_group_member: what the
 *		coordinator knows of groups and their members.
 *
 * What clients send is text only by promise; what is none is shown as NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/groups.h"
#include "fleetlog/shmem.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_group_member);

enum
{
	C_NAME,
	C_OWNER,
	C_STATE,
	C_GENERATION,
	C_PROTOCOL_TYPE,
	C_PROTOCOL,
	C_MEMBER_ID,
	C_INSTANCE_ID,
	C_CLIENT_ID,
	C_HOST,
	C_LEADER,
	C_SESSION_TIMEOUT,
	C_REBALANCE_TIMEOUT,
	C_EXPIRES,
	C_ASSIGNMENT,
	N_COLUMNS
};

/* In the server's encoding; NULL: it is no text. */
static char *
server_text(FlKafkaBytes bytes)
{
	char	   *utf8;

	if (bytes.len < 0 ||
		(bytes.len > 0 && (memchr(bytes.data, '\0', bytes.len) != NULL ||
						   pg_encoding_verifymbstr(PG_UTF8, (const char *) bytes.data, bytes.len) != bytes.len)))
		return NULL;
	utf8 = pnstrdup((const char *) bytes.data, bytes.len);
	return pg_any_to_server(utf8, bytes.len, PG_UTF8);
}

static void
put_text(Datum *values, bool *nulls, int column, FlKafkaBytes bytes)
{
	char	   *text = server_text(bytes);

	nulls[column] = text == NULL;
	if (text != NULL)
		values[column] = CStringGetTextDatum(text);
}

static void
put_ms(Datum *values, bool *nulls, int column, int64 ms)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = ms * 1000;
	values[column] = IntervalPGetDatum(interval);
	nulls[column] = false;
}

/* What consumers call an assignment, as {"topic": [partition, ...]}; false: it is not that. */
static bool
write_assignment(StringInfo json, FlKafkaBytes bytes)
{
	FlKafkaConsumerProtocolAssignment assignment;
	FlKafkaConsumerProtocolAssignmentTopicPartition topic;
	int32		partition;
	int			version;
	const char *comma = "";

	if (bytes.len < 2)
		return false;
	version = Min((int16) fl_get_be16(bytes.data), fl_kafka_consumer_protocol_assignment.to);
	if (version < 0 || fl_kafka_decode_consumer_protocol_assignment(version, bytes.data + 2, bytes.len - 2,
																	&assignment) != FL_OK)
		return false;
	appendStringInfoChar(json, '{');
	while (fl_kafka_next(&assignment.assigned_partitions, &topic))
	{
		char	   *name = server_text(topic.topic);
		const char *inner = "";

		if (name == NULL)
			return false;
		appendStringInfoString(json, comma);
		escape_json(json, name);
		appendStringInfoString(json, ": [");
		while (fl_kafka_next(&topic.partitions, &partition))
		{
			appendStringInfo(json, "%s%d", inner, partition);
			inner = ", ";
		}
		appendStringInfoChar(json, ']');
		comma = ", ";
	}
	appendStringInfoChar(json, '}');
	return true;
}

static void
put_assignment(Datum *values, bool *nulls, const FlGroupView *g, const FlGroupMemberView *m)
{
	StringInfoData json;

	initStringInfo(&json);
	nulls[C_ASSIGNMENT] = !fl_kafka_string_is(g->protocol_type, "consumer") || !write_assignment(&json, m->assignment);
	if (!nulls[C_ASSIGNMENT])
		values[C_ASSIGNMENT] = DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

static void
put_group(Datum *values, bool *nulls, const FlGroupView *g)
{
	memset(nulls, true, sizeof(bool) * N_COLUMNS);
	put_text(values, nulls, C_NAME, g->name);
	values[C_OWNER] = ObjectIdGetDatum(g->owner);
	values[C_STATE] = CStringGetTextDatum(fl_group_state_name(g->state));
	values[C_GENERATION] = Int32GetDatum(g->generation);
	nulls[C_OWNER] = nulls[C_STATE] = nulls[C_GENERATION] = false;
	put_text(values, nulls, C_PROTOCOL_TYPE, g->protocol_type);
	put_text(values, nulls, C_PROTOCOL, g->protocol);
}

static void
put_member(Datum *values, bool *nulls, const FlGroupView *g, const FlGroupMemberView *m)
{
	put_text(values, nulls, C_MEMBER_ID, m->id);
	put_text(values, nulls, C_INSTANCE_ID, m->instance);
	put_text(values, nulls, C_CLIENT_ID, m->client_id);
	put_text(values, nulls, C_HOST, m->client_host);
	values[C_LEADER] = BoolGetDatum(m->leader);
	nulls[C_LEADER] = false;
	put_ms(values, nulls, C_SESSION_TIMEOUT, m->session_ms);
	put_ms(values, nulls, C_REBALANCE_TIMEOUT, m->rebalance_ms);
	if (m->expires_in != FL_GROUP_NEVER)
		put_ms(values, nulls, C_EXPIRES, m->expires_in);
	put_assignment(values, nulls, g, m);
}

/* A row for each member; a group without members has one with an empty member. */
Datum
fl_sql_stat_group_member(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlGroupOut *out;
	FlGroupView *list;
	int32		n;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	out = fl_groups_out();
	for (;;)
	{
		FlGroupCall *call = fl_groups_lock(0, InvalidOid, InvalidOid);

		list = fl_group_list(call, true, out, &n);
		fl_groups_unlock(call);
		if (fl_group_out_fits(out))
			break;
		fl_groups_grow();
	}
	for (int i = 0; i < n; i++)
	{
		Datum		values[N_COLUMNS] = {0};
		bool		nulls[N_COLUMNS];

		put_group(values, nulls, &list[i]);
		if (list[i].nmembers == 0)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		for (int m = 0; m < list[i].nmembers; m++)
		{
			put_member(values, nulls, &list[i], &list[i].members[m]);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}
