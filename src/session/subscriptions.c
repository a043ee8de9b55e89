/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *		The filters of a session, in blocks of the store.
 *
 * A subscription is a block with its options and the beginning of its filter;
 * what does not fit goes on in further blocks.  The usual one takes one block.
 * They are in no order, and looked for one by one, which is why a session has at
 * most FL_SESSION_MAX_SUBSCRIPTIONS of them (doors refuse more).
 *
 * Called by store.c with the store's lock held, in a commit callback: nothing here
 * allocates or fails.  Without memory the session ends.  fl_session_any_has is for
 * doors, and takes the lock itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "session_internal.h"

/* Type 1, session 6, options 1, identifier 4, since 8, length 2. */
#define EVENT_BYTES			22

StaticAssertDecl(sizeof(FlSubscriptionBlock) == sizeof(FlItemBlock), "the head of a subscription is a block");
StaticAssertDecl(sizeof(FlTextBlock) == sizeof(FlItemBlock), "so is what goes on behind it");

static FlSubscriptionBlock *
head_of(uint32 number)
{
	return (FlSubscriptionBlock *) &fl_store_blocks[number];
}

static FlTextBlock *
text_of(uint32 number)
{
	return (FlTextBlock *) &fl_store_blocks[number];
}

static bool
has_text(const FlSubscriptionBlock *head, const uint8 *text, uint16 len)
{
	Size		at = Min(len, FL_SUBSCRIPTION_TEXT);

	if (head->len != len || memcmp(head->text, text, at) != 0)
		return false;
	for (uint32 b = head->more; b != 0; b = text_of(b)->next)
	{
		Size		n = Min(len - at, FL_TEXT_BYTES);

		if (memcmp(text_of(b)->text, text + at, n) != 0)
			return false;
		at += n;
	}
	return true;
}

/* The link that leads to a subscription; what it leads to is 0 when there is none. */
static uint32 *
find(FlSession *s, const FlSessionEvent *e)
{
	uint32	   *link = &s->subscriptions;

	while (*link != 0 && !has_text(head_of(*link), e->text, e->text_len))
		link = &head_of(*link)->next;
	return link;
}

void
fl_store_give_text(uint32 number)
{
	while (number != 0)
	{
		uint32		next = text_of(number)->next;

		fl_store_give_block(number);
		number = next;
	}
}

static void
give_blocks(uint32 number)
{
	uint32		more = head_of(number)->more;

	fl_store_give_block(number);
	fl_store_give_text(more);
}

bool
fl_store_add_text(uint32 *link, const uint8 *text, Size len)
{
	*link = 0;
	while (len > 0)
	{
		Size		n = Min(len, FL_TEXT_BYTES);
		uint32		number = fl_store_take_block();

		*link = number;
		if (number == 0)
			return false;
		text_of(number)->next = 0;
		memcpy(text_of(number)->text, text, n);
		link = &text_of(number)->next;
		text += n;
		len -= n;
	}
	return true;
}

/* 0: no memory is left, or it has as many as it may. */
static uint32
add(FlSession *s, const FlSessionEvent *e)
{
	bool		fits = s->n_subscriptions < FL_SESSION_MAX_SUBSCRIPTIONS &&
		s->subscription_bytes + EVENT_BYTES + e->text_len <= FL_SESSION_MAX_FILTER_BYTES;
	uint32		number = fits ? fl_store_take_block() : 0;
	FlSubscriptionBlock *head;
	Size		first = Min(e->text_len, FL_SUBSCRIPTION_TEXT);

	if (number == 0)
		return 0;
	head = head_of(number);
	memset(head, 0, sizeof(*head));
	head->len = e->text_len;
	memcpy(head->text, e->text, first);
	if (!fl_store_add_text(&head->more, e->text + first, e->text_len - first))
	{
		give_blocks(number);
		return 0;
	}
	head->next = s->subscriptions;
	s->subscriptions = number;
	s->n_subscriptions++;
	s->subscription_bytes += EVENT_BYTES + e->text_len;
	return number;
}

/* The same filter again has other options from now on, and is as old as the event says. */
void
fl_subscriptions_apply_subscribed(FlSession *s, const FlSessionEvent *e)
{
	uint32		number = *find(s, e);
	FlSubscriptionBlock *head;

	if (number == 0)
		number = add(s, e);
	if (number == 0)
	{
		fl_store_break(s);
		return;
	}
	head = head_of(number);
	head->id = e->id;
	head->qos = e->qos;
	head->no_local = e->no_local;
	head->as_published = e->as_published;
	head->position = e->position;
	head->end_on_drop = e->end_on_drop;
	head->since = e->since;
}

void
fl_subscriptions_apply_unsubscribed(FlSession *s, const FlSessionEvent *e)
{
	uint32	   *link = find(s, e);
	uint32		number = *link;

	if (number == 0)
		return;
	*link = head_of(number)->next;
	s->n_subscriptions--;
	s->subscription_bytes -= EVENT_BYTES + head_of(number)->len;
	give_blocks(number);
}

void
fl_subscriptions_drop(FlSession *s)
{
	while (s->subscriptions != 0)
	{
		uint32		number = s->subscriptions;

		s->subscriptions = head_of(number)->next;
		give_blocks(number);
	}
	s->n_subscriptions = 0;
	s->subscription_bytes = 0;
}

void
fl_store_copy_text(uint32 number, uint8 *to, Size len)
{
	for (; number != 0 && len > 0; number = text_of(number)->next)
	{
		Size		n = Min(len, FL_TEXT_BYTES);

		memcpy(to, text_of(number)->text, n);
		to += n;
		len -= n;
	}
}

/* The filter in one piece; the buffer has room for the longest. */
static const uint8 *
whole_text(const FlSubscriptionBlock *head, uint8 *buffer)
{
	Size		at = Min(head->len, FL_SUBSCRIPTION_TEXT);

	if (head->more == 0)
		return (const uint8 *) head->text;
	memcpy(buffer, head->text, at);
	fl_store_copy_text(head->more, buffer + at, head->len - at);
	return buffer;
}

void
fl_subscriptions_dump(FlBuf *out, const FlSession *s, FlSessionEvent *e)
{
	static uint8 text[PG_UINT16_MAX];

	e->type = FL_SESSION_SUBSCRIBED;
	for (uint32 b = s->subscriptions; b != 0; b = head_of(b)->next)
	{
		const FlSubscriptionBlock *head = head_of(b);

		e->id = head->id;
		e->qos = head->qos;
		e->no_local = head->no_local;
		e->as_published = head->as_published;
		e->position = head->position;
		e->end_on_drop = head->end_on_drop;
		e->since = head->since;
		e->text = whole_text(head, text);
		e->text_len = head->len;
		fl_session_encode_event(out, e);
	}
}

static bool
has_filter(const FlSession *s, const uint8 *text, uint16 len)
{
	for (uint32 b = s->subscriptions; b != 0; b = head_of(b)->next)
		if (has_text(head_of(b), text, len))
			return true;
	return false;
}

bool
fl_session_any_has(const uint8 *text, uint16 len, const FlSessionRef *except)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		found = false;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	for (uint32 number = 1; number < fl_store->sessions.fresh && !found; number++)
	{
		const FlSession *s = &fl_store_sessions[number];

		found = s->state == FL_SESSION_KEPT && s->subscriptions != 0 && number != except->number &&
			!fl_session_is_over(s, now) && has_filter(s, text, len);
	}
	LWLockRelease(fl_store->lock);
	return found;
}
