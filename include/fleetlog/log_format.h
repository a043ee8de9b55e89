/*-------------------------------------------------------------------------
 *
 * log_format.h
 *		The on-disk format of a fleetlog_log segment, told in full in
 *		docs/formats.md.  This header and src/log/page.c know nothing of the
 *		server, so that the page code is unit-tested and fuzzed alone.
 *
 * A segment's main fork is an array of 8 KiB pages.  Block 0 is the meta page.
 * Every other page is one of
 *
 *		BATCHES		several small batches, one behind the other
 *		FIRST		the first page of one batch that spans `npages` pages
 *		CONT		a further page of it
 *		(all zero)	extended but never written: skipped by everybody
 *
 * A batch is a head (FL_HEAD_SIZE bytes), the sender of a foreign batch, and a
 * Kafka record batch v2.  Fields are little-endian at fixed byte offsets: no
 * struct is ever written as it lies in memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_FORMAT_H
#define FLEETLOG_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/result.h"

#define FL_FORMAT_MAGIC			0x474C4C46u /* "FLLG" */
#define FL_FORMAT_MAJOR			1	/* another major is refused by name */
#define FL_FORMAT_MINOR			0	/* readers accept any minor */

#define FL_PAGE_SIZE			8192
#define FL_PAGE_HEADER_SIZE		24	/* PageHeaderData */
#define FL_PAGE_SPECIAL_SIZE	32
#define FL_PAGE_DATA_END		(FL_PAGE_SIZE - FL_PAGE_SPECIAL_SIZE)
#define FL_PAGE_CAPACITY		(FL_PAGE_DATA_END - FL_PAGE_HEADER_SIZE)

/* ItemPointer offsets run from 1 to 291 in every heap-like table (8 KiB pages). */
#define FL_ITEMS_PER_PAGE		291

/* Largest batch that the format takes, head and sender included. */
#define FL_MAX_BATCH_BYTES		(256u * 1024 * 1024)

typedef enum FlPageKind
{
	FL_PAGE_NEW = 0,
	FL_PAGE_META = 1,
	FL_PAGE_BATCHES = 2,
	FL_PAGE_FIRST = 3,
	FL_PAGE_CONT = 4
} FlPageKind;

/* The special space of a page, and how far its data reaches. */
typedef struct FlPageInfo
{
	FlPageKind	kind;
	uint16_t	version;		/* of the page layout: FL_FORMAT_MAJOR */
	uint32_t	page_no;		/* of a spanning batch: 0 on FIRST */
	uint32_t	first_block;	/* of a spanning batch, else this block */
	uint32_t	npages;			/* of a spanning batch, else 1 */
	int64_t		first_offset;	/* of the first record on the page (of the batch) */
	int64_t		max_ts;			/* largest append time up to and with this page */
	uint16_t	lower;			/* data is [FL_PAGE_HEADER_SIZE, lower) */
} FlPageInfo;

/* Batch head: byte offsets. */
#define FL_HEAD_LENGTH			0	/* u32: head + sender + body */
#define FL_HEAD_XMIN			4	/* u32: inserting (sub)transaction */
#define FL_HEAD_CMIN			8	/* u32: its command */
#define FL_HEAD_FLAGS			12	/* u8 */
#define FL_HEAD_VERSION			13	/* u8 */
#define FL_HEAD_FIRST_ITEM		14	/* u16: number of the first record on the page */
#define FL_HEAD_APPEND_TS		16	/* i64: microseconds since 2000-01-01 UTC */
#define FL_HEAD_MIN_CREATED		24	/* i64: ms since 1970, INT64_MIN if none */
#define FL_HEAD_MAX_CREATED		32	/* i64 */
#define FL_HEAD_SENDER_LEN		40	/* u16 */
#define FL_HEAD_RESERVED		42	/* u16: 0 */
#define FL_HEAD_CRC				44	/* u32: CRC-32C, see fl_head_crc */
#define FL_HEAD_SIZE			48

#define FL_BATCH_VERSION		1

#define FL_BATCH_DEAD			0x01	/* its transaction aborted; offsets are reused */
#define FL_BATCH_FOREIGN		0x02	/* a producer's own batch: sender follows the head */

