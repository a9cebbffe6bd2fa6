#include "lib/config/config.h"
#include "lib/config/json.h"
#include "test/check.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>

/* A table of one field per kind. */
struct target {
    bool flag;
    int count;
    uint64_t seed;
    double rate;
    float share;
    char name[20];
    int color;
    const char *shape;
    int only;
    bool never;
};

static const char *color_choice(int index)
{
    static const char *const names[] = {"red", "green", "blue"};
    return index < 3 ? names[index] : NULL;
}

static const char *shape_choice(int index)
{
    return index == 0 ? "disc" : NULL;
}

static const struct dt_refused_choice refused_shapes[] = {{"cube", "disc"}, {0}};

#define AT(member) .offset = offsetof(struct target, member), .size = sizeof(((struct target *)0)->member)

static const struct dt_field fields[] = {
    {"flag", DT_FIELD_BOOL, AT(flag), .max = 1, .initial = "true"},
    {"count", DT_FIELD_INT, AT(count), .min = 1, .max = 2147483647, .initial = "7"},
    {"seed", DT_FIELD_U64, AT(seed), .min = 0, .max = 9007199254740991, .initial = "1"},
    {"paint.rate", DT_FIELD_NUMBER, AT(rate), .min = 0, .above = true, .max = 10, .initial = "0.25"},
    {"paint.share", DT_FIELD_FLOAT, AT(share), .min = 0, .max = 1, .below = true, .initial = "0.1"},
    {"paint.color", DT_FIELD_ENUM, AT(color), .choice = color_choice, .initial = "\"green\""},
    {"name", DT_FIELD_STRING, AT(name), .min = 1, .max = 4, .initial = "\"x\""},
    {"shape", DT_FIELD_TEXT, AT(shape), .choice = shape_choice, .refused = refused_shapes},
    {"only", DT_FIELD_INT, AT(only), .min = 1, .max = 1, .initial = "1"},
    {"never", DT_FIELD_BOOL, AT(never), .max = 0},
};
static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof fields[0]};

static struct cJSON *parse(const char *text)
{
    struct cJSON *value = NULL;
    CHECK_OK(dt_json_parse(text, strlen(text), "t", &value));
    return value;
}

