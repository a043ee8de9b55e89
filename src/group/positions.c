/*-------------------------------------------------------------------------
 *
 * positions.c
 *		What a door asks about positions, done on fleetlog.consumer_position.
 *
 * The rows are those of take(): one a shard, owned by the role that used the
 * consumer's name first.  A role that may act for the owner may act here; devices
 * and anonymous clients act as the workers' role, under names that begin with
 * their tenant's.  The rights on streams have been asked by the door.
 *
 * Nothing here waits for a row that somebody holds: a session in take() may hold
 * it for as long as it likes, and other groups must not wait for that.  Such a
 * commit is refused, to be sent again.
 *
 * Called in a transaction by bgworker/main/positions.c only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/groups.h"
#include "fleetlog/producers.h"

/* ---- what is asked, as arrays ------------------------------------------------------- */

typedef struct Items
{
	int			n;
	FlPosition *item;
} Items;

static Items
read_items(FlReader *reader)
{
	Items		items = {0};
	int			room = 16;

	items.item = palloc(sizeof(FlPosition) * room);
	while (true)
	{
		if (items.n == room)
		{
			room *= 2;
			items.item = repalloc_huge(items.item, sizeof(FlPosition) * room);
		}
		if (!fl_positions_next(reader, &items.item[items.n]))
			break;
		items.n++;
	}
	return items;
}

static Datum
make_array(Datum *values, bool *nulls, int n, Oid type)
{
	int16		len;
	bool		byval;
	char		align;
	int			lower = 1;

	get_typlenbyvalalign(type, &len, &byval, &align);
	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lower, type, len, byval, align));
}

/* A text that the database can keep; NULL where it is none. */
static text *
keep_text(FlKafkaBytes bytes)
{
	char	   *utf8;

	if (bytes.len < 0)
		return NULL;
	utf8 = pnstrdup((const char *) bytes.data, bytes.len);
	return cstring_to_text(pg_any_to_server(utf8, bytes.len, PG_UTF8));
}

static FlKafkaBytes
give_text(text *t)
{
	char	   *server = text_to_cstring(t);
	char	   *utf8 = pg_server_to_any(server, strlen(server), PG_UTF8);

	return fl_kafka_bytes(utf8, (int32) strlen(utf8));
}

enum
{
	A_STREAM,
	A_SHARD,
	A_OFFSET,
	A_EPOCH,
	A_METADATA,
	N_ARRAYS
};

static const Oid array_types[N_ARRAYS] = {OIDARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TEXTARRAYOID};
static const Oid element_types[N_ARRAYS] = {OIDOID, INT4OID, INT8OID, INT4OID, TEXTOID};

/* The items without an error, in their order. */
static void
make_arrays(const Items *items, Datum *arrays)
{
	Datum	   *values[N_ARRAYS];
	bool	   *nulls[N_ARRAYS];
	int			n = 0;

	for (int a = 0; a < N_ARRAYS; a++)
	{
		values[a] = palloc(sizeof(Datum) * Max(items->n, 1));
		nulls[a] = palloc0(sizeof(bool) * Max(items->n, 1));
	}
	for (int i = 0; i < items->n; i++)
	{
		const FlPosition *item = &items->item[i];
		text	   *metadata;

		if (item->error != FL_KAFKA_NO_ERROR)
			continue;
		metadata = keep_text(item->metadata);
		values[A_STREAM][n] = ObjectIdGetDatum(item->stream);
		values[A_SHARD][n] = Int32GetDatum(item->shard);
		values[A_OFFSET][n] = Int64GetDatum(item->log_offset);
		values[A_EPOCH][n] = Int32GetDatum(item->epoch);
		nulls[A_EPOCH][n] = item->epoch < 0;
		values[A_METADATA][n] = PointerGetDatum(metadata);
		nulls[A_METADATA][n] = metadata == NULL;
		n++;
	}
	for (int a = 0; a < N_ARRAYS; a++)
		arrays[a] = make_array(values[a], nulls[a], n, element_types[a]);
}

static int
count_good(const Items *items)
{
	int			n = 0;

	for (int i = 0; i < items->n; i++)
		n += items->item[i].error == FL_KAFKA_NO_ERROR;
	return n;
}

/* ---- whose they are, and whether they are free --------------------------------------- */

bool
fl_positions_may_act(Oid role, Oid owner)
{
	Oid			admin = get_role_oid("fleetlog_admin", true);

	return has_privs_of_role(role, owner) || (OidIsValid(admin) && has_privs_of_role(role, admin));
}

typedef struct Owners
{
	Oid			role;
	Oid			owner;			/* of the rows that there are, or the role */
	bool		refused;
	int64		rows;			/* of the streams that were asked for */
} Owners;

static void
on_owner(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Owners	   *owners = arg;
	bool		isnull;

	owners->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	if (!fl_positions_may_act(owners->role, owners->owner))
		owners->refused = true;
	owners->rows += DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
}

static void
on_count(void *arg, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	*(int64 *) arg = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &isnull));
}

/*
 * May the role act for the consumer, and can its rows (of these streams, or of all)
 * be had at once?  They are locked then.  *owner: whose new rows will be.
 */
