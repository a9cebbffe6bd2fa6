#!/usr/bin/env python3
"""dtbench import, export and plan --for: other frameworks' files, exit codes and remarks. Prints TAP. Usage: test_import.py DTBENCH [CASE...]"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys

from command import CONFIG, OK, OUTPUT, USAGE, WORK, Skip, check, main, run  # beside this script

# The shape of the scripts that come with Megatron-LM: variables, arrays, comments.
MEGATRON = """#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=16
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 51200   # padded
)
TRAINING_ARGS="
    --micro-batch-size 1 --global-batch-size 1536 --fp16 --lr 6.0e-5 --train-iters 500000
"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} $TRAINING_ARGS \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --use-distributed-optimizer
"""
NEMO = """
trainer: {devices: 8, num_nodes: 2, precision: bf16}
exp_manager: {name: x, create_wandb_logger: true}
model:
  {micro_batch_size: 1, global_batch_size: 32, tensor_model_parallel_size: 2, encoder_seq_length: 4096, num_layers: 4, hidden_size: 1024,
   ffn_hidden_size: 2816, num_attention_heads: 16, num_query_groups: 4, normalization: rmsnorm, activation: fast-swiglu, bias: false,
   vocab_size: 32000, transformer_engine: true, megatron_amp_O2: true, position_embedding_type: rope, share_embeddings_and_output_weights: false, hidden_dropout: 0.0, attention_dropout: 0.0,
   optim: {name: distributed_fused_adam, lr: 1e-4, betas: [0.9, 0.95]}}
"""
BRIDGE = """
model: {num_layers: 4, hidden_size: 1024, num_attention_heads: 16, seq_length: 2048, vocab_size: 51200, gated_linear_unit: true,
        ffn_hidden_size: 4096, add_bias_linear: false, normalization: RMSNorm, position_embedding_type: rope, hidden_dropout: 0.0,
        attention_dropout: 0.0, share_embeddings_and_output_weights: false, tensor_model_parallel_size: 1, pipeline_model_parallel_size: 2, bf16: true}
train: {micro_batch_size: 2, global_batch_size: 32, train_iters: 10}
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true}
"""
TITAN = """
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 4
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 4
[activation_checkpoint]
mode = "full"
"""
DEEPSPEED = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
             "bf16": {"enabled": True}, "zero_optimization": {"stage": 3, "overlap_comm": True}}
ACCELERATE = """
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_activation_checkpointing: true}
"""


# The shape of FastChat's and Alpaca's scripts.
TRAINER = """torchrun --nproc_per_node=4 --master_port=20001 fastchat/train/train_mem.py --model_name_or_path meta-llama/Llama-2-7b-hf \\
    --bf16 True --per_device_train_batch_size 2 --gradient_accumulation_steps 16 --evaluation_strategy "no" --learning_rate 2e-5 \\
    --fsdp "full_shard auto_wrap" --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' --tf32 True --model_max_length 2048 \\
    --gradient_checkpointing True
