/*-------------------------------------------------------------------------
 *
 * frame.c
 *	  Frames, request headers, response headers.
 *
 * These few bytes decide which table reads the rest, so they are written by
 * hand.  A request header is version 1 (key, version, correlation id, client
 * id), or 2 where the request is flexible: the same, then tagged fields; the
 * client id keeps its 16-bit length in both.  A response header is version 0,
 * or 1 where flexible, except for ApiVersions, whose answer must be readable
 * by a client that does not know yet what we speak.
 *
 * Called by the Kafka door.  Must not look at a body.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/kafka_apis.h"
#include "fleetlog/kafka_codec.h"
#include "fleetlog/kafka_session.h"

#define FL_KAFKA_ERROR_UNSUPPORTED_VERSION 35

const FlKafkaApi *
fl_kafka_api(int16_t key)
{
	for (int i = 0; i < FL_KAFKA_N_APIS; i++)
		if (fl_kafka_apis[i].key == key)
			return &fl_kafka_apis[i];
	return NULL;
}

FlResult
fl_kafka_decode_frame(const uint8_t *data, size_t len, size_t max, size_t *size)
{
	int32_t n;

	*size = 0;
	if (len < FL_KAFKA_FRAME_HEADER)
		return FL_INCOMPLETE;
	n = (int32_t) fl_get_be32(data);
	if (n < 0)
		return FL_MALFORMED;
	if ((size_t) n > max)
		return FL_TOO_LARGE;
	*size = (size_t) n;
	return len - FL_KAFKA_FRAME_HEADER < *size ? FL_INCOMPLETE : FL_OK;
}

/* The tagged fields of a header: none of them means anything to us. */
static void
fl_kafka_skip_tags(FlReader *r)
{
	uint64_t n = fl_read_groups(r, 32);

	if (n > fl_reader_left(r) / 2)
		r->failed = true;
	for (uint64_t i = 0; i < n && !r->failed; i++)
	{
		(void) fl_read_groups(r, 32);
		(void) fl_read_bytes(r, (size_t) fl_read_groups(r, 32));
	}
}

FlResult
fl_kafka_decode_request_header(const uint8_t *data, size_t len, FlKafkaRequestHeader *h)
{
	FlReader r;
	int16_t client_len;

	fl_reader_init(&r, data, len);
	h->key = (int16_t) fl_read_be16(&r);
	h->version = (int16_t) fl_read_be16(&r);
	h->correlation_id = (int32_t) fl_read_be32(&r);
	h->api = NULL;
	h->client_id = fl_kafka_string(NULL);
	h->body_at = 0;
	if (r.failed)
		return FL_MALFORMED;

	h->api = fl_kafka_api(h->key);
	if (h->api == NULL || h->version < h->api->from || h->version > h->api->to)
		return FL_UNSUPPORTED;

	client_len = (int16_t) fl_read_be16(&r);
	if (client_len >= 0)
		h->client_id = fl_kafka_bytes(fl_read_bytes(&r, (size_t) client_len), client_len);
	else if (client_len != -1)
		r.failed = true;
	if (h->version >= h->api->request->flexible)
		fl_kafka_skip_tags(&r);
	if (r.failed)
		return FL_MALFORMED;
	h->body_at = (size_t) (r.pos - data);
	return FL_OK;
}

FlResult
fl_kafka_encode_request_header(const FlKafkaApi *api, int16_t version, int32_t correlation_id, FlKafkaBytes client_id,
							   FlBuf *out)
{
	if (client_id.len < -1 || client_id.len > INT16_MAX)
		return FL_MALFORMED;
	fl_write_be16(out, (uint16_t) api->key);
	fl_write_be16(out, (uint16_t) version);
	fl_write_be32(out, (uint32_t) correlation_id);
	fl_write_be16(out, (uint16_t) client_id.len);
	if (client_id.len > 0)
		fl_write_bytes(out, client_id.data, (size_t) client_id.len);
	if (version >= api->request->flexible)
		fl_write_u8(out, 0);
	return out->failed ? FL_TOO_LARGE : FL_OK;
}

size_t
fl_kafka_begin_response(const FlKafkaApi *api, int16_t version, int32_t correlation_id, FlBuf *out)
{
	size_t start = out->len;

	fl_write_be32(out, 0);
	fl_write_be32(out, (uint32_t) correlation_id);
	if (api->key != FL_KAFKA_API_VERSIONS && version >= api->response->flexible)
		fl_write_u8(out, 0);
	return start;
}

FlResult
fl_kafka_end_response(size_t start, size_t placed, FlBuf *out)
{
	if (out->failed || out->len - start - FL_KAFKA_FRAME_HEADER + placed > INT32_MAX)
	{
		out->len = start;
		return FL_TOO_LARGE;
	}
	fl_put_be32(out->data + start, (uint32_t) (out->len - start - FL_KAFKA_FRAME_HEADER + placed));
	return FL_OK;
}

FlResult
fl_kafka_encode_api_versions_fallback(int32_t correlation_id, FlBuf *out)
{
	const FlKafkaApi *api = fl_kafka_api(FL_KAFKA_API_VERSIONS);
	FlKafkaApiVersionsApiVersion self;
	FlKafkaApiVersionsResponse answer;
	size_t start = fl_kafka_begin_response(api, 0, correlation_id, out);
	FlResult result;

	fl_kafka_init_api_versions_api_version(&self);
	self.api_key = api->key;
	self.min_version = api->announced;
	self.max_version = api->to;
	fl_kafka_init_api_versions_response(&answer);
	answer.error_code = FL_KAFKA_ERROR_UNSUPPORTED_VERSION;
	fl_kafka_set_items(&answer.api_keys, &self, 1);
	result = fl_kafka_encode_api_versions_response(0, &answer, out);
	if (result != FL_OK)
	{
		out->len = start;
		return result;
	}
	return fl_kafka_end_response(start, 0, out);
}
