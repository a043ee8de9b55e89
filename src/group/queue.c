/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  Requests to whoever writes positions, and their answers.
 *
 * Both are chunks of the area: at most half of it, so that members are not refused
 * for what others commit.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

static void
append(FlGroupArea *area, FlGroupQueue *q, FlGroupRef ref)
{
	if (q->last != 0)
		fl_group_queued_at(area, q->last)->next = ref;
	else
		q->first = ref;
	q->last = ref;
}

static void
unlink_after(FlGroupArea *area, FlGroupQueue *q, FlGroupRef before, FlGroupRef ref)
{
	FlGroupRef next = fl_group_queued_at(area, ref)->next;

	if (before != 0)
		fl_group_queued_at(area, before)->next = next;
	else
		q->first = next;
	if (q->last == ref)
		q->last = before;
	fl_group_queued_at(area, ref)->next = 0;
}

static void
free_queued(FlGroupArea *area, FlGroupRef ref)
{
	FlGroupQueued *r = fl_group_queued_at(area, ref);

	area->queue_chunks -= 1 + fl_group_blob_chunks(r->body.len);
	fl_group_blob_free(area, &r->body);
	fl_group_free(area, ref);
}

void
fl_group_drop_answers(FlGroupArea *area, int door)
{
	FlGroupQueue *q = &area->answers[door];
	FlGroupRef ref;

	while ((ref = q->first) != 0)
	{
		unlink_after(area, q, 0, ref);
		free_queued(area, ref);
	}
}

bool
fl_group_put_request(FlGroupCall *call, const uint8_t *body, int32_t len, uint64_t *id)
{
	FlGroupArea *area = call->area;
	uint32_t chunks = 1 + fl_group_blob_chunks(len);
	FlGroupRef ref;
	FlGroupQueued *r;

	if (area->queue_chunks + chunks > area->nchunks / 2 || !fl_group_make_room(area, chunks))
		return false;
	ref = fl_group_alloc(area, FL_GROUP_CHUNK_REQUEST);
	r = fl_group_queued_at(area, ref);
	(void) fl_group_blob_make(area, fl_kafka_bytes(body, len), &r->body);
	area->queue_chunks += chunks;
	r->id = *id = ++area->last_request;
	r->door = (uint8_t) call->door;
	append(area, &area->requests, ref);
	return true;
}

bool
fl_group_next_request(FlGroupCall *call, uint64_t after, FlGroupOut *out, FlGroupRequest *request)
{
	FlGroupArea *area = call->area;
	FlGroupRef ref = area->requests.first;

	out->need = 0;
	while (ref != 0 && fl_group_queued_at(area, ref)->id <= after)
		ref = fl_group_queued_at(area, ref)->next;
	if (ref == 0)
		return false;
	request->id = fl_group_queued_at(area, ref)->id;
	request->door = fl_group_queued_at(area, ref)->door;
	request->len = fl_group_queued_at(area, ref)->body.len;
	(void) fl_group_blob_out(area, &fl_group_queued_at(area, ref)->body, out);
	return true;
}

void
fl_group_answer_request(FlGroupCall *call, uint64_t id, const uint8_t *body, int32_t len)
{
	FlGroupArea *area = call->area;
	FlGroupRef before = 0;
	FlGroupRef ref = area->requests.first;
	FlGroupQueued *r;
	uint32_t chunks;

	while (ref != 0 && fl_group_queued_at(area, ref)->id != id)
	{
		before = ref;
		ref = fl_group_queued_at(area, ref)->next;
	}
	if (ref == 0)
		return;
	unlink_after(area, &area->requests, before, ref);
	r = fl_group_queued_at(area, ref);
	area->queue_chunks -= fl_group_blob_chunks(r->body.len);
	fl_group_blob_free(area, &r->body);
	chunks = fl_group_blob_chunks(len);
	if (!fl_group_make_room(area, chunks) || area->queue_chunks + chunks > area->nchunks / 2)
		len = 0;
	(void) fl_group_blob_make(area, fl_kafka_bytes(body, len), &r->body);
	area->queue_chunks += fl_group_blob_chunks(r->body.len);
	append(area, &area->answers[r->door], ref);
	fl_group_wake(call, r->door);
}

bool
fl_group_take_answer(FlGroupCall *call, FlGroupOut *out, uint64_t *id, int32_t *len)
{
	FlGroupArea *area = call->area;
	FlGroupQueue *q = &area->answers[call->door];
	FlGroupRef ref = q->first;

	out->need = 0;
	if (ref == 0)
		return false;
	*id = fl_group_queued_at(area, ref)->id;
	*len = fl_group_queued_at(area, ref)->body.len > 0 ? fl_group_queued_at(area, ref)->body.len : 0;
	if (*len > 0)
		(void) fl_group_blob_out(area, &fl_group_queued_at(area, ref)->body, out);
	if (fl_group_out_fits(out))
	{
		unlink_after(area, q, 0, ref);
		free_queued(area, ref);
	}
	return true;
}
