/*-------------------------------------------------------------------------
 *
 * test_pack.c
 *		The short form of a small batch in WAL gives the very bytes back that lie
 *		on the page, whatever the batch; it is short where it matters; and what is
 *		cut short or damaged is refused or harmless.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/cursor.h"
#include "fleetlog/log_pack.h"

#define EPOCH_MS	INT64_C(946684800000)
#define NOW			INT64_C(800000000123456)	/* 2025, with microseconds */
#define NOW_MS		(NOW / 1000 + EPOCH_MS)

/* A batch as it lies on a page, made from p; p->info.crc is kept. */
static size_t
make_page_bytes(const FlPacked *p, uint8_t *out)
{
	FlBatchHead head = p->head;
	uint8_t    *body = out + FL_HEAD_SIZE + head.sender_len;

	if (head.sender_len > 0)
		memcpy(out + FL_HEAD_SIZE, p->sender, head.sender_len);
	fl_batch_encode_header(body, &p->info);
	if (p->records_len > 0)
		memcpy(body + FL_BATCH_HEADER_SIZE, p->records, p->records_len);
	fl_head_encode(out, &head);
	head.crc = fl_head_crc(out, head.sender_len);
	fl_head_encode(out, &head);
	return head.length;
}

/* What lies in WAL: short form, sender, records. */
static size_t
make_wal_bytes(const FlPacked *p, uint8_t *out)
{
	size_t		n = fl_pack_encode(out, p);

	FL_CHECK(n <= FL_PACK_MAX);
	if (p->head.sender_len > 0)
		memcpy(out + n, p->sender, p->head.sender_len);
	n += p->head.sender_len;
	if (p->records_len > 0)
		memcpy(out + n, p->records, p->records_len);
	return n + p->records_len;
}

/* One record of a reading: the time of the append, no producer. */
static FlPacked
reading(const uint8_t *records, size_t len)
{
	FlPacked	p = {
		.shard = 3,.page_off = 500,.max_ts = NOW,
		.head = {
			.xmin = 4711,.version = FL_BATCH_VERSION,.first_item = 7,.append_ts = NOW,
			.min_created = INT64_MIN,.max_created = INT64_MIN
		},
		.info = {
			.base_offset = 123456789,.base_timestamp = FL_NO_TIMESTAMP,.max_timestamp = NOW_MS,
			.producer_id = FL_NO_PRODUCER_ID,.producer_epoch = FL_NO_PRODUCER_EPOCH,
			.base_sequence = FL_NO_SEQUENCE,.record_count = 1,.attributes = FL_BATCH_APPEND_TIME,
			.crc = 0xDEADBEEF
		},
		.records = records,.records_len = len
	};

	p.info.size = FL_BATCH_HEADER_SIZE + len;
	p.head.length = (uint32_t) (FL_HEAD_SIZE + p.info.size);
	return p;
}

static size_t
check_round_trip(const FlPacked *p)
{
	uint8_t		page[FL_PAGE_SIZE];
	uint8_t		wal[FL_PAGE_SIZE + FL_PACK_MAX];
	uint8_t		back[FL_PAGE_SIZE];
	size_t		page_len = make_page_bytes(p, page);
	size_t		wal_len = make_wal_bytes(p, wal);
	uint8_t    *exact = fl_unit_copy(wal, wal_len);
	FlPacked	q;

	FL_CHECK(fl_pack_decode(exact, wal_len, p->head.xmin, &q) == FL_OK);
	FL_CHECK_INT(q.shard, p->shard);
	FL_CHECK_INT(q.page_off, p->page_off);
	FL_CHECK(q.max_ts == p->max_ts);
	FL_CHECK_INT(q.head.length, page_len);
	FL_CHECK((q.flags & (FL_PACK_INIT_PAGE | FL_PACK_NO_DECODE)) == p->flags);
	if (q.head.length == page_len)
	{
		fl_pack_restore(&q, back);
		FL_CHECK(memcmp(back, page, page_len) == 0);
	}
	free(exact);
	return wal_len;
}

static void
test_a_reading_is_short(void)
{
	static const uint8_t records[200] = {1, 2, 3};
	FlPacked	p = reading(records, sizeof(records));

	FL_CHECK(check_round_trip(&p) - sizeof(records) <= 36);
	/* With a device's own time half a minute ago. */
	p.info.base_timestamp = p.head.min_created = p.head.max_created = NOW_MS - 30000;
	FL_CHECK(check_round_trip(&p) - sizeof(records) <= 36);
}