"""
# LLaMA-Factory's; DeepSpeed's file is beside it.
FACTORY = """
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: full
deepspeed: examples/deepspeed/z3.json
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-4
bf16: true
"""
Z3 = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
      "fp16": {"enabled": "auto", "loss_scale": 0}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": "auto"}}
AXOLOTL = """
base_model: NousResearch/Meta-Llama-3.1-8B
model_type: LlamaForCausalLM
sequence_len: 4096
sample_packing: true
gradient_accumulation_steps: 4
micro_batch_size: 2
optimizer: adamw_torch_fused
learning_rate: 2e-5
bf16: auto
gradient_checkpointing: true
fsdp: [full_shard, auto_wrap]
fsdp_config: {fsdp_offload_params: true, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_sharding_strategy: FULL_SHARD, fsdp_backward_prefetch: BACKWARD_PRE}
"""
TORCHTUNE = """
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 4096}
model: {_component_: torchtune.models.llama3_1.llama3_1_8b}
batch_size: 2
gradient_accumulation_steps: 8
optimizer: {_component_: torch.optim.AdamW, lr: 2e-5, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
enable_activation_checkpointing: true
dtype: bf16
"""


def write(name, content):
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(name, content, *options):
    result = run("import", "--json", write(name, content), *options)
    check(result.returncode == OK, result.stdout, result.stderr)
    return json.loads(result.stdout)


def has(config, **expected):
    for path, value in expected.items():
        found = config
        for key in path.split("__"):
            found = found.get(key) if isinstance(found, dict) else None
        check(found == value, path, found, "instead of", value)


def need_yaml():
    python = shutil.which("python3")
    if not python or subprocess.run([python, "-c", "import yaml, tomllib"], capture_output=True, check=False).returncode != 0:
        raise Skip("no python3 with yaml and tomllib")


def test_megatron_script():
    said = imported("train.sh", MEGATRON)
    has(said["config"], world_size=128, batch_size=12, tensor__size=8, pipeline__stages=16, pipeline__chunks=1536, pipeline__order="1f1b",
        model__layers=96, model__dtype="fp16", model__vocab_size=51200, mesh__order="tensor-data-pipeline", paradigm="none")
    check("num-layers: 96: model.layers 96" in said["read"], said["read"])
    check({"fp16: true", "use-distributed-optimizer: true"} <= set(said["read"]) and "bf16: true" not in said["read"], said["read"])
    check(any("train-iters" in line for line in said["left_out"]) and not said["unknown"], said)
    said = imported("train.sh", MEGATRON.replace("--fp16", "--fp16 --context-parallel-size 2 --cp-comm-type a2a"), "--gpus", "512")
    has(said["config"], world_size=512, context__size=2, context__comm_type="a2a", batch_size=6, paradigm="zero1", ddp__overlap_param_gather=False)
    job = MEGATRON.replace("--fp16", "--fp16 --overlap-grad-reduce --overlap-param-gather")
    has(imported("train.sh", job, "--gpus", "512")["config"], paradigm="zero1", ddp__overlap_param_gather=True)


def test_what_surrounds_a_command_line():
    """A redirection is no flag's value, and neither is the next line; of two command lines none is taken."""
    for end in (" --bf16 2>&1 | tee log", " --bf16 > log", " --bf16\necho done", " --bf16 && echo done"):
        has(imported("train.sh", MEGATRON.replace("--fp16 ", "").rstrip() + end)["config"], model__dtype="bf16")
    for default in ('""', "''", "", '"--bf16"', "--bf16"):
        script = "MORE=${MORE_FLAGS:-" + default + "}\n" + MEGATRON.replace("--fp16 ", "").rstrip() + " --bf16 $MORE --seed 1"
        has(imported("train.sh", script)["config"], model__dtype="bf16")
    said = run("import", write("train.sh", MEGATRON + "python evaluate.py --num-layers 3\n"), code=CONFIG).stderr
    check("train.sh: has several command lines, the first one of pretrain_gpt.py: leave only that of the training in it" in said, said)


def test_what_is_outside_of_a_script():
    """srun's own flags have no bearing; a variable that the file does not set may."""
    script = 'TP=8\nif [ "$WIDE" = 1 ]; then TP=4; fi\nsrun --nodes=16 --container-image x:1 ' + MEGATRON.replace("parallel-size 8", "parallel-size $TP")
    for name, result in (("bf16", "--bf16 $MORE"), ("tensor-model-parallel-size", "--fp16")):
        said = run("import", write("train.sh", script.replace("--fp16", result)), code=CONFIG).stderr
        check(f'unknown   {name}: "$' in said and "the file does not say what that is" in said and "unknown   container" not in said, said)
    has(imported("train.sh", "WIDE=1; " + script)["config"], tensor__size=4)


def test_what_matters_and_is_not_known_ends_with_3():
    script = MEGATRON.replace("--fp16", "--bf16 --fp8-format hybrid --fp8-recipe custom --some-new-thing 3 --cp-comm-type a2a+p2p --num-experts 8").replace(
        "--vocab-size 51200", "")
    result = run("import", write("train.sh", script), code=CONFIG)
    for text in ("fp8-recipe: \"custom\"; recipes are delayed, tensorwise, blockwise and mxfp8 here", "some-new-thing: 3; what that does", "cp-comm-type: \"a2a+p2p\";",
                 "num-experts: 8; dtbench has no mixtures", "vocab-size: not given"):
        check("unknown   " + text in result.stderr, text, result.stderr)
    check(not result.stdout, result.stdout)
    config = json.loads(run("import", write("train.sh", script), "--assume", code=OK).stdout)
    has(config, model__vocab_size=51200, model__dtype="bf16", fp8={"recipe": "delayed"})


def test_numbers_that_are_none_are_not_taken_for_unsaid():
    """A script's arithmetic, for example, which is not computed."""
    for flag, value, text in (("global-batch-size 1536", "global-batch-size $((WORLD * 2))", 'samples of a step: "$((WORLD * 2))"'),
                              ("micro-batch-size 1", "micro-batch-size 0", "samples of a GPU at a time: 0"),
                              ("tensor-model-parallel-size 8", "tensor-model-parallel-size 0", "ranks of a tensor group: 0")):
        check("--" + flag in MEGATRON, flag)
        result = run("import", write("train.sh", MEGATRON.replace(flag, value)), code=CONFIG)
        check(f"unknown   {text}; a number from 1 on is expected" in result.stderr and "nan" not in result.stderr, result.stderr)
    result = run("import", write("ds.json", {**DEEPSPEED, "gradient_accumulation_steps": -1}), "--model", "GPT-2-XL", "--gpus", "16", code=CONFIG)
    check("unknown   gradient accumulation: -1; a number from 1 on is expected" in result.stderr, result.stderr)


def test_arguments_of_the_trainer():
    said = imported("finetune.sh", TRAINER)
    has(said["config"], world_size=4, paradigm="fsdp", batch_size=32, micro_batches=16, activation="checkpoint", model__preset="Llama-2-7B",
        model__block_size=2048, model__dtype="bf16", gradient_dtype="fp32", reduce_dtype="bf16", optimizer__clip_norm=1)
    check(not said["unknown"] and any("shorter ones that are not packed take less" in line for line in said["assumed"]), said)
    said = imported("finetune.sh", TRAINER.replace("full_shard", "shard_grad_op offload").replace("4 --master", "8 --nnodes=2 --master"))
    has(said["config"], world_size=16, paradigm="zero2", parameter_offload=True)
    said = imported("finetune.sh", TRAINER.replace("full_shard", "hybrid_shard_zero2").replace("4 --master", "8 --nnodes=2 --master"))
    has(said["config"], world_size=16, paradigm="hsdp", hsdp__shard_size=8, fsdp__gather="step")
    said = imported("finetune.sh", TRAINER.rstrip() + " --use_liger_kernel True")
    check(any(line.startswith("kernels of Liger") for line in said["assumed"]) and not said["unknown"], said)
    said = imported("finetune.sh", TRAINER.replace('--fsdp "full_shard auto_wrap"', ""))
    has(said["config"], paradigm="ddp", gradient_dtype="fp32", reduce_dtype=None)
    for argument, text in (("--use_peft True", "use_peft: true; all parameters are trained here"), ("--optim adamw_bnb_8bit", 'optim: "adamw_bnb_8bit"; optimizers are'),
                           ("--deepspeed missing.json", "deepspeed: cannot open missing.json"), ("--attn_implementation eager", 'attn_implementation: "eager"; attention is a fused kernel here')):
        result = run("import", write("finetune.sh", TRAINER.rstrip() + " " + argument), code=CONFIG)
        check("unknown   " + text in result.stderr, text, result.stderr)


def test_files_beside_arguments():
    need_yaml()
    write("z3.json", Z3)
    said = imported("factory.yaml", FACTORY, "--gpus", "8")
    has(said["config"], world_size=8, paradigm="fsdp", batch_size=2, micro_batches=2, model__preset="Llama-3-8B", model__block_size=1024, model__dtype="bf16",
        optimizer__learning_rate=1e-4)
    check(not said["unknown"], said["unknown"])
    write("accelerate.yaml", ACCELERATE.replace("HYBRID_SHARD", "FULL_SHARD"))
    script = TRAINER.replace("torchrun --nproc_per_node=4 --master_port=20001", "accelerate launch --config_file accelerate.yaml")
    said = imported("finetune.sh", script.replace('--fsdp "full_shard auto_wrap"', ""))
    has(said["config"], world_size=16, paradigm="fsdp", batch_size=32)
    launched = script.replace("accelerate.yaml", "none.yaml").replace("--config_file none.yaml", "--num_processes 8 --num_machines 2 --use_fsdp "
        "--fsdp_sharding_strategy HYBRID_SHARD --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP").replace('--fsdp "full_shard auto_wrap"', "")
    said = imported("finetune.sh", launched)
    has(said["config"], world_size=8, paradigm="hsdp", hsdp__shard_size=4)
    check(not said["unknown"], said["unknown"])
    launched = "deepspeed --num_gpus=8 --num_nodes 2 train.py --deepspeed z3.json --model_name_or_path Qwen/Qwen2.5-7B-Instruct --per_device_train_batch_size 4 --bf16"
    said = imported("finetune.sh", launched)
    has(said["config"], world_size=16, paradigm="fsdp", batch_size=4, model__preset="Qwen2.5-7B")
    check(not said["unknown"] and not any("auto" in line for line in said["read"]), said)
    launched = launched.replace("deepspeed --num_gpus=8 --num_nodes 2", "accelerate launch --use_deepspeed --zero_stage 2 --num_processes 8").replace("--deepspeed z3.json", "")
    said = imported("finetune.sh", launched)
    has(said["config"], world_size=8, paradigm="zero2")
    check(not said["unknown"], said["unknown"])
    whole = {"per_device_train_batch_size": 4, "fsdp": [], "fsdp_config": {"min_num_params": 0, "xla": False}, "deepspeed": None, "fp16": False, "bf16": True,
             "accelerator_config": {"split_batches": False}, "optim": "adamw_torch", "skip_memory_metrics": True, "max_steps": -1}
    said = imported("arguments.json", whole, "--model", "Llama-2-7B", "--gpus", "2")
    has(said["config"], paradigm="ddp", batch_size=4)
    check(not said["unknown"], said["unknown"])


def test_axolotl_and_torchtune():
    need_yaml()
    said = imported("axolotl.yaml", AXOLOTL, "--gpus", "8")
    has(said["config"], paradigm="fsdp", batch_size=8, micro_batches=4, parameter_offload=True, model__preset="Llama-3.1-8B", activation="checkpoint",
        optimizer__learning_rate=2e-5, optimizer__master_weights=True)
    check(not any("not packed" in line for line in said["assumed"]) and not said["unknown"], said)
    said = imported("axolotl.yaml", AXOLOTL.replace("bf16: auto", "liger_rope: true\nliger_rms_norm: true\nliger_layer_norm: false"), "--gpus", "8")
    has(said["config"], model__dtype="bf16")
    check(sum("iger" in line for kind in said for line in said[kind]) == 1 and "bf16: auto, the default of axolotl 0.13" in said["assumed"] and not said["unknown"], said)
    alone = AXOLOTL[:AXOLOTL.index("fsdp:")]
    has(imported("axolotl.yaml", alone, "--gpus", "2")["config"], paradigm="ddp", optimizer__master_weights=False, gradient_dtype=None)
    result = run("import", write("axolotl.yaml", AXOLOTL + "adapter: lora\n"), "--gpus", "8", code=CONFIG)
    check('unknown   adapter: "lora"; all parameters are trained here' in result.stderr, result.stderr)
    said = imported("8B_full.yaml", TORCHTUNE, "--gpus", "4")
    has(said["config"], gradient_reduction="each", paradigm="fsdp", batch_size=16, micro_batches=8, model__preset="Llama-3.1-8B", model__block_size=4096, activation="checkpoint",
        optimizer__master_weights=False, optimizer__clip_norm=0, gradient_dtype=None)
    check(any(line.startswith("loss: in chunks there") for line in said["assumed"]) and not said["unknown"], said)
    has(imported("8B_full.yaml", TORCHTUNE + "fsdp_reshard_after_forward: false\nfsdp_cpu_offload: true\n", "--gpus", "4")["config"],
        paradigm="zero2", parameter_offload=True)
    result = run("import", write("lora.yaml", TORCHTUNE.replace("llama3_1_8b", "lora_llama3_1_8b")), "--gpus", "4", code=CONFIG)
    check("lora_llama3_1_8b; all parameters are trained here, and no adapters" in result.stderr, result.stderr)


def test_two_answers_are_not_taken_for_one():
    job, options = {**DEEPSPEED, "train_batch_size": 128}, ("--model", "GPT-2-XL", "--gpus", "8")
    said = imported("ds.json", job, *options)
    has(said["config"], batch_size=16, micro_batches=4)
    check("a step's 128 samples are 4 passes of 4 on 8 data-parallel ranks, not 2" in said["assumed"], said["assumed"])
    result = run("import", write("ds.json", {**job, "fp16": {"enabled": True}}), *options, code=CONFIG)
    check("unknown   fp16.enabled: true, and bf16.enabled too" in result.stderr, result.stderr)


def test_sgd_has_the_momentum_of_its_framework():
    sgd = MEGATRON.replace("--fp16", "--bf16 --optimizer sgd")
    said = imported("train.sh", sgd)
    has(said["config"], optimizer__name="sgd", optimizer__momentum=0.9)
    check(any(line.startswith("sgd-momentum: 0.9, the default") for line in said["assumed"]), said["assumed"])
    for momentum in (0, 0.5):
        has(imported("train.sh", sgd.replace("sgd", f"sgd --sgd-momentum {momentum}"))["config"], optimizer__momentum=momentum)
        config = {"device": "sim", "model": {"preset": "GPTSmall"}, "optimizer": {"name": "sgd", "momentum": momentum}}
        job = run("export", write("x.json", config), "--for", "megatron", "--anyway", code=OK).stdout
        has(imported("train.sh", job, "--gpus", "1", "--assume")["config"], optimizer__momentum=momentum)
    has(imported("train.sh", MEGATRON.replace("--fp16", "--fp16 --sgd-momentum 0.9"))["config"], optimizer__momentum=None)
    job = {**DEEPSPEED, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.8}}}
    has(imported("ds.json", job, "--model", "GPT-2-XL", "--gpus", "16")["config"], optimizer__momentum=0.8)


