/*-------------------------------------------------------------------------
 *
 * server.c
 *	  As much of the server as a front door needs: see fake.h.
 *
 *-------------------------------------------------------------------------
 */
#include "fake.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "access/xact.h"
#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/memnodes.h"
#include "pgstat.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* ---- memory contexts ---- */

#define FILL 4096 /* bytes of a piece; more would be slow, and tell no more */

typedef struct Chunk
{
	struct Chunk *prev;
	struct Chunk *next;
	Size size;
	MemoryContext context; /* right before the memory, where the server has it */
} Chunk;

typedef struct Context
{
	MemoryContextData head; /* must come first */
	Chunk *chunks;
} Context;

MemoryContext TopMemoryContext = NULL;
MemoryContext CurrentMemoryContext = NULL;
MemoryContext ErrorContext = NULL;
static int contexts = 0;

int
fake_context_count(void)
{
	return contexts;
}

static Chunk *
chunk_of(void *p)
{
	return (Chunk *) p - 1;
}

static void
link_chunk(Context *context, Chunk *chunk)
{
	chunk->context = &context->head;
	chunk->prev = NULL;
	chunk->next = context->chunks;
	if (chunk->next != NULL)
		chunk->next->prev = chunk;
	context->chunks = chunk;
}

static void
unlink_chunk(Chunk *chunk)
{
	Context *context = (Context *) chunk->context;

	if (chunk->prev != NULL)
		chunk->prev->next = chunk->next;
	else
		context->chunks = chunk->next;
	if (chunk->next != NULL)
		chunk->next->prev = chunk->prev;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name, Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	Context *context = calloc(1, sizeof(Context));

	context->head.name = name;
	context->head.parent = parent;
	if (parent != NULL)
	{
		context->head.nextchild = parent->firstchild;
		if (parent->firstchild != NULL)
			parent->firstchild->prevchild = &context->head;
		parent->firstchild = &context->head;
	}
	contexts++;
	return &context->head;
}

void
MemoryContextReset(MemoryContext context)
{
	Context *c = (Context *) context;

	while (context->firstchild != NULL)
		MemoryContextDelete(context->firstchild);
	while (c->chunks != NULL)
	{
		Chunk *chunk = c->chunks;

		unlink_chunk(chunk);
		free(chunk);
	}
}

