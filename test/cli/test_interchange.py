#!/usr/bin/env python3
"""Parameters of other libraries' models: --from a Hugging Face folder, and dtbench export --for transformers. Prints TAP.

The folders are made here, with weights that Python's random numbers give. Their losses were computed by transformers 5.24.0 on PyTorch 2.15.0
(REFERENCE); where both are installed they are computed again, also of what dtbench has exported.
Usage: test_interchange.py DTBENCH [CASE...]; `REFERENCE=1 test_interchange.py DTBENCH` prints the numbers anew.
"""
import json
import math
import os
import random
import shutil
import struct
import sys

from command import CONFIG, DTBENCH, FAILED, OK, OUTPUT, WORK, Skip, check, config, main, read_records, records_path, run
from tensor_file import tensors_of, write_tensors

T, V, SAMPLES = 8, 40, 4
LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 24, "vocab_size": V,
         "max_position_embeddings": T, "rope_theta": 100.0}
LLAMA_BLOCK = {"input_layernorm.weight": [32], "self_attn.q_proj.weight": [32, 32], "self_attn.k_proj.weight": [16, 32], "self_attn.v_proj.weight": [16, 32],
               "self_attn.o_proj.weight": [32, 32], "post_attention_layernorm.weight": [32], "mlp.gate_proj.weight": [24, 32], "mlp.up_proj.weight": [24, 32],
               "mlp.down_proj.weight": [32, 24]}
LLAMA_ENDS = {"model.embed_tokens.weight": [V, 32], "model.norm.weight": [32]}
HEAD = {"lm_head.weight": [V, 32]}
# By name: config, what begins the names of block tensors, shapes within a block, shapes outside.
MODELS = {
    "gpt2": ({"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 16, "vocab_size": V, "n_positions": T, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
              "attn_pdrop": 0.0}, "transformer.h",
             {"ln_1.weight": [16], "ln_1.bias": [16], "attn.c_attn.weight": [16, 48], "attn.c_attn.bias": [48], "attn.c_proj.weight": [16, 16],
              "attn.c_proj.bias": [16], "ln_2.weight": [16], "ln_2.bias": [16], "mlp.c_fc.weight": [16, 64], "mlp.c_fc.bias": [64],
              "mlp.c_proj.weight": [64, 16], "mlp.c_proj.bias": [16]},
             {"transformer.wte.weight": [V, 16], "transformer.wpe.weight": [T, 16], "transformer.ln_f.weight": [16], "transformer.ln_f.bias": [16]}),
    "llama": ({"model_type": "llama", **LLAMA}, "model.layers", LLAMA_BLOCK, {**LLAMA_ENDS, **HEAD}),
    "llama_tied": ({"model_type": "llama", **LLAMA, "tie_word_embeddings": True, "max_position_embeddings": 4 * T,
                    "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": T}}, "model.layers", LLAMA_BLOCK, LLAMA_ENDS),
    "mistral": ({"model_type": "mistral", **LLAMA, "sliding_window": None}, "model.layers", LLAMA_BLOCK, {**LLAMA_ENDS, **HEAD}),
    "mpt": ({"model_type": "mpt", "n_layers": 2, "n_heads": 6, "d_model": 24, "vocab_size": V, "max_seq_len": T}, "transformer.blocks",
            {"norm_1.weight": [24], "attn.Wqkv.weight": [72, 24], "attn.out_proj.weight": [24, 24], "norm_2.weight": [24], "ffn.up_proj.weight": [96, 24],
             "ffn.down_proj.weight": [24, 96]}, {"transformer.wte.weight": [V, 24], "transformer.norm_f.weight": [24]}),
}
# Losses of the samples.
REFERENCE = {
    "gpt2": [4.579246, 3.570868, 3.686331, 4.284192],
    "llama": [4.027995, 3.846301, 3.923366, 4.610508],
    "llama_tied": [4.631848, 4.256309, 4.024703, 4.017964],
    "mistral": [3.764097, 4.209822, 4.190341, 3.303408],
    "mpt": [4.432036, 3.967557, 4.155655, 4.068772],
}


