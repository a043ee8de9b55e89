/*-------------------------------------------------------------------------
 *
 * answer.c
 *		Carrying commands out and answering them.
 *
 * The order is what makes it safe: the id is on disk before anything is done,
 * the answer is on disk before it is sent.  A command that comes again gets its
 * old answer, and is not done again; one that a power cut has interrupted has
 * no answer, and gets none, since nobody can know how far it came.
 *
 *-------------------------------------------------------------------------
 */
#include "device.h"

#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOPIC_SIZE 1024

/* Wall clock, ms since 1970, as wrong as --clock-offset makes it. */
static int64_t
wall_clock(const Device *d)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return ((int64_t) t.tv_sec * SECOND + t.tv_nsec + d->o.clock_offset) / 1000000;
}

/* The same correlation data goes back with MQTT 5. */
static void
answer(Device *d, const Command *c, const char *kind, const char *text, const mosquitto_property *request)
{
	char topic[TOPIC_SIZE];
	mosquitto_property *properties = NULL;
	void *correlation = NULL;
	uint16_t len;
	int rc;

	snprintf(topic, sizeof(topic), "%scmd/%s/%s/%s", d->o.prefix, d->o.device, kind, c->id);
	if (mosquitto_property_read_binary(request, MQTT_PROP_CORRELATION_DATA, &correlation, &len, false) != NULL)
		mosquitto_property_add_binary(&properties, MQTT_PROP_CORRELATION_DATA, correlation, len);
	if (d->o.version == 5)
		mosquitto_property_add_string(&properties, MQTT_PROP_CONTENT_TYPE, "application/json");
	/* The library keeps it over a reconnect until it is acknowledged. */
	rc = mosquitto_publish_v5(d->mosq, NULL, topic, (int) strlen(text), text, 1, false, properties);
	if (rc != MOSQ_ERR_SUCCESS && rc != MOSQ_ERR_NO_CONN)
		device_log("%s: cannot answer: %s", c->id, mosquitto_strerror(rc));
	mosquitto_property_free_all(&properties);
	free(correlation);
}

static void
answer_refused(Device *d, const Command *c, const char *status, const char *why, const mosquitto_property *request)
{
	char text[SEEN_ANSWER_SIZE];

	snprintf(text, sizeof(text), "{\"status\":\"%s\",\"detail\":\"%s\"}", status, why);
	device_log("%s %s: %s: %s", c->id, c->name, status, why);
	answer(d, c, "res", text, request);
}

/* ---- What this device can do: here yours begins ---- */

static const char *
do_ping(Device *d, const cJSON *payload, cJSON *result)
{
	(void) payload;
	cJSON_AddStringToObject(result, "pong", d->o.device);
	return NULL;
}

static const char *
do_set_interval(Device *d, const cJSON *payload, cJSON *result)
{
	const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(payload, "seconds");

	if (!cJSON_IsNumber(seconds) || seconds->valuedouble < 1 || seconds->valuedouble > 86400)
		return "seconds must be a number from 1 to 86400";
	d->interval = (int64_t) (seconds->valuedouble * (double) SECOND);
	cJSON_AddNumberToObject(result, "seconds", seconds->valuedouble);
	return NULL;
}

/* A function each: fills the result and returns NULL, or returns what is wrong. */
static const struct
{
	const char *name;
	const char *(*act)(Device *d, const cJSON *payload, cJSON *result);
} acts[] = {{"ping", do_ping}, {"set-interval", do_set_interval}};

static void
carry_out(Device *d, const Command *c, char *text, int size)
{
	cJSON *said = cJSON_CreateObject(), *result = cJSON_CreateObject();
	const char *wrong = "unknown command";

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(acts[i].name, c->name) == 0)
			wrong = acts[i].act(d, c->payload, result);
	cJSON_AddStringToObject(said, "status", wrong == NULL ? "succeeded" : "failed");
	if (wrong != NULL)
		cJSON_AddStringToObject(said, "detail", wrong);
	else
		cJSON_AddItemReferenceToObject(said, "result", result);
	if (!cJSON_PrintPreallocated(said, text, size, false))
		snprintf(text, size, "{\"status\":\"%s\"}", wrong == NULL ? "succeeded" : "failed");
	cJSON_Delete(said);
	cJSON_Delete(result);
}