void
MemoryContextDelete(MemoryContext context)
{
	MemoryContextReset(context);
	if (context->prevchild != NULL)
		context->prevchild->nextchild = context->nextchild;
	else if (context->parent != NULL)
		context->parent->firstchild = context->nextchild;
	if (context->nextchild != NULL)
		context->nextchild->prevchild = context->prevchild;
	free(context);
	contexts--;
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	Chunk *chunk = malloc(sizeof(Chunk) + size);

	FL_FUZZ_ASSERT(chunk != NULL);
	chunk->size = size;
	link_chunk((Context *) context, chunk);
	/* Whoever reads what it has not written sees this. */
	memset(chunk + 1, 0x7F, Min(size, FILL));
	return chunk + 1;
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	FL_FUZZ_ASSERT(AllocSizeIsValid(size));
	return MemoryContextAllocHuge(context, size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return memset(MemoryContextAlloc(context, size), 0, size);
}

void *
MemoryContextAllocZeroAligned(MemoryContext context, Size size)
{
	return MemoryContextAllocZero(context, size);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	void *p = (flags & MCXT_ALLOC_HUGE) ? MemoryContextAllocHuge(context, size) : MemoryContextAlloc(context, size);

	return (flags & MCXT_ALLOC_ZERO) ? memset(p, 0, size) : p;
}

void *
palloc(Size size)
{
	return MemoryContextAlloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return MemoryContextAllocZero(CurrentMemoryContext, size);
}

void
pfree(void *p)
{
	Chunk *chunk = chunk_of(p);

	unlink_chunk(chunk);
	free(chunk);
}

void *
repalloc_huge(void *p, Size size)
{
	Chunk *old = chunk_of(p);
	void *again = MemoryContextAllocHuge(old->context, size);

	memcpy(again, p, Min(old->size, size));
	pfree(p);
	return again;
}

void *
repalloc(void *p, Size size)
{
	FL_FUZZ_ASSERT(AllocSizeIsValid(size));
	return repalloc_huge(p, size);
}

char *
pstrdup(const char *in)
{
	Size len = strlen(in) + 1;

	return memcpy(palloc(len), in, len);
}

Size
MemoryContextMemAllocated(MemoryContext context, bool recurse)
{
	Size total = 0;

	for (Chunk *chunk = ((Context *) context)->chunks; chunk != NULL; chunk = chunk->next)
		total += chunk->size;
	return total;
}

/* ---- errors ---- */

sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;
volatile uint32 InterruptHoldoffCount = 0;
volatile uint32 CritSectionCount = 0;
volatile sig_atomic_t InterruptPending = false;
static int level;
static char said[8192];

/* Lines of the log are made, too: what they are made of may be the client's. */
bool
errstart(int elevel, const char *domain)
{
	level = elevel;
	said[0] = '\0';
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

static int
say(const char *fmt, va_list args)
{
	/* The first is the message; all are made. */
	if (said[0] == '\0')
		(void) vsnprintf(said, sizeof(said), fmt, args);
	else
	{
		char more[8192];

		(void) vsnprintf(more, sizeof(more), fmt, args);
	}
	return 0;
}

#define SAYS(name)                                                                                                     \
	int name(const char *fmt, ...)                                                                                     \
	{                                                                                                                  \
		va_list args;                                                                                                  \
                                                                                                                       \
		va_start(args, fmt);                                                                                           \
		(void) say(fmt, args);                                                                                         \
		va_end(args);                                                                                                  \
		return 0;                                                                                                      \
	}

SAYS(errmsg)
SAYS(errmsg_internal)
SAYS(errdetail)
SAYS(errdetail_log)
SAYS(errdetail_internal)
SAYS(errhint)

int
errcode(int code)
{
	return 0;
}

int
geterrcode(void)
{
	return 0;
}

void
errfinish(const char *file, int line, const char *function)
{
	if (level < ERROR)
		return;
	fprintf(stderr, "error raised at %s:%d: %s\n", file, line, said);
	abort();
}

void
ExceptionalCondition(const char *condition, const char *type, const char *file, int line)
{
	fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
	abort();
}

void
EmitErrorReport(void)
{
}

void
FlushErrorState(void)
{
}

void
pg_re_throw(void)
{
	abort();
}

/* ---- hash tables: few entries, so a list does ---- */

typedef struct Entry
{
	struct Entry *next;
	Size size;
	char bytes[FLEXIBLE_ARRAY_MEMBER];
} Entry;

struct HTAB
{
	Size key;
	Size entry;
	bool strings;
	MemoryContext context;
	Entry *removed; /* may be read until the next call, as the server has it */
	bool shared;
	Entry *spare; /* of shared memory: what was removed can be read for ever, and is used again */
	Entry *first;
};

static HTAB *
make_table(HTAB *table, const HASHCTL *ctl, int flags)
{
	table->key = ctl->keysize;
	table->entry = ctl->entrysize;
	table->strings = (flags & HASH_STRINGS) != 0;
	table->context = (flags & HASH_CONTEXT) ? ctl->hcxt : TopMemoryContext;
	return table;
}

HTAB *
hash_create(const char *name, long elements, const HASHCTL *ctl, int flags)
{
	MemoryContext context = (flags & HASH_CONTEXT) ? ctl->hcxt : TopMemoryContext;

	return make_table(MemoryContextAllocZero(context, sizeof(HTAB)), ctl, flags);
}

HTAB *
ShmemInitHash(const char *name, long init, long max, HASHCTL *ctl, int flags)
{
	HTAB *table = hash_create(name, max, ctl, flags & ~HASH_CONTEXT);

	table->shared = true;
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	Entry **link = &table->first;
	Entry *entry;

	if (table->removed != NULL)
		pfree(table->removed);
	table->removed = NULL;
	while (*link != NULL && (table->strings ? strcmp((*link)->bytes, key) : memcmp((*link)->bytes, key, table->key)) != 0)
		link = &(*link)->next;
	entry = *link;
	if (found != NULL)
		*found = entry != NULL;
	if (action == HASH_FIND || (action != HASH_REMOVE && entry != NULL))
		return entry != NULL ? entry->bytes : NULL;
	if (action == HASH_REMOVE)
	{
		if (entry == NULL)
			return NULL;
		*link = entry->next;
		if (!table->shared)
			table->removed = entry;
		else
		{
			entry->next = table->spare;
			table->spare = entry;
		}
		return entry->bytes;
	}
	entry = table->spare;
	if (entry != NULL)
		table->spare = entry->next;
	else
		entry = MemoryContextAllocZero(table->context, offsetof(Entry, bytes) + table->entry);
	if (table->strings)
		strlcpy(entry->bytes, key, table->key);
	else
		memcpy(entry->bytes, key, table->key);
	entry->next = table->first;
	table->first = entry;
	return entry->bytes;
}

void
hash_seq_init(HASH_SEQ_STATUS *status, HTAB *table)
{
	status->hashp = table;
	status->curEntry = (HASHELEMENT *) table->first;
}

void *
hash_seq_search(HASH_SEQ_STATUS *status)
{
	Entry *entry = (Entry *) status->curEntry;

	if (entry == NULL)
		return NULL;
	status->curEntry = (HASHELEMENT *) entry->next;
	return entry->bytes;
}

void
hash_seq_term(HASH_SEQ_STATUS *status)
{
}

long
hash_get_num_entries(HTAB *table)
{
	long n = 0;

	for (Entry *entry = table->first; entry != NULL; entry = entry->next)
		n++;
	return n;
}

Size
hash_estimate_size(long elements, Size size)
{
	return (Size) elements * size;
}

uint32
hash_bytes(const unsigned char *k, int len)
{
	uint32 h = 2166136261u;

	for (int i = 0; i < len; i++)
		h = (h ^ k[i]) * 16777619u;
	return h;
}

uint64
hash_bytes_extended(const unsigned char *k, int len, uint64 seed)
{
	return hash_bytes(k, len) ^ seed;
}

/* ---- shared memory and locks: one process ---- */

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = false;
	return calloc(1, size);
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

static LWLockPadded lock;
static bool locked = false;

void
RequestNamedLWLockTranche(const char *name, int n)
{
}

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	return &lock;
}

/* No two are ever held together by what runs here. */
bool
LWLockAcquire(LWLock *l, LWLockMode mode)
{
	FL_FUZZ_ASSERT(!locked);
	locked = true;
	return true;
}

void
LWLockRelease(LWLock *l)
{
	FL_FUZZ_ASSERT(locked);
	locked = false;
}

void
LWLockReleaseAll(void)
{
	locked = false;
}

/* ---- transactions ---- */

Oid MyDatabaseId = 5;
static bool in_transaction = false;

bool
IsTransactionState(void)
{
	return in_transaction;
}

void
StartTransactionCommand(void)
{
	FL_FUZZ_ASSERT(!in_transaction);
	in_transaction = true;
}

void
CommitTransactionCommand(void)
{
	FL_FUZZ_ASSERT(in_transaction);
	in_transaction = false;
	CurrentMemoryContext = TopMemoryContext;
}

void
AbortOutOfAnyTransaction(void)
{
	in_transaction = false;
}

void
AcceptInvalidationMessages(void)
{
}

Snapshot
GetLatestSnapshot(void)
{
	return NULL;
}

void
PushActiveSnapshot(Snapshot snapshot)
{
}

void
PopActiveSnapshot(void)
{
}

long
pgstat_report_stat(bool force)
{
	return 0;
}

/* ---- chance, times, text ---- */

int64 fake_now_us = 0;
static uint32 chance = 1;

void
fake_seed(uint32 seed)
{
	chance = seed * 2654435761u + 1;
}

uint32
fake_random(uint32 below)
{
	chance = chance * 1664525u + 1013904223u;
	return (chance >> 8) % below;
}

bool
pg_strong_random(void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8 *) buf)[i] = (uint8) fake_random(256);
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return fake_now_us;
}

