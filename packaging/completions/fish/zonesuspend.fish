# fish completion for zonesuspend(8). Generated: cargo run -p generate

function __zonesuspend_all
    printf '%s\t%s\n' help 'Prints usage'
    printf '%s\t%s\n' inspect 'Shows the properties of a suspend image'
    printf '%s\t%s\n' verify 'Reads an image and checks that every part of it is unchanged'
    printf '%s\t%s\n' bench 'Measures suspend and resume on this host'
end

function __zonesuspend_suboptions
    switch "$argv[1]"
        case inspect
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' -k 'the key: 32 bytes, 64 hexadecimal digits, or base64'
        case verify
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' -t 'number of threads, by default one for each processor'
            printf '%s\t%s\n' -k 'the key: 32 bytes, 64 hexadecimal digits, or base64'
        case bench
            printf '%s\t%s\n' -b 'only lz4 and the default with all threads, lz4 with one, and the'
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' -q 'has QEMU write the same memory, too, by its own migration: plain,'
            printf '%s\t%s\n' -m 'of memory, by default 1024; where it is not free twice, images are'
            printf '%s\t%s\n' -n 'of all measurements, by default 5; shown are the slowest and the'
            printf '%s\t%s\n' -t 'at most, by default one for each processor'
            printf '%s\t%s\n' -r 'keeps the memory in files here, as on a file system of huge pages'
    end
end

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
