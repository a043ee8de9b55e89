/*-------------------------------------------------------------------------
 *
 * replay_compare.c
 *		What a loop recorded about a call of its policy beside what the policy returns
 *		now.
 *
 * Both are brought to one form: empty arrays are none, commands lose what became of
 * them when they were sent, and members that are null.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "fleetlog/compat.h"
#include "replay_internal.h"

static Jsonb *
array_or_none(Jsonb *json)
{
	return json != NULL && JB_ROOT_IS_ARRAY(json) && !JB_ROOT_IS_SCALAR(json) && JB_ROOT_COUNT(json) > 0 ? json : NULL;
}

void
fl_recorded_parts(Jsonb *request, Jsonb *decision, FlPolicyResult *parts)
{
	bool		there;

	memset(parts, 0, sizeof(*parts));
	parts->ask = fl_json_member(request, "ask", NULL);
	parts->decisions = array_or_none(fl_json_member(decision, "decisions", NULL));
	parts->commands = array_or_none(fl_json_member(decision, "commands", NULL));
	parts->state = fl_json_member(decision != NULL ? decision : request, "state", &there);
	parts->sets_state = there;
}

/* What the runner adds to a command: the id that it was sent under, or why it was not. */
static bool
is_of_sending(const JsonbValue *key)
{
	return (key->val.string.len == 2 && memcmp(key->val.string.val, "id", 2) == 0) ||
		(key->val.string.len == 5 && memcmp(key->val.string.val, "error", 5) == 0);
}

/* One element of the array, an object as policy and runner see to. */
static void
push_command(JsonbParseState **state, JsonbValue *element)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	JsonbValue	key;

	if (element->type != jbvBinary || !JsonContainerIsObject(element->val.binary.data))
	{
		(void) pushJsonbValue(state, WJB_ELEM, element);
		return;
	}
	(void) pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(element->val.binary.data);
	(void) JsonbIteratorNext(&it, &v, true);
	while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_KEY)
	{
		key = v;
		(void) JsonbIteratorNext(&it, &v, true);
		if (v.type == jbvNull || is_of_sending(&key))
			continue;
		(void) pushJsonbValue(state, WJB_KEY, &key);
		(void) pushJsonbValue(state, WJB_VALUE, &v);
	}
	(void) pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

void
fl_normal_commands(FlPolicyResult *parts)
{
	JsonbParseState *state = NULL;
	JsonbIterator *it;
	JsonbValue	v;

	if (parts->commands == NULL)
		return;
	(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	it = JsonbIteratorInit(&parts->commands->root);
	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_ELEM)
		push_command(&state, &v);
	parts->commands = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL));
}

bool
fl_jsonb_same(const Jsonb *a, const Jsonb *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	/* Mostly they are the same to the byte. */
	if (VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0)
		return true;
	return compareJsonbContainers(&unconstify(Jsonb *, a)->root, &unconstify(Jsonb *, b)->root) == 0;
}

const char *
fl_differing_part(const FlPolicyResult *a, const FlPolicyResult *b, bool with_state)
{
	if (!fl_jsonb_same(a->decisions, b->decisions))
		return "decisions";
	if (!fl_jsonb_same(a->commands, b->commands))
		return "commands";
	if (!fl_jsonb_same(a->ask, b->ask))
		return "ask";
	if (with_state && (a->sets_state != b->sets_state || !fl_jsonb_same(a->state, b->state)))
		return "state";
	return NULL;
}

bool
fl_has_effect(const FlPolicyResult *parts)
{
	return parts->ask != NULL || parts->decisions != NULL || parts->commands != NULL;
}

static void
push_member(JsonbParseState **state, const char *name, Jsonb *json)
{
	JsonbValue	key = {.type = jbvString};
	JsonbValue	v;

	key.val.string.val = unconstify(char *, name);
	key.val.string.len = strlen(name);
	(void) pushJsonbValue(state, WJB_KEY, &key);
	v.type = jbvNull;
	if (json != NULL && !JB_ROOT_IS_SCALAR(json))
	{
		v.type = jbvBinary;
		v.val.binary.data = &json->root;
		v.val.binary.len = VARSIZE(json) - VARHDRSZ;
	}
	else if (json != NULL)
		(void) JsonbExtractScalar(&json->root, &v);
	(void) pushJsonbValue(state, WJB_VALUE, &v);
}

Jsonb *
fl_describe_parts(const FlPolicyResult *parts)
{
	JsonbParseState *state = NULL;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (parts->ask != NULL)
		push_member(&state, "ask", parts->ask);
	if (parts->decisions != NULL)
		push_member(&state, "decisions", parts->decisions);
	if (parts->commands != NULL)
		push_member(&state, "commands", parts->commands);
	if (parts->sets_state)
		push_member(&state, "state", parts->state);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}