def test_products_in_fp4():
    result = run("import", write("train.sh", MEGATRON + " --fp4-format e2m1"), code=CONFIG)
    check('unknown   fp4-format: "e2m1"; products are in 16 bits or in FP8 here' in result.stderr, result.stderr)


def test_products_in_fp8():
    flags = MEGATRON.replace("--fp16", "--bf16 --fp8-format hybrid")
    said = imported("train.sh", flags)
    has(said["config"], fp8={"recipe": "delayed"}, model__dtype="bf16")
    for theirs, recipe in (("tensorwise", "current"), ("blockwise", "blockwise"), ("mxfp8", "mxfp8")):
        has(imported("train.sh", flags + f" --fp8-recipe {theirs}")["config"], fp8={"recipe": recipe})
    has(imported("train.sh", MEGATRON + " --fp8-recipe tensorwise")["config"], fp8=None)
    has(imported("train.sh", flags + " --fp8-param-gather")["config"], fp8={"recipe": "delayed", "gather": True})
    result = run("import", write("train.sh", flags + " --fp8-recipe blockwise --fp8-param-gather"), code=CONFIG)
    check("fp8-param-gather: true; parameters with scales of blocks" in result.stderr, result.stderr)
    result = run("import", write("train.sh", flags.replace("hybrid", "e5m2")), code=CONFIG)
    check('fp8-format: "e5m2"; formats are' in result.stderr, result.stderr)
    need_yaml()
    said = imported("bridge.yaml", BRIDGE.replace("train:", "mixed_precision: bf16_with_fp8_current_scaling_mixed\ntrain:"), "--gpus", "16")
    has(said["config"], fp8={"recipe": "current", "gather": True}, model__dtype="bf16")
    said = imported("bridge.yaml", BRIDGE.replace("train:", "mixed_precision: bf16_with_mxfp8_mixed\ntrain:"), "--gpus", "16")
    has(said["config"], fp8={"recipe": "mxfp8"}, model__dtype="bf16")
    result = run("import", write("bridge.yaml", BRIDGE.replace("train:", "mixed_precision: bf16_with_nvfp4_mixed\ntrain:")), "--gpus", "16", code=CONFIG)
    check("mixed_precision: bf16_with_nvfp4_mixed; recipes" in result.stderr, result.stderr)
    for table in ("float8", "quantize.linear.float8"):
        titan = TITAN.replace('flavor = "70B"', f'flavor = "70B"\nconverters = ["{table}"]') + f"\n[{table}]\nenable_fsdp_float8_all_gather = true\n"
        has(imported("70b.toml", titan)["config"], fp8={"recipe": "tensorwise", "gather": True})
        has(imported("70b.toml", titan + 'recipe_name = "rowwise"\n')["config"], fp8={"recipe": "rowwise"})
        has(imported("70b.toml", titan.replace(f'"{table}"', ""))["config"], fp8=None)


