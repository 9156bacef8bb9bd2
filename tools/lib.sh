# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that source this
# Shared by quickstart, check and the other tools: sourced, never run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly top
readonly bin=$top/target/release

# The file that marks a folder as a quickstart root, so that --remove never
# deletes a folder that quickstart did not make.
readonly root_marker=.zones-quickstart

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    warn "$*"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Milliseconds of a clock that only differences are taken of.
now_ms() {
    local t=${EPOCHREALTIME//[.,]/}
    printf '%s\n' $((t / 1000))
}

# "1234" (milliseconds) as "1.23 s".
as_seconds() { printf '%d.%02d s\n' $(($1 / 1000)) $(($1 % 1000 / 10)); }

# Starts the calling script again as root; the rest of the script runs as root.
# What belongs to the checkout is still done as its user: see as_user.
become_root() {
    [ "$EUID" -ne 0 ] || return 0
    have sudo || die "must be run by root, and there is no sudo here: log in as root and run it again"
    say "${0##*/}: needs root; asking sudo"
    exec sudo -- env \
        USER_PATH="$PATH" CI="${CI-}" PROPTEST_CASES="${PROPTEST_CASES-}" \
        ZONES_ROOT="${ZONES_ROOT-}" ZONES_CGROUP="${ZONES_CGROUP-}" ZONES_PROFILE="${ZONES_PROFILE-}" \
        "$top/${0##*/}" "$@"
}

# Runs a command as the user who called sudo, with that user's PATH and home,
# so that a build uses the user's toolchain and leaves no file of root's behind.
# Without sudo: runs it as we are.
as_user() {
    if [ "$EUID" -eq 0 ] && [ -n "${SUDO_USER-}" ] && [ -n "${USER_PATH-}" ]; then
        local home
        home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        runuser -u "$SUDO_USER" -- env HOME="$home" PATH="$USER_PATH" "$@"
    else
        "$@"
    fi
}

# The oldest Rust that the workspace accepts.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$top/Cargo.toml"; }

# Prints the version of the rustc that would build, or nothing.
rust_found() { { as_user rustc --version 2>/dev/null || true; } | sed -n 's/^rustc \([0-9.]*\).*/\1/p'; }

# version_ge A B: A is B or newer.
version_ge() { printf '%s\n%s\n' "$2" "$1" | sort -CV; }

# The toolchain's own target, with musl as the C library.
musl_target() { rustc -vV | sed -n 's/^host: \(.*-linux\)-.*/\1-musl/p'; }

# Prints why programs cannot be built for that target, or nothing. A toolchain
# that lacks it and can add it gets it.
why_not_musl() {
    local target libs
    target=$(musl_target)
    libs=$(rustc --print target-libdir --target "$target" 2>/dev/null) || libs=
    if compgen -G "$libs/libstd-*.rlib" >/dev/null; then return; fi
    if ! have rustup; then
        say "this Rust has no $target target and there is no rustup to add it"
    elif ! rustup target add "$target" >/dev/null 2>&1; then
        say "rustup could not add the $target target"
    fi
}

# Fetches Debian's package lists, once in a run. Fails when there is no network.
package_lists() {
    [ -z "${lists_fetched-}" ] || return 0
    apt_get update || return 1
    lists_fetched=1
}

# Runs apt-get without a question, after any other that one of our scripts runs; says the end of
# its output when it fails.
apt_get() {
    local log status=0
    log=$(mktemp)
    DEBIAN_FRONTEND=noninteractive flock /var/cache/apt apt-get -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return "$status"
}

# Installs Debian packages. Only called with packages that are missing.
install_packages() {
    have apt-get || die "missing: $*; this script can install packages on Debian and its relatives only: install them by hand and run it again"
    say "installing Debian packages: $*"
    package_lists || die "the package lists cannot be fetched"
    # --no-remove: never take a package of yours away to make room.
    apt_get install -y --no-install-recommends --no-remove "$@" || die "apt-get could not install: $*"
}

# Prints the first of the given pairs "rustc-package cargo-package" that is new enough.
rust_packages() {
    local pair version wanted
    wanted=$(rust_wanted)
    for pair in "$@"; do
        version=$(apt-cache policy "${pair%% *}" 2>/dev/null | sed -n 's/^ *Candidate: //p')
        if [ -n "$version" ] && dpkg --compare-versions "$version" ge "$wanted"; then
            say "$pair"
            return
        fi
    done
}

# Installs what a build needs and this machine has not: a linker, the C library
# to link with, root certificates for cargo, and Rust if there is none.
need_build_tools() {
    local missing=() found wanted pair
    have cc || missing+=(gcc)
    if ! have cc || [ "$(cc -print-file-name=libc.a)" = libc.a ]; then missing+=(libc6-dev); fi
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE-}" ] || missing+=(ca-certificates)
    wanted=$(rust_wanted)
    found=$(rust_found)
    if [ -z "$found" ] || ! as_user cargo --version >/dev/null 2>&1; then
        have apt-get || die "missing: Rust $wanted or newer with cargo"
        # Which of the names there is a new enough one of, the lists tell.
        package_lists || die "the package lists cannot be fetched"
        pair=$(rust_packages "rustc cargo" "rustc-web cargo-web")
        [ -n "$pair" ] || die "this release of Debian has no Rust $wanted or newer: install one and run this again"
        read -ra pair <<<"$pair"
        missing+=("${pair[@]}")
    elif ! version_ge "$found" "$wanted"; then
        die "rustc $found ($(as_user sh -c 'command -v rustc')) is older than $wanted: update it (rustup update), or remove it and run this again"
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        install_packages "${missing[@]}"
    else
        say "packages: nothing missing"
    fi
}

