/*-------------------------------------------------------------------------
 *
 * utf8.h
 *	  UTF-8 validity, strict: no overlong forms, no surrogates, nothing above
 *	  U+10FFFF (Unicode table 3-7, and MQTT-1.5.4-1).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_UTF8_H
#define FLEETLOG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+0000 is allowed. s may be NULL when len is 0. */
extern bool fl_utf8_valid(const uint8_t *s, size_t len);

/* Valid and without U+0000 (MQTT-1.5.4-2). */
extern bool fl_utf8_valid_mqtt(const uint8_t *s, size_t len);

/* Valid and storable as PostgreSQL text, which cannot hold U+0000 either. */
extern bool fl_utf8_valid_text(const uint8_t *s, size_t len);

#endif /* FLEETLOG_UTF8_H */
