/*
 * connect.c
 *		CONNECT: what is offered, who it is, whom it replaces.
 *
 * The order is that of the standard: the packet is checked, then the login,
 * then the takeover, then the session (session.c), then CONNACK.  Each of them
 * may take longer than a turn; the CONNECT's bytes are kept meanwhile and decoded again, so that there
 * is one path whatever the delay was.  Reading is paused until CONNACK.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"

/* ---- answers ---- */

static void
send_connack(FlMqttConn *conn, const FlMqttConnack *connack, const char *why)
{
	FlMqttPacket packet;

	packet.type = FL_MQTT_CONNACK;
	packet.u.connack = *connack;
	fl_mqtt_send_reason(conn, &packet, &packet.u.connack.props, why);
}

/* What is wrong with a login is told to the log, not to whoever tries. */
static bool
is_for_the_log(uint8 code)
{
	return code == FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD || code == FL_MQTT_RC_NOT_AUTHORIZED;
}

/* MQTT-3.1.4.2: refuse with a reason where the version has one, then close. */
void
fl_mqtt_refuse_connect(FlMqttConn *conn, FlMqttReason reason, const char *why)
{
	FlMqttConnack connack;

	conn->end_reason = (uint8) reason;
	connack.session_present = false;
	fl_mqtt_props_init(&connack.props);
	if (conn->version == FL_MQTT_5_0)
	{
		connack.code = (uint8) reason;
		if (reason == FL_MQTT_RC_SERVER_SHUTTING_DOWN)
			connack.code = FL_MQTT_RC_SERVER_UNAVAILABLE;
		else if (!fl_mqtt_reason_allowed(FL_MQTT_CONNACK, (uint8) reason))
			connack.code = FL_MQTT_RC_UNSPECIFIED_ERROR;
		fl_mqtt_set_reference(&connack.props, connack.code);
		send_connack(conn, &connack, is_for_the_log(connack.code) ? NULL : why);
	}
	else if (conn->version != FL_MQTT_UNKNOWN && fl_mqtt_return_code(reason) > 0)
	{
		connack.code = (uint8) fl_mqtt_return_code(reason);
		send_connack(conn, &connack, NULL);
	}
	fl_net_finish(&conn->net, why);
}

void
fl_mqtt_refuse_login(FlMqttConn *conn, const FlMqttConnect *connect, FlMqttReason reason, const char *why)
{
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_LOGIN))
	{
		char peer[80];

		ereport(LOG,
				(errmsg("fleetlog: login of user \"%.*s\", client \"%.*s\" from %s was refused: %s",
						pg_mbcliplen((const char *) connect->username.data, (int) connect->username.len, 128),
						(const char *) connect->username.data,
						pg_mbcliplen((const char *) connect->client_id.data, (int) connect->client_id.len, 128),
						(const char *) connect->client_id.data, fl_net_peer(&conn->net, peer, sizeof(peer)), why)));
	}
	conn->end_logged = true;
	/* It has one code for all of them. */
	if (fl_mqtt_dialect == FL_MQTT_DIALECT_MOSQUITTO && reason == FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD)
		reason = FL_MQTT_RC_NOT_AUTHORIZED;
	fl_mqtt_refuse_connect(conn, reason, why);
}

/* ---- what the packet asks for ---- */

/* Reason to refuse the packet, or FL_MQTT_RC_SUCCESS. */
static FlMqttReason
check_request(const FlMqttConnect *connect, const char **why)
{
	if (fl_mqtt_props_has(&connect->props, FL_MQTT_P_AUTH_METHOD) &&
		!fl_mqtt_is_scram(fl_mqtt_props_bytes(&connect->props, FL_MQTT_P_AUTH_METHOD)))
	{
		*why = "its authentication method is not supported; SCRAM-SHA-256 is";
		return FL_MQTT_RC_BAD_AUTHENTICATION_METHOD;
	}
	if (connect->client_id.len > FL_MQTT_MAX_CLIENT_ID)
	{
		*why = "client identifier is too long";
		return FL_MQTT_RC_CLIENT_IDENTIFIER_NOT_VALID;
	}
	/*
	 * MQTT-3.1.3-8 of 3.1.1; MQTT 3.1 wants an identifier always.  MQTT 5.0
	 * lets the server choose one in any case.
	 */
	if (connect->client_id.len == 0 && connect->version != FL_MQTT_5_0 &&
		(connect->version == FL_MQTT_3_1 || !connect->clean_start))
	{
		*why = "no client identifier";
		return FL_MQTT_RC_CLIENT_IDENTIFIER_NOT_VALID;
	}
	return connect->will.present ? fl_mqtt_check_will(connect, why) : FL_MQTT_RC_SUCCESS;
}

