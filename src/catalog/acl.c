/*-------------------------------------------------------------------------
 *
 * acl.c
 *		What a client may publish and subscribe to (I4).
 *
 * A device has, without any rule:
 *		publish and subscribe	<tenant prefix><device>/...
 *		subscribe				<tenant prefix>cmd/<device>/...
 *		publish					<tenant prefix>cmd/<device>/ack/<id> and .../res/<id>
 *		publish					$fleetlog/things/<device>/shadow[/name/<n>]/get, update, delete
 *		subscribe				$fleetlog/things/<device>/shadow...
 * and beyond that what the rules of its tenant (fleetlog.policy) say.  No rule
 * reaches into the command space, into `$` topics, or out of the tenant's
 * prefix.  An empty set of rules gives nothing more (case O-B).
 *
 * A rule is compared level by level with the topic or filter.  Only a level of
 * the rule's own text that is exactly `+` or `#` is a wildcard; what is filled
 * in for a placeholder is compared byte by byte with one level of the request,
 * and a request's own wildcard level equals nothing but a wildcard of the rule
 * (cases O-A, O-E).
 *
 * An anonymous client may use every mount, but for what the operator withholds.
 * What a role may do is in role.c.
 *
 * Works on the loaded catalog; no transaction, no allocation, no error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "catalog_internal.h"
#include "fleetlog/topic.h"

/* A cursor over the levels of a topic or filter. */
typedef struct Levels
{
	const char *pos;			/* NULL when all levels are consumed */
	const char *end;
} Levels;

static bool
next_level(Levels *lv, const char **level, size_t *len)
{
	const char *slash;

	if (lv->pos == NULL)
		return false;
	slash = memchr(lv->pos, '/', lv->end - lv->pos);
	*level = lv->pos;
	*len = (slash != NULL ? slash : lv->end) - lv->pos;
	lv->pos = slash != NULL ? slash + 1 : NULL;
	return true;
}

static bool
is_wild(const char *level, size_t len, char wildcard)
{
	return len == 1 && level[0] == wildcard;
}

/*
 * Does the text filled into the rule equal the beginning of what is left of
 * the request's level?  Moves past it.
 */
static bool
skip_text(const char **pos, const char *end, const char *text, size_t len)
{
	if (len == 0 || (size_t) (end - *pos) < len || memcmp(*pos, text, len) != 0)
		return false;
	*pos += len;
	return true;
}

/* One level of the rule, placeholders filled in, against one literal level. */
static bool
level_equals(const char *rule, size_t rule_len, const char *level, size_t len, const FlIdentity *id)
{
	const char *end = level + len;

	for (size_t i = 0; i < rule_len;)
	{
		size_t		left = rule_len - i;

		if (left >= 8 && memcmp(rule + i, "{device}", 8) == 0)
		{
			if (!skip_text(&level, end, id->device, strlen(id->device)))
				return false;
			i += 8;
		}
		else if (left >= 8 && memcmp(rule + i, "{tenant}", 8) == 0)
		{
			if (!skip_text(&level, end, id->tenant, strlen(id->tenant)))
				return false;
			i += 8;
		}
		else if (left >= 11 && memcmp(rule + i, "{client_id}", 11) == 0)
		{
			if (id->client_id == NULL || !skip_text(&level, end, id->client_id, id->client_id_len))
				return false;
			i += 11;
		}
		else if (level == end || *level++ != rule[i++])
			return false;
	}
	return level == end;
}

/* Does the rule select every topic that the request selects?  A topic is a request for itself. */
static bool
rule_covers(const char *rule, size_t len, const FlIdentity *id, const char *request, size_t request_len)
{
	Levels		r = {rule, rule + len};
	Levels		q = {request, request + request_len};
	const char *rl = NULL;
	const char *ql = NULL;
	size_t		rlen = 0;
	size_t		qlen = 0;

	for (;;)
	{
		bool		more_rule = next_level(&r, &rl, &rlen);
		bool		more_request;

		if (more_rule && is_wild(rl, rlen, '#'))
			return true;		/* `a/#` selects `a` as well (4.7.1.2) */
		more_request = next_level(&q, &ql, &qlen);
		if (!more_rule || !more_request)
			return more_rule == more_request;
		if (is_wild(ql, qlen, '#'))
			return false;
		if (is_wild(rl, rlen, '+'))
			continue;
		if (is_wild(ql, qlen, '+') || !level_equals(rl, rlen, ql, qlen, id))
			return false;
	}
}

/* Is the request below `<a><b>/`, with something behind the slash? */
static bool
is_below(const char *request, size_t len, const char *a, size_t alen, const char *b)
{
	size_t		blen = strlen(b);

	return len > alen + blen + 1 &&
		memcmp(request, a, alen) == 0 &&
		memcmp(request + alen, b, blen) == 0 &&
		request[alen + blen] == '/';
}

