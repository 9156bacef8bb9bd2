# fish completion for zoneimg(8). Generated: cargo run -p generate

# The names of the images; ZONES_ROOT counts.
function __zoneimg_images
    PATH=$PATH:/usr/sbin command zoneimg list -p 2>/dev/null | cut -d: -f6
end

function __zoneimg_all
    printf '%s\t%s\n' help 'Prints usage'
    printf '%s\t%s\n' list 'Lists the images'
    printf '%s\t%s\n' import 'Makes an image and prints its digest'
    printf '%s\t%s\n' search 'Lists the images of all catalogues whose names contain the pattern'
    printf '%s\t%s\n' refresh 'Downloads the catalogues of all remotes, or of these, and checks them'
    printf '%s\t%s\n' remote 'Adds, lists or removes servers of images'
    printf '%s\t%s\n' inspect 'Shows all properties of an image, and the zones and layers that use it'
    printf '%s\t%s\n' verify 'Reads images and compares them with their digests'
    printf '%s\t%s\n' remove 'Removes images'
    printf '%s\t%s\n' prune 'Removes images that no zone, snapshot or layer uses, and leftovers of interrupted imports and commands'
end

function __zoneimg_suboptions
    switch "$argv[1]"
        case list
            printf '%s\t%s\n' -p 'for programs: digest:bytes:users:seconds since 1970:name'
            printf '%s\t%s\n' -j 'as JSON'
        case import
            printf '%s\t%s\n' -n 'the name of the image, by default that of its source'
            printf '%s\t%s\n' --digest 'refuses other content: SHA-256 of the archive, as its'
            printf '%s\t%s\n' --arch 'the kind of machine (arm64), by default that of the host'
            printf '%s\t%s\n' --credentials 'users and passwords of registries, as Docker and Podman'
        case search
            printf '%s\t%s\n' -j 'as JSON'
        case refresh
            printf '%s\t%s\n' --allow-older 'takes a catalogue that is older than the cached one'
        case remote
            printf '%s\t%s\n' --protocol 'simplestreams (the default for https://) or oci (for docker://)'
            printf '%s\t%s\n' --keyring 'a keyring; catalogues must be signed by one of its keys'
            printf '%s\t%s\n' --tls-only 'trust the certificate of the server alone'
            printf '%s\t%s\n' --arch 'the architecture of images, by default that of the host'
            printf '%s\t%s\n' -j 'as JSON'
        case inspect
            printf '%s\t%s\n' -j 'as JSON'
        case remove
            printf '%s\t%s\n' -f 'also an image in use: its files are removed with the last zone or snapshot'
        case prune
            printf '%s\t%s\n' -j 'as JSON'
    end
end

# Among the words given: the subcommand, nothing when there is none yet.
function __zoneimg_verb
    set -l words $argv[2..-1]
    while set -q words[1]
        switch $words[1]
            case -R
                set -e words[1]
            case '-*'
            case '*'
                echo $words[1]
                return 0
        end
        set -e words[1]
    end
    return 1
end

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
            printf '%s\t%s\n' -R 'alternate root'
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