/* Keep the CONNECT until login and takeover are done. */
static void
keep_connect(FlMqttConn *conn, const FlMqttFrame *frame)
{
	FlMqttPending *pending =
		MemoryContextAllocZero(conn->door->context, offsetof(FlMqttPending, bytes) + frame->body_len);

	pending->len = frame->body_len;
	pending->since_ms = fl_net_now(conn->door->net);
	memcpy(pending->bytes, frame->body, frame->body_len);
	conn->pending = pending;
}

/* The kept CONNECT once more; it decoded before, so it does now. */
void
fl_mqtt_decode_kept(FlMqttConn *conn, FlMqttConnect *connect)
{
	FlMqttFrame frame = {0};
	FlMqttFault fault;

	frame.type = FL_MQTT_CONNECT;
	frame.minimal = true;
	frame.body = conn->pending->bytes;
	frame.body_len = (uint32) conn->pending->len;
	if (fl_mqtt_decode_connect(&frame, connect, &fault) != FL_OK)
		elog(ERROR, "fleetlog: kept CONNECT does not decode: %s", fault.what);
}

/* ---- who it is ---- */

#define CLIENT_ID_SIZE sizeof("auto-00000000-0000-0000-0000-000000000000")

/* As Mosquitto's look, whose tests count the bytes. */
static void
make_client_id(char out[CLIENT_ID_SIZE])
{
	uint8 r[16];

	if (!pg_strong_random(r, sizeof(r)))
		ereport(ERROR, (errmsg("fleetlog: could not draw a client identifier")));
	/* A UUID of random numbers (RFC 9562, 5.4). */
	r[6] = (r[6] & 0x0F) | 0x40;
	r[8] = (r[8] & 0x3F) | 0x80;
	snprintf(out, CLIENT_ID_SIZE, "auto-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", r[0], r[1],
			 r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

/*
 * MQTT-3.1.2-21: what the server wants instead of what the client asked for.
 * Older clients cannot be told, so they are held to what they asked for.
 */
static uint16
choose_keep_alive(FlMqttVersion version, uint16 asked)
{
	if (version == FL_MQTT_5_0 && fl_mqtt_max_keep_alive_s > 0 && (asked == 0 || asked > fl_mqtt_max_keep_alive_s))
		return (uint16) fl_mqtt_max_keep_alive_s;
	return asked;
}

static void
set_who(FlMqttConn *conn, const FlMqttConnect *connect)
{
	conn->keep_alive_s = choose_keep_alive((FlMqttVersion) conn->version, connect->keep_alive);
	if (connect->client_id.len == 0)
	{
		char assigned[CLIENT_ID_SIZE];

		make_client_id(assigned);
		conn->pending->assigned = true;
		conn->who =
			fl_mqtt_pack_who(conn->door->context, &conn->pending->identity, (const uint8 *) assigned, strlen(assigned));
	}
	else
		conn->who = fl_mqtt_pack_who(conn->door->context, &conn->pending->identity, connect->client_id.data,
									 connect->client_id.len);
}

/* ---- CONNACK and what follows from it ---- */

/*
 * What is announced must be kept to the byte (case O22), so a packet that is
 * not too large must not make a record that is.
 */
static uint32
packet_limit(const FlTenant *tenant)
{
	int64 limit = fl_mqtt_max_packet_bytes;
	int64 record = (int64) fl_max_record_kb * 1024;

	limit = Min(limit, record > 2 * FL_MQTT_RECORD_SLACK ? record - FL_MQTT_RECORD_SLACK : record / 2);
	if (tenant != NULL && tenant->max_packet_bytes > 0)
		limit = Min(limit, tenant->max_packet_bytes);
	return (uint32) limit;
}

static uint16
inflight_limit(const FlTenant *tenant)
{
	int limit = fl_mqtt_max_inflight;

	if (tenant != NULL && tenant->max_inflight > 0 && tenant->max_inflight < limit)
		limit = tenant->max_inflight;
	return (uint16) limit;
}

static uint16
level_limit(const FlTenant *tenant)
{
	int limit = fl_mqtt_max_topic_levels;

	if (tenant != NULL && tenant->max_topic_levels > 0)
		limit = Min(limit, tenant->max_topic_levels);
	return (uint16) limit;
}

/*
 * The session's expiry, where it is not what was asked for.  Where it is, saying so
 * is a kindness to whoever reads a trace, for which neither a small client nor
 * Mosquitto's tests have room.
 */
static void
announce_expiry(FlMqttConn *conn, const FlMqttConnect *connect, FlMqttProps *props)
{
	uint32 asked = fl_mqtt_props_int(&connect->props, FL_MQTT_P_SESSION_EXPIRY, 0);
	uint32 applied = conn->session.number != 0 ? conn->session_expiry_s : 0;
	bool room = conn->max_packet >= FL_MQTT_ROOMY_PACKET && fl_mqtt_dialect != FL_MQTT_DIALECT_MOSQUITTO;

	if (applied != asked || (asked != 0 && room))
		fl_mqtt_props_set_int(props, FL_MQTT_P_SESSION_EXPIRY, applied);
}

/*
 * What differs from the standard's defaults, and no more: a client may allow
 * packets that are hardly larger than an empty CONNACK.  Wildcards, subscription
 * identifiers and shared subscriptions are there, which is the default.
 */
static void
announce(FlMqttConn *conn, const FlMqttConnect *connect, FlMqttProps *props)
{
	bool mosquitto = fl_mqtt_dialect == FL_MQTT_DIALECT_MOSQUITTO;

	announce_expiry(conn, connect, props);
	if (conn->max_unacked != PG_UINT16_MAX)
		fl_mqtt_props_set_int(props, FL_MQTT_P_RECEIVE_MAXIMUM, conn->max_unacked);
	if (!fl_mqtt_retain_available())
		fl_mqtt_props_set_int(props, FL_MQTT_P_RETAIN_AVAILABLE, 0);
	/* Mosquitto has a limit to tell only where it was given one. */
	if (!mosquitto || fl_mqtt_max_packet_bytes != FL_MQTT_DEFAULT_PACKET)
		fl_mqtt_props_set_int(props, FL_MQTT_P_MAXIMUM_PACKET_SIZE, conn->max_in_packet);
	if (fl_mqtt_max_topic_aliases > 0)
		fl_mqtt_props_set_int(props, FL_MQTT_P_TOPIC_ALIAS_MAXIMUM, (uint32) fl_mqtt_max_topic_aliases);
}

static void
set_limits(FlMqttConn *conn)
{
	const FlTenant *tenant = fl_mqtt_tenant(conn);

	conn->max_unacked = inflight_limit(tenant);
	conn->max_in_packet = packet_limit(tenant);
	conn->max_levels = level_limit(tenant);
}

void
fl_mqtt_open_connection(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlMqttConnack connack;
	FlMqttPending *pending = conn->pending;
	bool resumes = pending->session_present;

	connack.session_present = pending->session_present;
	connack.code = FL_MQTT_RC_SUCCESS;
	fl_mqtt_props_init(&connack.props);
	if (conn->version == FL_MQTT_5_0)
	{
		conn->receive_max = (uint16) fl_mqtt_props_int(&connect->props, FL_MQTT_P_RECEIVE_MAXIMUM, PG_UINT16_MAX);
		conn->max_aliases = (uint16) Min(fl_mqtt_props_int(&connect->props, FL_MQTT_P_TOPIC_ALIAS_MAXIMUM, 0),
										 (uint32) fl_mqtt_max_topic_aliases);
		announce(conn, connect, &connack.props);
		fl_mqtt_set_scram_final(conn, &connack.props);
		if (conn->keep_alive_s != connect->keep_alive)
			fl_mqtt_props_set_int(&connack.props, FL_MQTT_P_SERVER_KEEP_ALIVE, conn->keep_alive_s);
		if (pending->assigned)
		{
			Size len;
			const char *client_id = fl_mqtt_client_id(conn, &len);

			fl_mqtt_props_set_bytes(&connack.props, FL_MQTT_P_ASSIGNED_CLIENT_ID, client_id, (uint32) len);
		}
	}
	/* One that its session keeps was made when that was written. */
	if (connect->will.present && conn->will == NULL)
		fl_mqtt_keep_will(conn, connect);
	conn->pending = NULL;
	pfree(pending);
	fl_mqtt_set_state(conn, FL_MQTT_STATE_OPEN);
	FL_COUNT(FL_C_LOGINS, 1);
	fl_mqtt_log_begin(conn);
	send_connack(conn, &connack, NULL);
	conn->by_scram = conn->scram != NULL;
	fl_mqtt_free_scram(conn);
	/* A client that allows no packet as large as a CONNACK cannot be served. */
	if (fl_net_pending(&conn->net) == 0)
	{
		fl_net_finish(&conn->net, "CONNACK is larger than the client allows");
		return;
	}
	fl_mqtt_start_keep_alive(conn);
	if (resumes)
		fl_mqtt_resume_session(conn);
	fl_net_resume(&conn->net);
}

/* ---- takeover ---- */

/* Called at first and again while another connection is on its way out. */
static void
try_register(FlMqttConn *conn)
{
	FlMqttConnect connect;
	const FlTenant *tenant = fl_mqtt_tenant(conn);
	FlConnInfo info;

	fl_mqtt_conn_info(conn, &info);
	switch (fl_registry_register(&info, FL_MQTT_RC_SESSION_TAKEN_OVER,
								 tenant != NULL ? (uint32) tenant->max_connections : 0))
	{
		case FL_REGISTERED:
			if (conn->state == FL_MQTT_STATE_TAKING_OVER)
			{
				dlist_delete(&conn->wait_node);
				conn->wait_node.next = conn->wait_node.prev = NULL;
				FL_COUNT(FL_C_TAKEOVERS, 1);
			}
			conn->registered = true;
			fl_mqtt_decode_kept(conn, &connect);
			fl_mqtt_open_session(conn, &connect);
			break;
		case FL_REGISTER_TAKEOVER:
			if (conn->state == FL_MQTT_STATE_TAKING_OVER)
				break;
			fl_mqtt_set_state(conn, FL_MQTT_STATE_TAKING_OVER);
			dlist_push_tail(&conn->door->taking_over, &conn->wait_node);
			fl_net_set_timer(&conn->net, FL_MQTT_TAKEOVER_MS);
			break;
		case FL_REGISTER_FULL:
			fl_mqtt_refuse_connect(conn, fl_mqtt_redirect(conn, FL_MQTT_RC_QUOTA_EXCEEDED),
								   "fleetlog.max_connections is reached");
			break;
		case FL_REGISTER_TENANT_FULL:
			fl_mqtt_refuse_connect(conn, FL_MQTT_RC_QUOTA_EXCEEDED, "its tenant has as many connections as it may have");
			break;
	}
}

void
fl_mqtt_retry_takeovers(FlMqttDoor *door)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify (iter, &door->taking_over)
	{
		FlMqttConn *conn = dlist_container(FlMqttConn, wait_node, iter.cur);

		door->current = conn;
		try_register(conn);
		door->current = NULL;
	}
}

/* The identity is known and stands in conn->pending. */
void
fl_mqtt_logged_in(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlMqttReason reason;
	const char *why;

	/* Whatever is remembered of a role's password, what the server says now counts. */
	if (conn->pending->identity.kind == FL_IDENTITY_ROLE)
	{
		fl_mqtt_begin_transaction(conn->door);
		why = fl_role_admit(&conn->pending->identity);
		if (why != NULL)
		{
			fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD, why);
			return;
		}
	}
	set_who(conn, connect);
	set_limits(conn);
	/* Before it takes anybody over. */
	reason = connect->will.present ? fl_mqtt_judge_will(conn, connect, &why) : FL_MQTT_RC_SUCCESS;
	if (reason != FL_MQTT_RC_SUCCESS)
	{
		fl_mqtt_refuse_login(conn, connect, reason, why);
		return;
	}
	fl_mqtt_make_key(&conn->pending->identity, conn->who->text + conn->who->tenant_len + conn->who->device_len + 2,
					 conn->who->client_id_len, &conn->key);
	try_register(conn);
}