static void defaults_and_values(void)
{
    struct target t = {0};
    bool given[10] = {0};
    char *text;
    CHECK_OK(dt_config_defaults(&table, &t));
    CHECK(t.flag && t.count == 7 && t.seed == 1 && t.rate == 0.25 && t.share == 0.1f && t.color == 1 && strcmp(t.name, "x") == 0);
    CHECK(t.shape[0] == 0 && !t.never);
    struct cJSON *object =
        parse("{\"flag\":false,\"count\":2147483647,\"seed\":9007199254740991,\"name\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\","
              "\"paint\":{\"rate\":10,\"share\":0.3,\"color\":\"blue\"},\"shape\":\"disc\",\"sweep\":3}");
    CHECK_OK(dt_config_read(&table, object, "t", &t, given));
    CHECK(!t.flag && t.count == 2147483647 && t.seed == 9007199254740991u && t.rate == 10 && t.share == 0.3f && t.color == 2);
    CHECK(strcmp(t.name, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9") == 0 && strcmp(t.shape, "disc") == 0);
    for (int i = 0; i < 10; i++)
        CHECK(given[i] == (i < 8), "field %d", i);
    dt_json_destroy(object);
    CHECK_OK(dt_config_write(&table, &t, given, &object));
    CHECK_OK(dt_json_print(object, DT_JSON_COMPACT, &text));
    CHECK(strcmp(text,
                 "{\"flag\":false,\"count\":2147483647,\"seed\":9007199254740991,\"paint\":{\"rate\":10,\"share\":0.3,\"color\":\"blue\"},"
                 "\"name\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\",\"shape\":\"disc\"}") == 0,
          "%s", text);
    free(text);
    dt_json_destroy(object);
}

struct refusal {
    const char *text, *message;
};

static void refuses_values(void)
{
    static const struct refusal bad[] = {
        {"[1]", "t: expected an object with flag, count, seed, paint, name, shape, only, never, not [1]"},
        {"{\"paint\":3}", "t: paint: expected an object with rate, share, color, not 3"},
        {"{\"flag\":1}", "t: flag: 1 is a number; expected true or false"},
        {"{\"count\":\"8\"}", "t: count: \"8\" is a string; expected an integer from 1 to 2147483647"},
        {"{\"count\":null}", "t: count: expected an integer from 1 to 2147483647, not null"},
        {"{\"count\":0}", "t: count: 0 is out of range; expected an integer from 1 to 2147483647"},
        {"{\"count\":2147483648}", "t: count: 2147483648 is out of range; expected an integer from 1 to 2147483647"},
        {"{\"count\":1e300}", "t: count: 1e+300 is out of range; expected an integer from 1 to 2147483647"},
        {"{\"count\":1.5}", "t: count: 1.5 is not an integer; expected an integer from 1 to 2147483647"},
        {"{\"seed\":9007199254740992}", "t: seed: 9007199254740992 is out of range; expected an integer from 0 to 9007199254740991"},
        {"{\"seed\":9007199254740993}", "t: seed: 9007199254740992 is out of range; expected an integer from 0 to 9007199254740991"},
        {"{\"seed\":-1}", "t: seed: -1 is out of range; expected an integer from 0 to 9007199254740991"},
        {"{\"paint\":{\"rate\":0}}", "t: paint.rate: 0 is out of range; expected a number above 0 and up to 10"},
        {"{\"paint\":{\"share\":1}}", "t: paint.share: 1 is out of range; expected a number from 0 to below 1"},
        {"{\"paint\":{\"share\":0.99999999999}}", "t: paint.share: 0.99999999999 is out of range; expected a number from 0 to below 1"},
        {"{\"paint\":{\"color\":\"gren\"}}", "t: paint.color: \"gren\" is not one of red, green, blue; did you mean \"green\"?"},
        {"{\"paint\":{\"color\":\"Red\"}}", "t: paint.color: \"Red\" is not one of red, green, blue; did you mean \"red\"?"},
        {"{\"paint\":{\"color\":\"violet\"}}", "t: paint.color: \"violet\" is not one of red, green, blue"},
        {"{\"paint\":{\"color\":1}}", "t: paint.color: 1 is a number; expected one of red, green, blue"},
        {"{\"name\":\"\"}", "t: name: \"\" is out of range; expected a string of 1 to 4 characters"},
        {"{\"name\":\"abcde\"}", "t: name: \"abcde\" is out of range; expected a string of 1 to 4 characters"},
        {"{\"name\":\"a\\tb\"}", "t: name: control characters are not allowed here, nor characters without width or that reverse the text"},
        {"{\"name\":\"a\\u202eb\"}",
         "t: name: control characters are not allowed here, nor characters without width or that reverse the text"},
        {"{\"name\":\"a\\u009bb\"}",
         "t: name: control characters are not allowed here, nor characters without width or that reverse the text"},
        {"{\"shape\":\"cube\"}", "t: shape: \"cube\" is not supported by this version; use \"disc\""},
        {"{\"only\":2}", "t: only: 2 is out of range; expected an integer from 1 to 1"},
        {"{\"only\":0}", "t: only: 0 is out of range; expected an integer from 1 to 1"},
        {"{\"Flag\":true}", "t: Flag: unknown key; did you mean \"flag\"?"},
        {"{\"paint\":{\"colour\":\"red\"}}", "t: paint.colour: unknown key; did you mean \"paint.color\"?"},
        {"{\"paint\":{\"colours\":1}}", "t: paint.colours: unknown key; did you mean \"paint.color\"?"},
        {"{\"sweeps\":{}}", "t: sweeps: unknown key; did you mean \"sweep\"?"},
        {"{\"color\":\"red\"}", "t: color: unknown key; did you mean \"paint.color\"?"},
        {"{\"piant\":{}}", "t: piant: unknown key; did you mean \"paint\"?"},
        {"{\"paint.color\":\"red\"}", "t: paint.color: a path of two keys; write an object inside an object"},
        {"{\"paint\":{\"\":1}}", "t: paint.\"\": unknown key; known in paint: rate, share, color"},
        {"{\"\":{\"count\":3}}", "t: \"\": unknown key; known here: flag, count, seed, paint, name, shape, only, never"},
        {"{\"a\\nb\":1}", "t: a?b: unknown key; known here: flag, count, seed, paint, name, shape, only, never"},
        {"{\"paint\":{\"sweep\":{}}}", "t: paint.sweep: unknown key; known in paint: rate, share, color"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct target t;
        struct cJSON *object = parse(bad[i].text);
        CHECK_OK(dt_config_defaults(&table, &t));
        CHECK(dt_config_read(&table, object, "t", &t, NULL) == DT_ERR_INVALID, "%s", bad[i].text);
        CHECK(strcmp(dt_error_message(), bad[i].message) == 0, "%s\n# wanted\n# %s", dt_error_message(), bad[i].message);
        dt_json_destroy(object);
    }
}

/* Text typed by a user may be of any length. */
static void survives_long_text(void)
{
    enum { LENGTH = 5000 };
    char *text = malloc(2 * LENGTH), *long_word = malloc(LENGTH + 1);
    memset(long_word, 'k', LENGTH);
    long_word[LENGTH] = 0;
    static const char *const forms[] = {"{\"%s\":1}", "{\"paint\":{\"%s\":1}}", "{\"name\":\"%s\"}", "{\"paint\":{\"color\":\"%s\"}}",
                                        "{\"paint\":\"%s\"}"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, 2 * LENGTH, forms[i], long_word);
#pragma GCC diagnostic pop
        struct cJSON *object = parse(text);
        CHECK(dt_config_read(&table, object, "t", NULL, NULL) == DT_ERR_INVALID && strlen(dt_error_message()) < 1000);
        dt_json_destroy(object);
    }
    struct cJSON *object = parse("{}");
    CHECK(dt_config_set(&table, object, long_word) == DT_ERR_INVALID);
    snprintf(text, 2 * LENGTH, "%s=1", long_word);
    CHECK(dt_config_set(&table, object, text) == DT_ERR_INVALID);
    snprintf(text, 2 * LENGTH, "name=%s", long_word);
    CHECK(dt_config_set(&table, object, text) == DT_ERR_INVALID);
    dt_json_destroy(object);
    free(long_word);
    free(text);
}

/* Overrides: the config after them, or the message. */
static void overrides(void)
{
    static const struct {
        const char *config, *assignment, *result;
    } cases[] = {
        {"{}", "count=3", "{\"count\":3}"},
        {"{\"count\":1}", "count=3", "{\"count\":3}"},
        {"{}", "paint.color=red", "{\"paint\":{\"color\":\"red\"}}"},
        {"{}", "paint.color=\"red\"", "{\"paint\":{\"color\":\"red\"}}"},
        {"{\"paint\":{\"rate\":1}}", "paint.color=red", "{\"paint\":{\"rate\":1,\"color\":\"red\"}}"},
        {"{\"paint\":{\"rate\":1}}", "paint={\"share\":0}", "{\"paint\":{\"share\":0}}"},
        {"{}", "name=12", "{\"name\":\"12\"}"},
        {"{\"name\":\"a\"}", "name=null", "{}"},
        {"{}", "name=a=b", "{\"name\":\"a=b\"}"},
        {"{}", "flag=false", "{\"flag\":false}"},
        {"{}", "sweep.count=[1,2]", "{\"sweep\":{\"count\":[1,2]}}"},
        {"{\"sweep\":{\"count\":[1,2],\"flag\":[true]}}", "count=3", "{\"sweep\":{\"flag\":[true]},\"count\":3}"},
        {"{\"sweep\":{\"paint\":{\"color\":[\"red\"]}}}", "sweep.paint.color=[\"blue\"]", "{\"sweep\":{\"paint.color\":[\"blue\"]}}"},
        {"{\"sweep\":{\"paint\":{\"color\":[\"red\"],\"rate\":[1]}}}", "paint.color=blue",
         "{\"sweep\":{\"paint\":{\"rate\":[1]}},\"paint\":{\"color\":\"blue\"}}"},
        {"{\"sweep\":{\"paint.color\":[\"red\"]}}", "paint={\"color\":\"blue\"}", "{\"sweep\":{},\"paint\":{\"color\":\"blue\"}}"},
        {"{\"sweep\":{\"paint\":[{\"rate\":1}]}}", "paint.color=blue",
         "{\"sweep\":{\"paint\":[{\"rate\":1}]},\"paint\":{\"color\":\"blue\"}}"},
        {"{\"sweep\":{\"flag\":[true]}}", "sweep={}", "{\"sweep\":{}}"},
        {"{\"sweep\":[{\"count\":1,\"flag\":true},{\"count\":2}]}", "count=3", "{\"sweep\":[{\"flag\":true},{}],\"count\":3}"},
        {"{}", "paint.color=gren", "--set paint.color=gren: \"gren\" is not one of red, green, blue; did you mean \"green\"?"},
        {"{}", "count=007", "--set count=007: \"007\" is a string; expected an integer from 1 to 2147483647"},
        {"{}", "count=", "--set count=: \"\" is a string; expected an integer from 1 to 2147483647"},
        {"{}", "paint={\"rat\":1}", "--set paint={\"rat\":1}: paint.rat: unknown key; did you mean \"paint.rate\"?"},
        {"{}", "count", "--set count: expected PATH=VALUE, as in model.dtype=bf16"},
        {"{}", "=3", "--set =3: expected PATH=VALUE, as in model.dtype=bf16"},
        {"{}", "cuont=3", "--set cuont=3: unknown key; did you mean \"count\"?"},
        {"{}", "paint.=3", "--set paint.=3: unknown key; known in paint: rate, share, color"},
        {"{}", ".count=3", "--set .count=3: unknown key; did you mean \"count\"?"},
        {"{}", "sweep.cuont=[3]", "--set sweep.cuont=[3]: unknown key; did you mean \"count\"?"},
        {"{}", "sweep.=[3]", "--set sweep.=[3]: unknown key; known here: flag, count, seed, paint, name, shape, only, never"},
        {"{}", "sweep.count=3", "--set sweep.count=3: a sweep takes a list, as in sweep.paradigm=[\"ddp\",\"fsdp\"]"},
        {"{\"sweep\":3}", "sweep.count=[3]", "--set sweep.count=[3]: \"sweep\" is not an object in the config"},
        {"{\"sweep\":{\"paint\":[{\"color\":\"red\"}]}}", "paint.color=blue",
         "--set paint.color=blue: the sweep's \"paint\" sets it too; set sweep.paint as well"},
        {"{}", "name=\xff", "--set name=?: byte 0xFF is not valid UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cJSON *object = parse(cases[i].config);
        char *text;
        bool good = cases[i].result[0] == '{';
        dt_status status = dt_config_set(&table, object, cases[i].assignment);
        CHECK((status == DT_OK) == good, "%s: %s", cases[i].assignment, dt_error_message());
        CHECK_OK(dt_json_print(object, DT_JSON_COMPACT, &text));
        const char *result = good ? text : dt_error_message();
        CHECK(strcmp(result, cases[i].result) == 0, "%s\n# wanted\n# %s", result, cases[i].result);
        free(text);
        dt_json_destroy(object);
    }
}

/* The product, the first list outermost, whichever way its paths are written. */
static void sweeps_in_order(void)
{
    struct cJSON *object =
        parse("{\"count\":5,\"paint\":{\"rate\":3},\"sweep\":{\"name\":[\"a\",\"b\"],\"paint\":{\"color\":[\"red\",\"blue\",\"green\"]},"
              "\"paint.share\":[0.5]}}");
    static const char *const names[] = {"a", "a", "a", "b", "b", "b"};
    static const int colors[] = {0, 2, 1, 0, 2, 1};
    struct dt_sweep sweep;
    char text[200];
    CHECK_OK(dt_sweep_init(&table, object, "t", &sweep));
    CHECK(sweep.axis_count == 3 && sweep.combinations == 6);
    for (int i = 0; i < sweep.combinations; i++) {
        struct target t;
        bool given[10] = {0};
        CHECK_OK(dt_config_defaults(&table, &t));
        CHECK_OK(dt_config_read(&table, object, "t", &t, given));
        CHECK_OK(dt_sweep_read(&table, &sweep, i, "t", &t, given));
        CHECK(strcmp(t.name, names[i]) == 0 && t.color == colors[i] && t.share == 0.5f && t.count == 5 && t.rate == 3, "combination %d", i);
        CHECK(given[1] && given[3] && given[4] && given[5] && given[6] && !given[0]);
    }
    dt_sweep_describe(&sweep, 4, text, sizeof text);
    CHECK(strcmp(text, "combination 5 of 6 (name=\"b\", paint.color=\"blue\", paint.share=0.5)") == 0, "%s", text);
    dt_json_destroy(object);

    object = parse("{\"sweep\":{\"paint\":[{\"rate\":1,\"color\":\"red\"},{},{\"share\":0}],\"flag\":[true]}}");
    CHECK_OK(dt_sweep_init(&table, object, "t", &sweep));
    CHECK(sweep.combinations == 3);
    dt_json_destroy(object);
    object = parse("{}");
    CHECK_OK(dt_sweep_init(&table, object, "t", &sweep));
    dt_sweep_describe(&sweep, 0, text, sizeof text);
    CHECK(sweep.combinations == 1 && text[0] == 0);
    dt_json_destroy(object);
}

static void refuses_sweeps(void)
{
    static const struct refusal bad[] = {
        {"{\"sweep\":1}", "t: sweep: expected an object of lists, or a list of objects, not 1"},
        {"{\"sweep\":[]}", "t: sweep: the list is empty; give it at least one object"},
        {"{\"sweep\":[1]}", "t: sweep[0]: expected an object of keys, not 1"},
        {"{\"sweep\":[{\"count\":1},{\"cuont\":1}]}", "t: sweep[1]: cuont: unknown key; did you mean \"count\"?"},
        {"{\"sweep\":[{\"sweep\":{}}]}", "t: sweep[0]: a sweep inside a sweep; a list of experiments has none of its own"},
        {"{\"sweep\":{\"count\":3}}", "t: sweep.count: expected a list of values, not 3"},
        {"{\"sweep\":{\"count\":{\"x\":[1]}}}", "t: sweep.count: expected a list of values, not {\"x\":[1]}"},
        {"{\"sweep\":{\"count\":[]}}", "t: sweep.count: the list is empty; give it at least one value"},
        {"{\"sweep\":{\"cuont\":[1]}}", "t: sweep.cuont: unknown key; did you mean \"count\"?"},
        {"{\"sweep\":{\"paint.colr\":[1]}}", "t: sweep.paint.colr: unknown key; did you mean \"paint.color\"?"},
        {"{\"sweep\":{\"paint\":{\"colr\":[1]}}}", "t: sweep.paint.colr: unknown key; did you mean \"paint.color\"?"},
        {"{\"sweep\":{\"\":[{\"count\":1}]}}",
         "t: sweep.\"\": unknown key; known here: flag, count, seed, paint, name, shape, only, never"},
        {"{\"sweep\":{\"\":{\"count\":[1]}}}",
         "t: sweep.\"\": unknown key; known here: flag, count, seed, paint, name, shape, only, never"},
        {"{\"sweep\":{\"paint\":{\"\":[1]}}}", "t: sweep.paint.\"\": unknown key; known in paint: rate, share, color"},
        {"{\"sweep\":{\"sweep\":{}}}", "t: sweep.sweep: unknown key; did you mean \"seed\"?"},
        {"{\"sweep\":{\"count\":[1,0]}}", "t: sweep.count[1]: 0 is out of range; expected an integer from 1 to 2147483647"},
        {"{\"sweep\":{\"paint\":[{},3]}}", "t: sweep.paint[1]: expected an object with rate, share, color, not 3"},
        {"{\"sweep\":{\"paint\":[{\"rat\":1}]}}", "t: sweep.paint[0].rat: unknown key; did you mean \"paint.rate\"?"},
        {"{\"sweep\":{\"paint\":{\"rate\":[1]},\"paint.rate\":[2]}}",
         "t: sweep: both \"paint.rate\" and \"paint.rate\" set paint.rate; leave one of them"},
        {"{\"sweep\":{\"paint\":[{\"color\":\"red\"}],\"paint.color\":[\"blue\"]}}",
         "t: sweep: both \"paint\" and \"paint.color\" set paint.color; leave one of them"},
    };
    struct dt_sweep sweep;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct cJSON *object = parse(bad[i].text);
        CHECK(dt_sweep_init(&table, object, "t", &sweep) == DT_ERR_INVALID, "%s", bad[i].text);
        CHECK(strcmp(dt_error_message(), bad[i].message) == 0, "%s\n# wanted\n# %s", dt_error_message(), bad[i].message);
        dt_json_destroy(object);
    }
    /* 47 * 47 * 47 = 103,823 combinations, and 46 * 46 * 46 = 97,336 */
    for (int length = 46; length <= 47; length++) {
        char text[2000] = "{\"sweep\":{";
        static const char *const paths[] = {"\"count\":[1", "],\"seed\":[1", "],\"paint.rate\":[1"};
        for (int a = 0; a < 3; a++) {
            strcat(text, paths[a]);
            for (int i = 1; i < length; i++)
                strcat(text, ",1");
        }
        struct cJSON *object = parse(strcat(text, "]}}"));
        CHECK((dt_sweep_init(&table, object, "t", &sweep) == DT_OK) == (length == 46), "%d", length);
        dt_json_destroy(object);
    }
    CHECK(strcmp(dt_error_message(), "t: sweep: 103823 combinations; at most 100000 are allowed") == 0, "%s", dt_error_message());
}

/* 100 * 100 * 10 combinations are as many as are allowed. */
static void largest_sweep(void)
{
    static const struct {
        const char *path;
        int length;
    } axes[] = {{"", 100}, {"],\"seed\":[1", 100}, {"],\"paint.rate\":[1", 10}};
    char text[1000] = "{\"sweep\":{\"count\":[1";
    for (int a = 0; a < 3; a++) {
        strcat(text, axes[a].path);
        for (int i = 1; i < axes[a].length; i++)
            strcat(text, ",1");
    }
    struct dt_sweep sweep;
    struct cJSON *object = parse(strcat(text, "]}}"));
    CHECK_OK(dt_sweep_init(&table, object, "t", &sweep));
    CHECK(sweep.combinations == 100000, "%d", sweep.combinations);
    dt_json_destroy(object);
}

static const struct test_case cases[] = {
    {"defaults, every kind of value, and back", defaults_and_values},
    {"what is wrong with a value or key is said", refuses_values},
    {"long text does no harm", survives_long_text},
    {"overrides", overrides},
    {"sweeps in their stated order", sweeps_in_order},
    {"what is wrong with a sweep is said", refuses_sweeps},
    {"the largest sweep", largest_sweep},
};
TEST_MAIN(cases)
