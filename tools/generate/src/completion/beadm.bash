# shellcheck shell=bash
# bash completion for beadm(8). Generated: cargo run -p generate

_beadm() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=''
    local -a words=()
    COMPREPLY=()
    if ((COMP_CWORD > 1)); then verb=${COMP_WORDS[1]}; fi
    if [ -z "$verb" ]; then
        words=(list create activate rename destroy)
    elif [[ $current == -* ]]; then
        case $verb in
        list) words=(-H -j) ;;
        create) words=(-a -e) ;;
        destroy) words=(-F) ;;
        esac
    elif [ "$verb" != create ] || [ "$before" = -e ]; then
        mapfile -t words < <(beadm list -H 2>/dev/null | cut -d';' -f1)
    fi
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
}

complete -F _beadm beadm
