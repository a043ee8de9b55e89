/*
 * parse_websocket.c
 *		WebSocket frames, as far as MQTT needs them.
 *
 * wslay reads the frames: headers, lengths, masks.  What they mean is decided
 * here: data frames are a stream of bytes (MQTT 5.0, section 6: packets need not
 * be aligned with frames), which must be binary; pings are answered; a closing
 * frame is answered and ends it.
 *
 * wslay's context holds a buffer of 4 kB.  It is made when bytes come and given
 * back at the next frame boundary, which is found by counting: what was given to
 * it against what the frames that it has returned are long.
 *
 * Called by layer.c.
 */
#include "parse.h"

#include <string.h>
#include <wslay/wslay.h>

#define MASK_LEN    4
#define MAX_CONTROL 125 /* payload of a control frame */
#define FIN         0x80

/* Where wslay reads from during a call. */
typedef struct Source
{
	const uint8_t *data;
	size_t len;
	uint64_t *taken;
} Source;

static Source *source; /* of the call under way; the context outlives it */

static ssize_t
give(uint8_t *buf, size_t len, int flags, void *arg)
{
	size_t n = len < source->len ? len : source->len;

	(void) flags;
	(void) arg;
	/* What wslay takes for "no more for now". */
	if (n == 0)
		return -1;
	memcpy(buf, source->data, n);
	source->data += n;
	source->len -= n;
	*source->taken += n;
	return (ssize_t) n;
}

/* Header of a frame as the peer must have sent it: masked, with the shortest length. */
static uint64_t
header_len(uint64_t payload)
{
	return 2 + MASK_LEN + (payload < 126 ? 0 : payload <= UINT16_MAX ? 2 : 8);
}

static void
send_control(uint8_t opcode, const uint8_t *payload, uint8_t len, FlWsSend send, void *arg)
{
	uint8_t frame[2 + MAX_CONTROL];

	frame[0] = FIN | opcode;
	frame[1] = len;
	if (len > 0)
		memcpy(frame + 2, payload, len);
	send(arg, frame, 2 + (size_t) len);
}

void
fl_ws_close(FlWs *ws, uint16_t status, FlWsSend send, void *arg)
{
	uint8_t payload[2] = {(uint8_t) (status >> 8), (uint8_t) status};

	if (ws->ended)
		return;
	ws->ended = true;
	send_control(WSLAY_CONNECTION_CLOSE, payload, sizeof(payload), send, arg);
}

void
fl_ws_free(FlWs *ws)
{
	if (ws->frame != NULL)
		wslay_frame_context_free(ws->frame);
	ws->frame = NULL;
	ws->taken = ws->complete = 0;
}

/* NULL when the frame may be, else what is wrong with it; told by its header alone. */
static const char *
check_frame(const FlWs *ws, const struct wslay_frame_iocb *io)
{
	if (!io->mask)
		return "frame without a mask";
	if (io->rsv != WSLAY_RSV_NONE)
		return "reserved bits in a frame";
	switch (io->opcode)
	{
		case WSLAY_CONTINUATION_FRAME:
			return ws->fragmented ? NULL : "continuation of nothing";
		case WSLAY_BINARY_FRAME:
			return ws->fragmented ? "new message within a message" : NULL;
		case WSLAY_TEXT_FRAME:
			return "text frame; MQTT wants binary ones";
		case WSLAY_CONNECTION_CLOSE:
		case WSLAY_PING:
		case WSLAY_PONG:
			return io->payload_length > MAX_CONTROL ? "control frame is too long" : NULL;
	}
	return "unknown kind of frame";
}

/* All of a control frame has come.  What is wrong or over, NULL: go on. */
static const char *
handle_control(FlWs *ws, uint8_t opcode, FlWsSend send, void *arg)
{
	switch (opcode)
	{
		case WSLAY_PING:
			send_control(WSLAY_PONG, ws->control, ws->control_len, send, arg);
			return NULL;
		case WSLAY_CONNECTION_CLOSE:
			fl_ws_close(ws, FL_WS_NORMAL, send, arg);
			return "closed by the client";
	}
	return NULL; /* a pong that nobody asked for may be sent at any time */
}

/* A piece of a frame; returns as handle_control. */
static const char *
take_piece(FlWs *ws, const struct wslay_frame_iocb *io, uint8_t *out, size_t *out_len, FlWsSend send, void *arg)
{
	const char *why = NULL;

	if (ws->have == 0 && (why = check_frame(ws, io)) != NULL)
		return why;
	if (wslay_is_ctrl_frame(io->opcode))
	{
		if (ws->have == 0)
			ws->control_len = 0;
		memcpy(ws->control + ws->control_len, io->data, io->data_length);
		ws->control_len += (uint8_t) io->data_length;
	}
	else if (io->data_length > 0)
	{
		memcpy(out + *out_len, io->data, io->data_length);
		*out_len += io->data_length;
	}
	ws->have += io->data_length;
	if (ws->have < io->payload_length)
		return NULL;
	ws->have = 0;
	ws->complete += header_len(io->payload_length) + io->payload_length;
	if (wslay_is_ctrl_frame(io->opcode))
		return handle_control(ws, io->opcode, send, arg);
	ws->fragmented = !io->fin;
	return NULL;
}

FlResult
fl_ws_decode(FlWs *ws, const uint8_t *data, size_t len, uint8_t *out, size_t *out_len, FlWsSend send, void *arg,
			 const char **why)
{
	static const struct wslay_frame_callbacks callbacks = {.recv_callback = give};
	Source from = {data, len, &ws->taken};

	*out_len = 0;
	*why = NULL;
	if (ws->ended)
		return FL_OK;
	if (ws->frame == NULL && wslay_frame_context_init((wslay_frame_context_ptr *) &ws->frame, &callbacks, NULL) != 0)
	{
		ws->frame = NULL;
		return FL_TOO_LARGE;
	}
	source = &from;
	while (*why == NULL)
	{
		struct wslay_frame_iocb io = {0};
		ssize_t n = wslay_frame_recv(ws->frame, &io);

		if (n == WSLAY_ERR_WANT_READ)
			break;
		*why = n < 0 ? "malformed frame" : take_piece(ws, &io, out, out_len, send, arg);
	}
	source = NULL;
	if (*why != NULL)
		fl_ws_close(ws, FL_WS_PROTOCOL, send, arg);
	if (*why != NULL || ws->taken == ws->complete)
		fl_ws_free(ws);
	return FL_OK;
}

size_t
fl_ws_encode_header(uint8_t out[FL_WS_MAX_HEADER], uint64_t len)
{
	out[0] = FIN | WSLAY_BINARY_FRAME;
	if (len < 126)
	{
		out[1] = (uint8_t) len;
		return 2;
	}
	if (len <= UINT16_MAX)
	{
		out[1] = 126;
		out[2] = (uint8_t) (len >> 8);
		out[3] = (uint8_t) len;
		return 4;
	}
	out[1] = 127;
	for (int i = 0; i < 8; i++)
		out[2 + i] = (uint8_t) (len >> (56 - 8 * i));
	return 10;
}
