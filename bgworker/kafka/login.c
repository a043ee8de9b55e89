/*
 * login.c
 *		Who a Kafka client is: passwords on their way to the authentication worker,
 *		what TLS has proved, what every log-in has to pass, and when it ends.
 *
 * A name means what it means at the MQTT door (API.md, Identity): a device, as
 * tenant/device or by its bare id, or a role; the worker and fl_auth_find_scram
 * decide.
 *
 * TLS proves a device at the first request, unless that is a SaslHandshake: what the
 * client says of itself goes before, so that a gateway with a certificate of its own
 * may speak for others.  Whom TLS proves to be nobody may still log in.
 *
 * A connection is registered (stat_connection, max_connections, disconnect()) when it
 * is let in; an anonymous one at its first request that is more than asking for
 * versions.
 *
 * Invariants: a log-in whose answer is awaited is in door->logins, and its connection
 * is read no further; passwords are wiped as soon as they were handed on.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "fleetlog/door.h"
#include "fleetlog/session.h"
#include "fleetlog/utf8.h"
#include "fleetlog/worker.h"
#include "login.h"

#define MAX_WAITING 10000 /* log-ins that wait for the authentication worker */
#define EVICTIONS   64    /* taken at a time */

void
fl_kafka_forget_password(FlKafkaLogin *login)
{
	if (login->password != NULL)
	{
		explicit_bzero(login->password, login->password_len);
		pfree(login->password);
	}
	if (login->user != NULL)
		pfree(login->user);
	login->password = login->user = NULL;
}

static void
unlist(FlKafkaLogin *login)
{
	if (!login->listed)
		return;
	dlist_delete(&login->node);
	login->listed = login->asked = false;
	login->conn->door->nlogins--;
}

void
fl_kafka_end_login(FlKafkaConn *conn)
{
	FlKafkaLogin *login = conn->login;

	if (login == NULL)
		return;
	unlist(login);
	fl_kafka_forget_password(login);
	fl_scram_free(login->scram);
	conn->login = NULL;
	pfree(login);
}

/* ---- registration ---- */

static void
fill_info(FlKafkaConn *conn, const FlIdentity *identity, FlConnInfo *info)
{
	const char *client_id = conn->client_id != NULL ? conn->client_id : "";
	Size len = strlen(client_id);

	memset(info, 0, sizeof(*info));
	/* Client ids are not unique among Kafka clients: nobody takes over from anybody. */
	memcpy(info->key.digest, "fl-kafka", 8);
	memcpy(info->key.digest + 8, &conn->id, 8);
	info->door = conn->door->index;
	info->conn_id = conn->id;
	info->client_hash = fl_registry_client_hash(client_id, len);
	info->kind = (uint8) (identity != NULL ? identity->kind : FL_IDENTITY_ANONYMOUS);
	strlcpy(info->client_id, client_id, sizeof(info->client_id));
	if (identity != NULL && identity->kind == FL_IDENTITY_DEVICE)
	{
		info->tenant = fl_session_tenant(identity->tenant, strlen(identity->tenant));
		snprintf(info->identity, sizeof(info->identity), "%s/%s", identity->tenant, identity->device);
	}
	else if (identity != NULL)
		strlcpy(info->identity, identity->role_name, sizeof(info->identity));
	if (conn->software != NULL)
		strlcpy(info->software, conn->software, sizeof(info->software));
	fl_net_peer(&conn->net, info->peer, sizeof(info->peer));
	info->protocol = FL_CONN_KAFKA;
	info->listener = (uint8) fl_net_kind(&conn->net);
	fl_net_tls_state(&conn->net, &info->tls_version, &info->tls_cipher);
	info->connected_at = conn->connected_at;
}

void
fl_kafka_unregister(FlKafkaConn *conn)
{
	FlConnInfo info;

	if (!conn->registered)
		return;
	fill_info(conn, NULL, &info);
	fl_registry_unregister(&info.key, conn->id);
	conn->registered = false;
}

/* Under the name that it has now; NULL, or why there is no room. */
static const char *
register_as(FlKafkaConn *conn, const FlIdentity *identity)
{
	const FlTenant *tenant = NULL;
	FlConnInfo info;

	fl_kafka_unregister(conn);
	if (identity != NULL && identity->kind == FL_IDENTITY_DEVICE)
		tenant = fl_tenant_lookup(identity->tenant);
	fill_info(conn, identity, &info);
	switch (fl_registry_register(&info, 0, tenant != NULL ? (uint32) tenant->max_connections : 0))
	{
		case FL_REGISTERED:
			conn->registered = true;
			return NULL;
		case FL_REGISTER_TENANT_FULL:
			return "its tenant has as many connections as it may have";
		case FL_REGISTER_TAKEOVER:
		case FL_REGISTER_FULL:
			break;
	}
	return "fleetlog.max_connections is reached";
}

