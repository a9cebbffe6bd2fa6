/* How the two ends of a new connection prove that they belong to one job, before a word of theirs counts:
 *
 *     rank to rank 0     hello: a number that was never used
 *     rank 0 to rank     challenge: another one, and rank 0's proof, a hash of both with the job's secret
 *     rank to rank 0     claim: who it is, and its proof, a hash of both numbers and of that
 *
 * Neither sends anything from which the secret can be found, and what one end sends is of no use for anybody who repeats it. From here on
 * the connection is trusted. Included in this folder, and by tests. */
#ifndef LIB_RENDEZVOUS_PROOF_H
#define LIB_RENDEZVOUS_PROOF_H

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

/* Whether the first `bytes` of a message can be those of a hello or challenge. */
bool dt_magic_fits(const void *data, size_t bytes);
bool dt_challenge_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge);
bool dt_claim_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge,
                      const struct dt_claim *claim);

#endif