def test_yaml_of_nemo_and_megatron_bridge():
    need_yaml()
    said = imported("nemo.yaml", NEMO)
    check(not said["unknown"], said["unknown"])
    has(said["config"], world_size=16, batch_size=2, micro_batches=4, paradigm="zero1", tensor__size=2, model__mlp="swiglu", model__kv_heads=4,
        model__bias="none", model__norm="rms", model__tied=False, model__dtype="bf16", optimizer__beta2=0.95, optimizer__learning_rate=1e-4,
        gradient_dtype="fp32", reduce_dtype=None, optimizer__clip_norm=0)
    said = imported("nemo.yaml", NEMO.replace("betas:", "grad_sync_dtype: bf16, betas:"))
    has(said["config"], gradient_dtype=None, reduce_dtype=None, ddp__overlap_param_gather=False)
    said = imported("nemo.yaml", NEMO.replace("betas:", "overlap_param_sync: true, betas:"))
    has(said["config"], ddp__overlap_param_gather=True)
    said = imported("bridge.yaml", BRIDGE, "--gpus", "16")
    check(not said["unknown"], said["unknown"])
    has(said["config"], paradigm="zero1", batch_size=2, pipeline__stages=2, pipeline__split=[2], model__mlp="swiglu", model__position="rope",
        gradient_dtype="fp32")
    # Keys for YAML's anchors, and sections that are not part of a step, are left out; values merged
    # from an anchor are read where they are merged.
    anchored = "x-common: &common {num_layers: 4, unheard_of: 3}\nnotes: [1]\nscheduler: {lr_decay_iters: 9}\n" + BRIDGE.replace(
        "ddp: {", "ddp: {grad_reduce_in_fp32: false, data_parallel_sharding_strategy: optim, use_megatron_fsdp: true, ")
    said = imported("bridge.yaml", anchored, "--gpus", "16")
    check("x-common, notes, scheduler: not part of a step" in said["left_out"], said["left_out"])
    has(said["config"], gradient_dtype=None, paradigm="zero1")
    result = run("import", write("bridge.yaml", anchored.replace("num_layers: 4, hidden", "<<: *common, hidden")), "--gpus", "16", code=CONFIG)
    check("unheard-of: 3; what that does" in result.stderr, result.stderr)


# Keys of NeMo's own example that follow from others, or have no effect.
NEMO_EXAMPLE = """
trainer: {devices: 1, num_nodes: 1, precision: 16, max_steps: 100000, accumulate_grad_batches: 1, gradient_clip_val: 1.0}
model:
  {micro_batch_size: 4, global_batch_size: 8, encoder_seq_length: 512, num_layers: 12, hidden_size: 768, ffn_hidden_size: 3072, vocab_size: 50304,
   num_attention_heads: 12, hidden_dropout: 0.1, attention_dropout: 0.1, ffn_dropout: 0.0, transformer_block_type: pre_ln, bias: true,
   activation: gelu, fsdp: false, fsdp_sharding_strategy: full, fp8: false, fp8_hybrid: true, use_flash_attention: false, transformer_engine: false,
   cpu_offloading: false, cpu_offloading_num_layers: 11, megatron_amp_O2: false, grad_allreduce_chunk_size_mb: 125, masked_softmax_fusion: true,
   mcore_gpt: true, apply_query_key_layer_scaling: true, apply_rope_fusion: true, gradient_accumulation_fusion: true, overlap_p2p_comm: true,
   optim: {name: fused_adam, lr: 2e-4, sched: {name: CosineAnnealing}}}
"""


