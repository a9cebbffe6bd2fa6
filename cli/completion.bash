# bash completion for dtbench                                                              -*- shell-script -*-

_dtbench() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=run
    local commands="run check compare merge status validate calibrate list help" common="--config --set --device --help" words=
    COMPREPLY=()
    case ${COMP_WORDS[1]} in
    run | check | compare | merge | status | validate | calibrate | list | help) command=${COMP_WORDS[1]} ;;
    esac
    # "--option=value" arrives in three words: --option, =, value.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = && $COMP_CWORD -ge 2 ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $previous in
    --config | -c | --output | -o)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
        return
        ;;
    --device | -d)
        mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda sim" -- "$current")
        return
        ;;
    --output-dir)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null
        return
        ;;
    --dtype)
        mapfile -t COMPREPLY < <(compgen -W "fp32 bf16 fp16" -- "$current")
        return
        ;;
    --format)
        mapfile -t COMPREPLY < <(compgen -W "table json junit markdown" -- "$current")
        return
        ;;
    --gate | -g)
        mapfile -t COMPREPLY < <(compgen -W "throughput status losses memory missing none" -- "$current")
        return
        ;;
    --set | -s)
        words="name= device= world_size= paradigm= gpus_per_node= share_gpus= straddle_nodes= batch_size=
            micro_batches= gradient_reduction= model.preset= model.layers= model.heads= model.hidden= model.vocab_size=
            model.block_size= model.dtype= model.dropout= model.attention= pipeline.stages= pipeline.chunks=
            pipeline.order= fsdp.unit= hsdp.shard_size= ddp.bucket_mib= parameter_server.servers= tensor.size=
            activation= activation_blocks= parameter_offload= optimizer.name= optimizer.learning_rate=
            optimizer.beta1= optimizer.beta2= optimizer.epsilon= loss= loss_scaling= graph= seed= steps.warmup=
            steps.timed= timeout.init_s= timeout.step_s= nccl.NCCL_ memory_limit_gib= host_memory_limit_gib= threads= cluster=
            profile="
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        compopt -o nospace 2>/dev/null
        return
        ;;
    esac
    if [[ $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --config --help --version" -- "$current")
        return
    fi
    case $command in
    run) words="$common --output --resume --skip-oom --skip-failed --shard --time-limit --verify --trace --dry-run --quiet" ;;
    check) words="$common --json" ;;
    calibrate) words="--output-dir --ranks --threads --dtype --quick --quiet --help" ;;
    validate) words="--data --cluster --profile --set --json --help" ;;
    compare) words="--threshold --format --gate --allow-different --pool --help" ;;
    merge) words="--output --force --help" ;;
    status) words="$common --all --json" ;;
    list) words="--help" ;;
    help) words=$commands ;;
    esac
    if [[ $current == -* || $command == calibrate || $command == list || $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _dtbench dtbench
