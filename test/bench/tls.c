/*-------------------------------------------------------------------------
 *
 * tls.c
 *		TLS on the tool's side: a handshake behind connect(), and what stands for send() and recv().
 *
 * The server's certificate is not looked at and no session is resumed: what is
 * measured is the server, at its dearest.  Between messages OpenSSL holds no
 * buffers, so that tens of thousands of connections fit into the tool.
 *
 * A reading that returned less than it was given room for has emptied what
 * OpenSSL holds, of which no socket would tell.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

static SSL_CTX *context;

static void
make_context(void)
{
	context = SSL_CTX_new(TLS_client_method());
	if (context == NULL)
	{
		fputs("fl_load: OpenSSL gives no context\n", stderr);
		exit(1);
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

/* What a call means that has not succeeded, as errno; 0: the peer has ended the connection. */
static int
error_of(FlConn *c, int result)
{
	switch (SSL_get_error(c->ssl, result))
	{
		case SSL_ERROR_WANT_READ:
		case SSL_ERROR_WANT_WRITE:
			return EAGAIN;
		case SSL_ERROR_ZERO_RETURN:
			return 0;
		default:
			return EPROTO;
	}
}

void
fl_tls_begin(FlConn *c)
{
	if (context == NULL)
		make_context();
	c->ssl = SSL_new(context);
	if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1)
	{
		fputs("fl_load: out of memory for TLS\n", stderr);
		exit(1);
	}
	SSL_set_connect_state(c->ssl);
}

int
fl_tls_shake(FlConn *c)
{
	int result;

	ERR_clear_error();
	result = SSL_do_handshake(c->ssl);
	if (result == 1)
		return 1;
	errno = error_of(c, result);
	return errno == EAGAIN ? 0 : -1;
}

ssize_t
fl_tls_send(FlConn *c, const uint8_t *bytes, size_t len)
{
	int n;

	ERR_clear_error();
	n = SSL_write(c->ssl, bytes, (int) len);
	if (n > 0)
		return n;
	errno = error_of(c, n);
	return -1;
}

ssize_t
fl_tls_recv(FlConn *c, uint8_t *into, size_t size)
{
	size_t total = 0;

	while (total < size)
	{
		int n;

		ERR_clear_error();
		n = SSL_read(c->ssl, into + total, (int) (size - total));
		if (n > 0)
		{
			total += (size_t) n;
			continue;
		}
		errno = error_of(c, n);
		/* The bytes first, the end with the next call. */
		if (total > 0)
			break;
		return errno == 0 ? 0 : -1;
	}
	return (ssize_t) total;
}

void
fl_tls_end(FlConn *c)
{
	SSL_free(c->ssl);
	c->ssl = NULL;
}
