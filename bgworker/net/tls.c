/*
 * tls.c
 *		What TLS goes by: certificates, keys, CAs, lists of revoked certificates.
 *
 * All of it is loaded at start and anew at every reload, because files change
 * under the same name.  What cannot be loaded is logged with a hint, and what
 * was loaded before stays in force: a reload never takes a listener down.  The
 * connections that exist keep what they were made with (OpenSSL counts the
 * references).
 *
 * Several certificates may be listed; which one a client gets is decided by the
 * name it asks for (SNI), the first is for all others.
 *
 * A resumed session skips the verification of the client's certificate.  So the
 * context of sessions is a hash over CAs, lists and what else decides about
 * certificates: when one of them changes, every ticket given before is void.
 *
 * Called by settings.c at start and reload, by tls_conn.c for each connection.
 * Nothing here logs a secret; a key with a passphrase is refused, since asking
 * for it would stop the door.
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "utils/memutils.h"

#include "tls.h"

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "fleetlog needs OpenSSL 3.0 or later"
#endif

#define MAX_PATH_LIST   4096
#define MAX_CERT_CHAIN  (32 * 1024) /* bytes that a peer may send as its chain, before we know it */
#define TLS12_CIPHERS   "HIGH:!aNULL:!kRSA:!SRP:!kDHEPSK:!kRSAPSK"

/*
 * Only clients that have a pre-shared key offer its ciphers, so these go first.
 * With TLS 1.3 a key without a hash of its own is bound to SHA-256, and is left
 * aside when a cipher of another hash is chosen.
 */
#define TLS12_PSK       "kECDHEPSK+HIGH:kPSK+HIGH:"
#define TLS13_PSK       "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

/* ---- errors ---- */

static const char *
ssl_error(void)
{
	unsigned long code = ERR_peek_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	return text != NULL ? text : "no reason given";
}

static bool
complain(const char *what, const char *file, const char *hint)
{
	ereport(LOG, (errmsg("fleetlog: could not load %s \"%s\": %s", what, file, ssl_error()), errhint("%s", hint)));
	ERR_clear_error();
	return false;
}

/* ---- callbacks of OpenSSL ---- */

static int
no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	return 0;
}

/* What is wrong with a certificate is known here only; the handshake fails by itself. */
static int
verify_certificate(int ok, X509_STORE_CTX *store)
{
	if (!ok)
		fl_tls_note_certificate(X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store));
	return ok;
}

static int
choose_certificate(SSL *ssl, int *alert, void *arg)
{
	FlNetConn *conn = SSL_get_app_data(ssl);
	FlTls *tls = conn->loop->tls;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	if (name == NULL || tls == NULL)
		return SSL_TLSEXT_ERR_OK;
	for (int i = 0; i < tls->count; i++)
	{
		X509 *certificate = SSL_CTX_get0_certificate(tls->ctx[i]);

		if (certificate != NULL && X509_check_host(certificate, name, 0, 0, NULL) == 1)
		{
			if (SSL_get_SSL_CTX(ssl) != tls->ctx[i])
				SSL_set_SSL_CTX(ssl, tls->ctx[i]);
			break;
		}
	}
	return SSL_TLSEXT_ERR_OK;
}

/* A client that offers protocols gets the one that is spoken here, or none: many offer what they like. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
				unsigned int in_len, void *arg)
{
	FlNetConn *conn = SSL_get_app_data(ssl);
	bool websocket = (conn->listener->kind & FL_NET_KIND_WEBSOCKET) != 0;
	const unsigned char *ours = (const unsigned char *) (websocket ? "\x08http/1.1" : "\x04mqtt");
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, out_len, ours, 1 + ours[0], in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static unsigned int
find_psk(SSL *ssl, const char *identity, unsigned char *key, unsigned int room)
{
	FlNetConn *conn = SSL_get_app_data(ssl);
	FlNetLayer *layer = conn->layer;
	int len;

	if (layer->attached != NULL)
		pfree(layer->attached);
	layer->attached = NULL;
	layer->has_psk = false;
	if (identity == NULL || conn->protocol->on_psk == NULL)
		return 0;
	len = conn->protocol->on_psk(conn, identity, key, (int) Min(room, 512), &layer->attached);
	layer->has_psk = len > 0;
	/* Such a session is not to be resumed: its ticket would outlive the key. */
	if (len > 0)
		SSL_set_num_tickets(ssl, 0);
	return (unsigned int) Max(len, 0);
}

/* ---- loading ---- */

