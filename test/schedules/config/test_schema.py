"""The JSON Schemas and the program held together.

Usage: test_schema.py CONFIG_VERDICT SOURCE_ROOT. Makes a few thousand configs, each off by one thing, and asks the schema and the parser
about each: they must agree, but for the rules named in BEYOND_SCHEMA. Exit status 77 (skipped) without python3-jsonschema.
"""
import collections
import copy
import glob
import json
import os
import random
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

# Rules that a JSON Schema cannot express, by the parser's error. Each must occur at least once.
BEYOND_SCHEMA = {
    "files that are there": r"data\.source: ([^:\s]{100}|\S+: not found)",
    "saves in a folder": r"checkpoint\.(save_every|asynchronous): nothing is saved without checkpoint\.path",
    "epochs of a file": r"steps\.epochs: an epoch is one of data\.source",
    "keys of another family": r"model\.\S+: a key of models of the family",
    "sizes that belong together": r"model\.heads: \d+ does not divide model\.hidden",
    "heads that share keys and values": r"model\.kv_heads: \d+ does not divide model\.heads",
    "pairs of features that turn": r"model\.position: rope rotates pairs",
    "a row for each position": r"model\.position_rows: \d+, and model\.block_size is",
    "slow frequencies below fast ones": r"model\.rope\.low_frequency_factor: \S+ is not below",
    "one batch": r"global_batch: batch_size is given",
    "a batch that the ranks can divide": r"global_batch: [\d.]+ samples (of each of \d+ ranks|cannot be divided)|batch_size: \S+ samples of each rank are",
    "one device": r"world_size: \d+ ranks, but paradigm \"none\" is one device",
    "one copy of the model": r"world_size: \d+ ranks, but paradigm \"none\" is one copy",
    "paradigms without a pipeline": r"pipeline\.stages: paradigm \"\w+\" goes with no pipeline",
    "stages divide the ranks": r"pipeline\.stages: \d+ (times tensor\.size \d+ )?does not divide world_size",
    "a network that can be chosen": r"network\.\w+: only device \"sim\"",
    "hardware that can be slowed down": r"slow\.(by: only device \"sim\"|rank: \d+, and world_size)",
    "points that split a pipeline": r"pipeline\.split: (\d+ points? for|\d+ comes after|\d+ of a model)",
    "more stages than pieces": r"pipeline\.stages: \d+ pipeline stages need",
    "chunks of at least one sample": r"pipeline\.chunks: \d+ chunks \(times",
    "micro-batches of at least one sample": r"micro_batches: \d+ is more than (tensor\.size \* )?batch_size",
    "a tensor group divides the layers and the ranks": r"tensor\.size: \d+ does not divide",
    "ranks that share samples do the same, divide the world, and are simulated": r"context\.(size|comm_type): ",
    "shards divide the ranks": r"hsdp\.shard_size: \d+ does not divide (world_size|the \d+ ranks)",
    "statistics of a micro-batch": r"(micro_batches|model\.norm_group): .*(statistics|choose a divisor|a whole number of ranks)",
    "windows that are dilated": r"model\.output_stride: \d+ (is none of|needs model\.block)",
    "types of a family on cpu": r"model\.dtype: fp16, in which no model",
    "pixels' labels": r"model\.classes: \d+; a pixel's label",
    "channels in fours": r"model\.channels: \d+ is not a multiple of 4",
    "a sum is in a type of another width than the model": r"reduce_dtype: \w+, and model\.dtype is",
    "servers add in the model's type": r"reduce_dtype: servers add gradients in model\.dtype",
    "late updates go without what waits for them": r"parameter_server\.staleness: \d+ steps' updates",
    "servers are ranks": r"parameter_server\.servers: \d+ is more than world_size",
    "32-bit sample numbers": r"steps: \d+ steps of \d+ samples",
    "tensors that have a size": r"batch_size: together with",
    "a swept model that stays incomplete": r"model: needs a preset|model\.\w+: missing; expected layers, heads",
    "preset and sizes that a sweep brings together": r"model: both a preset and",
    "two lists for one key": r"sweep: both \"",
    "too many combinations": r"sweep: \d+ combinations; at most",
    "operations that a family computes again": r"activation: models of the family \w+ compute no single operations again",
    "a policy for each part": r"pipeline\.activation: \d+ polic",
    "products that sim alone knows": r"fp8\.(recipe: only device \"sim\"|gather: nothing is in FP8)",
    "overlap that sim alone knows": r"tensor\.overlap: ",
    "settings that fit": r"the settings have more than \d+ bytes",
}

