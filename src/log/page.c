/*-------------------------------------------------------------------------
 *
 * page.c
 *		Reading and writing the bytes of segment pages (log_format.h).
 *
 * No server code: the unit tests and the fuzzer compile this file alone.  All
 * reads are bounds-checked, because a page may come from a damaged disk; what
 * makes no sense is FL_MALFORMED and the caller names the block.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/log_format.h"

#include <string.h>

#include "fleetlog/crc32c.h"
#include "fleetlog/cursor.h"
#include "fleetlog/record_batch.h"

/* Offsets inside the special space. */
#define SP_KIND			0
#define SP_VERSION		2
#define SP_PAGE_NO		4
#define SP_FIRST_BLOCK	8
#define SP_NPAGES		12
#define SP_FIRST_OFFSET	16
#define SP_MAX_TS		24

/* Offsets inside PostgreSQL's PageHeaderData; native-endian there. */
#define PH_LOWER		12
#define PH_SPECIAL		16

uint16_t
fl_page_lower(const uint8_t *page)
{
	uint16_t	v;

	memcpy(&v, page + PH_LOWER, sizeof(v));
	return v;
}

void
fl_page_set_lower(uint8_t *page, uint16_t lower)
{
	memcpy(page + PH_LOWER, &lower, sizeof(lower));
}

static bool
page_is_zero(const uint8_t *page)
{
	/* PostgreSQL's own test for a new page: pd_upper is 0. */
	return page[14] == 0 && page[15] == 0;
}

FlResult
fl_page_read(const uint8_t *page, FlPageInfo *info)
{
	const uint8_t *sp = page + FL_PAGE_DATA_END;
	uint16_t	special;

	memset(info, 0, sizeof(*info));
	if (page_is_zero(page))
		return FL_OK;
	memcpy(&special, page + PH_SPECIAL, sizeof(special));
	if (special != FL_PAGE_DATA_END)
		return FL_MALFORMED;
	info->kind = (FlPageKind) fl_get_le16(sp + SP_KIND);
	info->version = fl_get_le16(sp + SP_VERSION);
	info->page_no = fl_get_le32(sp + SP_PAGE_NO);
	info->first_block = fl_get_le32(sp + SP_FIRST_BLOCK);
	info->npages = fl_get_le32(sp + SP_NPAGES);
	info->first_offset = (int64_t) fl_get_le64(sp + SP_FIRST_OFFSET);
	info->max_ts = (int64_t) fl_get_le64(sp + SP_MAX_TS);
	info->lower = fl_page_lower(page);
	if (info->version != FL_FORMAT_MAJOR)
		return FL_UNSUPPORTED;
	if (info->lower < FL_PAGE_HEADER_SIZE || info->lower > FL_PAGE_DATA_END)
		return FL_MALFORMED;
	switch (info->kind)
	{
		case FL_PAGE_META:
		case FL_PAGE_BATCHES:
			return FL_OK;
		case FL_PAGE_FIRST:
			return info->page_no == 0 && info->npages >= 1 ? FL_OK : FL_MALFORMED;
		case FL_PAGE_CONT:
			return info->page_no > 0 && info->page_no < info->npages ? FL_OK : FL_MALFORMED;
		case FL_PAGE_NEW:
			break;
	}
	return FL_MALFORMED;
}

void
fl_page_write_special(uint8_t *page, const FlPageInfo *info)
{
	uint8_t    *sp = page + FL_PAGE_DATA_END;

	fl_put_le16(sp + SP_KIND, (uint16_t) info->kind);
	fl_put_le16(sp + SP_VERSION, FL_FORMAT_MAJOR);
	fl_put_le32(sp + SP_PAGE_NO, info->page_no);
	fl_put_le32(sp + SP_FIRST_BLOCK, info->first_block);
	fl_put_le32(sp + SP_NPAGES, info->npages);
	fl_put_le64(sp + SP_FIRST_OFFSET, (uint64_t) info->first_offset);
	fl_put_le64(sp + SP_MAX_TS, (uint64_t) info->max_ts);
}

