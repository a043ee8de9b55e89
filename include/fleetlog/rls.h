/*-------------------------------------------------------------------------
 *
 * rls.h
 *		Row-level security for readers that do not go through the executor
 *		(REQUIREMENTS I6).
 *
 * read(), poll(), take() and watch() hand out records that they found by
 * position.  Where a policy restricts what the calling role sees of the table,
 * they ask here instead: the rows come through the executor, as SELECT's do, so
 * there is one implementation of policies and of which conditions may run first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RLS_H
#define FLEETLOG_RLS_H

/*
 * Does row-level security restrict what the current role reads of this table (a
 * stream or a state table)?  Raises 42501 where row_security is off and it does,
 * as SELECT would.
 */
extern bool fl_rls_applies(Oid relid);

/* A record: values and nulls of the columns of a stream (REQUIREMENTS L2), good for the call. */
typedef void (*FlRlsRow) (void *arg, Datum *values, bool *isnull);

/*
 * Hand the records of [from, upto) of a shard that the current role may see to
 * `row`, in order, at most `max`.  Returns where to go on: behind the last one
 * when there were max of them, else upto.  `upto` must not lie beyond the durable
 * tail; who pages through a long history with few visible records bounds it.
 *
 * The newest snapshot is used, so that nothing below the durable tail is missed
 * in an old transaction.  Raises LF101 when `from` is below the head, also when
 * the head has passed it meanwhile.  The right to SELECT is asked by the executor.
 */
extern int64 fl_rls_read(Oid stream, int32 shard, int64 from, int64 upto, int32 max, FlRlsRow row, void *arg);

#endif							/* FLEETLOG_RLS_H */
