/* Accesses to addresses that are not a multiple of what they move, which a GPU refuses and this
 * processor does not: the compiler checks each (-fsanitize=alignment for the kernels) and calls
 * this instead of the sanitizer's own library. */
#include "test/cuda_emulator/simt/simt.h"

#include <cstring>

namespace {

/* The compiler's data of an error, in the layout of GCC and Clang ("type mismatch", version 1). */
struct mismatch {
    const char *file;
    uint32_t line, column;
    const void *type;
    unsigned char alignment_log2, kind;
};

} // namespace

extern "C" const char simt_checks_alignment;
const char simt_checks_alignment = 1; /* for a test to ask whether this file is there */

extern "C" void __ubsan_handle_type_mismatch_v1(const mismatch *found, uintptr_t address);
extern "C" void __ubsan_handle_type_mismatch_v1(const mismatch *found, uintptr_t address)
{
    const char *slash = strrchr(found->file, '/');
    simt::complain(std::string(slash ? slash + 1 : found->file) + ":" + std::to_string(found->line) + ": an access at " +
                   std::to_string(address % 256) + " past a multiple of 256, where it must be a multiple of " +
                   std::to_string(1 << found->alignment_log2));
}
