/*-------------------------------------------------------------------------
 *
 * test_kafka_oracle.c
 *	  Kafka's messages as an independent reader of the published definitions
 *	  writes them.
 *
 * Each line of a sample file has a message, a version, its bytes, and a hash of
 * its values; test/kafka_oracle.py made it.  Decoding must give the values,
 * and encoding the bytes again, both from the cursors of the decoder and from
 * structs in memory.  test/golden/kafka-messages.txt is committed; the Makefile
 * adds fresh samples where the definitions are at hand.
 *
 *-------------------------------------------------------------------------
 */
#include "kafka_tree.h"

#include <unistd.h>

#define LINE_MAX_BYTES 65536

static const char *sample_file;
static int lines;
static const char *wanted_name;
static int wanted_version;

static uint64_t
fnv(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t) *text) * UINT64_C(0x100000001b3);
	return hash;
}

static const FlKafkaMessage *found;

static void
find_message(const FlKafkaMessage *m, int16_t version)
{
	if (version == wanted_version && strcmp(m->root->name, wanted_name) == 0)
		found = m;
}

static void
check_sample(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len, uint64_t hash)
{
	uint64_t root[FL_KAFKA_STRUCT_MAX / 8];
	FlBuf text;
	FlBuf out;

	tree_reset();
	fl_buf_init(&text, NULL, 1 << 20);
	fl_buf_init(&out, NULL, 1 << 20);
	if (FL_CHECK(m->root->size <= sizeof(root)) && FL_CHECK_INT(fl_kafka_decode(m, version, data, len, root), FL_OK))
	{
		tree_text(&text, m, version, root);
		if (!FL_CHECK(fnv((const char *) text.data) == hash))
			printf("# %s %d: %s\n", m->root->name, version, (const char *) text.data);
		FL_CHECK_INT(fl_kafka_encode(m, version, root, &out), FL_OK);
		FL_CHECK_BYTES(out.data, out.len, data, len);

		tree_materialise(m->root, root);
		fl_buf_reset(&out);
		FL_CHECK_INT(fl_kafka_encode(m, version, root, &out), FL_OK);
		FL_CHECK_BYTES(out.data, out.len, data, len);
	}
	else
		printf("# %s %d\n", m->root->name, version);
	fl_buf_free(&text);
	fl_buf_free(&out);
}

static int
hex_digit(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c - '0';
}

static void
check_file(FILE *file)
{
	static char line[LINE_MAX_BYTES];
	static uint8_t bytes[LINE_MAX_BYTES / 2];
	static char name[128];
	static char hex[LINE_MAX_BYTES];

	lines = 0;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		uint64_t hash;
		size_t len = 0;
		uint8_t *copy;

		FL_REQUIRE(sscanf(line, "%127s %d %65535s %" SCNx64, name, &wanted_version, hex, &hash) == 4);
		wanted_name = name;
		found = NULL;
		tree_each_version(find_message);
		if (found == NULL)
			continue; /* an API that we do not speak */
		if (strcmp(hex, "-") != 0)
			for (; hex[len * 2] != '\0'; len++)
				bytes[len] = (uint8_t) (hex_digit(hex[len * 2]) << 4 | hex_digit(hex[len * 2 + 1]));
		copy = fl_unit_copy(bytes, len);
		check_sample(found, (int16_t) wanted_version, copy, len, hash);
		free(copy);
		lines++;
	}
}

static int versions;

static void
count_version(const FlKafkaMessage *m, int16_t version)
{
	(void) m;
	(void) version;
	versions++;
}

static void
test_samples(void)
{
	FILE *file = fopen(sample_file, "r");

	FL_REQUIRE(file != NULL);
	check_file(file);
	fclose(file);

	/* The files are made so that every version has as many lines as every other. */
	versions = 0;
	tree_each_version(count_version);
	FL_CHECK(versions > 350 && lines >= versions && lines % versions == 0);
	printf("# %d samples of %d versions\n", lines, versions);
}

int
main(void)
{
	fl_unit_begin();
	sample_file = "../golden/kafka-messages.txt";
	fl_unit_run(test_samples, "committed samples");
	sample_file = "build/kafka-samples.txt";
	if (access(sample_file, R_OK) == 0)
		fl_unit_run(test_samples, "fresh samples");
	else
		fl_unit_skip("fresh samples", "Kafka's definitions are not at hand");
	return fl_unit_end();
}
