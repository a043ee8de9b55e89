/*-------------------------------------------------------------------------
 *
 * items.c
 *		What a session remembers of records: messages of its client (RECEIVED),
 *		deliveries that are under way to it (SENT), how far it has read
 *		(bookmarks), and where its filters begin that are ahead of that (START).
 *
 * All are items of one size in a chain of blocks, of which only the first has room.
 * Items are few per session, so they are looked for one by one.
 *
 * How deliveries survive a crash.  A bookmark is written now and then (checkpoint),
 * not with every message: what was sent at QoS 1 since then is sent again, which
 * QoS 1 allows.  A delivery at QoS 2 is written before it leaves, and raises the
 * shard's EXACT mark: reading on from the bookmark, no record below the mark is
 * sent at QoS 2 but those that are under way, under their old identifiers.  Another
 * mark does the same for QoS 0, which must not come twice either.  A checkpoint says
 * everything anew, and takes the old marks away.
 *
 * Called by store.c with the store's lock held, in a commit callback: nothing here
 * allocates or fails.  Without memory the session ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "session_internal.h"

/* ---- the chain ------------------------------------------------------------------------- */

static bool
is_sent(const FlSessionItem *item)
{
	return item->kind == FL_ITEM_SENT || item->kind == FL_ITEM_SENT_RELEASED;
}

static FlSessionItem *
find_received(FlSession *s, uint16 packet_id)
{
	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n; i++)
			if (block->items[i].packet_id == packet_id && block->items[i].kind == FL_ITEM_RECEIVED)
				return &block->items[i];
	}
	return NULL;
}

static FlSessionItem *
find_sent(FlSession *s, uint16 packet_id)
{
	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n; i++)
			if (block->items[i].packet_id == packet_id && is_sent(&block->items[i]))
				return &block->items[i];
	}
	return NULL;
}

static FlSessionItem *
find_place(FlSession *s, FlSessionItemKind kind, const FlSessionEvent *e)
{
	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n; i++)
		{
			FlSessionItem *item = &block->items[i];

			if (item->kind == kind && item->qos == e->qos && item->stream == e->stream && item->shard == e->shard)
				return item;
		}
	}
	return NULL;
}

/* NULL: no memory is left, or it has as many as can be counted. */
static FlSessionItem *
add_item(FlSession *s)
{
	FlItemBlock *block = s->items != 0 ? &fl_store_blocks[s->items] : NULL;

	if (s->n_items == PG_UINT16_MAX)
		return NULL;
	if (block == NULL || block->n == FL_BLOCK_ITEMS)
	{
		uint32		number = fl_store_take_block();

		if (number == 0)
			return NULL;
		block = &fl_store_blocks[number];
		block->next = s->items;
		s->items = number;
	}
	s->n_items++;
	return &block->items[block->n++];
}

/* The last item of the first block, the only one that is not full, takes its place. */
static void
remove_item(FlSession *s, FlSessionItem *item)
{
	uint32		number = s->items;
	FlItemBlock *first = &fl_store_blocks[number];

	if (item->kind == FL_ITEM_RECEIVED)
		s->n_received--;
	*item = first->items[--first->n];
	s->n_items--;
	if (first->n > 0)
		return;
	s->items = first->next;
	fl_store_give_block(number);
}

void
fl_items_drop(FlSession *s)
{
	while (s->items != 0)
	{
		uint32		next = fl_store_blocks[s->items].next;

		fl_store_give_block(s->items);
		s->items = next;
	}
	s->n_items = 0;
	s->n_received = 0;
}

/* The item, or a new one; NULL: it is broken now. */
static FlSessionItem *
item_or_new(FlSession *s, FlSessionItem *item)
{
	if (item == NULL)
		item = add_item(s);
	if (item == NULL)
		fl_store_break(s);
	return item;
}

/* ---- messages of the client ---------------------------------------------------------------- */

/* Of QoS 1 only the last few are kept, as many as a client may have unacknowledged. */
static void
drop_oldest(FlSession *s)
{
	FlSessionItem *oldest = NULL;
	int			n = 0;

	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n; i++)
		{
			FlSessionItem *item = &block->items[i];

			if (item->kind != FL_ITEM_RECEIVED || item->qos != 1)
				continue;
			n++;
			/* Orders wrap around; those of one session are close together. */
			if (oldest == NULL || (int16) (item->order - oldest->order) < 0)
				oldest = item;
		}
	}
	if (n > s->window)
		remove_item(s, oldest);
}

