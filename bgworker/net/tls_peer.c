/*
 * tls_peer.c
 *		Who a TLS peer has proved to be, and until when.
 *
 * A certificate names a client by one rule for all, fleetlog.tls_identity: which
 * device that is the protocol knows, not we.  A name has to be the only one of
 * its kind and must not hide anything (U+0000, controls), else it is none.
 *
 * A key that both sides share proves an identity only if the handshake rests on
 * it.  That OpenSSL has asked for the key says little: with TLS 1.3 it may have
 * gone on without, for instance by the ticket of another session that the peer
 * has offered as well.  fl_tls_note_peer tells them apart.
 *
 * Certificates end while connections last.  The end is noted at the handshake,
 * and loop->next_expiry is the earliest of all: nothing is looked at before.
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/pg_prng.h"

#include "fleetlog/utf8.h"
#include "tls.h"

/* ---- names ---- */

/* NULL: it is in buf; else why there is none. */
static const char *
take_name(const unsigned char *text, int len, char *buf, Size size)
{
	if (len <= 0)
		return "the name is empty";
	if ((Size) len >= size)
		return "the name is too long";
	if (!fl_utf8_valid_text(text, (size_t) len))
		return "the name is not valid UTF-8";
	for (int i = 0; i < len; i++)
		if (text[i] < 0x20 || text[i] == 0x7F)
			return "the name has control characters";
	memcpy(buf, text, (Size) len);
	buf[len] = '\0';
	return NULL;
}

