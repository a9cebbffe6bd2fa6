#!/usr/bin/env python3
"""model.from: models from Hugging Face configs. Prints TAP. Usage: test_model_from.py DTBENCH [CASE...]

The counts are those of transformers 4.46 for these configs, counted without memory for the weights; of Qwen3, which is newer, those of the
published weights (total_size of their index, two bytes a parameter). Where transformers and PyTorch are installed they are counted again.
"""
import json
import os
import sys

from command import CONFIG, OK, OOM, WORK, Skip, check, main, run  # beside this script


def sizes(layers, heads, hidden, **others):
    return {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": hidden, **others}


LLAMA = {"model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
LLAMA_3 = {**LLAMA, "vocab_size": 128256, "num_key_value_heads": 8, "rope_theta": 500000.0}
QWEN = {"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "use_sliding_window": False, "tie_word_embeddings": False}


def scaled(factor):
    return {**LLAMA_3, "max_position_embeddings": 131072,
            "rope_scaling": {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                             "rope_type": "llama3"}}


GPT_2 = {"model_type": "gpt2", "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "activation_function": "gelu_new", "resid_pdrop": 0.1,
         "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5}
NEOX = {"model_type": "gpt_neox", **sizes(32, 32, 2560), "intermediate_size": 10240, "rotary_pct": 1.0, "rotary_emb_base": 10000,
        "use_parallel_residual": False, "vocab_size": 50432, "max_position_embeddings": 2048, "hidden_act": "gelu", "tie_word_embeddings": False,
        "layer_norm_eps": 1e-5}
MPT = {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096, "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432,
       "no_bias": True, "emb_pdrop": 0, "resid_pdrop": 0,
       "attn_config": {"alibi": True, "attn_type": "multihead_attention", "attn_pdrop": 0, "clip_qkv": None, "qk_ln": False}}
FALCON = {"model_type": "falcon", **sizes(24, 32, 2048), "alibi": True, "bias": True, "parallel_attn": False, "multi_query": False,
          "new_decoder_architecture": False, "vocab_size": 50304, "hidden_dropout": 0.0, "attention_dropout": 0.0, "layer_norm_epsilon": 1e-5}
OPT = {"model_type": "opt", **sizes(12, 12, 768), "ffn_dim": 3072, "vocab_size": 50272, "max_position_embeddings": 2048, "dropout": 0.1,
       "attention_dropout": 0.0, "activation_function": "relu", "word_embed_proj_dim": 768, "do_layer_norm_before": True, "init_std": 0.02,
       "_remove_final_layer_norm": False, "enable_bias": True, "layerdrop": 0.0, "layer_norm_elementwise_affine": True}
OPT_30B = {**OPT, **sizes(48, 56, 7168), "ffn_dim": 28672, "word_embed_proj_dim": 7168}
MISTRAL = {**LLAMA, "model_type": "mistral", **sizes(32, 32, 4096), "intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 32000,
           "max_position_embeddings": 32768, "sliding_window": 4096, "rope_theta": 10000.0}
QWEN_3 = {"model_type": "qwen3", **QWEN, **sizes(36, 32, 4096), "head_dim": 128, "intermediate_size": 12288, "num_key_value_heads": 8,
          "vocab_size": 151936, "max_position_embeddings": 40960, "attention_bias": False}

# (name, config, parameters, preset of the same model)
MODELS = [
    ("gpt2", {**GPT_2, "n_layer": 12, "n_head": 12, "n_embd": 768}, 124439808, "GPT-2-small"),
    ("gpt2-xl", {**GPT_2, "n_layer": 48, "n_head": 25, "n_embd": 1600}, 1557611200, "GPT-2-XL"),
    ("Llama-2-7b", {**LLAMA, **sizes(32, 32, 4096), "intermediate_size": 11008, "num_key_value_heads": 32, "vocab_size": 32000,
                    "max_position_embeddings": 4096, "rope_scaling": None}, 6738415616, None),
    ("Llama-2-70b", {**LLAMA, **sizes(80, 64, 8192), "intermediate_size": 28672, "num_key_value_heads": 8, "vocab_size": 32000,
                     "max_position_embeddings": 4096}, 68976648192, None),
    ("Llama-3-8B", {**LLAMA_3, **sizes(32, 32, 4096), "intermediate_size": 14336, "max_position_embeddings": 8192}, 8030261248, None),
    ("Llama-3.1-8B", {**scaled(8.0), **sizes(32, 32, 4096), "intermediate_size": 14336}, 8030261248, "Llama-3.1-8B"),
    ("Llama-3.1-70B", {**scaled(8.0), **sizes(80, 64, 8192), "intermediate_size": 28672}, 70553706496, "Llama-3.1-70B"),
    ("Llama-3.2-1B", {**scaled(32.0), **sizes(16, 32, 2048), "intermediate_size": 8192, "head_dim": 64, "tie_word_embeddings": True},
     1235814400, "Llama-3.2-1B"),
    ("Mistral-7B-v0.1", MISTRAL, 7241732096, "Mistral-7B"),
    ("Qwen2.5-7B", {"model_type": "qwen2", **QWEN, **sizes(28, 28, 3584), "intermediate_size": 18944, "num_key_value_heads": 4,
                    "vocab_size": 152064, "max_position_embeddings": 4096}, 7615616512, "Qwen2.5-7B"),
    ("Qwen2.5-0.5B", {"model_type": "qwen2", **QWEN, **sizes(24, 14, 896), "intermediate_size": 4864, "num_key_value_heads": 2,
                      "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": True}, 494032768, None),
    ("Qwen3-8B", QWEN_3, 8190735360, None),
    ("mpt-7b", MPT, 6649286656, "MPT-7B"),
    ("falcon-rw-1b", FALCON, 1311625216, None),
    ("opt-125m", OPT, 125239296, None),
    ("opt-30b", OPT_30B, 29974540288, None),
    ("Mistral's with eyes", {"model_type": "mistral3", "vision_config": {"num_hidden_layers": 24}, "text_config": MISTRAL}, 7241732096, "Mistral-7B"),
    ("RedPajama-INCITE-Base-3B-v1", NEOX, 2775864320, None),
]


def write(name, content):
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    return path


def write_models():
    for name, model, _, _ in MODELS:
        write(name + ".json", model)


def check_json(content):
    result = run("check", "--json", write("experiment.json", content))
    check(result.returncode in (OK, OOM), result.stderr)
    return json.loads(result.stdout)


BASE = {"device": "sim", "batch_size": 1, "model": {"dtype": "bf16"}}


def test_parameters_are_the_counted_ones():
    """A sweep of files; each is read from beside the config."""
    write_models()
    checks = check_json({**BASE, "sweep": {"model.from": [name + ".json" for name, *_ in MODELS]}})
    for (name, _, parameters, _), one in zip(MODELS, checks):
        check(one["parameters"] == parameters, name, one["parameters"], parameters)


def test_a_file_is_the_preset_of_its_model():
    """In every key; but GPT-2's presets have exact GELU, which has no operations or bytes more or less, and its files ask for the tanh form."""
    write_models()
    for name, _, _, preset in MODELS:
        if preset:
            read, given = check_json({**BASE, "sweep": {"model": [{"from": name + ".json"}, {"preset": preset}]}})
            read, given = read["config"]["model"], given["config"]["model"]
            given.pop("preset")
            if read["mlp"] == "gelu_new":
                check(given.pop("mlp") == "gelu" and preset.startswith("GPT-2"), preset, read)
            wrong = {key: value for key, value in given.items() if read.get(key) != value}
            check(not wrong, preset, wrong, read)


def test_a_config_says_more_than_the_file():
    write_models()
    one = check_json({**BASE, "model": {"from": "gpt2.json", "layers": 2, "dropout": 0}})[0]["config"]["model"]
    check(one["layers"] == 2 and one["hidden"] == 768 and one["dropout"] == 0 and "from" not in one, one)
    result = run("check", "--json", write("preset.json", {**BASE, "model": {"preset": "GPTSmall"}}), "--set", "model.from=gpt2.json")
    check(json.loads(result.stdout)[0]["parameters"] == 124439808, result.stderr)


def test_how_long_a_sequence_is():
    """As those of the first training, and never longer than the file says; what it does not say is transformers' default."""
    llama_3 = {**scaled(8.0), **sizes(2, 8, 64)}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    mistral = {key: value for key, value in {**MISTRAL, **sizes(2, 4, 64), "num_key_value_heads": 2}.items() if key != "max_position_embeddings"}
    for content, length in ((llama_3, 8192), ({**llama_3, "max_position_embeddings": 2048}, 2048), ({**llama_3, "rope_scaling": yarn}, 4096),
                            ({**LLAMA, **sizes(2, 4, 64)}, 2048), ({**QWEN, **sizes(2, 4, 64), "model_type": "qwen2", "num_key_value_heads": 4}, 32768),
                            ({**mistral, "sliding_window": None}, 131072), (mistral, 4096),
                            ({key: value for key, value in mistral.items() if key != "sliding_window"}, 4096)):
        said = json.loads(run("import", "--json", write("length.json", {"vocab_size": 500, **content}), code=OK).stdout)
        check(said["config"]["model"]["block_size"] == length, said["config"], "instead of", length, content)


def test_heads_of_keys_and_values_that_a_config_does_not_say():
    """transformers' default; as many as heads where it is null, and for Llama."""
    for kind, default in (("llama", 64), ("mistral", 8), ("qwen2", 32), ("qwen3", 32)):
        content = {"vocab_size": 500, **QWEN, **sizes(2, 64, 8192), "model_type": kind}
        for given, heads in (({}, default), ({"num_key_value_heads": None}, 64), ({"num_key_value_heads": 16}, 16)):
            path = write("kv_heads.json", {**content, **given})
            model = check_json({**BASE, "model": {"from": path, "block_size": 32}})[0]["config"]["model"]
            check((model["kv_heads"] or model["heads"]) == heads, kind, given, model)


# (config, how the message ends)
REFUSED = [
    ({**LLAMA_3, "model_type": "mixtral", "num_local_experts": 8}, "num_local_experts: 8; mixtures of experts are not supported"),
    ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "kv_lora_rank: 512; latent attention is not supported"),
    ({"model_type": "mamba"}, "model_type: \"mamba\" is not one of gpt2, gpt_neox, llama, mistral, qwen2, qwen3, mpt, opt, falcon"),
    ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}, "vision_config": {}}, "model_type: \"gemma3_text\" is not one of gpt2, "
     "gpt_neox, llama, mistral, qwen2, qwen3, mpt, opt, falcon"),
    ({"layers": 3}, "model_type: nothing is not one of gpt2, gpt_neox, llama, mistral, qwen2, qwen3, mpt, opt, falcon"),
    ({**NEOX, "use_parallel_residual": True}, "use_parallel_residual: true; attention and MLP of a block are one after the other here"),
    ({**NEOX, "rotary_pct": 0.25}, "rotary_pct: 0.25; rope rotates all features of a head here"),
    ({**FALCON, "parallel_attn": True}, "parallel_attn: true; attention and MLP of a block are one after the other here"),
    ({**QWEN_3, "hidden_size": 2560}, "head_dim: 128; a head's width is hidden_size / num_attention_heads here, 80"),
    ({**scaled(8.0), **sizes(2, 4, 64), "attention_bias": True}, "attention_bias: true; biases of these layers alone are not supported"),
    ({**LLAMA_3, **sizes(2, 4, 64), "rope_scaling": {"type": "linear", "factor": 2.0}},
     "rope_scaling.type: \"linear\"; this scaling of rope's frequencies is not supported"),
    ({**OPT, "activation_function": "silu"}, "activation_function: \"silu\"; the MLP of a decoder is gelu, relu or swiglu"),
    ({**OPT, "attention_dropout": 0.2}, "attention_dropout: 0.2; attention weights have the dropout of all else here, 0.1, or none"),
    ({**OPT, "word_embed_proj_dim": 512}, "word_embed_proj_dim: 512; embeddings are as wide as the model here, 768"),
    ({**OPT, "do_layer_norm_before": False}, "do_layer_norm_before: false; norms are before attention and MLP here"),
    ({**GPT_2, "embd_pdrop": 0.2}, "embd_pdrop: 0.2; all dropouts are the same here, 0.1"),
    ({**LLAMA, "num_attention_heads": 4, "hidden_size": 64}, "does not say model.layers"),
    ({**LLAMA, **sizes(2, 0, 64)}, "model.heads: 0 is out of range; expected an integer from 1 to 4096"),
    ({**LLAMA, **sizes(2, 4, 64), "max_position_embeddings": "4096"}, "model.block_size: \"4096\" is a string; expected an integer from 1 to 1048576"),
    ({**GPT_2, "n_layer": "many"}, "model.layers: \"many\" is a string; expected an integer from 1 to 4096"),
]


