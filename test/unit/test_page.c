/*-------------------------------------------------------------------------
 *
 * test_page.c
 *		Segment pages: special space, batch heads, meta page, senders, and the
 *		golden file of format 1.0 (docs/formats.md).
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleetlog/cursor.h"
#include "fleetlog/log_format.h"
#include "fleetlog/record_batch.h"

static uint8_t page[FL_PAGE_SIZE];

/* What PageInit does, for the fields that the page code looks at. */
static void
init_page(FlPageKind kind)
{
	uint16_t	v = FL_PAGE_DATA_END;
	FlPageInfo	info = {.kind = kind,.npages = 1,.first_block = 7,.first_offset = 100,.max_ts = 5};

	memset(page, 0, sizeof(page));
	memcpy(page + 14, &v, 2);	/* pd_upper */
	memcpy(page + 16, &v, 2);	/* pd_special */
	fl_page_set_lower(page, FL_PAGE_HEADER_SIZE);
	fl_page_write_special(page, &info);
}

/* One batch of n records behind what is there; returns where its head lies. */
static uint32_t
add_batch(int64_t base, int n, uint16_t item, uint8_t flags)
{
	FlBatchBuilder b;
	FlBuf		out;
	FlBatchHead head = {0};
	uint32_t	at = fl_page_lower(page);

	fl_batch_builder_init(&b, &fl_malloc_allocator, 1 << 20);
	fl_buf_init(&out, &fl_malloc_allocator, 1 << 20);
	b.base_offset = base;
	for (int i = 0; i < n; i++)
		FL_CHECK(fl_batch_builder_add(&b, 1000 + i, (const uint8_t *) "k", 1,
										(const uint8_t *) "value", 5, 0, NULL, 0) == FL_OK);
	FL_CHECK(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out) == FL_OK);
	head.length = FL_HEAD_SIZE + (uint32_t) out.len;
	head.xmin = 1234;
	head.cmin = 5;
	head.flags = flags;
	head.version = FL_BATCH_VERSION;
	head.first_item = item;
	head.append_ts = 77;
	head.min_created = 1000;
	head.max_created = 1000 + n - 1;
	memcpy(page + at + FL_HEAD_SIZE, out.data, out.len);
	fl_head_encode(page + at, &head);
	head.crc = fl_head_crc(page + at, 0);
	fl_head_encode(page + at, &head);
	fl_page_set_lower(page, (uint16_t) (at + head.length));
	fl_buf_free(&out);
	fl_batch_builder_free(&b);
	return at;
}

static void
test_special(void)
{
	FlPageInfo	info;

	memset(page, 0, sizeof(page));
	FL_CHECK_INT(fl_page_read(page, &info), FL_OK);
	FL_CHECK_INT(info.kind, FL_PAGE_NEW);
	init_page(FL_PAGE_BATCHES);
	FL_CHECK_INT(fl_page_read(page, &info), FL_OK);
	FL_CHECK_INT(info.kind, FL_PAGE_BATCHES);
	FL_CHECK_INT(info.first_block, 7);
	FL_CHECK_INT(info.first_offset, 100);
	FL_CHECK_INT(info.max_ts, 5);

	/* A CONT page must say where it stands in its batch. */
	init_page(FL_PAGE_CONT);
	FL_CHECK_INT(fl_page_read(page, &info), FL_MALFORMED);
	/* Another major is refused as such, not as damage. */
	init_page(FL_PAGE_BATCHES);
	page[FL_PAGE_DATA_END + 2] = 9;
	FL_CHECK_INT(fl_page_read(page, &info), FL_UNSUPPORTED);
	init_page(FL_PAGE_BATCHES);
	page[FL_PAGE_DATA_END] = 77;
	FL_CHECK_INT(fl_page_read(page, &info), FL_MALFORMED);
	init_page(FL_PAGE_BATCHES);
	fl_page_set_lower(page, FL_PAGE_DATA_END + 1);
	FL_CHECK_INT(fl_page_read(page, &info), FL_MALFORMED);
}

