/*-------------------------------------------------------------------------
 *
 * test_session_event.c
 *		Events of the session journal come back as they were written; what is cut
 *		short, changed or unknown is refused and reads nothing beyond its bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/session_event.h"

static const uint8_t key[FL_SESSION_KEY_LEN] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static const FlSessionEvent samples[] = {
	{.type = FL_SESSION_OPENED,.session = 7,.generation = 65535,.expiry_s = 4294967295u,.window = 20,.key = key,
	.name = (const uint8_t *) "acme/d1\0d1",.name_len = 10},
	{.type = FL_SESSION_ENDED,.session = 4294967295u,.generation = 3},
	{.type = FL_SESSION_CHANGED,.session = 7,.generation = 1,.expiry_s = 60,.window = 65535},
	{.type = FL_SESSION_RECEIVED,.session = 7,.generation = 1,.packet_id = 65535,.qos = 2,.hash = 0xDEADBEEF,.distance = 999},
	{.type = FL_SESSION_RECEIVED,.session = 8,.generation = 2,.packet_id = 1,.qos = 1},
	{.type = FL_SESSION_RELEASED,.session = 7,.generation = 1,.packet_id = 5},
	{.type = FL_SESSION_SNAPSHOT,.stream = 16500,.log_offset = INT64_C(123456789012)},
	{.type = FL_SESSION_SNAPSHOT_END},
	{.type = FL_SESSION_AWAY,.session = 9,.generation = 4,.since = -5},
	{.type = FL_SESSION_SUBSCRIBED,.session = 9,.generation = 4,.qos = 2,.no_local = true,.id = 268435455,.since = INT64_C(1) << 50,
	.text = (const uint8_t *) "plant/+/#",.text_len = 9},
	{.type = FL_SESSION_SUBSCRIBED,.session = 9,.generation = 4,.as_published = true,.position = 2,.end_on_drop = true,.text = (const uint8_t *) "#",.text_len = 1},
	{.type = FL_SESSION_UNSUBSCRIBED,.session = 9,.generation = 4,.text = (const uint8_t *) "a/b",.text_len = 3},
	{.type = FL_SESSION_CHECKPOINT,.session = 9,.generation = 4},
	{.type = FL_SESSION_BOOKMARK,.session = 9,.generation = 4,.stream = 16401,.shard = 7,.log_offset = INT64_MAX},
	{.type = FL_SESSION_EXACT,.session = 9,.generation = 4,.qos = 2,.stream = 16401,.shard = 65535,.log_offset = 0},
	{.type = FL_SESSION_START,.session = 9,.generation = 4,.hash = 0xFEEDBEEF,.text_len = 65535,.stream = 16401,.shard = 255,.log_offset = 1},
	{.type = FL_SESSION_SENT,.session = 9,.generation = 4,.packet_id = 65535,.qos = 2,.distance = 65535},
	{.type = FL_SESSION_SENT,.session = 9,.generation = 4,.packet_id = 2,.qos = 1,.retain = true,.aside = true,.shared = true,.distance = 1},
	{.type = FL_SESSION_SENT_RELEASED,.session = 9,.generation = 4,.packet_id = 65535},
	{.type = FL_SESSION_SENT_DONE,.session = 9,.generation = 4,.packet_id = 1},
	{.type = FL_SESSION_WILL,.session = 9,.generation = 4,.number = 4294967295u,.delay_s = 4294967295u,
	.data = (const uint8_t *) "last\0word",.data_len = 9},
	{.type = FL_SESSION_WILL_DONE,.session = 9,.generation = 4,.number = 1},
};

#define N_SAMPLES ((int) (sizeof(samples) / sizeof(samples[0])))

static const FlSessionEvent at = {.type = FL_SESSION_AT,.stream = 16400,.shard = 255,.log_offset = INT64_C(1) << 40};

static void
write_all(FlBuf *out)
{
	fl_session_encode_event(out, &at);
	for (int i = 0; i < N_SAMPLES; i++)
		fl_session_encode_event(out, &samples[i]);
}

static void
check_same(const FlSessionEvent *a, const FlSessionEvent *b)
{
	FL_CHECK(a->type == b->type && a->session == b->session && a->generation == b->generation);
	FL_CHECK(a->packet_id == b->packet_id && a->window == b->window && a->hash == b->hash && a->qos == b->qos);
	FL_CHECK(a->expiry_s == b->expiry_s && a->since == b->since && a->name_len == b->name_len);
	if (a->type == FL_SESSION_OPENED)
		FL_CHECK(memcmp(a->key, b->key, FL_SESSION_KEY_LEN) == 0 && memcmp(a->name, b->name, a->name_len) == 0);
	FL_CHECK(a->no_local == b->no_local && a->as_published == b->as_published && a->id == b->id);
	FL_CHECK(a->position == b->position && a->end_on_drop == b->end_on_drop);
	FL_CHECK(a->text_len == b->text_len && (a->text == NULL || memcmp(a->text, b->text, a->text_len) == 0));
	FL_CHECK(a->number == b->number && a->delay_s == b->delay_s && a->data_len == b->data_len);
	FL_CHECK(a->data == NULL || memcmp(a->data, b->data, a->data_len) == 0);
	if (a->type == FL_SESSION_RECEIVED || a->type == FL_SESSION_SENT)
		FL_CHECK(a->stream == at.stream && a->shard == at.shard && a->log_offset == at.log_offset + b->distance);
	if (a->type == FL_SESSION_BOOKMARK || a->type == FL_SESSION_EXACT || a->type == FL_SESSION_START)
		FL_CHECK(a->shard == b->shard);
	if (a->type == FL_SESSION_SNAPSHOT || a->type == FL_SESSION_BOOKMARK || a->type == FL_SESSION_EXACT ||
		a->type == FL_SESSION_START)
		FL_CHECK(a->stream == b->stream && a->log_offset == b->log_offset);
}

static void
test_round_trip(void)
{
	FlBuf		out;
	FlSessionReader reader;
	FlSessionEvent e;
	int			n = 0;

	fl_buf_init(&out, &fl_malloc_allocator, 1 << 20);
	write_all(&out);
	FL_CHECK(!out.failed);
	fl_session_reader_init(&reader, out.data, out.len);
	while (fl_session_next_event(&reader, &e))
		check_same(&e, &samples[n++]);
	FL_CHECK(n == N_SAMPLES && reader.result == FL_OK);
	fl_buf_free(&out);
}

static void
test_size_and_distance(void)
{
	uint8_t		bytes[64];
	FlBuf		out;
	FlSessionReader reader;
	FlSessionEvent e;

	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	fl_session_encode_event(&out, &at);
	size_t		start = out.len;
	fl_session_encode_event(&out, &samples[4]);
	FL_CHECK(out.len - start == FL_SESSION_RECEIVED_SIZE);
	fl_session_set_distance(bytes + start, 1234);
	fl_session_reader_init(&reader, bytes, out.len);
	FL_CHECK(fl_session_next_event(&reader, &e));
	FL_CHECK(e.log_offset == at.log_offset + 1234 && e.hash == samples[4].hash && e.packet_id == 1);
}

/* Every prefix ends in an error or on the border of an event. */
static void
test_cut_short(void)
{
	FlBuf		out;
	int			whole = 0;

	fl_buf_init(&out, &fl_malloc_allocator, 1 << 20);
	write_all(&out);
	for (size_t len = 0; len < out.len; len++)
	{
		/* A copy of just so many bytes, so that reading behind them is seen. */
		uint8_t    *copy = malloc(len > 0 ? len : 1);
		FlSessionReader reader;
		FlSessionEvent e;

		memcpy(copy, out.data, len);
		fl_session_reader_init(&reader, copy, len);
		while (fl_session_next_event(&reader, &e))
			;
		if (reader.result == FL_OK)
			whole++;
		else
			FL_CHECK(reader.result == FL_MALFORMED);
		free(copy);
	}
	/* Nothing, the position, and each event but the last. */
	FL_CHECK(whole == N_SAMPLES + 1);
	fl_buf_free(&out);
}

