#include "lib/base/printable.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From..to are taken out. */
static const struct {
    uint32_t from, to;
} unprintable[] = {
    {0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
};

/* The length of the character that begins here; 0: these bytes are no character. As RFC 3629 has it: in the shortest form, without
 * surrogates, up to U+10FFFF. The text is NUL-terminated, which ends a character that is cut off. */
static int decode(const unsigned char *at, uint32_t *out)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    int length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    uint32_t value = length == 1 ? at[0] : length ? at[0] & (0x7Fu >> length) : 0;
    for (int i = 1; i < length; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        value = value << 6 | (at[i] & 0x3F);
    }
    if (length && (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)))
        return 0;
    *out = value;
    return length;
}

static bool is_printable(uint32_t character)
{
    bool found = false;
    for (size_t i = 0; i < sizeof unprintable / sizeof unprintable[0]; i++)
        found |= character >= unprintable[i].from && character <= unprintable[i].to;
    return !found;
}

void dt_printable(char *text)
{
    const char *from = text;
    char *to = text;
    while (*from) {
        if (*from >= ' ' && *from <= '~') { /* most are */
            *to++ = *from++;
            continue;
        }
        uint32_t character = 0;
        int length = decode((const unsigned char *)from, &character);
        if (length > 0 && is_printable(character)) {
            memmove(to, from, (size_t)length);
            to += length;
        } else {
            *to++ = '?';
        }
        from += length > 0 ? length : 1;
    }
    *to = 0;
}

bool dt_is_printable(const char *text)
{
    uint32_t character = 0;
    int length = 0;
    for (; *text; text += length) {
        length = decode((const unsigned char *)text, &character);
        if (length == 0 || !is_printable(character))
            return false;
    }
    return true;
}
