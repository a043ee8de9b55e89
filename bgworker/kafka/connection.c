/*
 * connection.c
 *		A connection: frames in, requests to their handlers, answers out in the order
 *		of the requests.
 *
 * As in Kafka's own broker the requests of a connection are handled one after the
 * other: the next one is not looked at before the last one is answered, so what a
 * client has pipelined cannot overtake itself.  The exception are requests that
 * overlap (Produce): they are handled as they come, each behind the others, since
 * waiting for the disk once for each would make the disk's latency the ceiling of
 * a producer.  Their answers wait for each other.
 *
 * Reading stops while a request waits, while ingest has no room, and while the
 * client does not read its answers; the peer's TCP window does the rest.
 *
 * Invariants: a request is in its connection's list until its answer was sent;
 * every way out passes through on_close, once.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "login.h"

FlKafkaDoor *fl_kafka_door = NULL;

/* ---- closing ---- */

void
fl_kafka_close(FlKafkaConn *conn, const char *why)
{
	if (fl_net_is_open(&conn->net))
		fl_net_close(&conn->net, why);
}

void
fl_kafka_refuse(FlKafkaConn *conn, const char *why)
{
	char peer[80];

	FL_COUNT(FL_C_PROTOCOL_ERRORS, 1);
	if (fl_net_is_open(&conn->net) && fl_kafka_log_allowed(conn->door))
		ereport(LOG, (errmsg("fleetlog: the connection of a Kafka client at %s is closed: %s",
							 fl_net_peer(&conn->net, peer, sizeof(peer)), why)));
	fl_kafka_close(conn, why);
}

static void
free_text(char **text)
{
	if (*text != NULL)
		pfree(*text);
	*text = NULL;
}

static void
on_close(FlNetConn *net, const char *why)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;

	if (conn->full)
		dlist_delete(&conn->full_node);
	conn->full = false;
	while (!dlist_is_empty(&conn->requests))
	{
		FlKafkaRequest *req = dlist_head_element(FlKafkaRequest, node, &conn->requests);
		bool parked = req->parked && !req->done;

		fl_kafka_end_request(req);
		if (parked && req->on_end != NULL)
			req->on_end(req);
		req->conn = NULL;
	}
	if (conn->door->current == conn)
		conn->door->current = NULL;
	fl_kafka_log_end(conn, why);
	fl_kafka_end_login(conn);
	fl_kafka_unregister(conn);
	free_text(&conn->client_id);
	free_text(&conn->software);
	if (conn->identity != NULL)
		pfree(conn->identity);
	conn->identity = NULL;
	FL_COUNT(FL_C_CONNECTIONS, -1);
	FL_COUNT(FL_C_DISCONNECTS, 1);
}

/* ---- answers ---- */

/* Answers to a client that does not read them must not pile up. */
static bool
reads_its_answers(FlKafkaConn *conn)
{
	if (fl_net_pending(&conn->net) < FL_KAFKA_PENDING)
		return true;
	fl_net_push(&conn->net);
	return fl_net_pending(&conn->net) < FL_KAFKA_PENDING;
}

void
fl_kafka_read_on(FlKafkaConn *conn)
{
	if (!conn->full && !conn->blocked && !conn->out_paused)
		fl_net_resume(&conn->net);
}

void
fl_kafka_send_ready(FlKafkaConn *conn)
{
	while (!dlist_is_empty(&conn->requests))
	{
		FlKafkaRequest *req = dlist_head_element(FlKafkaRequest, node, &conn->requests);

		if (!req->done)
			break;
		if (req->answer != NULL)
			fl_net_write(&conn->net, req->answer, req->answer_len);
		fl_kafka_end_request(req);
	}
	/* Whether the next one may be handled now is seen when it is looked at again. */
	conn->blocked = false;
	fl_kafka_read_on(conn);
}

static void
on_drained(FlNetConn *net)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;

	conn->out_paused = false;
	fl_kafka_read_on(conn);
}

void
fl_kafka_retry_full(FlKafkaDoor *door)
{
	dlist_mutable_iter iter;

	if (!fl_ingest_has_room(door->ingest))
		return;
	dlist_foreach_modify (iter, &door->full)
	{
		FlKafkaConn *conn = dlist_container(FlKafkaConn, full_node, iter.cur);

		dlist_delete(&conn->full_node);
		conn->full = false;
		fl_kafka_read_on(conn);
	}
}

