/*-------------------------------------------------------------------------
 *
 * message.c
 *		What devices say, and how they see to it that it is heard.
 *
 * Each class has a topic and a sequence of its own, and is a connection of its
 * own to check_truth.pl, numbered 10 * device + class: within a class order is
 * kept, between classes nobody promises it.  A message's bytes are derived
 * from device, class, sequence and time of creation, so that one sent again is
 * the same.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <stdlib.h>
#include <string.h>

/* Identifiers go from 1 to this. */
#define LAST_ID 65534

#define BINARY_SIZE 30

static const char *const class_topic[FL_CLASSES] = {"telemetry", "event", "safety"};

static uint8_t packet[FL_MQ_OVERHEAD + 2 * FL_NAME_SIZE + 65536];

static int
truth_number(const FlDevice *d, int class)
{
	return 10 * d->number + class;
}

void
fl_message_base(const FlFleetOptions *o, int number, char *out, size_t size)
{
	if (o->credential != NULL)
		snprintf(out, size, "%s", o->credential[number].base);
	else
		fl_fleet_expand(out, size, o->base, number);
}

/* All of a PUBLISH but its payload. */
static size_t
put_head(FlHerd *h, FlDevice *d, int class, uint16_t id, bool dup, size_t payload_len)
{
	char topic[FL_NAME_SIZE + 16];

	fl_message_base(h->o, d->number, topic, FL_NAME_SIZE);
	strcat(topic, "/");
	strcat(topic, class_topic[class]);
	return fl_mq_publish_head(packet, d->version, topic, strlen(topic), 0,
							  FL_MQ_PUBLISH_FLAGS(class == FL_TELEMETRY ? 0 : 1, dup, false), id, payload_len);
}

static size_t
put_json(FlHerd *h, FlDevice *d, int class, uint64_t seq, int64_t created, uint16_t id, bool dup)
{
	const FlOptions *payload = &h->o->payload;
	size_t n = put_head(h, d, class, id, dup, payload->size);

	fl_payload_make(payload, packet + n, truth_number(d, class), seq, created);
	return n + payload->size;
}

static uint8_t *
put_big_endian(uint8_t *at, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*at++ = (uint8_t) (v >> 8 * i);
	return at;
}

/* Device (4 bytes), place in its telemetry (4), time in ms (8), seven readings that wander (2 each). */
static size_t
put_binary(FlHerd *h, FlDevice *d, uint64_t seq, int64_t created)
{
	size_t n = put_head(h, d, FL_TELEMETRY, 0, false, BINARY_SIZE);
	uint8_t *at = packet + n;

	at = put_big_endian(at, (uint64_t) d->number, 4);
	at = put_big_endian(at, seq, 4);
	at = put_big_endian(at, (uint64_t) (created / FL_MS), 8);
	for (int i = 0; i < 7; i++)
		at = put_big_endian(at, 1000 * (i + 1) + d->number % 97 + fl_random(&d->message_rng) % 50, 2);
	return at - packet;
}

static void
send_telemetry(FlHerd *h, FlDevice *d, int64_t now)
{
	uint64_t seq = d->seq[FL_TELEMETRY];
	bool binary = (int) (fl_random(&d->message_rng) % 100) < h->o->percent_binary;
	size_t len;

	/* A reading is worth nothing later; nor does it queue behind a socket that takes nothing. */
	if (d->state != FL_READY || d->silent || d->out_len > 0)
	{
		h->r->n.missed++;
		return;
	}
	len = binary ? put_binary(h, d, seq, now) : put_json(h, d, FL_TELEMETRY, seq, now, 0, false);
	d->seq[FL_TELEMETRY]++;
	h->r->n.telemetry++;
	fl_device_send(h, d, packet, len);
}

static void
forget(FlHerd *h, FlDevice *d, int i)
{
	d->npending--;
	h->r->pending--;
	memmove(&d->pending[i], &d->pending[i + 1], (d->npending - i) * sizeof(FlPending));
}

/* Room for one more: the oldest event that has not left yet gives way.  False: there is none. */
static bool
make_room(FlHerd *h, FlDevice *d)
{
	if (d->npending < FL_PENDING_MAX)
		return true;
	h->r->n.dropped++;
	for (int i = 0; i < d->npending; i++)
	{
		if (d->pending[i].class == FL_EVENT && d->pending[i].first_sent == 0)
		{
			forget(h, d, i);
			return true;
		}
	}
	return false;
}

