/*
 * configs.c
 *		Configurations of topics and of the broker: which there are, what they are in
 *		SQL, and what is shown of those that cannot be set.
 *
 * Eight of a topic's are properties of its stream.  The others are shown with what
 * holds here, since tools ask for them; setting one is refused unless it is set to
 * what it is.
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"

#include "fleetlog/record_batch.h"
#include "fleetlog/settings.h"

#include "admin.h"

typedef struct Known
{
	const char *name;
	FlKafkaSetting setting;
	int8 type;
	const char *value; /* default, or what holds; NULL: server-wide */
	const char *broker_name;
	const char *documentation;
} Known;

#define FOR_EVER "9223372036854775807"

/* docs/kafka.md has the same table. */
static const Known topic_configs[] = {
	{"cleanup.policy", FL_KAFKA_SET_CLEANUP, FL_KAFKA_CONFIG_LIST, "delete", "log.cleanup.policy",
	 "delete: retention removes records; compact: records need a key, and history is not rewritten"},
	{"compression.type", FL_KAFKA_SET_COMPRESSION, FL_KAFKA_CONFIG_STRING, "producer", "compression.type",
	 "how records are kept that come uncompressed: producer or lz4 (the same), zstd, uncompressed"},
	{"delete.retention.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER, "log.cleaner.delete.retention.ms",
	 "tombstones stay"},
	{"file.delete.delay.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "60000", "log.segment.delete.delay.ms",
	 "see fleetlog.retention_grace"},
	{"flush.messages", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "1", "log.flush.interval.messages",
	 "what is acknowledged is flushed"},
	{"flush.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER, "log.flush.interval.ms",
	 "what is acknowledged is flushed"},
	{"follower.replication.throttled.replicas", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LIST, "", NULL, "none"},
	{"index.interval.bytes", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_INT, "4096", "log.index.interval.bytes",
	 "every batch can be found"},
	{"leader.replication.throttled.replicas", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LIST, "", NULL, "none"},
	{"local.retention.bytes", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "-2", "log.local.retention.bytes",
	 "there is no other storage"},
	{"local.retention.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "-2", "log.local.retention.ms",
	 "there is no other storage"},
	{"max.compaction.lag.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER, "log.cleaner.max.compaction.lag.ms",
	 "history is not rewritten"},
	{"max.message.bytes", FL_KAFKA_SET_MAX_MESSAGE, FL_KAFKA_CONFIG_INT, NULL, "message.max.bytes",
	 "largest record; without it fleetlog.max_record_size"},
	{"message.timestamp.after.max.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER,
	 "log.message.timestamp.after.max.ms", "any time is taken"},
	{"message.timestamp.before.max.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER,
	 "log.message.timestamp.before.max.ms", "any time is taken"},
	{"message.timestamp.difference.max.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, FOR_EVER,
	 "log.message.timestamp.difference.max.ms", "any time is taken"},
	{"message.timestamp.type", FL_KAFKA_SET_TIMESTAMP, FL_KAFKA_CONFIG_STRING, "CreateTime", "log.message.timestamp.type",
	 "CreateTime or LogAppendTime"},
	{"min.cleanable.dirty.ratio", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio",
	 "history is not rewritten"},
	{"min.compaction.lag.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "0", "log.cleaner.min.compaction.lag.ms",
	 "history is not rewritten"},
	{"min.insync.replicas", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_INT, "1", "min.insync.replicas",
	 "standbys are the stream's durability"},
	{"preallocate", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_BOOLEAN, "false", "log.preallocate", "no"},
	{"remote.storage.enable", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_BOOLEAN, "false", NULL, "there is no other storage"},
	{"retention.bytes", FL_KAFKA_SET_RETENTION_BYTES, FL_KAFKA_CONFIG_LONG, "-1", "log.retention.bytes",
	 "bytes of a partition that are kept at least; -1: all"},
	{"retention.ms", FL_KAFKA_SET_RETENTION_MS, FL_KAFKA_CONFIG_LONG, "-1", "log.retention.ms",
	 "how long records are kept, by the time they were appended; -1: for ever"},
	{"segment.bytes", FL_KAFKA_SET_SEGMENT_BYTES, FL_KAFKA_CONFIG_INT, "1073741824", "log.segment.bytes",
	 "target; the default is none: segments follow the rate"},
	{"segment.index.bytes", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_INT, "10485760", "log.index.size.max.bytes",
	 "not limited"},
	{"segment.jitter.ms", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_LONG, "0", "log.roll.jitter.ms", "none"},
	{"segment.ms", FL_KAFKA_SET_SEGMENT_MS, FL_KAFKA_CONFIG_LONG, "604800000", "log.roll.ms",
	 "target; the default is none: segments follow the rate"},
	{"unclean.leader.election.enable", FL_KAFKA_SET_NOTHING, FL_KAFKA_CONFIG_BOOLEAN, "false",
	 "unclean.leader.election.enable", "no"},
};

