/*-------------------------------------------------------------------------
 *
 * config.h
 *		Statements that the extension runs in its own tables on behalf of callers
 *		who need no right on them.  Implemented in src/catalog.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_CONFIG_H
#define FLEETLOG_CONFIG_H

#include "access/htup.h"
#include "access/tupdesc.h"

/*
 * Run a statement as the owner of the extension: for writes that the caller
 * was found to be entitled to.  search_path is pg_catalog while it runs.
 * Returns the number of rows.
 */
extern uint64 fl_config_execute(const char *sql, int nargs, Oid *types, Datum *values, const bool *nulls);

/* A single int8 result of a query run likewise; isnull when no row. */
extern int64 fl_config_query_int(const char *sql, int nargs, Oid *types, Datum *values, bool *isnull);

/*
 * A query run likewise, and a callback for each row of its result.  The callback
 * runs as the caller and must not allocate what it keeps in the current context.
 */
extern void fl_config_query(const char *sql, int nargs, Oid *types, Datum *values,
							void (*row) (void *arg, HeapTuple tuple, TupleDesc desc), void *arg);

/* ... with arguments that may be NULL. */
extern void fl_config_query_nulls(const char *sql, int nargs, Oid *types, Datum *values, const bool *nulls,
								  void (*row) (void *arg, HeapTuple tuple, TupleDesc desc), void *arg);

/* Run DDL as the current user with search_path = pg_catalog. */
extern void fl_config_ddl(const char *sql);

#endif							/* FLEETLOG_CONFIG_H */
