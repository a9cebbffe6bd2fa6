#include "lib/base/keyed_hash.h"
#include "test/check.h"

#include <string.h>

static void check_hash(size_t bytes, const char *want)
{
    uint8_t key[DT_KEY_BYTES], data[255], out[DT_KEYED_HASH_BYTES];
    char text[2 * DT_KEYED_HASH_BYTES + 1];
    for (int i = 0; i < DT_KEY_BYTES; i++)
        key[i] = (uint8_t)i;
    for (int i = 0; i < 255; i++)
        data[i] = (uint8_t)i;
    dt_keyed_hash(key, data, bytes, out);
    for (int i = 0; i < DT_KEYED_HASH_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", out[i]);
    CHECK(strcmp(text, want) == 0, "%zu bytes: %s, not %s", bytes, text, want);
}

/* From the reference implementation's list (blake2s-kat.txt): key and message are 00, 01, 02,
 * ... */
static void known_answers(void)
{
    check_hash(0, "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49");
    check_hash(1, "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1");
    check_hash(32, "c03bc642b20959cbe133a0303e0c1abff3e31ec8e1a328ec8565c36decff5265");
    check_hash(63, "c65382513f07460da39833cb666c5ed82e61b9e998f4b0c4287cee56c3cc9bcd");
    check_hash(64, "8975b0577fd35566d750b362b0897a26c399136df07bababbde6203ff2954ed4");
    check_hash(65, "21fe0ceb0052be7fb0f004187cacd7de67fa6eb0938d927677f2398c132317a8");
    check_hash(127, "ddbfea75cc467882eb3483ce5e2e756a4f4701b76b445519e89f22d60fa86e06");
    check_hash(128, "0c311f38c35a4fb90d651c289d486856cd1413df9b0677f53ece2cd9e477c60a");
    check_hash(129, "46a73a8dd3e70f59d3942c01df599def783c9da82fd83222cd662b53dce7dbdf");
    check_hash(255, "3fb735061abc519dfe979e54c1ee5bfad0a9d858b3315bad34bde999efd724dd");
}

static void equality(void)
{
    uint8_t a[DT_KEYED_HASH_BYTES] = {0}, b[DT_KEYED_HASH_BYTES] = {0};
    CHECK(dt_keyed_hash_equal(a, b));
    for (int i = 0; i < DT_KEYED_HASH_BYTES; i++) {
        b[i] = 0x80;
        CHECK(!dt_keyed_hash_equal(a, b), "byte %d", i);
        b[i] = 0;
    }
}

static const struct test_case cases[] = {
    {"known answers", known_answers},
    {"equality", equality},
};

TEST_MAIN(cases)