/* ---- login ---- */

/* The kept bytes hold the password; it has been handed over, so wipe it. */
static void
wipe_password(FlMqttConn *conn, const FlMqttConnect *connect)
{
	if (conn->pending != NULL && connect->password.len > 0)
		memset((uint8 *) connect->password.data, 'x', connect->password.len);
}

/* A name whose password is missing, or can be nobody's, may be nobody's as well. */
static FlAuthStart
begin_password(FlMqttConn *conn, const FlMqttConnect *connect)
{
	const char *user = (const char *) connect->username.data;
	FlAuthStart start = fl_auth_begin(conn->door->index, conn->id, user, connect->username.len,
									  (const char *) connect->password.data, connect->password.len,
									  &conn->pending->identity);

	if (start == FL_AUTH_REFUSED && fl_mqtt_allow_anonymous)
		start = fl_auth_begin_name(conn->door->index, conn->id, user, connect->username.len);
	return start;
}

/* False: too many are being checked, try again. */
static bool
begin_login(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlAuthStart start = conn->pending->certificate ? fl_mqtt_begin_certificate(conn) : begin_password(conn, connect);

	if (start == FL_AUTH_BUSY)
		return false;
	wipe_password(conn, connect);
	if (start == FL_AUTH_ACCEPTED)
		fl_mqtt_logged_in(conn, connect);
	else if (start == FL_AUTH_REFUSED)
		fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD,
							 conn->pending->certificate ? "malformed name in its certificate"
														: "malformed user name or password");
	return true;
}

