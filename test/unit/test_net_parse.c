/*
 * test_net_parse.c
 *		PROXY headers, WebSocket requests and frames: what is taken, what is
 *		refused, and that it does not matter how the bytes are cut.
 */
#include "fl_unit.h"

#include "parse.h"

/* ---- PROXY ---- */

static const uint8_t proxy4[] = {0x0D, 0x0A, 0x0D, 0x0A, 0,   0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A, 0x21, 0x11,
								 0,    15,   192,  0,    2,   7,    10,   0,    0,    1,    0x12, 0x34, 0x07, 0x5B,
								 /* a TLV that is skipped */ 4, 0,    0};

static void
test_proxy(void)
{
	FlProxyHeader header;
	size_t total;
	uint8_t copy[64];

	FL_CHECK_INT(fl_proxy_decode(proxy4, sizeof(proxy4), &header, &total), FL_OK);
	FL_CHECK_INT(total, sizeof(proxy4));
	FL_CHECK_INT(header.family, 4);
	FL_CHECK_INT(header.port, 0x1234);
	FL_CHECK(memcmp(header.address, "\xC0\x00\x02\x07", 4) == 0);
	for (size_t len = 0; len < sizeof(proxy4); len++)
	{
		uint8_t *exact = fl_unit_copy(proxy4, len);

		FL_CHECK_INT(fl_proxy_decode(exact, len, &header, &total), FL_INCOMPLETE);
		/* Never asks for more than the header has: what follows is another layer's. */
		FL_CHECK(total > len && total <= sizeof(proxy4));
		free(exact);
	}
	/* What follows the header is not looked at. */
	memset(copy, 0xFF, sizeof(copy));
	memcpy(copy, proxy4, sizeof(proxy4));
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_OK);
	FL_CHECK_INT(total, sizeof(proxy4));
	/* LOCAL, and a family that is no address of ours: nobody is named. */
	copy[12] = 0x20;
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_OK);
	FL_CHECK_INT(header.family, 0);
	copy[12] = 0x21;
	copy[13] = 0x31;
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_OK);
	FL_CHECK_INT(header.family, 0);
	/* IPv6 in fewer bytes than its addresses have. */
	copy[13] = 0x21;
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_MALFORMED);
}

static void
test_proxy_refused(void)
{
	FlProxyHeader header;
	size_t total;
	uint8_t copy[sizeof(proxy4)];

	FL_CHECK_INT(fl_proxy_decode((const uint8_t *) "PROXY TCP4 192.0.2.7", 20, &header, &total), FL_MALFORMED);
	FL_CHECK_INT(fl_proxy_decode((const uint8_t *) "\x10", 1, &header, &total), FL_MALFORMED);
	memcpy(copy, proxy4, sizeof(copy));
	copy[12] = 0x11; /* version 1 */
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_MALFORMED);
	copy[12] = 0x22; /* unknown command */
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_MALFORMED);
	copy[12] = 0x21;
	copy[14] = 0xFF; /* 65,295 bytes announced */
	FL_CHECK_INT(fl_proxy_decode(copy, sizeof(copy), &header, &total), FL_TOO_LARGE);
}

/* ---- request ---- */

static const FlUpgradeRules rules = {"/mqtt", "https://app.example, http://other.example:8080"};

#define GOOD                                                                                                           \
	"Host: broker.example:8083\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"                           \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"                                     \
	"Sec-WebSocket-Protocol: chat, mqtt\r\n"

static int
status_of(const char *text)
{
	FlUpgrade out;
	size_t len = strlen(text);
	uint8_t *exact = fl_unit_copy((const uint8_t *) text, len);

	FL_CHECK_INT(fl_upgrade_decode(exact, len, &rules, &out), FL_OK);
	free(exact);
	FL_CHECK(out.len > 0 && out.len < sizeof(out.answer));
	FL_CHECK((out.status == 101) == (out.why == NULL));
	return out.status;
}