/* As the server has it for its own key. */
static bool
key_is_private(const char *key)
{
	struct stat st;

	if (stat(key, &st) != 0)
	{
		ereport(LOG, (errmsg("fleetlog: could not read private key \"%s\": %m", key),
					  errhint("fleetlog.tls_key_file names PEM files that the server can read.")));
		return false;
	}
	if ((st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO))) ||
		(st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IXGRP | S_IRWXO))))
		return true;
	ereport(LOG, (errmsg("fleetlog: private key \"%s\" is not private", key),
				  errhint("It must belong to the server's user and be readable by nobody else (mode 0600), or belong to root "
						  "with mode 0640 or less.")));
	return false;
}

static bool
load_pair(SSL_CTX *ctx, const char *cert, const char *key)
{
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return complain("certificate", cert, "fleetlog.tls_cert_file names PEM files that the server can read.");
	if (!key_is_private(key))
		return false;
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
		return complain("private key", key,
						"fleetlog.tls_key_file names PEM files without passphrase, one for each certificate, in the same order.");
	if (SSL_CTX_check_private_key(ctx) != 1)
		return complain("private key", key, "It belongs to another certificate.");
	return true;
}

static bool
load_ca(SSL_CTX *ctx, const FlTls *tls)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	STACK_OF(X509_NAME) *names;

	if (fl_tls_ca_file[0] == '\0')
		return true;
	if (SSL_CTX_load_verify_file(ctx, fl_tls_ca_file) != 1 ||
		(names = SSL_load_client_CA_file(fl_tls_ca_file)) == NULL)
		return complain("certificates of CAs", fl_tls_ca_file,
						"fleetlog.tls_ca_file names a PEM file that the server can read.");
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_verify(ctx,
					   SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE |
						   (fl_tls_require_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
					   verify_certificate);
	if (tls->crls == NULL)
		return true;
	for (int i = 0; i < sk_X509_CRL_num(tls->crls); i++)
		X509_STORE_add_crl(store, sk_X509_CRL_value(tls->crls, i));
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	return true;
}

