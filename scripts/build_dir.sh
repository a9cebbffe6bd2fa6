# Sourced by the other scripts: making and refreshing build directories.
# shellcheck shell=bash

# What was compiled for one copy of the source serves the next one, in whatever folder it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# configure DIR [MESON OPTION...]: set DIR up for this source tree, or bring the options of the one that is there up to date. A directory
# that is broken, or belongs to another copy of the source, is made anew.
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

# compile DIR [TARGET...]: build everything in DIR, or only the targets, saying something only when it fails.
compile() {
    local dir=$1 log=$1/compile.log
    shift
    if ! ninja -C "$dir" "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        return 1
    fi
}
