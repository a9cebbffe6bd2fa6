#include "lib/rendezvous/proof.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

static const char magic[DT_MAGIC_BYTES] = {'d', 't', 'b', 'e', 'n', 'c', 'h', '2'}; /* version 2: with proofs */

/* The hashed data. The role prevents that one end's proof is accepted as the other's. */
struct statement {
    char role[8];
    uint8_t rank_nonce[DT_NONCE_BYTES], hub_nonce[DT_NONCE_BYTES];
    int32_t rank, size;
    char build[DT_BUILD_BYTES];
};

static void prove(const struct dt_secret *secret, const char *role, const struct dt_hello *hello, const struct dt_challenge *challenge,
                  const struct dt_claim *claim, uint8_t out[DT_KEYED_HASH_BYTES])
{
    struct statement s;
    memset(&s, 0, sizeof s);
    memcpy(s.role, role, strlen(role));
    memcpy(s.rank_nonce, hello->nonce, sizeof s.rank_nonce);
    memcpy(s.hub_nonce, challenge->nonce, sizeof s.hub_nonce);
    if (claim) {
        s.rank = claim->rank;
        s.size = claim->size;
        memcpy(s.build, claim->build, sizeof s.build);
    }
    dt_keyed_hash(secret->bytes, &s, sizeof s, out);
}

static dt_status make_nonce(uint8_t out[DT_NONCE_BYTES])
{
    return getrandom(out, DT_NONCE_BYTES, 0) == DT_NONCE_BYTES
               ? DT_OK
               : dt_fail(DT_ERR_IO, "no random numbers to prove who one is: %s", strerror(errno));
}

dt_status dt_hello_make(struct dt_hello *out)
{
    memcpy(out->magic, magic, sizeof magic);
    return make_nonce(out->nonce);
}

dt_status dt_challenge_make(const struct dt_secret *secret, const struct dt_hello *hello, struct dt_challenge *out)
{
    memcpy(out->magic, magic, sizeof magic);
    DT_TRY(make_nonce(out->nonce));
    prove(secret, "rank 0", hello, out, NULL, out->proof);
    return DT_OK;
}

void dt_claim_prove(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge,
                    struct dt_claim *claim)
{
    prove(secret, "a rank", hello, challenge, claim, claim->proof);
}

bool dt_magic_fits(const void *data, size_t bytes)
{
    return memcmp(data, magic, bytes < sizeof magic ? bytes : sizeof magic) == 0;
}

bool dt_challenge_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge)
{
    uint8_t proof[DT_KEYED_HASH_BYTES];
    prove(secret, "rank 0", hello, challenge, NULL, proof);
    return dt_keyed_hash_equal(proof, challenge->proof);
}

bool dt_claim_is_true(const struct dt_secret *secret, const struct dt_hello *hello, const struct dt_challenge *challenge,
                      const struct dt_claim *claim)
{
    uint8_t proof[DT_KEYED_HASH_BYTES];
    prove(secret, "a rank", hello, challenge, claim, proof);
    return dt_keyed_hash_equal(proof, claim->proof);
}
