/*-------------------------------------------------------------------------
 *
 * protocols.c
 *	  The protocols ("assignors") that members of a group can speak, and the one
 *	  that the group speaks.
 *
 * A member's are one blob: for each, two lengths of four bytes, its name and its
 * metadata (the subscription), in the order in which the member prefers them.
 * What metadata means is the clients' business.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

/* Their sum must be far from overflow; a request is bounded by its frame anyway. */
#define PROTOCOLS_SIZE_MAX (1 << 28)

int32_t
fl_group_protocols_size(const FlKafkaJoinGroupRequest *request)
{
	FlKafkaJoinGroupRequest r = *request;
	FlKafkaJoinGroupRequestProtocol p;
	int64_t size = 0;

	fl_kafka_rewind(&r.protocols);
	while (fl_kafka_next(&r.protocols, &p))
		size += 8 + (int64_t) (p.name.len > 0 ? p.name.len : 0) + (p.metadata.len > 0 ? p.metadata.len : 0);
	return size > PROTOCOLS_SIZE_MAX || fl_kafka_count(&r.protocols) > FL_GROUP_PROTOCOLS_MAX ? -1 : (int32_t) size;
}

bool
fl_group_protocols_make(FlGroupArea *area, const FlKafkaJoinGroupRequest *request, FlGroupBlob *blob)
{
	FlKafkaJoinGroupRequest r = *request;
	FlKafkaJoinGroupRequestProtocol p;
	int32_t size = fl_group_protocols_size(request);
	FlGroupPlace at;

	if (size < 0 || !fl_group_blob_alloc(area, size, blob))
		return false;
	at = fl_group_blob_begin(area, blob);
	fl_kafka_rewind(&r.protocols);
	while (fl_kafka_next(&r.protocols, &p))
	{
		int32_t name_len = p.name.len > 0 ? p.name.len : 0;
		int32_t len = p.metadata.len > 0 ? p.metadata.len : 0;

		fl_group_write_int(&at, name_len);
		fl_group_write_int(&at, len);
		fl_group_write(&at, p.name.data, name_len);
		fl_group_write(&at, p.metadata.data, len);
	}
	return true;
}

bool
fl_group_protocols_are(FlGroupArea *area, const FlGroupBlob *blob, const FlKafkaJoinGroupRequest *request)
{
	FlKafkaJoinGroupRequest r = *request;
	FlKafkaJoinGroupRequestProtocol p;
	FlGroupPlace at = fl_group_blob_begin(area, blob);

	if (blob->len != fl_group_protocols_size(request))
		return false;
	fl_kafka_rewind(&r.protocols);
	while (fl_kafka_next(&r.protocols, &p))
	{
		int32_t name_len = p.name.len > 0 ? p.name.len : 0;
		int32_t len = p.metadata.len > 0 ? p.metadata.len : 0;

		if (fl_group_read_int(&at) != name_len || fl_group_read_int(&at) != len ||
			!fl_group_read_is(&at, p.name.data, name_len) || !fl_group_read_is(&at, p.metadata.data, len))
			return false;
	}
	return true;
}

/* ---------- finding one ---------- */

/* Are the next len bytes at both places the same?  b is a copy, a is moved. */
static bool
same_bytes(FlGroupPlace *a, FlGroupPlace b, int32_t len)
{
	bool same = true;

	while (len > 0)
	{
		uint8_t piece[64];
		int32_t n = len < (int32_t) sizeof(piece) ? len : (int32_t) sizeof(piece);

		fl_group_read(&b, piece, n);
		if (!fl_group_read_is(a, piece, n))
			same = false;
		len -= n;
	}
	return same;
}

/* Name given either as bytes or as a place. */
static bool
find(FlGroupArea *area, const FlGroupMember *m, const uint8_t *name, const FlGroupPlace *name_at, int32_t name_len,
	 FlGroupPlace *at, int32_t *len)
{
	FlGroupPlace p = fl_group_blob_begin(area, &m->protocols);

	while (p.left > 0)
	{
		int32_t n = fl_group_read_int(&p);
		bool same;

		*len = fl_group_read_int(&p);
		if (n != name_len)
		{
			fl_group_read(&p, NULL, n);
			same = false;
		}
		else if (name_at != NULL)
			same = same_bytes(&p, *name_at, n);
		else
			same = fl_group_read_is(&p, name, n);
		if (same)
		{
			*at = p;
			return true;
		}
		fl_group_read(&p, NULL, *len);
	}
	return false;
}

bool
fl_group_protocol_find(FlGroupArea *area, const FlGroupMember *m, FlKafkaBytes name, FlGroupPlace *at, int32_t *len)
{
	return find(area, m, name.data, NULL, name.len > 0 ? name.len : 0, at, len);
}

