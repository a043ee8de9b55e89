/*-------------------------------------------------------------------------
 *
 * fuzz_history.c
 *	  Arbitrary bytes as a history position and as a topic of the form
 *	  `$s/<from>/<filter>`.  What is accepted is walked to its end; what was
 *	  read, written again, is read the same.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/history.h"
#include "fleetlog/topic.h"

static void
check_place(const FlHistoryPlace *place)
{
	char text[FL_HISTORY_PLACE_MAX];
	FlHistoryFrom again;
	FlHistoryCursor at = {0};
	FlHistoryPlace copy;
	const char *why;
	size_t len;

	FL_FUZZ_ASSERT(place->shard >= 0 && place->offset >= 0 && place->epoch >= -1);
	len = fl_history_format_place(text, sizeof(text), NULL, place->shard, place->offset, place->epoch);
	FL_FUZZ_ASSERT(len > 0);
	FL_FUZZ_ASSERT(fl_history_parse((const uint8_t *) text, len, &again, &why) == FL_OK);
	FL_FUZZ_ASSERT(fl_history_next(&again, &at, &copy));
	FL_FUZZ_ASSERT(copy.shard == place->shard && copy.offset == place->offset && copy.epoch == place->epoch);
}

static void
check_from(const FlHistoryFrom *from)
{
	FlHistoryCursor at = {0};
	FlHistoryPlace place;
	uint32_t n = 0;

	for (; fl_history_next(from, &at, &place); n++)
	{
		(void) fl_history_names(&place, "telemetry");
		check_place(&place);
	}
	FL_FUZZ_ASSERT(from->kind != FL_HISTORY_PLACES || (n == from->place_count && n > 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlHistoryFrom from;
	const char *why = NULL;
	size_t skip = 0;

	if (fl_history_parse(data, size, &from, &why) == FL_OK)
		check_from(&from);
	else
		FL_FUZZ_ASSERT(why != NULL);
	why = NULL;
	switch (fl_history_topic_parse(data, size, &from, &skip, &why))
	{
		case FL_HISTORY_TOPIC_OK:
			FL_FUZZ_ASSERT(skip > 4 && skip < size && fl_topic_filter_valid(data + skip, size - skip));
			check_from(&from);
			break;
		case FL_HISTORY_TOPIC_INVALID:
			FL_FUZZ_ASSERT(why != NULL);
			break;
		case FL_HISTORY_TOPIC_NONE:
			break;
	}
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
#define SEED(name, s) fl_fuzz_seed(name, (const uint8_t *) (s), sizeof(s) - 1)
	SEED("beginning", "beginning");
	SEED("time", "2026-12-01T23:15:00.123-01:30");
	SEED("seconds", "1796166900.5");
	SEED("places", "0:17@2,1:5");
	SEED("streams", "telemetry:0:17@2,%32a:1:5");
	SEED("topic", "$s/beginning/plant/#");
	SEED("topic-places", "$s/0:17@2,1:5/plant/+/a");
#undef SEED
	return 0;
}