/* ---- letting in ---- */

/* "acme/d1", a role's name, or nobody's. */
static const char *
who_is(const FlKafkaConn *conn, char *buf, Size size)
{
	const FlIdentity *id = conn->identity;

	if (id == NULL)
		return "nobody in particular";
	if (id->kind == FL_IDENTITY_ROLE)
		snprintf(buf, size, "role \"%s\"", id->role_name);
	else
		snprintf(buf, size, "device \"%s/%s\"", id->tenant, id->device);
	return buf;
}

static void
log_begin(FlKafkaConn *conn)
{
	char peer[80];
	char who[FL_IDENTITY_KEEP + 16];

	if (fl_log_connections == FL_ENDS_ALL)
		ereport(LOG, (errmsg("fleetlog: Kafka client \"%s\" was let in from %s as %s%s%s",
							 conn->client_id != NULL ? conn->client_id : "", fl_net_peer(&conn->net, peer, sizeof(peer)),
							 who_is(conn, who, sizeof(who)), conn->software != NULL ? ", with " : "",
							 conn->software != NULL ? conn->software : "")));
}

void
fl_kafka_log_end(FlKafkaConn *conn, const char *why)
{
	char who[FL_IDENTITY_KEEP + 16];

	if (fl_log_connections == FL_ENDS_ALL && conn->registered)
		ereport(LOG, (errmsg("fleetlog: Kafka client \"%s\", %s, is gone: %s", conn->client_id != NULL ? conn->client_id : "",
							 who_is(conn, who, sizeof(who)), why)));
}

static bool
is_same(const FlIdentity *a, const FlIdentity *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a->kind == b->kind && a->role == b->role && strcmp(a->tenant, b->tenant) == 0 &&
		   strcmp(a->device, b->device) == 0;
}

const char *
fl_kafka_admit(FlKafkaConn *conn, const FlIdentity *identity, const char **told)
{
	FlKafkaDoor *door = conn->door;
	const char *why = NULL;
	bool again = conn->admitted && is_same(conn->identity, identity);

	fl_kafka_begin_transaction(door);
	/* Whatever is remembered of a role's password, what the server says now counts. */
	if (identity != NULL && identity->kind == FL_IDENTITY_ROLE)
		why = fl_role_admit(identity);
	if (why == NULL && conn->used && !again)
	{
		*told = "Authentication failed: a connection cannot change who it is";
		why = "it is another client now";
	}
	if (why == NULL && !(again && conn->registered))
	{
		why = register_as(conn, identity);
		if (why != NULL)
			*told = "The server has as many connections as it may have";
	}
	if (why != NULL)
		return why;
	if (conn->identity != NULL)
		pfree(conn->identity);
	conn->identity = NULL;
	if (identity != NULL && identity->kind != FL_IDENTITY_ANONYMOUS)
	{
		conn->identity = MemoryContextAlloc(door->context, sizeof(FlIdentity));
		*conn->identity = *identity;
		conn->identity->client_id = NULL;
		conn->identity->client_id_len = 0;
	}
	conn->expires = conn->identity != NULL && conn->identity->kind == FL_IDENTITY_ROLE
						? fl_role_valid_until(conn->identity->role)
						: DT_NOEND;
	conn->admitted = true;
	FL_COUNT(FL_C_LOGINS, 1);
	if (!again)
		log_begin(conn);
	fl_net_set_timer(&conn->net, FL_KAFKA_IDLE_MS);
	return NULL;
}

int64
fl_kafka_lifetime_ms(FlKafkaConn *conn)
{
	int64 left;

	if (conn->expires == DT_NOEND)
		return 0;
	left = (conn->expires - GetCurrentTimestamp()) / 1000;
	return Max(left, 1);
}

/* ---- passwords ---- */

static FlAuthStart
begin_check(FlKafkaLogin *login, FlIdentity *identity)
{
	FlKafkaConn *conn = login->conn;
	Size user_len = strlen(login->user);
	FlAuthStart start;

	if (login->certificate)
		return fl_auth_begin_certificate(conn->door->index, conn->id, login->user, user_len);
	start = fl_auth_begin(conn->door->index, conn->id, login->user, user_len, login->password, login->password_len,
						  identity);
	if (start == FL_AUTH_REFUSED && fl_mqtt_allow_anonymous)
		start = fl_auth_begin_name(conn->door->index, conn->id, login->user, user_len);
	if (start != FL_AUTH_BUSY && login->password != NULL)
		explicit_bzero(login->password, login->password_len);
	return start;
}

/*
 * Who is nobody by TLS may still log in; whether it does, its next request shows.  Where
 * it is not just unknown, being nobody in particular is no way in either.
 */
