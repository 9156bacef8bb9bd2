# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: with --again, runs each test that failed once more, alone. With --long, check does
# not repeat the other tests of a stage whose last run failed on the same files.

# More failures in a stage than this are a defect of the commit, not of single tests.
readonly MAX_RUN_AGAIN=10
# The most that one test may take when it runs again, in seconds; with --long, a test has more rounds.
readonly AGAIN_TIMEOUT=300
readonly LONG_AGAIN_TIMEOUT=1200

# failed_tests LOG: prints "PROGRAM TEST" for each test that failed, and "PROGRAM ?" for a program
# that ended without a list of its failures. PROGRAM is a path, or "doc-tests". Some programs that
# cargo runs have no such list when they succeed: of those, only the ones that cargo says failed count.
failed_tests() {
    awk '
        function ended() { if (program != "" && !told) print program, "?" }
        /^running \/.*\/deps\// { ended(); program = $2; told = 0 }
        /^ *Running .*\(.*\)$/ { ended(); program = $NF; gsub(/[()]/, "", program); told = 1; result = 0; cargo = 1 }
        /^ *Doc-tests / { ended(); program = "doc-tests"; told = 0 }
        /^error: test failed, to rerun pass / { told = result }
        # The failures twice: first with their output, then their names alone.
        /^failures:$/ { count = 0; listed = 1; next }
        listed && /^    [^ ]/ { names[++count] = $1 }
        /^test result: / {
            if ($3 == "FAILED.") {
                if (count == $6) for (i = 1; i <= count; i++) print program, names[i]
                else print program, "?"
            }
            listed = 0
            told = result = 1
        }
        /^error: [0-9]+ targets? failed:$/ { complete = 1 }
        # If cargo itself was killed, its last program did not end, and others did not run.
        END { if (cargo && !complete) told = 0; ended() }' "$1"
}

# said_first LOG PROGRAM TEST: prints the first 60 lines of the output of the failed test. Not by
# head(1): the signal that then ends the writer would end check, too.
said_first() {
    awk -v program="$2" -v wanted="---- $3 stdout ----" '
        index($0, program) { here = 1 }
        here && $0 == wanted { on = 1; next }
        on && (/^---- .* stdout ----$/ || /^failures:$/) { exit }
        on && shown++ < 60' "$1"
}

# package_of PROGRAM: prints the folder of the package that the test program belongs to: cargo
# runs it there.
package_of() {
    local folder
    folder=$(dirname "$(sed -n '1s/^[^:]*: *\([^ ]*\).*/\1/p' "$1.d")")
    until [ -e "$folder/Cargo.toml" ]; do
        [ "$folder" != / ] && [ "$folder" != . ] || return 1
        folder=$(dirname "$folder")
    done
    realpath "$folder"
}

# run_again STAGE [PREFIX]: runs the tests that failed in the stage once more, each alone, by the
# command PREFIX. Fails unless all passed. The lines that begin with "flaky" are for run_stage.
run_again() {
    local log=$logs/$1.log again=$logs/$1.again prefix=${2-} failures program name short folder status=0 timeout
    timeout=${ZONES_TEST_LONG:+$LONG_AGAIN_TIMEOUT}
    timeout=${timeout:-$AGAIN_TIMEOUT}
    [ -n "${CHECK_AGAIN-}" ] || return 1
    mapfile -t failures < <(failed_tests "$log")
    [ ${#failures[@]} -gt 0 ] || return 1
    if [ ${#failures[@]} -gt "$MAX_RUN_AGAIN" ]; then
        say "again: ${#failures[@]} tests failed, which is more than $MAX_RUN_AGAIN: none of them runs again"
        return 1
    fi
    for name in "${failures[@]}"; do
        read -r program name <<<"$name"
        short=${program##*/}
        short=${short%-*}::$name
        if [ "$name" = '?' ] || ! folder=$(package_of "$program"); then
            say "again: $program cannot run one test alone"
            status=1
            continue
        fi
        say "again: $short"
        program=$(realpath "$program")
        # shellcheck disable=SC2086 # A word or none.
        (cd "$folder" && CARGO_MANIFEST_DIR=$folder $prefix timeout "$timeout" \
            "$program" --exact "$name" --show-output) >"$again" 2>&1 || true
        # Marked lines: the results of the first run are those that are counted.
        sed 's/^/again| /' "$again"
        if grep -q '^skipped: ' "$again"; then
            say "again: $short did not run: $(sed -n 's/^skipped: //p' "$again")"
            status=1
        elif grep -q '^test result: ok\. 1 passed; 0 failed; 0 ignored;' "$again"; then
            say "flaky: $short"
            said_first "$log" "${program##*/}" "$name" | sed 's/^/flaky| /'
        else
            say "again: $short failed again"
            status=1
        fi
    done
    return "$status"
}

# may_resume STAGE: succeeds if only the failed tests of the stage are to run: its last run with --long
# ended by itself, failed because of tests, and was on the files that are there now.
may_resume() {
    local status
    [ -n "${CHECK_AGAIN-}" ] && [ -n "${hash_of_rest-}" ] && [[ $1 = @(unit|e2e) ]] || return
    # The result was kept after the last run: a run without --long keeps none.
    [ "$(state_of "$1")" = failed ] && [ "$results/$1" -nt "$logs/$1.done" ] || return
    read -r status _ <"$logs/$1.done" && [[ $status != @(0|124|137) ]] && [ -n "$(failed_tests "$logs/$1.log")" ]
}

# resume_stage STAGE LOG: prints LOG, the output of the last run, whose other results count, and runs
# the tests that failed in it.
resume_stage() {
    local prefix=''
    case $1 in
    unit) prefix=as_user ;;
    e2e) need_guest ;;
    esac
    grep -avE '^(flaky|again)[:|]' "$2"
    say "again: the tests that failed in the last run, on the same files"
    run_again "$1" "$prefix"
}
