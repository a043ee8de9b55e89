/*-------------------------------------------------------------------------
 *
 * crc32c.h
 *	  CRC-32C (Castagnoli), as PostgreSQL and Kafka use it.
 *
 * The work is done by the server's own libpgport, which picks the hardware
 * instruction at run time; this header only keeps "c.h" out of our parsers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_CRC32C_H
#define FLEETLOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of len bytes; that of "123456789" is 0xE3069283. */
extern uint32_t fl_crc32c(const void *data, size_t len);

/* The same in pieces: state = begin(); state = add(state, ...); crc = end(state). */
extern uint32_t fl_crc32c_begin(void);
extern uint32_t fl_crc32c_add(uint32_t state, const void *data, size_t len);
extern uint32_t fl_crc32c_end(uint32_t state);

#endif /* FLEETLOG_CRC32C_H */
