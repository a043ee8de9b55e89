/*
 * topics.c
 *		Streams as topics: names, ids, partitions' epochs.
 *
 * A stream is known by its name, or, where several schemas have a stream of that
 * name, by schema.stream.  One whose name Kafka does not allow cannot be named to
 * its clients.  The list is made anew when the catalog has changed; its strings
 * live until the next change, which comes between turns only.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"

#include "fleetlog/session.h"
#include "kafka.h"

bool
fl_kafka_topic_is_legal(FlKafkaBytes name)
{
	if (name.len < 1 || name.len > FL_KAFKA_TOPIC_MAX || fl_kafka_string_is(name, ".") ||
		fl_kafka_string_is(name, ".."))
		return false;
	for (int32 i = 0; i < name.len; i++)
	{
		uint8 c = name.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
			c != '-')
			return false;
	}
	return true;
}

/* ---- the list ---- */

static int
topic_cmp(const void *x, const void *y)
{
	const FlKafkaTopic *a = x;
	const FlKafkaTopic *b = y;

	return strcmp(a->name, b->name);
}

static int
stream_name_cmp(const void *x, const void *y)
{
	const FlStreamInfo *a = *(const FlStreamInfo *const *) x;
	const FlStreamInfo *b = *(const FlStreamInfo *const *) y;

	return strcmp(a->name, b->name);
}

static void
add_topic(FlKafkaDoor *door, const char *name, Oid stream)
{
	if (!fl_kafka_topic_is_legal(fl_kafka_string(name)))
		return;
	door->topics[door->ntopics].name = name;
	door->topics[door->ntopics].stream = stream;
	door->ntopics++;
}

/* Names that several streams have are told with their schemas, and so is what would be taken for one of those. */
static void
name_streams(FlKafkaDoor *door, const FlStreamInfo **streams, int n)
{
	for (int i = 0; i < n; i++)
	{
		const char *name = streams[i]->name;
		bool shared = (i > 0 && strcmp(streams[i - 1]->name, name) == 0) ||
					  (i + 1 < n && strcmp(streams[i + 1]->name, name) == 0);

		add_topic(door, shared ? psprintf("%s.%s", streams[i]->schema, name) : pstrdup(name), streams[i]->relid);
	}
	qsort(door->topics, door->ntopics, sizeof(FlKafkaTopic), topic_cmp);
}

static void
refresh(FlKafkaDoor *door)
{
	MemoryContext old;
	const FlStreamInfo **streams;
	const Oid *oids;
	int count;
	int n = 0;

	if (door->topics_version == fl_catalog_version() && door->topics != NULL)
		return;
	oids = fl_stream_list(&count);
	door->topics_version = 0;
	door->ntopics = 0;
	MemoryContextReset(door->topics_context);
	old = MemoryContextSwitchTo(door->topics_context);
	streams = palloc(sizeof(FlStreamInfo *) * Max(count, 1));
	door->topics = palloc(sizeof(FlKafkaTopic) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		streams[n] = fl_stream_lookup(oids[i]);
		if (streams[n] != NULL && !fl_journal_is_internal(oids[i]))
			n++;
	}
	qsort(streams, n, sizeof(FlStreamInfo *), stream_name_cmp);
	name_streams(door, streams, n);
	pfree(streams);
	MemoryContextSwitchTo(old);
	door->topics_version = fl_catalog_version();
}

const FlKafkaTopic *
fl_kafka_topics(FlKafkaDoor *door, int *count)
{
	fl_kafka_begin_transaction(door);
	refresh(door);
	*count = door->ntopics;
	return door->topics;
}

/* ---- by name and by id ---- */

static int
name_cmp(FlKafkaBytes name, const char *text)
{
	Size len = strlen(text);
	int result = memcmp(name.data, text, Min((Size) name.len, len));

	return result != 0 ? result : (Size) name.len < len ? -1 : (Size) name.len > len;
}

const FlStreamInfo *
fl_kafka_find_topic(FlKafkaDoor *door, FlKafkaBytes name)
{
	int count;
	const FlKafkaTopic *topics = fl_kafka_topics(door, &count);
	int low = 0;

	if (name.len <= 0)
		return NULL;
	while (low < count)
	{
		int middle = low + (count - low) / 2;
		int order = name_cmp(name, topics[middle].name);

		if (order == 0)
			return fl_stream_lookup(topics[middle].stream);
		if (order < 0)
			count = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

const char *
fl_kafka_topic_name(FlKafkaDoor *door, Oid stream)
{
	int count;
	const FlKafkaTopic *topics = fl_kafka_topics(door, &count);

	for (int i = 0; i < count; i++)
	{
		if (topics[i].stream == stream)
			return topics[i].name;
	}
	return NULL;
}

/*
 * The cluster's number, the database's and the stream's: kept by restarts, failovers
 * and pg_upgrade, never zero, and another one when a stream is made anew.
 */
void
fl_kafka_topic_id(Oid stream, FlKafkaUuid *id)
{
	fl_put_be64(id->bytes, GetSystemIdentifier());
	fl_put_be32(id->bytes + 8, MyDatabaseId);
	fl_put_be32(id->bytes + 12, stream);
}

const FlStreamInfo *
fl_kafka_find_topic_id(FlKafkaDoor *door, const FlKafkaUuid *id)
{
	FlKafkaUuid expected;
	Oid stream = fl_get_be32(id->bytes + 12);

	fl_kafka_topic_id(stream, &expected);
	if (memcmp(&expected, id, sizeof(expected)) != 0 || fl_kafka_topic_name(door, stream) == NULL)
		return NULL;
	return fl_stream_lookup(stream);
}
