/*
 * metadata.c
 *		What there is and where to go: Metadata, DescribeCluster.
 *
 * We are the only broker, leader of every partition and coordinator of every
 * group; so clients need one address, that of the listener which they have come
 * to.
 */
#include "postgres.h"

#include <netinet/in.h>
#include <arpa/inet.h>
#include <sys/socket.h>

#include "access/xlog.h"

#include "admin.h"
#include "kafka.h"

static const int32 our_node[] = {FL_KAFKA_NODE_ID};

/* ---- addresses ---- */

void
fl_kafka_advertised_address(FlKafkaConn *conn, FlKafkaAddress *out)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);

	strlcpy(out->host, "localhost", sizeof(out->host));
	out->port = 0;
	if (getsockname(conn->net.fd, (struct sockaddr *) &addr, &len) == 0)
	{
		if (addr.ss_family == AF_INET)
		{
			const struct sockaddr_in *in = (const struct sockaddr_in *) &addr;

			inet_ntop(AF_INET, &in->sin_addr, out->host, sizeof(out->host));
			out->port = ntohs(in->sin_port);
		}
		else if (addr.ss_family == AF_INET6)
		{
			const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) &addr;

			inet_ntop(AF_INET6, &in6->sin6_addr, out->host, sizeof(out->host));
			out->port = ntohs(in6->sin6_port);
		}
	}
	(void) fl_kafka_find_advertised(out->port, out);
}

const char *
fl_kafka_cluster_id(void)
{
	static char id[32];

	snprintf(id, sizeof(id), "fleetlog-" UINT64_FORMAT, GetSystemIdentifier());
	return id;
}

/* ---- Metadata ---- */

static void
describe_partitions(FlKafkaMetadataResponseTopic *topic, const FlStreamInfo *stream)
{
	FlKafkaMetadataResponsePartition *partitions = palloc(sizeof(*partitions) * stream->shards);

	for (int32 shard = 0; shard < stream->shards; shard++)
	{
		FlKafkaMetadataResponsePartition *p = &partitions[shard];

		fl_kafka_init_metadata_response_partition(p);
		p->partition_index = shard;
		p->leader_id = FL_KAFKA_NODE_ID;
		p->leader_epoch = fl_kafka_leader_epoch(stream->relid, shard);
		fl_kafka_set_items(&p->replica_nodes, our_node, 1);
		fl_kafka_set_items(&p->isr_nodes, our_node, 1);
	}
	fl_kafka_set_items(&topic->partitions, partitions, stream->shards);
}

static void
describe_stream(FlKafkaMetadataResponseTopic *topic, FlKafkaBytes name, const FlStreamInfo *stream)
{
	fl_kafka_init_metadata_response_topic(topic);
	topic->name = name;
	fl_kafka_topic_id(stream->relid, &topic->topic_id);
	describe_partitions(topic, stream);
}

/* A topic that was asked for. */
static void
describe_asked(FlKafkaRequest *req, FlKafkaMetadataResponseTopic *topic, const FlKafkaMetadataRequestTopic *asked)
{
	FlKafkaBytes name = asked->name;
	const FlStreamInfo *stream;

	if (name.len < 0)
	{
		stream = fl_kafka_find_topic_id(req->door, &asked->topic_id);
		if (stream != NULL && fl_kafka_may_describe(req->conn, stream))
		{
			describe_stream(topic, fl_kafka_string(fl_kafka_topic_name(req->door, stream->relid)), stream);
			return;
		}
		fl_kafka_init_metadata_response_topic(topic);
		topic->topic_id = asked->topic_id;
		/* Null only from version 12 on. */
		topic->name = req->version >= 12 ? fl_kafka_string(NULL) : fl_kafka_string("");
		topic->error_code = FL_KAFKA_UNKNOWN_TOPIC_ID;
		return;
	}
	stream = fl_kafka_find_topic(req->door, name);
	if (stream != NULL && fl_kafka_may_describe(req->conn, stream))
	{
		describe_stream(topic, name, stream);
		return;
	}
	fl_kafka_init_metadata_response_topic(topic);
	topic->name = name;
	topic->error_code = stream != NULL                   ? FL_KAFKA_TOPIC_AUTHORIZATION_FAILED
						: fl_kafka_topic_is_legal(name) ? FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION
														: FL_KAFKA_INVALID_TOPIC_EXCEPTION;
}

static FlKafkaMetadataResponseTopic *
describe_all(FlKafkaRequest *req, int *n)
{
	int count;
	const FlKafkaTopic *topics = fl_kafka_topics(req->door, &count);
	FlKafkaMetadataResponseTopic *out = palloc(sizeof(*out) * Max(count, 1));

	*n = 0;
	for (int i = 0; i < count; i++)
	{
		const FlStreamInfo *stream = fl_stream_lookup(topics[i].stream);

		if (stream != NULL && fl_kafka_may_describe(req->conn, stream))
			describe_stream(&out[(*n)++], fl_kafka_string(topics[i].name), stream);
	}
	return out;
}

