#include "lib/base/edit_distance.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 63, FAR = 1000 };

static void fold(const char *word, size_t length, char out[MAX_WORD])
{
    for (size_t i = 0; i < length; i++)
        out[i] = word[i] == '-' ? '_' : (char)tolower((unsigned char)word[i]);
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
    char a[MAX_WORD], b[MAX_WORD];
    int rows[3][MAX_WORD + 1]; /* rows i - 2, i - 1 and i of the table, in turn */
    fold(left, n, a);
    fold(right, m, b);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

bool dt_looks_like(const char *word, const char *known)
{
    int length = (int)strlen(word), its = (int)strlen(known), third = (length + 1) / 3, allowed = third > 1 ? third : 1;
    if (abs(length - its) > allowed) /* the distance is at least the difference in length, which tells most words apart */
        return false;
    int distance = dt_edit_distance(word, known);
    return distance <= allowed && distance < its;
}
