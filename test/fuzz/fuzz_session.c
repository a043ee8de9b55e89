/*
 * fuzz_session.c
 *		Any bytes as a payload of the session journal: what is read lies within
 *		them, and what comes out is written back to the same events.
 */
#include <string.h>

#include "fl_fuzz.h"

#include "fleetlog/session_event.h"

#define MAX_OUT (128 * 1024) /* a filter may have 65,535 bytes */

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const uint8_t key[FL_SESSION_KEY_LEN] = {1};
	uint8_t bytes[512];
	FlBuf out;
	FlSessionEvent e = {.session = 7, .generation = 1, .packet_id = 5, .qos = 2, .window = 20, .expiry_s = 60};

	(void) argc;
	(void) argv;
	e.key = key;
	e.name = key;
	e.name_len = 10;
	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	e.text = key;
	e.text_len = 9;
	for (int type = FL_SESSION_AT; type <= FL_SESSION_START; type++)
	{
		e.type = (uint8_t) type;
		fl_session_encode_event(&out, &e);
	}
	fl_fuzz_seed("all", bytes, out.len);
	return 0;
}

static void
check_written_back(const FlSessionEvent *e)
{
	FlSessionEvent at = {
		.type = FL_SESSION_AT, .stream = e->stream, .shard = e->shard, .log_offset = e->log_offset - e->distance};
	static uint8_t bytes[MAX_OUT];
	FlBuf out;
	FlSessionReader reader;
	FlSessionEvent again;

	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	if (e->type == FL_SESSION_RECEIVED || e->type == FL_SESSION_SENT)
		fl_session_encode_event(&out, &at);
	fl_session_encode_event(&out, e);
	FL_FUZZ_ASSERT(!out.failed);
	fl_session_reader_init(&reader, bytes, out.len);
	FL_FUZZ_ASSERT(fl_session_next_event(&reader, &again));
	FL_FUZZ_ASSERT(again.type == e->type && again.session == e->session && again.generation == e->generation);
	FL_FUZZ_ASSERT(again.packet_id == e->packet_id && again.hash == e->hash && again.log_offset == e->log_offset);
	FL_FUZZ_ASSERT(again.name_len == e->name_len && again.expiry_s == e->expiry_s && again.since == e->since);
	FL_FUZZ_ASSERT(!fl_session_next_event(&reader, &again) && reader.result == FL_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlSessionReader reader;
	FlSessionEvent e;

	fl_session_reader_init(&reader, data, size);
	while (fl_session_next_event(&reader, &e))
		check_written_back(&e);
	return 0;
}
