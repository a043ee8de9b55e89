/*
 * tls_ticket.c
 *		Session tickets: a client that comes back saves both sides the handshake.
 *
 * The kernel spreads connections over the front doors, so a ticket of one must
 * be good at all: its keys are in shared memory, drawn at server start and never
 * written anywhere.  A key makes tickets for one lifetime of a session and reads
 * them for another; who finds it too old draws the next one.  So a stolen
 * machine image tells nothing, and a stolen key opens two lifetimes' sessions at
 * most (with TLS 1.3 not even those, because a new key exchange goes with it).
 *
 * What must not be resumed gets no ticket: see find_psk in tls.c, and the
 * context of sessions there.
 *
 * Locking: the keys are under one lock, held for copying 80 bytes.  OpenSSL
 * calls in the middle of a handshake, so nothing here may raise an error.
 */
#include "postgres.h"

#include <openssl/core_names.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "tls.h"

#define NAME_LEN 16
#define KEY_LEN  32

typedef struct TicketKey
{
	uint8 name[NAME_LEN]; /* told in the ticket */
	uint8 cipher[KEY_LEN];
	uint8 mac[KEY_LEN];
} TicketKey;

typedef struct TicketShared
{
	LWLock lock;
	TimestampTz made; /* the current key; 0: there is none yet */
	TicketKey current;
	TicketKey previous;
	bool has_previous;
} TicketShared;

static TicketShared *shared = NULL;

Size
fl_net_shmem_size(void)
{
	return MAXALIGN(sizeof(TicketShared));
}

/* Called with AddinShmemInitLock held. */
void
fl_net_shmem_init(void)
{
	bool found;

	shared = ShmemInitStruct("fleetlog tickets", sizeof(TicketShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(TicketShared));
		LWLockInitialize(&shared->lock, LWLockNewTrancheId());
	}
	LWLockRegisterTranche(shared->lock.tranche, "fleetlog tickets");
}

/* Lock held exclusively. */
static bool
draw_key(TimestampTz now)
{
	TicketKey key;

	if (RAND_bytes((unsigned char *) &key, sizeof(key)) != 1)
		return false;
	/* One that nobody has used for so long has no ticket out any more. */
	shared->has_previous =
		shared->made != 0 && now - shared->made < 2 * fl_tls_session_lifetime_s * USECS_PER_SEC;
	shared->previous = shared->current;
	shared->current = key;
	shared->made = now;
	explicit_bzero(&key, sizeof(key));
	return true;
}

/* The key that makes tickets now. */
static bool
current_key(TicketKey *key)
{
	TimestampTz now = GetCurrentTimestamp();
	bool ok = true;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (shared->made == 0 || now < shared->made || now - shared->made >= fl_tls_session_lifetime_s * USECS_PER_SEC)
		ok = draw_key(now);
	*key = shared->current;
	LWLockRelease(&shared->lock);
	return ok;
}

/* 0: unknown; 1: current; 2: previous. */
static int
find_key(const unsigned char *name, TicketKey *key)
{
	TimestampTz now = GetCurrentTimestamp();
	int result = 0;

	LWLockAcquire(&shared->lock, LW_SHARED);
	if (shared->made != 0 && memcmp(name, shared->current.name, NAME_LEN) == 0)
	{
		*key = shared->current;
		result = now - shared->made < fl_tls_session_lifetime_s * USECS_PER_SEC ? 1 : 2;
	}
	else if (shared->has_previous && memcmp(name, shared->previous.name, NAME_LEN) == 0)
	{
		*key = shared->previous;
		result = now - shared->made < fl_tls_session_lifetime_s * USECS_PER_SEC ? 2 : 0;
	}
	LWLockRelease(&shared->lock);
	return result;
}

static bool
set_mac(EVP_MAC_CTX *mac, TicketKey *key)
{
	OSSL_PARAM params[3];

	params[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac));
	params[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0);
	params[2] = OSSL_PARAM_construct_end();
	return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/*
 * OpenSSL's terms: 0 no ticket, or an unknown one; 1 good; 2 good, but give a
 * new one; -1 the handshake cannot go on.
 */
static int
ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypt)
{
	FlNetConn *conn = SSL_get_app_data(ssl);
	TicketKey key;
	int result = 1;

	if (encrypt)
	{
		if (conn->layer->has_psk || !current_key(&key))
			return 0;
		memcpy(name, key.name, NAME_LEN);
		if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1 ||
			EVP_EncryptInit_ex2(cipher, EVP_aes_256_cbc(), key.cipher, iv, NULL) != 1 || !set_mac(mac, &key))
			result = -1;
	}
	else
	{
		result = find_key(name, &key);
		if (result == 0)
			return 0;
		conn->layer->by_ticket = true;
		if (EVP_DecryptInit_ex2(cipher, EVP_aes_256_cbc(), key.cipher, iv, NULL) != 1 || !set_mac(mac, &key))
			result = -1;
	}
	explicit_bzero(&key, sizeof(key));
	return result;
}

bool
fl_tls_set_tickets(SSL_CTX *ctx)
{
	if (fl_tls_session_lifetime_s == 0)
	{
		SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
		return SSL_CTX_set_num_tickets(ctx, 0) == 1;
	}
	SSL_CTX_set_timeout(ctx, fl_tls_session_lifetime_s);
	return SSL_CTX_set_num_tickets(ctx, 1) == 1 && SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, ticket_key) == 1;
}