/* ---- requests ---- */

/* May this request be handled while others of the connection are not answered? */
static bool
must_wait(FlKafkaConn *conn, const FlKafkaEntry *entry)
{
	FlKafkaRequest *last;

	if (dlist_is_empty(&conn->requests))
		return false;
	/* All of them overlap if the last one does: nothing else lets another in behind itself. */
	last = dlist_tail_element(FlKafkaRequest, node, &conn->requests);
	return !(entry->flags & FL_KAFKA_OVERLAPS) || last->entry != entry || conn->nrequests >= FL_KAFKA_MAX_PIPELINED;
}

static void
answer_future_api_versions(FlKafkaConn *conn, int32 correlation_id)
{
	FlBuf *out = &conn->door->out;

	fl_buf_reset(out);
	if (fl_kafka_encode_api_versions_fallback(correlation_id, out) == FL_OK)
		fl_net_write(&conn->net, out->data, out->len);
	fl_buf_reset(out);
}

static void
run_handler(FlKafkaConn *conn, const FlKafkaEntry *entry, const FlKafkaRequestHeader *header, const uint8 *frame,
			Size len)
{
	FlKafkaRequest *req = fl_kafka_create_request(conn, entry, header, frame, len);
	MemoryContext old;

	if (req == NULL)
		return;
	conn->requests_in++;
	conn->stats_dirty = true;
	old = MemoryContextSwitchTo(req->memory);
	entry->handler(req);
	MemoryContextSwitchTo(old);
	if (req->deferred && fl_net_is_open(&conn->net))
	{
		conn->full = true;
		dlist_push_tail(&conn->door->full, &conn->full_node);
	}
}

/* What it calls itself, for views; cut as they are. */
static void
keep_client_id(FlKafkaConn *conn, FlKafkaBytes id)
{
	int len;

	if (conn->client_id != NULL || id.len <= 0 ||
		pg_encoding_verifymbstr(PG_UTF8, (const char *) id.data, id.len) != id.len || memchr(id.data, '\0', id.len))
		return;
	len = pg_mbcliplen((const char *) id.data, id.len, FL_CLIENT_ID_KEEP - 1);
	conn->client_id = MemoryContextAllocZero(conn->door->context, (Size) len + 1);
	memcpy(conn->client_id, id.data, len);
}

/* NULL: it may ask for this; else why it is closed. */
static const char *
check_login(FlKafkaConn *conn)
{
	const char *why = NULL;
	const char *told;

	if (!conn->admitted && !conn->anonymous)
	{
		FL_COUNT(FL_C_REFUSED_CONNECTS, 1);
		return conn->tls_why != NULL ? conn->tls_why
									 : "a request before login; the client's security.protocol must be SASL_PLAINTEXT or "
									   "SASL_SSL, or fleetlog.allow_anonymous on";
	}
	if (!conn->registered)
		why = fl_kafka_admit(conn, NULL, &told);
	else if (conn->expires != DT_NOEND && conn->expires <= GetCurrentTimestamp())
		why = "the password of its role has expired";
	conn->used = true;
	return why;
}

/* False when the frame cannot be taken now. */
static bool
take_frame(FlKafkaConn *conn, const uint8 *frame, Size len)
{
	FlKafkaRequestHeader header;
	const char *why = NULL;
	const FlKafkaEntry *entry = NULL;
	FlResult result;

	if (conn->raw_tokens && conn->login != NULL)
	{
		fl_kafka_take_raw_token(conn, frame, len);
		return true;
	}
	result = fl_kafka_decode_request_header(frame, len, &header);
	if (result == FL_OK || result == FL_UNSUPPORTED)
	{
		entry = fl_kafka_entry(header.key);
		keep_client_id(conn, header.client_id);
	}
	if (entry == NULL || (result == FL_UNSUPPORTED && header.key != FL_KAFKA_API_VERSIONS))
		fl_kafka_refuse(conn, entry != NULL ? "a version of a request that is not served"
							  : result == FL_MALFORMED ? "malformed request header" : "a request that is not served");
	else if (must_wait(conn, entry) ||
			 (!conn->tls_tried && header.key != FL_KAFKA_SASL_HANDSHAKE && !fl_kafka_log_in_by_tls(conn)))
	{
		conn->blocked = true;
		return false;
	}
	else if (!(entry->flags & FL_KAFKA_OPEN) && (why = check_login(conn)) != NULL)
		fl_kafka_refuse(conn, why);
	else if (result == FL_UNSUPPORTED)
		answer_future_api_versions(conn, header.correlation_id);
	else
		run_handler(conn, entry, &header, frame, len);
	return !conn->full;
}