def test_a_file_of_changes_has_no_model():
    """Megatron-Bridge's examples change a recipe, which has the sizes."""
    need_yaml()
    changes = "model: {seq_length: 4096}\ntrain: {global_batch_size: 8, micro_batch_size: 1}\n"
    said = run("import", write("changes.yaml", changes), "--gpus", "8", code=CONFIG).stderr
    check("unknown   the file has no model: name it with --model NAME" in said, said)
    has(imported("changes.yaml", changes, "--gpus", "8", "--model", "Llama-3-8B")["config"], model__preset="Llama-3-8B", model__block_size=4096)


def test_nemos_example_says_what_it_means():
    need_yaml()
    said = imported("nemo.yaml", NEMO_EXAMPLE)
    check(not said["unknown"], said["unknown"])
    has(said["config"], model__dtype="fp16", model__attention="unfused", ddp__bucket_mib=65536, paradigm="none", batch_size=8, gradient_dtype="fp32",
        optimizer__clip_norm=1, loss_scaling="dynamic", dynamic_loss_scale={"initial": 2**32, "window": 1000})
    said = imported("nemo.yaml", NEMO_EXAMPLE.replace("precision: 16", 'precision: "16-mixed"').replace("gradient_clip_val: 1.0", "gradient_clip_val: null")
                    .replace("optim:", "native_amp_init_scale: 65536, native_amp_growth_interval: 200, hysteresis: 2, optim:"))
    has(said["config"], model__dtype="fp16", optimizer__clip_norm=0, dynamic_loss_scale={"initial": 65536, "window": 200})
    said = imported("nemo.yaml", NEMO_EXAMPLE.replace("devices: 1", "devices: 4").replace("use_flash_attention: false", "use_flash_attention: true, context_parallel_size: 2"))
    has(said["config"], context__size=2, context__comm_type=None, world_size=4, batch_size=4)
    for old, new, text in (("fp8: false", "fp8: true, fp8_recipe: custom", "fp8-recipe"), ("cpu_offloading: false", "cpu_offloading: true", "cpu-offloading-num-layers: 11"),
                           ("gelu", "squared-relu", "squared-relu"), ("p2p_comm: true", "p2p_comm: false", "beside its passes"), ("pre_ln", "post_ln", "post_ln"), ("fused_adam", "lion", "lion"), ("precision: 16", "precision: transformer-engine", "trainer.precision: transformer-engine"),
                           ("fused_adam", "distributed_fused_adam, dtype: bf16", "Adam's moments are fp32")):
        result = run("import", write("nemo.yaml", NEMO_EXAMPLE.replace(old, new)), code=CONFIG)
        check(any(line.startswith("unknown") and text in line for line in result.stderr.splitlines()), text, result.stderr)


def test_megatron_bridge_pads_the_tokenizers_vocabulary():
    need_yaml()
    said = imported("bridge.yaml", BRIDGE.replace(" vocab_size: 51200,", " mup_width_mult: 1.0, moe_router_topk: 2, activation_func: {_target_: x},").replace(
        "train:", "mixed_precision: bf16_mixed\ntokenizer: {vocab_size: 128000}\ntrain:"), "--gpus", "16")
    check(not said["unknown"], said["unknown"])
    has(said["config"], model__vocab_size=128000, model__dtype="bf16")
    said = imported("bridge.yaml", BRIDGE.replace("51200", "51201"), "--gpus", "16")
    has(said["config"], model__vocab_size=51201)


def test_torchtitan_toml():
    need_yaml()
    said = imported("70b.toml", TITAN)
    has(said["config"], world_size=32, batch_size=1, micro_batches=1, paradigm="fsdp", tensor__size=4, model__preset="Llama-3.1-70B",
        model__block_size=8192, activation="checkpoint", fsdp__gather="micro_batch")
    has(said["config"], gradient_dtype="fp32", reduce_dtype=None)
    said = imported("70b.toml", TITAN.replace("shard_degree = 8", "shard_degree = 1\ncontext_parallel_degree = 8"))
    has(said["config"], world_size=32, batch_size=1, paradigm="fsdp", context__size=8, context__comm_type="all_gather")
    said = imported("70b.toml", TITAN.replace("local_batch_size = 4", "local_batch_size = 1").replace("parallel_degree = 4", "parallel_degree = 8"))
    has(said["config"], world_size=64, tensor__size=8, batch_size=0.125, micro_batches=1)
    check("cannot" not in said, said)
    said = imported("70b.toml", TITAN.replace("shard_degree = 8", "shard_degree = 1"))
    has(said["config"], model__dtype="fp32", paradigm="none")
    result = run("import", write("70b.toml", TITAN.replace("shard_degree = 8", "shard_degree = 1\ndata_parallel_replicate_degree = 2")), code=CONFIG)
    check("torchtitan replicates whole weights only without tensor parallelism" in result.stderr, result.stderr)
    has(imported("70b.toml", TITAN.replace("full", "selective"))["config"], activation="checkpoint", activation_every=2)
    has(imported("70b.toml", TITAN.replace('"full"', '"selective"\nselective_ac_option = "3"'))["config"], activation="checkpoint", activation_every=3)
    said = imported("70b.toml", TITAN.replace('"full"', '"selective"\nselective_ac_option = "op"'))
    has(said["config"], activation="selective_op")
    said = imported("70b.toml", TITAN.replace("[parallelism]", "[parallelism]\nenable_async_tensor_parallel = true"))
    has(said["config"], tensor__overlap=True)


def test_torchtitan_says_what_it_cannot_be():
    need_yaml()
    for key, changed, text in (
            ("local_batch_size = 4", 'local_batch_size = "two"', 'samples of a GPU at a time: "two"; a number from 1 on is expected'),
            ("data_parallel_shard_degree = 8", "data_parallel_shard_degree = 0", "parallelism.data_parallel_shard_degree: 0; -1, or a number from 1 on"),
            ("[parallelism]", '[parallelism]\npipeline_parallel_schedule_csv = "x.csv"', 'parallelism.pipeline_parallel_schedule_csv: "x.csv"; --set'),
            ("seq_len = 8192", 'seq_len = 8192\nmixed_precision_param = "float16"', 'training.mixed_precision_param: "float16"')):
        check(key in TITAN, key)
        result = run("import", write("t.toml", TITAN.replace(key, changed)), "--gpus", "32", code=CONFIG)
        check("unknown   " + text in result.stderr and "(null)" not in result.stderr, result.stderr)
    said = imported("a.yaml", ACCELERATE.replace("bf16", "'no'"), "--model", "GPT-2-XL", "--micro-batch", "1")
    check(not any("fp32 copy" in line for line in said["assumed"]), said["assumed"])


