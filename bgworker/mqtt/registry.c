/*
 * registry.c
 *		This door's part of the shared registry of connections: keys, counters,
 *		who has to go, and which credentials were revoked.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "fleetlog/door.h"
#include "mqtt.h"
#include "packet.h"


/*
 * Sessions are keyed by identity and client id; anonymous clients share one
 * name space (API.md).  Lengths go in too, so that no two pairs run together.
 */
void
fl_mqtt_make_key(const FlIdentity *identity, const char *client_id, Size len, FlConnKey *key)
{
	pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);
	uint8 digest[PG_SHA256_DIGEST_LENGTH];
	uint32 head[4];

	head[0] = (uint32) identity->kind;
	head[1] = identity->role;
	head[2] = (uint32) strlen(identity->tenant);
	head[3] = (uint32) strlen(identity->device);
	if (hash == NULL || pg_cryptohash_init(hash) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) head, sizeof(head)) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) identity->tenant, head[2]) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) identity->device, head[3]) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) client_id, len) < 0 ||
		pg_cryptohash_final(hash, digest, sizeof(digest)) < 0)
	{
		pg_cryptohash_free(hash);
		ereport(ERROR, (errmsg("fleetlog: could not compute a hash")));
	}
	pg_cryptohash_free(hash);
	memcpy(key->digest, digest, sizeof(key->digest));
}

StaticAssertDecl((int) FL_CONN_ANONYMOUS == (int) FL_IDENTITY_ANONYMOUS && (int) FL_CONN_DEVICE == (int) FL_IDENTITY_DEVICE &&
					 (int) FL_CONN_ROLE == (int) FL_IDENTITY_ROLE,
				 "the registry knows the same kinds of clients");

/* What the registry keeps of a connection that is about to open. */
void
fl_mqtt_conn_info(const FlMqttConn *conn, FlConnInfo *info)
{
	Size len;
	const char *client_id = fl_mqtt_client_id(conn, &len);

	memset(info, 0, sizeof(*info));
	info->key = conn->key;
	info->door = conn->door->index;
	info->conn_id = conn->id;
	info->client_hash = fl_registry_client_hash(client_id, len);
	info->kind = conn->who->kind;
	len = (Size) pg_mbcliplen(client_id, (int) len, FL_CLIENT_ID_KEEP - 1);
	memcpy(info->client_id, client_id, len);
	info->tenant = fl_mqtt_who_tenant_digest(conn->who);
	(void) fl_mqtt_who_text(conn->who, info->identity, sizeof(info->identity));
	fl_net_peer(&conn->net, info->peer, sizeof(info->peer));
	info->protocol = conn->version;
	info->keep_alive = conn->keep_alive_s;
	info->listener = (uint8) fl_net_kind(&conn->net);
	fl_net_tls_state(&conn->net, &info->tls_version, &info->tls_cipher);
	info->connected_at = GetCurrentTimestamp();
}

/* ---- those who have to go ---- */

void
fl_mqtt_take_evictions(FlMqttDoor *door)
{
	uint64 ids[FL_MQTT_EVICTIONS];
	uint8 reasons[FL_MQTT_EVICTIONS];
	int n;

	do
	{
		n = fl_registry_evictions(door->index, ids, reasons, FL_MQTT_EVICTIONS);
		for (int i = 0; i < n; i++)
		{
			FlMqttConn *conn = fl_mqtt_find(door, ids[i]);

			if (conn == NULL)
				continue;
			door->current = conn;
			fl_mqtt_disconnect(conn, (FlMqttReason) reasons[i],
							   reasons[i] == FL_MQTT_RC_SESSION_TAKEN_OVER ? "another connection has taken over"
																		   : "disconnected by an administrator");
			door->current = NULL;
		}
	} while (n == FL_MQTT_EVICTIONS);
}

static const FlRevocation *revocation; /* the one being applied */

static void
apply_revocation(FlMqttConn *conn)
{
	bool revoked;

	if (conn->who == NULL)
		return;
	revoked = revocation != NULL ? fl_auth_is_revoked_by(fl_mqtt_identity(conn), revocation)
								 : !fl_auth_still_valid(fl_mqtt_identity(conn));
	if (!revoked)
		return;
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_LOGIN))
		ereport(LOG, (errmsg("fleetlog: %s is disconnected: its credential was revoked", fl_mqtt_name(conn)),
					  errhint("fleetlog.audit tells who did so, and when; it needs a new credential.")));
	conn->end_logged = true;
	/* Who may no longer log in leaves no last word either. */
	conn->no_will = true;
	fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, "credential revoked");
}

/* When entries were lost, every connection is checked anew, in the catalog. */
void
fl_mqtt_take_revocations(FlMqttDoor *door)
{
	FlRevocation rev;
	bool lapped = false;

	while (fl_auth_next_revocation(&door->revocations, &rev, &lapped))
	{
		revocation = lapped ? NULL : &rev;
		if (lapped)
			fl_mqtt_begin_transaction(door);
		fl_mqtt_each(door, apply_revocation);
	}
	revocation = NULL;
}

/* ---- counters ---- */

static void
report_connection(FlMqttConn *conn)
{
	FlConnInfo info;
	uint8 reason = 0;

	fl_mqtt_save_bookmarks(conn);
	if (!conn->registered || !conn->stats_dirty)
		return;
	conn->stats_dirty = false;
	info.key = conn->key;
	info.conn_id = conn->id;
	info.n_in = conn->published;
	info.n_out = conn->sub ? conn->sub->delivered : 0;
	info.n_dropped = conn->sub ? conn->sub->dropped : 0;
	info.n_subscriptions = conn->sub ? conn->sub->filter_count : 0;
	info.packets_in = conn->packets_in;
	info.packets_out = conn->packets_out;
	info.bytes_in = conn->net.bytes_in;
	info.bytes_out = conn->net.bytes_out;
	info.session = conn->session.number != 0;
	info.session_expiry = conn->session_expiry_s;
	info.inflight = conn->sub ? conn->sub->inflight_count : 0;
	info.queued = conn->sub ? conn->sub->queue_len : 0;
	info.lagging = conn->sub ? conn->sub->lagging : false;
	if (fl_registry_update(&info, &reason))
		fl_mqtt_disconnect(conn, (FlMqttReason) reason, "disconnected through the registry");
}

void
fl_mqtt_report_stats(FlMqttDoor *door)
{
	int64 now = fl_net_now(door->net);

	if (now < door->next_stats_ms && door->next_stats_ms - now <= FL_DOOR_STATS_MS)
		return;
	door->next_stats_ms = now + FL_DOOR_STATS_MS;
	fl_door_report(door->net, door->context, door->stopping);
	fl_mqtt_each(door, report_connection);
	fl_mqtt_log_run(door);
}
