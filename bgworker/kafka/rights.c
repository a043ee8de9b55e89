/*
 * rights.c
 *		What a Kafka client may see, read and write: the rights that it has by SQL and
 *		MQTT (src/catalog/role.c, acl.c), asked about whole streams.
 *
 * A role has SELECT and INSERT.  A device has rights on topics, not on streams.
 * Nobody reads by way of Kafka what fleetlog.anonymous_no_subscribe withholds, and
 * nobody writes commands: those are sent by fleetlog.send_command.
 *
 * No function here needs a transaction; answers are as new as the caches, which every
 * turn brings up to date.
 */
#include "postgres.h"

#include "kafka.h"

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
	return conn->identity->kind == FL_IDENTITY_ROLE && fl_role_may_write(conn->identity->role, stream->relid);
}

bool
fl_kafka_may_describe(FlKafkaConn *conn, const FlStreamInfo *stream)
{
	return fl_kafka_may_read(conn, stream) || fl_kafka_may_write(conn, stream);
}