/* Days since 2000 to a date, by counting years of 365.2425 days from 0000-03-01. */
int
timestamp2tm(Timestamp dt, int *tzp, struct pg_tm *tm, fsec_t *fsec, const char **tzn, pg_tz *zone)
{
	int64 days = dt / USECS_PER_DAY - (dt % USECS_PER_DAY < 0);
	int64 us = dt - days * USECS_PER_DAY;
	int64 z = days + 730425; /* since 0000-03-01 */
	int64 era = (z >= 0 ? z : z - 146096) / 146097;
	int64 doe = z - era * 146097;
	int64 yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64 doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64 mp = (5 * doy + 2) / 153;

	tm->tm_mday = (int) (doy - (153 * mp + 2) / 5 + 1);
	tm->tm_mon = (int) (mp < 10 ? mp + 3 : mp - 9);
	tm->tm_year = (int) (yoe + era * 400 + (tm->tm_mon <= 2));
	tm->tm_hour = (int) (us / USECS_PER_HOUR);
	tm->tm_min = (int) (us / USECS_PER_MINUTE % 60);
	tm->tm_sec = (int) (us / USECS_PER_SEC % 60);
	*fsec = (fsec_t) (us % USECS_PER_SEC);
	return 0;
}

int
tm2timestamp(struct pg_tm *tm, fsec_t fsec, int *tzp, Timestamp *result)
{
	int64 y = tm->tm_year - (tm->tm_mon <= 2);
	int64 era = (y >= 0 ? y : y - 399) / 400;
	int64 yoe = y - era * 400;
	int64 doy = (153 * (tm->tm_mon + (tm->tm_mon > 2 ? -3 : 9)) + 2) / 5 + tm->tm_mday - 1;
	int64 days = era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 730425;

	*result = days * USECS_PER_DAY + tm->tm_hour * USECS_PER_HOUR + tm->tm_min * USECS_PER_MINUTE +
			  tm->tm_sec * USECS_PER_SEC + fsec + (tzp != NULL ? *tzp * USECS_PER_SEC : 0);
	return 0;
}

