/*-------------------------------------------------------------------------
 *
 * command.h
 *		Commands to devices (C1-C3): what send_command, the dispatcher and the
 *		MQTT front door have in common.
 *
 * A command is a row of fleetlog.command; it is sent as a record of the stream
 * fleetlog.command_log, which every tenant's `<prefix>cmd/` leads to once it is
 * there (fl_command_stream, catalog.h).  What devices answer are records of the
 * same stream, and so are the receipts that front doors write: key
 * FL_COMMAND_RECEIPT, which is no topic of any mount and reaches no subscriber,
 * payload `delivered|expired <shard> <offset> <reason code>` about the command at
 * that position.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_COMMAND_H
#define FLEETLOG_COMMAND_H

#define FL_COMMAND_RECEIPT	"$fleetlog/command/receipt"

#define FL_COMMAND_NAME_MAX	64	/* bytes of a command's name */

/* User properties of a command, which are also where the envelope of MQTT 3 gets its fields from. */
#define FL_COMMAND_P_ID			"fl-id"
#define FL_COMMAND_P_ISSUED		"fl-issued-at"
#define FL_COMMAND_P_EXPIRES	"fl-expires-at"

extern int	fl_command_max_ttl_s;	/* longest ttl */
extern int	fl_command_max_payload_kb;
extern int	fl_command_retention_min;	/* how long a command is kept when it is over; 0: for ever */

extern void fl_command_define_settings(void);

/* At commit of this transaction the dispatcher is told to look. */
extern void fl_command_wake_at_commit(void);

#endif							/* FLEETLOG_COMMAND_H */