static void
test_upgrade(void)
{
	static const char text[] = "GET /mqtt HTTP/1.1\r\n" GOOD "\r\nrest";
	FlUpgrade out;

	FL_CHECK_INT(fl_upgrade_decode((const uint8_t *) text, sizeof(text) - 1, &rules, &out), FL_OK);
	FL_CHECK_INT(out.status, 101);
	FL_CHECK_INT(out.used, sizeof(text) - 1 - 4);
	/* The example of RFC 6455, section 1.3. */
	FL_CHECK(strstr(out.answer, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != NULL);
	FL_CHECK(strstr(out.answer, "Sec-WebSocket-Protocol: mqtt\r\n") != NULL);
	for (size_t len = 0; len < sizeof(text) - 1 - 4; len++)
	{
		uint8_t *exact = fl_unit_copy((const uint8_t *) text, len);

		FL_CHECK_INT(fl_upgrade_decode(exact, len, &rules, &out), FL_INCOMPLETE);
		free(exact);
	}
	FL_CHECK_INT(status_of("GET /mqtt?x=1 HTTP/1.1\r\n" GOOD "\r\n"), 101);
}

static void
test_upgrade_refused(void)
{
	char big[FL_UPGRADE_MAX_REQUEST + 1];

	FL_CHECK_INT(status_of("GET / HTTP/1.1\r\n" GOOD "\r\n"), 404);
	FL_CHECK_INT(status_of("GET /mqtt/x HTTP/1.1\r\n" GOOD "\r\n"), 404);
	FL_CHECK_INT(status_of("POST /mqtt HTTP/1.1\r\n" GOOD "\r\n"), 405);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.0\r\n" GOOD "\r\n"), 400);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n"), 426);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Content-Length: 3\r\n\r\n"), 400);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Upgrade: websocket\r\n\r\n"), 400);
	FL_CHECK_INT(status_of("\x16\x03\x01 hello\r\n\r\n"), 400);
	FL_CHECK_INT(status_of("\r\n\r\n"), 404);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
						   "Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
				 426);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
						   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvcnQ=\r\n\r\n"),
				 400);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
						   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
				 400);
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	FL_CHECK_INT(status_of(big), 431);
}

static void
test_origin(void)
{
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: https://broker.example:8083\r\n\r\n"), 101);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: https://broker.example\r\n\r\n"), 403);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: https://evil.example\r\n\r\n"), 403);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: null\r\n\r\n"), 403);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: \r\n\r\n"), 403);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: https://app.example\r\n\r\n"), 101);
	FL_CHECK_INT(status_of("GET /mqtt HTTP/1.1\r\n" GOOD "Origin: http://other.example:8080\r\n\r\n"), 101);
}

/* ---- frames ---- */

typedef struct Sent
{
	uint8_t bytes[4096];
	size_t len;
} Sent;

static void
keep_sent(void *arg, const uint8_t *data, size_t len)
{
	Sent *sent = arg;

	FL_REQUIRE(sent->len + len <= sizeof(sent->bytes));
	memcpy(sent->bytes + sent->len, data, len);
	sent->len += len;
}

/* A client's frame; returns its length. */
static size_t
frame(uint8_t *to, uint8_t first, const uint8_t *payload, size_t len)
{
	static const uint8_t mask[4] = {0x37, 0xFA, 0x21, 0x3D};
	size_t at = 2;

	to[0] = first;
	if (len < 126)
		to[1] = (uint8_t) (0x80 | len);
	else if (len < 65536)
	{
		to[1] = 0x80 | 126;
		to[at++] = (uint8_t) (len >> 8);
		to[at++] = (uint8_t) len;
	}
	else
	{
		to[1] = 0x80 | 127;
		for (int i = 0; i < 8; i++)
			to[at++] = (uint8_t) ((uint64_t) len >> (56 - 8 * i));
	}
	memcpy(to + at, mask, 4);
	at += 4;
	for (size_t i = 0; i < len; i++)
		to[at + i] = payload[i] ^ mask[i % 4];
	return at + len;
}

/* Feeds all in pieces of n bytes; the payload goes to out. */
static const char *
feed(FlWs *ws, const uint8_t *data, size_t len, size_t n, uint8_t *out, size_t *out_len, Sent *sent)
{
	const char *why = NULL;

	*out_len = 0;
	for (size_t at = 0; at < len && why == NULL; at += n)
	{
		size_t piece = len - at < n ? len - at : n;
		uint8_t *exact = fl_unit_copy(data + at, piece);
		uint8_t *to = malloc(piece);
		size_t got;

		FL_CHECK_INT(fl_ws_decode(ws, exact, piece, to, &got, keep_sent, sent, &why), FL_OK);
		if (!FL_CHECK(got <= piece))
			return "more came out than went in";
		memcpy(out + *out_len, to, got);
		*out_len += got;
		free(exact);
		free(to);
	}
	return why;
}

