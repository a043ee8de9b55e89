/*-------------------------------------------------------------------------
 *
 * views.c
 *		C behind the views over last values in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "fleetlog/compat.h"
#include "state_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_state_last);
PG_FUNCTION_INFO_V1(fl_sql_last_values);

static Datum
interval_datum(int64 us)
{
	Interval   *iv = palloc0(sizeof(Interval));

	iv->time = us;
	return PointerGetDatum(iv);
}

Datum
fl_sql_stat_state_last(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlFoldInfo *folds = palloc(sizeof(FlFoldInfo) * FL_MAX_FOLDS);
	int			n;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	n = fl_fold_read(folds);
	for (int i = 0; i < n; i++)
	{
		const FlFoldInfo *f = &folds[i];
		Datum		values[8] = {
			ObjectIdGetDatum(f->state), ObjectIdGetDatum(f->stream), interval_datum(f->lag_us),
			interval_datum(f->stretched_us), Int64GetDatum(f->keys), Int64GetDatum(f->flushes),
			Int64GetDatum(f->early), TimestampTzGetDatum(f->flushed_at)
		};
		bool		nulls[8] = {false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static Datum
nullable(struct varlena *v, bool *isnull)
{
	*isnull = v == NULL;
	return PointerGetDatum(v);
}

static void
put_change(ReturnSetInfo *rsinfo, const FlStateChange *c)
{
	Datum		values[10] = {
		ObjectIdGetDatum(c->stream), PointerGetDatum(c->key), Int32GetDatum(c->pos.shard),
		Int64GetDatum(c->pos.log_offset), TimestampTzGetDatum(c->pos.ts)
	};
	bool		nulls[10] = {false};

	values[5] = nullable(c->tenant, &nulls[5]);
	values[6] = nullable(c->device, &nulls[6]);
	values[7] = nullable(c->headers, &nulls[7]);
	values[8] = nullable(c->payload, &nulls[8]);
	values[9] = BoolGetDatum(c->cleared);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
fl_sql_last_values(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			state = PG_GETARG_OID(0);
	FlFoldInfo *folds = palloc(sizeof(FlFoldInfo) * FL_MAX_FOLDS);
	AclResult	acl = pg_class_aclcheck(state, GetUserId(), ACL_SELECT);
	int			n;

	fl_require_preload();
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, get_rel_name(state));
	/* Row-level security is the table's; here is no place to ask it. */
	if (check_enable_rls(state, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security is enabled on state table \"%s\"", get_rel_name(state)),
				 errhint("Read the table itself.")));
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	n = fl_fold_read(folds);
	for (int i = 0; i < n; i++)
	{
		FlStateChange *changes;
		int			count;

		if (folds[i].state != state)
			continue;
		count = fl_last_collect(state, folds[i].stream, &changes);
		for (int c = 0; c < count; c++)
			put_change(rsinfo, &changes[c]);
	}
	return (Datum) 0;
}
