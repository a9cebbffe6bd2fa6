/* AMX instructions on a processor without AMX: each stops with SIGILL, and a handler does its work
 * on the twin of gpt/cpu/matmul/tiles.h. So the very code that runs on AMX, with its registers,
 * addresses and strides, runs in tests everywhere (a microsecond an instruction). Knows what
 * gpt/cpu/matmul/block.c is made of: ldtilecfg (of full tiles only), tilerelease, tilezero,
 * tileloadd, tilestored, tdpbf16ps.
 *
 * Source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VEX prefix,
 *         ModR/M and SIB bytes, and the instructions. */
#pragma once

#include "gpt/cpu/matmul/tiles.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

static _Thread_local struct {
    struct tiles tiles;
    bool configured;
    unsigned long instructions;
} trap;

static inline void trap_refuse(const char *why)
{
    ssize_t written = write(STDERR_FILENO, why, strlen(why));
    _exit(written < 0 ? 98 : 99);
}

static inline uint64_t trap_register(const ucontext_t *context, unsigned number)
{
    static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[places[number]];
}

/* A three-byte VEX instruction of opcode map 0F38, taken apart. */
struct trap_instruction {
    unsigned prefix; /* 0 none, 1 66, 2 F3, 3 F2 */
    unsigned opcode, mod, reg, rm, second;
    bool high_base, high_index;
    size_t bytes;
    char *base; /* of memory: the address but for the stride register, which AMX takes for rows instead of an index */
    size_t stride;
};

static inline struct trap_instruction trap_decode(const ucontext_t *context, const uint8_t *at)
{
    struct trap_instruction i = {
        .prefix = at[2] & 3, .opcode = at[3], .mod = at[4] >> 6, .reg = at[4] >> 3 & 7, .rm = at[4] & 7, .bytes = 5};
    if (at[0] != 0xC4 || (at[1] & 31) != 2)
        trap_refuse("amx_trap: no VEX instruction of map 0F38\n");
    i.second = ~at[2] >> 3 & 15;
    i.high_index = !(at[1] & 0x40);
    i.high_base = !(at[1] & 0x20);
    if (i.mod == 3)
        return i;
    bool sib = i.rm == 4;
    unsigned base = (sib ? at[5] & 7u : i.rm), index = sib ? (at[5] >> 3 & 7) | (unsigned)i.high_index << 3 : 4;
    unsigned scale = sib ? at[5] >> 6 : 0;
    i.bytes += sib;
    int32_t displacement = 0;
    bool from_next = i.mod == 0 && !sib && base == 5, absolute = i.mod == 0 && sib && base == 5;
    if (i.mod == 1) {
        displacement = (int8_t)at[i.bytes];
        i.bytes += 1;
    } else if (i.mod == 2 || from_next || absolute) {
        memcpy(&displacement, at + i.bytes, sizeof displacement);
        i.bytes += 4;
    }
    uint64_t start = absolute    ? 0
                     : from_next ? (uint64_t)(uintptr_t)(at + i.bytes)
                                 : trap_register(context, base | (unsigned)i.high_base << 3);
    i.base = (char *)(uintptr_t)(start + (uint64_t)(int64_t)displacement);
    i.stride = index == 4 ? 0 : trap_register(context, index) << scale;
    return i;
}

static inline void trap_configure(const uint8_t *config)
{
    bool full = config[0] == 1;
    for (int i = 0; i < 8; i++)
        full &= config[16 + 2 * i] == 64 && config[17 + 2 * i] == 0 && config[48 + i] == 16;
    if (!full)
        trap_refuse("amx_trap: a configuration of other than eight full tiles\n");
    tiles_begin(&trap.tiles);
    trap.configured = true;
}

static inline void trap_handle(int number, siginfo_t *info, void *context_)
{
    ucontext_t *context = context_;
    const uint8_t *at = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    struct trap_instruction i = trap_decode(context, at);
    trap.instructions++;
    if (!trap.configured && !(i.opcode == 0x49 && i.mod != 3))
        trap_refuse("amx_trap: a tile instruction before ldtilecfg\n");
    if (i.opcode == 0x49 && i.prefix == 0 && i.mod != 3)
        trap_configure((const uint8_t *)i.base);
    else if (i.opcode == 0x49 && i.prefix == 0)
        trap.configured = false;
    else if (i.opcode == 0x49 && i.prefix == 3)
        tile_zero(&trap.tiles, (int)i.reg);
    else if (i.opcode == 0x4B && i.prefix == 3)
        tile_load(&trap.tiles, (int)i.reg, i.base, i.stride);
    else if (i.opcode == 0x4B && i.prefix == 2)
        tile_store(&trap.tiles, (int)i.reg, i.base, i.stride);
    else if (i.opcode == 0x5C && i.prefix == 2)
        tile_multiply(&trap.tiles, (int)i.reg, (int)i.rm, (int)i.second);
    else
        trap_refuse("amx_trap: an instruction that it does not know\n");
    context->uc_mcontext.gregs[REG_RIP] += (greg_t)i.bytes;
}

static inline void trap_install(void)
{
    struct sigaction action = {.sa_sigaction = trap_handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
}
