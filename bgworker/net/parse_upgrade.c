/*
 * parse_upgrade.c
 *		The HTTP request by which a connection becomes a WebSocket, and its answer.
 *
 * The request is small, so it is read when all of it is there, by http_parser;
 * what is looked at here is what it says.  A refusal is an ordinary HTTP answer
 * that names the reason, because whoever sees it is a developer at a browser.
 *
 * Origin: a browser lets any page open a WebSocket to any server and says whose
 * page it was.  So a page from elsewhere is refused unless it is listed: else a
 * visit to some site would be enough to talk to a broker behind the firewall.
 * Programs other than browsers need not send it.
 *
 * Called by layer.c.
 */
#include "parse.h"

#include <http_parser.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "fleetlog/base64.h"

#define KEY_BYTES 16
#define GUID      "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, section 1.3 */

typedef struct Text
{
	const char *at;
	size_t len;
} Text;

typedef enum Field
{
	FIELD_HOST,
	FIELD_UPGRADE,
	FIELD_CONNECTION,
	FIELD_KEY,
	FIELD_VERSION,
	FIELD_PROTOCOL,
	FIELD_ORIGIN,
	FIELD_LENGTH,
	FIELD_ENCODING,
	FIELDS
} Field;

static const char *const field_names[FIELDS] = {
	[FIELD_HOST] = "Host",
	[FIELD_UPGRADE] = "Upgrade",
	[FIELD_CONNECTION] = "Connection",
	[FIELD_KEY] = "Sec-WebSocket-Key",
	[FIELD_VERSION] = "Sec-WebSocket-Version",
	[FIELD_PROTOCOL] = "Sec-WebSocket-Protocol",
	[FIELD_ORIGIN] = "Origin",
	[FIELD_LENGTH] = "Content-Length",
	[FIELD_ENCODING] = "Transfer-Encoding",
};

typedef struct Request
{
	Text url;
	Text value[FIELDS];
	int current; /* field whose value comes next, -1: none of ours */
	int twice;   /* a field that came more than once, -1: none */
} Request;

/* ---- from http_parser: all is in one buffer, so pieces of a text adjoin ---- */

static void
append(Text *text, const char *at, size_t len)
{
	if (text->at == NULL)
		text->at = at;
	text->len = (size_t) (at + len - text->at);
}

static int
on_url(http_parser *parser, const char *at, size_t len)
{
	append(&((Request *) parser->data)->url, at, len);
	return 0;
}

static int
on_field(http_parser *parser, const char *at, size_t len)
{
	Request *request = parser->data;

	request->current = -1;
	for (int i = 0; i < FIELDS; i++)
		if (strlen(field_names[i]) == len && strncasecmp(field_names[i], at, len) == 0)
			request->current = i;
	if (request->current >= 0 && request->value[request->current].at != NULL)
		request->twice = request->current;
	return 0;
}

static int
on_value(http_parser *parser, const char *at, size_t len)
{
	Request *request = parser->data;

	if (request->current >= 0)
		append(&request->value[request->current], at, len);
	return 0;
}

/* 1: there is no body to be read. */
static int
on_headers_complete(http_parser *parser)
{
	(void) parser;
	return 1;
}

/* ---- what it says ---- */

static bool
equals(Text text, const char *word)
{
	return text.at != NULL && strlen(word) == text.len && strncasecmp(text.at, word, text.len) == 0;
}

/* Is the word one of a list that is separated by commas? */
static bool
lists(Text text, const char *word)
{
	const char *at = text.at;
	const char *end;

	if (at == NULL)
		return false;
	end = at + text.len;
	while (at < end)
	{
		const char *comma = memchr(at, ',', (size_t) (end - at));
		Text item = {at, (size_t) ((comma != NULL ? comma : end) - at)};

		while (item.len > 0 && (*item.at == ' ' || *item.at == '\t'))
			item.at++, item.len--;
		while (item.len > 0 && (item.at[item.len - 1] == ' ' || item.at[item.len - 1] == '\t'))
			item.len--;
		if (equals(item, word))
			return true;
		at = comma != NULL ? comma + 1 : end;
	}
	return false;
}

static bool
path_matches(Text url, const char *path)
{
	const char *query = url.at != NULL ? memchr(url.at, '?', url.len) : NULL;
	size_t len = query != NULL ? (size_t) (query - url.at) : url.len;

	return strlen(path) == len && memcmp(url.at, path, len) == 0;
}

/* scheme://host:port against the Host that the client asked for, or the list. */
static bool
origin_allowed(const Request *request, const char *origins)
{
	Text origin = request->value[FIELD_ORIGIN];
	Text host = request->value[FIELD_HOST];
	Text list = {origins, strlen(origins)};
	char text[256];
	const char *authority;

	if (origin.at == NULL || lists(list, "*"))
		return true;
	if (origin.len >= sizeof(text))
		return false;
	memcpy(text, origin.at, origin.len);
	text[origin.len] = '\0';
	authority = strstr(text, "://");
	if (authority != NULL && equals(host, authority + 3))
		return true;
	return text[0] != '\0' && lists(list, text);
}