def test_deepspeed_json():
    result = run("import", write("ds.json", DEEPSPEED), code=CONFIG)
    check("--model NAME" in result.stderr and "--gpus N" in result.stderr, result.stderr)
    said = imported("ds.json", DEEPSPEED, "--model", "GPT-2-XL", "--gpus", "16", "--set", "activation=checkpoint")
    has(said["config"], world_size=16, paradigm="fsdp", batch_size=8, micro_batches=2, model__preset="GPT-2-XL", model__dtype="bf16",
        activation="checkpoint")
    check("bf16.enabled: true" in said["read"] and not any(text.startswith("activation:") for text in said["assumed"]), said)


def test_deepspeed_without_zero_is_known_by_its_batches():
    job = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}}
    for given in (job, {**job, "train_micro_batch_size_per_gpu": None, "train_batch_size": 16}):
        said = imported("ds.json", given, "--model", "GPT-2-XL", "--gpus", "4")
        has(said["config"], world_size=4, paradigm="ddp", batch_size=4, model__dtype="bf16")


def test_deepspeed_ulysses_both_ways():
    mesh = {"sequence_parallel_size": 4, "data_parallel_size": 2}
    said = imported("ds.json", {**DEEPSPEED, **mesh}, "--model", "Llama-3.1-8B", "--set", "activation=checkpoint")
    has(said["config"], world_size=8, paradigm="fsdp", batch_size=8, micro_batches=2, context__size=4, context__comm_type="a2a")
    config = {"world_size": 8, "paradigm": "zero1", "device": "sim", "context": {"size": 4, "comm_type": "a2a"}, "model": {"preset": "GPTSmall", "dtype": "bf16"}}
    job = json.loads(run("export", write("x.json", config), "--for", "deepspeed", "--anyway", code=OK).stdout)
    check({key: job.get(key) for key in mesh} == mesh, job)
    config["context"]["comm_type"] = "p2p"
    result = run("export", write("x.json", config), "--for", "deepspeed", code=CONFIG)
    check("context.comm_type: p2p; DeepSpeed Ulysses is a2a" in result.stderr, result.stderr)
    job = json.loads(run("export", write("x.json", {**config, "context": {"size": 1}}), "--for", "deepspeed", "--anyway", code=OK).stdout)
    check(not set(mesh) & set(job), job)


def test_deepspeed_leaves_the_numbers_to_the_script():
    job = {**DEEPSPEED, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "gradient_clipping": "auto"}
    result = run("import", write("auto.json", job), "--model", "GPT-2-XL", "--gpus", "16", "--assume", code=OK)
    check("bf16.enabled: auto" in result.stdout + result.stderr and "fp16.enabled" not in result.stdout, result.stdout, result.stderr)


def test_deepspeed_offloads_to_the_host_alone():
    for stage, device, text in ((3, "nvme", "only cpu and none are possible here"), (2, "cpu", "parameters and optimizer are offloaded together here")):
        job = {**DEEPSPEED, "zero_optimization": {"stage": stage, "offload_optimizer": {"device": device}}}
        said = run("import", write("offload.json", job), "--model", "GPT-2-XL", "--gpus", "16", code=CONFIG).stderr
        check(f"unknown   zero_optimization.offload_optimizer.device: {text}" in said and "left out  zero_optimization.offload" not in said, said)
    job["zero_optimization"]["offload_optimizer"]["device"] = "none"
    has(imported("offload.json", job, "--model", "GPT-2-XL", "--gpus", "16")["config"], parameter_offload=False)


def test_deepspeed_overlaps_where_its_stages_do():
    def read(zero, **others):
        return imported("ds.json", {"bf16": {"enabled": True}, "zero_optimization": zero, **others}, "--model", "GPT-2-XL", "--gpus", "16")
    micro = {"train_micro_batch_size_per_gpu": 4}
    said = read({"stage": 0}, communication_data_type="fp32", **micro)
    has(said["config"], paradigm="ddp", ddp__bucket_mib=65536, ddp__overlap=False, reduce_dtype="fp32")
    wide = {"data_types": {"grad_accum_dtype": "fp32"}}
    has(read({"stage": 1, "overlap_comm": True}, **micro, **wide)["config"], gradient_dtype="fp32", reduce_dtype="bf16", ddp__overlap=False)
    has(read({"stage": 2, "overlap_comm": True}, **micro, **wide, communication_data_type="fp32")["config"], gradient_dtype="fp32", reduce_dtype=None,
        ddp__overlap=True)
    check(any("as many bytes" in line for line in read({"stage": 2}, **micro, communication_data_type="fp16")["alike"]), "fp16 of bf16")
    for stage, dtype in ((0, "fp32"), (2, "fp16")):
        job = {"bf16": {"enabled": True}, "zero_optimization": {"stage": stage}, "data_types": {"grad_accum_dtype": dtype}, **micro}
        check("grad_accum_dtype" in run("import", write("ds.json", job), "--model", "GPT-2-XL", "--gpus", "16", code=CONFIG).stderr, job)
    has(read({"stage": 1}, **micro)["config"], paradigm="zero1", ddp__overlap=False)
    has(read({"stage": 1, "overlap_comm": True, "reduce_bucket_size": 1 << 20}, **micro)["config"], ddp__bucket_mib=2, ddp__overlap=True)
    said = read({"stage": 2, "mics_shard_size": -1}, **micro)
    has(said["config"], paradigm="zero2", ddp__overlap=False)
    check(any("all-reduced" in line for line in said["assumed"]), said["assumed"])
    said = read({"stage": 3, "stage3_max_live_parameters": 7}, train_batch_size=64)
    check(any("up to 7 parameters" in line for line in said["assumed"]), said["assumed"])
    has(said["config"], batch_size=4, micro_batches=1)
    result = run("import", write("ds.json", {"train_batch_size": 64, **micro, "zero_optimization": {"stage": 1}}), "--model", "GPT-2-XL", code=CONFIG)
    check("--gpus N" in result.stderr, result.stderr)