/*
 * After a restart a whole fleet logs in and no password is known yet: most of
 * it waits here, first come first served, for as long as a login may take.
 */
static void
queue_login(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlMqttDoor *door = conn->door;

	if (door->login_count >= FL_MQTT_LOGIN_QUEUE)
	{
		fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_SERVER_BUSY, "too many logins are waiting");
		return;
	}
	conn->pending->queued = true;
	dlist_push_tail(&door->logins, &conn->wait_node);
	door->login_count++;
}

void
fl_mqtt_leave_login_queue(FlMqttConn *conn)
{
	if (conn->pending == NULL || !conn->pending->queued)
		return;
	conn->pending->queued = false;
	dlist_delete(&conn->wait_node);
	conn->wait_node.next = conn->wait_node.prev = NULL;
	conn->door->login_count--;
}

static void
serve_login_queue(FlMqttDoor *door)
{
	while (!dlist_is_empty(&door->logins))
	{
		FlMqttConn *conn = dlist_head_element(FlMqttConn, wait_node, &door->logins);
		FlMqttConnect connect;
		bool begun;

		door->current = conn;
		fl_mqtt_decode_kept(conn, &connect);
		fl_mqtt_leave_login_queue(conn);
		begun = begin_login(conn, &connect);
		if (!begun)
		{
			conn->pending->queued = true;
			dlist_push_head(&door->logins, &conn->wait_node);
			door->login_count++;
		}
		door->current = NULL;
		if (!begun)
			return;
	}
}