static void
test_a_producers_batch(void)
{
	static const uint8_t records[50] = {9};
	uint8_t		sender[64];
	FlPacked	p = reading(records, sizeof(records));

	p.head.sender_len = (uint16_t) fl_sender_encode(sender, "tenant", "device-17", NULL);
	p.sender = sender;
	p.head.length += p.head.sender_len;
	p.head.flags = FL_BATCH_FOREIGN;
	p.info.producer_id = 77;
	p.info.producer_epoch = 3;
	p.info.base_sequence = 12;
	check_round_trip(&p);
}

static int64_t
random_time(void)
{
	switch (fl_unit_random() % 6)
	{
		case 0:
			return FL_NO_TIMESTAMP;
		case 1:
			return INT64_MIN;
		case 2:
			return INT64_MAX;
		case 3:
			return NOW_MS;
		case 4:
			return (int64_t) fl_unit_random();
		default:
			return NOW_MS - (int64_t) (fl_unit_random() % 1000000);
	}
}

static void
test_anything_comes_back(void)
{
	uint8_t		records[300];
	uint8_t		sender[100];

	for (int i = 0; i < 20000; i++)
	{
		size_t		len = 7 + fl_unit_random() % (sizeof(records) - 7);
		FlPacked	p = reading(records, len);

		for (size_t j = 0; j < len; j++)
			records[j] = (uint8_t) fl_unit_random();
		p.flags = (uint8_t) (fl_unit_random() % 4);
		p.shard = (uint32_t) fl_unit_random() >> (fl_unit_random() % 32);
		p.page_off = (uint16_t) (FL_PAGE_HEADER_SIZE + fl_unit_random() % 7000);
		p.head.cmin = (uint32_t) fl_unit_random() >> (fl_unit_random() % 32);
		p.head.first_item = (uint16_t) (1 + fl_unit_random() % FL_ITEMS_PER_PAGE);
		p.head.append_ts = fl_unit_random() % 2 ? NOW : (int64_t) fl_unit_random();
		p.max_ts = fl_unit_random() % 2 ? p.head.append_ts : (int64_t) fl_unit_random();
		p.head.min_created = random_time();
		p.head.max_created = random_time();
		p.info.base_timestamp = random_time();
		p.info.max_timestamp = random_time();
		p.info.base_offset = (int64_t) (fl_unit_random() >> (1 + fl_unit_random() % 63));
		p.info.leader_epoch = (int32_t) fl_unit_random();
		p.info.record_count = 1 + (int32_t) (fl_unit_random() % 1000);
		p.info.last_offset_delta = p.info.record_count - 1;
		p.info.attributes = (uint16_t) (fl_unit_random() & 0xFFF8);
		p.info.codec = (FlCodec) (fl_unit_random() % 5);
		p.info.attributes |= (uint16_t) p.info.codec;
		if (fl_unit_random() % 2)
		{
			p.info.producer_id = (int64_t) fl_unit_random();
			p.info.producer_epoch = (int16_t) fl_unit_random();
			p.info.base_sequence = (int32_t) fl_unit_random();
		}
		if (fl_unit_random() % 2)
		{
			p.head.flags = FL_BATCH_FOREIGN;
			p.head.sender_len = (uint16_t) (fl_unit_random() % sizeof(sender));
			memset(sender, (int) fl_unit_random(), sizeof(sender));
			p.sender = sender;
			p.head.length += p.head.sender_len;
		}
		check_round_trip(&p);
	}
}

static void
test_cut_short(void)
{
	static const uint8_t records[40] = {1};
	FlPacked	p = reading(records, sizeof(records));
	uint8_t		wal[FL_PAGE_SIZE + FL_PACK_MAX];
	size_t		len = make_wal_bytes(&p, wal);
	FlPacked	q;

	for (size_t n = 0; n < len - sizeof(records); n++)
	{
		uint8_t    *exact = fl_unit_copy(wal, n);

		FL_CHECK(fl_pack_decode(exact, n, 1, &q) == FL_MALFORMED);
		free(exact);
	}
	/* A page that it would not fit. */
	p.page_off = FL_PAGE_DATA_END - 100;
	len = make_wal_bytes(&p, wal);
	FL_CHECK(fl_pack_decode(wal, len, 1, &q) == FL_MALFORMED);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_a_reading_is_short);
	FL_RUN(test_a_producers_batch);
	FL_RUN(test_anything_comes_back);
	FL_RUN(test_cut_short);
	return fl_unit_end();
}
