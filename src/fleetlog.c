/*-------------------------------------------------------------------------
 *
 * fleetlog.c
 *		What happens when the library is loaded: settings, hooks, registrations.
 *
 * The library does its work only when preloaded.  Loading it later is allowed
 * all the same, and does nothing but define settings and refuse what needs
 * shared memory, because pg_upgrade loads every library once to see whether it
 * is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/guc.h"

#include "fleetlog/command.h"
#include "fleetlog/auth.h"
#include "fleetlog/catalog.h"
#include "fleetlog/groups.h"
#include "fleetlog/launcher.h"
#include "fleetlog/kafka.h"
#include "fleetlog/log.h"
#include "fleetlog/mqtt.h"
#include "fleetlog/net.h"
#include "fleetlog/producers.h"
#include "fleetlog/session.h"
#include "fleetlog/policy.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/state.h"
#include "fleetlog/stream_scan.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shmem(void)
{
	if (prev_shmem_request_hook != NULL)
		prev_shmem_request_hook();
	fl_shmem_request();
}

static void
startup_shmem(void)
{
	if (prev_shmem_startup_hook != NULL)
		prev_shmem_startup_hook();
	fl_shmem_startup();
}

void
_PG_init(void)
{
	fl_settings_define();
	if (!process_shared_preload_libraries_in_progress)
		return;

	fl_auth_settings_define();
	fl_acl_settings_define();
	fl_mqtt_define_settings();
	fl_kafka_define_settings();
	fl_net_settings_define();
	fl_session_define_settings();
	fl_groups_define_settings();
	fl_producers_define_settings();
	fl_command_define_settings();

	/* Unknown names under our prefix are a typing error from here on. */
	MarkGUCPrefixReserved("fleetlog");
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
	fl_log_init();
	fl_xact_init();
	fl_producers_callbacks_init();
	fl_state_init();
	fl_session_callbacks_init();
	fl_catalog_init();
	fl_refuse_init();
	fl_policy_init();
	fl_stream_scan_init();
	fl_launcher_register();
}