bool
fl_group_protocol_find_blob(FlGroupArea *area, const FlGroupMember *m, const FlGroupBlob *name, FlGroupPlace *at,
							int32_t *len)
{
	FlGroupPlace name_at = fl_group_blob_begin(area, name);

	return name->len >= 0 && find(area, m, NULL, &name_at, name->len, at, len);
}

/* ---------- agreeing on one ---------- */

bool
fl_group_protocols_fit(FlGroupArea *area, const FlGroup *g, FlGroupRef but, const FlKafkaJoinGroupRequest *request)
{
	FlKafkaJoinGroupRequest r = *request;
	FlKafkaJoinGroupRequestProtocol p;

	fl_kafka_rewind(&r.protocols);
	while (fl_kafka_next(&r.protocols, &p))
	{
		FlGroupRef ref;
		FlGroupMember *m;
		FlGroupPlace at;
		int32_t len;
		bool all = true;

		fl_group_each_member(area, g, ref, m)
		{
			if (ref != but && !m->pending && !fl_group_protocol_find(area, m, p.name, &at, &len))
			{
				all = false;
				break;
			}
		}
		if (all)
			return true;
	}
	return false;
}

/* Do all members have the protocol whose name is here? */
static bool
all_have(FlGroupArea *area, const FlGroup *g, const FlGroupPlace *name, int32_t name_len)
{
	FlGroupRef ref;
	FlGroupMember *m;
	FlGroupPlace at;
	int32_t len;

	fl_group_each_member(area, g, ref, m)
	{
		if (!m->pending && !find(area, m, NULL, name, name_len, &at, &len))
			return false;
	}
	return true;
}

typedef struct Candidate
{
	FlGroupPlace name;
	int32_t len;
	int votes;
} Candidate;

/* Those that all have, in the order in which the first member likes them. */
static int
candidates(FlGroupArea *area, const FlGroup *g, Candidate *all)
{
	FlGroupRef ref = g->members;
	FlGroupPlace p;
	int n = 0;

	while (ref != 0 && fl_group_member_at(area, ref)->pending)
		ref = fl_group_member_at(area, ref)->next;
	if (ref == 0)
		return 0;
	p = fl_group_blob_begin(area, &fl_group_member_at(area, ref)->protocols);
	while (p.left > 0 && n < FL_GROUP_PROTOCOLS_MAX)
	{
		int32_t name_len = fl_group_read_int(&p);
		int32_t len = fl_group_read_int(&p);
		Candidate c = {p, name_len, 0};

		if (all_have(area, g, &c.name, c.len))
			all[n++] = c;
		fl_group_read(&p, NULL, name_len);
		fl_group_read(&p, NULL, len);
	}
	return n;
}

/* The member's vote goes to what stands first in its own list. */
static void
vote(FlGroupArea *area, const FlGroupMember *m, Candidate *all, int n)
{
	FlGroupPlace p = fl_group_blob_begin(area, &m->protocols);

	while (p.left > 0)
	{
		int32_t name_len = fl_group_read_int(&p);
		int32_t len = fl_group_read_int(&p);

		for (int i = 0; i < n; i++)
		{
			FlGroupPlace name = p;

			if (all[i].len == name_len && same_bytes(&name, all[i].name, name_len))
			{
				all[i].votes++;
				return;
			}
		}
		fl_group_read(&p, NULL, name_len);
		fl_group_read(&p, NULL, len);
	}
}

/* Copies a name between blobs. */
static bool
set_protocol(FlGroupArea *area, FlGroup *g, FlGroupPlace name, int32_t len)
{
	FlGroupBlob blob;
	FlGroupPlace to;

	/* The old one first: its chunk is enough for what is hardly longer. */
	fl_group_blob_free(area, &g->protocol);
	if (!fl_group_blob_alloc(area, len, &blob))
		return false;
	to = fl_group_blob_begin(area, &blob);
	while (len > 0)
	{
		uint8_t piece[64];
		int32_t n = len < (int32_t) sizeof(piece) ? len : (int32_t) sizeof(piece);

		fl_group_read(&name, piece, n);
		fl_group_write(&to, piece, n);
		len -= n;
	}
	g->protocol = blob;
	return true;
}

bool
fl_group_choose_protocol(FlGroupArea *area, FlGroup *g)
{
	Candidate all[FL_GROUP_PROTOCOLS_MAX];
	int n = candidates(area, g, all);
	int best = 0;
	FlGroupRef ref;
	FlGroupMember *m;

	if (n == 0)
		return false;
	if (n > 1)
		fl_group_each_member(area, g, ref, m)
		{
			if (!m->pending)
				vote(area, m, all, n);
		}
	for (int i = 1; i < n; i++)
		if (all[i].votes > all[best].votes)
			best = i;
	return set_protocol(area, g, all[best].name, all[best].len);
}