/* The answer takes a while. */
static void
await_login(FlMqttConn *conn, const FlMqttConnect *connect)
{
	fl_mqtt_set_state(conn, FL_MQTT_STATE_AUTHENTICATING);
	/* Nobody overtakes those who wait already. */
	if (conn->door->login_count > 0 || !begin_login(conn, connect))
		queue_login(conn, connect);
}

static void
log_in_anonymously(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlIdentity *identity = &conn->pending->identity;

	memset(identity, 0, sizeof(*identity));
	identity->kind = FL_IDENTITY_ANONYMOUS;
	fl_mqtt_logged_in(conn, connect);
}

/*
 * Who gives no password is who TLS has proved it to be.  False: that is nobody.
 * A password goes before, so that a gateway with a certificate of its own can
 * speak for its devices.
 */
static bool
log_in_by_tls(FlMqttConn *conn, const FlMqttConnect *connect)
{
	const char *why;

	switch (fl_mqtt_proof(conn, &conn->pending->identity, &why))
	{
		case FL_NET_PROOF_NONE:
			return false;
		case FL_NET_PROOF_NAMELESS:
			/* Nobody in particular: what is open to all is open to it. */
			if (fl_mqtt_allow_anonymous && connect->username.len == 0)
				return false;
			fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_NOT_AUTHORIZED, why);
			return true;
		case FL_NET_PROOF_CERTIFICATE:
			conn->pending->certificate = true;
			await_login(conn, connect);
			return true;
		case FL_NET_PROOF_PSK:
			if (why != NULL)
				fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_NOT_AUTHORIZED, why);
			else if (!fl_mqtt_user_agrees(&conn->pending->identity, connect->username))
				fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_NOT_AUTHORIZED,
									 "its pre-shared key is another device's");
			else
				fl_mqtt_logged_in(conn, connect);
			return true;
	}
	return false;
}