void
fl_head_encode(uint8_t *p, const FlBatchHead *head)
{
	fl_put_le32(p + FL_HEAD_LENGTH, head->length);
	fl_put_le32(p + FL_HEAD_XMIN, head->xmin);
	fl_put_le32(p + FL_HEAD_CMIN, head->cmin);
	p[FL_HEAD_FLAGS] = head->flags;
	p[FL_HEAD_VERSION] = head->version;
	fl_put_le16(p + FL_HEAD_FIRST_ITEM, head->first_item);
	fl_put_le64(p + FL_HEAD_APPEND_TS, (uint64_t) head->append_ts);
	fl_put_le64(p + FL_HEAD_MIN_CREATED, (uint64_t) head->min_created);
	fl_put_le64(p + FL_HEAD_MAX_CREATED, (uint64_t) head->max_created);
	fl_put_le16(p + FL_HEAD_SENDER_LEN, head->sender_len);
	fl_put_le16(p + FL_HEAD_RESERVED, 0);
	fl_put_le32(p + FL_HEAD_CRC, head->crc);
}

FlResult
fl_head_decode(const uint8_t *p, size_t avail, bool spans, FlBatchHead *head)
{
	uint32_t	fixed;

	if (avail < FL_HEAD_SIZE)
		return FL_MALFORMED;
	head->length = fl_get_le32(p + FL_HEAD_LENGTH);
	head->xmin = fl_get_le32(p + FL_HEAD_XMIN);
	head->cmin = fl_get_le32(p + FL_HEAD_CMIN);
	head->flags = p[FL_HEAD_FLAGS];
	head->version = p[FL_HEAD_VERSION];
	head->first_item = fl_get_le16(p + FL_HEAD_FIRST_ITEM);
	head->append_ts = (int64_t) fl_get_le64(p + FL_HEAD_APPEND_TS);
	head->min_created = (int64_t) fl_get_le64(p + FL_HEAD_MIN_CREATED);
	head->max_created = (int64_t) fl_get_le64(p + FL_HEAD_MAX_CREATED);
	head->sender_len = fl_get_le16(p + FL_HEAD_SENDER_LEN);
	head->crc = fl_get_le32(p + FL_HEAD_CRC);
	if (head->version != FL_BATCH_VERSION)
		return FL_UNSUPPORTED;
	fixed = FL_HEAD_SIZE + head->sender_len + FL_BATCH_HEADER_SIZE;
	if (head->length < fixed || head->length > FL_MAX_BATCH_BYTES || avail < fixed)
		return FL_MALFORMED;
	if (!spans && head->length > avail)
		return FL_MALFORMED;
	if (head->first_item < 1 || head->first_item > FL_ITEMS_PER_PAGE)
		return FL_MALFORMED;
	if (head->crc != fl_head_crc(p, head->sender_len))
		return FL_MALFORMED;
	return FL_OK;
}

uint32_t
fl_head_crc(const uint8_t *p, uint16_t sender_len)
{
	uint32_t	crc = fl_crc32c_begin();

	crc = fl_crc32c_add(crc, p + FL_HEAD_LENGTH, FL_HEAD_XMIN - FL_HEAD_LENGTH);
	crc = fl_crc32c_add(crc, p + FL_HEAD_VERSION, FL_HEAD_CRC - FL_HEAD_VERSION);
	crc = fl_crc32c_add(crc, p + FL_HEAD_SIZE, (size_t) sender_len + FL_BODY_PREFIX);
	return fl_crc32c_end(crc);
}

FlResult
fl_page_next_batch(const uint8_t *page, const FlPageInfo *info,
				   uint32_t *pos, uint32_t *at, FlBatchHead *head)
{
	FlResult	res;

	if (*pos == 0)
		*pos = FL_PAGE_HEADER_SIZE;
	if (*pos >= info->lower)
		return FL_INCOMPLETE;
	res = fl_head_decode(page + *pos, info->lower - *pos, false, head);
	if (res != FL_OK)
		return res;
	*at = *pos;
	*pos += head->length;
	return FL_OK;
}

