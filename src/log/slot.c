/*-------------------------------------------------------------------------
 *
 * slot.c
 *		Tuple slots that know a batch and a record number, and build columns only
 *		when asked.
 *
 * A slot is either *lazy* (it holds a reference to a batch) or *virtual* (its
 * values were put there by the executor, as in INSERT and COPY).  In the
 * virtual state it behaves like the server's virtual slots.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "executor/tuptable.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"

#include "log_private.h"

typedef struct FlSlot
{
	TupleTableSlot base;		/* must come first */
	FlBatch    *batch;			/* lazy: counted reference; NULL when virtual */
	int32		index;			/* record in the batch */
	FlLogRecord rec;			/* lazy: the record, when columns behind ts are built */
	char	   *scratch;		/* its varlenas */
	size_t		scratch_cap;
	char	   *scratch_end;	/* of those built so far */
	char	   *data;			/* materialized virtual values */
} FlSlot;

static void
slot_init(TupleTableSlot *slot)
{
}

static void
slot_clear(TupleTableSlot *slot)
{
	FlSlot	   *s = (FlSlot *) slot;

	if (s->batch)
	{
		fl_batch_release(s->batch);
		s->batch = NULL;
	}
	if (s->data)
	{
		pfree(s->data);
		s->data = NULL;
	}
	slot->tts_nvalid = 0;
	slot->tts_flags |= TTS_FLAG_EMPTY;
	slot->tts_flags &= ~TTS_FLAG_SHOULDFREE;
	ItemPointerSetInvalid(&slot->tts_tid);
}

static void
slot_release(TupleTableSlot *slot)
{
	FlSlot	   *s = (FlSlot *) slot;

	if (s->scratch)
		pfree(s->scratch);
	s->scratch = NULL;
	s->scratch_cap = 0;
}

static void
fl_slot_getsomeattrs(TupleTableSlot *slot, int natts)
{
	FlSlot	   *s = (FlSlot *) slot;

	if (s->batch == NULL)
		elog(ERROR, "getsomeattrs is not required to be called on a virtual tuple table slot");
	if (slot->tts_nvalid < FL_ATT_TS)
	{
		/* Known from the batch's head alone. */
		slot->tts_values[FL_ATT_SHARD - 1] = Int32GetDatum(s->batch->shard);
		slot->tts_values[FL_ATT_OFFSET - 1] = Int64GetDatum(s->batch->info.base_offset + s->index);
		slot->tts_values[FL_ATT_TS - 1] = TimestampTzGetDatum(s->batch->head.append_ts);
		for (int i = 0; i < FL_ATT_TS; i++)
			slot->tts_isnull[i] = false;
		slot->tts_nvalid = FL_ATT_TS;
	}
	if (natts <= FL_ATT_TS)
		return;
	if (slot->tts_nvalid == FL_ATT_TS)
	{
		fl_batch_get_record(s->batch, s->index, &s->rec);
		fl_columns_reserve(&s->rec, &s->scratch, &s->scratch_cap, slot->tts_mcxt);
		s->scratch_end = s->scratch;
	}
	/* The record's bytes are the batch's, which this slot holds: more columns may be asked for later. */
	slot->tts_nvalid = fl_columns_more(&s->rec, slot->tts_nvalid, natts, &s->scratch_end,
									   slot->tts_values, slot->tts_isnull);
}

static Datum
fl_slot_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	FlSlot	   *s = (FlSlot *) slot;

	*isnull = false;
	if (s->batch)
	{
		if (attnum == MinTransactionIdAttributeNumber)
			return TransactionIdGetDatum(s->batch->head.xmin);
		if (attnum == MinCommandIdAttributeNumber)
			return CommandIdGetDatum(s->batch->head.cmin);
		if (attnum == MaxTransactionIdAttributeNumber)
			return TransactionIdGetDatum(InvalidTransactionId);
		if (attnum == MaxCommandIdAttributeNumber)
			return CommandIdGetDatum(FirstCommandId);
	}
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot retrieve a system column in this context")));
	return 0;
}

#if PG_VERSION_NUM >= 170000
static bool
fl_slot_is_current_xact_tuple(TupleTableSlot *slot)
{
	FlSlot	   *s = (FlSlot *) slot;

	return s->batch && TransactionIdIsCurrentTransactionId(s->batch->head.xmin);
}
#endif