static void
test_batches(void)
{
	FlPageInfo	info;
	FlBatchHead head;
	uint32_t	pos = 0,
				at,
				first,
				second;

	init_page(FL_PAGE_BATCHES);
	first = add_batch(100, 3, 1, 0);
	second = add_batch(103, 1, 4, FL_BATCH_DEAD);
	FL_REQUIRE(fl_page_read(page, &info) == FL_OK);
	FL_CHECK_INT(fl_page_next_batch(page, &info, &pos, &at, &head), FL_OK);
	FL_CHECK_INT(at, first);
	FL_CHECK_INT(head.first_item, 1);
	FL_CHECK_INT(head.xmin, 1234);
	FL_CHECK_INT(fl_page_next_batch(page, &info, &pos, &at, &head), FL_OK);
	FL_CHECK_INT(at, second);
	FL_CHECK_INT(head.flags, FL_BATCH_DEAD);
	FL_CHECK_INT(fl_page_next_batch(page, &info, &pos, &at, &head), FL_INCOMPLETE);

	/* Marking dead, and another xmin, keep the checksum good; all else does not. */
	for (uint32_t i = 0; i < FL_HEAD_SIZE + FL_BODY_PREFIX; i++)
	{
		bool		free_byte = (i >= FL_HEAD_XMIN && i < FL_HEAD_VERSION);
		FlResult	res;

		page[first + i] ^= 0x10;
		res = fl_head_decode(page + first, info.lower - first, false, &head);
		if (free_byte)
			FL_CHECK(res == FL_OK);
		else
			FL_CHECK(res != FL_OK);
		page[first + i] ^= 0x10;
	}
	/* A length that leaves the page is not followed. */
	fl_put_le32(page + second, 100000);
	pos = second;
	FL_CHECK(fl_page_next_batch(page, &info, &pos, &at, &head) != FL_OK);
}

static void
test_meta(void)
{
	FlMeta		in = {.shard = 3,.flags = FL_META_SEALED,.base_offset = INT64_C(1) << 40,.frozen_upto = 99},
				out;

	init_page(FL_PAGE_META);
	fl_meta_encode(page, &in);
	FL_CHECK_INT(fl_meta_decode(page, &out), FL_OK);
	FL_CHECK_INT(out.shard, 3);
	FL_CHECK_INT(out.base_offset, INT64_C(1) << 40);
	FL_CHECK_INT(out.frozen_upto, 99);
	FL_CHECK_INT(out.flags, FL_META_SEALED);
	for (int i = 0; i < FL_META_SIZE; i++)
	{
		page[FL_PAGE_HEADER_SIZE + i] ^= 1;
		FL_CHECK(fl_meta_decode(page, &out) != FL_OK);
		page[FL_PAGE_HEADER_SIZE + i] ^= 1;
	}
}

static void
test_sender(void)
{
	uint8_t		buf[64];
	FlSender	s;
	size_t		n = fl_sender_encode(buf, "plant", NULL, NULL);

	FL_CHECK_INT(n, 9);
	FL_CHECK_INT(n, fl_sender_size("plant", NULL, NULL));
	FL_CHECK_INT(fl_sender_decode(buf, n, &s), FL_OK);
	FL_CHECK_INT(s.tenant_len, 5);
	FL_CHECK(memcmp(s.tenant, "plant", 5) == 0);
	FL_CHECK_INT(s.device_len, -1);
	FL_CHECK(s.role == NULL);
	FL_CHECK_INT(s.role_len, -1);
	for (size_t i = 0; i < n; i++)
		FL_CHECK_INT(fl_sender_decode(buf, i, &s), FL_MALFORMED);
	buf[n] = 0;
	FL_CHECK_INT(fl_sender_decode(buf, n + 1, &s), FL_MALFORMED);
	/* A role that is not there is left out, not said to be NULL. */
	memset(buf + n, 0xFF, 2);
	FL_CHECK_INT(fl_sender_decode(buf, n + 2, &s), FL_MALFORMED);
}

static void
test_sender_with_role(void)
{
	uint8_t		buf[64];
	FlSender	s;
	size_t		n = fl_sender_encode(buf, NULL, NULL, "dash");

	FL_CHECK_INT(n, fl_sender_size(NULL, NULL, "dash"));
	FL_CHECK_INT(fl_sender_decode(buf, n, &s), FL_OK);
	FL_CHECK(s.tenant == NULL && s.device == NULL);
	FL_CHECK_INT(s.role_len, 4);
	FL_CHECK(memcmp(s.role, "dash", 4) == 0);
	/* Without the role it is the sender of an anonymous client. */
	for (size_t i = 0; i < n; i++)
		FL_CHECK_INT(fl_sender_decode(buf, i, &s), i == 4 ? FL_OK : FL_MALFORMED);
	FL_CHECK_INT(fl_sender_decode(buf, n + 1, &s), FL_MALFORMED);
}

static void
test_pages_of_batch(void)
{
	FL_CHECK_INT(fl_batch_pages(100, 1), 1);
	FL_CHECK_INT(fl_batch_pages(FL_PAGE_CAPACITY, 291), 1);
	FL_CHECK_INT(fl_batch_pages(FL_PAGE_CAPACITY + 1, 1), 2);
	/* Items are numbered 291 to a page, however few bytes they take. */
	FL_CHECK_INT(fl_batch_pages(100, 292), 2);
	FL_CHECK_INT(fl_batch_pages(8000, 2048), 8);
}

