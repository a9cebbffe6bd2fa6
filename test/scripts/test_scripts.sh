#!/usr/bin/env bash
# The scripts around dtbench: pictures of good, torn and failed records; the counting of verdicts;
# refusals. Prints TAP. Usage: test/scripts/test_scripts.sh [SOURCE_ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
work=$(mktemp -d)
packed=build-packed # ccache's results only serve builds in the same folder
trap 'rm -rf "$work" "$packed"' EXIT

count=0
failures=0

verdict() { # verdict NAME STATUS
    count=$((count + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $count - $1"
    else
        failures=$((failures + 1))
        [ ! -s "$work/said" ] || sed 's/^/# /' "$work/said"
        echo "not ok $count - $1"
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# draw SCRIPT [ARGUMENT...]: what the script would do as a program, in a process that has matplotlib
# already (warm.py).
draw() {
    local IFS=$'\t' first code
    read -r first <"$1"
    if [ ! -x "$1" ] || [ "$first" != '#!/usr/bin/python3 -s' ]; then
        echo "$1 is no program" >"$work/said"
        return 126
    fi
    echo "$work/said"$'\t'"$*" >&"${WARM[1]}"
    read -r code <&"${WARM[0]}"
    return "$code"
}

# expect NAME STATUS PATTERN COMMAND...: the command must exit with STATUS and say something that
# matches PATTERN, if there is one.
expect() {
    local name=$1 wanted=$2 pattern=$3 status=0
    shift 3
    case ${WARM_PID:+$1} in
    scripts/plot*.py | scripts/plan_map) draw "$@" || status=$? ;;
    *) "$@" >"$work/said" 2>&1 </dev/null || status=$? ;;
    esac
    if [ "$status" -eq "$wanted" ] && { [ -z "$pattern" ] || grep -qE "$pattern" "$work/said"; }; then
        verdict "$name" 0
    else
        echo "# exit status $status instead of $wanted, or nothing like '$pattern' said"
        verdict "$name" 1
    fi
}

# shellcheck disable=SC2317 # called through expect
is_png() { [ "$(head -c 4 "$1" 2>/dev/null | od -An -tx1 | tr -d ' \n')" = 89504e47 ]; }

record() { # record PARADIGM STATUS METRICS LOSSES
    printf '{"schema_version":1,"config":{"world_size":2,"paradigm":"%s","batch_size":2,"model":{"preset":"GPTSmall","block_size":256,"dtype":"bf16"},"steps":{"warmup":1}},"config_hash":"%s","status":"%s","error":null,"losses":%s,"metrics":%s,"provenance":{"device_name":"a processor"}}\n' \
        "$1" "$1" "$2" "$4" "$3"
}

good='{"tokens_per_s":500,"step_s":{"median":2,"p95":2.2,"cv":0.05,"all":[2,2.2,1.9]},"forward_s":0.5,"backward_s":1,"optimizer_s":0.1,"exposed_comm_s":0.3,"peak_bytes":{"total":1500000000,"parameters":324105216,"gradients":324105216,"optimizer":0,"activations":900000000,"communication":1000,"workspace":0}}'
nothing='{"tokens_per_s":null,"step_s":{"median":null,"all":[]},"peak_bytes":{"total":null}}'
{ record ddp ok "$good" '[10.9,10.8,10.7]'; record fsdp oom "$nothing" '[]'; printf '{"schema_ver'; } >"$work/mixed.jsonl"
record pdp failed null null >"$work/failed.jsonl"
mkdir "$work/without" && echo 'raise ImportError("this is none")' >"$work/without/matplotlib.py"
# shellcheck disable=SC2317 # called through expect
without() { PYTHONPATH=$work/without "$@"; }
expect "pictures take their colours from one table" 1 '' grep -nE '(ddp|pdp|fsdp|zero1).*"#[0-9A-F]{6}"' scripts/plot.py scripts/plan_map scripts/study/style.py
expect "plot.py says what it needs" 1 'plot.py: no matplotlib: this is none; install the package python3-matplotlib' without scripts/plot.py "$work/mixed.jsonl"
# Only a package that is not there is skipped: one that cannot be imported shows in the verdicts.
if ! /usr/bin/python3 -s -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("matplotlib"))'; then
    skip "plots with matplotlib" "matplotlib is missing (python3-matplotlib)"
