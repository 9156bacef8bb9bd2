# fish completion for zoneimg(8). Generated: cargo run -p generate

# The names of the images; ZONES_ROOT counts.
function __zoneimg_images
    PATH=$PATH:/usr/sbin command zoneimg list -p 2>/dev/null | cut -d: -f6
end

function __zoneimg_all
    @zoneimg-subcommands@
end

@function zoneimg-suboptions@

@verb zoneimg -R@

function __zoneimg_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l verb (__zoneimg_verb $words)
    switch "$verb:$words[-1]"
        case :-R
            __fish_complete_directories $current
            return
        case import:-n import:--digest
            return
    end
    if test -z "$verb"
        if string match -q -- '-*' $current
            @zoneimg-options@
        else
            __zoneimg_all
        end
        return
    end
    if string match -q -- '-*' $current
        __zoneimg_suboptions $verb
        return
    end
    switch $verb
        case import
            __fish_complete_path $current
        case inspect verify remove
            __zoneimg_images
        case help
            __zoneimg_all
    end
end

complete -c zoneimg -f -a '(__zoneimg_candidates)'
