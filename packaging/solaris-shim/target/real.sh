# shellcheck shell=sh
# Shared by the commands of this shim: sourced, never run.

here=$(dirname "$(readlink -f "$0")")

# Prints the path of the first program of a name on PATH that is not of this shim.
real() (
    IFS=:
    for folder in $PATH /usr/sbin /usr/bin /sbin /bin; do
        folder=${folder:-.}
        if [ -x "$folder/$1" ] && [ "$(readlink -f "$folder")" != "$here" ]; then
            printf '%s\n' "$folder/$1"
            exit 0
        fi
    done
    echo "$0: $1: not found on PATH" >&2
    exit 127
)
