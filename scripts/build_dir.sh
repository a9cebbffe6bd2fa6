# Sourced by the other scripts: making and refreshing build directories.
# shellcheck shell=bash

# What was compiled for one copy of the source serves the next one, in whatever folder it lies. It
# is found by the files that the compiler said it had read: without a run of the preprocessor, which
# takes a third of the time of a build that finds nothing.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1

# configure DIR [MESON OPTION...]: set DIR up for this source tree, or bring the options of the one
# that is there up to date. A directory that is broken, or belongs to another copy of the source, is
# made anew.
configure() {
    local dir=$1 log=$1/configure.log
    shift
    if [ -f "$dir/build.ninja" ] && grep -qF "\"source\": \"$PWD\"" "$dir/meson-info/meson-info.json" 2>/dev/null &&
        meson setup --reconfigure "$dir" "$@" >"$log" 2>&1; then
        return 0
    fi
    rm -rf "$dir"
    mkdir -p "$dir"
    # The log is written outside until meson has made the directory its own.
    if ! meson setup "$dir" "$@" >"$dir.log" 2>&1; then
        cat "$dir.log" >&2
        rm -f "$dir.log"
        return 1
    fi
    mv "$dir.log" "$log"
}

# compile DIR [TARGET...]: build everything in DIR, or only the targets, saying something only when
# it fails.
compile() {
    local dir=$1 log=$1/compile.log
    shift
    if ! ninja -C "$dir" "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        return 1
    fi
}

# machine DTBENCH: what it says of this machine's processor and memory, in one line: a table of a
# terminal's width would break it.
machine() { COLUMNS=1000 "$1" list | grep '^cpu '; }

# Options of a build for libFuzzer (scripts/fuzz), and whether clang can make one. Line tables and
# -O1 are what a report needs, and no target needs kernels. (A build type would undo the
# optimisation when Meson is run again.)
# shellcheck disable=SC2034,SC2054 # used where this is sourced; commas of Meson
fuzz_options=(-Ddebug=false -Doptimization=1 -Dc_args=-g1 -Dcpu=disabled -Dmpi=disabled -Dcuda=disabled -Demulated_kernels=false
    -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false)
# Without what compares, libFuzzer learns less of an execution; most of the time went there.
# shellcheck disable=SC2034
fast_fuzz_options=(-Doptimization=2 -Db_sanitize=undefined '-Dc_args=-g1 -fsanitize-trap=undefined -fno-sanitize-coverage=trace-cmp')
can_fuzz() {
    local probe result=0
    command -v clang >/dev/null || return 1
    probe=$(mktemp -d)
    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' >"$probe/probe.c"
    clang -fsanitize=fuzzer,address "$probe/probe.c" -o "$probe/probe" 2>/dev/null || result=1
    rm -rf "$probe"
    return "$result"
}
