/*-------------------------------------------------------------------------
 *
 * follow.c
 *		watch(): the changes behind a position, from the log.
 *
 * A pass reads each shard up to its durable tail and puts what it has found in the
 * order of positions (ts, shard, log_offset), which is the order in which values
 * follow each other.  Where a shard was not read to its tail, because there is too
 * much for one call, nothing is told that is later than what was read of it; the
 * other shards are read again from there by the next call.
 *
 * Of one key records may lie on several shards (src/state/newest.c).  One that is
 * read when a later one of another shard was told by an earlier pass, because its
 * shard became durable later, is left out, as the state table left it out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "watch_internal.h"

/* Of one call: values are up to a megabyte each. */
#define MAX_BYTES		(16 * 1024 * 1024)

/* Records that are looked at in each shard, however many shards there are. */
#define MIN_LOOK		1000

int64
fl_watch_tail(const FlWatch *w, Oid stream, int32 shard)
{
	FlShard    *s;

	/* Asking for publication waits for a flush: once, not at every wake-up. */
	if (w->ask_flusher || RecoveryInProgress() || !fl_flusher_runs() ||
		(s = fl_shard_find(stream, shard)) == NULL)
		return fl_log_tail(stream, shard);
	return fl_shard_durable_tail(s);
}

bool
fl_watch_is_superseded(const FlWatch *w, const FlWatchChange *change)
{
	const FlStateChange *c = &change->c;
	FlStatePos	newest;

	if (w->sources[change->source].nshards <= 1 ||
		!fl_state_newest(w->state, c->stream, (uint8 *) VARDATA_ANY(c->key), VARSIZE_ANY_EXHDR(c->key), &newest))
		return false;
	return newest.shard != c->pos.shard && fl_state_pos_cmp(&newest, &c->pos) > 0 &&
		newest.shard < w->sources[change->source].nshards &&
		newest.log_offset < w->sources[change->source].shards[newest.shard].at.offset;
}

/* ---- a pass ------------------------------------------------------------------------ */

static int
position_cmp(const void *x, const void *y)
{
	return fl_state_pos_cmp(&((const FlWatchChange *) x)->c.pos, &((const FlWatchChange *) y)->c.pos);
}

typedef struct Pass
{
	FlWatchRange *ranges;
	int			n;
	int			behind;			/* ranges that have something to read */
} Pass;

/* False: a head has passed a position. */
static bool
plan(FlWatch *w, Pass *p)
{
	int			n = 0;

	for (int i = 0; i < w->nsources; i++)
		n += w->sources[i].nshards;
	p->ranges = palloc0(sizeof(FlWatchRange) * Max(n, 1));
	p->n = p->behind = 0;
	for (int i = 0; i < w->nsources; i++)
		for (int32 s = 0; s < w->sources[i].nshards; s++)
		{
			FlWatchRange *r = &p->ranges[p->n++];

			r->source = i;
			r->shard = s;
			r->at = w->sources[i].shards[s].at;
			r->epoch = w->sources[i].shards[s].epoch;
			r->values_from = r->folded_from = r->at.offset;
			r->upto = fl_watch_tail(w, w->sources[i].stream, s);
			p->behind += r->at.offset < r->upto;
			if (r->at.offset < fl_log_head(w->sources[i].stream, s))
				return false;
		}
	return true;
}

/* Each gets a share of what the call may do, so that a busy shard does not keep the others back. */
static void
read_all(FlWatch *w, Pass *p, int max, FlWatchChanges *out)
{
	int			left = p->behind;

	for (int i = 0; i < p->n; i++)
	{
		FlWatchRange *r = &p->ranges[i];

		if (r->at.offset >= r->upto)
			continue;
		r->max_changes = out->n + Max(1, (max - out->n) / left);
		r->max_bytes = out->bytes + Max(1, ((int64) MAX_BYTES - (int64) out->bytes) / left);
		r->max_look = w->looked_at + Max(MIN_LOOK, (FL_TAIL_MAX_LOOK - w->looked_at) / left);
		left--;
		fl_watch_read_range(w, r, out);
	}
}

/* Leave out what is later than the end of a shard that was not read to its tail. */
static void
cut_at_horizon(FlWatch *w, Pass *p, FlWatchChanges *out)
{
	TimestampTz horizon = DT_NOEND;
	int			n = 0;

	for (int i = 0; i < p->n; i++)
		if (p->ranges[i].at.offset < p->ranges[i].upto)
			horizon = Min(horizon, p->ranges[i].last_ts);
	while (n < out->n && out->list[n].c.pos.ts <= horizon)
		n++;
	for (int i = n; i < out->n; i++)
	{
		const FlWatchChange *c = &out->list[i];

		for (int k = 0; k < p->n; k++)
		{
			FlWatchRange *r = &p->ranges[k];

			if (r->source != c->source || r->shard != c->c.pos.shard || r->at.offset <= c->c.pos.log_offset)
				continue;
			/* Back to before it; a hint to what lies behind would be none. */
			memset(&r->at, 0, sizeof(r->at));
			r->at.offset = c->c.pos.log_offset;
			r->epoch = fl_epoch_of(w->sources[r->source].stream, r->shard, r->at.offset - 1);
		}
	}
	out->n = n;
}

static void
leave_out_superseded(const FlWatch *w, FlWatchChanges *out)
{
	int			keep = 0;

	if (out->n == 0)
		return;
	PushActiveSnapshot(GetLatestSnapshot());
	for (int i = 0; i < out->n; i++)
		if (!fl_watch_is_superseded(w, &out->list[i]))
			out->list[keep++] = out->list[i];
	PopActiveSnapshot();
	out->n = keep;
}

/*
 * Where a shard has come to another epoch, which is rare: was the position in this log?
 * It may have lain beyond the tail until now.
 */
static bool
epochs_hold(const FlWatch *w, const Pass *p)
{
	for (int i = 0; i < p->n; i++)
	{
		const FlWatchRange *r = &p->ranges[i];
		const FlWatchSource *s = &w->sources[r->source];

		if (r->epoch != s->shards[r->shard].epoch &&
			!fl_watch_position_holds(s->stream, r->shard, &s->shards[r->shard]))
			return false;
	}
	return true;
}

static void
move_positions(FlWatch *w, const Pass *p)
{
	for (int i = 0; i < p->n; i++)
	{
		const FlWatchRange *r = &p->ranges[i];
		FlShardPosition *at = &w->sources[r->source].shards[r->shard];

		w->moved |= at->at.offset != r->at.offset;
		/* Where nothing was found the hint may be to blame: the next pass searches. */
		if (at->at.offset == r->at.offset)
			at->at = (FlLogPosition) {.offset = r->at.offset};
		else
			at->at = r->at;
		at->epoch = r->epoch;
	}
}

bool
fl_watch_follow(FlWatch *w, int max, FlWatchChanges *out)
{
	Pass		p;

	if (!plan(w, &p))
		return false;
	if (p.behind == 0)
		return true;
	read_all(w, &p, max, out);
	if (!epochs_hold(w, &p))
		return false;
	if (out->n > 1)
		qsort(out->list, out->n, sizeof(FlWatchChange), position_cmp);
	cut_at_horizon(w, &p, out);
	leave_out_superseded(w, out);
	move_positions(w, &p);
	return true;
}