static void
log_in(FlMqttConn *conn)
{
	FlMqttConnect connect;

	fl_mqtt_decode_kept(conn, &connect);
	if (fl_mqtt_props_has(&connect.props, FL_MQTT_P_AUTH_METHOD))
	{
		wipe_password(conn, &connect);
		fl_mqtt_begin_scram(conn, &connect);
		return;
	}
	if (!connect.has_password && log_in_by_tls(conn, &connect))
		return;
	/* An empty user name says as little as none. */
	if (connect.username.len == 0)
	{
		wipe_password(conn, &connect);
		if (fl_mqtt_allow_anonymous)
			log_in_anonymously(conn, &connect);
		else
			fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_NOT_AUTHORIZED,
								 "no user name, and fleetlog.allow_anonymous is off");
	}
	else if (!connect.has_password && !fl_mqtt_allow_anonymous)
		fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD, "no password");
	else
		await_login(conn, &connect);
}

void
fl_mqtt_handle_connect(FlMqttConn *conn, const FlMqttFrame *frame, const FlMqttConnect *connect)
{
	const char *why = NULL;
	FlMqttReason reason;

	conn->version = (uint8) connect->version;
	/* These hold for its refusal already, and for AUTH. */
	if (conn->version == FL_MQTT_5_0)
	{
		conn->max_packet = fl_mqtt_props_int(&connect->props, FL_MQTT_P_MAXIMUM_PACKET_SIZE, PG_UINT32_MAX);
		conn->no_problem_info = fl_mqtt_props_int(&connect->props, FL_MQTT_P_REQUEST_PROBLEM_INFO, 1) == 0;
	}
	reason = check_request(connect, &why);
	if (reason != FL_MQTT_RC_SUCCESS)
	{
		fl_mqtt_refuse_login(conn, connect, reason, why);
		return;
	}
	fl_net_pause(&conn->net);
	keep_connect(conn, frame);
	log_in(conn);
}

static void
take_login(FlMqttDoor *door, const FlAuthResult *result)
{
	FlMqttConn *conn = fl_mqtt_find(door, result->conn_id);
	FlMqttConnect connect;

	/* It may have gone while its password was being checked. */
	if (conn == NULL || conn->state != FL_MQTT_STATE_AUTHENTICATING)
		return;
	door->current = conn;
	fl_mqtt_decode_kept(conn, &connect);
	switch (result->outcome)
	{
		case FL_AUTH_OUTCOME_ACCEPTED:
			conn->pending->identity = result->identity;
			if (conn->pending->certificate && !fl_mqtt_user_agrees(&result->identity, connect.username))
				fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_NOT_AUTHORIZED, "its certificate is another device's");
			else
				fl_mqtt_logged_in(conn, &connect);
			break;
		case FL_AUTH_OUTCOME_UNKNOWN:
			/* A name means nobody in particular as long as there is no device whose it could be. */
			if (fl_mqtt_allow_anonymous && (connect.username.len == 0 || !conn->pending->certificate))
				log_in_anonymously(conn, &connect);
			else if (!conn->pending->certificate)
				fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD,
									 "there are no devices yet; fleetlog.create_device makes one");
			else
				fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_NOT_AUTHORIZED,
									 "no device has its certificate; fleetlog.set_certificate gives it to one");
			break;
		case FL_AUTH_OUTCOME_BAD:
			if (conn->pending->certificate)
				fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_NOT_AUTHORIZED, "its certificate or device is revoked");
			else
				fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD,
									 "unknown, revoked, or wrong password");
			break;
		case FL_AUTH_OUTCOME_UNAVAILABLE:
			fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_SERVER_UNAVAILABLE, "the login could not be checked");
			break;
	}
	door->current = NULL;
}

void
fl_mqtt_take_logins(FlMqttDoor *door)
{
	FlAuthResult result;

	while (fl_auth_next_result(door->index, &result))
		take_login(door, &result);
	serve_login_queue(door);
}
