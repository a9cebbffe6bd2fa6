/* Measured rates in place of curves: products near those of a table, collectives of what nccl-tests
 * prints, and wrong tables. */
#include "lib/sim/alone.h"
#include "predict/rates.h"
#include "predict/simulated_system.h"
#include "schedules/config/parse.h"
#include "test/check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_BYTES = 64 };

static void write_file(const char *text, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/tmp/dt_test_rates_XXXXXX");
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(file);
}

/* One node of A100 with the table; "": without. */
static struct simulated_system *system_with(const char *path)
{
    char text[512];
    struct experiment *e = NULL;
    struct simulated_system *system;
    int count;
    snprintf(
        text, sizeof text,
        "{\"device\": \"sim\", \"cluster\": \"clusters/dgx_a100_1.json\", \"world_size\": 1, \"paradigm\": \"none\", \"rates\": \"%s\", "
        "\"model\": {\"layers\": 1, \"heads\": 4, \"hidden\": 64, \"vocab_size\": 512, \"block_size\": 32, \"dtype\": \"bf16\"}}",
        path);
    CHECK_OK(experiments_parse(text, strlen(text), "test", NULL, 0, &e, &count));
    CHECK_OK(simulated_system_create(e, &system));
    free(e);
    return system;
}

static double product_s(const struct simulated_system *s, double batch, double m, double n, double k)
{
    return dt_cost_product_s(&s->costs, batch, m, n, k, (size_t)k, (size_t)k, 2);
}

/* Measured products, and those near them, are twice as slow as the formula; others, batches, and
 * other dtypes are unchanged. Products that were measured alone are slower in a step. */
static void products(void)
{
    char path[PATH_BYTES], text[256];
    struct simulated_system *plain = system_with(""), *measured;
    const struct dt_profile *p = &plain->costs.profile;
    double formula = product_s(plain, 1, 4096, 4096, 4096), alone = p->gemm.alone_fraction / p->gemm.peak_fraction;
    snprintf(text, sizeof text, "dtype,m,n,k,latency_us\nbf16,4096,4096,4096,%.9g\nfp16,64,64,64,1000000\n", 2e6 * formula / alone);
    write_file(text, path);
    measured = system_with(path);
    const struct {
        double batch, m, n, k, factor;
    } rows[] = {{1, 4096, 4096, 4096, 2}, {1, 3000, 8192, 4096, 2}, {1, 8192, 2048, 4096, 2},
                {1, 8193, 4096, 4096, 1}, {1, 64, 64, 64, 1},       {4, 4096, 4096, 4096, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double factor = product_s(measured, rows[i].batch, rows[i].m, rows[i].n, rows[i].k) /
                        product_s(plain, rows[i].batch, rows[i].m, rows[i].n, rows[i].k);
        CHECK(fabs(factor - rows[i].factor) < 1e-5, "row %zu: %g instead of %g", i, factor, rows[i].factor);
    }
    CHECK(alone > 1, "%g", alone);
    CHECK(measured->profile_file.hash != plain->profile_file.hash && strstr(measured->profile_file.name, path), "%s",
          measured->profile_file.name);
    unlink(path);
    simulated_system_destroy(plain);
    simulated_system_destroy(measured);
}

static double all_reduce_s(const struct simulated_system *s, int ranks, double bytes)
{
    const struct dt_sim_placement placement = {.world_size = ranks, .ranks_per_node = ranks};
    double seconds = NAN;
    CHECK_OK(dt_sim_time_alone(&s->cluster, "cluster.json", &placement, DT_SIM_ALL_REDUCE, bytes, &seconds));
    return seconds;
}

/* 8 MiB among 2 GPUs at 50 GB/s on the bus. */
static void collectives(void)
{
    static const char printed[] =
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 2 minBytes 8388608\n"
        "#  Rank  0 Group  0 Pid  1 on  host device  0 [0000:07:00] GPU\n#  Rank  1 Group  0 Pid  1 on  host device  1 [0000:0f:00] GPU\n"
        "#       size  count  type  redop  root  time  algbw  busbw\n"
        "  8388608  2097152  float  sum  -1  167.8  50.00  50.00  0  167.8  50.00  50.00  0\n";
    char path[PATH_BYTES];
    write_file(printed, path);
    struct simulated_system *plain = system_with(""), *measured = system_with(path);
    double expected = 8388608 / 50e9, found = all_reduce_s(measured, 2, 8388608);
    CHECK(fabs(found / expected - 1) < 1e-6, "%g s instead of %g", found, expected);
    CHECK(all_reduce_s(plain, 2, 8388608) < 0.8 * expected, "the table has no part in it: %g s", all_reduce_s(plain, 2, 8388608));
    unlink(path);
    simulated_system_destroy(plain);
    simulated_system_destroy(measured);
}

/* Between two lengths the rate is interpolated by a power of the length; beyond them it is the
 * longest's, and for other widths the nearest width's. There is no rate far below, for far widths,
 * for other dtypes, and without a mask. */
static void attention(void)
{
    static struct dt_profile p;
    static struct dt_sim_measured_list measured;
    const struct {
        bool backward;
        double length, width, tflops;
        enum dt_dtype dtype;
    } rows[] = {{false, 1024, 128, 100, DT_BF16}, {true, 1024, 128, 100, DT_BF16},     {false, 2048, 128, 200, DT_BF16},
                {false, 4096, 120, 400, DT_BF16}, {false, 1 << 17, 128, 400, DT_BF16}, {true, 4096, 128, 300, DT_BF16},
                {false, 512, 128, 100, DT_BF16},  {false, 511, 128, 0, DT_BF16},       {false, 1024, 64, 50, DT_BF16},
                {false, 1024, 257, 0, DT_BF16},   {false, 1024, 128, 0, DT_FP16}};
    char path[PATH_BYTES];
    write_file(
        "head_dim,causal,direction,seq,tflops\n128,yes,forward,4096,400\n128,yes,forward+backward,1024,100\n128,yes,backward,4096,300\n"
        "64,yes,forward,1024,50\n128,no,forward,1024,7\n128,False,forward,1024,7\n",
        path);
    CHECK_OK(rates_read(path, &measured, &p));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double found = dt_attention_rate(&p.attention_rates, rows[i].dtype, rows[i].backward, rows[i].length, rows[i].width);
        CHECK(fabs(found - 1e12 * rows[i].tflops) <= 1e3, "row %zu: %g", i, found);
    }
    unlink(path);
}