else
    coproc WARM { exec /usr/bin/python3 -s test/scripts/warm.py; }
    expect "plot.py says how many lines it left out" 0 '1 line left out' scripts/plot.py "$work/mixed.jsonl"
    expect "plot.py makes a PNG beside the records" 0 "" is_png "$work/mixed.png"
    expect "plot.py draws a file of failures only" 0 '' scripts/plot.py "$work/failed.jsonl" --output "$work/other.png"
    expect "plot.py writes where it is told" 0 "" is_png "$work/other.png"
    expect "plot.py names a kind of picture that there is not" 1 '^plot.py: cannot write .*x\.xyz: Format' scripts/plot.py "$work/mixed.jsonl" -o "$work/x.xyz"
    : >"$work/empty.jsonl"
    expect "plot.py refuses a file without records" 1 'no record in' scripts/plot.py "$work/empty.jsonl"
    expect "plot.py names a file it cannot read" 1 'cannot read .*none.jsonl' scripts/plot.py "$work/none.jsonl"
    expect "plot.py's SVG has the results" 0 '' scripts/plot.py "$work/mixed.jsonl" -o "$work/mixed.svg"
    for text in '>500<' '>out of memory<' 'mean loss of the step' '>FSDP<' 'a processor, 2 ranks' '>Loss (the curves should coincide)<'; do
        expect "plot.py's SVG has $text" 0 "" grep -q -- "$text" "$work/mixed.svg"
    done
    { head -1 "$work/mixed.jsonl"; record ddp ok "$good" '[10.8,10.6,10.5]' | sed 's/"batch_size":2/"batch_size":4/; s/"config_hash":"ddp"/"config_hash":"4"/'; record fsdp ok '["a list"]' '[1]'; } >"$work/batches.jsonl"
    expect "a record whose metrics are a list is left out" 0 '1 line left out' scripts/plot.py "$work/batches.jsonl" -o "$work/batches.svg"
    expect "curves of two batches need not coincide" 0 '' grep -q '>Loss (curves of the same training should coincide)<' "$work/batches.svg"
    expect "plot.py makes the same file again" 0 '' scripts/plot.py "$work/mixed.jsonl" -o "$work/again.svg"
    expect "the files are the same" 0 '' cmp "$work/mixed.svg" "$work/again.svg"
    expect "plot.py has no axes for losses where there are none" 0 '' scripts/plot.py results/parallel_sim.jsonl "$work/mixed.jsonl" --y rate,time -o "$work/both.svg"
    expect "nor are there any" 1 '' grep -q 'mean loss' "$work/both.svg"
    for text in 'in part predicted for cluster dgx_h100 with profile' '>measured<' '>predicted<' 'ZeRO-1.*tensor 8'; do
        expect "measured and predicted are set apart: $text" 0 '' grep -q -- "$text" "$work/both.svg"
    done
    expect "plot.py draws lines over a key" 0 '' scripts/plot.py results/orders_sim.jsonl --x pipeline.chunks --series pipeline.order \
        --y bubble+bubble_ideal,peak_bytes.activations -o "$work/orders.svg"
    for text in '>zb_auto<' '>micro-batches<' 'Bubble (dotted: bubble of the order alone)' '>GiB<' 'stroke-dasharray'; do
        expect "the picture of orders has $text" 0 '' grep -q -- "$text" "$work/orders.svg"
    done
    expect "plot.py draws bars over words, and says what ran out of memory" 0 '' scripts/plot.py "$work/mixed.jsonl" --x paradigm --y rate,peak_bytes --facet world_size -o "$work/bars.pdf"
    expect "it is a PDF" 0 '^%PDF' head -c 4 "$work/bars.pdf"
    head -1 "$work/mixed.jsonl" >"$work/one.jsonl"
    expect "plot.py draws one record" 0 "" env PYTHONWARNINGS=error scripts/plot.py "$work/one.jsonl" -o "$work/one.svg"
    expect "a metric that only some records have is drawn over a key" 0 '' scripts/plot.py "$work/mixed.jsonl" "$work/failed.jsonl" --x world_size -o "$work/two.svg"
    expect "plot.py names a key that is none" 1 "no record's config has this key" scripts/plot.py "$work/mixed.jsonl" --x nothing
    expect "plot.py names a metric that is none" 1 'no record has this metric' scripts/plot.py "$work/mixed.jsonl" --y nothing
    expect "plot.py says that no record meets a condition" 1 'no record meets the condition: paradigm=hsdp' scripts/plot.py "$work/mixed.jsonl" --where paradigm=hsdp
    sed 's/"config":{/&"name":"ddp, 2 nodes, 100 Mbit\/s","device":"cpu",/' "$work/mixed.jsonl" | head -1 >"$work/network.jsonl"
    expect "plot_emulated_network.py draws step times" 0 '' scripts/plot_emulated_network.py "$work/network.jsonl"
    expect "plot_emulated_network.py writes where it is told" 0 "" is_png "$work/network.png"
    row() { # row KERNEL SECONDS
        printf '{"kernel":"%s","variant":"plain","dtype":"fp32","ranks":1,"threads":1,"rows":64,"columns":128,"inner":32,"alone_s":%s,"together_s":0}' "$1" "$2"
    }
    mkdir "$work/calibrated"
    printf '{"measured":[%s,%s,%s]}' "$(row linear 1e-5)" "$(row copy 1e-6)" "$(row add 0)" >"$work/calibrated/profile.json"
    expect "plot_calibration.py needs both files" 1 'cluster.json: not written by dtbench calibrate' scripts/plot_calibration.py "$work/calibrated"
    printf '{"source":"a machine","gpu":{"peak_tflops":{"fp32":0.09},"memory_gb_per_s":9},"collectives":{"measured":[%s]}}' \
        '{"kind":"all_reduce","ranks":2,"bytes":1024,"seconds":1e-5},{"kind":"all_reduce","ranks":2,"bytes":4096,"seconds":2e-5}' >"$work/calibrated/cluster.json"
    expect "plot_calibration.py draws what calibrate measured" 0 '' scripts/plot_calibration.py "$work/calibrated" -o "$work/calibrated.svg"
    for text in '>peak_tflops<' '>all_reduce<' 'a machine<' 'Collectives of 2 ranks'; do
        expect "the picture of a calibration has $text" 0 '' grep -q -- "$text" "$work/calibrated.svg"
    done
    echo '{"traceEvents": [{"ph": "X", "cat": "compute", "name": "linear", "pid": 0, "ts": 1.0, "dur": 2.0}]}' >"$work/step.trace"
    expect "plot_trace.py draws a step" 0 '' scripts/plot_trace.py "$work/step.trace"
    expect "plot_emulated_network.py refuses other records" 1 'KeyError|name|no record' scripts/plot_emulated_network.py "$work/mixed.jsonl"
    box() { # box MODEL BATCH PLANS
        printf '{"model":"%s","global_batch":%s,"plan":{"plans":[%s],"search":{"interrupted":false},"cluster":"c","profile":"p","rules":[]}}' "$1" "$2" "$3"
    }
    best='{"config":{"paradigm":"fsdp"},"strategy":"FSDP, checkpoint","tokens_per_s":1234,"peak_bytes":1e9}'
    printf '{"boxes":[%s,%s]}' "$(box GPTSmall 64 "$best")" "$(box GPT13B 64 "")" >"$work/map.json"
    expect "plan_map prints a row for each box" 0 '^\| GPTSmall \| 64 \| FSDP, checkpoint \| 1,234 ' scripts/plan_map "$work/map.json" -o "$work/map.png"
    expect "plan_map writes where it is told" 0 "" is_png "$work/map.png"
    expect "plan_map draws SVG where nothing fits, too" 0 '^\| GPT13B \| 64 \| nothing fits ' scripts/plan_map "$work/map.json" -o "$work/map.svg"
    expect "plan_map's SVG is one" 0 '<svg' grep -m 1 '<svg' "$work/map.svg"
    expect "plan_map refuses another file" 1 'map .*--json prints' scripts/plan_map "$work/mixed.jsonl"
    expect "plan_map says what it needs" 1 'needs --models and --batches' scripts/plan_map --models GPTSmall
