/*-------------------------------------------------------------------------
 *
 * role.c
 *		Applications: roles of the server as clients of the front doors (I5).
 *
 * A role logs in by the SCRAM verifier that ALTER ROLE ... PASSWORD has stored,
 * and what it may read and write is what GRANT on streams says.  Both are read
 * from the server's catalogs in a transaction and kept here, so that a front door
 * can ask for every message without one:
 *
 *		fl_role_admit		at each log-in: reads the role anew, and says why not
 *		fl_roles_refresh	in a transaction, when fl_roles_are_stale() or the
 *							catalog has another version: all roles read anew
 *		fl_role_may_read	no transaction
 *
 * What can change a right: GRANT and REVOKE on a stream, row security and its
 * owner (an invalidation of the stream's relation, so the catalog has another
 * version), membership, attributes and passwords of roles (invalidations of
 * pg_auth_members and pg_authid).  Policies show in row security being enabled.
 *
 * Row-level security: a front door cannot ask policies about a record that it
 * hands on.  Whom a policy could restrict may neither read nor write a stream
 * over MQTT, with a reason that says so; read() and poll() do apply policies.
 *
 * An identity's "credential" is a hash of the verifier, below zero where a
 * device's is above it, so a new password is another credential.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "auth_internal.h"
#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/topic.h"

StaticAssertDecl(FL_ROLE_MAX == NAMEDATALEN - 1, "the name of a role fits");

typedef struct StreamRight
{
	Oid			stream;			/* ascending */
	bool		read;
	bool		write;
	bool		policies;		/* granted, but policies might restrict it */
} StreamRight;

typedef struct Role
{
	Oid			oid;			/* hash key */
	bool		exists;
	bool		can_login;
	bool		is_operator;
	int64		credential;		/* 0: it has no SCRAM verifier */
	TimestampTz valid_until;	/* DT_NOEND: for ever */
	char		name[NAMEDATALEN];
	int			nrights;
	StreamRight *rights;
} Role;

static HTAB *roles = NULL;
static bool stale = false;
static uint64 refreshed_with = 0;	/* catalog version */
static uint64 version = 0;

/* ---- what has changed ---------------------------------------------------------- */

static void
role_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	stale = true;
	/* A bare user name may mean a role now, or a role no longer. */
	if (cacheid == AUTHOID)
		fl_auth_names_changed();
}

static void
init_roles(void)
{
	HASHCTL		ctl = {0};

	if (roles != NULL)
		return;
	CacheRegisterSyscacheCallback(AUTHOID, role_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, role_callback, (Datum) 0);
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(Role);
	ctl.hcxt = TopMemoryContext;
	roles = hash_create("fleetlog roles", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
fl_roles_init(void)
{
	init_roles();
}

bool
fl_roles_are_stale(void)
{
	return stale || (refreshed_with != fl_catalog_version() && roles != NULL && hash_get_num_entries(roles) > 0);
}

uint64
fl_roles_version(void)
{
	return version;
}

/* ---- the role ---------------------------------------------------------------------- */

static int64
credential_of(const char *verifier)
{
	uint64		h = DatumGetUInt64(hash_any_extended((const unsigned char *) verifier, strlen(verifier), 0));

	return -(int64) (h >> 1) - 1;
}

/* The verifier that a log-in may be checked against, palloc'd; NULL: none. */
static char *
verifier_of(HeapTuple tuple)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(AUTHOID, tuple, Anum_pg_authid_rolpassword, &isnull);
	char	   *verifier;

	if (isnull)
		return NULL;
	verifier = TextDatumGetCString(datum);
	return strncmp(verifier, "SCRAM-SHA-256$", 14) == 0 ? verifier : NULL;
}

static void
read_role(Role *role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role->oid));
	Form_pg_authid form;
	char	   *verifier;
	bool		isnull;
	Datum		until;

	role->exists = HeapTupleIsValid(tuple);
	role->can_login = false;
	role->credential = 0;
	if (!role->exists)
		return;
	form = (Form_pg_authid) GETSTRUCT(tuple);
	role->can_login = form->rolcanlogin;
	strlcpy(role->name, NameStr(form->rolname), sizeof(role->name));
	verifier = verifier_of(tuple);
	if (verifier != NULL)
	{
		role->credential = credential_of(verifier);
		explicit_bzero(verifier, strlen(verifier));
		pfree(verifier);
	}
	until = SysCacheGetAttr(AUTHOID, tuple, Anum_pg_authid_rolvaliduntil, &isnull);
	role->valid_until = isnull ? DT_NOEND : DatumGetTimestampTz(until);
	ReleaseSysCache(tuple);
}

static bool
is_member(Oid role, const char *of)
{
	Oid			group = get_role_oid(of, true);

	return OidIsValid(group) && has_privs_of_role(role, group);
}