/* Units after a blank, and names of columns in upper and lower case. */
static void sizes_and_names(void)
{
    static struct dt_profile p;
    static struct dt_sim_measured_list measured;
    char path[PATH_BYTES];
    CHECK(rates_bytes_of_text("256 MB") == 256 * 0x1p20 && rates_bytes_of_text("256MB") == 256 * 0x1p20 &&
          rates_bytes_of_text("256 MT") == 0);
    static const char *const tables[] = {"M,N,K,TFLOPS\n512,512,512,100\n", "m,n,k,dtype,GFLOP/s,batch\n512,512,512,torch.bfloat16,1e5,1\n",
                                         "m n k latency(ms)\n512 512 512 0.00268435456\n",
                                         "M,N,K,dtype,Time (us)\n512,512,512,BF16,2.68435456\n"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        static const struct dt_profile none;
        p = none;
        write_file(tables[i], path);
        CHECK_OK(rates_read(path, &measured, &p));
        CHECK(p.rates.count == 1 && p.rates.entries[0].dtype == DT_BF16 &&
                  fabs(p.rates.entries[0].seconds - 2 * 512. * 512 * 512 / 100e12) < 1e-12,
              "table %zu", i);
        unlink(path);
    }
}

/* Lines of nccl-tests before and since a column "root", with what launchers put before each. */
static void lines_of_nccl_tests(void)
{
    static const char *const runs[] = {
        "%s#  Rank  0 Pid 1 on a device  0\n%s#  Rank  1 Pid 2 on b device  0\n"
        "%s#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
        "%s#   (B)                      (us)  (GB/s)  (GB/s)\n%s 134217728 33554432 float sum 10553 12.7 22.5 4e-07 10527 12.7 22.6 "
        "4e-07\n",
        "%s#  Rank  0 Group  0 Pid 1 on a device  0\n%s#  Rank  1 Group  0 Pid 2 on b device  0\n"
        "%s#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
        "%s#   (B)                      (us)  (GB/s)  (GB/s)\n%s 134217728 33554432 float sum -1 10553 12.7 22.5 0 10527 12.7 22.6 0\n"};
    static const char *const tags[] = {"", "[1,0]<stdout>:", "0: "};
    for (size_t i = 0; i < sizeof runs / sizeof *runs * 3; i++) {
        static struct dt_profile p;
        struct dt_sim_measured_list *measured = calloc(1, sizeof *measured);
        const char *tag = tags[i % 3];
        char path[PATH_BYTES], named[PATH_BYTES + 16], text[2048];
        snprintf(text, sizeof text, runs[i / 3], tag, tag, tag, tag, tag);
        write_file("", path);
        snprintf(named, sizeof named, "%s_all_reduce.txt", path);
        FILE *file = fopen(named, "w");
        CHECK(measured && file && fprintf(file, "%s# nThread 1 nGpus 1\n%s", tag, text) > 0 && fclose(file) == 0);
        CHECK_OK(rates_read(named, measured, &p));
        const struct dt_sim_measured *e = &measured->entries[0];
        CHECK(measured->count == 1 && e->ranks == 2 && e->nodes == 2 && fabs(e->seconds * 22.5e9 - 134217728) < 1, "run %zu: %d, %g s", i,
              measured->count, e->seconds);
        unlink(path);
        unlink(named);
        free(measured);
    }
}

