/* How the two ends of a new connection prove that they belong to the same job, before their
 * messages count:
 *
 *     rank to rank 0     hello: a number that was never used before
 *     rank 0 to rank     challenge: another such number, and rank 0's proof, a hash of both with
 *                        the job's secret
 *     rank to rank 0     claim: its identity, and its proof, a hash of both numbers and the
 *                        identity
 *
 * Neither end sends anything from which the secret can be found, and repeating a message of an end
 * is useless. After this the connection is trusted. Included in this folder, and by tests. */
#pragma once

#include "lib/launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

enum { DT_NONCE_BYTES = 32, DT_MAGIC_BYTES = 8, DT_BUILD_BYTES = 48 };

struct dt_hello {
    char magic[DT_MAGIC_BYTES];
    uint8_t nonce[DT_NONCE_BYTES];
};

struct dt_challenge {
    char magic[DT_MAGIC_BYTES];
    uint8_t nonce[DT_NONCE_BYTES];
    uint8_t proof[DT_KEYED_HASH_BYTES];
};

struct dt_claim {
    int32_t rank, size;
    char build[DT_BUILD_BYTES]; /* NUL-terminated */
    uint8_t proof[DT_KEYED_HASH_BYTES];
};

/* Errors: DT_ERR_IO without random numbers. */
dt_status dt_hello_make(struct dt_hello *out);
dt_status dt_challenge_make(const struct dt_secret *secret, const struct dt_hello *hello, struct dt_challenge *out);
/* rank, size and build are set; the proof is added. */
void dt_claim_prove(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge,
                    struct dt_claim *claim);

/* Can the first `bytes` of a message belong to a hello or challenge? */
bool dt_magic_fits(const void *data, size_t bytes);
bool dt_challenge_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge);
bool dt_claim_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge,
                      const struct dt_claim *claim);