fi

# A cell of two ways: the predictions prefer the one that takes twice as long.
cat >"$work/validating" <<'END'
#!/bin/sh
if [ "$1" = list ]; then
    echo '  GPTSmall  12 layers  162,000,000'
else
    echo '{"rows": [{"line": 2, "model": "GPTSmall", "gpus": 8, "batch_per_gpu": 4, "measured_step_s": 2, "predicted_step_s": 1},
                    {"line": 3, "model": "GPTSmall", "gpus": 8, "batch_per_gpu": 4, "measured_step_s": 1, "predicted_step_s": 2},
                    {"line": 4, "model": "GPTSmall", "gpus": 8, "batch_per_gpu": 8, "measured_step_s": 1, "predicted_step_s": 1}]}'
fi
END
chmod +x "$work/validating"
printf '%s\n' paradigm,activation,gpus,gpus_per_node,step_s ddp,keep,8,8,2 fsdp,keep,8,8,1 ddp,keep,8,8,1 >"$work/measured.csv"
expect "regret finds what predictions lose" 0 '^the plan +1 +50\.0 ' scripts/regret --dtbench "$work/validating" "$work/measured.csv"
expect "regret finds what a rule loses" 0 '^always FSDP +1 +0\.0 ' scripts/regret --dtbench "$work/validating" "$work/measured.csv"
expect "regret takes the fastest of any batch" 0 '^the plan +1 +0\.0 ' scripts/regret --any-batch --dtbench "$work/validating" "$work/measured.csv"
expect "regret has a row for each table with a choice" 0 '^. .vtrain_single.csv. . 1 . 0 . 50\.0 . 50\.0 . 50\.0 . ' scripts/regret --tables --dtbench "$work/validating"
expect "regret passes on what dtbench refuses" 1 '^regret: ' scripts/regret --dtbench /bin/false "$work/measured.csv"

