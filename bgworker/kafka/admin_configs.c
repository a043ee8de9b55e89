/*
 * admin_configs.c
 *		DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.
 *
 * Configurations of a topic are properties of its stream (configs.c).  Those of the
 * broker are shown; they are set in postgresql.conf.
 */
#include "postgres.h"

#include "admin.h"

/* ---- DescribeConfigs ---- */

static bool
is_wanted(FlKafkaDescribeConfigsResource *resource, const char *name)
{
	FlKafkaBytes key;

	if (fl_kafka_is_null(&resource->configuration_keys))
		return true;
	fl_kafka_rewind(&resource->configuration_keys);
	while (fl_kafka_next(&resource->configuration_keys, &key))
		if (fl_kafka_string_is(key, name))
			return true;
	return false;
}

/* Where the value comes from, nearest first. */
static void
put_synonyms(FlKafkaDescribeConfigsResourceResult *out, const FlKafkaConfig *config)
{
	FlKafkaDescribeConfigsSynonym *items = palloc(sizeof(*items) * 2);
	int n = 0;

	if (config->source == FL_KAFKA_SOURCE_TOPIC)
	{
		fl_kafka_init_describe_configs_synonym(&items[n]);
		items[n].name = fl_kafka_string(config->name);
		items[n].value = fl_kafka_string(config->value);
		items[n++].source = config->source;
	}
	fl_kafka_init_describe_configs_synonym(&items[n]);
	items[n].name = fl_kafka_string(config->default_name != NULL ? config->default_name : config->name);
	items[n].value = fl_kafka_string(config->default_value);
	items[n++].source = config->source == FL_KAFKA_SOURCE_SERVER ? FL_KAFKA_SOURCE_SERVER : FL_KAFKA_SOURCE_DEFAULT;
	fl_kafka_set_items(&out->synonyms, items, n);
}

static void
put_configs(FlKafkaRequest *req, FlKafkaDescribeConfigsResource *resource, FlKafkaDescribeConfigsResult *out,
			const FlKafkaConfig *configs, int n)
{
	const FlKafkaDescribeConfigsRequest *in = req->message;
	FlKafkaDescribeConfigsResourceResult *items = palloc(sizeof(*items) * n);
	int count = 0;

	for (int i = 0; i < n; i++)
	{
		FlKafkaDescribeConfigsResourceResult *r = &items[count];

		if (!is_wanted(resource, configs[i].name))
			continue;
		fl_kafka_init_describe_configs_resource_result(r);
		r->name = fl_kafka_string(configs[i].name);
		r->value = fl_kafka_string(configs[i].value);
		r->read_only = configs[i].read_only;
		r->config_source = configs[i].source;
		r->config_type = configs[i].type;
		if (in->include_documentation)
			r->documentation = fl_kafka_string(configs[i].documentation);
		if (in->include_synonyms)
			put_synonyms(r, &configs[i]);
		count++;
	}
	fl_kafka_set_items(&out->configs, items, count);
}

static void
describe_topic(FlKafkaRequest *req, FlKafkaDescribeConfigsResource *resource, FlKafkaDescribeConfigsResult *out)
{
	const FlStreamInfo *stream = fl_kafka_find_topic(req->door, resource->resource_name);
	FlKafkaSettings settings;
	FlKafkaConfig *configs;
	int n;

	if (stream == NULL)
	{
		out->error_code = fl_kafka_topic_is_legal(resource->resource_name) ? FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION
																		   : FL_KAFKA_INVALID_TOPIC_EXCEPTION;
		out->error_message = fl_kafka_string("there is no such topic");
		return;
	}
	if (!fl_kafka_may_describe(req->conn, stream))
	{
		out->error_code = FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
		out->error_message = fl_kafka_string("the role has no right on the topic");
		return;
	}
	fl_kafka_settings_of(stream, &settings);
	n = fl_kafka_topic_configs(&settings, &configs);
	put_configs(req, resource, out, configs, n);
}

static bool
is_our_broker(FlKafkaBytes name)
{
	return fl_kafka_string_is(name, CppAsString2(FL_KAFKA_NODE_ID));
}

static void
describe_resource(FlKafkaRequest *req, FlKafkaDescribeConfigsResource *resource, FlKafkaDescribeConfigsResult *out)
{
	FlKafkaConfig *configs;
	int n;

	fl_kafka_init_describe_configs_result(out);
	out->resource_type = resource->resource_type;
	out->resource_name = resource->resource_name;
	if (resource->resource_type == FL_KAFKA_RESOURCE_TOPIC)
		describe_topic(req, resource, out);
	else if (resource->resource_type == FL_KAFKA_RESOURCE_BROKER && is_our_broker(resource->resource_name))
	{
		n = fl_kafka_broker_configs(req->conn, &configs);
		put_configs(req, resource, out, configs, n);
	}
	/* "": what all brokers have in common by themselves, which is nothing. */
	else if (resource->resource_type != FL_KAFKA_RESOURCE_BROKER || resource->resource_name.len > 0)
	{
		out->error_code = FL_KAFKA_INVALID_REQUEST;
		out->error_message = fl_kafka_string("configurations are those of topics and of broker 1");
	}
}

