/*-------------------------------------------------------------------------
 *
 * fl_fuzz.h
 *	  What the fuzz targets share.
 *
 * A target that can make its own seeds calls fl_fuzz_seed() for each from
 * LLVMFuzzerInitialize; they are written only where FLEETLOG_FUZZ_SEEDS names a
 * directory, which is what `make run` does first.  So seeds follow the format
 * without binary files in the repository.
 *
 * FL_FUZZ_ASSERT states what must hold for every input.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_FUZZ_H
#define FL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FL_FUZZ_ASSERT(cond)                                                                                           \
	do                                                                                                                 \
	{                                                                                                                  \
		if (!(cond))                                                                                                   \
		{                                                                                                              \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond);                                  \
			abort();                                                                                                   \
		}                                                                                                              \
	} while (0)

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern int LLVMFuzzerInitialize(int *argc, char ***argv);

static inline void
fl_fuzz_seed(const char *name, const uint8_t *data, size_t len)
{
	const char *dir = getenv("FLEETLOG_FUZZ_SEEDS");
	char path[4096];
	FILE *f;

	if (dir == NULL || *dir == '\0')
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (f == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0)
	{
		perror(path);
		exit(1);
	}
}

#endif /* FL_FUZZ_H */
