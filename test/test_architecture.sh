#!/usr/bin/env bash
# The rules that hold the source together: folders include only what test/architecture.py allows, no
# module uses itself by way of others, a library's header is included only by the files that wrap
# it, each header compiles alone, no function contains #if, all is formatted by clang-format. Prints
# TAP. Usage: test/test_architecture.sh [SOURCE_ROOT [BUILD]]; BUILD is needed for circles of calls.
set -euo pipefail
build=${2:+$(realpath "$2")}
cd "${1:-$(dirname "$0")/..}"

count=0
failures=0

# verdict NAME OFFENDERS: fails when there is anything in OFFENDERS.
verdict() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        failures=$((failures + 1))
        # shellcheck disable=SC2001
        sed 's/^/# /' <<<"$2"
        echo "not ok $count - $1"
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# architecture CHECK NAME [BUILD]: a check of test/architecture.py.
architecture() {
    local offenders
    if [ -z "$python" ]; then
        skip "$2" "no python3"
    else
        offenders=$("$python" test/architecture.py "$1" . "${@:3}" 2>&1) || offenders+=" (test/architecture.py failed)"
        verdict "$2" "$offenders"
    fi
}

# foreign HEADERS ALLOWED: files that include one of HEADERS (an expression) and whose path does not
# match ALLOWED.
foreign() {
    { grep -rnE --include='*.[ch]' "^[[:space:]]*#[[:space:]]*include[[:space:]]+[\"<]($1)[\">]" lib gpt vision schedules predict cli || true; } |
        { grep -vE "^($2)[^/]*\.[ch]:" || true; }
}

python=$(command -v /usr/bin/python3 || command -v python3 || true)
architecture folders "a folder includes only what the list in test/architecture.py allows"
architecture described "each folder says what lives there"
name="no module uses itself by way of others"
if [ -z "$build" ]; then
    skip "$name" "needs a build folder"
else
    architecture circles "$name" "$build"
fi

# unbuilt: files of tests that no meson.build of test/ names, whole or by the test's name.
unbuilt() {
    local file name
    for file in $(git ls-files 'test/*test_*.c' 'test/*test_*.cpp' 'test/*test_*.py' 2>/dev/null); do
        name=$(basename "${file%.*}")
        git grep -qE "$name\\.|'${name#test_}'" -- 'test/*meson.build' test/meson.build || echo "$file"
    done
}
verdict "each test is in a meson.build" "$(unbuilt)"
verdict "each header has #pragma once" "$(git ls-files '*.h' ':!subprojects' 2>/dev/null | xargs -r grep -L '^#pragma once')"
verdict "mpi.h and pmix.h only in lib/comm/mpi" "$(foreign '(mpi|pmix)\.h' 'lib/comm/mpi/')"
verdict "dnnl.h only in the cpu device and the kernels on oneDNN" "$(foreign '(oneapi/dnnl/)?dnnl[a-z_]*\.h' 'lib/(device|kernels)/cpu/|gpt/cpu/matmul/|vision/cpu/')"
verdict "CUDA's headers only in the cuda folders" \
    "$(foreign 'cuda[a-z_]*\.h|cublas[A-Za-z_0-9]*\.h' '(lib/(device|kernels)|gpt|vision)/cuda/')"
verdict "NVTX only in lib/device/range*" "$(foreign 'nvtx3/[A-Za-z]*\.h' 'lib/device/range')"
verdict "nccl.h only in lib/comm/nccl" "$(foreign 'nccl\.h' 'lib/comm/nccl/')"
verdict "slurm.h only in lib/slurm" "$(foreign 'slurm/[a-z_]*\.h|slurm\.h' 'lib/slurm/')"
verdict "cJSON.h only where configs, records and the heads of tensor files are read and written" \
    "$(foreign '(cjson/)?cJSON\.h' 'lib/(config|record|tensors)/|schedules/(config|checkpoint)/|cli/words/|(lib|gpt|vision|schedules|predict|cli)/[a-z_/]*(json|config|record|report|results|show|mllog|bench|trace_path|profile|resume)')"