static SSL_CTX *
make_context(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	char ciphers[128];

	if (ctx == NULL)
	{
		ereport(LOG, (errmsg("fleetlog: could not make a TLS context: %s", ssl_error())));
		return NULL;
	}
	snprintf(ciphers, sizeof(ciphers), "%s%s%s", fl_tls_psk ? TLS12_PSK : "", TLS12_CIPHERS, fl_tls_psk ? "" : ":!PSK");
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* Else a peer that sends nothing but records without data would keep SSL_read busy. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
								 SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_max_cert_list(ctx, MAX_CERT_CHAIN);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_tlsext_servername_callback(ctx, choose_certificate);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	if (fl_tls_psk)
		SSL_CTX_set_psk_server_callback(ctx, find_psk);
	if (SSL_CTX_set_min_proto_version(ctx, fl_tls_min_version) != 1 || SSL_CTX_set_cipher_list(ctx, ciphers) != 1 ||
		(fl_tls_psk && SSL_CTX_set_ciphersuites(ctx, TLS13_PSK) != 1) ||
		SSL_CTX_set_dh_auto(ctx, 1) != 1)
	{
		ereport(LOG, (errmsg("fleetlog: could not set up TLS: %s", ssl_error())));
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

/* The lists, of which a file may have several. */
static bool
load_crls(FlTls *tls)
{
	BIO *file;
	X509_CRL *crl;

	if (fl_tls_crl_file[0] == '\0')
		return true;
	file = BIO_new_file(fl_tls_crl_file, "r");
	tls->crls = sk_X509_CRL_new_null();
	while (file != NULL && tls->crls != NULL && (crl = PEM_read_bio_X509_CRL(file, NULL, no_passphrase, NULL)) != NULL)
		if (sk_X509_CRL_push(tls->crls, crl) == 0)
			X509_CRL_free(crl);
	BIO_free(file);
	if (tls->crls == NULL || sk_X509_CRL_num(tls->crls) == 0)
		return complain("lists of revoked certificates", fl_tls_crl_file,
						"fleetlog.tls_crl_file names a PEM file that the server can read.");
	/* The end of the file is reported as an error. */
	ERR_clear_error();
	return true;
}

/* ---- which sessions may be resumed ---- */

static bool
digest_file(EVP_MD_CTX *digest, const char *name)
{
	BIO *file = name[0] != '\0' ? BIO_new_file(name, "rb") : NULL;
	char buf[8192];
	int n;

	if (EVP_DigestUpdate(digest, name, strlen(name) + 1) != 1)
		return false;
	while (file != NULL && (n = BIO_read(file, buf, sizeof(buf))) > 0)
		(void) EVP_DigestUpdate(digest, buf, (size_t) n);
	BIO_free(file);
	return true;
}

static bool
session_context(unsigned char out[32])
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	int settings[] = {fl_tls_require_certificate, fl_tls_identity, fl_tls_min_version};
	bool ok = digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 &&
			  digest_file(digest, fl_tls_ca_file) && digest_file(digest, fl_tls_crl_file) &&
			  EVP_DigestUpdate(digest, settings, sizeof(settings)) == 1 && EVP_DigestFinal_ex(digest, out, NULL) == 1;

	EVP_MD_CTX_free(digest);
	return ok;
}

/* ---- all of it ---- */

static bool
add_context(FlTls *tls, const char *cert, const char *key)
{
	unsigned char context[32];
	SSL_CTX *ctx;

	if (tls->count == FL_TLS_CERTIFICATES)
	{
		ereport(LOG, (errmsg("fleetlog: fleetlog.tls_cert_file lists more than %d certificates", FL_TLS_CERTIFICATES)));
		return false;
	}
	ctx = make_context();
	if (ctx == NULL)
		return false;
	if ((cert != NULL && !load_pair(ctx, cert, key)) || !load_ca(ctx, tls) || !session_context(context) ||
		SSL_CTX_set_session_id_context(ctx, context, sizeof(context)) != 1 || !fl_tls_set_tickets(ctx))
	{
		SSL_CTX_free(ctx);
		return false;
	}
	tls->ctx[tls->count++] = ctx;
	return true;
}

/* The next of a list, cut out of it; NULL: no more. */
static char *
next_path(char **save)
{
	char *path = strsep(save, ",");
	char *end;

	if (path == NULL)
		return NULL;
	while (*path == ' ')
		path++;
	for (end = path + strlen(path); end > path && end[-1] == ' ';)
		*--end = '\0';
	return path;
}

static bool
add_contexts(FlTls *tls)
{
	char certs[MAX_PATH_LIST];
	char keys[MAX_PATH_LIST];
	char *next_cert = certs;
	char *next_key = keys;
	char *cert;
	char *key;

	/* Pre-shared keys need no certificate. */
	if (fl_tls_cert_file[0] == '\0')
		return add_context(tls, NULL, NULL);
	if (strlcpy(certs, fl_tls_cert_file, sizeof(certs)) >= sizeof(certs) ||
		strlcpy(keys, fl_tls_key_file, sizeof(keys)) >= sizeof(keys))
	{
		ereport(LOG, (errmsg("fleetlog: fleetlog.tls_cert_file or fleetlog.tls_key_file is too long")));
		return false;
	}
	while ((cert = next_path(&next_cert)) != NULL)
	{
		key = next_path(&next_key);
		if (key == NULL || *key == '\0')
		{
			ereport(LOG, (errmsg("fleetlog: there is no private key for certificate \"%s\"", cert),
						  errhint("fleetlog.tls_key_file lists one for each certificate, in the same order.")));
			return false;
		}
		if (!add_context(tls, cert, key))
			return false;
	}
	return true;
}

FlTls *
fl_tls_load(bool psk)
{
	FlTls *tls;

	if (fl_tls_cert_file[0] == '\0' && !psk)
	{
		ereport(LOG, (errmsg("fleetlog: TLS has no certificate, so the listeners that need one stay closed"),
					  errhint("Set fleetlog.tls_cert_file and fleetlog.tls_key_file, and reload.")));
		return NULL;
	}
	tls = MemoryContextAllocZero(TopMemoryContext, sizeof(FlTls));
	ERR_clear_error();
	if (load_crls(tls) && add_contexts(tls))
		return tls;
	fl_tls_free(tls);
	return NULL;
}

void
fl_tls_free(FlTls *tls)
{
	for (int i = 0; i < tls->count; i++)
		SSL_CTX_free(tls->ctx[i]);
	sk_X509_CRL_pop_free(tls->crls, X509_CRL_free);
	pfree(tls);
}

bool
fl_tls_is_revoked(const FlTls *tls, X509 *certificate)
{
	for (int i = 0; tls->crls != NULL && i < sk_X509_CRL_num(tls->crls); i++)
	{
		X509_CRL *crl = sk_X509_CRL_value(tls->crls, i);
		X509_REVOKED *entry;

		/* 2: the entry takes the certificate off the list again. */
		if (X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_issuer_name(certificate)) == 0 &&
			X509_CRL_get0_by_cert(crl, &entry, certificate) == 1)
			return true;
	}
	return false;
}
