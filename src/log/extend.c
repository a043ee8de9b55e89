/*-------------------------------------------------------------------------
 *
 * extend.c
 *		Making a segment's file longer, many blocks at a time where it grows fast.
 *
 * One block at a time costs two system calls, a heavyweight lock and the
 * writing of 8 KiB of zeroes, half of what an append costs at a high rate.  So
 * the file is made longer by about a quarter of a second's worth of blocks, as
 * many as the rate since it was last extended says, never more than an eighth
 * of what it has and never more than FL_EXTEND_MAX: a slow stream or a short
 * segment gets one block at a time.
 *
 * The blocks are allocated, not left as a hole: a disk that is full says so
 * here, where the transaction can still be refused, and not to the checkpointer
 * or to crash recovery.
 *
 * Nothing of it is in WAL.  What is allocated and not written yet reads as zero
 * pages, and those lie behind the last written page only: pages are written in
 * the order of their numbers (a large batch, whose head comes last, initialises
 * its first pages first, see append.c).  So everybody takes a zero page for the
 * end of what is written, and the next append begins there, also after a crash.
 * A standby's file may be shorter by these blocks, as with heap.
 *
 * Called by append.c and buffer.c only, with the shard's lock held: who writes
 * is the only one who extends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "log_private.h"

#define FL_EXTEND_MAX		64	/* blocks at a time: 512 KiB */
#define FL_EXTEND_AHEAD_MS	250 /* worth of appends at the present rate */
#define FL_EXTEND_SHARE		8	/* of what the file has: one in so many */

/*
 * How many blocks to add when `need` are wanted now.  What was added the last
 * time has been used up since: that is the rate.
 */
static uint32
blocks_to_add(FlShard *w, BlockNumber need)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		elapsed = Max(now - w->extended_at, 1);
	int64		used = (int64) w->leaf_nblocks - w->extended_from;
	int64		ahead;

	/* Of a leaf that was just entered no rate is known. */
	ahead = w->extended_at == 0 || used <= 0 ? 1 :
		used * FL_EXTEND_AHEAD_MS * INT64CONST(1000) / elapsed;
	w->extended_at = now;
	w->extended_from = w->leaf_nblocks;
	ahead = Min(ahead, w->leaf_nblocks / FL_EXTEND_SHARE);
	return (uint32) Min(Max(ahead, need), FL_EXTEND_MAX);
}

#if PG_VERSION_NUM >= 160000

/* Since 16 the server extends by many; the buffers stay, zeroed, for the pages to come. */
static uint32
extend_by_many(Relation rel, BlockNumber from, uint32 n)
{
	Buffer		bufs[FL_EXTEND_MAX];
	uint32		got = 0;
	BlockNumber first = ExtendBufferedRelBy(BMR_REL(rel), MAIN_FORKNUM, NULL,
												  EB_SKIP_EXTENSION_LOCK, n, bufs, &got);

	for (uint32 i = 0; i < got; i++)
		ReleaseBuffer(bufs[i]);
	return first == from ? got : 0;
}

#else

/*
 * Version 15 extends by one block only, so the file is extended here: blocks of
 * zeroes at its end are all that the server's own way leaves, too, until a page
 * is written.  Returns 0 where that cannot be done, for whatever reason; the
 * caller then takes the server's way, whose error tells it.
 */
static uint32
extend_by_many(Relation rel, BlockNumber from, uint32 n)
{
	static bool unsupported = false;
	BlockNumber segno = from / RELSEG_SIZE;
	BlockNumber at = from % RELSEG_SIZE;
	char	   *path;
	int			fd;
	int			rc;

	if (unsupported || at == 0)
		return 0;				/* the server makes the next file of the table */
	n = Min(n, RELSEG_SIZE - at);
	path = relpathperm(FL_REL_FILE(rel), MAIN_FORKNUM);
	if (segno > 0)
	{
		char	   *segpath = psprintf("%s.%u", path, segno);

		pfree(path);
		path = segpath;
	}
	fd = OpenTransientFile(path, O_RDWR | PG_BINARY);
	pfree(path);
	if (fd < 0)
		return 0;
#ifdef __linux__
	/* Not the library's function, which writes into every block where the file system cannot do it. */
	rc = fallocate(fd, 0, (off_t) at * BLCKSZ, (off_t) n * BLCKSZ) == 0 ? 0 : errno;
#else
	rc = posix_fallocate(fd, (off_t) at * BLCKSZ, (off_t) n * BLCKSZ);
#endif
	CloseTransientFile(fd);
	if (rc == EOPNOTSUPP || rc == ENOSYS || rc == EINVAL)
		unsupported = true;
	return rc == 0 ? n : 0;
}

#endif

/* One block, in the way that every server has. */
static Buffer
extend_by_one(Relation rel, FlShard *w, ReadBufferMode mode)
{
	Buffer		buf;

	LockRelationForExtension(rel, ExclusiveLock);
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, P_NEW, mode, NULL);
	UnlockRelationForExtension(rel, ExclusiveLock);
	w->leaf_nblocks = BufferGetBlockNumber(buf) + 1;
	return buf;
}

/* Add blocks, `need` or more; false where only one at a time may or can be had. */
static bool
extend(Relation rel, FlShard *w, BlockNumber need)
{
	uint32		n = blocks_to_add(w, need);
	uint32		got = 0;

	if (n <= 1)
		return false;
	LockRelationForExtension(rel, ExclusiveLock);
	/* The file is believed, not the state: writing into the wrong place is not an option. */
	if (RelationGetNumberOfBlocks(rel) == w->leaf_nblocks)
		got = extend_by_many(rel, w->leaf_nblocks, n);
	UnlockRelationForExtension(rel, ExclusiveLock);
	w->leaf_nblocks += got;
	return got > 0;
}

void
fl_extend_to(Relation rel, FlShard *w, BlockNumber n)
{
	while (w->leaf_nblocks < n)
		if (!extend(rel, w, n - w->leaf_nblocks))
			ReleaseBuffer(extend_by_one(rel, w, RBM_NORMAL));
}

Buffer
fl_new_page(Relation rel, FlShard *w, BlockNumber blk)
{
	if (blk >= MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("segment \"%s\" is full", RelationGetRelationName(rel))));
	if (blk > w->leaf_nblocks)
		fl_extend_to(rel, w, blk);
	if (blk == w->leaf_nblocks && !extend(rel, w, 1))
	{
		/* One call gives the new block zeroed and locked. */
		Buffer		buf = extend_by_one(rel, w, RBM_ZERO_AND_LOCK);

		if (BufferGetBlockNumber(buf) == blk)
			return buf;
		/* An extension that failed half way had made the file longer than we knew. */
		UnlockReleaseBuffer(buf);
	}
	return ReadBufferExtended(rel, MAIN_FORKNUM, blk, RBM_ZERO_AND_LOCK, NULL);
}