# Compilers name what a switch over an enum lacks of a new mode, order or kind (-Wswitch-enum), also
# where the enum is kept in a byte: the switch casts it. Where there is a default:, values are
# characters or numbers that come from elsewhere.
verdict "no default: over an enum" "$(
    grep -rnE '^ *default:' lib gpt vision schedules predict cli --include='*.[ch]' |
        grep -vE '^(lib/(config/json_print|record/record_file))\.c:' |
        grep -vE '^cli/records/results_scan\.c:' || true
)"
# A file is at least a thought of 40 lines. Shorter ones stand alone only where a build chooses
# between files (none.c and its counterpart, absent.c, one instruction set) or a folder has a file
# for each row: the commands, the data-parallel modes, a device's kernels, the library that they load.
verdict "no short file but one that a build chooses or a row of a table" "$(
    find lib gpt vision schedules predict cli -name '*.c' | while read -r file; do
        [ "$(wc -l <"$file")" -ge 40 ] || [ -e "${file%.c}_none.c" ] || [ -e "${file%_*}_none.c" ] || echo "$file"
    done | grep -vE '(^|[/_])none\.c$|/(absent|select(_[a-z0-9]+)?|amx|cpu_isa)\.c$|^cli/commands/|^schedules/data_parallel/ddp\.c$|^(gpt|vision)/(cpu|cuda)/[a-z]+\.c$' || true
)"
verdict "no #if inside a function" "$(
    find lib gpt vision schedules predict cli -name '*.[ch]' -exec awk '
        FNR == 1 { inside = 0 }
        /^\{/ { inside = 1 }
        /^\}/ { inside = 0 }
        inside && /^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef)/ { print FILENAME ":" FNR ": " $0 }' {} +
)"

name="clang-format-19 leaves every file as it is"
if ! command -v clang-format-19 >/dev/null; then
    skip "$name" "no clang-format-19"
else
    verdict "$name" "$(
        find lib gpt vision schedules predict cli test scripts \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
            xargs -0 clang-format-19 --dry-run -Werror 2>&1 | grep 'error:' || true
    )"
fi

# A file is as long as its thought. Past 500 lines it is worth another look, no more.
find lib gpt vision schedules predict cli test scripts \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -exec awk '
    FNR == 501 { print "# warning: " FILENAME " has more than 500 lines" }' {} +

# A header says all it needs (those of the emulated GPU are C++, and stand in for CUDA's). The
# wrappers of a library may include that library's header, so its flags are given where pkg-config
# has them. Compiled, and not only read, so that ccache knows it the next time. A header with which
# a file of BUILD begins has been compiled alone there: nothing is before it.
begun_with() {
    local files
    mapfile -t files < <(sed -nE 's|^ *"file": "(\.\./)*([^"]*\.c)",?$|\2|p' "$build/compile_commands.json" 2>/dev/null | xargs -r ls -d 2>/dev/null)
    awk '
        FNR == 1 { begun = 0; folder = FILENAME; sub(/[^\/]*$/, "", folder) }
        !begun && /^ *#/ { begun = 1; if (/^ *# *include "/) { split($0, part, "\""); print part[2]; print folder part[2] } }' "${files[@]}" </dev/null | sort -u
}
compiler=${CC:-cc}
name="each header compiles alone"
if ! command -v "${compiler%% *}" >/dev/null; then
    skip "$name" "no C compiler"
else
    ! command -v ccache >/dev/null || compiler="ccache $compiler"
    object=$(mktemp)
    # of CUDA's libraries there are the tests' own headers
    flags="$(pkg-config --cflags ompi-c 2>/dev/null || true) -Itest/cuda_emulator/include"
    # $flags and $compiler may hold several words.
    # shellcheck disable=SC2086
    verdict "$name" "$(
        find lib gpt vision schedules predict cli test -name '*.h' -not -path 'test/cuda_emulator/*' | sort | comm -23 - <(begun_with) | while read -r header; do
            $compiler -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-unused -Wno-unused-parameter -Wno-format-zero-length -Werror $flags -I. \
                -include "$header" -x c -c /dev/null -o "$object" 2>&1 || echo "$header does not compile alone"
        done
    )"
    rm -f "$object"
fi

name="no file is left with a trailing blank or a tab"
verdict "$name" "$(grep -rnE --include='*.[ch]' --include='*.py' --include='*.json' $'[ \t]+$|\t' lib gpt vision schedules predict cli test scripts configs 2>/dev/null || true)"

echo "1..$count"
exit $((failures > 0))
