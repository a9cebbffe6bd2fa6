# bash completion for dtbench, which is asked for what it offers (dtbench complete)           -*- shell-script -*-

_dtbench() {
    local line=${COMP_LINE:0:COMP_POINT} words current value prefix='' reply
    read -ra words <<<"$line" # as they are typed: quotes are not taken away
    [[ $line != *[[:space:]] ]] || words+=('')
    current=${words[-1]} value=${words[-1]##*=}
    # Where = breaks words, bash replaces only what comes after it.
    [[ $COMP_WORDBREAKS != *=* ]] || prefix=${current%"$value"}
    COMPREPLY=()
    while IFS= read -r reply; do
        case $reply in
        :files | :directories)
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -"${reply:1:1}" -- "$value")
            compopt -o filenames 2>/dev/null
            ;;
        :nospace) compopt -o nospace 2>/dev/null ;;
        *) COMPREPLY+=("${reply#"$prefix"}") ;;
        esac
    done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -F _dtbench dtbench
