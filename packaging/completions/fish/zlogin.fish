# fish completion for zlogin(1). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __zlogin_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

# True as long as no zone is named.
function __zlogin_before
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case -e -l --cwd --env
                set -e words[1]
            case '-*'
            case '*'
                return 1
        end
        set -e words[1]
    end
end

complete -c zlogin -f
complete -c zlogin -n __zlogin_before -s C -d 'the zone\'s console'
complete -c zlogin -n __zlogin_before -s d -d 'with -C: leave when the zone halts'
complete -c zlogin -n __zlogin_before -s E -d 'no escape character'
complete -c zlogin -n __zlogin_before -s e -x -d 'this escape character'
complete -c zlogin -n __zlogin_before -s i -d 'a terminal for the command, too'
complete -c zlogin -n __zlogin_before -s l -x -a '(__fish_complete_users)' -d 'as this user'
complete -c zlogin -n __zlogin_before -s n -d 'standard input is empty'
complete -c zlogin -n __zlogin_before -s Q -d 'without messages of zlogin\'s own'
complete -c zlogin -n __zlogin_before -s S -d 'a plain shell, without login'
complete -c zlogin -n __zlogin_before -s T -d 'the trusted path into an immutable zone'
complete -c zlogin -n __zlogin_before -s U -d 'as -T, with the folders that the zone can write to'
complete -c zlogin -n __zlogin_before -l cwd -x -d 'the folder in which the command runs'
complete -c zlogin -n __zlogin_before -l env -x -d 'a variable for the command, NAME=VALUE'
complete -c zlogin -n '__zlogin_before; and not __fish_contains_opt -s C' -a '(__zlogin_list running)'
complete -c zlogin -n '__zlogin_before; and __fish_contains_opt -s C' -a '(__zlogin_list installed ready running shutting_down down mounted)'
