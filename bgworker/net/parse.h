/*
 * parse.h
 *		What stands in front of a protocol on the wire: the PROXY header of a load
 *		balancer, the HTTP request that becomes a WebSocket, and its frames.
 *
 * Sans-I/O and without the server, so that unit tests and fuzzers compile it
 * alone (test/unit/test_net_parse.c, test/fuzz/fuzz_net.c).  Everything here
 * reads bytes of somebody who is not known yet: lengths are bounded before they
 * are used, and nothing is allocated by a length that was announced.
 *
 * Called by layer.c only.
 */
#ifndef FLEETLOG_NET_PARSE_H
#define FLEETLOG_NET_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

/* ---- PROXY protocol, version 2 (haproxy's proxy-protocol.txt, section 2.2) ---- */

#define FL_PROXY_FIXED 16   /* bytes that every header has */
#define FL_PROXY_MAX   1024 /* of a whole header; balancers add a few hundred bytes */

typedef struct FlProxyHeader
{
	uint8_t family; /* 4, 6, or 0: the balancer says nothing of the client (health check) */
	uint8_t address[16];
	uint16_t port;
} FlProxyHeader;

/*
 * *total: bytes of the header; with FL_INCOMPLETE, how many are needed before
 * it makes sense to call again.  FL_MALFORMED: it is no header of version 2.
 */
extern FlResult fl_proxy_decode(const uint8_t *data, size_t len, FlProxyHeader *out, size_t *total);

/* ---- HTTP request of a WebSocket (RFC 6455, section 4.2; MQTT 5.0, section 6) ---- */

#define FL_UPGRADE_MAX_REQUEST 8192
#define FL_UPGRADE_MAX_ANSWER  512

typedef struct FlUpgradeRules
{
	const char *path;    /* "/mqtt" */
	const char *origins; /* allowed besides the server's own, separated by commas; "*": all; may be "" */
} FlUpgradeRules;

typedef struct FlUpgrade
{
	int status;      /* 101, or why not */
	const char *why; /* for the log, when it is not 101; constant */
	size_t used;     /* bytes of the request; what follows belongs to the WebSocket */
	size_t len;
	char answer[FL_UPGRADE_MAX_ANSWER]; /* to be sent, len bytes */
} FlUpgrade;

/*
 * Reads a request from its beginning.  FL_INCOMPLETE: its end has not come.
 * FL_OK: *out has the answer, which may be a refusal.
 */
extern FlResult fl_upgrade_decode(const uint8_t *data, size_t len, const FlUpgradeRules *rules, FlUpgrade *out);

/* ---- WebSocket frames (RFC 6455, section 5) ---- */

/* Most bytes of a frame header that a server writes. */
#define FL_WS_MAX_HEADER 10

/* Status codes of the closing frame that are ours to send (section 7.4.1). */
#define FL_WS_NORMAL      1000
#define FL_WS_PROTOCOL    1002

/*
 * What is known between two calls.  At a frame boundary nothing is: the
 * library's context is given back, so that an idle connection costs this
 * struct and no more.
 */
typedef struct FlWs
{
	void *frame;       /* wslay's context, NULL at a frame boundary */
	uint64_t taken;    /* bytes given to it since it was made */
	uint64_t complete; /* bytes of those that belong to complete frames */
	uint64_t have;     /* payload bytes of the current frame that have come */
	uint8_t control_len;
	bool fragmented; /* a message goes on in the next data frame */
	bool ended;      /* a closing frame was sent: nothing is read any more */
	uint8_t control[125];
} FlWs;

/* Sends bytes to the peer; they are only borrowed. */
typedef void (*FlWsSend)(void *arg, const uint8_t *data, size_t len);

/*
 * Takes len bytes from the peer; the payload of data frames goes to out, which
 * has room for at least len bytes, and *out_len says how many came.  Pings are
 * answered.  When the peer closes or breaks a rule, the closing frame is sent,
 * ws->ended is set and *why says what happened.  FL_TOO_LARGE: no memory.
 */
extern FlResult fl_ws_decode(FlWs *ws, const uint8_t *data, size_t len, uint8_t *out, size_t *out_len, FlWsSend send,
							 void *arg, const char **why);

/* Header of a binary frame of len bytes; returns its length. */
extern size_t fl_ws_encode_header(uint8_t out[FL_WS_MAX_HEADER], uint64_t len);

/* Sends a closing frame unless one was sent. */
extern void fl_ws_close(FlWs *ws, uint16_t status, FlWsSend send, void *arg);

/* Gives back what a connection that ends in the middle of a frame has. */
extern void fl_ws_free(FlWs *ws);

#endif /* FLEETLOG_NET_PARSE_H */