def weights_of(name):
    """{tensor: (shape, values)}: of a gain around 1, otherwise around 0."""
    _, prefix, block, ends = MODELS[name]
    numbers = random.Random(name)
    shapes = {**{f"{prefix}.{layer}.{tensor}": shape for layer in range(2) for tensor, shape in block.items()}, **ends}
    return {tensor: (shape, [(len(shape) == 1 and tensor.endswith("weight")) + numbers.uniform(-0.3, 0.3) for _ in range(math.prod(shape))])
            for tensor, shape in shapes.items()}


def folder(name, files=1, change=None):
    """The model as a Hugging Face folder; change: what becomes of its tensors."""
    path = os.path.join(WORK, "model_" + name)
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as out:
        json.dump({**MODELS[name][0], "eos_token_id": None, "bos_token_id": None}, out)
    weights = weights_of(name)
    if change:
        weights = change(weights)
    if files == 1:
        write_tensors(os.path.join(path, "model.safetensors"), weights)
        return path
    places = {tensor: f"model-{number % files + 1:05}-of-{files:05}.safetensors" for number, tensor in enumerate(weights)}
    for file in set(places.values()):
        write_tensors(os.path.join(path, file), {tensor: weights[tensor] for tensor in weights if places[tensor] == file})
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump({"metadata": {}, "weight_map": places}, out)
    return path


def ids():
    numbers = random.Random(7)
    return [numbers.randrange(V) for _ in range(SAMPLES * T + 1)]


def experiment(path, name="interchange.json", **changes):
    tokens = os.path.join(WORK, "ids.bin")
    with open(tokens, "wb") as out:
        out.write(struct.pack(f"<{SAMPLES * T + 1}H", *ids()))
    model = {"from": os.path.join(path, "config.json"), "block_size": T, "dtype": "fp32", "dropout": 0, **changes.pop("model", {})}
    plain = {"sweep": None, "world_size": 1, "batch_size": 1, "threads": 1, "model": model, "optimizer": {"name": "sgd", "learning_rate": 1e-30},
             "steps": {"warmup": 1, "timed": SAMPLES - 1}, "data": {"source": tokens, "shuffle": False}}
    return config(name, **{**plain, **changes})


def losses(path, **changes):
    out = records_path("interchange.jsonl")
    run("run", experiment(path, **changes), "--quiet", "--from", path, "-o", out, code=OK)
    return read_records(out)[0]["losses"]


def exported(path, name, *options, **changes):
    out = os.path.join(WORK, "exported_" + name)
    shutil.rmtree(out, ignore_errors=True)
    run("export", experiment(path, **changes), "--for", "transformers", "--from", path, "--output", out, *options, code=OK)
    return out


def apart(some, others):
    check(len(some) == len(others), some, others)
    return max(abs(a - b) for a, b in zip(some, others))


def test_losses_are_those_of_transformers():
    for name, reference in REFERENCE.items():
        got = losses(folder(name))
        check(apart(got, reference) < 1e-5, name, got, reference)


def test_shards_divisions_and_adam_start_from_the_same():
    path = folder("llama_tied", files=3)
    check(apart(losses(path), REFERENCE["llama_tied"]) < 1e-4, "from shards")
    path = folder("gpt2")
    divided = losses(path, world_size=SAMPLES, paradigm="fsdp", tensor={"size": 2}, optimizer={"name": "adam", "learning_rate": 1e-30},
                     steps={"warmup": 0, "timed": 1})
    check(apart(divided, [sum(REFERENCE["gpt2"]) / SAMPLES]) < 1e-4, divided)


def test_names_without_their_beginning_and_a_padded_vocabulary():
    path = folder("gpt2", change=lambda weights: {tensor.removeprefix("transformer."): value for tensor, value in weights.items()})
    check(apart(losses(path), REFERENCE["gpt2"]) < 1e-4, "without transformer.")
    padded = exported(path, "padded", model={"vocab_size": V + 8})
    shape, data = tensors_of(os.path.join(padded, "model.safetensors"))["transformer.wte.weight"][1:]
    check(shape == [V + 8, 16] and data[V * 64:] == bytes(8 * 64), shape)
    cut = exported(padded, "cut", model={"vocab_size": V})
    check(apart(losses(cut), REFERENCE["gpt2"]) < 1e-4, "the padding is not cut off")