static int16
lock_rows(const FlPositionsRequest *request, Datum consumer, Datum streams, bool all, int64 *rows, Oid *owner)
{
	Oid			types[3] = {TEXTOID, OIDARRAYOID, BOOLOID};
	Datum		values[3] = {consumer, streams, BoolGetDatum(all)};
	Owners		owners = {request->role, request->role, false, 0};
	int64		locked = 0;

	fl_config_query("SELECT owner::pg_catalog.oid, pg_catalog.count(*) FILTER (WHERE $3 OR stream::pg_catalog.oid = ANY ($2))"
					" FROM fleetlog.consumer_position WHERE consumer = $1 GROUP BY owner",
					3, types, values, on_owner, &owners);
	*rows = owners.rows;
	*owner = owners.owner;
	if (owners.refused)
		return FL_KAFKA_GROUP_AUTHORIZATION_FAILED;
	if (owners.rows == 0)
		return FL_KAFKA_NO_ERROR;
	fl_config_query("SELECT pg_catalog.count(*) FROM (SELECT FROM fleetlog.consumer_position"
					" WHERE consumer = $1 AND ($3 OR stream::pg_catalog.oid = ANY ($2)) FOR UPDATE SKIP LOCKED) l",
					3, types, values, on_count, &locked);
	return locked < owners.rows ? FL_POSITIONS_BUSY : FL_KAFKA_NO_ERROR;
}

/*
 * Streams that have gone since the door looked: a row of theirs would stay for
 * ever.  Whoever drops one takes the rows with it, behind us if he waits for the
 * lock; where he has it already, the answer is to come again.
 */
static void
check_streams(Items *items)
{
	Oid			last = InvalidOid;
	int16		error = FL_KAFKA_NO_ERROR;

	for (int i = 0; i < items->n; i++)
	{
		FlPosition *item = &items->item[i];

		if (item->stream != last)
		{
			last = item->stream;
			if (!ConditionalLockRelationOid(last, AccessShareLock))
				error = FL_POSITIONS_BUSY;
			else
				error = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(last)) ? FL_KAFKA_NO_ERROR
					: FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
		}
		if (item->error == FL_KAFKA_NO_ERROR)
			item->error = error;
	}
}

static void
answer_items(FlBuf *answer, Items *items, int16 error)
{
	fl_positions_begin_answer(answer, error, items->n > 0);
	for (int i = 0; i < items->n; i++)
	{
		items->item[i].metadata.len = -1;
		fl_positions_add(answer, &items->item[i]);
	}
}

/* ---- operations -------------------------------------------------------------------- */

/* Of several positions of one shard the last one counts. */
static void
commit(FlPositionsRequest *request, Datum consumer, FlBuf *answer)
{
	Items		items = read_items(&request->items);
	Oid			types[2 + N_ARRAYS] = {TEXTOID, OIDOID};
	Datum		values[2 + N_ARRAYS] = {consumer};
	int64		rows;
	Oid			owner;
	int16		error;

	check_streams(&items);
	make_arrays(&items, values + 2);
	memcpy(types + 2, array_types, sizeof(array_types));
	error = lock_rows(request, consumer, values[2 + A_STREAM], false, &rows, &owner);
	values[1] = ObjectIdGetDatum(owner);
	if (error == FL_KAFKA_NO_ERROR && count_good(&items) > 0)
		(void) fl_config_execute("INSERT INTO fleetlog.consumer_position AS p (consumer, owner, stream, shard, log_offset, epoch, metadata)"
								 " SELECT DISTINCT ON (stream, shard) $1, $2, stream, shard, log_offset, epoch, metadata"
								 " FROM ROWS FROM (pg_catalog.unnest($3), pg_catalog.unnest($4), pg_catalog.unnest($5),"
								 " pg_catalog.unnest($6), pg_catalog.unnest($7))"
								 " WITH ORDINALITY AS u (stream, shard, log_offset, epoch, metadata, n)"
								 " ORDER BY stream, shard, n DESC"
								 " ON CONFLICT (consumer, stream, shard) DO UPDATE SET log_offset = EXCLUDED.log_offset,"
								 " epoch = EXCLUDED.epoch, metadata = EXCLUDED.metadata, updated = pg_catalog.clock_timestamp()",
								 2 + N_ARRAYS, types, values, NULL);
	answer_items(answer, &items, error);
}

static void
delete_items(FlPositionsRequest *request, Datum consumer, FlBuf *answer)
{
	Items		items = read_items(&request->items);
	Oid			types[3] = {TEXTOID, OIDARRAYOID, INT4ARRAYOID};
	Datum		arrays[N_ARRAYS];
	int64		rows;
	Oid			owner;
	int16		error;

	make_arrays(&items, arrays);
	error = lock_rows(request, consumer, arrays[A_STREAM], false, &rows, &owner);
	if (error == FL_KAFKA_NO_ERROR)
	{
		Datum		values[3] = {consumer, arrays[A_STREAM], arrays[A_SHARD]};

		(void) fl_config_execute("DELETE FROM fleetlog.consumer_position p"
								 " USING ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)) AS u (stream, shard)"
								 " WHERE p.consumer = $1 AND p.stream = u.stream AND p.shard = u.shard",
								 3, types, values, NULL);
	}
	answer_items(answer, &items, error);
}