void
fl_items_apply_received(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *found = find_received(s, e->packet_id);
	FlSessionItem *item = item_or_new(s, found);

	if (item == NULL)
		return;
	if (found == NULL)
		s->n_received++;
	*item = (FlSessionItem) {
		.packet_id = e->packet_id,.qos = e->qos,.kind = FL_ITEM_RECEIVED,.hash = e->hash,.stream = e->stream,
		.shard = e->shard,.log_offset = e->log_offset
	};
	if (e->qos != 1)
		return;
	item->order = ++s->order;
	drop_oldest(s);
}

void
fl_items_apply_released(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *item = find_received(s, e->packet_id);

	if (item != NULL && item->qos == 2)
		remove_item(s, item);
}

/* ---- deliveries and bookmarks ---------------------------------------------------------------- */

/*
 * What stays is put together again from the old chain, block by block: fewer items
 * never need more blocks than there were, and those that are free again are given
 * back before any is taken.
 */
void
fl_items_apply_checkpoint(FlSession *s)
{
	uint32		old = s->items;

	s->items = 0;
	s->n_items = 0;
	while (old != 0)
	{
		FlItemBlock block = fl_store_blocks[old];

		fl_store_give_block(old);
		for (uint32 i = 0; i < block.n; i++)
			if (block.items[i].kind == FL_ITEM_RECEIVED)
				*add_item(s) = block.items[i];
		old = block.next;
	}
}

void
fl_items_apply_bookmark(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *item = item_or_new(s, find_place(s, FL_ITEM_BOOKMARK, e));

	if (item != NULL)
		*item = (FlSessionItem) {
			.kind = FL_ITEM_BOOKMARK,.stream = e->stream,.shard = e->shard,.log_offset = e->log_offset
		};
}

void
fl_items_apply_exact(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *found = find_place(s, FL_ITEM_EXACT, e);
	FlSessionItem *item;

	if (found != NULL && found->log_offset >= e->log_offset)
		return;
	item = item_or_new(s, found);
	if (item != NULL)
		*item = (FlSessionItem) {
			.kind = FL_ITEM_EXACT,.qos = e->qos,.stream = e->stream,.shard = e->shard,.log_offset = e->log_offset
		};
}

static FlSessionItem *
find_start(FlSession *s, const FlSessionEvent *e)
{
	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n; i++)
		{
			FlSessionItem *item = &block->items[i];

			if (item->kind == FL_ITEM_START && item->hash == e->hash && item->packet_id == e->text_len &&
				item->stream == e->stream && item->shard == e->shard)
				return item;
		}
	}
	return NULL;
}

void
fl_items_apply_start(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *item = item_or_new(s, find_start(s, e));

	if (item != NULL)
		*item = (FlSessionItem) {
			.kind = FL_ITEM_START,.packet_id = e->text_len,.hash = e->hash,.stream = e->stream,.shard = e->shard,
			.log_offset = e->log_offset
		};
}

static void
raise_exact(FlSession *s, const FlSessionEvent *e)
{
	FlSessionEvent exact = *e;

	exact.log_offset = e->log_offset + 1;
	exact.qos = 2;
	fl_items_apply_exact(s, &exact);
}

/* The latest word on an identifier counts: it was free before. */
void
fl_items_apply_sent(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *item = item_or_new(s, find_sent(s, e->packet_id));

	if (item == NULL)
		return;
	*item = (FlSessionItem) {
		.packet_id = e->packet_id,.qos = e->qos,.kind = FL_ITEM_SENT,.hash = ++s->sent_order,.stream = e->stream,
		.shard = e->shard,.log_offset = e->log_offset,
		.order = (e->retain ? FL_SENT_RETAIN : 0) | (e->aside ? FL_SENT_ASIDE : 0) | (e->shared ? FL_SENT_SHARED : 0)
	};
	if (e->qos == 2 && !e->aside)
		raise_exact(s, e);
}

void
fl_items_apply_answered(FlSession *s, const FlSessionEvent *e)
{
	FlSessionItem *item = find_sent(s, e->packet_id);

	if (item == NULL)
		return;
	if (e->type == FL_SESSION_SENT_DONE)
		remove_item(s, item);
	else if (item->qos == 2)
		item->kind = FL_ITEM_SENT_RELEASED;
}
