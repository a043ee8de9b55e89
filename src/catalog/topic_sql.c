/*-------------------------------------------------------------------------
 *
 * topic_sql.c
 *	  fleetlog.topic_matches(topic, filter) and its operator ~>.
 *
 * A filter that is not valid is an error, as it is for a subscriber.  A text
 * that is no valid topic, which a record's key may be, matches nothing.
 *
 * The planner support function turns a constant filter without wildcards into
 * a plain equality, which has statistics and may use an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "fleetlog/compat.h"
#include "fleetlog/topic.h"

PG_FUNCTION_INFO_V1(fl_sql_topic_matches);
PG_FUNCTION_INFO_V1(fl_sql_topic_support);

Datum
fl_sql_topic_matches(PG_FUNCTION_ARGS)
{
	text *topic = PG_GETARG_TEXT_PP(0);
	text *filter = PG_GETARG_TEXT_PP(1);
	const uint8_t *t = (const uint8_t *) VARDATA_ANY(topic);
	const uint8_t *f = (const uint8_t *) VARDATA_ANY(filter);
	Size t_len = VARSIZE_ANY_EXHDR(topic);
	Size f_len = VARSIZE_ANY_EXHDR(filter);

	if (!fl_topic_filter_valid(f, f_len))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid topic filter"),
			 errdetail(
				 "A filter has at least one character and at most %d bytes; \"+\" stands for a whole level, \"#\" for the whole rest.",
				 FL_TOPIC_MAX_LEN)));

	/* The rarer test comes second: most rows do not match. */
	PG_RETURN_BOOL(fl_topic_matches(t, t_len, f, f_len) && fl_topic_name_valid(t, t_len));
}

/*
 * topic = 'filter', or NULL when the filter is not a constant that means
 * just that.
 */
static Node *
fl_topic_simplify(FuncExpr *call)
{
	Node *topic = linitial(call->args);
	Node *filter = lsecond(call->args);
	Oid collation = call->inputcollid;
	OpExpr *equal;
	text *value;

	if (!IsA(filter, Const) || ((Const *) filter)->constisnull || ((Const *) filter)->consttype != TEXTOID)
		return NULL;
	value = DatumGetTextPP(((Const *) filter)->constvalue);
	if (!fl_topic_name_valid((const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)))
		return NULL;

	/* Topics are compared bytewise, whatever the column's collation says. */
	if (!OidIsValid(collation) || !get_collation_isdeterministic(collation))
		collation = C_COLLATION_OID;
	equal = (OpExpr *) make_opclause(TextEqualOperator, BOOLOID, false, (Expr *) topic, (Expr *) filter, InvalidOid,
									 collation);
	equal->opfuncid = F_TEXTEQ;
	return (Node *) equal;
}

Datum
fl_sql_topic_support(PG_FUNCTION_ARGS)
{
	Node *request = (Node *) PG_GETARG_POINTER(0);
	Node *result = NULL;

	if (IsA(request, SupportRequestSimplify))
	{
		FuncExpr *call = ((SupportRequestSimplify *) request)->fcall;

		if (list_length(call->args) == 2)
			result = fl_topic_simplify(call);
	}
	PG_RETURN_POINTER(result);
}
