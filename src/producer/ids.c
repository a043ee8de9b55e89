/*-------------------------------------------------------------------------
 *
 * ids.c
 *		Producer ids that nobody was ever given.
 *
 * An id is 16 bits of the WAL timeline, 15 random bits, and a number of 32 bits that
 * is raised by a block in a committed, flushed transaction before one of the block
 * is given out:
 *
 *	- a crash or restart: the number goes on behind what was flushed, which is at least
 *	  what was given out;
 *	- a promotion, also of a standby that has not received the last blocks, and a restore
 *	  of a base backup to whatever point: another timeline;
 *	- a dump that is restored: the number is dumped and goes on from there, under other
 *	  random bits, which are drawn whenever the row was written by another server or
 *	  on another timeline.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/producers.h"
#include "producer_internal.h"

StaticAssertDecl(((INT64CONST(1) << 32) % FL_PRODUCER_IDS) == 0, "no block lies across the end of the numbers");

int64
fl_producer_ids_take(void)
{
	Oid			types[4] = {INT8OID, INT8OID, INT4OID, INT8OID};
	Datum		values[4];
	bool		isnull;
	uint16		salt;
	int64		first;

	if (!pg_strong_random(&salt, sizeof(salt)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random bits for producer ids")));
	values[0] = Int64GetDatum((int64) GetSystemIdentifier());
	values[1] = Int64GetDatum((int64) FL_CURRENT_TLI());
	values[2] = Int32GetDatum(salt & 0x7FFF);
	values[3] = Int64GetDatum(FL_PRODUCER_IDS);
	first = fl_config_query_int("INSERT INTO fleetlog.producer_id_config AS c VALUES (true, $1, $2, $3, $4)"
								" ON CONFLICT (only_row) DO UPDATE SET system = $1, timeline = $2, next_id = c.next_id + $4,"
								" salt = CASE WHEN c.system = $1 AND c.timeline = $2 THEN c.salt ELSE $3 END"
								" RETURNING ((c.timeline & 65535) << 47) | (c.salt::pg_catalog.int8 << 32) | ((c.next_id - $4) & 4294967295)",
								4, types, values, &isnull);
	if (isnull)
		elog(ERROR, "no producer ids were given");
	fl_producers_given(first, FL_PRODUCER_IDS);
	return first;
}
