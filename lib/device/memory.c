#include "lib/device/memory.h"

#include <inttypes.h>
#include <stdio.h>

const char *dt_category_name(enum dt_category category)
{
    static const char *const names[DT_CATEGORY_COUNT] = {
        [DT_PARAMETERS] = "parameters",   [DT_GRADIENTS] = "gradients",         [DT_OPTIMIZER] = "optimizer",
        [DT_ACTIVATIONS] = "activations", [DT_COMMUNICATION] = "communication", [DT_WORKSPACE] = "workspace",
    };
    return (unsigned)category < DT_CATEGORY_COUNT ? names[category] : "unknown";
}

uint64_t dt_ledger_rounded(uint64_t bytes)
{
    uint64_t mask = DT_ALLOCATION_BYTES - 1;
    return bytes > UINT64_MAX - mask ? UINT64_MAX & ~mask : (bytes + mask) & ~mask;
}

dt_status dt_ledger_add(struct dt_ledger *ledger, enum dt_category category, uint64_t bytes)
{
    struct dt_memory_bytes *usage = &ledger->usage;
    uint64_t rounded = dt_ledger_rounded(bytes), limit = ledger->limit_bytes ? ledger->limit_bytes : UINT64_MAX;
    if (usage->current_total_bytes > limit || rounded > limit - usage->current_total_bytes)
        return dt_fail(DT_ERR_OOM, "out of %s memory: %" PRIu64 " bytes asked for %s, %" PRIu64 " in use, limit %" PRIu64,
                       ledger->on_host ? "host" : "device", rounded, dt_category_name(category), usage->current_total_bytes, limit);
    usage->current_bytes[category] += rounded;
    usage->current_total_bytes += rounded;
    if (usage->peak_bytes[category] < usage->current_bytes[category])
        usage->peak_bytes[category] = usage->current_bytes[category];
    if (usage->peak_total_bytes < usage->current_total_bytes)
        usage->peak_total_bytes = usage->current_total_bytes;
    return DT_OK;
}

void dt_ledger_remove(struct dt_ledger *ledger, enum dt_category category, uint64_t bytes)
{
    uint64_t rounded = dt_ledger_rounded(bytes);
    ledger->usage.current_bytes[category] -= rounded;
    ledger->usage.current_total_bytes -= rounded;
}

void dt_ledger_reset_peak(struct dt_ledger *ledger)
{
    struct dt_memory_bytes *usage = &ledger->usage;
    for (int i = 0; i < DT_CATEGORY_COUNT; i++)
        usage->peak_bytes[i] = usage->current_bytes[i];
    usage->peak_total_bytes = usage->current_total_bytes;
}

void dt_ledger_raise_peak(struct dt_ledger *ledger, const struct dt_memory_bytes *usage)
{
    struct dt_memory_bytes *mine = &ledger->usage;
    for (int i = 0; i < DT_CATEGORY_COUNT; i++) {
        if (mine->peak_bytes[i] < usage->peak_bytes[i])
            mine->peak_bytes[i] = usage->peak_bytes[i];
    }
    if (mine->peak_total_bytes < usage->peak_total_bytes)
        mine->peak_total_bytes = usage->peak_total_bytes;
}

const char *dt_memory_text(uint64_t bytes, char text[DT_MEMORY_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(text, DT_MEMORY_TEXT, value < 9999.5 ? "%.4g %s" : "%.0f %s", value, units[unit]);
    return text;
}
