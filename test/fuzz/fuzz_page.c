/*-------------------------------------------------------------------------
 *
 * fuzz_page.c
 *		A segment page from a damaged disk: no read beyond it, no endless walk.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/log_format.h"
#include "fleetlog/record_batch.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	FILE	   *f = fopen("../golden/segment-1.0", "rb");
	uint8_t		page[FL_PAGE_SIZE];
	char		name[32];

	(void) argc;
	(void) argv;

	/* Every page of the golden segment is a seed. */
	for (int i = 0; f && fread(page, 1, sizeof(page), f) == sizeof(page); i++)
	{
		snprintf(name, sizeof(name), "page-%d", i);
		fl_fuzz_seed(name, page, sizeof(page));
	}
	if (f)
		fclose(f);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Its own allocation, so that the sanitizer sees one byte too far. */
	uint8_t    *page = calloc(1, FL_PAGE_SIZE);
	FlPageInfo	info;
	FlBatchHead head;
	FlMeta		meta;
	uint32_t	pos = 0,
				at;
	int			n = 0;

	memcpy(page, data, size < FL_PAGE_SIZE ? size : FL_PAGE_SIZE);
	if (fl_page_read(page, &info) == FL_OK)
	{
		if (info.kind == FL_PAGE_META)
			(void) fl_meta_decode(page, &meta);
		if (info.kind == FL_PAGE_FIRST)
			(void) fl_head_decode(page + FL_PAGE_HEADER_SIZE, info.lower - FL_PAGE_HEADER_SIZE, true, &head);
		if (info.kind == FL_PAGE_BATCHES)
			while (fl_page_next_batch(page, &info, &pos, &at, &head) == FL_OK)
			{
				FlBatchInfo batch;

				FL_FUZZ_ASSERT(at + head.length <= info.lower);
				FL_FUZZ_ASSERT(++n < FL_PAGE_SIZE);
				(void) fl_batch_decode_header(page + at + FL_HEAD_SIZE + head.sender_len,
											  head.length - FL_HEAD_SIZE - head.sender_len, &batch);
				(void) fl_batch_verify(page + at + FL_HEAD_SIZE + head.sender_len,
									   head.length - FL_HEAD_SIZE - head.sender_len);
			}
	}
	free(page);
	return 0;
}
