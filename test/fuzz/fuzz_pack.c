/*-------------------------------------------------------------------------
 *
 * fuzz_pack.c
 *		The short form of a small batch in WAL, from any bytes: decoding stays
 *		within them, and what it accepts fits its page.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/log_pack.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const uint8_t records[20] = {1};
	uint8_t		bytes[FL_PACK_MAX + sizeof(records)];
	FlPacked	p = {
		.shard = 1,.page_off = 24,.head = {.version = FL_BATCH_VERSION,.first_item = 1},
		.info = {.record_count = 1,.producer_id = FL_NO_PRODUCER_ID,.producer_epoch = -1,.base_sequence = -1}
	};
	size_t		n = fl_pack_encode(bytes, &p);

	(void) argc;
	(void) argv;
	memcpy(bytes + n, records, sizeof(records));
	fl_fuzz_seed("pack", bytes, n + sizeof(records));
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlPacked	p;

	if (fl_pack_decode(data, size, 7, &p) == FL_OK)
	{
		uint8_t    *out = malloc(p.head.length);
		FlBatchHead head;
		FlPacked	again;
		uint8_t		packed[FL_PACK_MAX];

		FL_FUZZ_ASSERT(p.page_off + p.head.length <= FL_PAGE_DATA_END);
		fl_pack_restore(&p, out);
		if (p.head.first_item > 0)
			FL_FUZZ_ASSERT(fl_head_decode(out, p.head.length, false, &head) == FL_OK);
		again = p;
		FL_FUZZ_ASSERT(fl_pack_encode(packed, &again) <= FL_PACK_MAX);
		free(out);
	}
	return 0;
}