void
fl_kafka_handle_describe_configs(FlKafkaRequest *req)
{
	FlKafkaDescribeConfigsRequest *in = req->message;
	int n = fl_kafka_count(&in->resources);
	FlKafkaDescribeConfigsResource resource;
	FlKafkaDescribeConfigsResponse out;
	FlKafkaDescribeConfigsResult *results;
	int count = 0;

	if (n > FL_KAFKA_MAX_ADMIN)
	{
		fl_kafka_refuse(req->conn, "it asks for the configurations of too many topics at once");
		return;
	}
	results = palloc(sizeof(*results) * (n + 1));
	while (fl_kafka_next(&in->resources, &resource))
		describe_resource(req, &resource, &results[count++]);
	fl_kafka_init_describe_configs_response(&out);
	fl_kafka_set_items(&out.results, results, count);
	fl_kafka_answer(req, &out);
}

/* ---- changing ---- */

/*
 * AlterConfigs and IncrementalAlterConfigs are one thing: changes of settings, which begin
 * with the defaults there and with what holds here.
 */

enum
{
	OP_SET,
	OP_DELETE,
	OP_APPEND,
	OP_SUBTRACT
};

#define MAX_CHANGES 100 /* of one resource: more than there are configurations */

typedef struct Change
{
	FlKafkaBytes name;
	FlKafkaBytes value;
	int8 operation;
} Change;

typedef struct Altered
{
	int8 *types;
	FlKafkaBytes *names;
	FlKafkaSettings *old;
	FlKafkaSettings *settings;
	const FlStreamInfo **streams;
	Change *changes; /* of the resource that is just being read */
	int nchanges;
} Altered;

static FlKafkaAdmin *
begin_alter(FlKafkaRequest *req, int n, bool validate_only, void (*answer)(FlKafkaAdmin *))
{
	Altered *altered = palloc0(sizeof(Altered));
	/* These requests tell no time-out; clients wait half a minute or more. */
	FlKafkaAdmin *admin = fl_kafka_admin_create(req, n, 20000, validate_only, answer, altered);

	if (admin == NULL)
		return NULL;
	altered->types = palloc0(n + 1);
	altered->names = palloc0(sizeof(FlKafkaBytes) * (n + 1));
	altered->old = palloc0(sizeof(FlKafkaSettings) * (n + 1));
	altered->settings = palloc0(sizeof(FlKafkaSettings) * (n + 1));
	altered->streams = palloc0(sizeof(FlStreamInfo *) * (n + 1));
	altered->changes = palloc(sizeof(Change) * MAX_CHANGES);
	return admin;
}

static bool
is_same(FlKafkaBytes a, FlKafkaBytes b)
{
	return a.len == b.len && a.len >= 0 && memcmp(a.data, b.data, a.len) == 0;
}

/* Whose configurations, and how many of them; false: refused. */
static bool
begin_resource(FlKafkaAdmin *admin, int i, int8 type, FlKafkaBytes name, int count)
{
	Altered *altered = admin->state;

	altered->types[i] = type;
	altered->names[i] = name;
	altered->nchanges = 0;
	for (int k = 0; k < i; k++)
		if (altered->types[k] == type && is_same(altered->names[k], name))
		{
			fl_kafka_admin_refuse(admin, k, FL_KAFKA_INVALID_REQUEST, "it stands in the request more than once");
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "it stands in the request more than once");
		}
	if (type == FL_KAFKA_RESOURCE_BROKER)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST,
							  "a broker's configuration is set in postgresql.conf or by ALTER SYSTEM");
	else if (type != FL_KAFKA_RESOURCE_TOPIC)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "only topics have configurations that can be set");
	else if (count > MAX_CHANGES)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "there are not so many configurations");
	else if ((altered->streams[i] = fl_kafka_admin_topic(admin, i, name)) != NULL)
		fl_kafka_settings_of(altered->streams[i], &altered->old[i]);
	return admin->verdicts[i].error == FL_KAFKA_NO_ERROR;
}

static void
add_change(FlKafkaAdmin *admin, FlKafkaBytes name, FlKafkaBytes value, int8 operation)
{
	Altered *altered = admin->state;

	Assert(altered->nchanges < MAX_CHANGES);
	altered->changes[altered->nchanges++] = (Change) {name, value, operation};
}

static const char *
apply(FlKafkaSettings *settings, const Change *change)
{
	if (change->operation == OP_DELETE)
		return fl_kafka_set(settings, change->name, fl_kafka_string(NULL));
	if (change->operation < OP_SET || change->operation > OP_SUBTRACT)
		return "there is no such operation";
	if (change->value.len < 0)
		return "a configuration has no value";
	if (change->operation == OP_SET)
		return fl_kafka_set(settings, change->name, change->value);
	return fl_kafka_set_item(settings, change->name, change->value, change->operation == OP_APPEND);
}