static const char *
number_text(int64 number)
{
	return psprintf(INT64_FORMAT, number);
}

static const char *
default_of(const Known *known)
{
	return known->value != NULL ? known->value : number_text((int64) fl_max_record_kb * 1024);
}

/* ---- showing ---- */

int
fl_kafka_topic_configs(const FlKafkaSettings *settings, FlKafkaConfig **configs)
{
	FlKafkaConfig *list = palloc0(sizeof(*list) * lengthof(topic_configs));

	for (int i = 0; i < lengthof(topic_configs); i++)
	{
		const Known *known = &topic_configs[i];
		const char *value = known->setting == FL_KAFKA_SET_NOTHING ? NULL : settings->values[known->setting];

		list[i].name = known->name;
		list[i].default_value = default_of(known);
		list[i].default_name = known->broker_name;
		list[i].value = value != NULL ? value : list[i].default_value;
		list[i].source = value != NULL ? FL_KAFKA_SOURCE_TOPIC
						 : known->value == NULL ? FL_KAFKA_SOURCE_SERVER : FL_KAFKA_SOURCE_DEFAULT;
		list[i].type = known->type;
		list[i].read_only = known->setting == FL_KAFKA_SET_NOTHING;
		list[i].documentation = known->documentation;
	}
	*configs = list;
	return lengthof(topic_configs);
}

/* What tools look up at a broker; all of it is read-only, since it is set in postgresql.conf or nowhere. */
int
fl_kafka_broker_configs(FlKafkaConn *conn, FlKafkaConfig **configs)
{
	FlKafkaAddress address;
	const char *endpoint;
	int n = 0;
	FlKafkaConfig *list;

	fl_kafka_advertised_address(conn, &address);
	endpoint = psprintf("%s://%s:%d", "PLAINTEXT", address.host, address.port);
	{
		const FlKafkaConfig ours[] = {
			{"advertised.listeners", endpoint, .type = FL_KAFKA_CONFIG_STRING, .source = FL_KAFKA_SOURCE_SERVER,
			 .documentation = "fleetlog.kafka_advertised"},
			{"auto.create.topics.enable", fl_kafka_auto_create_topics ? "true" : "false", .type = FL_KAFKA_CONFIG_BOOLEAN,
			 .source = FL_KAFKA_SOURCE_SERVER, .documentation = "fleetlog.kafka_auto_create_topics"},
			{"broker.id", "1", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"default.replication.factor", "1", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT,
			 .documentation = "there is one broker; standbys are the stream's durability"},
			{"delete.topic.enable", "true", .type = FL_KAFKA_CONFIG_BOOLEAN, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"inter.broker.protocol.version", "3.9", .type = FL_KAFKA_CONFIG_STRING, .source = FL_KAFKA_SOURCE_DEFAULT,
			 .documentation = "there is no other broker; tools take it for a version"},
			{"log.dirs", "data", .type = FL_KAFKA_CONFIG_STRING, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"log.retention.hours", "-1", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"log.retention.minutes", NULL, .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"node.id", "1", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"num.partitions", number_text(fl_kafka_num_partitions), .type = FL_KAFKA_CONFIG_INT,
			 .source = FL_KAFKA_SOURCE_SERVER, .documentation = "fleetlog.kafka_num_partitions"},
			{"offsets.retention.minutes", "2147483647", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT,
			 .documentation = "positions stay"},
			{"offsets.topic.replication.factor", "1", .type = FL_KAFKA_CONFIG_INT, .source = FL_KAFKA_SOURCE_DEFAULT},
			{"socket.request.max.bytes", number_text((int64) fl_kafka_max_request_kb * 1024), .type = FL_KAFKA_CONFIG_INT,
			 .source = FL_KAFKA_SOURCE_SERVER, .documentation = "fleetlog.kafka_max_request"},
		};

		list = palloc0(sizeof(*list) * (lengthof(ours) + lengthof(topic_configs)));
		memcpy(list, ours, sizeof(ours));
		n = lengthof(ours);
	}
	/* What topics follow that have nothing of their own. */
	for (int i = 0; i < lengthof(topic_configs); i++)
	{
		const Known *known = &topic_configs[i];

		if (known->broker_name == NULL)
			continue;
		list[n].name = known->broker_name;
		list[n].value = default_of(known);
		list[n].type = known->type;
		list[n].source = known->value == NULL ? FL_KAFKA_SOURCE_SERVER : FL_KAFKA_SOURCE_DEFAULT;
		list[n].documentation = known->documentation;
		n++;
	}
	for (int i = 0; i < n; i++)
	{
		list[i].read_only = true;
		list[i].default_value = list[i].value;
	}
	*configs = list;
	return n;
}