/* ---- What every device has to do ---- */

static void
begin(Device *d, const Command *c, const mosquitto_property *request)
{
	char text[SEEN_ANSWER_SIZE];

	answer(d, c, "ack", "", request);
	carry_out(d, c, text, sizeof(text));
	device_log("%s %s: %s", c->id, c->name, text);
	if (!seen_finish(d->seen, c->id, text))
		device_log("%s: the answer is not on disk", c->id);
	answer(d, c, "res", text, request);
}

static void
replay(Device *d, const Command *c, const mosquitto_property *request)
{
	const SeenEntry *e = seen_find(d->seen, c->id);

	device_log("%s %s: refused: it was begun before", c->id, c->name);
	answer(d, c, "ack", "", request);
	if (e->answer[0] != '\0')
		answer(d, c, "res", e->answer, request);
}

static void
judge(Device *d, const Command *c, const mosquitto_property *request)
{
	switch (command_judge(c, d->seen, wall_clock(d), d->o.tolerance))
	{
		case VERDICT_DO:
			begin(d, c, request);
			break;
		case VERDICT_REPLAY:
			replay(d, c, request);
			break;
		case VERDICT_EXPIRED:
			answer_refused(d, c, "expired", "expired by the clock of the device", request);
			break;
		case VERDICT_FUTURE:
			answer_refused(d, c, "failed", "the clock of the device is behind: the command is of the future", request);
			break;
		case VERDICT_NO_ROOM:
			answer_refused(d, c, "failed", "no room to remember the command", request);
			break;
	}
}

/* MQTT 5: everything but name and payload is in the user properties; of one that comes twice the first counts. */
static bool
from_properties(Command *c, const mosquitto_property *properties, const char *payload, int len)
{
	static const char *const names[] = {"fl-id", "fl-issued-at", "fl-expires-at"};
	char *value[3] = {NULL, NULL, NULL};
	char *name, *text;
	bool ok, more = false;

	while ((properties = mosquitto_property_read_string_pair(properties, MQTT_PROP_USER_PROPERTY, &name, &text,
															  more)) != NULL)
	{
		more = true;
		for (int i = 0; i < 3; i++)
			if (strcmp(name, names[i]) == 0 && value[i] == NULL)
			{
				value[i] = text;
				text = NULL;
			}
		free(name);
		free(text);
	}
	ok = command_set(c, value[0], value[1], value[2]);
	if (ok && len > 0)
		c->payload = cJSON_ParseWithLength(payload, len);
	for (int i = 0; i < 3; i++)
		free(value[i]);
	return ok;
}

void
device_on_command(Device *d, const struct mosquitto_message *message, const mosquitto_property *properties)
{
	Command c = {.payload = NULL};
	char base[TOPIC_SIZE];
	const char *name;
	bool ok;

	snprintf(base, sizeof(base), "%scmd/%s/req/", d->o.prefix, d->o.device);
	if (strncmp(message->topic, base, strlen(base)) != 0 || strlen(message->topic + strlen(base)) >= sizeof(c.name))
		return;
	name = message->topic + strlen(base);
	if (d->o.version == 5)
	{
		strcpy(c.name, name);
		ok = from_properties(&c, properties, message->payload, message->payloadlen);
	}
	else
		ok = command_from_envelope(&c, message->payload, message->payloadlen) && strcmp(c.name, name) == 0;
	if (ok)
		judge(d, &c, properties);
	else
		device_log("%s: no command: id, time of issue or expiry is missing or wrong", message->topic);
	cJSON_Delete(c.payload);
}