def test_accumulated_gradients_are_reduced_as_their_framework_does():
    for stage, reduction in ((1, "last"), (2, "each"), (3, "each")):
        job = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}
        options = ("--model", "GPT-2-XL", "--gpus", "8")
        has(imported("ds.json", job, *options)["config"], gradient_reduction=reduction, micro_batches=4)
        has(imported("ds.json", {**job, "gradient_accumulation_steps": 1}, *options)["config"], gradient_reduction="last")
    flags = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 512 --micro-batch-size 1 " \
        "--global-batch-size 32 --bf16 --use-distributed-optimizer"
    has(imported("train.sh", flags)["config"], gradient_reduction="last", micro_batches=4)
    for strategy in ("optim_grads", "optim_grads_params"):
        has(imported("train.sh", f"{flags} --use-megatron-fsdp --data-parallel-sharding-strategy {strategy}")["config"], gradient_reduction="each", micro_batches=4)
    config = {"device": "sim", "world_size": 8, "paradigm": "fsdp", "batch_size": 4, "micro_batches": 2, "model": {"preset": "GPTSmall"}}
    said = run("export", write("x.json", config), "--for", "deepspeed", code=OK).stderr
    check('gradient_reduction: "last"; with DeepSpeed it is always "each"' in said, said)
    need_yaml()
    job = TITAN.replace("[training]", "[training]\nglobal_batch_size = 512")
    said = imported("job.toml", job)
    has(said["config"], gradient_reduction="each")
    check(said["config"]["micro_batches"] > 1 and any(line.startswith("gradient_reduction: each") for line in said["assumed"]), said)


def test_accelerate_yaml():
    need_yaml()
    said = imported("fsdp.yaml", ACCELERATE, "--model", "GPT-2-XL", "--micro-batch", "2")
    has(said["config"], world_size=16, paradigm="hsdp", hsdp__shard_size=8, batch_size=2, activation="checkpoint", gradient_dtype="fp32",
        reduce_dtype="bf16")
    check(any("NO_PREFETCH" in line for line in said["assumed"]), said["assumed"])
    model = ["--model", "GPT-2-XL", "--micro-batch", "2"]
    second = ACCELERATE.replace("fsdp_sharding_strategy: HYBRID_SHARD", "fsdp_version: 2, fsdp_reshard_after_forward: false")
    has(imported("fsdp.yaml", second, *model)["config"], paradigm="zero2")
    mesh = "parallelism_config: {parallelism_config_dp_replicate_size: 4, parallelism_config_dp_shard_size: 4, parallelism_config_cp_size: 1}\n"
    has(imported("fsdp.yaml", second.replace("false", "true") + mesh, *model)["config"], paradigm="hsdp", hsdp__shard_size=4)
    for old, new, text in (("TRANSFORMER_BASED_WRAP", "NO_WRAP", "NO_WRAP"), (" fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP,", "", "NO_WRAP, the default"),
                           ("fsdp_sharding_strategy: HYBRID_SHARD", "fsdp_reshard_after_forward: SHARD_GRAD_OP", "the launcher replaces it by FULL_SHARD")):
        result = run("import", write("fsdp.yaml", ACCELERATE.replace(old, new)), *model, code=CONFIG)
        check(text in result.stderr, text, result.stderr)


def test_a_hugging_face_config():
    model = {"model_type": "opt", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "activation_function": "silu"}
    said = imported("config.json", model)
    has(said["config"], model__layers=2, model__attention_dropout="none", model__position_rows=2050)
    check(any("silu" in line for line in said["alike"]), said)