def test_what_cannot_be_is_one_line_that_names_the_field():
    for content, text in REFUSED:
        write("refused.json", content)
        result = run("check", write("experiment.json", {**BASE, "model": {"from": "refused.json"}}))
        line = result.stderr.strip()
        check(result.returncode == CONFIG and line.endswith(text) and "\n" not in line, line, "instead of", text)


def test_a_missing_file_and_a_preset_besides():
    result = run("check", write("experiment.json", {**BASE, "model": {"from": "missing.json"}}))
    check(result.returncode == CONFIG and "missing.json: not found in" in result.stderr, result.stderr)
    result = run("check", write("experiment.json", {**BASE, "model": {"from": "gpt2.json", "preset": "GPTSmall"}}))
    check(result.returncode == CONFIG and "both a preset and from are given" in result.stderr, result.stderr)


def test_plan_takes_a_file():
    path = write("tiny.json", {**GPT_2, "n_layer": 2, "n_head": 2, "n_embd": 64})
    result = run("plan", "--model", path, "--gpus", "2", "--global-batch", "4", "--json", "-q", "--output", os.path.join(WORK, "plan.json"))
    check(result.returncode == OK and json.loads(result.stdout)["plans"][0]["config"]["model"]["layers"] == 2, result.stderr)


def test_transformers_counts_the_same():
    try:
        import torch
        from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    except ImportError as error:
        raise Skip(f"{error}") from None
    if not hasattr(torch.device("meta"), "__enter__"):
        raise Skip("PyTorch before 2.0 makes no model without memory")
    for name, model, parameters, _ in MODELS:
        model = {key: value for key, value in model.get("text_config", model).items() if key != "torch_dtype"}
        kind = model.pop("model_type")
        if kind not in CONFIG_MAPPING:
            continue
        with torch.device("meta"):
            counted = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**model))
        counted.tie_weights()
        counted = sum({id(p): p.numel() for p in counted.parameters()}.values())
        check(counted == parameters, name, counted, parameters)


if __name__ == "__main__":
    sys.exit(main(globals()))
