/*-------------------------------------------------------------------------
 *
 * request.c
 *		What doors ask of the process that keeps positions, as bytes in the queue.
 *
 * Both ends are this library in one server, so the form is only checked for our
 * own mistakes; numbers are little-endian as everywhere.
 *
 *		request: op, role, length and bytes of the consumer's name, items
 *		answer:  error, found, items
 *		item:    stream, shard, offset, epoch, error, length and bytes of metadata
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/groups.h"

static void
write_bytes(FlBuf *buf, FlKafkaBytes bytes)
{
	fl_write_le32(buf, (uint32) bytes.len);
	if (bytes.len > 0)
		fl_write_bytes(buf, bytes.data, bytes.len);
}

static FlKafkaBytes
read_bytes(FlReader *r)
{
	int32		len = (int32) fl_read_le32(r);
	FlKafkaBytes bytes = {NULL, -1};

	if (len >= 0)
		bytes.data = fl_read_bytes(r, len);
	bytes.len = bytes.data != NULL ? len : -1;
	return bytes;
}

void
fl_positions_begin(FlBuf *buf, FlPositionsOp op, Oid role, FlKafkaBytes consumer)
{
	fl_buf_reset(buf);
	fl_write_u8(buf, op);
	fl_write_le32(buf, role);
	write_bytes(buf, consumer);
}

void
fl_positions_add(FlBuf *buf, const FlPosition *item)
{
	fl_write_le32(buf, item->stream);
	fl_write_le32(buf, (uint32) item->shard);
	fl_write_le64(buf, (uint64) item->log_offset);
	fl_write_le32(buf, (uint32) item->epoch);
	fl_write_le16(buf, (uint16) item->error);
	write_bytes(buf, item->metadata);
}

int16
fl_positions_put(FlGroupCall *call, const FlBuf *buf, uint64 *id)
{
	if (buf->failed || buf->len > fl_group_request_max(call->area))
		return FL_KAFKA_INVALID_COMMIT_OFFSET_SIZE;
	return fl_group_put_request(call, buf->data, (int32) buf->len, id) ? FL_KAFKA_NO_ERROR
		: FL_KAFKA_COORDINATOR_LOAD_IN_PROGRESS;
}

bool
fl_positions_read(const uint8 *body, int32 len, FlPositionsRequest *request)
{
	fl_reader_init(&request->items, body, len > 0 ? len : 0);
	request->op = (FlPositionsOp) fl_read_u8(&request->items);
	request->role = fl_read_le32(&request->items);
	request->consumer = read_bytes(&request->items);
	return !request->items.failed && request->consumer.len >= 0;
}

void
fl_positions_begin_answer(FlBuf *buf, int16 error, bool found)
{
	fl_buf_reset(buf);
	fl_write_le16(buf, (uint16) error);
	fl_write_u8(buf, found);
}

bool
fl_positions_next(FlReader *items, FlPosition *item)
{
	if (items->failed || fl_reader_left(items) == 0)
		return false;
	item->stream = fl_read_le32(items);
	item->shard = (int32) fl_read_le32(items);
	item->log_offset = (int64) fl_read_le64(items);
	item->epoch = (int32) fl_read_le32(items);
	item->error = (int16) fl_read_le16(items);
	item->metadata = read_bytes(items);
	return !items->failed;
}

bool
fl_positions_next_answer(int door, FlPositionsAnswer *answer)
{
	FlGroupOut *out = fl_groups_out();
	int32		len;
	bool		found;

	for (;;)
	{
		FlGroupCall *call = fl_groups_lock(door, InvalidOid, InvalidOid);

		found = fl_group_take_answer(call, out, &answer->id, &len);
		fl_groups_unlock(call);
		if (!found || fl_group_out_fits(out))
			break;
		fl_groups_grow();
	}
	if (!found)
		return false;
	fl_reader_init(&answer->items, out->data, len);
	answer->error = FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	answer->found = false;
	if (len > 0)
	{
		answer->error = (int16) fl_read_le16(&answer->items);
		answer->found = fl_read_u8(&answer->items) != 0;
	}
	return true;
}