static void columns_not_read(void)
{
    static const struct {
        const char *text, *unread;
    } rows[] = {{"m,n,k,tflops,latency_us,dtype,gpu,notes,clock\n1,2,3,4,5,bf16,A,x,1\n", "tflops, clock"},
                {"collective,size,gpus,nodes,gpus_per_node,busbw_GB_s,busbw_GB_s_mean,algbw\nall_reduce,8,2,1,2,1,1,1\n",
                 "gpus_per_node, busbw_GB_s, algbw"},
                {"collective,size,gpus,gpus_per_node,busbw_GB_s\nall_reduce,8,2,2,1\n", ""},
                {"head_dim,seq,direction,tflops,causal,library,heads,m\n64,512,forward,1,yes,A,8,1\n", "heads, m"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[PATH_BYTES], unread[64];
        write_file(rows[i].text, path);
        CHECK_OK(rates_unread(path, unread, sizeof unread));
        CHECK(strcmp(unread, rows[i].unread) == 0, "row %zu: \"%s\"", i, unread);
        unlink(path);
    }
}

static void wrong_tables(void)
{
    static const struct {
        const char *text, *error;
    } rows[] = {{"m,n,k\n1,2,3\n", "latency_ms"},
                {"m,n,k,tflops\n1,2,3,0\n", ":2: tflops"},
                {"m,n,k,dtype,tflops\n1,2,3,int8,4\n", "bf16"},
                {"gpu,m,n,k,tflops\nA,1,2,3,4\nB,1,2,3,4\n", "keep the rows of one"},
                {"batch,m,n,k,tflops\n1,1,2,3,4\n16,1,2,3,4\n", ":3: batch: \"16\" is not 1"},
                {"# out-of-place\n# busbw\n8 2 float sum -1 9 1 1\n", "which collective"},
                {"head_dim,direction,tflops\n64,forward,1\n", "seq"},
                {"head_dim,seq,direction,tflops\n64,512,sideways,1\n", ":2: direction"},
                {"library,head_dim,seq,direction,tflops\nA,64,512,forward,1\nB,64,512,forward,1\n", "library"},
                {"# nThread 1\n# busbw\n# nThread 1\n# busbw\n", "several runs of nccl-tests"},
                {"collective,size,gpus,busbw_GB_s\nall_sums,8,2,1\n", "all_reduce"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct dt_sim_measured_list measured;
        static struct dt_profile profile;
        char path[PATH_BYTES];
        write_file(rows[i].text, path);
        CHECK(rates_read(path, &measured, &profile) == DT_ERR_INVALID && strstr(dt_error_message(), rows[i].error), "row %zu: %s", i,
              dt_error_message());
        unlink(path);
    }
}

static const struct test_case cases[] = {
    {"lines of nccl-tests", lines_of_nccl_tests},
    {"products", products},
    {"collectives", collectives},
    {"sizes and names", sizes_and_names},
    {"attention", attention},
    {"wrong tables", wrong_tables},
    {"columns that are not read", columns_not_read},
};

int main(void)
{
    return test_main(cases, sizeof cases / sizeof *cases);
}