cat >"$work/testlog.json" <<'LOG'
{"name": "a", "stdout": "1..3\nok 1 - x\n# a.py:7: Wrong: exit code 3, not 0\n# more of it\nnot ok 2 - y\nok 3 - z # SKIP no device\n", "result": "FAIL", "returncode": 1, "duration": 12.34}
{"name": "b", "stdout": "1..3\nok 1 - x\n# b.c:9: n == 2: 3\n", "result": "FAIL", "returncode": -11, "stderr": "==7==ERROR: it is long\nSUMMARY: AddressSanitizer: SEGV b.c:10\n==7==ABORTING\n"}
{"name": "c", "stdout": "1..0 # SKIP no library\n", "result": "SKIP", "returncode": 0}
{"name": "d", "stdout": "", "result": "FAIL", "returncode": 1, "stderr": "Traceback (most recent call last):\n  File x\nOSError: out of pty devices\n"}
LOG
printf 'meson\tunit\t%s\ncheck\tbuild\tfailed\ta.c:1:2: error: no ; (exit status 1)\ntook\t432\t801.5\n' "$work/testlog.json" >"$work/results"
expect "a crash, a failed case and skipped ones are counted" 1 '^2 passed, 4 failed, 2 skipped$' scripts/test_summary.py "$work/results"
expect "the reason of a skip is told" 1 '^skipped: unit: c \(no library\)$' scripts/test_summary.py "$work/results"
expect "the check that failed is told" 1 '^failed: unit: a: y \(a\.py:7: Wrong: exit code 3, not 0\)$' scripts/test_summary.py "$work/results"
expect "a crash is told with what was said before" 1 '^failed: unit: b \(fail, exit status -11, after b: x; SUMMARY: AddressSanitizer: SEGV b\.c:10; b\.c:9: n == 2: 3\)$' scripts/test_summary.py "$work/results"
expect "an exception outside of all cases is told" 1 '^failed: unit: d \(fail, exit status 1; OSError: out of pty devices\)$' scripts/test_summary.py "$work/results"
expect "what a compiler refuses is told" 1 '^failed: build \(a\.c:1:2: error: no ; \(exit status 1\)\)$' scripts/test_summary.py "$work/results"
expect "the longest tests are in a table" 1 '^a +unit +12\.3$' scripts/test_summary.py "$work/results"
expect "the time that all took is told" 1 '^7\.2 min, 802 s of processor time$' scripts/test_summary.py "$work/results"
printf 'meson\tunit\t%s\n' "$work/nowhere.json" >"$work/results"
expect "a run without a log is a failure" 1 '^0 passed, 1 failed, 0 skipped$' scripts/test_summary.py "$work/results"