static void
test_frames(void)
{
	static uint8_t payload[70000];
	static uint8_t bytes[75000];
	static uint8_t out[75000];
	size_t sizes[] = {1, 2, 3, 7, 100, 4096, 75000};
	size_t len = 0;
	size_t got;

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t) (i * 31);
	/* One message in three frames, with a ping and an empty frame in between, then one of each length form. */
	len += frame(bytes + len, 0x02, payload, 10);
	len += frame(bytes + len, 0x89, (const uint8_t *) "hey", 3);
	len += frame(bytes + len, 0x00, NULL, 0);
	len += frame(bytes + len, 0x80, payload + 10, 115);
	len += frame(bytes + len, 0x82, payload + 125, 300);
	len += frame(bytes + len, 0x8A, NULL, 0);
	len += frame(bytes + len, 0x82, payload + 425, sizeof(payload) - 425);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		FlWs ws = {0};
		Sent sent = {{0}, 0};

		FL_CHECK(feed(&ws, bytes, len, sizes[i], out, &got, &sent) == NULL);
		FL_CHECK_INT(got, sizeof(payload));
		FL_CHECK(memcmp(out, payload, sizeof(payload)) == 0);
		/* The ping's answer is its echo, unmasked. */
		FL_CHECK_INT(sent.len, 5);
		FL_CHECK(memcmp(sent.bytes, "\x8A\x03hey", 5) == 0);
		/* At a frame boundary nothing is held. */
		FL_CHECK(ws.frame == NULL && !ws.ended && !ws.fragmented);
	}
}

static void
test_frames_refused(void)
{
	static const struct
	{
		const char *bytes;
		size_t len;
	} bad[] = {
		{"\x81\x80\0\0\0\0", 6},                    /* text */
		{"\x82\x01x", 3},                           /* no mask */
		{"\xC2\x80\0\0\0\0", 6},                    /* reserved bit */
		{"\x80\x80\0\0\0\0", 6},                    /* continuation of nothing */
		{"\x83\x80\0\0\0\0", 6},                    /* unknown */
		{"\x09\x80\0\0\0\0", 6},                    /* fragmented ping */
		{"\x89\xFE\0\x7E\0\0\0\0", 8},              /* ping of 126 bytes */
		{"\x82\xFE\0\x05\0\0\0\0", 8},              /* length not in its shortest form */
		{"\x82\xFF\x80\0\0\0\0\0\0\0\0\0\0\0", 14}, /* negative length */
		{"\x02\x80\0\0\0\0\x82\x80\0\0\0\0", 12},   /* new message within a message */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t n = 1; n <= bad[i].len; n++)
		{
			FlWs ws = {0};
			Sent sent = {{0}, 0};
			uint8_t out[64];
			size_t got;

			FL_CHECK(feed(&ws, (const uint8_t *) bad[i].bytes, bad[i].len, n, out, &got, &sent) != NULL);
			FL_CHECK(ws.ended && ws.frame == NULL);
			FL_CHECK(sent.len == 4 && memcmp(sent.bytes, "\x88\x02\x03\xEA", 4) == 0);
			fl_ws_free(&ws);
		}
}

static void
test_closing(void)
{
	FlWs ws = {0};
	Sent sent = {{0}, 0};
	uint8_t bytes[64];
	uint8_t out[64];
	size_t got;
	size_t len = frame(bytes, 0x82, (const uint8_t *) "last", 4);

	len += frame(bytes + len, 0x88, (const uint8_t *) "\x03\xE8", 2);
	len += frame(bytes + len, 0x82, (const uint8_t *) "late", 4);
	FL_CHECK(feed(&ws, bytes, len, len, out, &got, &sent) != NULL);
	FL_CHECK_INT(got, 4);
	FL_CHECK(memcmp(out, "last", 4) == 0);
	FL_CHECK(sent.len == 4 && memcmp(sent.bytes, "\x88\x02\x03\xE8", 4) == 0);
	/* Once is enough. */
	fl_ws_close(&ws, FL_WS_NORMAL, keep_sent, &sent);
	FL_CHECK_INT(sent.len, 4);
}

static void
test_header(void)
{
	uint8_t out[FL_WS_MAX_HEADER];

	FL_CHECK_INT(fl_ws_encode_header(out, 125), 2);
	FL_CHECK(memcmp(out, "\x82\x7D", 2) == 0);
	FL_CHECK_INT(fl_ws_encode_header(out, 126), 4);
	FL_CHECK(memcmp(out, "\x82\x7E\x00\x7E", 4) == 0);
	FL_CHECK_INT(fl_ws_encode_header(out, 65535), 4);
	FL_CHECK_INT(fl_ws_encode_header(out, 65536), 10);
	FL_CHECK(memcmp(out, "\x82\x7F\0\0\0\0\0\1\0\0", 10) == 0);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_proxy);
	FL_RUN(test_proxy_refused);
	FL_RUN(test_upgrade);
	FL_RUN(test_upgrade_refused);
	FL_RUN(test_origin);
	FL_RUN(test_frames);
	FL_RUN(test_frames_refused);
	FL_RUN(test_closing);
	FL_RUN(test_header);
	return fl_unit_end();
}
