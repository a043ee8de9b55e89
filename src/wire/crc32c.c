/*-------------------------------------------------------------------------
 *
 * crc32c.c
 *	  CRC-32C by way of the server's libpgport.
 *
 * The one file of src/wire that sees a server header: the runtime choice of
 * the SSE 4.2 or ARM instruction is in there and worth sharing.  In the server
 * the symbols come from the postgres binary, in unit tests and fuzzers from
 * libpgport.a.
 *
 * Called by the batch codec and by the page code of src/log.
 *
 *-------------------------------------------------------------------------
 */
#include "c.h"

#include "port/pg_crc32c.h"

#include "fleetlog/crc32c.h"

uint32_t
fl_crc32c_begin(void)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	return crc;
}

uint32_t
fl_crc32c_add(uint32_t state, const void *data, size_t len)
{
	pg_crc32c crc = state;

	COMP_CRC32C(crc, data, len);
	return crc;
}

uint32_t
fl_crc32c_end(uint32_t state)
{
	pg_crc32c crc = state;

	/* On big-endian machines the running value is kept swapped. */
	FIN_CRC32C(crc);
	return crc;
}

uint32_t
fl_crc32c(const void *data, size_t len)
{
	return fl_crc32c_end(fl_crc32c_add(fl_crc32c_begin(), data, len));
}