# The terminals of a minimal root: none. The program is not started.
without_terminals=(unshare --mount --map-root-user sh -c 'mount -t tmpfs none /dev && exec "$@"' sh)
if "${without_terminals[@]}" true 2>/dev/null; then
    expect "a case that needs a terminal is skipped where there is none" 0 '^ok 1 .* # SKIP needs a terminal: no /dev/ptmx' \
        "${without_terminals[@]}" /usr/bin/python3 -s test/cli/test_runs_cli.py /bin/false progress_on_a_terminal
else
    skip "a case that needs a terminal is skipped where there is none" "no namespace of mounts"
fi

expect "setup refuses an unknown option" 2 "unknown option '--tset'" scripts/setup --tset
expect "test refuses an unknown option" 2 "unknown option '--quik'" scripts/test --quik
expect "fuzz refuses an unknown option" 2 "unknown option '--second'" scripts/fuzz --second 3
expect "gate refuses an unknown option" 2 "unknown option '--rouns'" scripts/gate --rouns 3
expect "gate names a build that is not there" 2 'there is no nowhere/dtbench' scripts/gate --base nowhere/dtbench
expect "check_calibration refuses a model that it has not" 2 "there is no large" scripts/check_calibration --models large
# A program whose predictions take twice as long as what it measures, or as much longer as the
# folder says.
mkdir "$work/calibration"
cat >"$work/twice" <<'END'
#!/bin/sh
seconds=1
! grep -q '"device": "sim"' "$2" || seconds=$(cat "$(sed 's/.*"cluster": "\([^"]*\)cluster.json".*/\1/' "$2")longer")
echo '{"status":"ok","metrics":{"step_s":{"all":['"$seconds"'],"median":'"$seconds"'},"peak_bytes":{"by_ranks":[8]},"host_peak_bytes":{"by_ranks":[8]}}}' >"$4"
END
chmod +x "$work/twice"
check_calibration=(env -C "$work" "$PWD/scripts/check_calibration" --program twice --models small --rounds 1 --calibration)
expect "check_calibration names what a calibration lacks" 2 'there is no .*/calibration/cluster.json; dtbench calibrate writes it' "${check_calibration[@]}" calibration
echo '{"sources": {}}' | tee "$work/calibration/profile.json" >"$work/calibration/cluster.json"
echo 2 >"$work/calibration/longer"
expect "check_calibration holds a calibration against runs" 1 '^off by 100.0 % in the median, 100.0 % at most; the bar is 15 %$' "${check_calibration[@]}" calibration
expect "the calibration gets the error" 0 '"median": 1.0,' cat "$work/calibration/profile.json"
echo 20 >"$work/calibration/longer"
expect "check_calibration writes no error that a profile cannot have" 1 '^off by more than 10 times: .* keeps the error that it has' "${check_calibration[@]}" calibration
expect "the calibration keeps its error" 0 '"median": 1.0,' cat "$work/calibration/profile.json"
expect "emulated_network takes whole numbers" 2 "invalid numbers value" scripts/emulated_network --rates fast
expect "check_calibration says what dtbench could not do" 2 "check_calibration: " scripts/check_calibration --program nowhere/dtbench
expect "first_gpu says what is missing" 2 'no dtbench: neither nowhere/cli/dtbench nor' scripts/first_gpu "$work/first" --build nowhere
expect "benchmark_gpu names a program that is not there" 2 'nowhere/dtbench is missing' scripts/benchmark_gpu --dtbench nowhere/dtbench
expect "benchmark_gpu says what a case is" 2 'GPTSmall:8' scripts/benchmark_gpu --dtbench /bin/true --cases GPTSmall

# shellcheck disable=SC2016 # for the inner shell
mkdir -p "$work/venv/bin" && printf '#!/bin/sh\necho the PyTorch of "$0"\n' >"$work/venv/bin/python" && chmod +x "$work/venv/bin/python"
expect "benchmark_gpu takes the PyTorch of an environment" 1 'venv/bin/python .*its output is no JSON' scripts/benchmark_gpu --dtbench /bin/true --venv "$work/venv"

expect "bundle refuses an unknown option" 2 "unknown option '--outptu'" scripts/bundle --outptu x
# For time without the large parts, and as scripts/test compiles them, so that ccache has most of it
# already. Run somewhere else, with an empty environment.
expect "bundle packs what runs elsewhere" 0 'bundle: .*glibc [0-9.]+ or newer' env -u CC scripts/bundle --build "$packed" --output "$work/bundle.tar.gz" \
    -Dcuda=disabled -Dcpu=disabled -Dinstruction_sets=native -Doptimised_kernels=false
mkdir "$work/elsewhere"
tar -xf "$work/bundle.tar.gz" -C "$work/elsewhere" || true
unpacked=$(echo "$work"/elsewhere/dtbench-*)
expect "without oneDNN the test programs that pack_gpu packs can be linked" 0 'test_kernels' ninja -C "$packed" test/test_kernels
rm -rf "$packed"
expect "the bundle brings its own libraries" 0 "$unpacked/bin/../lib/libcjson" env -i LD_DEBUG=libs "$unpacked/bin/dtbench" --version
expect "the bundle has the licences of what is in it" 0 'Dave Gamble' cat "$unpacked/licences/libcjson1"
expect "the bundle has a bill of its materials" 0 "cJSON MIT lib/libcjson[.0-9a-z]*: [0-9a-f]{64}" /usr/bin/python3 -s -c 'import json, sys
for part in json.load(open(sys.argv[1]))["components"]:
    print(part["name"], *(l["license"]["name"] for l in part.get("licenses", [])), part["properties"][0]["value"] + ":", *(h["content"] for h in part.get("hashes", [])))' \
    "$unpacked/sbom.cdx.json"
expect "the bundle finds its configs" 0 '"status":"ok"' env -i "$unpacked/bin/dtbench" run "$unpacked/share/dtbench/configs/smoke.json" --device sim --output -

# A program outside of the checkout, without configs beside it.
mkdir "$work/alone" && cp -r "$unpacked/bin" "$unpacked/lib" "$work/alone"
# shellcheck disable=SC2016 # for the inner shell; whether the profile's error is up to date is no matter here
expect "fit_errors takes this checkout's configs with a program from elsewhere" 0 '^pytorch_1.11_v100: median ' \
    sh -c 'scripts/fit_errors pytorch_1.11_v100 --check --dtbench "$0" || true' "$work/alone/bin/dtbench"
expect "fit_errors names a program that is not there" 1 '^fit_errors: .*/nowhere/dtbench: no such program' scripts/fit_errors --dtbench nowhere/dtbench
expect "validation takes this checkout's configs with a program from elsewhere" 0 '' \
    scripts/validation --check --only nccl_node --dtbench "$work/alone/bin/dtbench"
expect "validation names a program that is not there" 1 '^validation: .*/nowhere/dtbench: no such program' scripts/validation --dtbench nowhere/dtbench

# A stand-in for PyTorch: the table of several GPUs, with dtbench's simulated ones.
cat >"$work/venv/bin/python" <<'FAKE'
#!/bin/sh
case "$*" in
*ceilings*) echo '{"device": "fake", "devices": 2, "flops_per_s": 1e15, "bytes_per_s": 1e12}' ;;
*reduce-overhead*) echo "pytorch_gpt: no graphs" >&2; exit 1 ;;
*"--warmup-s 0.5 "*) echo '{"version": "fake", "ranks": 2, "parameters": 1000, "step_s": [0.5], "tokens_per_s": 100.0, "peak_device_bytes": 1000000}' ;;
esac
FAKE
expect "benchmark_gpu holds FSDP against PyTorch's on all GPUs" 0 'PyTorch FSDP2, tokens/s +100$' scripts/benchmark_gpu --device sim \
    --dtbench "$unpacked/bin/dtbench" --venv "$work/venv" --cases GPTSmall:1 --rounds 1 --warmup 1 --warmup-s 0.5 --steps 1 --output "$work/benchmark.json"
