/*
 * rights.c
 *		What a Kafka client may see, read and write: the rights that it has by SQL and
 *		MQTT (src/catalog/role.c, acl.c), asked about whole streams.
 *
 * A role has SELECT and INSERT.  A device has rights on topics, not on streams: it
 * reads nothing, since batches are handed out whole, and writes into the streams of
 * mounts records whose key is a topic that it might publish (fl_kafka_may_write_record).
 * Nobody reads by way of Kafka what fleetlog.anonymous_no_subscribe withholds, and
 * nobody writes commands: those are sent by fleetlog.send_command.
 *
 * No function here needs a transaction; answers are as new as the caches, which every
 * turn brings up to date.
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "kafka.h"

/* Owned by the MQTT door's settings. */
extern int fl_mqtt_max_topic_levels;

static bool
is_commands(const FlStreamInfo *stream)
{
	return stream->relid == fl_command_stream();
}

/* ---- nobody in particular ---- */

static bool
anonymous_may_read(const FlStreamInfo *stream)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int i = 0; i < count; i++)
	{
		if (mounts[i].stream == stream->relid && fl_acl_withholds_below(mounts[i].prefix, mounts[i].prefix_len))
			return false;
	}
	return !is_commands(stream);
}

/* ---- devices ---- */

/* The mount under which a client of Kafka can name topics of the stream: the key is the topic. */
static bool
is_nameable(const FlMount *mount, Oid stream)
{
	return mount->stream == stream && !mount->commands && mount->record_key.is_topic;
}

/* Is one of the two the beginning of the other? */
static bool
overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return memcmp(a, b, Min(a_len, b_len)) == 0;
}

/* Might it write anything into the stream?  Which records, is asked for each. */
static bool
device_may_write(const FlIdentity *device, Oid stream)
{
	const FlTenant *tenant = fl_tenant_lookup(device->tenant);
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int i = 0; tenant != NULL && i < count; i++)
	{
		if (is_nameable(&mounts[i], stream) &&
			overlap(mounts[i].prefix, mounts[i].prefix_len, tenant->prefix, tenant->prefix_len))
			return true;
	}
	return false;
}

static const char *
check_device_record(const FlIdentity *device, Oid stream, const char *topic, size_t len, int32 value_len)
{
	const FlMount *mount = fl_mount_match(topic, len);
	const FlTenant *tenant = fl_tenant_lookup(device->tenant);
	int levels = fl_topic_levels((const uint8 *) topic, len);
	const char *why;

	if (mount == NULL || !is_nameable(mount, stream))
		return "the key of a record is a topic of another stream";
	if (!fl_acl_check(device, FL_ACTION_PUBLISH, topic, len, &why))
		return "the key of a record is a topic that the device may not publish";
	if (levels > fl_mqtt_max_topic_levels || (mount->max_topic_levels > 0 && levels > mount->max_topic_levels) ||
		(tenant != NULL && tenant->max_topic_levels > 0 && levels > tenant->max_topic_levels))
		return "the key of a record is a topic of too many levels";
	if (mount->max_payload_bytes > 0 && value_len > mount->max_payload_bytes)
		return "a record is larger than its mount takes";
	return NULL;
}

const char *
fl_kafka_may_write_record(const FlKafkaConn *conn, Oid stream, const uint8 *key, int32 key_len, int32 value_len)
{
	const char *why;

	if (conn->identity == NULL || conn->identity->kind != FL_IDENTITY_DEVICE)
		return NULL;
	if (key == NULL || !fl_topic_name_valid(key, (size_t) key_len))
		why = "the key of a device's record is its topic";
	else
		why = check_device_record(conn->identity, stream, (const char *) key, (size_t) key_len, value_len);
	if (why != NULL)
		FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
	return why;
}

/* ---- streams ---- */

bool
fl_kafka_may_read(FlKafkaConn *conn, const FlStreamInfo *stream)
{
	if (conn->identity == NULL)
		return conn->admitted && anonymous_may_read(stream);
	return conn->identity->kind == FL_IDENTITY_ROLE && fl_role_may_read(conn->identity->role, stream->relid);
}

bool
fl_kafka_may_write(FlKafkaConn *conn, const FlStreamInfo *stream)
{
	if (is_commands(stream))
		return false;
	if (conn->identity == NULL)
		return conn->admitted;
	if (conn->identity->kind == FL_IDENTITY_DEVICE)
		return device_may_write(conn->identity, stream->relid);
	return fl_role_may_write(conn->identity->role, stream->relid);
}

bool
fl_kafka_may_write_any(FlKafkaConn *conn)
{
	int count;
	const FlKafkaTopic *topics = fl_kafka_topics(conn->door, &count);

	/* Before there is any stream it is not known who may write. */
	if (count == 0)
		return conn->identity != NULL || conn->admitted;
	for (int i = 0; i < count; i++)
	{
		const FlStreamInfo *stream = fl_stream_lookup(topics[i].stream);

		if (stream != NULL && fl_kafka_may_write(conn, stream))
			return true;
	}
	return false;
}

bool
fl_kafka_may_describe(FlKafkaConn *conn, const FlStreamInfo *stream)
{
	return fl_kafka_may_read(conn, stream) || fl_kafka_may_write(conn, stream);
}
