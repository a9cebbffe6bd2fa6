#compdef dtbench
# zsh completion for dtbench, which is asked for what it offers (dtbench complete).

local reply
local -a offered ending
for reply in ${(f)"$(${(Q)words[1]} complete "${(Q)words[2,CURRENT-1][@]}" "${PREFIX}" 2>/dev/null)"}; do
    case $reply in
    :files | :directories)
        [[ $PREFIX != *=* ]] || compset -P '*='
        [[ $reply == :files ]] && _files || _files -/
        ;;
    :nospace) ending=(-S '') ;;
    *) offered+=("$reply") ;;
    esac
done
(( ! $#offered )) || compadd $ending -- $offered
