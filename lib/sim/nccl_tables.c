/* The constants of NCCL's tuning model, by version.
 * Source  NVIDIA/nccl, src/graph/tuning.cc: 2.10.3 at commit 7e515921, 2.20.3 at commit b6475625 (versions as makefiles/version.mk has them
 *         there). PyTorch 1.11 ships 2.10.3. */
#include "lib/sim/nccl.h"

#include <stdio.h>
#include <string.h>

static const struct dt_sim_nccl_tables versions[] = {
    {
        .version = "2.10.3",
        .base_us = {{4.4, 4.4, 0}, {3.6, 10.0, 8.4}},
        .step_us = {{{0.52, 1.25, 28}, {0.47, 1.9, 3.4}}, {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}}, {{5.0, 8.5, 28}, {2.7, 4.0, 9.6}}},
        .ll_bus = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {87.7, 22.5, 19.0}},
        .ring_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
        .tree_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
        .tree_channel = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {24.0, 23.6, 17.8}},
        .tree_correction = {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
                            {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
                            {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}},
        .ampere_bus = 235,
        .ll_multi_node = 1.8,
        .plateau = {1.9, 1.9, 1.9},
    },
    {
        .version = "2.20.3",
        .nvls = true,
        .base_us = {{6.8, 14.0, 0}, {6.6, 14.0, 8.4}},
        .step_us = {{{0.6, 1.25, 28}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
                    {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}},
                    {{5.0, 8.5, 28}, {2.7, 4.0, 14.0}, {0, 0, 18}, {0, 0, 14}}},
        .ll_bus = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {87.7, 22.5, 19.0}},
        .ring_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}},
        .tree_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}},
        .tree_channel = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}},
        .tree_correction = {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
                            {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
                            {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}},
        .ll_multi_node = 1,
        .plateau = {1.9, 1.4, 1.4},
        .plateau_by_channel = true,
        .inter_steps_of_node = 2,
        .net_overhead_us = {1.0, 2.0},
    },
};

enum { VERSIONS = sizeof versions / sizeof *versions };

const char *dt_sim_nccl_version_name(int index)
{
    return index >= 0 && index < VERSIONS ? versions[index].version : NULL;
}

const struct dt_sim_nccl_tables *dt_sim_nccl_tables(const char *version)
{
    for (int i = 0; i < VERSIONS; i++)
        if (strcmp(versions[i].version, version) == 0)
            return &versions[i];
    return NULL;
}

dt_status dt_sim_nccl_find(const char *version, const char *where)
{
    char known[128] = "";
    if (dt_sim_nccl_tables(version))
        return DT_OK;
    for (int i = 0; i < VERSIONS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", versions[i].version);
    return dt_fail(DT_ERR_INVALID, "%s: collectives.version: the tables of NCCL %s are not known; known are %s", where, version, known);
}