def test_what_is_exported_is_what_was_read():
    for name in MODELS:
        path = folder(name)
        made = tensors_of(os.path.join(exported(path, name), "model.safetensors"))
        check(made == tensors_of(os.path.join(path, "model.safetensors")), name, made.keys())


def test_a_checkpoint_is_exported_in_files_of_some_size():
    path = os.path.join(WORK, "trained")
    sizes = {"layers": 1, "heads": 2, "hidden": 64, "vocab_size": 5000, "block_size": 16, "dtype": "bf16", "mlp": "swiglu", "norm": "rms", "position": "rope",
             "bias": False}
    file = config("trained.json", sweep=None, world_size=1, model=sizes, checkpoint={"path": path}, steps={"warmup": 1, "timed": 1},
                  optimizer={"name": "adam"})
    run("run", file, "--quiet", "-o", records_path("trained.jsonl"), code=OK)
    out = os.path.join(WORK, "of_run")
    run("export", file, "--for", "transformers", "--set", "model.dtype=fp32", "--file-mib", "1", "--output", out, code=OK)
    with open(os.path.join(out, "model.safetensors.index.json"), encoding="utf-8") as index:
        places = json.load(index)["weight_map"]
    master = tensors_of(os.path.join(path, "step-2", "rank-00000.safetensors"))
    check(len(set(places.values())) == 3, places)
    for theirs, ours in (("lm_head.weight", "head.weight"), ("model.layers.0.self_attn.k_proj.weight", "blocks.0.attention.k.weight")):
        check(tensors_of(os.path.join(out, places[theirs]))[theirs][2] == master["optimizer.master." + ours][2], theirs)
    said = run("export", file, "--for", "transformers", "--output", out, code=OUTPUT).stderr
    check("a model is there" in said, said)
    said = run("export", file, "--for", "transformers", "--set", "model.mlp=gelu", "--output", out + "2", code=CONFIG).stderr
    check("no model type of transformers describes this model: gpt2" in said, said)


def refused(expected, path, **changes):
    said = run("run", experiment(path, **changes), "--quiet", "--from", path, "-o", records_path("refused.jsonl"), code=FAILED).stdout
    check(expected in said, "not said:", expected, "\n", said)


def test_what_is_wrong_with_a_folder_is_said():
    path = folder("llama")
    refused("it is a model with model.rope.base 100, and this one has 200", path, model={"rope": {"base": 200}})
    refused("no file has the tensor model.norm.weight in fp32",
            folder("llama", change=lambda w: {name: value for name, value in w.items() if name != "model.norm.weight"}))
    refused("self_attn.k_proj.weight: 32 x 32 elements, and this model has 16 x 32 there",
            folder("llama", change=lambda w: {name: w[name.replace("k_proj", "q_proj")] for name in w}))
    path = folder("llama", files=2)
    os.remove(os.path.join(path, "model-00002-of-00002.safetensors"))
    refused("model-00002-of-00002.safetensors: No such file", path)
    refused("wpe.weight: 8 x 16 elements, and this model has 9 x 16", folder("gpt2"), model={"block_size": T + 1},
            steps={"warmup": 1, "timed": 1})
    path = folder("mpt")
    os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "pytorch_model.bin"))
    refused("neither model.safetensors nor model.safetensors.index.json is there", path)


def reference_losses(path):
    try:
        import torch
        from transformers import AutoModelForCausalLM
    except ImportError:
        raise Skip("needs torch and transformers") from None
    model, all_ids = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(), ids()
    out = []
    with torch.no_grad():
        for first in range(0, SAMPLES * T, T):
            logits = model(torch.tensor([all_ids[first:first + T]])).logits[0]
            out.append(torch.nn.functional.cross_entropy(logits, torch.tensor(all_ids[first + 1:first + T + 1])).item())
    return out


def test_transformers_reads_the_same_from_both():
    for name, reference in REFERENCE.items():
        path = folder(name)
        for read in (path, exported(path, name)):
            check(apart(reference_losses(read), reference) < 1e-4, name, read)


if __name__ == "__main__":
    if os.environ.get("REFERENCE"):
        print(*(f'    "{name}": {[round(loss, 6) for loss in reference_losses(folder(name))]},' for name in MODELS), sep="\n")
        sys.exit(0)
    sys.exit(main(globals()))