static void
test_refused(void)
{
	static const uint8_t unknown[] = {200, 0, 0};
	static const uint8_t zero[] = {0};
	FlSessionReader reader;
	FlSessionEvent e;
	uint8_t		bytes[512];
	FlBuf		out;

	fl_session_reader_init(&reader, unknown, sizeof(unknown));
	FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_UNSUPPORTED);
	fl_session_reader_init(&reader, zero, sizeof(zero));
	FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_UNSUPPORTED);

	/* A message without a position to count from. */
	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	fl_session_encode_event(&out, &samples[3]);
	fl_session_reader_init(&reader, bytes, out.len);
	FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_MALFORMED);

	/* A position from which nothing can be counted. */
	FlSessionEvent far = at;

	far.log_offset = INT64_MAX - 3;
	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	fl_session_encode_event(&out, &far);
	fl_session_reader_init(&reader, bytes, out.len);
	FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_MALFORMED);

	/* A name may be as long as its length can say; one that is cut off is refused. */
	FlSessionEvent named = samples[0];
	uint8_t		long_name[255] = {'x'};

	named.name = long_name;
	named.name_len = 255;
	fl_buf_init_fixed(&out, bytes, sizeof(bytes));
	fl_session_encode_event(&out, &named);
	fl_session_reader_init(&reader, bytes, out.len);
	FL_CHECK(fl_session_next_event(&reader, &e) && e.name_len == FL_SESSION_NAME_MAX);
	FL_CHECK(memcmp(e.name, long_name, sizeof(long_name)) == 0);
	fl_session_reader_init(&reader, bytes, out.len - 1);
	FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_MALFORMED);
}

