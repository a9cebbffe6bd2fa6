/* Lists in words, of as many parts as there is room for. */
#ifndef LIB_BASE_APPEND_H
#define LIB_BASE_APPEND_H

#include <stddef.h>

/* One more part behind `text`, in a buffer of `bytes`, after a separator where it is not the first. Cut where the buffer is full. */
void dt_append(char *text, size_t bytes, const char *separator, const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
