/* The table of paradigms against the table of keys and that of modes. */
#include "schedules/config/paradigm.h"
#include "schedules/config/parse.h"
#include "schedules/data_parallel/mode.h"
#include "test/check.h"

#include <stdlib.h>

static void rows_are_complete(void)
{
    for (int i = 0; i < PARADIGM_COUNT; i++) {
        const struct paradigm *p = paradigm_of((enum paradigm_kind)i);
        CHECK(p && p->name && p->title && p->help, "paradigm %d", i);
        if (!p || !p->name)
            continue;
        CHECK(paradigm_name((enum paradigm_kind)i) == p->name);
        CHECK(strlen(p->help) > strlen(p->name), "%s", p->name);
        CHECK(p->mode && p->mode->create, "%s", p->name);
        CHECK((p->axes == 0) == (p->mode == &dp_none), "%s: a mode that communicates, or ranks, and not both", p->name);
        for (int other = 0; other < i; other++)
            CHECK(strcmp(p->name, paradigm_name((enum paradigm_kind)other)) != 0, "%s is there twice", p->name);
    }
    CHECK(paradigm_of(PARADIGM_COUNT) == NULL && paradigm_name(PARADIGM_COUNT) == NULL);
}

static void keys_are_of_the_config(void)
{
    const struct dt_table *table = experiment_table();
    unsigned read = 0, of_keys = 0;
    for (int i = 0; i < PARADIGM_COUNT; i++) {
        const struct paradigm *p = paradigm_of((enum paradigm_kind)i);
        CHECK(!(p->reads & READS_PIPELINE) == (p->no_pipeline != NULL), "%s", p->name);
        read |= p->reads;
    }
    for (int i = 0; i < table->count; i++)
        of_keys |= table->fields[i].readers;
    CHECK(read == of_keys, "paradigms read %x, keys are of %x", read, of_keys);
    CHECK(table->fields[dt_config_find(table, "seed")].readers == 0);
}

static struct experiment *parse(const char *paradigm, int world_size)
{
    char text[256];
    struct experiment *e = NULL;
    int count = 0;
    snprintf(text, sizeof text,
             "{\"device\": \"cpu\", \"paradigm\": \"%s\", \"world_size\": %d, \"batch_size\": 8, \"model\": {\"preset\": \"GPTSmall\"}}",
             paradigm, world_size);
    return experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count) == DT_OK ? e : NULL;
}

/* A config may name every row, its mesh has as many ranks as its world, and only a paradigm without
 * axes is refused more than one. */
static void configs_choose_rows(void)
{
    for (int i = 0; i < PARADIGM_COUNT; i++) {
        const struct paradigm *p = paradigm_of((enum paradigm_kind)i);
        for (int world = 2; world <= 6; world += 2) {
            struct experiment *e = parse(p->name, world);
            CHECK((e != NULL) == (p->axes != 0), "%s on %d ranks: %s", p->name, world, dt_error_message());
            if (!e)
                continue;
            struct mesh_shape mesh = e->strategy.mesh;
            CHECK(e->paradigm == (enum paradigm_kind)i && mesh_count(&mesh, ~0u) == world, "%s: a mesh of %d", p->name,
                  mesh_count(&mesh, ~0u));
            CHECK(mesh_count(&mesh, ~p->axes) == 1, "%s: %d ranks on axes that it has not", p->name, mesh_count(&mesh, ~p->axes));
            CHECK(experiment_rank_of_kind(e, 0) == 0 && experiment_rank_of_kind(e, world) == -1, "%s", p->name);
            free(e);
        }
    }
    CHECK(parse("ring", 2) == NULL && strstr(dt_error_message(), "paradigm"), "%s", dt_error_message());
}

static const struct test_case cases[] = {
    {"every row is complete, and is found by its name", rows_are_complete},
    {"keys are those of the config", keys_are_of_the_config},
    {"configs choose rows", configs_choose_rows},
};
TEST_MAIN(cases)
