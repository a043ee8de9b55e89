/*
 * packet_reason.c
 *		Names of packets and reason codes, and which packet may hold which code.
 *
 * Both come from the X-macro lists of mqtt_packet.h, so that a code that is
 * added there has its name, its packets and its check at once.
 *
 * Called by the codec and by everybody who logs or counts a reason.
 */
#include "packet.h"

typedef struct FlReasonRow
{
	uint8_t code;
	uint32_t packets;
	const char *symbol;
} FlReasonRow;

static const FlReasonRow reason_rows[] = {
#define X(name, code, packets) {code, packets, #name},
	FL_MQTT_REASONS(X)
#undef X
};

static const char *const type_names[16] = {"reserved",
#define X(name, code, flags, sender) [code] = #name,
										   FL_MQTT_PACKETS(X)
#undef X
};

const char *
fl_mqtt_type_name(uint8_t type)
{
	return type_names[type & 0x0F];
}

static const FlReasonRow *
find_reason(uint8_t code)
{
	size_t low = 0;
	size_t high = sizeof(reason_rows) / sizeof(reason_rows[0]);

	while (low < high)
	{
		size_t middle = low + (high - low) / 2;

		if (reason_rows[middle].code == code)
			return &reason_rows[middle];
		if (reason_rows[middle].code < code)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const char *
fl_mqtt_reason_name(uint8_t code)
{
	const FlReasonRow *row = find_reason(code);

	return row ? row->symbol : "unknown";
}

bool
fl_mqtt_reason_allowed(FlMqttType type, uint8_t code)
{
	const FlReasonRow *row = find_reason(code);

	return row != NULL && (row->packets & (1u << type)) != 0;
}

int
fl_mqtt_return_code(FlMqttReason reason)
{
	switch (reason)
	{
		case FL_MQTT_RC_SUCCESS:
			return FL_MQTT_RETURN_ACCEPTED;
		case FL_MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION:
			return FL_MQTT_RETURN_BAD_VERSION;
		case FL_MQTT_RC_CLIENT_IDENTIFIER_NOT_VALID:
			return FL_MQTT_RETURN_ID_REJECTED;
		case FL_MQTT_RC_SERVER_UNAVAILABLE:
		case FL_MQTT_RC_SERVER_BUSY:
		case FL_MQTT_RC_QUOTA_EXCEEDED:
		case FL_MQTT_RC_CONNECTION_RATE_EXCEEDED:
		case FL_MQTT_RC_SERVER_SHUTTING_DOWN:
			return FL_MQTT_RETURN_UNAVAILABLE;
		case FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD:
			return FL_MQTT_RETURN_BAD_CREDENTIALS;
		case FL_MQTT_RC_NOT_AUTHORIZED:
		case FL_MQTT_RC_BANNED:
		case FL_MQTT_RC_RETAIN_NOT_SUPPORTED:
		case FL_MQTT_RC_QOS_NOT_SUPPORTED:
		case FL_MQTT_RC_TOPIC_NAME_INVALID:
			return FL_MQTT_RETURN_NOT_AUTHORIZED;
		default:
			return -1;
	}
}