static bool
key_is_valid(Text key)
{
	uint8_t bytes[KEY_BYTES + 2];
	FlBuf buf;

	if (key.len != 24)
		return false;
	fl_buf_init_fixed(&buf, bytes, sizeof(bytes));
	return fl_base64_decode((const uint8_t *) key.at, key.len, &buf) == FL_OK && buf.len == KEY_BYTES;
}

/* ---- the answer ---- */

static void
refuse(FlUpgrade *out, int status, const char *name, const char *extra, const char *why)
{
	out->status = status;
	out->why = why;
	out->len = (size_t) snprintf(out->answer, sizeof(out->answer),
								 "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain\r\nContent-Length: %zu\r\n"
								 "Connection: close\r\n\r\n%s\n",
								 status, name, extra, strlen(why) + 1, why);
}

static void
accept_request(FlUpgrade *out, Text key, const char *protocol)
{
	uint8_t text[24 + sizeof(GUID) - 1];
	uint8_t digest[SHA_DIGEST_LENGTH];
	char encoded[29] = {0};

	memcpy(text, key.at, 24);
	memcpy(text + 24, GUID, sizeof(GUID) - 1);
	SHA1(text, sizeof(text), digest);
	fl_base64_encode(encoded, digest, sizeof(digest));
	out->status = 101;
	out->len = (size_t) snprintf(out->answer, sizeof(out->answer),
								 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
								 "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
								 encoded, protocol);
}

static void
answer(const http_parser *parser, const Request *request, const FlUpgradeRules *rules, FlUpgrade *out)
{
	const Text *value = request->value;
	const char *protocol = lists(value[FIELD_PROTOCOL], "mqtt") ? "mqtt" : "mqttv3.1";

	if (!path_matches(request->url, rules->path))
		refuse(out, 404, "Not Found", "", "nothing is served at this path; see fleetlog.ws_path");
	else if (parser->method != HTTP_GET)
		refuse(out, 405, "Method Not Allowed", "Allow: GET\r\n", "a WebSocket begins with GET");
	else if (request->twice >= 0)
		refuse(out, 400, "Bad Request", "", "a header field that may come once came twice");
	else if (parser->http_major != 1 || parser->http_minor < 1 || value[FIELD_HOST].at == NULL)
		refuse(out, 400, "Bad Request", "", "HTTP/1.1 with a Host is expected");
	else if (value[FIELD_LENGTH].at != NULL || value[FIELD_ENCODING].at != NULL)
		refuse(out, 400, "Bad Request", "", "the request must have no body");
	else if (!lists(value[FIELD_UPGRADE], "websocket") || !lists(value[FIELD_CONNECTION], "upgrade"))
		refuse(out, 426, "Upgrade Required", "Upgrade: websocket\r\n", "only MQTT over WebSocket is served here");
	else if (!equals(value[FIELD_VERSION], "13"))
		refuse(out, 426, "Upgrade Required", "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
			   "version 13 of WebSocket is expected");
	else if (!key_is_valid(value[FIELD_KEY]))
		refuse(out, 400, "Bad Request", "", "Sec-WebSocket-Key is not valid");
	else if (!lists(value[FIELD_PROTOCOL], protocol))
		refuse(out, 400, "Bad Request", "", "Sec-WebSocket-Protocol must list mqtt");
	else if (!origin_allowed(request, rules->origins))
		refuse(out, 403, "Forbidden", "", "pages of this origin are not allowed; see fleetlog.ws_origins");
	else
		accept_request(out, value[FIELD_KEY], protocol);
}

/* Where the empty line ends, 0: it has not come. */
static size_t
request_end(const uint8_t *data, size_t len)
{
	for (size_t i = 3; i < len; i++)
		if (data[i] == '\n' && data[i - 1] == '\r' && data[i - 2] == '\n' && data[i - 3] == '\r')
			return i + 1;
	return 0;
}

FlResult
fl_upgrade_decode(const uint8_t *data, size_t len, const FlUpgradeRules *rules, FlUpgrade *out)
{
	http_parser_settings settings;
	http_parser parser;
	Request request = {.current = -1, .twice = -1};
	size_t end = request_end(data, len < FL_UPGRADE_MAX_REQUEST ? len : FL_UPGRADE_MAX_REQUEST);

	memset(out, 0, sizeof(*out));
	if (end == 0 && len < FL_UPGRADE_MAX_REQUEST)
		return FL_INCOMPLETE;
	http_parser_init(&parser, HTTP_REQUEST);
	http_parser_settings_init(&settings);
	settings.on_url = on_url;
	settings.on_header_field = on_field;
	settings.on_header_value = on_value;
	settings.on_headers_complete = on_headers_complete;
	parser.data = &request;
	out->used = end > 0 ? end : len;
	if (end == 0)
		refuse(out, 431, "Request Header Fields Too Large", "", "the request is too long");
	else if (http_parser_execute(&parser, &settings, (const char *) data, end) != end ||
			 HTTP_PARSER_ERRNO(&parser) != HPE_OK)
		refuse(out, 400, "Bad Request", "", "this is no HTTP request");
	else
		answer(&parser, &request, rules, out);
	return FL_OK;
}
