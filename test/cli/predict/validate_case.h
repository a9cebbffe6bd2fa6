/* Tables of measured runs for tests. */
#pragma once

#include "cli/predict/validate.h"
#include "gpt/model.h"
#include "schedules/config/families.h"
#include "test/check.h"

#include <stdlib.h>
#include <unistd.h>

#define HEADER "paradigm,model,gpus,gpus_per_node,placement_known,stages,chunks,batch_per_replica,activation,fsdp_wrap,step_s,peak_mb\n"

static const struct validate_system system_of_study = {.cluster = "clusters/gcp_a2.json", .profile = "profiles/pytorch_1.11_a100.json"};

/* Read a text as a table, from a temporary file. */
static inline dt_status read_text_for(const struct validate_system *system, const char *text, struct validate_rows *rows, char path[64])
{
    snprintf(path, 64, "/tmp/test_validate_XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "cannot write %s", path);
    close(fd);
    dt_status status = validate_rows_read(path, system, rows);
    unlink(path);
    return status;
}

static inline dt_status read_text(const char *text, struct validate_rows *rows, char path[64])
{
    return read_text_for(&system_of_study, text, rows, path);
}

#define MESH "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,seq,tp,dp,pp,iteration time (ms),zero/fsdp,vpp,schedule,"
#define MESH_REST "recompute,kv_heads,cp,status,peak_mem_gib,dtype,color,notes\n"
