/*
 * packet_property.c
 *		Property blocks of MQTT 5.0 (clause 2.2.2), driven by one table.
 *
 * A block is walked once when it is decoded: types, lengths, UTF-8, allowed
 * packets, repetition and ranges are checked there.  Single-valued properties
 * land in value[]; user properties and subscription identifiers, which may
 * repeat and whose order counts (MQTT-3.3.2-18), stay in the encoded block and
 * are read by the iterators.
 */
#include "packet.h"

typedef struct FlPropRow
{
	uint8_t id;
	uint8_t type; /* FlMqttPropType */
	bool zero;    /* 0 is a legal value */
	uint32_t packets;
	uint32_t repeat;
} FlPropRow;

static const FlPropRow rows[FL_MQTT_PROP_COUNT] = {
#define X(name, id, type, zero, packets, repeat) {id, FL_MQTT_PROP_##type, zero, packets, repeat},
	FL_MQTT_PROPERTIES(X)
#undef X
};

/* identifier -> row + 1, 0 where the standard defines nothing */
static const uint8_t row_of_id[FL_MQTT_PROP_MAX_ID + 1] = {
#define X(name, id, type, zero, packets, repeat) [id] = FL_MQTT_P_##name + 1,
	FL_MQTT_PROPERTIES(X)
#undef X
};

void
fl_mqtt_props_init(FlMqttProps *props)
{
	props->present = 0;
	props->user_count = 0;
	props->subscription_id_count = 0;
	props->raw = NULL;
	props->raw_len = 0;
	props->users = NULL;
	props->subscription_ids = NULL;
}

void
fl_mqtt_props_set_int(FlMqttProps *props, FlMqttProp prop, uint32_t num)
{
	props->present |= 1u << prop;
	props->value[prop].data = NULL;
	props->value[prop].num = num;
}

void
fl_mqtt_props_set_bytes(FlMqttProps *props, FlMqttProp prop, const void *data, uint32_t len)
{
	props->present |= 1u << prop;
	props->value[prop].data = data;
	props->value[prop].num = len;
}

/* Reads one value; false where it is cut short or its bytes are not of its type. */
static bool
read_value(FlReader *in, FlMqttPropType type, FlMqttPropValue *value)
{
	FlMqttBytes bytes = {NULL, 0};
	bool ok = true;

	value->data = NULL;
	switch (type)
	{
		case FL_MQTT_PROP_U8:
		case FL_MQTT_PROP_BOOL:
			value->num = fl_read_u8(in);
			break;
		case FL_MQTT_PROP_U16:
			value->num = fl_read_be16(in);
			break;
		case FL_MQTT_PROP_U32:
			value->num = fl_read_be32(in);
			break;
		case FL_MQTT_PROP_VARINT:
			ok = fl_mqtt_read_varint(in, &value->num);
			break;
		case FL_MQTT_PROP_STRING:
			ok = fl_mqtt_read_string(in, &bytes);
			value->data = bytes.data;
			value->num = bytes.len;
			break;
		case FL_MQTT_PROP_BINARY:
			ok = fl_mqtt_read_binary(in, &bytes);
			value->data = bytes.data;
			value->num = bytes.len;
			break;
		case FL_MQTT_PROP_PAIR:
			ok = fl_mqtt_read_string(in, &bytes) && fl_mqtt_read_string(in, &bytes);
			value->num = 0;
			break;
	}
	return ok && !in->failed;
}

/* Where Mosquitto takes a property that is none of the packet's for a protocol error. */
#define DISPUTED_PLACES (FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_ACKS | FL_MQTT_BIT(DISCONNECT))

/*
 * May this property stand here?  Some go one way only: a server sends no session
 * expiry in DISCONNECT (MQTT-3.14.2-2), a client no server reference.  That a
 * client sends no subscription identifier in PUBLISH (MQTT-3.3.4-6) is left to
 * the door, which may be told to bear it; more than one it never bears.
 */
static FlResult
check_place(FlMqttProp prop, uint32_t packet_bit, FlMqttSender sender, const FlMqttProps *props, FlMqttFault *fault)
{
	bool client = sender == FL_MQTT_FROM_CLIENT;

	if ((rows[prop].packets & packet_bit) == 0)
	{
		if (packet_bit & DISPUTED_PLACES)
			return FL_MQTT_MALFORMED_OR_BROKEN(fault, "property is not allowed in this packet");
		return FL_MQTT_MALFORMED(fault, "property is not allowed in this packet");
	}
	if (prop == FL_MQTT_P_SUBSCRIPTION_ID && client && props->subscription_id_count > 0)
		return FL_MQTT_BROKEN(fault, "property appears more than once");
	if (packet_bit == FL_MQTT_BIT(DISCONNECT) &&
		((prop == FL_MQTT_P_SESSION_EXPIRY && !client) || (prop == FL_MQTT_P_SERVER_REFERENCE && client)))
		return FL_MQTT_BROKEN(fault, "property goes the other way only");
	if (fl_mqtt_props_has(props, prop) && (rows[prop].repeat & packet_bit) == 0)
		return FL_MQTT_BROKEN(fault, "property appears more than once");
	return FL_OK;
}

