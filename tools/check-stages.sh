# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: the stages.

# ---- what each stage does. Runs in a process of its own, output in its log ----

stage_scripts() {
    # Busybox' shell is checked as dash.
    shellcheck -x --exclude=SC2187 quickstart check .ci/run .ci/rustc tools/*.sh tools/build tools/leftovers tools/rustc-static tools/rustc-quick-start tools/watch-tests \
        tools/check-self-test tools/smoke tools/soak tools/load bench/*/run bench/firsthour/inside bench/brand/pgbench tests/vm/run tests/vm/payload tests/vm/*-init \
        tests/vm/checks tests/vm/cuts tests/vm/lib tests/vm/mirrors tests/vm/zfs/run tests/vm/zfs/payload tests/vm/zfs/old tests/vm/zfs/bench \
        tests/vm/systemd/run tests/vm/systemd/payload tests/vm/systemd/docs tests/vm/systemd/first-hour tests/vm/run-payload tests/vm/cluster/run tests/vm/cluster/rc.zone tests/vm/cluster/host/usr/local/sbin/* tests/vm/patch/run tests/vm/patch/payload tests/vm/quota/run tests/vm/quota/payload \
        tools/deb packaging/deb/postinst packaging/deb/prerm packaging/deb/postrm packaging/deb/cluster.reload tests/packaging/run \
        tests/crash/run tests/man/run tests/completion/run tests/completion/bashrc packaging/completions/bash/* \
        tests/ansible/run tests/salt/run tests/web/run tests/web/bridge-with-fake tests/web/fake/* web/build cluster/ocf/Zone tests/cluster/run tests/cluster/agent tests/cluster/node-root tests/cluster/guest-disk \
        tests/cluster/node-init tests/cluster/rc.zone tests/docs/run tests/docs/session fuzz/run packaging/solaris-shim/target/bin/*
    shellcheck -x --shell=bash tests/docs/before/*
    tools/watch-tests --self-test
    tools/check-self-test
    tests/cluster/agent
    tests/docs/run --self-test
    tests/docs/run --check
}
stage_fmt() { as_user cargo fmt --all --check; }
stage_clippy() { as_user cargo clippy --workspace --all-targets --locked -- -D warnings; }
# One program that fails does not stop the others.
stage_unit() {
    as_user cargo test --workspace --exclude e2e --locked --no-fail-fast -- --show-output || run_again unit as_user
}
stage_fuzz() {
    # What is new is looked for in the long runs: whether a change may land is not left
    # to a seed.
    if [ -n "${ZONES_TEST_LONG-}" ]; then
        as_user fuzz/run --seconds 900
    else
        as_user fuzz/run --again
    fi
}
stage_build() { as_user tools/build; }
stage_man() {
    local status=0
    tests/man/run || status=1
    tests/completion/run || status=1
    return "$status"
}
# The guest of kernel zones is made once; where it cannot be, each test of them says why.
need_guest() {
    rm -rf target/check/guest
    if tests/vm/run --guest "$top/target/check/guest"; then export ZONES_GUEST=$top/target/check/guest; fi
}
stage_e2e() {
    local programs failed=0
    # Built by the user, run by root.
    as_user cargo test -p e2e --locked --no-run 2>&1 | tee target/check/e2e.build
    mapfile -t programs < <(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' target/check/e2e.build)
    [ ${#programs[@]} -gt 0 ] || die "cargo built no test program"
    need_guest
    run_programs target/check/e2e.parts "${programs[@]}" || failed=1
    [ "$failed" -eq 0 ] || run_again e2e
}
stage_ansible() { tests/ansible/run; }
stage_salt() { tests/salt/run; }
stage_web() { tests/web/run; }
stage_cluster() {
    tests/cluster/run ${ZONES_TEST_LONG:+--long} || return
    # Two emulated machines with systemd: half an hour.
    if [ -n "${ZONES_TEST_LONG-}" ]; then tests/vm/cluster/run || [ $? -eq 77 ]; fi
}
stage_smoke() { tools/smoke 3; }
stage_docs() { tests/docs/run ${ZONES_TEST_LONG:+--network}; }
stage_package() { tests/packaging/run; }
stage_load() {
    local count=60
    if [ -n "${ZONES_TEST_LONG-}" ]; then count=1000; fi
    tools/load "$count"
}
stage_crash() {
    local quick=(install clone uninstall snapshot destroy rollback merge environment boot halt reboot ready detach attach)
    local operation only=() slow=() parts
    # A kill waits more than it computes, so each processor has a part of the kills.
    parts=$(nproc)
    as_user cargo build --quiet --package crash --locked
    for operation in "${quick[@]}"; do only+=(--only "$operation"); done
    if [ -z "${ZONES_TEST_LONG-}" ]; then
        tests/crash/run --seconds 60 "${only[@]}"
        return
    fi
    tests/crash/run --parts "$parts" "${only[@]}" || return
    # Imports, patches and migrations take half a minute for each kill, and all of them hours.
    while read -r operation; do slow+=(--only "$operation"); done < <(
        ZONES_BIN=$bin target/debug/crash --list | grep -vE "^($(IFS='|' && say "${quick[*]}"))"
    )
    # Some kills of each operation, not all of the first that is drawn.
    tests/crash/run --parts "$parts" --seconds 1800 --sample 20 "${slow[@]}"
}
stage_vm() {
    # An emulated machine needs ten minutes for the unit tests.
    tests/vm/run ${ZONES_TEST_LONG:+--tests} || return
    tests/vm/quota/run || return
    [ -z "${ZONES_TEST_LONG-}" ] || { tests/vm/run --cuts 5 && tests/vm/patch/run --cuts 50; }
}
stage_zfs() {
    local old='' status=0
    tests/vm/zfs/run --build
    if [ -n "${ZONES_TEST_LONG-}${named_zfs-}" ]; then
        # Not every release has an old one.
        tests/vm/zfs/run --old --build || [ $? -eq 77 ]
    fi
    if tests/vm/zfs/run --old --built; then
        tests/vm/zfs/run --old >target/check/zfs.old 2>&1 &
        old=$!
    fi
    tests/vm/zfs/run || status=$?
    if [ -n "$old" ]; then
        wait "$old" || status=$?
        cat target/check/zfs.old
    fi
    return "$status"
}
stage_systemd() {
    local count=3
    if [ -n "${ZONES_TEST_LONG-}" ]; then count=50; fi
    tests/vm/systemd/run --count "$count" || return
    if [ -n "${ZONES_TEST_LONG-}${named_systemd-}" ] || tests/vm/systemd/run --docs --built; then
        tests/vm/systemd/run --docs || [ $? -eq 77 ]
    fi
    # Half an hour of an emulated package manager: by name and --long together.
    if [ -n "${ZONES_TEST_LONG-}" ] && [ -n "${named_systemd-}" ]; then tests/vm/systemd/run --first-hour; fi
}
# The advisories are fetched from the network and change without us: --long only.
stage_deny() {
    as_user cargo deny --locked check bans licenses sources || return
    if [ -n "${ZONES_TEST_LONG-}" ]; then
        if as_user cargo deny fetch db; then
            as_user cargo deny --locked check advisories
        else
            say "bans, licences and sources are as they must be; the database of advisories cannot be fetched"
            return 77
        fi
    fi
}
stage_property() {
    # Optimised for many cases, but not linked as for a release: that takes longer than they do.
    PROPTEST_CASES=${PROPTEST_CASES:-20000} CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        as_user cargo test -p brand -p packages -p storage -p store -p syntax -p zonecfg --locked --release --target-dir target/property
}
stage_soak() { tools/soak 200; }
stage_upgrade() {
    local old program status=0
    old=$(as_user tools/old-programs) || {
        status=$?
        say "$old"
        return "$status"
    }
    as_user cargo test -p e2e --locked --test upgrade --no-run 2>&1 | tee target/check/upgrade.build
    program=$(realpath "$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' target/check/upgrade.build)")
    need_guest
    (cd tests/e2e && ZONES_OLD_BIN=$old/target/release CARGO_MANIFEST_DIR=$PWD "$program" --show-output) || status=1
    tests/packaging/run --upgrade || [ $? -eq 77 ] || status=1
    return "$status"
}

# Whether a stage runs the programs that the stage build makes.
needs_programs() {
    case $1 in
    man | e2e | ansible | salt | web | cluster | smoke | docs | package | load | crash | vm | zfs | systemd | soak | upgrade) true ;;
    *) false ;;
    esac
}

# Prints why a stage cannot run here, or nothing.
cannot_run() {
    if [ "$build_failed" -ne 0 ] && needs_programs "$1"; then
        say "the build failed"
        return
    fi
    case $1 in
    scripts) have shellcheck || say "shellcheck is not installed" ;;
    fmt) as_user cargo fmt --version >/dev/null 2>&1 || say "cargo fmt is not installed" ;;
    clippy) as_user cargo clippy --version >/dev/null 2>&1 || say "cargo clippy is not installed" ;;
    deny) as_user cargo deny --version >/dev/null 2>&1 || say "cargo-deny is not installed, and takes minutes to build: ./check --long" ;;
    zfs)
        if [ -z "${ZONES_TEST_LONG-}${named_zfs-}" ] && ! tests/vm/zfs/run --built; then
            say "OpenZFS is not built yet, which takes minutes: ./check --long, or ./check zfs"
        fi
        ;;
    systemd)
        if [ -z "${ZONES_TEST_LONG-}${named_systemd-}" ] && ! tests/vm/systemd/run --built; then
            say "no image of Debian is made yet: ./check --long, or ./check systemd"
        fi
        ;;
    esac
}
# The most a stage may take, in seconds: a hang is a failure, not a wait.
limit() {
    case $1 in
    # Older programs are built first.
    fuzz | load | property | soak | upgrade) say 3600 ;;
    # The builds of two releases of OpenZFS took 57 minutes on a slow machine, beside other lanes.
    zfs) say 7200 ;;
    # Fifty zones, and the first hour if it is asked for: both in an emulated machine.
    systemd) if [ -n "${ZONES_TEST_LONG-}" ]; then say 9000; else say 3600; fi ;;
    unit | clippy | build) say 1200 ;;
    # quickstart compiles the programs with a profile of its own.
    smoke) if [ -n "${ZONES_TEST_LONG-}" ]; then say 1800; else say 600; fi ;;
    # A slow machine needs 700 and more, with other stages beside it.
    e2e) if [ -n "${ZONES_TEST_LONG-}" ]; then say 7200; else say 1800; fi ;;
    # A run of each operation for each of its calls; or the one that was begun is finished.
    crash) if [ -n "${ZONES_TEST_LONG-}" ]; then say 10800; else say 600; fi ;;
    # The root of the hosts is made first, at the first time. Each fault takes about 12 s. The two machines of
    # --long are emulated.
    cluster) if [ -n "${ZONES_TEST_LONG-}" ]; then say 6000; else say 1200; fi ;;
    # With the power cuts of --long.
    vm) if [ -n "${ZONES_TEST_LONG-}" ]; then say 7200; else say 1500; fi ;;
    *) say 600 ;;
    esac
}
