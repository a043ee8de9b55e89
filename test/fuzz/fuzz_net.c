/*
 * fuzz_net.c
 *		What stands in front of MQTT on the wire, from any bytes: PROXY header,
 *		WebSocket request, WebSocket frames.
 *
 * The first byte chooses which; for frames it also says in pieces of how many
 * bytes they come.  Frames must give the same payload however they are cut,
 * and their state must be gone at the end of a connection.
 */
#include "fl_fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "parse.h"

static const FlUpgradeRules rules = {"/mqtt", "https://app.example"};

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char request[] = "\1GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
								  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
								  "Origin: https://app.example\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
	static const char proxy[] = "\0\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\0\2\7\n\0\0\1\x12\x34\x07\x5B";
	static const char frames[] = "\x0E\x02\x82\1\2\3\4ab\x89\x81\1\2\3\4x\x80\xFE\0\x7E\1\2\3\4";

	(void) argc;
	(void) argv;
	fl_fuzz_seed("request", (const uint8_t *) request, sizeof(request) - 1);
	fl_fuzz_seed("proxy", (const uint8_t *) proxy, sizeof(proxy) - 1);
	fl_fuzz_seed("frames", (const uint8_t *) frames, sizeof(frames) - 1);
	return 0;
}

static void
check_proxy(const uint8_t *data, size_t size)
{
	FlProxyHeader header;
	size_t total;
	FlResult result = fl_proxy_decode(data, size, &header, &total);

	if (result == FL_OK)
		FL_FUZZ_ASSERT(total <= size && total <= FL_PROXY_MAX);
	if (result == FL_INCOMPLETE)
		FL_FUZZ_ASSERT(total > size && total <= FL_PROXY_MAX);
}

static void
check_request(const uint8_t *data, size_t size)
{
	FlUpgrade out;

	if (fl_upgrade_decode(data, size, &rules, &out) == FL_OK)
	{
		FL_FUZZ_ASSERT(out.used > 0 && out.used <= size);
		FL_FUZZ_ASSERT(out.len > 0 && out.len < sizeof(out.answer));
		FL_FUZZ_ASSERT((out.status == 101) == (out.why == NULL));
	}
	else
		FL_FUZZ_ASSERT(size < FL_UPGRADE_MAX_REQUEST);
}

static void
count_sent(void *arg, const uint8_t *data, size_t len)
{
	FL_FUZZ_ASSERT(len >= 2 && len <= 127 && (size_t) data[1] + 2 == len);
	*(size_t *) arg += len;
}

/* Returns how many bytes of payload came; those go to out. */
static size_t
decode_in_pieces(const uint8_t *data, size_t size, size_t piece, uint8_t *out, size_t *sent, bool *ended)
{
	FlWs ws = {0};
	const char *why = NULL;
	size_t total = 0;

	*sent = 0;
	for (size_t at = 0; at < size && why == NULL; at += piece)
	{
		size_t n = size - at < piece ? size - at : piece;
		uint8_t *room = malloc(n);
		size_t got;

		FL_FUZZ_ASSERT(fl_ws_decode(&ws, data + at, n, room, &got, count_sent, sent, &why) == FL_OK);
		FL_FUZZ_ASSERT(got <= n);
		memcpy(out + total, room, got);
		total += got;
		free(room);
	}
	*ended = ws.ended;
	fl_ws_free(&ws);
	return total;
}

static void
check_frames(const uint8_t *data, size_t size, size_t piece)
{
	uint8_t *one = malloc(size + 1);
	uint8_t *other = malloc(size + 1);
	size_t sent[2];
	bool ended[2];
	size_t len = decode_in_pieces(data, size, size > 0 ? size : 1, one, &sent[0], &ended[0]);

	FL_FUZZ_ASSERT(decode_in_pieces(data, size, piece, other, &sent[1], &ended[1]) == len);
	FL_FUZZ_ASSERT(memcmp(one, other, len) == 0);
	FL_FUZZ_ASSERT(sent[0] == sent[1] && ended[0] == ended[1]);
	free(one);
	free(other);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 4)
	{
		case 0:
			check_proxy(data + 1, size - 1);
			break;
		case 1:
			check_request(data + 1, size - 1);
			break;
		default:
			check_frames(data + 1, size - 1, (size_t) data[0] / 4 + 1);
	}
	return 0;
}
