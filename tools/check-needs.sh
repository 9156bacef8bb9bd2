# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: installs and fetches what the stages need.

# Where programs are that are not installed.
tools=$top/target/tools
PATH=$tools:$top/target/cargo/bin:$PATH
[ -z "${USER_PATH-}" ] || USER_PATH=$top/target/cargo/bin:$USER_PATH

# need_check_tools STAGE...: installs what these stages need. They skip tests, or are skipped, where
# that cannot be done.
need_check_tools() {
    local missing=() stage
    have shellcheck || missing+=(shellcheck)
    # What shows where a test stands still.
    have gdb || have eu-stack || missing+=(gdb)
    # What libFuzzer is compiled with.
    have "${CXX:-c++}" || missing+=(g++)
    need_components
    for stage; do
        if [ "$stage" = deny ]; then need_cargo_deny; fi
    done
    for stage; do
        case $stage in
        scripts | fmt | clippy | fuzz | build | property | deny) ;;
        *)
            need_test_tools
            return
            ;;
        esac
    done
    install_what_can
}
# Installs the packages of $missing.
install_what_can() {
    local package
    [ ${#missing[@]} -gt 0 ] || return 0
    package_lists || true
    # All at once is quicker, but the machine may have one and lack the other.
    (install_packages "${missing[@]}") && return
    for package in "${missing[@]}"; do
        (install_packages "$package") || warn "going on without $package"
    done
}
# Adds rustfmt and clippy to $missing, or has rustup add them.
need_components() {
    local component
    if [ -z "$(as_user sh -c 'command -v rustup')" ]; then
        as_user cargo fmt --version >/dev/null 2>&1 || missing+=("$(component_package rustfmt)")
        as_user cargo clippy --version >/dev/null 2>&1 || missing+=("$(component_package rust-clippy)")
    else
        for component in rustfmt clippy; do
            as_user cargo "${component#rust}" --version >/dev/null 2>&1 ||
                as_user rustup component add "$component" >/dev/null 2>&1 || true
        done
    fi
}
# It takes minutes to build, which is too long for every run.
need_cargo_deny() {
    if [ -n "${ZONES_TEST_LONG-}" ] && ! as_user cargo deny --version >/dev/null 2>&1; then
        as_user cargo install --quiet --locked --root "$top/target/cargo" cargo-deny || warn "going on without cargo-deny"
    fi
}
# What runs zones, machines and other tools.
need_test_tools() {
    local for_vm=() program
    have lintian || missing+=(lintian)
    # The readers of manual pages, and the shells that completions are for.
    have man || missing+=(man-db)
    for program in groff mandoc zsh fish tmux; do
        have "$program" || missing+=("$program")
    done
    # Roots that end-to-end tests install: of this distribution, and for another processor.
    have mmdebstrap || missing+=(mmdebstrap)
    # The kills of the crash stage.
    have strace || missing+=(strace)
    # The disk images of kernel zones.
    have qemu-img || missing+=(qemu-utils)
    # Their UEFI firmware, and what makes a disk for it that is signed.
    [ -e /usr/share/qemu/firmware/60-edk2-x86_64.json ] || missing+=(ovmf)
    have sbsign || missing+=(sbsigntool)
    have mcopy || missing+=(mtools)
    have openssl || missing+=(openssl)
    # File systems, and a server of DHCP that no package starts, for their tests.
    have mksquashfs || missing+=(squashfs-tools)
    have mkfs.btrfs || missing+=(btrfs-progs)
    have mkfs.xfs || missing+=(xfsprogs)
    have dnsmasq || missing+=(dnsmasq-base)
    # The storage of backups, and the server of sftp for those over ssh. Neither runs as a service.
    have restic || missing+=(restic)
    have sqlite3 || missing+=(sqlite3)
    [ -x /usr/lib/openssh/sftp-server ] || missing+=(openssh-sftp-server)
    # A database whose processes share memory: its programs alone, no server is set up.
    if [ -z "$(find /usr/lib/postgresql -name initdb 2>/dev/null)" ]; then
        mkdir -p /etc/postgresql-common/createcluster.d
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/zones-check.conf
        missing+=(postgresql)
    fi
    # What administrators try first, with its file capability.
    have ping || missing+=(iputils-ping)
    have setcap || missing+=(libcap2-bin)
    # The rules of links; its service is not enabled.
    have nft || missing+=(nftables)
    # A firewall of the host beside zones; it is not enabled.
    have iptables || missing+=(iptables)
    have ufw || missing+=(ufw)
    # Package systems of other distributions: roots that they make, and zones that they patch.
    have dnf || missing+=(dnf)
    have rpmbuild || missing+=(rpm)
    have createrepo_c || missing+=(createrepo-c)
    have zypper || missing+=(zypper)
    have pacman || missing+=(pacman-package-manager)
    have pacstrap || missing+=(arch-install-scripts)
    # pacman-key is made of these.
    have makepkg || missing+=(makepkg)
    have gpg-agent || missing+=(gnupg)
    # Signatures of catalogues of images.
    have gpgv || missing+=(gpgv)
    [ -x /usr/bin/qemu-aarch64-static ] || missing+=(qemu-user-static)
    read -ra for_vm < <(tests/vm/run --needs)
    missing+=("${for_vm[@]}")
    if [ -n "${ZONES_TEST_LONG-}${named_zfs-}" ]; then
        read -ra for_vm < <(tests/vm/zfs/run --needs)
        missing+=("${for_vm[@]}")
    fi
    if [ -n "${ZONES_TEST_LONG-}${named_web-}" ]; then
        # Cockpit without its service, and a browser without a screen.
        [ -x /usr/lib/cockpit/cockpit-ws ] || missing+=(cockpit-ws)
        have cockpit-bridge || missing+=(cockpit-bridge)
        [ -d /usr/share/cockpit/systemd ] || missing+=(cockpit-system)
        have sudo || missing+=(sudo)
        have chromium || missing+=(chromium)
        have node || missing+=(nodejs)
        have npm || missing+=(npm)
    fi
    if [ -n "${ZONES_TEST_LONG-}${named_cluster-}" ]; then
        read -ra for_vm < <(tests/cluster/run --needs)
        missing+=("${for_vm[@]}")
        read -ra for_vm < <(tests/vm/cluster/run --needs)
        missing+=("${for_vm[@]}")
    fi
    if [ -n "${ZONES_TEST_LONG-}${named_systemd-}" ]; then
        read -ra for_vm < <(tests/vm/systemd/run --needs)
        missing+=("${for_vm[@]}")
    fi
    install_what_can
    # The kernel of the vm stage is looked for in the lists, too.
    apt-cache show linux-image-amd64 >/dev/null 2>&1 || package_lists || true
    # The checker of metrics, and a registry of others.
    have promtool || fetch_program promtool prometheus || warn "going on without promtool"
    have docker-registry || fetch_program docker-registry docker-registry || warn "going on without docker-registry"
    have ssh && have ssh-keygen || (install_packages openssh-client) || warn "going on without openssh-client"
    have sshd || [ -x /usr/sbin/sshd ] || fetch_sshd || warn "going on without sshd"
    # What zones run in tests, and nobody should find installed: servers, and containers' tools.
    fetch_tree podman podman crun || warn "going on without podman"
    fetch_tree samba samba smbclient || warn "going on without samba"
    if [ -n "${ZONES_TEST_LONG-}" ]; then fetch_tree docker docker.io || warn "going on without docker"; fi
}
# fetch_program PROGRAM PACKAGE: takes one program out of a package. The rest of it is a
# server, which would run here from then on.
fetch_program() (
    mkdir -p "$tools" && cd "$tools" && [ ! -x "$1" ] || return 0
    package_lists && apt-get -qq -o APT::Sandbox::User=root download "$2" &&
        dpkg-deb --fsys-tarfile "$2"_*.deb | tar -x --strip-components=3 "./usr/bin/$1"
    rm -f "$2"_*.deb
    [ -x "$1" ]
)
# fetch_tree NAME PACKAGE...: unpacks packages, and those of their dependencies that are not
# installed here, into trees/NAME beside the programs. Nothing is installed or started.
fetch_tree() (
    local name=$1 fresh packages package
    shift
    [ ! -d "$tools/trees/$name" ] || return 0
    package_lists && mkdir -p "$tools/trees" || return 1
    mapfile -t packages < <(
        apt-get -s install --no-install-recommends --no-remove "$@" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p'
    )
    # Those that are installed are wanted here, too.
    packages+=("$@")
    fresh=$(mktemp -d "$tools/trees/.new.XXXXXX") || return 1
    trap 'rm -rf "$fresh"' EXIT
    mkdir "$fresh/tree" && cd "$fresh" || return 1
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" || return 1
    for package in *.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C tree || return 1
    done
    mv tree "../$name"
)
# Takes sshd out of its package: installed it would be a server of this
# machine. The libraries that it is linked with are installed; they start nothing.
fetch_sshd() (
    mkdir -p "$tools" && cd "$tools" || return 1
    package_lists && apt-get -qq -o APT::Sandbox::User=root download openssh-server || return 1
    local package libraries=()
    for package in $(dpkg-deb -f openssh-server_*.deb Depends | tr ',' '\n' | sed -n 's/^ *\(lib[^ :]*\).*/\1/p'); do
        [ "$(dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || libraries+=("$package")
    done
    [ ${#libraries[@]} -eq 0 ] || (install_packages "${libraries[@]}") || true
    # Newer ones are several programs. The last is the one that is looked for.
    dpkg-deb --fsys-tarfile openssh-server_*.deb |
        tar -x --transform 's,.*/,,' --wildcards './usr/lib/openssh/sshd-*' 2>/dev/null || true
    dpkg-deb --fsys-tarfile openssh-server_*.deb | tar -x --strip-components=3 ./usr/sbin/sshd
    rm -f openssh-server_*.deb
    # Linked with something that is not there it is none.
    [[ $(./sshd -? 2>&1 || true) = *OpenSSH_* ]] || { rm -f sshd; return 1; }
)
# Prints the package of a toolchain component, in the flavour of the toolchain.
component_package() {
    if dpkg-query -W rustc-web >/dev/null 2>&1; then say "$1-web"; else say "$1"; fi
}