static void
end_tls_login(FlKafkaConn *conn, const FlIdentity *identity, const char *why, bool unknown)
{
	const char *told = NULL;

	fl_kafka_end_login(conn);
	if (identity != NULL)
		why = fl_kafka_admit(conn, identity, &told);
	conn->tls_why = why;
	if (why != NULL && !unknown)
		conn->anonymous = false;
	conn->blocked = false;
	fl_kafka_read_on(conn);
}

static void
give_verdict(FlKafkaLogin *login, FlAuthOutcome outcome, const FlIdentity *identity)
{
	FlKafkaConn *conn = login->conn;
	bool unknown = outcome == FL_AUTH_OUTCOME_UNKNOWN;

	if (login->certificate)
		end_tls_login(conn, outcome == FL_AUTH_OUTCOME_ACCEPTED ? identity : NULL,
					  unknown ? "no device has its certificate; fleetlog.set_certificate gives it to one"
					  : outcome == FL_AUTH_OUTCOME_BAD ? "its certificate or device is revoked"
													   : "the login could not be checked",
					  unknown);
	else if (outcome == FL_AUTH_OUTCOME_ACCEPTED)
		fl_kafka_pass_login(login, identity, "", 0);
	/* A name means nobody in particular as long as there is no device whose it could be. */
	else if (unknown && fl_mqtt_allow_anonymous)
		fl_kafka_pass_login(login, NULL, "", 0);
	else if (outcome == FL_AUTH_OUTCOME_UNAVAILABLE)
		fl_kafka_fail_login(login, "the login could not be checked", "The login could not be checked; try again");
	else
		fl_kafka_fail_login(login, unknown ? "there are no devices yet; fleetlog.create_device makes one"
										   : "unknown, revoked, or wrong password",
							FL_KAFKA_NO_LOGIN);
}

/* False: too many are being checked, try again. */
static bool
try_check(FlKafkaLogin *login)
{
	FlIdentity identity;

	switch (begin_check(login, &identity))
	{
		case FL_AUTH_BUSY:
			return false;
		case FL_AUTH_QUEUED:
			login->asked = true;
			break;
		case FL_AUTH_ACCEPTED:
			give_verdict(login, FL_AUTH_OUTCOME_ACCEPTED, &identity);
			break;
		case FL_AUTH_REFUSED:
			give_verdict(login, FL_AUTH_OUTCOME_BAD, NULL);
			break;
	}
	return true;
}

/* Nobody overtakes those who wait already. */
static void
stand_in_line(FlKafkaLogin *login)
{
	FlKafkaDoor *door = login->conn->door;
	bool first = dlist_is_empty(&door->logins) || dlist_tail_element(FlKafkaLogin, node, &door->logins)->asked;

	dlist_push_tail(&door->logins, &login->node);
	login->listed = true;
	door->nlogins++;
	if (first)
		(void) try_check(login);
}

void
fl_kafka_check_password(FlKafkaLogin *login)
{
	FlKafkaDoor *door = login->conn->door;

	if (login->req != NULL)
		fl_kafka_park(login->req, login, NULL);
	if (door->nlogins >= MAX_WAITING)
	{
		fl_kafka_fail_login(login, "too many logins are waiting", "Too many logins are waiting; try again");
		return;
	}
	stand_in_line(login);
}

/* ---- TLS ---- */

bool
fl_kafka_log_in_by_tls(FlKafkaConn *conn)
{
	MemoryContext context = conn->door->context;
	char buf[FL_AUTH_USER_MAX + 1];
	const char *name;
	const FlIdentity *identity;

	conn->tls_tried = true;
	switch (fl_net_proof(&conn->net, buf, sizeof(buf), &name))
	{
		case FL_NET_PROOF_NONE:
			break;
		case FL_NET_PROOF_NAMELESS:
			conn->tls_why = name;
			break;
		case FL_NET_PROOF_PSK:
			/* Between handshake and first request it may have been revoked. */
			identity = fl_net_attached(&conn->net);
			fl_kafka_begin_transaction(conn->door);
			if (fl_auth_still_valid(identity))
				end_tls_login(conn, identity, NULL, false);
			else
				end_tls_login(conn, NULL, "its pre-shared key was revoked", false);
			break;
		case FL_NET_PROOF_CERTIFICATE:
			conn->login = MemoryContextAllocZero(context, sizeof(FlKafkaLogin));
			conn->login->conn = conn;
			conn->login->certificate = true;
			conn->login->user = MemoryContextStrdup(context, name);
			conn->blocked = true;
			stand_in_line(conn->login);
			break;
	}
	return conn->login == NULL;
}

int
fl_kafka_find_psk(FlNetConn *net, const char *identity, uint8 *key, int room, void **attached)
{
	FlKafkaDoor *door = ((FlKafkaConn *) net)->door;

	return fl_door_find_psk(door->context, door->turn, identity, key, room, attached);
}

/* ---- answers of the authentication worker ---- */