/*
 * As many as were asked for, each of which costs the client two bytes and us a struct: a number
 * that cannot be meant is answered by none.
 */
#define MAX_ASKED   10000
#define MAX_CREATED 100 /* topics that one request makes; the others are unknown until it is repeated */

static FlKafkaMetadataResponseTopic *
describe_named(FlKafkaRequest *req, FlKafkaMetadataRequest *in, int *n)
{
	FlKafkaMetadataRequestTopic asked;
	FlKafkaMetadataResponseTopic *out;

	*n = 0;
	if (fl_kafka_count(&in->topics) > MAX_ASKED)
		return NULL;
	out = palloc(sizeof(*out) * Max(fl_kafka_count(&in->topics), 1));
	while (fl_kafka_next(&in->topics, &asked))
		describe_asked(req, &out[(*n)++], &asked);
	return out;
}

static void
answer_metadata(FlKafkaRequest *req)
{
	FlKafkaMetadataRequest *in = req->message;
	FlKafkaMetadataResponse out;
	FlKafkaMetadataResponseBroker broker;
	FlKafkaMetadataResponseTopic *topics;
	FlKafkaAddress address;
	bool all = fl_kafka_is_null(&in->topics) || (req->version == 0 && fl_kafka_count(&in->topics) == 0);
	int n;

	fl_kafka_advertised_address(req->conn, &address);
	fl_kafka_init_metadata_response_broker(&broker);
	broker.node_id = FL_KAFKA_NODE_ID;
	broker.host = fl_kafka_string(address.host);
	broker.port = address.port;
	topics = all ? describe_all(req, &n) : describe_named(req, in, &n);
	if (topics == NULL)
	{
		fl_kafka_refuse(req->conn, "it asks about more topics at once than anybody has");
		return;
	}
	fl_kafka_init_metadata_response(&out);
	fl_kafka_set_items(&out.brokers, &broker, 1);
	out.cluster_id = fl_kafka_string(fl_kafka_cluster_id());
	out.controller_id = FL_KAFKA_NODE_ID;
	fl_kafka_set_items(&out.topics, topics, n);
	fl_kafka_answer(req, &out);
}

/* ---- topics that are made when they are asked for ---- */

static void
finish_creation(FlKafkaAdmin *admin)
{
	FlKafkaRequest *req = admin->req;
	FlKafkaMetadataRequest *in = req->message;

	/* What was made has to be seen in this very turn. */
	fl_kafka_end_transaction(req->door);
	fl_kafka_refresh_catalog(req->door);
	fl_kafka_rewind(&in->topics);
	answer_metadata(req);
}

/* True: topics that are missing are being made, and the answer comes later. */
static bool
makes_topics(FlKafkaRequest *req)
{
	FlKafkaMetadataRequest *in = req->message;
	FlKafkaMetadataRequestTopic asked;
	FlKafkaBytes names[MAX_CREATED];
	FlKafkaAdmin *admin;
	int n = 0;

	if (!fl_kafka_auto_create_topics || !in->allow_auto_topic_creation || req->conn->identity == NULL ||
		req->conn->identity->kind != FL_IDENTITY_ROLE)
		return false;
	while (n < MAX_CREATED && fl_kafka_next(&in->topics, &asked))
		if (asked.name.len >= 0 && fl_kafka_topic_is_legal(asked.name) &&
			fl_kafka_find_topic(req->door, asked.name) == NULL)
			names[n++] = asked.name;
	fl_kafka_rewind(&in->topics);
	admin = n == 0 ? NULL : fl_kafka_admin_auto_create(req, names, n, finish_creation);
	if (admin == NULL)
		return false;
	fl_kafka_admin_wait(admin);
	return true;
}

void
fl_kafka_handle_metadata(FlKafkaRequest *req)
{
	if (!makes_topics(req))
		answer_metadata(req);
}

/* ---- DescribeCluster ---- */

void
fl_kafka_handle_describe_cluster(FlKafkaRequest *req)
{
	const FlKafkaDescribeClusterRequest *in = req->message;
	FlKafkaDescribeClusterResponse out;
	FlKafkaDescribeClusterBroker broker;
	FlKafkaAddress address;

	fl_kafka_init_describe_cluster_response(&out);
	fl_kafka_advertised_address(req->conn, &address);
	fl_kafka_init_describe_cluster_broker(&broker);
	broker.broker_id = FL_KAFKA_NODE_ID;
	broker.host = fl_kafka_string(address.host);
	broker.port = address.port;
	out.cluster_id = fl_kafka_string(fl_kafka_cluster_id());
	out.endpoint_type = in->endpoint_type;
	/* 2: controllers are asked for, which we have none of beside the broker. */
	if (in->endpoint_type != 1)
		out.error_code = FL_KAFKA_INVALID_REQUEST;
	else
	{
		out.controller_id = FL_KAFKA_NODE_ID;
		fl_kafka_set_items(&out.brokers, &broker, 1);
	}
	fl_kafka_answer(req, &out);
}
