/*
 * test_mqtt_sequences.c
 *		The decoder's verdict on public byte sequences (Eclipse Mosquitto's broker
 *		tests), where they are at hand.
 *
 * Each case says what a client sends and whether the connection lives after it.
 * Without a broker we can check one half of that: where the connection lives,
 * every packet that was sent must decode; where a DISCONNECT with 0x81
 * (malformed) is expected, some packet must not.  The other half is for the
 * running server (TAP tests).
 *
 * The folder is $FLEETLOG_SHARED/data/mqtt-sequences, by default ../shared
 * beside the repository.
 */
#include "fl_unit.h"

#include <dirent.h>

#include "fleetlog/mqtt_packet.h"

#define MAX_SENDS   16
#define MAX_PAYLOAD 70000

typedef struct Case
{
	char name[200];
	int version;
	bool connect; /* the runner sends a CONNECT first */
	bool dies;
	bool malformed; /* a DISCONNECT 0x81 is expected */
	int sends;
	char *payload[MAX_SENDS];
} Case;

static int cases_seen;
static int cases_wrong;

static size_t
unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	int half = -1;

	for (; *hex && n < MAX_PAYLOAD; hex++)
	{
		const char *digits = "0123456789abcdef";
		const char *at = strchr(digits, *hex | 0x20);

		if (*hex == ' ' || at == NULL)
			continue;
		if (half < 0)
			half = (int) (at - digits);
		else
		{
			out[n++] = (uint8_t) (half << 4 | (int) (at - digits));
			half = -1;
		}
	}
	return n;
}

/* Decodes all packets in data; false at the first that is refused. */
static bool
feed(const uint8_t *data, size_t len, FlMqttVersion *version)
{
	while (len > 0)
	{
		uint8_t *copy = fl_unit_copy(data, len);
		FlMqttFrame frame;
		FlMqttPacket packet;
		FlMqttFault fault;
		FlResult result = fl_mqtt_frame_next(copy, len, *version, FL_MQTT_FROM_CLIENT, 1 << 20, &frame, &fault);

		if (result == FL_OK)
			result = fl_mqtt_decode(&frame, *version, FL_MQTT_FROM_CLIENT, &packet, &fault);
		if (result == FL_OK && packet.type == FL_MQTT_CONNECT)
			*version = packet.u.connect.version;
		free(copy);
		if (result != FL_OK)
			return false;
		data += frame.total;
		len -= frame.total;
	}
	return true;
}

static void
judge(const char *file, Case *c)
{
	static uint8_t data[MAX_PAYLOAD];
	FlMqttVersion version = c->connect ? (FlMqttVersion) c->version : FL_MQTT_UNKNOWN;
	bool accepted = true;
	bool wrong;

	for (int i = 0; i < c->sends && accepted; i++)
		accepted = feed(data, unhex(c->payload[i], data), &version);
	wrong = c->dies ? (c->malformed && accepted) : !accepted;
	cases_seen++;
	if (wrong)
	{
		cases_wrong++;
		printf("# %s, %s: %s\n", file, c->name, accepted ? "accepted" : "refused");
	}
}

/* Reads a JSON string at p (after the quote) in place; returns what follows. */
static char *
read_string(char *p, char **out)
{
	char *write = p;

	*out = p;
	for (; *p && *p != '"'; p++)
	{
		if (*p == '\\' && p[1])
			p++;
		*write++ = *p;
	}
	if (*p)
		p++;
	*write = '\0';
	return p;
}

static void
take_string(Case *c, const char *key, char *value, char *type, size_t type_size)
{
	if (strcmp(key, "name") == 0)
		snprintf(c->name, sizeof(c->name), "%s", value);
	else if (strcmp(key, "type") == 0)
		snprintf(type, type_size, "%s", value);
	else if (strcmp(key, "payload") == 0 && strcmp(type, "send") == 0 && c->sends < MAX_SENDS)
		c->payload[c->sends++] = value;
	else if (strcmp(key, "payload") == 0 && strcmp(type, "recv") == 0)
		c->malformed = strncmp(value, "E0 01 81", 8) == 0;
}

static void
take_literal(Case *c, const char *key, const char *at)
{
	if (strcmp(key, "ver") == 0)
		c->version = atoi(at);
	else if (strcmp(key, "connect") == 0)
		c->connect = *at == 't';
	else if (strcmp(key, "expect_disconnect") == 0)
		c->dies = *at == 't';
}

/*
 * The files are groups of tests of messages, so an object at depth 2 (counting
 * braces) is a test and is judged when its brace closes.
 */
static void
judge_file(const char *file, char *text)
{
	static const Case fresh = {.version = 4, .connect = true, .dies = true};
	Case c = fresh;
	int depth = 0;
	char type[16] = "";
	const char *key = "";

	for (char *p = text; *p;)
	{
		char *string;

		switch (*p)
		{
			case '{':
				if (++depth == 2)
					c = fresh;
				p++;
				break;
			case '}':
				if (depth-- == 2)
					judge(file, &c);
				p++;
				break;
			case '"':
				p = read_string(p + 1, &string);
				while (*p == ' ' || *p == '\t')
					p++;
				if (*p == ':')
				{
					key = string;
					p++;
				}
				else if (depth >= 2)
					take_string(&c, key, string, type, sizeof(type));
				break;
			default:
				if (depth >= 2 && strchr("tf0123456789", *p))
				{
					take_literal(&c, key, p);
					p += strcspn(p, ",}] \n");
				}
				else
					p++;
		}
	}
}

static char *
read_file(const char *path)
{
	FILE *in = fopen(path, "rb");
	char *text;
	long size;

	if (in == NULL)
		return NULL;
	fseek(in, 0, SEEK_END);
	size = ftell(in);
	rewind(in);
	text = malloc((size_t) size + 1);
	if (text == NULL || fread(text, 1, (size_t) size, in) != (size_t) size)
		abort();
	text[size] = '\0';
	fclose(in);
	return text;
}

static char folder[4096];

static bool
sequences_are_here(void)
{
	const char *shared = getenv("FLEETLOG_SHARED");
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/data/mqtt-sequences", shared ? shared : "../../../shared");
	dir = opendir(folder);
	if (dir != NULL)
		closedir(dir);
	return dir != NULL;
}

static void
test_public_sequences(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	FL_REQUIRE(dir != NULL);
	while ((entry = readdir(dir)) != NULL)
	{
		char path[8192];
		char *text;

		if (strstr(entry->d_name, ".json") == NULL)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		text = read_file(path);
		FL_REQUIRE(text != NULL);
		judge_file(entry->d_name, text);
		free(text);
	}
	closedir(dir);
	printf("# %d sequences, %d judged otherwise\n", cases_seen, cases_wrong);
	FL_CHECK(cases_seen > 1000);
	FL_CHECK_INT(cases_wrong, 0);
}

FL_UNIT_MAIN(if (sequences_are_here()) FL_RUN(test_public_sequences);
			 else fl_unit_skip("test_public_sequences", "the public sequences are not beside the repository");)