/* As for virtual slots: all by-reference values move into one chunk of the slot. */
static void
slot_materialize(TupleTableSlot *slot)
{
	FlSlot	   *s = (FlSlot *) slot;
	TupleDesc	desc = slot->tts_tupleDescriptor;
	Size		size = 0;
	char	   *p;

	if (TTS_SHOULDFREE(slot))
		return;
	slot_getallattrs(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attbyval || slot->tts_isnull[i])
			continue;
		if (att->attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(slot->tts_values[i])))
			size = att_align_nominal(size, att->attalign) +
				EOH_get_flat_size(DatumGetEOHP(slot->tts_values[i]));
		else
		{
			size = att_align_nominal(size, att->attalign);
			size = att_addlength_datum(size, att->attlen, slot->tts_values[i]);
		}
		size = MAXALIGN(size);
	}
	slot->tts_flags |= TTS_FLAG_SHOULDFREE;
	p = s->data = size > 0 ? MemoryContextAllocHuge(slot->tts_mcxt, size) : NULL;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Size		len;

		if (att->attbyval || slot->tts_isnull[i])
			continue;
		if (att->attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(slot->tts_values[i])))
		{
			ExpandedObjectHeader *eoh = DatumGetEOHP(slot->tts_values[i]);

			len = EOH_get_flat_size(eoh);
			EOH_flatten_into(eoh, p, len);
		}
		else
		{
			len = att_addlength_datum(0, att->attlen, slot->tts_values[i]);
			memcpy(p, DatumGetPointer(slot->tts_values[i]), len);
		}
		slot->tts_values[i] = PointerGetDatum(p);
		p += MAXALIGN(len);
	}
	if (s->batch)
	{
		/* The values no longer depend on the batch. */
		fl_batch_release(s->batch);
		s->batch = NULL;
	}
}

static void
slot_copy(TupleTableSlot *dst, TupleTableSlot *src)
{
	TupleDesc	desc = dst->tts_tupleDescriptor;

	ExecClearTuple(dst);
	slot_getallattrs(src);
	for (int i = 0; i < desc->natts; i++)
	{
		dst->tts_values[i] = src->tts_values[i];
		dst->tts_isnull[i] = src->tts_isnull[i];
	}
	dst->tts_nvalid = desc->natts;
	dst->tts_flags &= ~TTS_FLAG_EMPTY;
	dst->tts_tid = src->tts_tid;
	dst->tts_tableOid = src->tts_tableOid;
	slot_materialize(dst);
}

static HeapTuple
slot_copy_heap_tuple(TupleTableSlot *slot)
{
	HeapTuple	tup;

	slot_getallattrs(slot);
	tup = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
	tup->t_self = slot->tts_tid;
	tup->t_tableOid = slot->tts_tableOid;
	return tup;
}

#if PG_VERSION_NUM >= 180000
static MinimalTuple
slot_copy_minimal_tuple(TupleTableSlot *slot, Size extra)
{
	slot_getallattrs(slot);
	return heap_form_minimal_tuple(slot->tts_tupleDescriptor, slot->tts_values,
								   slot->tts_isnull, extra);
}
#else
static MinimalTuple
slot_copy_minimal_tuple(TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	return heap_form_minimal_tuple(slot->tts_tupleDescriptor, slot->tts_values,
								   slot->tts_isnull);
}
#endif

const TupleTableSlotOps fl_slot_ops = {
	.base_slot_size = sizeof(FlSlot),
	.init = slot_init,
	.release = slot_release,
	.clear = slot_clear,
	.getsomeattrs = fl_slot_getsomeattrs,
	.getsysattr = fl_slot_getsysattr,
#if PG_VERSION_NUM >= 170000
	.is_current_xact_tuple = fl_slot_is_current_xact_tuple,
#endif
	.materialize = slot_materialize,
	.copyslot = slot_copy,
	.get_heap_tuple = NULL,
	.get_minimal_tuple = NULL,
	.copy_heap_tuple = slot_copy_heap_tuple,
	.copy_minimal_tuple = slot_copy_minimal_tuple,
};

void
fl_slot_store(TupleTableSlot *slot, FlBatch *batch, int32 index, ItemPointer tid, Oid tableoid)
{
	FlSlot	   *s = (FlSlot *) slot;

	Assert(slot->tts_ops == &fl_slot_ops);
	if (s->batch != batch || s->data)
	{
		ExecClearTuple(slot);
		s->batch = batch;
		batch->refcount++;
	}
	s->index = index;
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = *tid;
	slot->tts_tableOid = tableoid;
}