static FlKafkaLogin *
find_asked(FlKafkaDoor *door, uint64 conn_id)
{
	dlist_iter iter;

	dlist_foreach (iter, &door->logins)
	{
		FlKafkaLogin *login = dlist_container(FlKafkaLogin, node, iter.cur);

		if (login->asked && login->conn->id == conn_id)
			return login;
	}
	return NULL;
}

void
fl_kafka_take_logins(FlKafkaDoor *door)
{
	FlAuthResult result;
	dlist_mutable_iter iter;

	while (fl_auth_next_result(door->index, &result))
	{
		FlKafkaLogin *login = find_asked(door, result.conn_id);

		/* It may have gone while its password was being checked. */
		if (login == NULL)
			continue;
		door->current = login->conn;
		give_verdict(login, result.outcome, &result.identity);
		door->current = NULL;
	}
	dlist_foreach_modify (iter, &door->logins)
	{
		FlKafkaLogin *login = dlist_container(FlKafkaLogin, node, iter.cur);

		door->current = login->conn;
		if (!login->asked && !try_check(login))
			break;
	}
	door->current = NULL;
}

/* ---- those who have to go ---- */

static void
end_connection(FlKafkaConn *conn, const char *why, const char *hint)
{
	char peer[80];

	if (!fl_net_is_open(&conn->net))
		return;
	if (fl_kafka_log_allowed_of(conn->door, FL_KAFKA_LOG_END))
		ereport(LOG, (errmsg("fleetlog: the connection of Kafka client \"%s\" at %s is closed: %s",
							 conn->client_id != NULL ? conn->client_id : "", fl_net_peer(&conn->net, peer, sizeof(peer)),
							 why),
					  hint != NULL ? errhint("%s", hint) : 0));
	fl_kafka_close(conn, why);
}

/* arg: the revocation; NULL: the catalog is asked. */
static void
apply_revocation(FlNetConn *net, void *arg)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;
	const FlRevocation *revocation = arg;

	if (conn->identity == NULL)
		return;
	if (revocation != NULL ? fl_auth_is_revoked_by(conn->identity, revocation) : !fl_auth_still_valid(conn->identity))
		end_connection(conn, "its credential was revoked",
					   "fleetlog.audit tells who did so, and when; it needs a new credential.");
}

typedef struct Evicted
{
	int n;
	uint64 ids[EVICTIONS];
	uint8 reasons[EVICTIONS];
} Evicted;

static void
apply_eviction(FlNetConn *net, void *arg)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;
	const Evicted *evicted = arg;

	for (int i = 0; i < evicted->n; i++)
	{
		if (evicted->ids[i] == conn->id)
			end_connection(conn, "disconnected by an administrator", NULL);
	}
}

static void
check_role(FlNetConn *net, void *arg)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;

	if (conn->identity == NULL || conn->identity->kind != FL_IDENTITY_ROLE)
		return;
	conn->expires = fl_role_valid_until(conn->identity->role);
	if (!fl_role_is_same(conn->identity))
		end_connection(conn, "its role may not log in any more, or has another name or password", NULL);
}

/* When entries were lost, every connection is checked anew, in the catalog. */
static void
take_revocations(FlKafkaDoor *door)
{
	FlRevocation rev;
	bool lapped = false;

	while (fl_auth_next_revocation(&door->revocations, &rev, &lapped))
	{
		if (lapped)
			fl_kafka_begin_transaction(door);
		fl_net_each(door->net, apply_revocation, lapped ? NULL : &rev);
	}
}

static void
take_evictions(FlKafkaDoor *door)
{
	Evicted evicted;

	do
	{
		evicted.n = fl_registry_evictions(door->index, evicted.ids, evicted.reasons, EVICTIONS);
		if (evicted.n > 0)
			fl_net_each(door->net, apply_eviction, &evicted);
	} while (evicted.n == EVICTIONS);
}

void
fl_kafka_end_unwanted(FlKafkaDoor *door)
{
	take_revocations(door);
	take_evictions(door);
	if (door->roles_version == fl_roles_version())
		return;
	door->roles_version = fl_roles_version();
	fl_net_each(door->net, check_role, NULL);
}

/* ---- figures ---- */

static void
report_connection(FlNetConn *net, void *arg)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;
	FlConnInfo info;
	uint8 reason;

	if (!conn->registered || !conn->stats_dirty)
		return;
	conn->stats_dirty = false;
	fill_info(conn, conn->identity, &info);
	info.packets_in = conn->requests_in;
	info.packets_out = conn->answers_out;
	info.bytes_in = net->bytes_in;
	info.bytes_out = net->bytes_out;
	(void) fl_registry_update(&info, &reason);
}

void
fl_kafka_report_connections(FlKafkaDoor *door)
{
	fl_net_each(door->net, report_connection, NULL);
}
