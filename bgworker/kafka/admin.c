/*
 * admin.c
 *		Administration: who may, asking the process that does it, verdicts.
 *
 * A request names several topics, each of which has a verdict of its own: some
 * are refused here, the others are asked one by one, and the request is answered
 * when all verdicts are there, or when its time is over.
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "admin.h"

#define MAX_TIMEOUT_MS 300000
#define GRACE_MS       5000 /* beyond the client's time-out: for an answer that is on its way */

static void
finish(FlKafkaAsks *asks)
{
	FlKafkaAdmin *admin = asks->state;

	for (int i = 0; i < admin->n; i++)
	{
		FlKafkaAsk *ask = &asks->asks[i];
		FlKafkaVerdict *v = &admin->verdicts[i];
		FlPosition item;

		if (v->error != FL_KAFKA_NO_ERROR)
			continue;
		v->error = ask->error;
		/* No room in the queue, no worker, no answer: whatever it is, it passes. */
		if (v->error == FL_KAFKA_COORDINATOR_LOAD_IN_PROGRESS || v->error == FL_KAFKA_COORDINATOR_NOT_AVAILABLE)
			v->error = FL_KAFKA_REQUEST_TIMED_OUT;
		else if (v->error == FL_KAFKA_INVALID_COMMIT_OFFSET_SIZE)
			v->error = FL_KAFKA_INVALID_REQUEST;
		else if (ask->answered && fl_positions_next(&ask->items, &item))
		{
			v->number = item.log_offset;
			v->message = fl_kafka_text(item.metadata);
		}
	}
	admin->answer(admin);
}

FlKafkaAdmin *
fl_kafka_admin_create(FlKafkaRequest *req, int n, int32 timeout_ms, bool validate_only, void (*answer)(FlKafkaAdmin *),
					  void *state)
{
	FlKafkaAdmin *admin;

	if (n > FL_KAFKA_MAX_ADMIN)
	{
		fl_kafka_refuse(req->conn, "it names too many topics in one admin request");
		return NULL;
	}
	timeout_ms = Min(Max(timeout_ms, 0), MAX_TIMEOUT_MS);
	admin = palloc0(sizeof(FlKafkaAdmin));
	admin->req = req;
	admin->n = n;
	admin->verdicts = palloc0(sizeof(FlKafkaVerdict) * (n + 1));
	admin->validate_only = validate_only;
	admin->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	admin->answer = answer;
	admin->state = state;
	admin->asks = fl_kafka_asks_create(req, n, finish, admin);
	admin->asks->timeout_ms = timeout_ms + GRACE_MS;
	return admin;
}

void
fl_kafka_admin_refuse(FlKafkaAdmin *admin, int i, int16 error, const char *message)
{
	FlKafkaVerdict *v = &admin->verdicts[i];

	if (v->error != FL_KAFKA_NO_ERROR)
		return;
	v->error = error;
	v->message = message;
}

bool
fl_kafka_admin_may(FlKafkaAdmin *admin, int16 error)
{
	const FlIdentity *identity = admin->req->conn->identity;

	if (identity != NULL && identity->kind == FL_IDENTITY_ROLE)
		return true;
	for (int i = 0; i < admin->n; i++)
		fl_kafka_admin_refuse(admin, i, error,
							  identity == NULL ? "nobody has logged in, and changes are for roles"
											   : "devices change nothing of topics; log in as a role");
	return false;
}

void
fl_kafka_admin_ask(FlKafkaAdmin *admin, int i, FlTopicAdminOp op, int nparams, const char *const *params)
{
	FlBuf *question = fl_kafka_ask_buffer();
	FlTopicAdmin what = {0};
	FlGroupCall *call;

	if (admin->verdicts[i].error != FL_KAFKA_NO_ERROR)
		return;
	what.op = op;
	what.role = fl_kafka_group_role(admin->req->conn);
	what.validate_only = admin->validate_only;
	what.deadline = admin->deadline;
	what.nparams = nparams;
	for (int k = 0; k < nparams; k++)
		what.params[k] = params[k];
	fl_topic_admin_write(question, &what);
	call = fl_groups_lock(admin->req->door->index, InvalidOid, InvalidOid);
	fl_kafka_ask(call, admin->asks, i, question);
	fl_groups_unlock(call);
}

void
fl_kafka_admin_wait(FlKafkaAdmin *admin)
{
	fl_kafka_asks_wait(admin->asks);
}

/* ---- what all of them need ---- */

const char *
fl_kafka_text(FlKafkaBytes bytes)
{
	return bytes.len < 0 ? NULL : pnstrdup((const char *) bytes.data, bytes.len);
}

FlKafkaBytes
fl_kafka_admin_message(const FlKafkaVerdict *verdict)
{
	return fl_kafka_string(verdict->error == FL_KAFKA_NO_ERROR ? NULL : verdict->message);
}

void
fl_kafka_admin_refuse_twins(FlKafkaAdmin *admin, const FlKafkaBytes *names)
{
	for (int i = 0; i < admin->n; i++)
	{
		for (int k = 0; k < i && names[i].len >= 0; k++)
		{
			if (names[i].len != names[k].len || memcmp(names[i].data, names[k].data, names[i].len) != 0)
				continue;
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "it stands in the request more than once");
			fl_kafka_admin_refuse(admin, k, FL_KAFKA_INVALID_REQUEST, "it stands in the request more than once");
		}
	}
}

const FlStreamInfo *
fl_kafka_admin_topic(FlKafkaAdmin *admin, int i, FlKafkaBytes name)
{
	FlKafkaRequest *req = admin->req;
	const FlStreamInfo *stream = fl_kafka_find_topic(req->door, name);

	if (stream == NULL)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic");
	else if (!fl_kafka_may_describe(req->conn, stream))
	{
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED, "the role has no right on the topic");
		stream = NULL;
	}
	return stream;
}
