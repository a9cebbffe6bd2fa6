/* Static shared variables of kernels are thread-local variables inside functions here
 * (device_side.h), whose addresses only the linker knows: they are read from the program's own
 * symbol table. Such variables of the emulator's own namespaces are left alone. */
#include "test/cuda_emulator/simt/simt.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <mutex>
#include <vector>

extern "C" {
extern __thread char simt_shared_anchor;
__thread char simt_shared_anchor; /* found in the table and in memory: the distance holds for all others */
}

namespace simt {
namespace {

struct variable {
    ptrdiff_t from_anchor;
    size_t bytes;
};

std::vector<char> own_program()
{
    std::vector<char> bytes;
    FILE *file = fopen("/proc/self/exe", "rb");
    char part[65536];
    for (size_t got; file && (got = fread(part, 1, sizeof part, file)) > 0;)
        bytes.insert(bytes.end(), part, part + got);
    if (file)
        fclose(file);
    return bytes;
}

/* By its mangled name: a variable of a C++ function, but not of the emulator's. */
bool is_shared(const char *name)
{
    return strncmp(name, "_ZZ", 3) == 0 && strncmp(name, "_ZZN8emulator", 13) != 0 && strncmp(name, "_ZZN4simt", 9) != 0;
}

std::vector<variable> find_variables()
{
    std::vector<char> program = own_program();
    std::vector<variable> found;
    bool anchored = false;
    uint64_t anchor = 0;
    if (program.size() > sizeof(Elf64_Ehdr)) {
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)program.data();
        const Elf64_Shdr *sections = (const Elf64_Shdr *)(program.data() + header->e_shoff);
        for (int i = 0; i < header->e_shnum; i++) {
            if (sections[i].sh_type != SHT_SYMTAB)
                continue;
            const Elf64_Sym *symbols = (const Elf64_Sym *)(program.data() + sections[i].sh_offset);
            const char *names = program.data() + sections[sections[i].sh_link].sh_offset;
            for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
                const char *name = names + symbols[s].st_name;
                if (ELF64_ST_TYPE(symbols[s].st_info) != STT_TLS || symbols[s].st_shndx == SHN_UNDEF)
                    continue;
                if (strcmp(name, "simt_shared_anchor") == 0) {
                    anchor = symbols[s].st_value;
                    anchored = true;
                } else if (is_shared(name)) {
                    found.push_back({(ptrdiff_t)symbols[s].st_value, symbols[s].st_size});
                }
            }
        }
    }
    if (!anchored) {
        fprintf(stderr, "emulated GPU: the program's symbol table is missing; do not strip it\n");
        abort();
    }
    for (variable &v : found)
        v.from_anchor -= (ptrdiff_t)anchor;
    return found;
}

std::once_flag once;
std::vector<variable> variables;

typedef uint64_t words __attribute__((vector_size(32), may_alias, aligned(1)));

/* Not by memset and memcmp: a thread's variables may lie where the stack of an earlier one was, of
 * which the address sanitizer keeps marks. */
__attribute__((no_sanitize("address"))) void fill(volatile char *bytes, size_t count)
{
    size_t i = 0;
    for (; i + sizeof(words) <= count; i += sizeof(words))
        *(volatile words *)(bytes + i) = (words){} == 0;
    for (; i < count; i++)
        bytes[i] = (char)0xFF;
}

__attribute__((no_sanitize("address"))) bool was_written(const volatile char *bytes, size_t count)
{
    words all = (words){} == 0;
    char rest = (char)0xFF;
    size_t i = 0;
    for (; i + sizeof(words) <= count; i += sizeof(words))
        all &= *(const volatile words *)(bytes + i);
    for (; i < count; i++)
        rest &= bytes[i];
    return (all[0] & all[1] & all[2] & all[3]) != ~(uint64_t)0 || rest != (char)0xFF;
}

} // namespace

void poison_static_shared(std::vector<int> &used, bool search)
{
    thread_local bool poisoned;
    std::call_once(once, [] { variables = find_variables(); });
    char *anchor = &simt_shared_anchor;
    __asm__("" : "+r"(anchor)); /* for the compiler the anchor is one byte with nothing beside it */
    for (int v : used)
        fill(anchor + variables[(size_t)v].from_anchor, variables[(size_t)v].bytes);
    for (size_t v = 0; (search || !poisoned) && v < variables.size(); v++) {
        char *at = anchor + variables[v].from_anchor;
        if (!was_written(at, variables[v].bytes))
            continue;
        fill(at, variables[v].bytes);
        if (poisoned)
            used.push_back((int)v);
    }
    poisoned = true;
}

} // namespace simt
