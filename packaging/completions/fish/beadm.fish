# fish completion for beadm(8). Generated: cargo run -p generate

function __beadm_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l verb $words[2]
    if test -z "$verb"
        printf '%s\t%s\n' list 'Lists boot environments' \
            create 'Makes one of the root as it is now' \
            activate 'Has the next boot take one' \
            rename 'Gives one another name' \
            destroy 'Removes one'
        return
    end
    if string match -q -- '-*' $current
        switch $verb
            case list
                printf '%s\t%s\n' -H 'For programs' -j 'As JSON'
            case create
                printf '%s\t%s\n' -a 'Activates it' -e 'Makes it of another one'
            case destroy
                printf '%s\t%s\n' -F 'Does not ask'
        end
        return
    end
    if test "$verb" != create; or test "$words[-1]" = -e
        beadm list -H 2>/dev/null | string split -f 1 ';'
    end
end

complete -c beadm -f -a '(__beadm_candidates)'
