/*-------------------------------------------------------------------------
 *
 * log_pack.h
 *		The short form of a small batch in WAL (docs/formats.md): its head and
 *		record batch header without what redo can work out, its sender, its
 *		records.
 *
 * At a low rate most batches have one record.  Head and header are 109 bytes,
 * more than half of a reading's own 200; the short form takes about 30.  Knows
 * nothing of the server: unit-tested and fuzzed alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_PACK_H
#define FLEETLOG_LOG_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "fleetlog/log_format.h"
#include "fleetlog/record_batch.h"
#include "fleetlog/result.h"

/* Room for the short form, sender and records not counted. */
#define FL_PACK_MAX				160

/* Flags of the first byte. */
#define FL_PACK_INIT_PAGE		0x01	/* the page is new */
#define FL_PACK_NO_DECODE		0x02	/* rows that nobody decodes */
#define FL_PACK_MAX_TS			0x04	/* the page's running maximum is not the append time */
#define FL_PACK_FOREIGN			0x08	/* a producer's own batch; a sender follows */
#define FL_PACK_PRODUCER		0x10	/* producer id, epoch, sequence are given */

/* A small batch, and where it goes. */
typedef struct FlPacked
{
	uint8_t		flags;			/* FL_PACK_INIT_PAGE and FL_PACK_NO_DECODE are the caller's */
	uint32_t	shard;
	uint16_t	page_off;		/* of its head on the page */
	int64_t		max_ts;			/* running maximum of append times, with this batch */
	FlBatchHead head;
	FlBatchInfo info;
	const uint8_t *sender;		/* head.sender_len bytes, borrowed */
	const uint8_t *records;		/* what follows the record batch header, borrowed */
	size_t		records_len;
} FlPacked;

/*
 * Write the short form of p, without sender and records, at out, which has room
 * for FL_PACK_MAX bytes.  Returns its length.  head.version must be
 * FL_BATCH_VERSION, head.flags nothing but FL_BATCH_FOREIGN, and p as a whole
 * what the head and header of one batch say.
 */
extern size_t fl_pack_encode(uint8_t *out, const FlPacked *p);

/*
 * Read a short form with its sender and records.  xmin is the record's
 * transaction.  FL_MALFORMED when it makes no sense.
 */
extern FlResult fl_pack_decode(const uint8_t *data, size_t len, uint32_t xmin, FlPacked *p);

/* Write the batch as it lies on its page: p->head.length bytes at out. */
extern void fl_pack_restore(const FlPacked *p, uint8_t *out);

#endif							/* FLEETLOG_LOG_PACK_H */