expect "benchmark_gpu goes on after a peer that fails" 0 'CUDA graphs: pytorch_gpt.py: exit status 1: pytorch_gpt: no graphs' scripts/benchmark_gpu \
    --device sim --dtbench "$unpacked/bin/dtbench" --venv "$work/venv" --cases GPTSmall:1 --ranks 1 --rounds 1 --warmup 1 --warmup-s 0.5 --steps 1 --output "$work/benchmark.json"
mkdir "$work/few"
for program in bash dirname env id; do ln -s "$(command -v $program)" "$work/few/$program"; done
expect "bundle refuses a CUDA that it cannot fetch" 2 "cuda wants 12, not '11'" scripts/bundle --cuda 11
expect "bundle names an nvcc that is not there" 1 'nowhere/nvcc is no program' scripts/bundle --nvcc nowhere/nvcc
expect "get_cuda12 says what it has not" 1 'get_cuda12: .*apt-get is missing' env PATH="$work/few" /usr/bin/python3 -s scripts/get_cuda12 --folder "$work/cuda"

expect "quickstart refuses another output" 2 'out/quickstart.jsonl' scripts/quickstart --output elsewhere.jsonl

expect "check_fresh refuses a Debian that it does not know" 2 "unknown option 'buster'" scripts/check_fresh buster
expect "check_fresh refuses a command that it does not know" 2 "not 'gate'" scripts/check_fresh --only gate
expect "check_fresh names a tarball that is not there" 2 "not 'nowhere.tar.xz'" scripts/check_fresh --tarball nowhere.tar.xz
if [ -e .git ] && git rev-parse --git-dir >/dev/null 2>&1; then
    expect "a release's tarball knows its commit" 0 '^[0-9a-f]{40}$' bash -o pipefail -c 'git -c safe.directory="*" archive HEAD lib/record/commit | tar -xO'