static const char *
common_name(X509 *certificate, char *buf, Size size)
{
	X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	unsigned char *text = NULL;
	const char *why;
	int len;

	if (at < 0)
		return "the subject has no common name";
	if (X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
		return "the subject has more than one common name";
	len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (len < 0)
	{
		ERR_clear_error();
		return "the common name cannot be read";
	}
	why = take_name(text, len, buf, size);
	OPENSSL_free(text);
	return why;
}

static const char *
whole_subject(X509 *certificate, char *buf, Size size)
{
	BIO *bio = BIO_new(BIO_s_mem());
	const char *why = "the subject cannot be written";
	char *text;

	if (bio != NULL && X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
	{
		long len = BIO_get_mem_data(bio, &text);

		why = take_name((unsigned char *) text, (int) Min(len, INT_MAX), buf, size);
	}
	BIO_free(bio);
	return why;
}

static const char *
alternative_name(X509 *certificate, int type, char *buf, Size size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	const char *why = "it has no alternative name of the kind that is asked for";
	int found = 0;

	for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++)
	{
		GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		/* Both kinds are IA5 strings in the same place. */
		if (name->type == type && ++found == 1)
			why = take_name(ASN1_STRING_get0_data(name->d.ia5), ASN1_STRING_length(name->d.ia5), buf, size);
	}
	GENERAL_NAMES_free(names);
	return found > 1 ? "it has more than one alternative name of the kind that is asked for" : why;
}

static const char *
certificate_name(X509 *certificate, char *buf, Size size)
{
	switch ((FlTlsIdentity) fl_tls_identity)
	{
		case FL_TLS_IDENTITY_CN:
			return common_name(certificate, buf, size);
		case FL_TLS_IDENTITY_SUBJECT:
			return whole_subject(certificate, buf, size);
		case FL_TLS_IDENTITY_DNS:
			return alternative_name(certificate, GEN_DNS, buf, size);
		case FL_TLS_IDENTITY_URI:
			return alternative_name(certificate, GEN_URI, buf, size);
	}
	return "fleetlog.tls_identity is unknown";
}

FlNetProof
fl_net_proof(FlNetConn *conn, char *buf, Size size, const char **name)
{
	X509 *certificate;

	*name = NULL;
	if (!(conn->flags & FL_NET_SECURE))
		return FL_NET_PROOF_NONE;
	if (conn->layer->has_psk)
		return FL_NET_PROOF_PSK;
	certificate = SSL_get0_peer_certificate(conn->layer->ssl);
	if (certificate == NULL || SSL_get_verify_result(conn->layer->ssl) != X509_V_OK)
		return FL_NET_PROOF_NONE;
	*name = certificate_name(certificate, buf, size);
	if (*name != NULL)
		return FL_NET_PROOF_NAMELESS;
	*name = buf;
	return FL_NET_PROOF_CERTIFICATE;
}

void *
fl_net_attached(const FlNetConn *conn)
{
	return conn->layer != NULL && conn->layer->has_psk ? conn->layer->attached : NULL;
}

int
fl_net_kind(const FlNetConn *conn)
{
	return conn->listener->kind;
}

void
fl_net_tls_state(const FlNetConn *conn, uint16 *version, uint16 *cipher)
{
	const SSL_CIPHER *current;

	*version = *cipher = 0;
	if (!(conn->flags & FL_NET_SECURE))
		return;
	current = SSL_get_current_cipher(conn->layer->ssl);
	*version = (uint16) SSL_version(conn->layer->ssl);
	*cipher = current != NULL ? SSL_CIPHER_get_protocol_id(current) : 0;
}

/* Suites can only be looked up through a connection: an empty one is kept for it, by who asks at all. */
const char *
fl_net_cipher_name(uint16 cipher)
{
	static SSL *ssl = NULL;
	const unsigned char number[2] = {(unsigned char) (cipher >> 8), (unsigned char) cipher};
	const SSL_CIPHER *found;

	if (ssl == NULL)
	{
		SSL_CTX *context = SSL_CTX_new(TLS_method());

		ssl = context != NULL ? SSL_new(context) : NULL;
		/* The connection holds a reference of its own. */
		SSL_CTX_free(context);
		ERR_clear_error();
	}
	found = ssl != NULL ? SSL_CIPHER_find(ssl, number) : NULL;
	return found != NULL ? SSL_CIPHER_get_name(found) : NULL;
}

/* ---- after the handshake ---- */

/* Does the handshake rest on the key that was looked up last? */
static bool
rests_on_key(const FlNetLayer *layer)
{
	SSL *ssl = layer->ssl;

	if (!layer->has_psk)
		return false;
	/* In TLS 1.3 a session that was taken up, and is no ticket's, is the key's. */
	if (SSL_version(ssl) >= TLS1_3_VERSION)
		return SSL_session_reused(ssl) == 1 && !layer->by_ticket;
	return SSL_CIPHER_get_auth_nid(SSL_get_current_cipher(ssl)) == NID_auth_psk;
}

static void
note_expiry(FlNetConn *conn, int64 at)
{
	FlNetLoop *loop = conn->loop;

	conn->layer->expires = at;
	if (loop->next_expiry == 0 || at < loop->next_expiry)
		loop->next_expiry = at;
}

void
fl_tls_note_peer(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;
	X509 *certificate = SSL_get0_peer_certificate(layer->ssl);
	int64 now = fl_net_now(conn->loop);
	int64 left;
	int days;
	int seconds;

	layer->has_psk = rests_on_key(layer);
	if (certificate == NULL || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1)
		return;
	left = (days * INT64CONST(86400) + seconds) * 1000;
	/*
	 * A fleet's certificates are often made, and so end, together: its devices
	 * must not.  One of a resumed session may have ended already.
	 */
	if (left > 0)
		left += (int64) pg_prng_uint64_range(&pg_global_prng_state, 0, FL_TLS_EXPIRY_SPREAD_MS);
	note_expiry(conn, now + Max(left, 0));
}

static void
end_if_expired(FlNetConn *conn, void *arg)
{
	int64 now = *(int64 *) arg;

	if (conn->layer == NULL || conn->layer->expires == 0)
		return;
	if (conn->layer->expires > now)
		note_expiry(conn, conn->layer->expires);
	else
		conn->protocol->on_certificate_end(conn, false);
}

void
fl_tls_check_expiry(FlNetLoop *loop)
{
	int64 now = fl_net_now(loop);

	if (now < loop->next_expiry)
		return;
	loop->next_expiry = 0;
	fl_net_each(loop, end_if_expired, &now);
	/* Not for each of many that end one after the other. */
	if (loop->next_expiry != 0)
		loop->next_expiry = Max(loop->next_expiry, now + 1000);
}

static void
end_if_revoked(FlNetConn *conn, void *arg)
{
	X509 *certificate;

	if (!(conn->flags & FL_NET_SECURE))
		return;
	certificate = SSL_get0_peer_certificate(conn->layer->ssl);
	if (certificate != NULL && fl_tls_is_revoked(conn->loop->tls, certificate))
		conn->protocol->on_certificate_end(conn, true);
}

void
fl_tls_check_revoked(FlNetLoop *loop)
{
	loop->lists_changed = false;
	if (loop->tls != NULL && loop->tls->crls != NULL)
		fl_net_each(loop, end_if_revoked, NULL);
}
