/* A keyed hash, which can be made or checked only with the key: BLAKE2s with 32 bytes of key and of
 * result. It needs no construction around it, as SHA-256 needs HMAC. Written out, because every
 * build must have it, also on machines without a network: a library would be one more package to
 * install everywhere, for 90 lines that are tested against RFC 7693. Source Saarinen and Aumasson,
 * "The BLAKE2 Cryptographic Hash and Message Authentication Code (MAC)", RFC 7693, 2015. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_KEY_BYTES = 32, DT_KEYED_HASH_BYTES = 32 };

void dt_keyed_hash(const uint8_t key[DT_KEY_BYTES], const void *data, size_t bytes, uint8_t out[DT_KEYED_HASH_BYTES]);
/* Whether both are equal. The time does not depend on the result, so that it does not show where
 * they differ. */
bool dt_keyed_hash_equal(const uint8_t a[DT_KEYED_HASH_BYTES], const uint8_t b[DT_KEYED_HASH_BYTES]);