TINY = {"layers": 2, "heads": 4, "hidden": 64, "vocab_size": 500, "block_size": 32}
DEEPLAB = {"model": {"blocks": {"c2": 1, "c3": 1, "c4": 1, "c5": 1}, "head": "deeplab", "output_stride": 8, "classes": 21}, "batch_size": 4}
BASES = [
    {"model": TINY},
    {"model": {"preset": "GPTSmall"}, "world_size": 4, "paradigm": "ddp"},
    {"model": TINY, "world_size": 4, "paradigm": "pdp", "batch_size": 4},
    DEEPLAB,
    {"model": TINY, "world_size": 4, "sweep": {"paradigm": ["ddp", "fsdp"]}},
    {"model": TINY, "world_size": 4, "paradigm": "hsdp", "hsdp": {"shard_size": 2}},
    {"model": TINY, "world_size": 4, "paradigm": "parameter_server", "parameter_server": {"servers": 2}},
    {"model": TINY, "world_size": 8, "paradigm": "hsdp", "pipeline": {"stages": 2}},
    {"world_size": 2, "paradigm": "fsdp", "sweep": {"model": [{"preset": "GPTXL"}, TINY]}},
]
WRONG_TYPES = [None, True, False, 0, 1, 3, -1, 0.5, "", "x", "1", [], {}, [1], {"x": 1}]


