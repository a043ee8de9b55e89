/*-------------------------------------------------------------------------
 *
 * credential.c
 *		Looking up one device and its credentials.
 *
 * There may be millions of devices, so they are not part of the catalog
 * snapshot (cache.c): each login costs two index lookups here, in the
 * authentication worker.  Tables are read directly, since the workers' role
 * has no right on them, and must not have one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "auth_internal.h"
#include "catalog_internal.h"

/* An equality key on a text column, with the column's own collation as its index has it. */
static void
text_key(ScanKey key, Relation rel, AttrNumber attnum, const char *value)
{
	ScanKeyInit(key, attnum, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(value));
	key->sk_collation = TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attcollation;
}

static bool
is_null(HeapTuple tuple, int attnum, TupleDesc desc)
{
	bool		isnull;

	(void) heap_getattr(tuple, attnum, desc, &isnull);
	return isnull;
}

/* One tuple is enough; a table whose devices were all deleted is looked through. */
bool
fl_device_exists(void)
{
	Relation	rel = fl_config_open(FL_TABLE_DEVICE);
	SysScanDesc scan;
	bool		exists;

	if (rel == NULL)
		return false;
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_DEVICE), true, NULL, 0, NULL);
	exists = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return exists;
}

FlDeviceFound
fl_device_find(const char *user, FlIdentity *id)
{
	const char *slash = strchr(user, '/');
	Relation	rel = fl_config_open(FL_TABLE_DEVICE);
	TupleDesc	desc;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	FlDeviceFound found = FL_DEVICE_NONE;

	if (rel == NULL)
		return FL_DEVICE_NONE;
	desc = RelationGetDescr(rel);
	if (slash != NULL)
	{
		text_key(&keys[0], rel, FL_DEVICE_TENANT, pnstrdup(user, slash - user));
		text_key(&keys[1], rel, FL_DEVICE_ID, slash + 1);
		scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_DEVICE), true, NULL, 2, keys);
	}
	else
	{
		text_key(&keys[0], rel, FL_DEVICE_ID, user);
		scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_DEVICE_ID), true, NULL, 1, keys);
	}
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (found != FL_DEVICE_NONE)
		{
			found = FL_DEVICE_AMBIGUOUS;
			break;
		}
		found = is_null(tuple, FL_DEVICE_REVOKED_AT, desc) ? FL_DEVICE_ONE : FL_DEVICE_REVOKED;
		memset(id, 0, sizeof(*id));
		id->kind = FL_IDENTITY_DEVICE;
		strlcpy(id->tenant, fl_config_text(tuple, FL_DEVICE_TENANT, desc), sizeof(id->tenant));
		strlcpy(id->device, fl_config_text(tuple, FL_DEVICE_ID, desc), sizeof(id->device));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

int
fl_device_verifiers(const FlIdentity *id, const char *kind, FlVerifier *out, int max)
{
	Relation	rel = fl_config_open(FL_TABLE_CREDENTIAL);
	TupleDesc	desc;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	if (rel == NULL)
		return 0;
	desc = RelationGetDescr(rel);
	text_key(&keys[0], rel, FL_CREDENTIAL_TENANT, id->tenant);
	text_key(&keys[1], rel, FL_CREDENTIAL_DEVICE, id->device);
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_CREDENTIAL_DEVICE), true, NULL, 2, keys);
	while (n < max && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (!is_null(tuple, FL_CREDENTIAL_REVOKED_AT, desc) ||
			strcmp(fl_config_text(tuple, FL_CREDENTIAL_KIND, desc), kind) != 0)
			continue;
		out[n].credential = fl_config_int(tuple, FL_CREDENTIAL_ID, desc, true);
		out[n].verifier = fl_config_text(tuple, FL_CREDENTIAL_VERIFIER, desc);
		out[n].verifier_512 = is_null(tuple, FL_CREDENTIAL_VERIFIER_512, desc) ? NULL :
			fl_config_text(tuple, FL_CREDENTIAL_VERIFIER_512, desc);
		n++;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return n;
}

/* A certificate that was revoked may have been given to another device since: the valid one counts. */
FlDeviceFound
fl_device_by_certificate(const char *name, FlIdentity *id)
{
	Relation	rel = fl_config_open(FL_TABLE_CREDENTIAL);
	TupleDesc	desc;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	FlIdentity	device;
	FlDeviceFound found = FL_DEVICE_NONE;

	if (rel == NULL)
		return FL_DEVICE_NONE;
	desc = RelationGetDescr(rel);
	memset(id, 0, sizeof(*id));
	text_key(&key, rel, FL_CREDENTIAL_VERIFIER, name);
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_CREDENTIAL_CERTIFICATE), true, NULL, 1, &key);
	while (found != FL_DEVICE_ONE && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (strcmp(fl_config_text(tuple, FL_CREDENTIAL_KIND, desc), "certificate") != 0)
			continue;
		found = is_null(tuple, FL_CREDENTIAL_REVOKED_AT, desc) ? FL_DEVICE_ONE : FL_DEVICE_REVOKED;
		id->kind = FL_IDENTITY_DEVICE;
		id->credential = fl_config_int(tuple, FL_CREDENTIAL_ID, desc, true);
		strlcpy(id->tenant, fl_config_text(tuple, FL_CREDENTIAL_TENANT, desc), sizeof(id->tenant));
		strlcpy(id->device, fl_config_text(tuple, FL_CREDENTIAL_DEVICE, desc), sizeof(id->device));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (found == FL_DEVICE_ONE)
		found = fl_device_find(psprintf("%s/%s", id->tenant, id->device), &device);
	return found;
}

int
fl_auth_find_psk(const char *user, FlIdentity *identity, uint8 *key, int room)
{
	FlVerifier	verifier;
	size_t		len;

	if (strlen(user) > FL_AUTH_USER_MAX || fl_device_find(user, identity) != FL_DEVICE_ONE ||
		fl_device_verifiers(identity, "psk", &verifier, 1) != 1)
		return 0;
	identity->credential = verifier.credential;
	len = strlen(verifier.verifier);
	if (len % 2 != 0 || len / 2 > FL_AUTH_PSK_MAX || (int) (len / 2) > room)
		return 0;
	hex_decode(verifier.verifier, len, (char *) key);
	explicit_bzero(verifier.verifier, len);
	return (int) (len / 2);
}

bool
fl_auth_still_valid(const FlIdentity *id)
{
	char	   *user;
	FlIdentity	now;
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		valid;

	if (id->kind == FL_IDENTITY_ROLE)
		return fl_role_admit(id) == NULL;
	if (id->kind != FL_IDENTITY_DEVICE)
		return true;
	user = psprintf("%s/%s", id->tenant, id->device);
	if (fl_device_find(user, &now) != FL_DEVICE_ONE || (rel = fl_config_open(FL_TABLE_CREDENTIAL)) == NULL)
		return false;
	ScanKeyInit(&key, FL_CREDENTIAL_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id->credential));
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_CREDENTIAL), true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	valid = HeapTupleIsValid(tuple) && is_null(tuple, FL_CREDENTIAL_REVOKED_AT, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return valid;
}