static FlResult
check_range(FlMqttProp prop, const FlMqttPropValue *value, FlMqttFault *fault)
{
	if (prop == FL_MQTT_P_SUBSCRIPTION_ID && value->num == 0)
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "subscription identifier 0");
	if (!rows[prop].zero && value->num == 0)
		return FL_MQTT_BROKEN(fault, "property value must not be 0");
	if (rows[prop].type == FL_MQTT_PROP_BOOL && value->num > 1)
		return FL_MQTT_BROKEN(fault, "property value must be 0 or 1");
	if (prop == FL_MQTT_P_TOPIC_ALIAS && value->num == 0)
		return fl_mqtt_fault(fault, FL_MQTT_RC_TOPIC_ALIAS_INVALID, "topic alias 0");
	return FL_OK;
}

static FlResult
decode_one(FlReader *in, uint32_t packet_bit, FlMqttSender sender, FlMqttProps *props, FlMqttFault *fault)
{
	uint32_t id;
	FlMqttProp prop;
	FlMqttPropValue value;
	FlResult result;

	if (!fl_mqtt_read_varint(in, &id))
		return FL_MQTT_MALFORMED(fault, "bad property identifier");
	if (id > FL_MQTT_PROP_MAX_ID || row_of_id[id] == 0)
		return FL_MQTT_MALFORMED(fault, "unknown property identifier");
	prop = (FlMqttProp) (row_of_id[id] - 1);
	if (!read_value(in, (FlMqttPropType) rows[prop].type, &value))
		return FL_MQTT_MALFORMED(fault, "bad property value");
	result = check_place(prop, packet_bit, sender, props, fault);
	if (result == FL_OK)
		result = check_range(prop, &value, fault);
	if (result != FL_OK)
		return result;

	props->present |= 1u << prop;
	if (prop == FL_MQTT_P_USER_PROPERTY)
		props->user_count++;
	else if (prop == FL_MQTT_P_SUBSCRIPTION_ID)
		props->subscription_id_count++;
	/* The first of several stays; the others are read by the iterators. */
	if (prop != FL_MQTT_P_SUBSCRIPTION_ID || props->subscription_id_count == 1)
		props->value[prop] = value;
	return FL_OK;
}

/* Can the rest of the block be parsed, whether or not it belongs there? */
static bool
is_parsable(FlReader *in)
{
	FlMqttPropValue value;
	uint32_t id;

	while (fl_reader_left(in) > 0)
		if (!fl_mqtt_read_varint(in, &id) || id > FL_MQTT_PROP_MAX_ID || row_of_id[id] == 0 ||
			!read_value(in, (FlMqttPropType) rows[row_of_id[id] - 1].type, &value))
			return false;
	return true;
}

FlResult
fl_mqtt_decode_props(FlReader *in, uint32_t packet_bit, FlMqttSender sender, FlMqttProps *props, FlMqttFault *fault)
{
	uint32_t len;
	FlReader block;

	fl_mqtt_props_init(props);
	if (!fl_mqtt_read_varint(in, &len))
		return FL_MQTT_MALFORMED(fault, "bad property length");
	props->raw = fl_read_bytes(in, len);
	if (in->failed)
		return FL_MQTT_MALFORMED(fault, "properties are cut short");
	props->raw_len = len;
	fl_reader_init(&block, props->raw, len);
	while (fl_reader_left(&block) > 0)
	{
		FlResult result = decode_one(&block, packet_bit, sender, props, fault);

		if (result == FL_OK)
			continue;
		/* Nothing is disputed about a packet that is malformed in another place as well. */
		if (fault->reason == FL_MQTT_RC_MALFORMED_PACKET && !is_parsable(&block))
			fault->other = FL_MQTT_RC_SUCCESS;
		return result;
	}
	if (fl_mqtt_props_has(props, FL_MQTT_P_AUTH_DATA) && !fl_mqtt_props_has(props, FL_MQTT_P_AUTH_METHOD))
		return FL_MQTT_BROKEN(fault, "authentication data without a method");
	return FL_OK;
}

/*
 * Moves on in raw to the next property of one kind.  The block was checked, so
 * a failure cannot happen; it ends the walk all the same.
 */
static bool
next_in_raw(const FlMqttProps *props, FlMqttPropCursor *at, FlMqttProp wanted, FlReader *value_at)
{
	FlReader in;

	if (props->raw == NULL)
		return false;
	fl_reader_init(&in, props->raw, props->raw_len);
	(void) fl_read_bytes(&in, at->at);
	while (!in.failed && fl_reader_left(&in) > 0)
	{
		uint32_t id;
		FlMqttPropValue value;
		FlMqttProp prop;

		if (!fl_mqtt_read_varint(&in, &id) || id > FL_MQTT_PROP_MAX_ID || row_of_id[id] == 0)
			return false;
		prop = (FlMqttProp) (row_of_id[id] - 1);
		*value_at = in;
		if (!read_value(&in, (FlMqttPropType) rows[prop].type, &value))
			return false;
		at->at = (uint32_t) (in.pos - props->raw);
		if (prop == wanted)
		{
			at->index++;
			return true;
		}
	}
	return false;
}

