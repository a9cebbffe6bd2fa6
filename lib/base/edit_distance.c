#include "lib/base/edit_distance.h"

#include <ctype.h>
#include <string.h>

enum { MAX_WORD = 63, FAR = 1000 };

static int folded(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int dt_edit_distance(const char *left, const char *right)
{
    size_t n = strlen(left), m = strlen(right);
    if (n > MAX_WORD || m > MAX_WORD)
        return FAR;
    int rows[3][MAX_WORD + 1]; /* rows i - 2, i - 1 and i of the table, in turn */
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int a = folded(left[i - 1]), b = folded(right[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a != b));
            if (i > 1 && j > 1 && a == folded(right[j - 2]) && folded(left[i - 2]) == b)
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

bool dt_looks_like(const char *word, const char *known)
{
    int distance = dt_edit_distance(word, known), allowed = ((int)strlen(word) + 1) / 3;
    return distance <= (allowed > 1 ? allowed : 1) && distance < (int)strlen(known);
}