/* Below the device's own command topics; *rest is what follows `cmd/<device>/`. */
static bool
is_own_command(const FlIdentity *id, const FlTenant *t, const char *request, size_t len,
			   const char **rest, size_t *rest_len)
{
	size_t		skip = t->prefix_len + 4;

	if (len <= skip || memcmp(request, t->prefix, t->prefix_len) != 0 ||
		memcmp(request + t->prefix_len, "cmd/", 4) != 0 ||
		!is_below(request + skip, len - skip, "", 0, id->device))
		return false;
	*rest = request + skip + strlen(id->device) + 1;
	*rest_len = request + len - *rest;
	return true;
}

bool
fl_topic_is_shadow(const char *topic, size_t len)
{
	return len > strlen(FL_SHADOW_PREFIX) && memcmp(topic, FL_SHADOW_PREFIX, strlen(FL_SHADOW_PREFIX)) == 0;
}

/* What follows `<device>/shadow`: a request may be published, nothing else. */
static bool
is_shadow_request(const char *rest, size_t len)
{
	static const char *const requests[] = {"/get", "/update", "/delete"};

	if (len > 6 && memcmp(rest, "/name/", 6) == 0)
	{
		const char *slash = memchr(rest + 6, '/', len - 6);

		if (slash == NULL || slash == rest + 6)
			return false;
		len -= slash - rest;
		rest = slash;
	}
	for (int i = 0; i < lengthof(requests); i++)
		if (len == strlen(requests[i]) && memcmp(rest, requests[i], len) == 0)
			return true;
	return false;
}

/*
 * Topics of shadows.  Two tenants may have a device of one id; whose a record is says
 * the record itself, and nobody is handed another device's.
 */
static bool
check_shadow(const FlIdentity *id, FlAction action, const char *request, size_t len, const char **why)
{
	const char *device = request + strlen(FL_SHADOW_PREFIX);
	const char *slash = memchr(device, '/', request + len - device);
	const char *end = request + len;
	static const char shadow[] = "/shadow";

	if (id->kind == FL_IDENTITY_DEVICE &&
		(slash == NULL || (size_t) (slash - device) != strlen(id->device) ||
		 memcmp(device, id->device, slash - device) != 0))
	{
		*why = "a shadow is for its own device";
		return false;
	}
	if (slash == NULL || (size_t) (end - slash) < strlen(shadow) || memcmp(slash, shadow, strlen(shadow)) != 0 ||
		(action == FL_ACTION_PUBLISH && !is_shadow_request(slash + strlen(shadow), end - slash - strlen(shadow))))
	{
		*why = "it is no topic of a device shadow";
		return false;
	}
	*why = id->kind == FL_IDENTITY_DEVICE ? "a device may use its own shadow" : "anonymous clients may use every shadow";
	return true;
}

/* The rule of a tenant that allowed what was asked last. */
static const char *matched_rule = NULL;

const char *
fl_acl_matched_rule(void)
{
	return matched_rule;
}

static bool
check_device(const FlIdentity *id, FlAction action, const char *request, size_t len, const char **why)
{
	const FlTenantEntry *entry = fl_tenant_entry(id->tenant);
	const FlTenant *t = &entry->pub;
	const char *rest;
	size_t		rest_len;

	if (entry == NULL || id->device[0] == '\0')
	{
		*why = "the tenant does not exist";
		return false;
	}
	if (is_below(request, len, t->prefix, t->prefix_len, id->device))
	{
		*why = "a device may use the topics below its own id";
		return true;
	}
	if (is_own_command(id, t, request, len, &rest, &rest_len))
	{
		bool		answer = rest_len > 4 && (memcmp(rest, "ack/", 4) == 0 || memcmp(rest, "res/", 4) == 0) &&
			memchr(rest + 4, '/', rest_len - 4) == NULL;

		if (action == FL_ACTION_SUBSCRIBE || answer)
		{
			*why = action == FL_ACTION_SUBSCRIBE ? "a device may receive its own commands" :
				"a device may answer its own commands";
			return true;
		}
		*why = "a device may publish only answers, ack/<id> and res/<id>, below its command topics";
		return false;
	}
	if (fl_topic_is_command(request, len))
	{
		*why = "command topics are for the device that is named in them";
		return false;
	}
	for (int i = 0; i < entry->nrules[action]; i++)
	{
		if (rule_covers(entry->rules[action][i], strlen(entry->rules[action][i]), id, request, len))
		{
			*why = "a rule of the tenant allows it";
			matched_rule = entry->rules[action][i];
			return true;
		}
	}
	*why = len < t->prefix_len || memcmp(request, t->prefix, t->prefix_len) != 0 ?
		"it is outside the tenant's prefix" :
		"it is not below the device's own topics and no rule of the tenant allows it";
	return false;
}