/* All that is to be changed of a resource is known. */
static void
end_resource(FlKafkaAdmin *admin, int i, const FlKafkaSettings *from)
{
	Altered *altered = admin->state;

	altered->settings[i] = *from;
	for (int k = 0; k < altered->nchanges; k++)
	{
		const char *why;

		/* Twice the same name says two things at once. */
		for (int other = 0; other < k; other++)
			if (is_same(altered->changes[other].name, altered->changes[k].name))
				fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "a configuration is named more than once");
		why = apply(&altered->settings[i], &altered->changes[k]);
		if (why != NULL)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_CONFIG, why);
	}
}

/* What differs is asked for; rights are asked even if nothing does. */
static void
end_alter(FlKafkaAdmin *admin)
{
	Altered *altered = admin->state;

	(void) fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	for (int i = 0; i < admin->n; i++)
	{
		const FlStreamInfo *stream = altered->streams[i];
		const char *params[1 + FL_KAFKA_N_SETTINGS];

		if (admin->verdicts[i].error != FL_KAFKA_NO_ERROR || stream == NULL)
			continue;
		params[0] = psprintf("%u", stream->relid);
		fl_kafka_settings_to_sql(&altered->settings[i], &altered->old[i], stream->shards, params + 1);
		fl_kafka_admin_ask(admin, i, FL_TOPIC_ALTER, lengthof(params), params);
	}
	fl_kafka_admin_wait(admin);
}

/* The answers differ in the names of their types only. */
#define FILL_RESULTS(admin, results, init) \
	for (int i = 0; i < (admin)->n; i++) \
	{ \
		const Altered *altered = (admin)->state; \
\
		init(&(results)[i]); \
		(results)[i].error_code = (admin)->verdicts[i].error; \
		(results)[i].error_message = fl_kafka_admin_message(&(admin)->verdicts[i]); \
		(results)[i].resource_type = altered->types[i]; \
		(results)[i].resource_name = altered->names[i]; \
	}

static void
answer_alter(FlKafkaAdmin *admin)
{
	FlKafkaAlterConfigsResponse out;
	FlKafkaAlterConfigsResourceResponse *results = palloc(sizeof(*results) * (admin->n + 1));

	FILL_RESULTS(admin, results, fl_kafka_init_alter_configs_resource_response);
	fl_kafka_init_alter_configs_response(&out);
	fl_kafka_set_items(&out.responses, results, admin->n);
	fl_kafka_answer(admin->req, &out);
}

static void
answer_incremental(FlKafkaAdmin *admin)
{
	FlKafkaIncrementalAlterConfigsResponse out;
	FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse *results = palloc(sizeof(*results) * (admin->n + 1));

	FILL_RESULTS(admin, results, fl_kafka_init_incremental_alter_configs_alter_configs_resource_response);
	fl_kafka_init_incremental_alter_configs_response(&out);
	fl_kafka_set_items(&out.responses, results, admin->n);
	fl_kafka_answer(admin->req, &out);
}

/* The whole set is replaced: what is not named has its default again. */
void
fl_kafka_handle_alter_configs(FlKafkaRequest *req)
{
	static const FlKafkaSettings defaults;
	FlKafkaAlterConfigsRequest *in = req->message;
	FlKafkaAlterConfigsResource resource;
	FlKafkaAlterConfigsAlterableConfig config;
	FlKafkaAdmin *admin = begin_alter(req, fl_kafka_count(&in->resources), in->validate_only, answer_alter);

	if (admin == NULL)
		return;
	for (int i = 0; i < admin->n && fl_kafka_next(&in->resources, &resource); i++)
	{
		if (!begin_resource(admin, i, resource.resource_type, resource.resource_name, fl_kafka_count(&resource.configs)))
			continue;
		while (fl_kafka_next(&resource.configs, &config))
			add_change(admin, config.name, config.value, OP_SET);
		end_resource(admin, i, &defaults);
	}
	end_alter(admin);
}

void
fl_kafka_handle_incremental_alter_configs(FlKafkaRequest *req)
{
	FlKafkaIncrementalAlterConfigsRequest *in = req->message;
	FlKafkaIncrementalAlterConfigsAlterConfigsResource resource;
	FlKafkaIncrementalAlterConfigsAlterableConfig config;
	FlKafkaAdmin *admin = begin_alter(req, fl_kafka_count(&in->resources), in->validate_only, answer_incremental);

	if (admin == NULL)
		return;
	for (int i = 0; i < admin->n && fl_kafka_next(&in->resources, &resource); i++)
	{
		if (!begin_resource(admin, i, resource.resource_type, resource.resource_name, fl_kafka_count(&resource.configs)))
			continue;
		while (fl_kafka_next(&resource.configs, &config))
			add_change(admin, config.name, config.value, config.config_operation);
		end_resource(admin, i, &((Altered *) admin->state)->old[i]);
	}
	end_alter(admin);
}