static int
choose_class(const FlFleetOptions *o, uint64_t *rng)
{
	int ticket = (int) (fl_random(rng) % (uint64_t) o->weights);
	int class = 0;

	while (ticket >= o->weight[class])
		ticket -= o->weight[class ++];
	return class;
}

void
fl_message_report(FlHerd *h, FlDevice *d, int64_t now)
{
	int class = choose_class(h->o, &d->message_rng);
	FlPending m = {.created = now, .class = (uint8_t) class, .state = FL_QUEUED};

	h->r->n.reports++;
	if (class == FL_TELEMETRY)
	{
		send_telemetry(h, d, now);
		return;
	}
	if (!make_room(h, d))
		return;
	d->pending[d->npending++] = m;
	h->r->pending++;
}

static FlPending *
find_sent(FlDevice *d, uint16_t id)
{
	for (int i = 0; i < d->npending; i++)
	{
		if (d->pending[i].state == FL_SENT && d->pending[i].id == id)
			return &d->pending[i];
	}
	return NULL;
}

static uint16_t
take_id(FlDevice *d)
{
	uint16_t id;

	do
	{
		id = d->next_id;
		d->next_id = id == LAST_ID ? 1 : id + 1;
	} while (find_sent(d, id) != NULL);
	return id;
}

static bool
send_pending(FlHerd *h, FlDevice *d, FlPending *m, bool dup)
{
	if (m->first_sent == 0)
	{
		m->seq = d->seq[m->class]++;
		m->first_sent = fl_now();
		h->r->n.sent++;
	}
	else
	{
		h->r->n.resent++;
		fl_fleet_truth(h, "S %d %llu %u %c %lld\n", truth_number(d, m->class), (unsigned long long) m->seq, m->id,
					   dup ? 'd' : '-', (long long) fl_now());
	}
	m->state = FL_SENT;
	return fl_device_send(h, d, packet, put_json(h, d, m->class, m->seq, m->created, m->id, dup));
}

int64_t
fl_message_pump(FlHerd *h, FlDevice *d, int64_t now)
{
	int under_way = 0;
	bool safety_waits = false;
	int64_t next = INT64_MAX;

	if (d->state != FL_READY || d->silent || d->out_len > 0)
		return INT64_MAX;
	for (int i = 0; i < d->npending; i++)
	{
		under_way += d->pending[i].state == FL_SENT;
		safety_waits |= d->pending[i].state == FL_SENT && d->pending[i].class == FL_SAFETY;
	}
	for (int i = 0; i < d->npending && under_way < d->window && d->out_len == 0; i++)
	{
		FlPending *m = &d->pending[i];

		if (m->state == FL_SENT || (m->class == FL_SAFETY && safety_waits))
			continue;
		safety_waits |= m->class == FL_SAFETY;
		if (m->not_before > now)
		{
			next = m->not_before;
			continue;
		}
		m->id = take_id(d);
		under_way++;
		if (!send_pending(h, d, m, false))
			break;
	}
	return next;
}

void
fl_message_on_puback(FlHerd *h, FlDevice *d, uint16_t id, uint8_t code)
{
	FlPending *m = find_sent(d, id);
	int64_t now = fl_now();

	if (m == NULL)
	{
		h->r->n.protocol_errors++;
		return;
	}
	if (code < 0x80)
	{
		h->r->n.acked++;
		fl_hist_add(&h->r->ack, now - m->first_sent);
		fl_fleet_truth(h, "A %d %llu %u %lld\n", truth_number(d, m->class), (unsigned long long) m->seq, id,
					   (long long) now);
	}
	else if (m->class == FL_SAFETY)
	{
		h->r->n.retried++;
		m->state = FL_QUEUED;
		m->not_before = now + fl_backoff_pause(&h->o->law, m->refusals, FL_CAUSE_BROKEN, fl_random(&d->message_rng));
		if (m->refusals < FL_BACKOFF_MAX)
			m->refusals++;
		return;
	}
	else
		h->r->n.nacked++;
	forget(h, d, (int) (m - d->pending));
}

void
fl_message_resume(FlHerd *h, FlDevice *d, bool session_present)
{
	for (int i = 0; i < d->npending && d->fd >= 0; i++)
	{
		if (d->pending[i].state == FL_SENT)
			send_pending(h, d, &d->pending[i], session_present);
	}
}
