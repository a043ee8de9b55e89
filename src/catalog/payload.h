/*-------------------------------------------------------------------------
 *
 * payload.h
 *	  What payload_sql.c and payload_cbor.c share: how much a jsonb may hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_CATALOG_PAYLOAD_H
#define FLEETLOG_CATALOG_PAYLOAD_H

#include "utils/jsonb.h"

/*
 * Building a jsonb keeps the members of a container in an array that doubles;
 * at some millions it passes the largest allocation.  This many are safe.
 */
#define FL_JSONB_MAX_TOKENS (4 * 1024 * 1024)

/*
 * Bytes that a value takes in a jsonb beyond its own text, at most: entry,
 * alignment, and the header of a container or numeric.
 */
#define FL_JSONB_TOKEN_OVERHEAD 24

/* What a value that is being looked through will need. */
typedef struct FlJsonbBudget
{
	int64 tokens;
	int64 bytes;
} FlJsonbBudget;

/* Adds one token of that many bytes; false when jsonb could refuse the whole. */
static inline bool
fl_jsonb_budget_take(FlJsonbBudget *budget, Size len)
{
	budget->tokens++;
	budget->bytes += (int64) len + FL_JSONB_TOKEN_OVERHEAD;
	return budget->tokens <= FL_JSONB_MAX_TOKENS && budget->bytes <= JENTRY_OFFLENMASK;
}

#endif /* FLEETLOG_CATALOG_PAYLOAD_H */
