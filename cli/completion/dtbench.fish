# fish completion for dtbench, which is asked for what it offers (dtbench complete).

function __dtbench_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    for reply in ($words[1] complete $words[2..] "$current" 2>/dev/null)
        switch $reply
            case :files :directories
                set -l value (string replace --regex '.*=' '' -- "$current")
                set -l prefix (string sub --length (math (string length -- "$current") - (string length -- "$value")) -- "$current")
                set -l paths (test $reply = :files; and __fish_complete_path "$value"; or __fish_complete_directories "$value" '')
                printf '%s\n' $prefix$paths
            case :nospace
            case '*'
                echo $reply
        end
    end
end
complete --command dtbench --no-files --arguments '(__dtbench_complete)'
