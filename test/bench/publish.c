/*-------------------------------------------------------------------------
 *
 * publish.c
 *		When messages leave, and what becomes of them.
 *
 * Closed loop: each connection keeps its window full.  Open loop (--rate):
 * message k of a process is due at a time that depends on k alone, whatever
 * the server does, and belongs to connection k mod n.  A message that finds its
 * window full waits, and its latency counts from the time at which it was due;
 * so a server that stalls cannot hide it by slowing the tool down.
 *
 * A message that is under way has a slot, found by its packet identifier.
 * Identifiers rise through their whole range as a device's would, and skip
 * those whose slot is still taken.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* Identifiers go from 1 to this; the one above is for SUBSCRIBE. */
#define LAST_ID 65534

static void *
allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (p == NULL)
	{
		fputs("fl_load: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

void
fl_publish_prepare(FlProc *p)
{
	const FlOptions *o = p->o;
	unsigned nslots = 16;

	while (nslots < 2 * (unsigned) o->window)
		nslots *= 2;
	for (int i = 0; i < p->npublishers; i++)
	{
		FlConn *c = &p->conns[i];
		char topic[FL_NAME_SIZE];

		fl_template_expand(topic, sizeof(topic), o->topic, c->number, 0);
		c->topic = strdup(topic);
		if (c->topic == NULL)
			exit(1);
		if (o->qos > 0)
			c->slots = allocate(nslots, sizeof(FlSlot));
		c->slot_mask = nslots - 1;
		c->next_id = 1;
		c->quota = UINT64_MAX;
		if (o->messages > 0)
			c->quota = o->messages / o->connections + ((uint64_t) c->number < o->messages % o->connections);
	}
}

/* The next identifier with a free slot; there is one, since there are twice as many slots as the window allows. */
static FlSlot *
take_slot(FlConn *c)
{
	FlSlot *slot;

	do
	{
		slot = &c->slots[c->next_id & c->slot_mask];
		if (slot->state == FL_SLOT_FREE)
			slot->id = c->next_id;
		c->next_id = c->next_id == LAST_ID ? 1 : c->next_id + 1;
	} while (slot->state != FL_SLOT_FREE);
	slot->state = FL_SLOT_SENT;
	return slot;
}

/* The time at which message k of this process is due. */
static int64_t
due_time(const FlProc *p, uint64_t k)
{
	int publishing = p->o->processes < p->o->connections ? p->o->processes : p->o->connections;

	return p->begin + (int64_t) ((double) (k * publishing + p->index) * FL_SECOND / p->o->rate);
}

/* Bytes of one message into out. */
static size_t
put_message(FlProc *p, FlConn *c, uint8_t *out, uint16_t id, uint64_t seq, int64_t stamp, bool dup)
{
	const FlOptions *o = p->o;
	bool alias = o->alias && c->alias_maximum > 0;
	int flags = FL_MQ_PUBLISH_FLAGS(o->qos, dup, o->retain);
	char changing[FL_NAME_SIZE];
	const char *topic = c->topic;
	size_t topic_len;
	size_t n;

	if (p->topic_changes)
	{
		fl_template_expand(changing, sizeof(changing), o->topic, c->number, seq);
		topic = changing;
	}
	topic_len = alias && c->alias_known ? 0 : strlen(topic);
	n = fl_mq_publish_head(out, o->version, topic, topic_len, alias ? 1 : 0, flags, id, o->size);
	c->alias_known = alias;
	fl_payload_make(o, out + n, c->number, seq, stamp);
	return n + o->size;
}

/* Of the limits that do not depend on the connection's buffers: may it send one more? */
static bool
may_send(const FlProc *p, const FlConn *c, int64_t now)
{
	const FlOptions *o = p->o;

	if (c->seq >= c->quota || (o->qos > 0 && c->inflight >= c->window))
		return false;
	if (o->rate > 0 ? c->seq >= c->due : now >= p->stop)
		return false;
	if (o->ahead > 0)
	{
		uint64_t sent = __atomic_load_n(&p->shared->all_sent, __ATOMIC_RELAXED);
		uint64_t received = __atomic_load_n(&p->shared->all_received, __ATOMIC_RELAXED) / o->subscribers;

		return (int64_t) (sent - received) < o->ahead;
	}
	return true;
}

void
fl_publish_pump(FlProc *p, FlConn *c)
{
	const FlOptions *o = p->o;
	size_t room = FL_WRITE_SIZE - FL_MQ_OVERHEAD - FL_NAME_SIZE - o->size;
	size_t len = 0;
	int count = 0;
	int64_t now = fl_now();

	/* What the socket did not take goes first; then EPOLLOUT calls again. */
	if (c->state != FL_CONN_READY || c->out_len > 0)
		return;
	while (len <= room && may_send(p, c, now) && (o->qos > 0 || o->rate > 0 || count < o->window))
	{
		int64_t stamp = now;
		uint16_t id = 0;

		if (o->rate > 0)
			stamp = due_time(p, c->seq * p->npublishers + (c - p->conns));
		if (o->qos > 0)
		{
			FlSlot *slot = take_slot(c);

			slot->seq = c->seq;
			slot->stamp = stamp;
			id = slot->id;
			c->inflight++;
		}
		len += put_message(p, c, p->wbuf + len, id, c->seq, stamp, false);
		c->seq++;
		count++;
		if (o->ahead > 0)
			__atomic_fetch_add(&p->shared->all_sent, 1, __ATOMIC_RELAXED);
	}
	if (count == 0)
		return;
	p->r->n.sent += count;
	c->last_sent = now;
	if (!fl_conn_send(p, c, p->wbuf, len))
		return;
	/* At QoS 0 no acknowledgement brings us back here; a socket that can take more does. */
	if (may_send(p, c, now))
		fl_conn_want_write(p, c, true);
}

int64_t
fl_publish_schedule(FlProc *p, int64_t now)
{
	int64_t due;

	if (p->npublishers == 0)
		return INT64_MAX;
	for (;;)
	{
		FlConn *c = &p->conns[p->scheduled % p->npublishers];

		due = due_time(p, p->scheduled);
		if (due >= p->stop || c->due >= c->quota)
			return INT64_MAX;
		if (due > now)
			return due;
		c->due++;
		p->scheduled++;
		fl_publish_pump(p, c);
	}
}

static void
count_ack(FlProc *p, int64_t now)
{
	int64_t second = (now - p->begin) / FL_SECOND;

	p->r->n.acked++;
	if (now >= p->measure_from && now < p->stop)
		p->r->n.acked_in_span++;
	if (p->o->duration == 0)
		p->r->span_end = now;
	if (second >= 0 && second < FL_MAX_SECONDS)
		p->r->per_second[second]++;
}

void
fl_publish_on_ack(FlProc *p, FlConn *c, FlMqType type, uint16_t id, uint8_t code, int64_t now)
{
	FlSlot *slot = c->slots ? &c->slots[id & c->slot_mask] : NULL;
	FlMqType expected = p->o->qos == 1 ? FL_MQ_PUBACK : FL_MQ_PUBREC;

	if (slot == NULL || slot->state == FL_SLOT_FREE || slot->id != id ||
		type != (slot->state == FL_SLOT_RELEASED ? FL_MQ_PUBCOMP : expected))
	{
		p->r->n.protocol_errors++;
		return;
	}
	if (type == FL_MQ_PUBREC && code < 0x80)
	{
		slot->state = FL_SLOT_RELEASED;
		return;
	}
	if (code >= 0x80)
		p->r->n.nacked++;
	else
	{
		count_ack(p, now);
		fl_truth_acked(p, c, slot, now);
		if (slot->stamp >= p->measure_from)
			fl_hist_add(&p->r->ack, now - slot->stamp);
	}
	slot->state = FL_SLOT_FREE;
	c->inflight--;
}

void
fl_publish_on_pong(FlProc *p, FlConn *c)
{
	if (!c->last_ping)
		return;
	c->last_ping = false;
	p->r->n.acked += c->seq - c->confirmed;
	p->r->n.acked_in_span += c->seq - c->confirmed;
	p->r->span_end = fl_now();
	c->confirmed = c->seq;
}

static int
compare_slots(const void *a, const void *b)
{
	uint64_t x = (*(FlSlot *const *) a)->seq;
	uint64_t y = (*(FlSlot *const *) b)->seq;

	return (x > y) - (x < y);
}

/* A device that keeps nothing: what was under way when its connection broke is given up. */
static void
forget_all(FlProc *p, FlConn *c)
{
	for (unsigned i = 0; i <= c->slot_mask; i++)
		c->slots[i].state = FL_SLOT_FREE;
	p->r->n.forgotten += c->inflight;
	c->inflight = 0;
}

void
fl_publish_resume(FlProc *p, FlConn *c, bool session_present)
{
	FlSlot **busy;
	int n = 0;

	if (p->o->qos == 0)
	{
		/* What no PINGRESP covered may be lost: QoS 0 promises nothing. */
		p->r->n.unacked += c->seq - c->confirmed;
		c->confirmed = c->seq;
		return;
	}
	if (c->inflight == 0)
		return;
	if (!p->o->resend)
	{
		forget_all(p, c);
		return;
	}
	busy = allocate(c->slot_mask + 1, sizeof(*busy));
	for (unsigned i = 0; i <= c->slot_mask; i++)
	{
		if (c->slots[i].state != FL_SLOT_FREE)
			busy[n++] = &c->slots[i];
	}
	qsort(busy, n, sizeof(*busy), compare_slots);
	for (int i = 0; i < n && c->fd >= 0; i++)
	{
		FlSlot *slot = busy[i];
		size_t len;

		if (slot->state == FL_SLOT_RELEASED)
			len = fl_mq_ack(p->wbuf, FL_MQ_PUBREL, slot->id);
		else
		{
			len = put_message(p, c, p->wbuf, slot->id, slot->seq, slot->stamp, session_present);
			fl_truth_resent(p, c, slot, session_present);
		}
		p->r->n.resent++;
		fl_conn_send(p, c, p->wbuf, len);
	}
	free(busy);
}

bool
fl_publish_is_over(FlProc *p, const FlConn *c)
{
	const FlOptions *o = p->o;

	if (c->fd < 0 && !o->reconnect)
		return true;
	if (o->rate > 0 ? c->seq < c->due : (p->stop == INT64_MAX && c->seq < c->quota))
		return false;
	return c->inflight == 0 && c->out_len == 0;
}
