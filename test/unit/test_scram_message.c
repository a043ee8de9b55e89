/*
 * test_scram_message.c
 *	  The messages of a SCRAM client: the example of RFC 7677, escapes, what is refused, and every truncation.
 */
#include "fl_unit.h"

#include "fleetlog/scram_message.h"

#define NONCE "rOprNGfwEbeRWgbNEkqO"
#define BOTH  NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define LONG  "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYQ==" /* 64 bytes */
#define PROOF "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="

/* A copy of exactly its length, so that the sanitizer sees a step beyond it. */
static FlResult
parse_first(const char *text, size_t len, FlScramFirst *out, uint8_t **copy)
{
	*copy = malloc(len > 0 ? len : 1);
	memcpy(*copy, text, len);
	return fl_scram_parse_first(*copy, len, out);
}

static FlResult
parse_final(const char *text, size_t len, FlScramFinal *out, uint8_t **copy)
{
	*copy = malloc(len > 0 ? len : 1);
	memcpy(*copy, text, len);
	return fl_scram_parse_final(*copy, len, out);
}

static void
test_first(void)
{
	static const struct
	{
		const char *text;
		const char *user; /* NULL: refused */
	} cases[] = {
		{"n,,n=user,r=" NONCE, "user"},
		{"y,,n=user,r=" NONCE, "user"},
		{"n,,n=,r=" NONCE, ""},
		{"n,,n=a=2Cb=3Dc/d,r=x,ext=1", "a,b=c/d"},
		{"p=tls-unique,,n=user,r=" NONCE, NULL},
		{"n,a=admin,n=user,r=" NONCE, NULL},
		{"n,,m=ext,n=user,r=" NONCE, NULL},
		{"n,,n=a=2cb,r=x", NULL},
		{"n,,n=a=,r=x", NULL},
		{"n,,n=a=2,r=x", NULL},
		{"n,,n=user", NULL},
		{"n,,n=user,r=", NULL},
		{"n,,n=user,r=a b", NULL},
		{"n,,r=x,n=user", NULL},
		{"n,,", NULL},
		{"", NULL},
	};
	FlScramFirst first;
	uint8_t *copy;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		FlResult result = parse_first(cases[i].text, strlen(cases[i].text), &first, &copy);

		FL_CHECK_INT(result, cases[i].user != NULL ? FL_OK : FL_MALFORMED);
		if (result == FL_OK)
			FL_CHECK(strcmp(first.user, cases[i].user) == 0 && first.user_len == strlen(cases[i].user));
		free(copy);
	}
	FL_CHECK_INT(parse_first(cases[0].text, strlen(cases[0].text), &first, &copy), FL_OK);
	FL_CHECK_INT(first.bare_len, strlen("n=user,r=" NONCE));
	FL_CHECK(first.nonce_len == strlen(NONCE) && memcmp(first.nonce, NONCE, first.nonce_len) == 0);
	free(copy);
}

static void
test_first_limits(void)
{
	char text[FL_SCRAM_MESSAGE_MAX + 8];
	FlScramFirst first;
	uint8_t *copy;

	for (int nonce = FL_SCRAM_NONCE_MAX; nonce <= FL_SCRAM_NONCE_MAX + 1; nonce++)
	{
		int len = snprintf(text, sizeof(text), "n,,n=u,r=%0*d", nonce, 0);

		FL_CHECK_INT(parse_first(text, (size_t) len, &first, &copy),
					 nonce <= FL_SCRAM_NONCE_MAX ? FL_OK : FL_MALFORMED);
		free(copy);
	}
	for (int user = FL_SCRAM_USER_MAX; user <= FL_SCRAM_USER_MAX + 1; user++)
	{
		int len = snprintf(text, sizeof(text), "n,,n=%0*d,r=x", user, 0);

		FL_CHECK_INT(parse_first(text, (size_t) len, &first, &copy), user <= FL_SCRAM_USER_MAX ? FL_OK : FL_MALFORMED);
		free(copy);
	}
	memset(text, 'x', sizeof(text));
	memcpy(text, "n,,n=u,r=x,e=", 13);
	FL_CHECK_INT(parse_first(text, FL_SCRAM_MESSAGE_MAX, &first, &copy), FL_OK);
	free(copy);
	FL_CHECK_INT(parse_first(text, FL_SCRAM_MESSAGE_MAX + 1, &first, &copy), FL_MALFORMED);
	free(copy);
}

static void
test_final(void)
{
	static const struct
	{
		const char *text;
		bool good;
	} cases[] = {
		{"c=biws,r=" BOTH ",p=" PROOF, true},
		{"c=biws,r=" BOTH ",ext=1,p=" PROOF, true},
		{"c=biws,r=" BOTH ",p=" LONG, true},
		{"c=biws,r=" BOTH ",p=YWFh" LONG, false},
		{"c=biws,r=" BOTH, false},
		{"c=biws,p=" PROOF ",r=" BOTH, false},
		{"c=biws,r=" BOTH ",p=" PROOF "=", false},
		{"c=biws,r=" BOTH ",p=", false},
		{"c=biws,r=" BOTH ",p=AAAA", false},
		{"c=biws,r=,p=" PROOF, false},
		{"r=" BOTH ",c=biws,p=" PROOF, false},
		{",p=" PROOF, false},
		{"", false},
	};
	FlScramFinal last;
	uint8_t *copy;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		FL_CHECK_INT(parse_final(cases[i].text, strlen(cases[i].text), &last, &copy),
					 cases[i].good ? FL_OK : FL_MALFORMED);
		free(copy);
	}
	FL_CHECK_INT(parse_final(cases[0].text, strlen(cases[0].text), &last, &copy), FL_OK);
	FL_CHECK_INT(last.signed_len, strlen("c=biws,r=" BOTH));
	FL_CHECK(last.binding_len == 4 && memcmp(last.binding, "biws", 4) == 0);
	FL_CHECK(last.nonce_len == strlen(BOTH) && memcmp(last.nonce, BOTH, last.nonce_len) == 0);
	FL_CHECK_INT(last.proof_len, 32);
	FL_CHECK_INT(last.proof[0], 0x74);
	FL_CHECK_INT(last.proof[31], 0x54);
	free(copy);
}

static void
test_truncations(void)
{
	static const char first_text[] = "n,,n=a=2Cb,r=" NONCE;
	static const char final_text[] = "c=biws,r=" BOTH ",p=" PROOF;
	FlScramFirst first;
	FlScramFinal last;
	uint8_t *copy;

	for (size_t len = 0; len < sizeof(first_text) - 1; len++)
	{
		/* Without the end of its nonce it is another message. */
		bool good = len > strlen("n,,n=a=2Cb,r=");

		FL_CHECK_INT(parse_first(first_text, len, &first, &copy), good ? FL_OK : FL_MALFORMED);
		free(copy);
	}
	for (size_t len = 0; len < sizeof(final_text) - 1; len++)
	{
		FL_CHECK_INT(parse_final(final_text, len, &last, &copy), FL_MALFORMED);
		free(copy);
	}
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_first);
	FL_RUN(test_first_limits);
	FL_RUN(test_final);
	FL_RUN(test_truncations);
	return fl_unit_end();
}
