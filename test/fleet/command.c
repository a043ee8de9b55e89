/*-------------------------------------------------------------------------
 *
 * command.c
 *		The words of the control input.
 *
 * A line is a verb, for `burst` a number, for most a share of the devices
 * (`30%`, `all`; all where nothing is said).  The parent parses, so that a
 * wrong line is answered at once and a herd gets nothing it does not know.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BURST 1000

const char *const fl_verb_name[FL_VERBS] = {
	[FL_VERB_DROP] = "drop",           [FL_VERB_REBOOT] = "reboot", [FL_VERB_SILENCE] = "silence",
	[FL_VERB_DEAFEN] = "stop reading", [FL_VERB_RESUME] = "resume", [FL_VERB_BURST] = "burst",
	[FL_VERB_PAUSE] = "pause",         [FL_VERB_GO] = "go",         [FL_VERB_QUIT] = "quit"};

static const char *
skip_space(const char *at)
{
	while (isspace((unsigned char) *at))
		at++;
	return at;
}

/* Reads a number from 1 to max and returns what follows it; NULL: there is none. */
static const char *
read_number(const char *at, int max, int *out)
{
	char *end;
	long n = strtol(at, &end, 10);

	if (end == at || n < 1 || n > max)
		return NULL;
	*out = (int) n;
	return end;
}

bool
fl_command_parse(const char *line, FlCommand *out)
{
	const char *at = skip_space(line);
	int verb = 0;
	size_t len = 0;

	for (; verb < FL_VERBS; verb++)
	{
		len = strlen(fl_verb_name[verb]);
		if (strncmp(at, fl_verb_name[verb], len) == 0 && (at[len] == '\0' || isspace((unsigned char) at[len])))
			break;
	}
	if (verb == FL_VERBS)
		return false;
	*out = (FlCommand){.verb = verb, .percent = 100, .count = 1};
	at = skip_space(at + len);
	if (verb == FL_VERB_BURST)
	{
		at = read_number(at, MAX_BURST, &out->count);
		if (at == NULL)
			return false;
		at = skip_space(at);
	}
	if (verb >= FL_VERB_PAUSE || *at == '\0')
		return *at == '\0';
	if (strncmp(at, "all", 3) == 0)
		return *skip_space(at + 3) == '\0';
	at = read_number(at, 100, &out->percent);
	return at != NULL && *at == '%' && *skip_space(at + 1) == '\0';
}