static Size
frame_limit(const FlKafkaConn *conn)
{
	return conn->admitted || conn->anonymous ? (Size) fl_kafka_max_request_kb * 1024 : FL_KAFKA_MAX_LOGIN;
}

/* The frame at data, if there is one: *size is its length with its header. */
static bool
next_frame(FlKafkaConn *conn, const uint8 *data, Size len, Size *size)
{
	size_t payload = 0;

	switch (fl_kafka_decode_frame(data, len, frame_limit(conn), &payload))
	{
		case FL_OK:
			*size = FL_KAFKA_FRAME_HEADER + payload;
			return true;
		case FL_INCOMPLETE:
			return false;
		case FL_TOO_LARGE:
			/* The first bytes of every client of TLS. */
			if (conn->requests_in == 0 && data[0] == 0x16 && data[1] == 0x03)
				fl_kafka_refuse(conn, "it speaks TLS, and this listener does not; fleetlog.kafkas_listen is for TLS");
			else
				fl_kafka_refuse(conn, "a request is larger than fleetlog.kafka_max_request, or than 64 kB before login");
			return false;
		default:
			fl_kafka_refuse(conn, "malformed frame");
			return false;
	}
}

static Size
on_bytes(FlNetConn *net, const uint8 *data, Size len)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;
	Size used = 0;
	Size size;

	conn->door->current = conn;
	while (fl_net_is_open(net) && !conn->full && !conn->blocked && !conn->out_paused && used < len)
	{
		if (!reads_its_answers(conn))
		{
			conn->out_paused = true;
			break;
		}
		if (!next_frame(conn, data + used, len - used, &size) ||
			!take_frame(conn, data + used + FL_KAFKA_FRAME_HEADER, size - FL_KAFKA_FRAME_HEADER))
			break;
		used += size;
	}
	if (fl_net_is_open(net))
	{
		if (conn->full || conn->blocked || conn->out_paused)
			fl_net_pause(net);
		if (conn->admitted || conn->anonymous)
			fl_net_set_timer(net, FL_KAFKA_IDLE_MS);
	}
	conn->door->current = NULL;
	return used;
}

/* ---- the rest of what the event loop tells ---- */

static void
on_accept(FlNetConn *net)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;

	conn->door = fl_kafka_door;
	conn->id = fl_registry_next_id();
	dlist_init(&conn->requests);
	conn->anonymous = fl_mqtt_allow_anonymous;
	conn->expires = DT_NOEND;
	conn->connected_at = GetCurrentTimestamp();
	fl_net_set_timer(net, conn->anonymous ? FL_KAFKA_IDLE_MS : fl_mqtt_connect_timeout_s * INT64CONST(1000));
	FL_COUNT(FL_C_CONNECTS, 1);
	FL_COUNT(FL_C_CONNECTIONS, 1);
}

static void
on_timer(FlNetConn *net)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;

	if (!conn->admitted && !conn->anonymous)
		fl_kafka_refuse(conn, "it has not logged in within fleetlog.connect_timeout");
	else if (conn->nrequests > 0)
		fl_net_set_timer(net, FL_KAFKA_IDLE_MS);
	else
		fl_kafka_close(conn, "idle");
}

static void
on_certificate_end(FlNetConn *net, bool revoked)
{
	fl_kafka_refuse((FlKafkaConn *) net, revoked ? "its certificate was revoked" : "its certificate has expired");
}

const FlNetProtocol fl_kafka_protocol = {
	.name = "kafka",
	.conn_size = sizeof(FlKafkaConn),
	.on_accept = on_accept,
	.on_bytes = on_bytes,
	.on_timer = on_timer,
	.on_drained = on_drained,
	.on_certificate_end = on_certificate_end,
	.on_psk = fl_kafka_find_psk,
	.on_close = on_close,
};