elif [ -e .git ]; then
    skip "a release's tarball knows its commit" "git does not read this clone"
else
    expect "a release's tarball knows its commit" 0 '^[0-9a-f]{40}$' cat lib/record/commit
fi
expect "make_deb puts debian/ into the source" 0 '^make_deb: .*/dtbench-[0-9.]+$' scripts/packaging/make_deb --only-source --output "$work/deb"
# of what is committed, or of a release's folder
expect "the package has the version of the source" 0 '^dtbench \([0-9.]+\) unstable' head -1 "$work"/deb/dtbench-*/debian/changelog
expect "check_fresh says why it cannot" 77 'skipped: ' env PATH="$work/few" scripts/check_fresh trixie

# An installation that is interrupted while it is made: with a mount of its own and a process that
# would go on, which another run of this test would not take for its own.
name="check_fresh leaves nothing behind when it is ended"
if [ "$(id -u)" -ne 0 ] || ! command -v git >/dev/null || ! unshare --mount --mount-proc --pid --fork --kill-child --uts true 2>/dev/null; then
    skip "$name" "needs root, git and name spaces (unshare)"
else
    mkdir "$work/fake" "$work/tmp"
    seconds=61.$$
    # shellcheck disable=SC2016 # for the inner shell
    printf '#!/bin/sh\nmkdir "$3" && mount -t tmpfs none "$3" && touch "%s/there" && exec sleep %s\n' "$work" "$seconds" >"$work/fake/debootstrap"
    chmod +x "$work/fake/debootstrap"
    TMPDIR=$work/tmp PATH=$work/fake:$PATH scripts/check_fresh trixie --logs "$work/logs" >"$work/said" 2>&1 &
    pid=$! status=0
    for ((i = 0; i < 300; i++)); do [ ! -e "$work/there" ] || break; sleep 0.1; done
    kill -TERM $pid
    wait $pid || status=$?
    left=$(ls -A "$work/tmp")$(grep -lzxF "$seconds" /proc/[0-9]*/cmdline 2>/dev/null || true)$(grep -F "$work/tmp" /proc/mounts || true)
    echo "exit status $status, left: $left" >>"$work/said"
    verdict "$name" $((status != 143 || ${#left} > 0))
fi

echo "1..$count"
exit $((failures > 0))