bool
fl_role_is_operator(Oid role)
{
	return superuser_arg(role) || is_member(role, "fleetlog_admin") || is_member(role, "pg_monitor");
}

/* ---- its rights ------------------------------------------------------------------------ */

static bool
is_granted(Oid relid, Oid role, AclMode mode)
{
	bool		missing = false;

	return pg_class_aclcheck_ext(relid, role, mode, &missing) == ACLCHECK_OK && !missing;
}

/* Might a policy restrict what the role reads or writes of a stream, or of its state tables? */
static bool
has_policies(Oid stream, Oid role)
{
	int			count;
	const FlMount *mounts = fl_mount_list(&count);

	if (check_enable_rls(stream, role, true) == RLS_ENABLED)
		return true;
	for (int i = 0; i < count; i++)
		if (mounts[i].stream == stream && OidIsValid(mounts[i].state) &&
			check_enable_rls(mounts[i].state, role, true) == RLS_ENABLED)
			return true;
	return false;
}

static void
read_rights(Role *role)
{
	int			count;
	const Oid  *streams = fl_stream_list(&count);
	StreamRight *rights = MemoryContextAllocZero(TopMemoryContext, sizeof(StreamRight) * Max(count, 1));

	PG_TRY();
	{
		for (int i = 0; i < count; i++)
		{
			StreamRight *r = &rights[i];

			r->stream = streams[i];
			if (!role->exists)
				continue;
			r->read = is_granted(r->stream, role->oid, ACL_SELECT);
			r->write = is_granted(r->stream, role->oid, ACL_INSERT);
			r->policies = (r->read || r->write) && has_policies(r->stream, role->oid);
		}
		role->is_operator = role->exists && fl_role_is_operator(role->oid);
	}
	PG_CATCH();
	{
		pfree(rights);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (role->rights != NULL)
		pfree(role->rights);
	role->rights = rights;
	role->nrights = count;
}

static Role *
find_role(Oid oid)
{
	return roles == NULL ? NULL : hash_search(roles, &oid, HASH_FIND, NULL);
}

/* Read what the server says of the role now; in a transaction. */
static Role *
load_role(Oid oid)
{
	bool		found;
	Role	   *role;

	Assert(IsTransactionState());
	init_roles();
	role = hash_search(roles, &oid, HASH_ENTER, &found);
	if (!found)
		memset((char *) role + sizeof(Oid), 0, sizeof(Role) - sizeof(Oid));
	read_role(role);
	read_rights(role);
	return role;
}

void
fl_roles_refresh(void)
{
	HASH_SEQ_STATUS scan;
	Role	   *role;
	Oid		   *oids;
	int			n = 0;

	if (!fl_roles_are_stale())
		return;
	/* News that arrives while we read raises the flag again. */
	stale = false;
	oids = palloc(sizeof(Oid) * Max(hash_get_num_entries(roles), 1));
	hash_seq_init(&scan, roles);
	while ((role = hash_seq_search(&scan)) != NULL)
		oids[n++] = role->oid;
	PG_TRY();
	{
		for (int i = 0; i < n; i++)
			(void) load_role(oids[i]);
	}
	PG_CATCH();
	{
		stale = true;
		PG_RE_THROW();
	}
	PG_END_TRY();
	refreshed_with = fl_catalog_version();
	version++;
	pfree(oids);
}

/* ---- logging in --------------------------------------------------------------------------- */

bool
fl_role_find(const char *name, Oid *role)
{
	HeapTuple	tuple;
	bool		can_login;

	if (strchr(name, '/') != NULL || strlen(name) >= NAMEDATALEN)
		return false;
	tuple = SearchSysCache1(AUTHNAME, CStringGetDatum(name));
	if (!HeapTupleIsValid(tuple))
		return false;
	can_login = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	*role = ((Form_pg_authid) GETSTRUCT(tuple))->oid;
	ReleaseSysCache(tuple);
	return can_login;
}

char *
fl_role_verifier(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	char	   *verifier;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	verifier = verifier_of(tuple);
	ReleaseSysCache(tuple);
	return verifier;
}

void
fl_role_identity(Oid oid, FlIdentity *id)
{
	Role	   *role = load_role(oid);

	memset(id, 0, sizeof(*id));
	id->kind = FL_IDENTITY_ROLE;
	id->role = oid;
	id->credential = role->credential;
	strlcpy(id->role_name, role->name, sizeof(id->role_name));
}

/* Without the password: may it come in? */
static const char *
check_role(const Role *role)
{
	FlIdentity	device;

	if (!role->exists || !role->can_login)
		return "the role may not log in";
	if (role->credential == 0)
		return "the role has no SCRAM-SHA-256 password";
	if (role->valid_until <= GetCurrentTimestamp())
		return "the password of the role has expired";
	if (fl_device_find(role->name, &device) != FL_DEVICE_NONE)
		return "it is both a device and a login role; use tenant/device as the user name";
	if (FL_DATABASE_ACLCHECK(MyDatabaseId, role->oid, ACL_CONNECT) != ACLCHECK_OK)
		return "the role may not connect to the database";
	return NULL;
}

const char *
fl_role_admit(const FlIdentity *id)
{
	const Role *role = load_role(id->role);
	const char *why = check_role(role);

	if (why == NULL && !fl_role_is_same(id))
		return "the password of the role has changed";
	return why;
}

bool
fl_role_is_same(const FlIdentity *id)
{
	const Role *role = find_role(id->role);

	return role != NULL && role->exists && role->can_login && role->credential == id->credential &&
		strcmp(role->name, id->role_name) == 0;
}

/* ---- rights, from memory ---------------------------------------------------------------------- */

static const StreamRight *
right_on(const Role *role, Oid stream)
{
	int			low = 0;
	int			high = role->nrights;

	while (low < high)
	{
		int			mid = (low + high) / 2;

		if (role->rights[mid].stream == stream)
			return &role->rights[mid];
		if (role->rights[mid].stream < stream)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

bool
fl_role_may_read(Oid oid, Oid stream)
{
	const Role *role = find_role(oid);
	const StreamRight *right = role == NULL ? NULL : right_on(role, stream);

	return right != NULL && right->read && !right->policies;
}

bool
fl_role_may_write(Oid oid, Oid stream)
{
	const Role *role = find_role(oid);
	const StreamRight *right = role == NULL ? NULL : right_on(role, stream);

	return right != NULL && right->write && !right->policies;
}

TimestampTz
fl_role_valid_until(Oid oid)
{
	const Role *role = find_role(oid);

	return role != NULL ? role->valid_until : DT_NOEND;
}

static bool
is_sys(const char *request, size_t len)
{
	return len >= 4 && memcmp(request, "$SYS", 4) == 0 && (len == 4 || request[4] == '/');
}

static bool
check_publish(const Role *role, const char *topic, size_t len, const char **why)
{
	const FlMount *mount = fl_mount_match(topic, len);
	const StreamRight *right = mount == NULL ? NULL : right_on(role, mount->stream);

	if (mount == NULL)
	{
		*why = "no mount takes this topic";
		/* The caller finds no mount either, and has a better answer for that. */
		return topic[0] != '$';
	}
	if (fl_topic_is_shadow(topic, len))
		*why = "applications change shadows by fleetlog.set_desired";
	else if (right == NULL || !right->write)
		*why = "the role has no INSERT on the stream of the mount; GRANT INSERT gives it";
	else if (right->policies)
		*why = "row-level security may restrict what the role writes to the stream; MQTT cannot ask policies";
	else
	{
		*why = "the role has INSERT on the stream of the mount";
		return true;
	}
	return false;
}

/* One stream that it may read is enough: of the others nothing is handed out. */
static bool
check_subscribe(const Role *role, const char *filter, size_t len, const char **why)
{
	int			count;
	const FlMount *mounts = fl_mount_list(&count);

	*why = "no mount takes topics that the filter selects";
	for (int i = 0; i < count; i++)
	{
		const StreamRight *right = right_on(role, mounts[i].stream);

		if (mounts[i].commands || !fl_topic_filter_reaches((const uint8_t *) filter, len, (const uint8_t *) mounts[i].prefix,
									 mounts[i].prefix_len))
			continue;
		if (right != NULL && right->read && !right->policies)
		{
			*why = "the role has SELECT on a stream whose topics the filter selects";
			return true;
		}
		*why = right != NULL && right->read ?
			"row-level security may restrict what the role reads of the stream; MQTT cannot ask policies" :
			"the role has no SELECT on the stream of the mount; GRANT SELECT gives it";
	}
	return false;
}

bool
fl_role_check(Oid oid, FlAction action, const char *request, size_t len, const char **why)
{
	const Role *role = find_role(oid);

	if (role == NULL)
		*why = "the role is not known";
	else if (is_sys(request, len))
	{
		*why = action == FL_ACTION_PUBLISH ? "nobody may publish below $SYS" :
			role->is_operator ? "operators may read $SYS" :
			"$SYS is for members of fleetlog_admin or pg_monitor";
		return action == FL_ACTION_SUBSCRIBE && role->is_operator;
	}
	else if (fl_topic_is_command(request, len))
		*why = "commands are sent by fleetlog.send_command";
	else
		return action == FL_ACTION_PUBLISH ? check_publish(role, request, len, why) :
			check_subscribe(role, request, len, why);
	return false;
}