/* ---- What anonymous clients may not read: fleetlog.anonymous_no_subscribe ---- */

static char *no_subscribe = "";

/* The filter at *list, without the spaces around it, and moves to the next; false: there is none. */
static bool
next_filter(const char **list, const char **filter, size_t *len)
{
	const char *end;

	if (**list == '\0')
		return false;
	*filter = *list + strspn(*list, " ");
	end = *filter + strcspn(*filter, ",");
	*list = *end == ',' ? end + 1 : end;
	while (end > *filter && end[-1] == ' ')
		end--;
	*len = end - *filter;
	return true;
}

static bool
check_no_subscribe(char **newval, void **extra, GucSource source)
{
	const char *at = *newval;
	const char *filter;
	size_t		len;

	while (next_filter(&at, &filter, &len))
	{
		if (len <= FL_TOPIC_MAX_LEN && fl_topic_filter_valid((const uint8_t *) filter, len))
			continue;
		GUC_check_errdetail("A list of topic filters, separated by commas, is expected.");
		return false;
	}
	return true;
}

void
fl_acl_settings_define(void)
{
	DefineCustomStringVariable("fleetlog.anonymous_no_subscribe",
							   "Topic filters, separated by commas, that select what anonymous clients do not get.",
							   "They may neither subscribe there nor receive it by a wider subscription.",
							   &no_subscribe, "", PGC_SIGHUP, 0, check_no_subscribe, NULL, NULL);
}

static bool
is_withheld(const char *request, size_t len)
{
	static const FlIdentity nobody = {.kind = FL_IDENTITY_ANONYMOUS};
	const char *at = no_subscribe;
	const char *filter;
	size_t		filter_len;

	while (next_filter(&at, &filter, &filter_len))
		if (rule_covers(filter, filter_len, &nobody, request, len))
			return true;
	return false;
}

bool
fl_acl_withholds_below(const char *prefix, size_t len)
{
	const char *at = no_subscribe;
	const char *filter;
	size_t		filter_len;

	while (next_filter(&at, &filter, &filter_len))
		if (fl_topic_filter_reaches((const uint8_t *) filter, filter_len, (const uint8_t *) prefix, len))
			return true;
	return false;
}

static bool
check_anonymous(FlAction action, const char *request, size_t len, const char **why)
{
	if (fl_topic_is_command(request, len))
	{
		*why = "anonymous clients have no access to commands";
		return false;
	}
	if (action == FL_ACTION_SUBSCRIBE && is_withheld(request, len))
	{
		*why = "fleetlog.anonymous_no_subscribe withholds it from anonymous clients";
		return false;
	}
	*why = "anonymous clients may use every mount";
	return true;
}

bool
fl_acl_check(const FlIdentity *id, FlAction action, const char *request, size_t len, const char **why)
{
	const char *unused;

	if (why == NULL)
		why = &unused;
	matched_rule = NULL;
	if (len == 0)
	{
		*why = "it is empty";
		return false;
	}
	if (fl_topic_is_shadow(request, len) && id->kind != FL_IDENTITY_ROLE)
		return check_shadow(id, action, request, len, why);
	if (request[0] == '$' && id->kind != FL_IDENTITY_ROLE)
	{
		*why = "topics that begin with \"$\" are for operators";
		return false;
	}
	switch (id->kind)
	{
		case FL_IDENTITY_DEVICE:
			return check_device(id, action, request, len, why);
		case FL_IDENTITY_ANONYMOUS:
			return check_anonymous(action, request, len, why);
		case FL_IDENTITY_ROLE:
			break;
	}
	return fl_role_check(id->role, action, request, len, why);
}

bool
fl_acl_is_guarded(const char *topic, size_t len)
{
	return fl_topic_is_command(topic, len) || is_withheld(topic, len);
}

bool
fl_acl_may_receive(const FlIdentity *id, const char *topic, size_t len)
{
	const FlTenant *t;
	const char *rest;
	size_t		rest_len;

	if (id->kind == FL_IDENTITY_ROLE)
	{
		const FlMount *mount = fl_mount_match(topic, len);

		/* Commands are for their device; who operates reads their stream by SQL. */
		return mount != NULL && !mount->commands && fl_role_may_read(id->role, mount->stream);
	}
	if (!fl_topic_is_command(topic, len))
		return id->kind != FL_IDENTITY_ANONYMOUS || !is_withheld(topic, len);
	if (id->kind != FL_IDENTITY_DEVICE || (t = fl_tenant_lookup(id->tenant)) == NULL)
		return false;
	return is_own_command(id, t, topic, len, &rest, &rest_len);
}
