/*
 * tls.h
 *		What the files of TLS share among themselves.
 *
 *		tls.c			certificates, keys, CAs, lists: loaded and reloaded
 *		tls_conn.c		one connection: handshake, bytes, end
 *		tls_peer.c		who the peer has proved to be, and until when
 *		tls_ticket.c	session tickets, with keys that all front doors share
 *		tls_log.c		log lines of handshakes that failed
 */
#ifndef FLEETLOG_NET_TLS_H
#define FLEETLOG_NET_TLS_H

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "net_private.h"

#define FL_TLS_CERTIFICATES 16
#define FL_TLS_EXPIRY_SPREAD_MS 60000 /* over which connections end whose certificates end together */

typedef struct FlTls
{
	int count;
	SSL_CTX *ctx[FL_TLS_CERTIFICATES]; /* the first is for who asks for no name */
	STACK_OF(X509_CRL) *crls;          /* NULL: none */
} FlTls;

/* in tls.c */
extern bool fl_tls_is_revoked(const FlTls *tls, X509 *certificate);

/* in tls_peer.c */
/* When the certificate ends, and whether the key was right; after the handshake. */
extern void fl_tls_note_peer(FlNetConn *conn);

/* in tls_ticket.c */
/* Tickets are given and taken, or switched off; false: an error, logged. */
extern bool fl_tls_set_tickets(SSL_CTX *ctx);

/* in tls_log.c */
extern void fl_tls_log_failure(FlNetConn *conn, unsigned long error);
/* For the verification callback: what is wrong with the peer's certificate, before the handshake fails. */
extern void fl_tls_note_certificate(int error, X509 *certificate);
extern void fl_tls_forget_certificate(void);

#endif /* FLEETLOG_NET_TLS_H */