/* ---- the golden file ------------------------------------------------------------- */

typedef struct Totals
{
	int			batches;
	int			dead;
	int			spanning;
	int64_t		records;
	int64_t		next;			/* offset expected next */
	bool		dense;
} Totals;

static void
count_batch(Totals *t, const uint8_t *bytes, const FlBatchHead *head)
{
	const uint8_t *body = bytes + FL_HEAD_SIZE + head->sender_len;
	size_t		len = head->length - FL_HEAD_SIZE - head->sender_len;
	FlBatchInfo info;
	FlBuf		raw;
	const uint8_t *records;
	size_t		records_len;
	FlCompressor *c = fl_compressor_create(3);
	FlRecordIter it;
	FlRecord	r;

	t->batches++;
	if (head->flags & FL_BATCH_DEAD)
		t->dead++;
	fl_buf_init(&raw, &fl_malloc_allocator, 1 << 24);
	FL_CHECK_INT(fl_batch_verify(body, len), FL_OK);
	FL_REQUIRE(fl_batch_decode_header(body, len, &info) == FL_OK);
	FL_REQUIRE(fl_batch_inflate(&info, body, len, c, 1 << 24, &raw, &records, &records_len) == FL_OK);
	fl_record_iter_init(&it, &info, records, records_len);
	while (fl_record_iter_next(&it, &r))
		if (!(head->flags & FL_BATCH_DEAD))
		{
			t->dense = t->dense && info.base_offset + r.offset_delta == t->next;
			t->next++;
			t->records++;
		}
	FL_CHECK_INT(it.result, FL_OK);
	fl_buf_free(&raw);
	fl_compressor_free(c);
}

static void
walk_segment(const uint8_t *file, size_t nblocks, Totals *t)
{
	for (size_t blk = 1; blk < nblocks; blk++)
	{
		const uint8_t *p = file + blk * FL_PAGE_SIZE;
		FlPageInfo	info;
		FlBatchHead head;
		uint32_t	pos = 0,
					at;

		FL_REQUIRE(fl_page_read(p, &info) == FL_OK);
		if (info.kind == FL_PAGE_BATCHES)
		{
			while (fl_page_next_batch(p, &info, &pos, &at, &head) == FL_OK)
				count_batch(t, p + at, &head);
		}
		else if (info.kind == FL_PAGE_FIRST)
		{
			uint8_t    *all;
			uint32_t	n = 0;

			FL_REQUIRE(fl_head_decode(p + FL_PAGE_HEADER_SIZE, FL_PAGE_CAPACITY, true, &head) == FL_OK);
			all = malloc(head.length);
			for (uint32_t i = 0; i < info.npages && n < head.length; i++)
			{
				uint32_t	here = head.length - n < FL_PAGE_CAPACITY ? head.length - n : FL_PAGE_CAPACITY;

				memcpy(all + n, p + i * FL_PAGE_SIZE + FL_PAGE_HEADER_SIZE, here);
				n += here;
			}
			t->spanning++;
			count_batch(t, all, &head);
			free(all);
		}
	}
}

/* A segment that release 0.1 wrote must be read by every later one. */
static void
test_golden(void)
{
	FILE	   *f = fopen("../golden/segment-1.0", "rb");
	static uint8_t file[64 * FL_PAGE_SIZE];
	size_t		n;
	FlPageInfo	info;
	FlMeta		meta;
	Totals		t = {.dense = true};

	FL_REQUIRE(f != NULL);
	n = fread(file, 1, sizeof(file), f);
	fclose(f);
	FL_REQUIRE(n > 0 && n % FL_PAGE_SIZE == 0);
	FL_REQUIRE(fl_page_read(file, &info) == FL_OK && info.kind == FL_PAGE_META);
	FL_REQUIRE(fl_meta_decode(file, &meta) == FL_OK);
	FL_CHECK_INT(meta.major, 1);
	FL_CHECK_INT(meta.minor, 0);
	FL_CHECK_INT(meta.shard, 0);
	FL_CHECK_INT(meta.base_offset, 0);
	walk_segment(file, n / FL_PAGE_SIZE, &t);
	FL_CHECK(t.dense);
	FL_CHECK_INT(t.records, 612);
	FL_CHECK_INT(t.dead, 2);
	FL_CHECK(t.spanning >= 2);
	FL_CHECK(t.batches > 10);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_special);
	FL_RUN(test_batches);
	FL_RUN(test_meta);
	FL_RUN(test_sender);
	FL_RUN(test_sender_with_role);
	FL_RUN(test_pages_of_batch);
	FL_RUN(test_golden);
	return fl_unit_end();
}