def no_room():
    """Every write of a file fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_what_cannot_be_written_leaves_the_old_file():
    old, config = write("old.json", "as it was"), {"device": "sim", "model": {"preset": "GPTSmall"}}
    for command in (["import", write("ds.json", DEEPSPEED), "--model", "GPT-2-XL", "--gpus", "16"],
                    ["export", write("x.json", config), "--for", "deepspeed", "--anyway"]):
        result = run(*command, "--output", old, code=OUTPUT, preexec_fn=no_room)
        check(f"cannot write {old}: File too large" in result.stderr, result.stderr)
        with open(old, encoding="utf-8") as file:
            check(file.read() == "as it was", command, "has changed the file")
    check(not [name for name in os.listdir(WORK) if name.endswith("~")], "parts of files are left")


def test_export_says_what_it_cannot():
    config = {"world_size": 8, "paradigm": "zero1", "device": "sim", "keep_cheap": "norms", "activation": "offload",
              "model": {"preset": "GPTSmall", "position": "alibi", "dtype": "bf16"}}
    result = run("export", write("x.json", config), "--for", "megatron", code=CONFIG)
    for text in ("keep_cheap: \"norms\"; Megatron-LM has no word for that", "activation: offload;", "model.position: \"alibi\""):
        check("unknown   " + text in result.stderr, text, result.stderr)
    result = run("export", write("x.json", config), "--for", "megatron", "--anyway", code=OK)
    check("--use-distributed-optimizer" in result.stdout and "--num-layers 12" in result.stdout, result.stdout)
    result = run("export", write("x.json", {**config, "paradigm": "none", "world_size": 2, "tensor": {"size": 2}}), "--for", "deepspeed",
                 code=CONFIG)
    check("tensor.size: the JSON alone has no pipeline" in result.stderr, result.stderr)
    check("needs --for" in run("export", "x.json", code=USAGE).stderr, "needs --for")
    check("is not known" in run("export", "x.json", "--for", "x", code=USAGE).stderr, "--for x")


def test_export_of_gathers_in_forward():
    config = {"world_size": 8, "paradigm": "zero1", "device": "sim", "ddp": {"overlap_param_gather": True}, "optimizer": {"name": "adam"},
              "model": {"preset": "GPTSmall", "dtype": "bf16"}}
    check("--overlap-param-gather" in run("export", write("x.json", config), "--for", "megatron", code=OK).stdout, config)
    said = run("export", write("x.json", config), "--for", "deepspeed", code=CONFIG).stderr
    check("ddp.overlap_param_gather: true; DeepSpeed has no word for that" in said, said)
    config["ddp"]["overlap"] = False
    said = run("export", write("x.json", config), "--for", "megatron", code=CONFIG).stderr
    check("ddp.overlap_param_gather: Megatron-LM has it only with ddp.overlap" in said, said)


def test_ranks_in_one_order_are_placed_alike():
    """mesh.order matters only where it places ranks otherwise; a batch below the number of GPUs comes back as it was."""
    config = {"world_size": 16, "global_batch": 4, "paradigm": "zero1", "device": "sim", "tensor": {"size": 8}, "optimizer": {"name": "adam"},
              "model": {"heads": 16, "hidden": 1024, "layers": 4, "dtype": "bf16"}}
    job = run("export", write("x.json", config), "--for", "megatron", code=OK).stdout
    check("--global-batch-size 4" in job and "--micro-batch-size 2" in job, job)
    said = imported("x.sh", job, "--from", "megatron")
    has(said["config"], world_size=16, batch_size=0.25, micro_batches=1, tensor__size=8)
    result = run("export", write("x.json", {**config, "pipeline": {"stages": 2, "order": "1f1b"}, "tensor": {"size": 4}}), "--for", "megatron",
                 code=CONFIG)
    check("mesh.order" in result.stderr, result.stderr)


def test_plan_for_a_framework():
    need_yaml()
    plan = ["plan", "--set", "model.layers=4", "--set", "model.heads=4", "--set", "model.hidden=256", "--gpus", "4", "--global-batch", "16",
            "-q", "--output", os.path.join(WORK, "plan.json")]
    result = run(*plan, "--for", "megatron", code=OK)
    before, job = result.stdout.split("\nfor Megatron-LM\n")
    check("without the limits of Megatron-LM: " in before, before)
    check("torchrun --nnodes 1 --nproc-per-node 4" in job and "unknown" not in job, job)
    said = imported("best.sh", job[job.index("torchrun"):])
    has(said["config"], world_size=4, model__layers=4)
    check("leave out --json" in run(*plan, "--for", "megatron", "--json", code=CONFIG).stderr, "--json")
    # The best allowed plan has a zero-bubble order, for which Megatron-LM has no word.
    plan[plan.index("16")] = "64"
    larger = ["--set", "model.hidden=1024", "--set", "model.vocab_size=1024"]
    pipeline = ["--fix", "paradigm=pdp", "--fix", "pipeline.stages=4", "--fix", "pipeline.chunks=16", "--fix", "activation=keep"]
    said = run(*plan, *larger, *pipeline, "--for", "megatron", code=OK).stdout
    check("it would take  pipeline.order: zb" in said and "; Megatron-LM has 1f1b and interleaved" in said, said)


NCCL_TESTS = """# nThread 1 nGpus 4 minBytes 8388608 maxBytes 134217728 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  10 on     node-1 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  10 on     node-1 device  1 [0x0f] NVIDIA A100-SXM4-80GB
#  Rank  2 Group  0 Pid  11 on     node-2 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  3 Group  0 Pid  11 on     node-2 device  1 [0x0f] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    132.1   63.50   95.25      0    131.7   63.70   95.55      0
   134217728      33554432     float     sum      -1    985.2  136.23  204.35      0    983.9  136.41  204.62      0
# Out of bounds values : 0 OK
"""


def test_validate_reads_what_nccl_tests_prints():
    said = json.loads(run("validate", "--json", "--cluster", "dgx_a100", "--data", write("all_reduce.txt", NCCL_TESTS), code=OK).stdout)
    rows = said["rows"]
    check(len(rows) == 2 and rows[0]["nodes"] == 2 and rows[0]["gpus"] == 4 and rows[1]["measured_gb_per_s"] == 204.35, rows)
    named = "# Collective test starting: all_gather_perf\n" + NCCL_TESTS
    said = json.loads(run("validate", "--json", "--cluster", "dgx_a100", "--data", write("out.txt", named), code=OK).stdout)
    check(all(row["collective"] == "all_gather" for row in said["rows"]), said)
    said = run("validate", "--cluster", "dgx_a100", "--data", write("out.txt", NCCL_TESTS))
    check(said.returncode != OK and "does not say which collective was run" in said.stderr, said.stderr)


def test_a_file_of_nobody():
    said = run("import", write("x.json", {"a": 1}), code=CONFIG).stderr
    check("cannot tell whose job this is" in said and "megatron, torchtitan" in said, said)
    check("a Python file is not run" in run("import", write("x.py", "a = 1"), code=CONFIG).stderr, "Python")
    need_yaml()
    for job in ("trainer: {strategy: {context_parallel_size: 2}}\nmodel: {config: {_target_: Llama3Config8B}}\ndata: {micro_batch_size: 1}",  # NeMo 2
                "trainer: {train_batch_size: 8}\nmodel: {type: gpt2, num_layers: 4}"):  # levanter
        check("cannot tell whose job this is" in run("import", write("x.yaml", job), code=CONFIG).stderr, job)
    job = "trainer: {strategy: {context_parallel_size: 2}}\nmodel: {}"
    said = run("import", write("x.yaml", job), "--from", "nemo", "--model", "Llama-3-8B", "--gpus", "8", "--micro-batch", "1", code=CONFIG).stderr
    check("unknown   trainer.strategy: a recipe of NeMo 2" in said, said)
    check("expected an object of keys and values" in run("import", write("x.json", [1]), "--from", "deepspeed", code=CONFIG).stderr, "a list")
    check("cannot be read" in run("import", os.path.join(WORK, "none.yaml"), code=CONFIG).stderr, "no file")
    need_yaml()
    check("is no TOML" in run("import", write("x.toml", "a = ="), code=CONFIG).stderr, "no TOML")


def test_without_python_yaml_needs_a_word():
    empty = os.path.join(WORK, "empty")
    os.makedirs(empty, exist_ok=True)
    result = run("import", write("nemo.yaml", NEMO), code=CONFIG, environment={"PATH": empty})
    check("YAML is read by python3 and its module yaml" in result.stderr, result.stderr)


if __name__ == "__main__":
    sys.exit(main(globals()))