/* ---- of a stream ---- */

static void
keep_number(FlKafkaSettings *settings, FlKafkaSetting which, int64 number)
{
	settings->values[which] = number > 0 ? number_text(number) : NULL;
}

void
fl_kafka_settings_of(const FlStreamInfo *stream, FlKafkaSettings *settings)
{
	int64 shards = Max(stream->shards, 1);

	memset(settings, 0, sizeof(*settings));
	if (stream->codec != FL_CODEC_LZ4)
		settings->values[FL_KAFKA_SET_COMPRESSION] = stream->codec == FL_CODEC_ZSTD ? "zstd" : "uncompressed";
	if (stream->timestamp_type == FL_TIMESTAMP_APPEND)
		settings->values[FL_KAFKA_SET_TIMESTAMP] = "LogAppendTime";
	if (stream->is_compacted)
		settings->values[FL_KAFKA_SET_CLEANUP] = stream->is_expiring ? "compact,delete" : "compact";
	keep_number(settings, FL_KAFKA_SET_SEGMENT_BYTES, Min(stream->segment_bytes, PG_INT32_MAX));
	keep_number(settings, FL_KAFKA_SET_SEGMENT_MS, (stream->segment_age_us + 999) / 1000);
	keep_number(settings, FL_KAFKA_SET_RETENTION_MS, (stream->retention_age_us + 999) / 1000);
	keep_number(settings, FL_KAFKA_SET_RETENTION_BYTES, (stream->retention_bytes + shards - 1) / shards);
	keep_number(settings, FL_KAFKA_SET_MAX_MESSAGE, stream->max_record_bytes);
}

/* ---- setting ---- */

static const Known *
find(FlKafkaBytes name)
{
	for (int i = 0; i < lengthof(topic_configs); i++)
		if (fl_kafka_string_is(name, topic_configs[i].name))
			return &topic_configs[i];
	return NULL;
}

static const char *
check_word(const char *value, const char *const *words, const char **canonical)
{
	for (int i = 0; words[i] != NULL; i += 2)
	{
		if (strcmp(value, words[i]) != 0)
			continue;
		*canonical = words[i + 1];
		return NULL;
	}
	return "the value is none of those that there are";
}

/* Which numbers each takes; "" as canonical is the default. */
static const char *
check_number(FlKafkaSetting setting, const char *value, const char **canonical)
{
	char *end;
	int64 number;
	int64 max = setting == FL_KAFKA_SET_SEGMENT_BYTES || setting == FL_KAFKA_SET_MAX_MESSAGE ? PG_INT32_MAX
				: setting == FL_KAFKA_SET_RETENTION_BYTES								   ? PG_INT64_MAX / FL_MAX_SHARDS
																						   : PG_INT64_MAX;
	bool may_be_all = setting == FL_KAFKA_SET_RETENTION_BYTES || setting == FL_KAFKA_SET_RETENTION_MS;

	errno = 0;
	number = strtoi64(value, &end, 10);
	if (*value == '\0' || isspace((unsigned char) *value) || *end != '\0' || errno != 0)
		return "the value is no number";
	if (number > max || number < (may_be_all ? -1 : 1))
		return psprintf("the value must be between %d and " INT64_FORMAT, may_be_all ? -1 : 1, max);
	/* Longer than any clock: for ever. */
	if (number < 0 || (number > PG_INT64_MAX / 4000 && setting != FL_KAFKA_SET_RETENTION_BYTES))
		*canonical = NULL;
	else
		*canonical = number_text(Max(number, 1));
	return NULL;
}

static const char *
check_list(const char *value, const char **canonical)
{
	bool has_delete = false;
	bool has_compact = false;
	char *rest = pstrdup(value);
	char *item;

	while ((item = strsep(&rest, ",")) != NULL)
	{
		item += strspn(item, " ");
		item[strcspn(item, " ")] = '\0';
		if (strcmp(item, "delete") == 0)
			has_delete = true;
		else if (strcmp(item, "compact") == 0)
			has_compact = true;
		else
			return "cleanup.policy is a list of delete and compact";
	}
	*canonical = !has_compact ? NULL : has_delete ? "compact,delete" : "compact";
	return NULL;
}