void
fl_meta_encode(uint8_t *page, const FlMeta *meta)
{
	uint8_t    *p = page + FL_PAGE_HEADER_SIZE;

	fl_put_le32(p + FL_META_MAGIC, FL_FORMAT_MAGIC);
	fl_put_le16(p + FL_META_MAJOR, FL_FORMAT_MAJOR);
	fl_put_le16(p + FL_META_MINOR, FL_FORMAT_MINOR);
	fl_put_le32(p + FL_META_SHARD, meta->shard);
	fl_put_le32(p + FL_META_FLAGS, meta->flags);
	fl_put_le64(p + FL_META_BASE, (uint64_t) meta->base_offset);
	fl_put_le32(p + FL_META_FROZEN, meta->frozen_upto);
	fl_put_le32(p + FL_META_RESERVED, 0);
	fl_put_le32(p + FL_META_CRC, fl_crc32c(p, FL_META_CRC));
	fl_page_set_lower(page, FL_PAGE_HEADER_SIZE + FL_META_SIZE);
}

FlResult
fl_meta_decode(const uint8_t *page, FlMeta *meta)
{
	const uint8_t *p = page + FL_PAGE_HEADER_SIZE;

	if (fl_get_le32(p + FL_META_MAGIC) != FL_FORMAT_MAGIC)
		return FL_MALFORMED;
	meta->major = fl_get_le16(p + FL_META_MAJOR);
	meta->minor = fl_get_le16(p + FL_META_MINOR);
	if (meta->major != FL_FORMAT_MAJOR)
		return FL_UNSUPPORTED;
	if (fl_get_le32(p + FL_META_CRC) != fl_crc32c(p, FL_META_CRC))
		return FL_MALFORMED;
	meta->shard = fl_get_le32(p + FL_META_SHARD);
	meta->flags = fl_get_le32(p + FL_META_FLAGS);
	meta->base_offset = (int64_t) fl_get_le64(p + FL_META_BASE);
	meta->frozen_upto = fl_get_le32(p + FL_META_FROZEN);
	return FL_OK;
}

static size_t
sender_part_encode(uint8_t *p, const char *s)
{
	size_t		len;

	if (s == NULL)
	{
		fl_put_le16(p, 0xFFFF);
		return 2;
	}
	len = strlen(s);
	fl_put_le16(p, (uint16_t) len);
	memcpy(p + 2, s, len);
	return len + 2;
}

size_t
fl_sender_encode(uint8_t *p, const char *tenant, const char *device, const char *role)
{
	size_t		n = sender_part_encode(p, tenant);

	n += sender_part_encode(p + n, device);
	return role ? n + sender_part_encode(p + n, role) : n;
}

size_t
fl_sender_size(const char *tenant, const char *device, const char *role)
{
	return 4 + (tenant ? strlen(tenant) : 0) + (device ? strlen(device) : 0) +
		(role ? 2 + strlen(role) : 0);
}

static bool
sender_part_decode(const uint8_t **p, const uint8_t *end, const uint8_t **s, int32_t *len)
{
	uint16_t	n;

	if (end - *p < 2)
		return false;
	n = fl_get_le16(*p);
	*p += 2;
	if (n == 0xFFFF)
	{
		*s = NULL;
		*len = -1;
		return true;
	}
	if (end - *p < n)
		return false;
	*s = *p;
	*len = n;
	*p += n;
	return true;
}

FlResult
fl_sender_decode(const uint8_t *p, size_t len, FlSender *sender)
{
	const uint8_t *end = p + len;

	sender->role = NULL;
	sender->role_len = -1;
	if (!sender_part_decode(&p, end, &sender->tenant, &sender->tenant_len) ||
		!sender_part_decode(&p, end, &sender->device, &sender->device_len))
		return FL_MALFORMED;
	/* NULL is said by leaving it out, so that each sender has one form. */
	if (p != end && (!sender_part_decode(&p, end, &sender->role, &sender->role_len) ||
					 sender->role == NULL))
		return FL_MALFORMED;
	return p == end ? FL_OK : FL_MALFORMED;
}

uint32_t
fl_batch_pages(uint32_t length, uint32_t count)
{
	uint32_t	by_bytes = (length + FL_PAGE_CAPACITY - 1) / FL_PAGE_CAPACITY;
	uint32_t	by_items = (count + FL_ITEMS_PER_PAGE - 1) / FL_ITEMS_PER_PAGE;

	return by_bytes > by_items ? by_bytes : by_items;
}
