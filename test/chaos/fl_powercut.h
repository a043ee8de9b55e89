/*-------------------------------------------------------------------------
 *
 * fl_powercut.h
 *		What the preloaded library and the tool of this folder agree on.
 *
 * A side folder, on the file system of the data directory but outside of it:
 *
 *	control		mapped by every process of the cluster
 *	j/<inode>	what a file held before each write since its last fsync
 *	ops			creations, renames, links, removals and directory fsyncs, a line each
 *	dead/<n>	links to files that were removed, or replaced by a rename
 *
 * An undo journal holds a header and then records, oldest first.  Positions are
 * logical (they only rise), so that two fsyncs at once cannot drop what was
 * written after the first of them had begun: physical = header + position - base.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_POWERCUT_H
#define FL_POWERCUT_H

#include <stdint.h>

#define FL_CONTROL_MAGIC	0x46504331	/* "FPC1" */
#define FL_UNDO_MAGIC		0x46505552

/* Volumes whose free space can be bounded. */
#define FL_VOLUME_DATA		0
#define FL_VOLUME_WAL		1

#define FL_PIDS				65536

typedef struct FlControl
{
	uint32_t	magic;
	uint32_t	cut;			/* power is off: whoever comes here stays */
	uint32_t	skip_fsync;		/* account for fsync, but do not call it */
	uint32_t	fsync_delay_us; /* added to every fsync of a file */
	uint64_t	seq;			/* names of dead links */
	uint64_t	writes;			/* counts since init, for tests */
	uint64_t	fsyncs;
	uint64_t	refused;		/* writes refused for want of space */
	int64_t		free[2];		/* bytes left per volume; negative: no bound */
	uint64_t	n_pids;			/* processes that ever had this page, a ring of the newest */
	int32_t		pids[FL_PIDS];
} FlControl;

typedef struct FlUndoHeader
{
	uint32_t	magic;
	uint32_t	created;		/* the file's creation is not durable yet */
	uint64_t	base;			/* logical position of the first byte behind this header */
	uint64_t	start;			/* everything before is durable */
	uint64_t	end;
} FlUndoHeader;

typedef struct FlUndoRecord
{
	uint32_t	magic;
	uint32_t	truncate;		/* the change was a truncation */
	uint64_t	offset;			/* where it began */
	uint64_t	length;			/* how much it covers */
	uint64_t	old_size;		/* of the file */
	uint64_t	saved;			/* bytes that follow: what lay at offset */
} FlUndoRecord;

#endif							/* FL_POWERCUT_H */
