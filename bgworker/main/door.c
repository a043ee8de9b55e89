/*-------------------------------------------------------------------------
 *
 * door.c
 *		What front doors do alike; fleetlog/door.h has the contracts.
 *
 * Called by bgworker/mqtt and bgworker/kafka.  It knows no protocol and no
 * connection.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/auth.h"
#include "fleetlog/compat.h"
#include "fleetlog/door.h"
#include "fleetlog/utf8.h"
#include "fleetlog/worker.h"

#define STOP_POLL_MS 5

WaitEventSet *
fl_door_wait_set(FlNetLoop *net)
{
	WaitEventSet *set = FL_CREATE_WAIT_EVENT_SET(3);

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE, fl_net_fd(net), NULL, NULL);
	return set;
}

bool
fl_door_wait(WaitEventSet *set, long timeout, bool polled)
{
	WaitEvent events[3];
	int n = WaitEventSetWait(set, timeout, events, lengthof(events), PG_WAIT_EXTENSION);
	bool latch = false;
	bool socket = false;

	ResetLatch(MyLatch);
	for (int i = 0; i < n; i++)
	{
		latch = latch || (events[i].events & WL_LATCH_SET);
		socket = socket || (events[i].events & WL_SOCKET_READABLE);
	}
	return socket || !latch || !polled;
}

long
fl_door_shorter(long a, long b)
{
	if (a < 0)
		return b;
	return b < 0 ? a : Min(a, b);
}

void
fl_door_report(FlNetLoop *net, MemoryContext context, bool stopping)
{
	static uint64 bytes_in = 0;
	static uint64 bytes_out = 0;
	char listening[64];

	FL_COUNT(FL_C_BYTES_IN, fl_net_bytes_in(net) - bytes_in);
	FL_COUNT(FL_C_BYTES_OUT, fl_net_bytes_out(net) - bytes_out);
	bytes_in = fl_net_bytes_in(net);
	bytes_out = fl_net_bytes_out(net);
	if (fl_my_slot)
		fl_my_slot->counters[FL_C_MEMORY] = MemoryContextMemAllocated(context, true);
	if (!stopping)
		fl_worker_set_state("listening on %s", fl_net_listening(net, listening, sizeof(listening)));
}

void
fl_door_drain(FlNetLoop *net, FlIngest *ingest)
{
	TimestampTz deadline = GetCurrentTimestamp() + FL_SHUTDOWN_GRACE_MS * INT64CONST(1000);

	while (fl_ingest_outstanding(ingest) > 0 && GetCurrentTimestamp() < deadline)
	{
		fl_ingest_flush(ingest);
		fl_ingest_poll(ingest);
		fl_net_flush(net);
		fl_worker_wait(STOP_POLL_MS);
	}
	fl_ingest_poll(ingest);
}

void
fl_door_see_off(FlNetLoop *net)
{
	TimestampTz deadline = GetCurrentTimestamp() + FL_SHUTDOWN_GRACE_MS * INT64CONST(1000) / 2;

	do
	{
		fl_net_flush(net);
		fl_net_turn(net, true);
		if (fl_net_connections(net) > 0)
			fl_worker_wait(STOP_POLL_MS);
	} while (fl_net_connections(net) > 0 && GetCurrentTimestamp() < deadline);
}

int
fl_door_find_psk(MemoryContext context, MemoryContext turn, const char *identity, uint8 *key, int room, void **attached)
{
	MemoryContext old = CurrentMemoryContext;
	volatile int len = 0;

	/* With TLS 1.3 it may be anything, for instance the ticket of another server. */
	if (!fl_utf8_valid_text((const uint8_t *) identity, strlen(identity)))
		return 0;
	PG_TRY();
	{
		FlIdentity id;

		if (!IsTransactionState())
			StartTransactionCommand();
		MemoryContextSwitchTo(turn);
		len = fl_auth_find_psk(identity, &id, key, room);
		if (len > 0)
		{
			*attached = MemoryContextAlloc(context, sizeof(FlIdentity));
			memcpy(*attached, &id, sizeof(FlIdentity));
		}
	}
	PG_CATCH();
	{
		fl_worker_absorb_error(context);
		len = 0;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return len;
}