/* Bytes of the body that our CRC covers; Kafka's own CRC covers the rest. */
#define FL_BODY_PREFIX			21

typedef struct FlBatchHead
{
	uint32_t	length;
	uint32_t	xmin;
	uint32_t	cmin;
	uint8_t		flags;
	uint8_t		version;
	uint16_t	first_item;
	int64_t		append_ts;
	int64_t		min_created;
	int64_t		max_created;
	uint16_t	sender_len;
	uint32_t	crc;
} FlBatchHead;

/* The meta page's content, at FL_PAGE_HEADER_SIZE: byte offsets. */
#define FL_META_MAGIC			0	/* u32 */
#define FL_META_MAJOR			4	/* u16 */
#define FL_META_MINOR			6	/* u16 */
#define FL_META_SHARD			8	/* u32 */
#define FL_META_FLAGS			12	/* u32: FL_META_SEALED */
#define FL_META_BASE			16	/* i64: offset of the segment's first batch */
#define FL_META_FROZEN			24	/* u32: batches on blocks below are committed unless dead */
#define FL_META_RESERVED		28	/* u32: 0 */
#define FL_META_CRC				32	/* u32: CRC-32C of the bytes before */
#define FL_META_SIZE			36

#define FL_META_SEALED			0x01

typedef struct FlMeta
{
	uint16_t	major;
	uint16_t	minor;
	uint32_t	shard;
	uint32_t	flags;
	int64_t		base_offset;
	uint32_t	frozen_upto;
} FlMeta;

/*
 * Read the special space; checks kind, version and bounds.  An all-zero page
 * is FL_OK with kind FL_PAGE_NEW.
 */
extern FlResult fl_page_read(const uint8_t *page, FlPageInfo *info);

/* Write the special space of an initialised page (not pd_lower). */
extern void fl_page_write_special(uint8_t *page, const FlPageInfo *info);

extern uint16_t fl_page_lower(const uint8_t *page);
extern void fl_page_set_lower(uint8_t *page, uint16_t lower);

/* Head codec; decode checks lengths against `avail` only when spans is false. */
extern void fl_head_encode(uint8_t *p, const FlBatchHead *head);
extern FlResult fl_head_decode(const uint8_t *p, size_t avail, bool spans, FlBatchHead *head);

/*
 * CRC over the head without xmin, cmin, flags and itself, the sender, and the
 * first FL_BODY_PREFIX bytes of the body.  `p` points at the head; head, sender
 * and body prefix are contiguous.
 */
extern uint32_t fl_head_crc(const uint8_t *p, uint16_t sender_len);

/*
 * Step through the batches of a BATCHES page.  *pos starts at 0; returns FL_OK
 * with *at = byte offset of the head in the page, FL_INCOMPLETE at the end,
 * FL_MALFORMED when the page makes no sense (the CRC of each head is checked).
 */
extern FlResult fl_page_next_batch(const uint8_t *page, const FlPageInfo *info,
								   uint32_t *pos, uint32_t *at, FlBatchHead *head);

extern void fl_meta_encode(uint8_t *page, const FlMeta *meta);
extern FlResult fl_meta_decode(const uint8_t *page, FlMeta *meta);

/* Who sent a foreign batch, borrowed from its bytes.  NULL and -1: none. */
typedef struct FlSender
{
	const uint8_t *tenant;
	const uint8_t *device;
	const uint8_t *role;
	int32_t		tenant_len;
	int32_t		device_len;
	int32_t		role_len;
} FlSender;

/*
 * Sender codec: u16 length and bytes of tenant, then of device; 0xFFFF = NULL.  Where a
 * role sent the batch its name follows likewise, else nothing does.
 */
extern size_t fl_sender_encode(uint8_t *p, const char *tenant, const char *device, const char *role);
extern size_t fl_sender_size(const char *tenant, const char *device, const char *role);
extern FlResult fl_sender_decode(const uint8_t *p, size_t len, FlSender *sender);

/* Pages that a batch of `length` bytes (head included) with `count` records takes. */
extern uint32_t fl_batch_pages(uint32_t length, uint32_t count);

#endif							/* FLEETLOG_LOG_FORMAT_H */
