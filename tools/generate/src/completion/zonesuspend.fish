# fish completion for zonesuspend(8). Generated: cargo run -p generate

function __zonesuspend_all
    @zonesuspend-subcommands@
end

@function zonesuspend-suboptions@

function __zonesuspend_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l verb $words[2]
    switch "$verb:$words[-1]"
        case bench:-r
            __fish_complete_directories $current
            return
        case 'bench:-m' 'bench:-n' 'bench:-t' 'verify:-t'
            return
    end
    if test -z "$verb"; or test "$verb" = help
        __zonesuspend_all
        return
    end
    if string match -q -- '-*' $current
        __zonesuspend_suboptions $verb
        return
    end
    __fish_complete_path $current
end

complete -c zonesuspend -f -a '(__zonesuspend_candidates)'
