/*
 * tls_log.c
 *		Log lines of handshakes that failed: who, why, and what to do about it.
 *
 * A fleet whose certificates have expired comes back every few seconds, so a
 * client is named at most once a minute, and a door writes at most ten lines in
 * ten seconds; all are counted in fleetlog.stat_listener.  What a peer sends is
 * never quoted, but for its certificate's subject, with everything escaped that
 * is not printable.
 *
 * A peer that just goes away is counted and not logged: port scanners and
 * balancers do so all day.
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/hashfn.h"

#include "tls.h"

#define SAME_CLIENT_MS 60000
#define CLIENTS        1024 /* remembered; another one of the same place is logged sooner */
#define WINDOW_MS      10000
#define LINES          10

/* The certificate that was refused in the handshake under way; 0 = none was. */
static int bad_certificate = X509_V_OK;
static char bad_subject[256];

void
fl_tls_forget_certificate(void)
{
	bad_certificate = X509_V_OK;
	bad_subject[0] = '\0';
}

void
fl_tls_note_certificate(int error, X509 *certificate)
{
	BIO *bio;
	char *text;
	long len;

	/* The first fault is the cause. */
	if (bad_certificate != X509_V_OK)
		return;
	bad_certificate = error;
	bio = certificate != NULL ? BIO_new(BIO_s_mem()) : NULL;
	if (bio == NULL)
		return;
	if (X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0 &&
		(len = BIO_get_mem_data(bio, &text)) > 0)
		strlcpy(bad_subject, text, Min((Size) len + 1, sizeof(bad_subject)));
	BIO_free(bio);
}

/* ---- what to do about it ---- */

static const char *
certificate_remedy(int error)
{
	switch (error)
	{
		case X509_V_ERR_CERT_HAS_EXPIRED:
			return "Give the device a new certificate; it will be refused until then.";
		case X509_V_ERR_CERT_NOT_YET_VALID:
			return "Check the clocks of this machine and of the CA.";
		case X509_V_ERR_CERT_REVOKED:
			return "The certificate is on a list of fleetlog.tls_crl_file. Give the device a new one if it may come back.";
		case X509_V_ERR_UNABLE_TO_GET_CRL:
			return "fleetlog.tls_crl_file must have a list of each CA up to the root; or leave the setting empty.";
		case X509_V_ERR_CRL_HAS_EXPIRED:
			return "Put a new list of revoked certificates into fleetlog.tls_crl_file, and reload.";
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
		case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
		case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
			return "If the device is yours, add the CA that signed its certificate to fleetlog.tls_ca_file, and reload.";
	}
	return "The device needs another certificate.";
}

static const char *
handshake_remedy(int reason)
{
	switch (reason)
	{
		case SSL_R_HTTP_REQUEST:
		case SSL_R_HTTPS_PROXY_REQUEST:
		case SSL_R_WRONG_VERSION_NUMBER:
		case SSL_R_PACKET_LENGTH_TOO_LONG:
			return "The client does not speak TLS. Use the port without TLS, or switch TLS on in the client.";
		case SSL_R_UNSUPPORTED_PROTOCOL:
		case SSL_R_VERSION_TOO_LOW:
			return "The client's version of TLS is too old; see fleetlog.tls_min_version.";
		case SSL_R_NO_SHARED_CIPHER:
			return "Client and server have no cipher in common. A client with a pre-shared key needs fleetlog.tls_psk.";
		case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
			return "The client does not trust the certificate of fleetlog.tls_cert_file. Give it the CA's.";
		case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
			return "The certificate of fleetlog.tls_cert_file has expired, or the client's clock is wrong.";
		case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
			return "Give the device a certificate, or set fleetlog.tls_require_certificate off.";
		case SSL_R_PSK_IDENTITY_NOT_FOUND:
			return "The identity must be that of a device with a pre-shared key, as tenant/device.";
		case SSL_R_BINDER_DOES_NOT_VERIFY:
		case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
		case SSL_R_DIGEST_CHECK_FAILED:
			return "The device's pre-shared key is another one; see fleetlog.set_psk.";
	}
	return "See what the client says.";
}

/* ---- how often ---- */

static bool
may_log(FlNetLoop *loop, const char *client, int reason)
{
	static struct
	{
		uint32 hash;
		int64 at;
	} clients[CLIENTS];
	static int64 window = 0;
	static int lines = 0;
	int64 now = fl_net_now(loop);
	/* The same client with another fault is news. */
	uint32 hash =
		hash_combine(DatumGetUInt32(hash_any((const unsigned char *) client, (int) strlen(client))), (uint32) reason);
	int at = (int) (hash % CLIENTS);

	if (clients[at].at != 0 && clients[at].hash == hash && now - clients[at].at < SAME_CLIENT_MS)
		return false;
	if (window == 0 || now - window >= WINDOW_MS)
	{
		window = now;
		lines = 0;
	}
	if (lines >= LINES)
		return false;
	lines++;
	clients[at].hash = hash;
	clients[at].at = now;
	return true;
}

/* The client without its port, which changes from try to try. */
static void
name_client(FlNetConn *conn, char *buf, Size size)
{
	char *colon;

	if (bad_subject[0] != '\0')
	{
		strlcpy(buf, bad_subject, size);
		return;
	}
	fl_net_peer(conn, buf, size);
	colon = strrchr(buf, ':');
	if (colon != NULL)
		*colon = '\0';
}

void
fl_tls_log_failure(FlNetConn *conn, unsigned long error)
{
	char client[sizeof(bad_subject)];
	char peer[80];

	if (error == 0)
		return;
	name_client(conn, client, sizeof(client));
	if (!may_log(conn->loop, client, ERR_GET_REASON(error)))
		return;
	fl_net_peer(conn, peer, sizeof(peer));
	if (bad_certificate != X509_V_OK)
		ereport(LOG, (errmsg("fleetlog: certificate of \"%s\" from %s was refused: %s", client, peer,
							 X509_verify_cert_error_string(bad_certificate)),
					  errhint("%s", certificate_remedy(bad_certificate))));
	else
	{
		const char *text = ERR_reason_error_string(error);

		ereport(LOG, (errmsg("fleetlog: TLS handshake with %s failed: %s", peer, text ? text : "no reason given"),
					  errhint("%s", handshake_remedy(ERR_GET_REASON(error)))));
	}
}