/* What no subscription and no bookmark can be. */
static void
test_refused_subscriptions(void)
{
	static const FlSessionEvent wrong[] = {
		{.type = FL_SESSION_SUBSCRIBED,.session = 1,.qos = 3,.text = (const uint8_t *) "a",.text_len = 1},
		{.type = FL_SESSION_SUBSCRIBED,.session = 1,.qos = 0x80,.text = (const uint8_t *) "a",.text_len = 1},
		{.type = FL_SESSION_SUBSCRIBED,.session = 1,.text = (const uint8_t *) "",.text_len = 0},
		{.type = FL_SESSION_UNSUBSCRIBED,.session = 1,.text = (const uint8_t *) "",.text_len = 0},
		{.type = FL_SESSION_BOOKMARK,.session = 1,.stream = 16400,.log_offset = -1},
		{.type = FL_SESSION_EXACT,.session = 1,.stream = 16400,.qos = 1},
		{.type = FL_SESSION_START,.session = 1,.stream = 16400,.text_len = 1,.log_offset = -1},
		{.type = FL_SESSION_START,.session = 1,.stream = 16400,.log_offset = 1},
		{.type = FL_SESSION_SUBSCRIBED,.session = 1,.position = 3,.text = (const uint8_t *) "a",.text_len = 1},
		{.type = FL_SESSION_SENT,.session = 1,.packet_id = 1,.qos = 1},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		uint8_t		bytes[64];
		FlBuf		out;
		FlSessionReader reader;
		FlSessionEvent e;

		fl_buf_init_fixed(&out, bytes, sizeof(bytes));
		fl_session_encode_event(&out, &wrong[i]);
		FL_CHECK(!out.failed);
		fl_session_reader_init(&reader, bytes, out.len);
		FL_CHECK(!fl_session_next_event(&reader, &e) && reader.result == FL_MALFORMED);
	}
}

static void
test_random_bytes(void)
{
	uint8_t		bytes[200];

	for (int round = 0; round < 20000; round++)
	{
		FlSessionReader reader;
		FlSessionEvent e;
		int			n = 0;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t) (i % 7 == 0 ? fl_unit_random() % 20 : fl_unit_random());
		fl_session_reader_init(&reader, bytes, fl_unit_random() % sizeof(bytes));
		while (fl_session_next_event(&reader, &e))
			n++;
		FL_CHECK(n <= (int) sizeof(bytes));
	}
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_round_trip);
	FL_RUN(test_size_and_distance);
	FL_RUN(test_cut_short);
	FL_RUN(test_refused);
	FL_RUN(test_refused_subscriptions);
	FL_RUN(test_random_bytes);
	return fl_unit_end();
}