static const char *
check(const Known *known, const char *value, const char **canonical)
{
	static const char *const compressions[] = {"producer", NULL, "lz4", NULL, "zstd", "zstd", "uncompressed", "uncompressed", NULL};
	static const char *const times[] = {"CreateTime", NULL, "LogAppendTime", "LogAppendTime", NULL};

	*canonical = NULL;
	if (strcmp(value, default_of(known)) == 0)
		return NULL;
	switch (known->setting)
	{
		case FL_KAFKA_SET_NOTHING:
			return psprintf("%s is %s here and cannot be set", known->name, default_of(known));
		case FL_KAFKA_SET_COMPRESSION:
			if (check_word(value, compressions, canonical) == NULL)
				return NULL;
			return "compression.type is one of producer, lz4, zstd, uncompressed; batches are kept as producers have compressed them";
		case FL_KAFKA_SET_TIMESTAMP:
			return check_word(value, times, canonical) == NULL ? NULL
															   : "message.timestamp.type is CreateTime or LogAppendTime";
		case FL_KAFKA_SET_CLEANUP:
			return check_list(value, canonical);
		default:
			return check_number(known->setting, value, canonical);
	}
}

const char *
fl_kafka_set(FlKafkaSettings *settings, FlKafkaBytes name, FlKafkaBytes value)
{
	const Known *known = find(name);
	const char *canonical = NULL;
	const char *why = NULL;

	if (known == NULL)
		return fl_kafka_is_text(name) ? psprintf("there is no configuration \"%s\"", fl_kafka_text(name))
									  : "there is no such configuration";
	if (!fl_kafka_is_text(value))
		return "the value is no text";
	if (value.len >= 0)
		why = check(known, fl_kafka_text(value), &canonical);
	if (why == NULL && known->setting != FL_KAFKA_SET_NOTHING)
		settings->values[known->setting] = canonical;
	return why == NULL || strncmp(why, "the value", 9) != 0 ? why : psprintf("%s: %s", known->name, why);
}

const char *
fl_kafka_set_item(FlKafkaSettings *settings, FlKafkaBytes name, FlKafkaBytes value, bool add)
{
	const Known *known = find(name);
	const char *now;
	const char *canonical;
	bool compact;
	bool delete;
	const char *text = fl_kafka_is_text(value) ? fl_kafka_text(value) : NULL;

	if (known == NULL || known->setting != FL_KAFKA_SET_CLEANUP || text == NULL)
		return known != NULL && known->type != FL_KAFKA_CONFIG_LIST
				   ? psprintf("%s is no list", known->name)
				   : fl_kafka_set(settings, name, value);
	if (check_list(text, &canonical) != NULL)
		return "cleanup.policy is a list of delete and compact";
	now = settings->values[FL_KAFKA_SET_CLEANUP];
	compact = now != NULL;
	delete = now == NULL || strcmp(now, "compact,delete") == 0;
	if (strstr(text, "compact") != NULL)
		compact = add;
	if (strstr(text, "delete") != NULL)
		delete = add;
	if (!compact && !delete)
		return "nothing would be left of cleanup.policy";
	settings->values[FL_KAFKA_SET_CLEANUP] = !compact ? NULL : delete ? "compact,delete" : "compact";
	return NULL;
}

/* ---- to SQL ---- */

/* One as alter_stream and create_stream take it; 0 is none. */
static const char *
to_sql(FlKafkaSetting setting, const char *value, int32 shards)
{
	switch (setting)
	{
		case FL_KAFKA_SET_COMPRESSION:
			return value == NULL ? "lz4" : strcmp(value, "uncompressed") == 0 ? "none" : value;
		case FL_KAFKA_SET_TIMESTAMP:
			return value == NULL ? "create" : "append";
		case FL_KAFKA_SET_CLEANUP:
			return value == NULL ? "delete" : value;
		case FL_KAFKA_SET_SEGMENT_MS:
		case FL_KAFKA_SET_RETENTION_MS:
			return value == NULL ? "0" : psprintf("%s milliseconds", value);
		case FL_KAFKA_SET_RETENTION_BYTES:
			return value == NULL ? "0" : number_text(strtoi64(value, NULL, 10) * shards);
		default:
			return value == NULL ? "0" : value;
	}
}

void
fl_kafka_settings_to_sql(const FlKafkaSettings *settings, const FlKafkaSettings *old, int32 shards, const char **params)
{
	for (int i = 0; i < FL_KAFKA_N_SETTINGS; i++)
	{
		const char *a = settings->values[i];
		const char *b = old == NULL ? NULL : old->values[i];
		bool same = old != NULL && (a == NULL ? b == NULL : b != NULL && strcmp(a, b) == 0);

		params[i] = same ? NULL : to_sql((FlKafkaSetting) i, a, shards);
	}
}