# Tells whether zones can live below the folder: tries an overlay with its upper
# there, in a mount namespace of its own, and what needs whiteouts and attributes.
can_hold_zones() {
    local probe ok=1
    mkdir -p "$1" 2>/dev/null || return 1
    probe=$(mktemp -d "$1/.probe.XXXXXX" 2>/dev/null) || return 1
    # shellcheck disable=SC2016 # $1 is the inner shell's
    unshare --mount --propagation private sh -eu -c '
        cd "$1"
        mkdir -p lower/dir upper work merged
        touch lower/file lower/dir/old
        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
        rm merged/file
        rm -r merged/dir
        mkdir merged/dir
        test -c upper/file
        test ! -e merged/dir/old
    ' probe "$probe" >/dev/null 2>&1 || ok=0
    rm -rf --one-file-system "$probe"
    [ "$ok" -eq 1 ]
}

# Prints the first of the given folders that can hold zones. A folder that is
# not taken and was not there before is not left behind.
first_that_holds_zones() {
    local dir there
    for dir in "$@"; do
        there=0
        [ -d "$dir" ] && there=1
        if can_hold_zones "$dir"; then
            say "$dir"
            return 0
        fi
        [ "$there" -eq 1 ] || rmdir "$dir" 2>/dev/null || true
    done
    return 1
}

# Prints the mount points at and below a folder, as this process sees them.
mounts_below() {
    awk -v dir="$1" '$5 == dir || index($5, dir "/") == 1 { print $5 }' /proc/self/mountinfo
}

# Prints the cgroups at and below /NAME in every hierarchy, the deepest first.
cgroups_below() {
    find /sys/fs/cgroup -depth -type d \( -path "*/${1#/}" -o -path "*/${1#/}/*" \) 2>/dev/null || true
}

# Removes those of them that nothing is in. Processes that are ending have 5 s for it.
remove_cgroups() {
    local group turn
    for ((turn = 0; turn < 50; turn++)); do
        while read -r group; do rmdir "$group" 2>/dev/null || true; done < <(cgroups_below "$1")
        [ -n "$(cgroups_below "$1")" ] || break
        sleep 0.1
    done
}

# remove_resolvers FOLDER: removes the cgroups of the resolvers (dnsmasq) of hosts that were killed.
# FOLDER was mounted on /run/zones-network of these hosts. It outlives them, their /run does not.
remove_resolvers() {
    local link
    for link in "$1"/*/resolver; do
        if [[ $(readlink "$link") =~ /(zones-resolver-[0-9]+)$ ]]; then remove_cgroups "/${BASH_REMATCH[1]}"; fi
    done
}

# enter_copy WORK COMMAND...: continues with the command in a copy of this system: an overlay on
# / whose changes go to memory, with a /run and a /zones of its own. The checkout is in its usual
# place. WORK is an empty folder; the calling process has its own mount and process namespaces.
# After their end, leave_copy removes WORK.
enter_copy() {
    local memory=$1/memory network=$1/network copy=$1/memory/copy
    shift
    mount --make-rprivate /
    mkdir "$memory"
    mkdir -m 755 "$network"
    mount -t tmpfs -o mode=755 zones-copy "$memory"
    mkdir "$memory"/{upper,work} "$copy"
    if ! mount -t overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" overlay "$copy"; then
        say "skipped: no overlay on / here"
        exit 77
    fi
    mount --rbind /dev "$copy/dev"
    mount --rbind /sys "$copy/sys"
    mount -t proc proc "$copy/proc"
    mount -t tmpfs -o mode=755 run "$copy/run"
    mkdir "$copy/run/zones-network"
    mount --bind "$network" "$copy/run/zones-network"
    mkdir -p "$copy/zones" "$copy$top"
    # The root of a zone lies on a file system, not in an overlay.
    mount -t tmpfs -o mode=755 zones "$copy/zones"
    mount --bind "$top" "$copy$top"
    rm -rf --one-file-system -- "$copy/etc/zones"
    # Not chroot: a process in one may make no user namespace.
    cd "$copy" || exit
    pivot_root . mnt
    umount --lazy /mnt
    exec "$@"
}

# leave_copy WORK: removes what a copy of this system has left, after its last process has ended.
leave_copy() {
    remove_resolvers "$1/network"
    if [ -z "$(mounts_below "$1")" ]; then rm -rf --one-file-system "$1"; fi
}

# help_from_head ARGUMENT: if it asks for help, prints the comment at the head of the script and ends.
help_from_head() {
    case ${1-} in
    -h | --help) ;;
    *) return 0 ;;
    esac
    sed -n '2,/^[^#]/ { s/^# \{0,1\}//p; }' "$0"
    exit 0
}