static void
delete_all(FlPositionsRequest *request, Datum consumer, FlBuf *answer)
{
	Oid			types[1] = {TEXTOID};
	int64		rows;
	Oid			owner;
	int16		error = lock_rows(request, consumer, make_array(NULL, NULL, 0, OIDOID), true, &rows, &owner);

	if (error == FL_KAFKA_NO_ERROR && rows > 0)
		(void) fl_config_execute("DELETE FROM fleetlog.consumer_position WHERE consumer = $1", 1, types, &consumer, NULL);
	fl_positions_begin_answer(answer, error, rows > 0);
}

typedef struct Found
{
	Oid			role;
	FlBuf	   *answer;
	bool		refused;
	bool		any;
} Found;

static void
on_position(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Found	   *found = arg;
	FlPosition	item = {0};
	bool		isnull;
	Datum		metadata;

	if (!fl_positions_may_act(found->role, DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull))))
	{
		found->refused = true;
		return;
	}
	found->any = true;
	item.stream = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
	item.shard = DatumGetInt32(SPI_getbinval(tuple, desc, 3, &isnull));
	item.log_offset = DatumGetInt64(SPI_getbinval(tuple, desc, 4, &isnull));
	item.epoch = DatumGetInt32(SPI_getbinval(tuple, desc, 5, &isnull));
	if (isnull)
		item.epoch = -1;
	metadata = SPI_getbinval(tuple, desc, 6, &isnull);
	item.metadata = isnull ? fl_kafka_bytes(NULL, -1) : give_text(DatumGetTextPP(metadata));
	fl_positions_add(found->answer, &item);
}

static void
fetch(FlPositionsRequest *request, Datum consumer, FlBuf *answer)
{
	Items		items = read_items(&request->items);
	Oid			types[3] = {TEXTOID, OIDARRAYOID, BOOLOID};
	Datum		arrays[N_ARRAYS];
	Datum		values[3];
	Found		found = {request->role, answer, false, false};

	make_arrays(&items, arrays);
	values[0] = consumer;
	values[1] = arrays[A_STREAM];
	values[2] = BoolGetDatum(items.n == 0);
	fl_positions_begin_answer(answer, FL_KAFKA_NO_ERROR, false);
	fl_config_query("SELECT owner::pg_catalog.oid, stream::pg_catalog.oid, shard, log_offset, epoch, metadata"
					" FROM fleetlog.consumer_position WHERE consumer = $1 AND ($3 OR stream::pg_catalog.oid = ANY ($2))"
					" ORDER BY stream, shard",
					3, types, values, on_position, &found);
	if (found.refused)
		fl_positions_begin_answer(answer, FL_KAFKA_GROUP_AUTHORIZATION_FAILED, false);
	else if (!answer->failed)
		answer->data[2] = found.any;
}

static void
on_consumer(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Found	   *found = arg;
	FlPosition	item = {0};
	bool		isnull;

	if (!fl_positions_may_act(found->role, DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull))))
		return;
	item.metadata = give_text(DatumGetTextPP(SPI_getbinval(tuple, desc, 2, &isnull)));
	fl_positions_add(found->answer, &item);
}

static void
list(FlPositionsRequest *request, Datum prefix, FlBuf *answer)
{
	Oid			types[1] = {TEXTOID};
	Found		found = {request->role, answer, false, false};

	fl_positions_begin_answer(answer, FL_KAFKA_NO_ERROR, true);
	fl_config_query("SELECT DISTINCT owner::pg_catalog.oid, consumer FROM fleetlog.consumer_position"
					" WHERE pg_catalog.starts_with(consumer, $1)",
					1, types, &prefix, on_consumer, &found);
}

static void
give_producer_ids(FlBuf *answer)
{
	FlPosition	item = {.log_offset = fl_producer_ids_take(),.metadata = {NULL, -1}};

	fl_positions_begin_answer(answer, FL_KAFKA_NO_ERROR, true);
	fl_positions_add(answer, &item);
}

void
fl_positions_execute(FlPositionsRequest *request, FlBuf *answer)
{
	Datum		consumer = PointerGetDatum(keep_text(request->consumer));

	switch (request->op)
	{
		case FL_POSITIONS_COMMIT:
			commit(request, consumer, answer);
			return;
		case FL_POSITIONS_FETCH:
			fetch(request, consumer, answer);
			return;
		case FL_POSITIONS_DELETE:
			delete_items(request, consumer, answer);
			return;
		case FL_POSITIONS_DELETE_ALL:
			delete_all(request, consumer, answer);
			return;
		case FL_POSITIONS_LIST:
			list(request, consumer, answer);
			return;
		case FL_POSITIONS_PRODUCER_IDS:
			give_producer_ids(answer);
			return;
		case FL_POSITIONS_TOPIC_ADMIN:
			break;
	}
	fl_positions_begin_answer(answer, FL_KAFKA_UNKNOWN_SERVER_ERROR, false);
}