int
pg_mbcliplen(const char *s, int len, int limit)
{
	if (len <= limit)
		return len;
	while (limit > 0 && ((uint8) s[limit] & 0xC0) == 0x80)
		limit--;
	return limit;
}

#undef qsort
void
pg_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	if (n > 0)
		qsort(base, n, size, compare);
}

#undef vsnprintf
int
pg_snprintf(char *str, size_t count, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(str, count, fmt, args);
	va_end(args);
	return n;
}

int
pg_vsnprintf(char *str, size_t count, const char *fmt, va_list args)
{
	return vsnprintf(str, count, fmt, args);
}

int
pg_fprintf(FILE *stream, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
#undef vfprintf
	n = vfprintf(stream, fmt, args);
	va_end(args);
	return n;
}

/* ---- hashes ---- */

struct pg_cryptohash_ctx
{
	EVP_MD_CTX *md;
};

pg_cryptohash_ctx *
pg_cryptohash_create(pg_cryptohash_type type)
{
	pg_cryptohash_ctx *ctx = malloc(sizeof(*ctx));

	FL_FUZZ_ASSERT(type == PG_SHA256);
	ctx->md = EVP_MD_CTX_new();
	return ctx;
}

int
pg_cryptohash_init(pg_cryptohash_ctx *ctx)
{
	return EVP_DigestInit_ex(ctx->md, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

int
pg_cryptohash_update(pg_cryptohash_ctx *ctx, const uint8 *data, size_t len)
{
	return EVP_DigestUpdate(ctx->md, data, len) == 1 ? 0 : -1;
}

int
pg_cryptohash_final(pg_cryptohash_ctx *ctx, uint8 *dest, size_t len)
{
	FL_FUZZ_ASSERT(len >= PG_SHA256_DIGEST_LENGTH);
	return EVP_DigestFinal_ex(ctx->md, dest, NULL) == 1 ? 0 : -1;
}

void
pg_cryptohash_free(pg_cryptohash_ctx *ctx)
{
	if (ctx == NULL)
		return;
	EVP_MD_CTX_free(ctx->md);
	free(ctx);
}

struct pg_hmac_ctx
{
	uint8 key[256];
	size_t key_len;
	uint8 data[16384];
	size_t len;
};

pg_hmac_ctx *
pg_hmac_create(pg_cryptohash_type type)
{
	FL_FUZZ_ASSERT(type == PG_SHA256);
	return malloc(sizeof(pg_hmac_ctx));
}

int
pg_hmac_init(pg_hmac_ctx *ctx, const uint8 *key, size_t len)
{
	FL_FUZZ_ASSERT(len <= sizeof(ctx->key));
	memcpy(ctx->key, key, len);
	ctx->key_len = len;
	ctx->len = 0;
	return 0;
}

int
pg_hmac_update(pg_hmac_ctx *ctx, const uint8 *data, size_t len)
{
	FL_FUZZ_ASSERT(len <= sizeof(ctx->data) - ctx->len);
	memcpy(ctx->data + ctx->len, data, len);
	ctx->len += len;
	return 0;
}

int
pg_hmac_final(pg_hmac_ctx *ctx, uint8 *dest, size_t len)
{
	return HMAC(EVP_sha256(), ctx->key, (int) ctx->key_len, ctx->data, ctx->len, dest, NULL) != NULL ? 0 : -1;
}

void
pg_hmac_free(pg_hmac_ctx *ctx)
{
	free(ctx);
}

/* ---- statistics: what $SYS asks for of a state table ---- */

Datum
DirectFunctionCall1Coll(PGFunction func, Oid collation, Datum arg1)
{
	FL_FUZZ_ASSERT(func == pg_stat_get_live_tuples && in_transaction);
	return Int64GetDatum((int64) DatumGetObjectId(arg1));
}

/* ---- an input ---- */

void
fake_server_begin(void)
{
	/* What is static in a process lasts. */
	if (TopMemoryContext == NULL)
		TopMemoryContext = AllocSetContextCreateInternal(NULL, "top", 0, 0, 0);
	CurrentMemoryContext = TopMemoryContext;
	fake_now_us = INT64CONST(849484800000000); /* 2026-12-02 */
}

void
fake_server_end(void)
{
	FL_FUZZ_ASSERT(!in_transaction && !locked && InterruptHoldoffCount == 0);
	CurrentMemoryContext = TopMemoryContext;
	FL_FUZZ_ASSERT(contexts == 1);
}