bool
fl_mqtt_props_next_user(const FlMqttProps *props, FlMqttPropCursor *at, FlMqttUserProperty *user)
{
	FlReader value;

	if (at->index >= props->user_count)
		return false;
	if (props->users)
	{
		*user = props->users[at->index++];
		return true;
	}
	return next_in_raw(props, at, FL_MQTT_P_USER_PROPERTY, &value) && fl_mqtt_read_string(&value, &user->name) &&
		   fl_mqtt_read_string(&value, &user->value);
}

bool
fl_mqtt_props_next_subscription_id(const FlMqttProps *props, FlMqttPropCursor *at, uint32_t *id)
{
	FlReader value;

	if (at->index >= props->subscription_id_count)
		return false;
	if (props->subscription_ids)
	{
		*id = props->subscription_ids[at->index++];
		return true;
	}
	return next_in_raw(props, at, FL_MQTT_P_SUBSCRIPTION_ID, &value) && fl_mqtt_read_varint(&value, id);
}

/* ---- encoding ---- */

static bool
is_repeating(FlMqttProp prop)
{
	return prop == FL_MQTT_P_USER_PROPERTY || prop == FL_MQTT_P_SUBSCRIPTION_ID;
}

bool
fl_mqtt_props_empty(const FlMqttProps *props)
{
	return props->present == 0 && props->user_count == 0 && props->subscription_id_count == 0;
}

static uint32_t
value_size(FlMqttPropType type, const FlMqttPropValue *value)
{
	switch (type)
	{
		case FL_MQTT_PROP_U8:
		case FL_MQTT_PROP_BOOL:
			return 1;
		case FL_MQTT_PROP_U16:
			return 2;
		case FL_MQTT_PROP_U32:
			return 4;
		case FL_MQTT_PROP_VARINT:
			return fl_mqtt_varint_size(value->num);
		case FL_MQTT_PROP_STRING:
		case FL_MQTT_PROP_BINARY:
			return 2 + value->num;
		case FL_MQTT_PROP_PAIR:
			break;
	}
	return 0;
}

uint32_t
fl_mqtt_props_size(const FlMqttProps *props)
{
	uint32_t size = 0;
	FlMqttPropCursor at = {0, 0};
	FlMqttUserProperty user;
	uint32_t id;

	for (int p = 0; props->present >> p; p++)
		if (fl_mqtt_props_has(props, (FlMqttProp) p) && !is_repeating((FlMqttProp) p))
			size += 1 + value_size((FlMqttPropType) rows[p].type, &props->value[p]);
	while (fl_mqtt_props_next_subscription_id(props, &at, &id))
		size += 1 + fl_mqtt_varint_size(id);
	at.index = at.at = 0;
	while (fl_mqtt_props_next_user(props, &at, &user))
		size += 5 + user.name.len + user.value.len;
	return size;
}

static void
write_value(FlBuf *out, FlMqttProp prop, const FlMqttPropValue *value)
{
	FlMqttBytes bytes;

	fl_write_u8(out, rows[prop].id);
	switch ((FlMqttPropType) rows[prop].type)
	{
		case FL_MQTT_PROP_U8:
		case FL_MQTT_PROP_BOOL:
			fl_write_u8(out, (uint8_t) value->num);
			break;
		case FL_MQTT_PROP_U16:
			fl_write_be16(out, (uint16_t) value->num);
			break;
		case FL_MQTT_PROP_U32:
			fl_write_be32(out, value->num);
			break;
		case FL_MQTT_PROP_VARINT:
			fl_mqtt_write_varint(out, value->num);
			break;
		case FL_MQTT_PROP_STRING:
		case FL_MQTT_PROP_BINARY:
			bytes.data = value->data;
			bytes.len = value->num;
			fl_mqtt_write_binary(out, bytes);
			break;
		case FL_MQTT_PROP_PAIR:
			break;
	}
}

void
fl_mqtt_encode_props(FlBuf *out, const FlMqttProps *props)
{
	FlMqttPropCursor at = {0, 0};
	FlMqttUserProperty user;
	FlMqttPropValue id;

	fl_mqtt_write_varint(out, fl_mqtt_props_size(props));
	for (int p = 0; props->present >> p; p++)
		if (fl_mqtt_props_has(props, (FlMqttProp) p) && !is_repeating((FlMqttProp) p))
			write_value(out, (FlMqttProp) p, &props->value[p]);
	while (fl_mqtt_props_next_subscription_id(props, &at, &id.num))
		write_value(out, FL_MQTT_P_SUBSCRIPTION_ID, &id);
	at.index = at.at = 0;
	while (fl_mqtt_props_next_user(props, &at, &user))
	{
		fl_write_u8(out, rows[FL_MQTT_P_USER_PROPERTY].id);
		fl_mqtt_write_binary(out, user.name);
		fl_mqtt_write_binary(out, user.value);
	}
}
