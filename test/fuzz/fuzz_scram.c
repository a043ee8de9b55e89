/*-------------------------------------------------------------------------
 *
 * fuzz_scram.c
 *	  Arbitrary bytes as the messages of a SCRAM client.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "fleetlog/scram_message.h"

/* [part, part + len) lies within the message. */
static bool
is_within(const uint8_t *data, size_t size, const uint8_t *part, size_t len)
{
	return part >= data && len <= size && (size_t) (part - data) <= size - len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlScramFirst first;
	FlScramFinal last;

	if (fl_scram_parse_first(data, size, &first) == FL_OK)
	{
		FL_FUZZ_ASSERT(size <= FL_SCRAM_MESSAGE_MAX && first.gs2_len + first.bare_len == size);
		FL_FUZZ_ASSERT(is_within(data, size, first.bare, first.bare_len));
		FL_FUZZ_ASSERT(is_within(data, size, first.nonce, first.nonce_len));
		FL_FUZZ_ASSERT(first.nonce_len > 0 && first.nonce_len <= FL_SCRAM_NONCE_MAX);
		FL_FUZZ_ASSERT(first.user_len <= FL_SCRAM_USER_MAX && strlen(first.user) == first.user_len);
	}
	if (fl_scram_parse_final(data, size, &last) == FL_OK)
	{
		FL_FUZZ_ASSERT(size <= FL_SCRAM_MESSAGE_MAX && last.signed_len < size);
		FL_FUZZ_ASSERT(is_within(data, last.signed_len, last.binding, last.binding_len));
		FL_FUZZ_ASSERT(is_within(data, last.signed_len, last.nonce, last.nonce_len) && last.nonce_len > 0);
	}
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
#define SEED(name, s) fl_fuzz_seed(name, (const uint8_t *) (s), sizeof(s) - 1)
	SEED("first", "n,,n=us=2Cer,r=rOprNGfwEbeRWgbNEkqO,ext=1");
	SEED("final", "c=biws,r=rOprNGfwEbeRWgbNEkqO%hv,e=1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
#undef SEED
	return 0;
}