def values_of(field):
    """Values at, beside and beyond what a row of the table allows, and of every other type."""
    values = list(WRONG_TYPES)
    if "file_ending" in field:
        values += ["my" + field["file_ending"], field["file_ending"], "my" + field["file_ending"] + "x"]
    if "most_numbers" in field:
        values += [[2], [1, 2], [2, 1], [1, 1, 1], [2.5], ["2"], [int(field["max"]) + 1], [-1], list(range(field["most_numbers"] + 1)), [[1]]]
    if "choices" in field:
        values += field["choices"] + field.get("refused", [])
        values += [c.upper() for c in field["choices"]] + [c + " " for c in field["choices"]] + [field["choices"], field["choices"][:1]]
        values += [c.split("-") for c in field["choices"]] + [c.split("-")[:-1] for c in field["choices"]]
        if "words" in field:
            one, other = field["choices"][:2]
            values += [[one, other], f"{one}-{other}", f"{one}--{other}", f"{one}-", f"-{one}", ["", one], [one, ""], [one, 1], [f"{one}-{other}"]]
            values += [one_word for n in (field["words"], field["words"] + 1) for one_word in ([other] * n, "-".join([other] * n))]
    elif field["type"] == "string":
        low, high = int(field["min"]), int(field["max"])
        for length in {low, max(low - 1, 0), high, high + 1}:
            values += ["n" * length, "\u00e9" * length, "\U0001F600" * length]
        values += ["a\nb", "a\n", "\x7f", "a\u0080b", "\"\\"]
    elif field["type"] == "object":
        name, long = field["prefix"] + "X", field["prefix"] + "Y" * 58
        settings = ["a", "", 1, 0.5, True, None, [], {}, "n" * 255, "n" * 256, "\u00e9" * 255, "a\nb", "\x7f"]
        values += [{name: setting} for setting in settings] + [{f"{name}{i}": "\u00e9" * 255 for i in range(9)}, {name: 1, long: "two"}, {long + "Y": 1}, {name: 1, "OTHER": 1}]
        values += [{wrong: 1} for wrong in (field["prefix"], name.lower(), name + "-", "", " " + name)]
        values.append({f"{name}{i}": "n" * 250 for i in range(5)})
    elif field["type"] != "boolean":
        if "word" in field:
            values += [field["word"], field["word"] + "s", field["word"].upper(), [field["word"]]]
        low, high = field["min"], field["max"]
        for edge in (low, high):
            values += [edge, edge - 1, edge + 1, edge + 0.5, edge - 0.5, float(edge), edge * (1 - 1e-6), edge * (1 + 1e-6)]
        values += [(low + high) / 2, (low + high) // 2, -high, 1e300, -1e300, 1e-300, 2**53, 2**53 + 1, 2**63, 2**64, 10**30]
    return values


def put(config, path, value):
    changed = copy.deepcopy(config)
    *above, key = path.split(".")
    here = changed
    for name in above:
        here = here.setdefault(name, {})
    here[key] = value
    return changed


def put_in_sweep(config, path, values, nested):
    changed = copy.deepcopy(config)
    sweep = changed.setdefault("sweep", {})
    return {**changed, "sweep": put(sweep, path, values) if nested else {**sweep, path: values}}


def misspelled(key):
    return {key.upper(), key + "s", key[:-1], key[1:], key.replace("_", "-"), key.capitalize(), ""} - {key}


def mutations(table, shuffle):
    for which, base in enumerate(BASES):
        yield base
        # each value in one of the bases, half of them with the family that has one, wrong sections
        # in three: the schema takes a third of a millisecond for each config
        for path, field in table.items():
            for value in values_of(field)[::2] if base is DEEPLAB else values_of(field)[which::len(BASES)]:
                yield put(base, path, value)
        for value in WRONG_TYPES[which % 3::3]:
            yield put(base, "sweep", value)
            for section in {p.split(".")[0] for p in table if "." in p}:
                yield put(base, section, value)
                yield put_in_sweep(base, section, value, False)
                yield put_in_sweep(base, section, [value], False)
    base = BASES[1]
    paths = sorted(table) + sorted({p.split(".")[0] for p in table if "." in p})
    for path in paths:
        if path in table:
            for value in values_of(table[path]):
                form = shuffle.randrange(4)
                if form == 3 and "." in path:
                    section, key = path.rsplit(".", 1)
                    yield put_in_sweep(base, section, [{}, {key: value}], "." in section)
                else:
                    yield put_in_sweep(base, path, [value] if form == 0 else value if form == 1 else [value, value], form == 2)
        for wrong in sorted(misspelled(path.split(".")[-1])):
            for wrong_path in sorted({wrong, ".".join(path.split(".")[:-1] + [wrong])}):
                form = shuffle.randrange(3)
                yield put(base, wrong_path, 1) if form == 0 else put_in_sweep(base, wrong_path, [1], form == 2)
        yield {**base, path + ".x": 1}
        yield {**base, "sweep": {path: {}}}
        yield {**base, "sweep": {path: []}}
        if "." in path:
            yield {**base, path: 1}
    # Two or three changes at once, mostly of allowed values: the rules between fields.
    allowed = {p: [v for v in values_of(f) if not isinstance(v, (list, dict, bool)) and v is not None] for p, f in table.items()}
    allowed = {path: values for path, values in allowed.items() if values}
    between = ["world_size", "paradigm", "batch_size", "micro_batches", "pipeline.stages", "pipeline.chunks", "hsdp.shard_size",
               "parameter_server.servers", "steps.timed", "model.heads",
               "model.block_size", "model.vocab_size", "model.preset", "model.layers"]
    small = [1, 2, 3, 4, 8, 16]
    for _ in range(1500):
        config = shuffle.choice(BASES)
        for _ in range(shuffle.randrange(2, 5)):
            path = shuffle.choice(between if shuffle.random() < 0.8 else sorted(allowed))
            value = shuffle.choice(allowed[path] + (small * 4 if table[path]["type"] == "integer" else []))
            config = put_in_sweep(config, path, [value, value], False) if shuffle.random() < 0.2 else put(config, path, value)
        yield config
    yield {"model": TINY, "sweep": {"seed": [1] * 400, "steps.warmup": [1] * 400}}
    yield {"model": TINY, "world_size": 4, "paradigm": "parameter_server", "parameter_server": {"servers": 5}}
    yield {"model": TINY, "world_size": 4, "paradigm": "ddp", "tensor": {"size": 2, "overlap": True}}
    yield {"model": TINY, "world_size": 4, "paradigm": "parameter_server", "reduce_dtype": "fp32"}
    yield {"model": TINY, "world_size": 4, "paradigm": "parameter_server", "parameter_server": {"staleness": 1}, "optimizer": {"clip_norm": 1}}
    yield {"model": TINY, "sweep": {"model.dtype": ["fp32"], "model": [{"dtype": "fp16"}]}}
    yield {"sweep": {"model.layers": [2]}}
    for sweep in ({"nccl.NCCL_ALGO": ["Ring", "Tree"]}, {"nccl": {"NCCL_ALGO": ["Ring", 1]}}, {"nccl": {"NCCL_ALGO": "Ring"}},
                  {"nccl": [{}, {"NCCL_ALGO": "Ring"}]}, {"nccl.NCCL_A": [1, 2], "nccl.NCCL_B": [1, 2]}, {"nccl.ALGO": [1]},
                  {"nccl.NCCL_A": [1, ""]}, {"nccl.NCCL_A": []}, {"nccl.NCCL_A": [1], "nccl": [{}]}):
        yield {"model": TINY, "nccl": {"NCCL_PROTO": "LL"}, "sweep": sweep}
    yield {"model": {**TINY, "heads": 64, "position": "rope"}}
    yield {"model": {**TINY, "position": "rope", "rope": {"scaling": "llama3", "low_frequency_factor": 4}}}
    yield {"model": TINY, "paradigm": "pdp", "world_size": 64, "pipeline": {"stages": 64}}
    yield {"model": TINY, "paradigm": "pdp", "world_size": 2, "batch_size": 1, "pipeline": {"chunks": 16}}
    yield {"model": TINY, "batch_size": 65536, "steps": {"timed": 65536}}
    yield {"model": {"preset": "GPT1T", "block_size": 2**20}, "batch_size": 65536, "steps": {"warmup": 0, "timed": 1}}


def parser_says(program, configs, *arguments):
    lines = "".join(json.dumps(c) + "\n" for c in configs)
    answer = subprocess.run([program, *arguments], input=lines, capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()


def replaces_sizes(config):
    """A sweep of presets replaces sizes next to a preset, which the schema of a model alone refuses."""
    sweep = config.get("sweep")
    return isinstance(sweep, dict) and "model.preset" in sweep and "preset" in config.get("model", {})


def check_verdicts(program, validator, table):
    configs = [c for c in mutations(table, random.Random(5))]
    said = parser_says(program, configs)
    failures = [] if len(said) == len(configs) else [f"{len(configs)} configs and {len(said)} verdicts"]
    counts, met = collections.Counter(), collections.Counter()
    for config, verdict in zip(configs, said):
        parser = verdict.startswith("ok ") or ": not found in " in verdict  # the schema knows no files
        schema = validator.is_valid(config)
        counts[parser, schema] += 1
        rules = [name for name, words in BEYOND_SCHEMA.items() if re.search(words, verdict)]
        if schema and not parser and len(rules) == 1:
            met[rules[0]] += 1
        elif parser != schema and not (parser and replaces_sizes(config)):
            failures.append(f"{json.dumps(config)[:300]}: the parser says '{verdict}', the schema {'accepts' if schema else 'refuses'} it")
    failures += [f"no config meets the rule '{name}'" for name in BEYOND_SCHEMA if not met[name]]
    if not counts[True, True] or not counts[False, False]:
        failures.append("one of the verdicts never occurs")
    print(f"{len(configs)} configs: both accept {counts[True, True]}, both refuse {counts[False, False]}, beyond the schema {sum(met.values())}")
    return failures


def check_table(schema, table):
    """Each row of the table is a definition of the schema, with the same words."""
    failures = []
    for path, field in table.items():
        expected = {"description": field["description"], "type": field["type"]}
        if "list" in field:
            del expected["type"]
            expected["enum"] = field["choices"] + [choice.split("-") for choice in field["choices"]]
        elif "most_numbers" in field:
            del expected["type"]
            expected["anyOf"] = [{"enum": field["choices"]}, {"type": "array", "minItems": 1, "maxItems": field["most_numbers"],
                                  "items": {"type": "integer", "minimum": field["min"], "maximum": field["max"]}}]
        elif "words" in field:
            one = "(" + "|".join(field["choices"]) + ")"
            del expected["type"]
            expected["oneOf"] = [{"type": "array", "minItems": 1, "maxItems": field["words"], "items": {"enum": field["choices"]}},
                                 {"type": "string", "pattern": f"^{one}(-{one}){{0,{field['words'] - 1}}}$"}]
        elif "file_ending" in field:
            expected["anyOf"] = [{"enum": field["choices"]}, {"pattern": ".\\" + field["file_ending"] + "$"}]
        elif "booleans" in field:
            del expected["type"]
            expected["anyOf"] = [{"type": "boolean"}, {"type": "string", "enum": field["choices"]}]
        elif "choices" in field:
            expected["enum"] = field["choices"]
        elif field["type"] == "string":
            expected.update(minLength=field["min"], maxLength=field["max"])
        elif field["type"] == "object":
            expected.update(additionalProperties=False, patternProperties={
                "^" + field["prefix"] + "[A-Z0-9_]{1,58}$": {"$ref": f"#/$defs/{path}_setting"}})
        elif field["type"] == "boolean":
            expected.update({} if field["max"] else {"const": False})
        else:
            expected["exclusiveMinimum" if field["above"] else "minimum"] = field["min"]
            expected["exclusiveMaximum" if field["below"] else "maximum"] = field["max"]
        if "word" in field:
            expected["anyOf"] = [{"const": field["word"]},
                                 {key: expected.pop(key) for key in list(expected) if key != "description"}]
        if "default" in field:
            expected["default"] = field["default"]
        found = {k: v for k, v in schema["$defs"].get(path, {}).items() if k != "not"}
        if found != expected:
            failures.append(f"$defs/{path} is {found}, and the table says {expected}")
    return failures


def check_files(program, root, config_validator, record_validator):
    """Every shipped config is valid to both, its resolved form too, and every committed record to its schema."""
    failures = []
    paths = sorted(glob.glob(os.path.join(root, "configs", "*.json")) + glob.glob(os.path.join(root, "configs", "study", "*.json")))
    configs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            configs.append(json.load(file))
    for path, config, verdict in zip(paths, configs, parser_says(program, configs)):
        failures += [f"{path}: {error.message}" for error in config_validator.iter_errors(config)]
        if not verdict.startswith("ok "):
            failures.append(f"{path}: {verdict}")
    # of the experiments of the sweeps, which differ in few values, each seventh
    resolved = [json.loads(line) for line in parser_says(program, configs, "resolved")[::7] + parser_says(program, BASES, "resolved")]
    for config in resolved:
        failures += [f"resolved config {json.dumps(config)}: {error.message}" for error in config_validator.iter_errors(config)]
    lines = [("config_verdict", line) for line in parser_says(program, [], "records")]
    for path in sorted(glob.glob(os.path.join(root, "results", "**", "*.jsonl"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            lines += [(path, line) for line in file]
    for source, line in lines:
        failures += [f"record of {source}: {e.json_path}: {e.message}" for e in record_validator.iter_errors(json.loads(line))]
    print(f"{len(paths)} shipped configs, {len(resolved)} resolved ones, {len(lines)} records")
    if not paths or len(lines) < 2 or len(resolved) < len(paths):
        failures.append("nothing to look at")
    return failures


def check_described_files(root, schemas):
    """Every shipped cluster and profile follows its schema, and does not with an unknown key or without a name."""
    failures = []
    for kind in ("cluster", "profile"):
        validator = jsonschema.Draft202012Validator(schemas[f"{kind}.schema.json"])
        paths = sorted(glob.glob(os.path.join(root, "configs", kind + "s", "*.json")))
        for path in paths:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            failures += [f"{path}: {error.json_path}: {error.message}" for error in validator.iter_errors(content)]
            for wrong in ({**content, "unknown": 1}, {k: v for k, v in content.items() if k != "name"}):
                if validator.is_valid(wrong):
                    failures.append(f"{path}: the schema accepts it with an unknown key, or without a name")
        print(f"{len(paths)} {kind}s")
        if not paths:
            failures.append(f"there is no {kind}")
    return failures


def check_record_schema(program, validator):
    """The record's schema refuses objects that are not records."""
    record = json.loads(parser_says(program, [], "records")[1])
    failures = []
    for path, value in [("schema_version", 2), ("status", "good"), ("config_hash", "xyz"), ("error", "x"), ("losses", None), ("new", 1),
                        ("metrics.new", 1), ("metrics.mfu", "1"), ("metrics.step_s.median", -1), ("metrics.peak_bytes.total", 1.5),
                        ("config.model.dtype", "fp8"), ("sweep.count", 0), ("sweep.id", "x"),
                        ("metrics.wall_s", -1), ("provenance.started", "yesterday"), ("provenance.hosts", "x")]:
        if validator.is_valid(put(record, path, value)):
            failures.append(f"the record schema accepts {path} = {value!r}")
    for key in set(record) - {"sweep"}:  # which came later than the first records
        if validator.is_valid({k: v for k, v in record.items() if k != key}):
            failures.append(f"the record schema accepts a record without {key}")
    return failures


def main():
    program, root = sys.argv[1:3]
    folder = os.path.join(root, "configs", "schema")
    schemas = {}
    for name in ("config.schema.json", "record.schema.json", "cluster.schema.json", "profile.schema.json"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            schemas[name] = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schemas[name])
    table = json.loads(subprocess.run([program, "table"], capture_output=True, text=True, check=True).stdout)
    config_validator = jsonschema.Draft202012Validator(schemas["config.schema.json"])
    resolver = jsonschema.RefResolver("file://" + os.path.abspath(folder) + "/", schemas["record.schema.json"])
    record_validator = jsonschema.Draft202012Validator(schemas["record.schema.json"], resolver=resolver)
    failures = check_table(schemas["config.schema.json"], table)
    failures += check_files(program, root, config_validator, record_validator)
    failures += check_described_files(root, schemas)
    failures += check_record_schema(program, record_validator)
    failures += check_verdicts(program, config_validator, table)
    for failure in failures[:20]:
        print(failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
