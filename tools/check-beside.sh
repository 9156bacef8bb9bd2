# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: runs two stages, and several programs of end-to-end tests, at a time.
#
# Many stages keep one processor busy, or wait. A stage of the first track uses the build folder of
# the tests, or makes zones on this host and looks for traces of them: one of these runs at a time.
# The other stages have a machine, namespaces or a build folder of their own, and run beside it.

first_track() {
    case $1 in
    fmt | unit | e2e | ansible | salt | smoke | load | crash | soak | upgrade) true ;;
    *) false ;;
    esac
}

# build_folder NAME: prints the folder that the stage builds in, if it is one of its own. What clippy
# makes is of no use for the tests, and the two would wait for each other's lock.
build_folder() { [ "$1" != clippy ] || say "${CARGO_TARGET_DIR:-$top/target}/clippy"; }

# can_begin NAME: whether the stage can start beside those in $running (a name for each process).
can_begin() {
    local other
    if needs_programs "$1" && [ "$build_pending" = 1 ]; then return 1; fi
    for other in "${running[@]}"; do
        if first_track "$1" && first_track "$other"; then return 1; fi
    done
}

# The process of the stage build, if begin_build has started it.
build_process=''
# begin_build: starts the stage build. The packages that other stages need are installed meanwhile, and
# an installation mostly waits for the network and for the disk.
begin_build() {
    # rustup must not change the toolchain during the build. Packages that are found missing here are
    # installed by need_check_tools.
    local missing=()
    need_components
    if begin_stage build; then
        build_process=$begun
        trap 'kill "$build_process" 2>/dev/null; exit 130' INT TERM
    fi
}

# run_beside NAME...: runs the stages, two at a time, and prints each result when it is there.
# build comes first, because most stages wait for it. unit comes next: the stages of the first track
# take longer than the others together, and unit is the longest that does not wait for build. clippy
# comes after e2e, because e2e leaves processor time to a stage beside it.
run_beside() {
    local -A running=()
    local pending=() name process build_pending=0
    for name; do
        case $name in
        build) build_pending=1 ;;
        unit) pending=(unit "${pending[@]}") ;;
        *) pending+=("$name") ;;
        esac
    done
    if [ "$build_pending" = 1 ]; then
        if [ -z "$build_process" ]; then
            pending=(build "${pending[@]}")
        elif kill -0 "$build_process" 2>/dev/null; then
            running[$build_process]=build
        else
            # wait -n may no longer know a process that ended during the installation.
            end_stage build
            build_pending=0
        fi
        build_process=''
    fi
    if [[ " ${pending[*]} " = *" clippy "*" e2e "* ]]; then
        local later=()
        for name in "${pending[@]}"; do
            case $name in
            clippy) ;;
            e2e) later+=(e2e clippy) ;;
            *) later+=("$name") ;;
            esac
        done
        pending=("${later[@]}")
    fi
    trap 'kill "${!running[@]}" 2>/dev/null; exit 130' INT TERM
    while [ ${#pending[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
        begin_what_can
        [ ${#running[@]} -gt 0 ] || continue
        wait -n -p process "${!running[@]}" || true
        name=${running[$process]}
        unset "running[$process]"
        end_stage "$name"
        if [ "$name" = build ]; then build_pending=0; fi
    done
    trap - INT TERM
}
# Starts stages of $pending as long as fewer than two run.
begin_what_can() {
    local name rest=()
    for name in "${pending[@]}"; do
        if [ ${#running[@]} -ge 2 ] || ! can_begin "$name"; then
            rest+=("$name")
        elif begin_stage "$name"; then
            running[$begun]=$name
        elif [ "$name" = build ]; then
            build_pending=0
        fi
    done
    pending=("${rest[@]}")
}

# ---- programs of end-to-end tests ----

# They wait more than they compute: for zones that boot, timers, and the kernel. So one more runs
# than there are processors, but at most four: more only wait for each other's locks in the kernel.
programs_at_once() {
    local programs
    programs=$(($(nproc) + 1))
    say $((programs < 4 ? programs : 4))
}

# run_programs FOLDER PROGRAM...: runs the test programs, some at a time. The output of each is in
# FOLDER while it runs, and is printed when it has ended. Fails if a program fails.
# With --long the programs take an hour. After a run that failed or was cut off, the next run leaves out
# each program that has passed, if the program and the files of the product are still the same.
run_programs() {
    local parts=$1 program part process status=0 most passed='' key=''
    local -A running=()
    shift
    most=$(programs_at_once)
    if [ -n "${ZONES_TEST_LONG-}" ] && hash_inputs; then
        passed=${parts%.parts}.passed
        mkdir -p "$passed"
    fi
    rm -rf "$parts"
    mkdir -p "$parts"
    # At its time limit, the stage tells how far each program came.
    trap 'cat "$parts"/*; exit 143' TERM
    for program in "$@" ''; do
        # After the last program all have to end.
        while [ ${#running[@]} -ge "$most" ] || { [ -z "$program" ] && [ ${#running[@]} -gt 0 ]; }; do
            wait -n -p process "${!running[@]}" || status=1
            cat "${running[$process]}"
            rm "${running[$process]}"
            unset "running[$process]"
        done
        [ -n "$program" ] || break
        program=$(realpath "$program")
        part=$parts/${program##*/}
        if [ -n "$passed" ]; then
            key=$(key_of_program "$program")
            if [ "$key" = "$(cat "$passed/${program##*/}" 2>/dev/null)" ]; then
                say "passed before: ${program##*/}"
                continue
            fi
        fi
        {
            run_program "$program" && { [ -z "$passed" ] || say "$key" >"$passed/${program##*/}"; }
        } >"$part" 2>&1 &
        running[$!]=$part
    done
    trap - TERM
    if [ "$status" -eq 0 ] && [ -n "$passed" ]; then rm -r "$passed"; fi
    return "$status"
}
# key_of_program PROGRAM: prints the hashes of the test program, of the product, and of the files that
# the test programs read.
key_of_program() {
    say "$(sha256sum <"$1" | cut -c1-16)-$hash_of_rest-${hash_of_folder[tests/e2e]%-*}"
}
run_program() {
    local began status=0
    began=$(now_ms)
    say "running $1"
    (cd tests/e2e && CARGO_MANIFEST_DIR=$PWD "$1" --show-output) || status=$?
    say "took $(as_seconds $(($(now_ms) - began))): ${1##*/}"
    return "$status"
}
