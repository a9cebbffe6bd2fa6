#include "lib/base/keyed_hash.h"

#include <string.h>

enum { BLOCK_BYTES = 64, ROUNDS = 10 };

static const uint32_t initial[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* The order in which each round takes the message's words. */
static const uint8_t schedule[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint32_t rotate_right(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void mix(uint32_t v[16], int a, int b, int c, int d, uint32_t x, uint32_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate_right(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = rotate_right(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 7);
}

static void compress(uint32_t state[8], const uint8_t block[BLOCK_BYTES], uint64_t bytes_so_far, bool last)
{
    uint32_t v[16], m[16];
    for (int i = 0; i < 16; i++)
        m[i] = word_at(block + 4 * i);
    for (int i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = initial[i];
    }
    v[12] ^= (uint32_t)bytes_so_far;
    v[13] ^= (uint32_t)(bytes_so_far >> 32);
    v[14] = last ? ~v[14] : v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = schedule[round];
        for (int column = 0; column < 4; column++)
            mix(v, column, column + 4, column + 8, column + 12, m[s[2 * column]], m[s[2 * column + 1]]);
        for (int diagonal = 0; diagonal < 4; diagonal++)
            mix(v, diagonal, (diagonal + 1) % 4 + 4, (diagonal + 2) % 4 + 8, (diagonal + 3) % 4 + 12, m[s[8 + 2 * diagonal]],
                m[s[9 + 2 * diagonal]]);
    }
    for (int i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

void dt_keyed_hash(const uint8_t key[DT_KEY_BYTES], const void *data, size_t bytes, uint8_t out[DT_KEYED_HASH_BYTES])
{
    const uint8_t *at = data;
    uint8_t block[BLOCK_BYTES] = {0};
    uint32_t state[8];
    uint64_t taken = BLOCK_BYTES;
    memcpy(state, initial, sizeof state);
    state[0] ^= 0x01010000 ^ DT_KEY_BYTES << 8 ^ DT_KEYED_HASH_BYTES;
    memcpy(block, key, DT_KEY_BYTES); /* the key is a block */
    while (bytes > 0) {
        size_t part = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
        compress(state, block, taken, false);
        memset(block, 0, sizeof block);
        memcpy(block, at, part);
        at += part;
        bytes -= part;
        taken += part;
    }
    compress(state, block, taken, true);
    for (int i = 0; i < DT_KEYED_HASH_BYTES; i++)
        out[i] = (uint8_t)(state[i / 4] >> 8 * (i % 4));
}

bool dt_keyed_hash_equal(const uint8_t a[DT_KEYED_HASH_BYTES], const uint8_t b[DT_KEYED_HASH_BYTES])
{
    volatile uint8_t different = 0;
    for (int i = 0; i < DT_KEYED_HASH_BYTES; i++)
        different |= a[i] ^ b[i];
    return different == 0;
}
