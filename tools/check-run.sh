# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: runs stages and counts tests.

# ---- running and counting ----

passed=0
failed=0
skipped=0
# Of those that passed: tests that failed, and passed when they ran again (--again).
flaky=0
failures=()

# Adds the libtest results of a log to the counts; fails if there are none.
# A test that cannot run here passes and prints "skipped: reason".
count_tests() {
    local ok bad ignored said again
    read -r ok bad ignored < <(
        sed -n 's/^test result: [^.]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' "$1" |
            awk '{ ok += $1; bad += $2; ignored += $3 } END { print ok + 0, bad + 0, ignored + 0 }'
    )
    [ $((ok + bad + ignored)) -gt 0 ] || return 1
    said=$(grep -c '^skipped: ' "$1" || true)
    again=$(grep -c '^flaky: ' "$1" || true)
    flaky=$((flaky + again))
    passed=$((passed + ok - said + again))
    failed=$((failed + bad - again))
    skipped=$((skipped + ignored + said))
    tests_failed=$((bad - again))
}

# Where stages write, the program that runs them, and the one that tells of tests that stand still.
logs=target/check
stage_program=$0
watch_program=tools/watch-tests

# begin_stage NAME: starts the stage in the background and sets $begun to its process. Fails, and
# prints the reason, where the stage cannot run.
begin_stage() {
    local name=$1 why
    outcome=skipped outcome_seconds=0 outcome_note='' former=
    why=$(cannot_run "$name")
    if [ -n "$why" ]; then
        printf '%-9s %10s   %s\n' "$name" skipped "$why"
        skipped=$((skipped + 1))
        outcome_note=$why
        return 1
    fi
    if may_resume "$name"; then
        former=$logs/$name.former
        mv "$logs/$name.log" "$former"
    fi
    rm -f "$logs/$name.done"
    perform "$name" "$(stage_seconds "$name")" &
    begun=$!
}
# Prints the most seconds that the stage may take now.
stage_seconds() {
    local seconds left
    seconds=$(limit "$1")
    if [ -n "${deadline-}" ]; then
        left=$(seconds_left)
        if [ "$left" -lt "$seconds" ]; then seconds=$left; fi
        # timeout takes 0 for no limit.
        if [ "$seconds" -lt 1 ]; then seconds=1; fi
    fi
    say "$seconds"
}
# perform NAME SECONDS: runs the stage in a process of its own, so that a stage that fails or hangs
# ends alone. Writes to NAME.done: its exit status, its limit, and its milliseconds.
perform() {
    local log=$logs/$1.log status=0 began stage watcher folder
    began=$(now_ms)
    folder=$(build_folder "$1")
    # It gets time to take down what it made.
    timeout --kill-after=120 "$2" env ${folder:+CARGO_TARGET_DIR="$folder"} ${former:+CHECK_FORMER="$former"} "$stage_program" --run "$1" \
        </dev/null >"$log" 2>&1 &
    stage=$!
    # shellcheck disable=SC2064 # This stage.
    trap "kill $stage 2>/dev/null" INT TERM
    # A test that stands still is told of while it does.
    "$watch_program" "$log" "$stage" &
    watcher=$!
    wait "$stage" || status=$?
    # Here and not in a substitution: of the children of this process.
    times >"$logs/$1.times"
    wait "$watcher" || true
    say "$status $2 $(($(now_ms) - began))" >"$logs/$1.done"
}
# processor_seconds NAME: prints the seconds of processor time that the stage took, without those
# of processes that outlived their parents.
processor_seconds() {
    sed -n 2p "$logs/$1.times" | awk '{ gsub(/[ms]/, " "); printf "%d\n", $1 * 60 + $2 + $3 * 60 + $4 + 0.5 }'
}

# run_stage NAME: runs the stage and prints its result. Sets $outcome to ok, failed, skipped, or
# cut if the budget ended before the stage, $outcome_seconds, $outcome_note, and $former to the log of
# the run before if only its failed tests ran.
run_stage() {
    begin_stage "$1" || return 0
    wait "$begun" || true
    end_stage "$1"
}

# end_stage NAME: prints and counts the result of a stage whose process has ended.
end_stage() {
    local name=$1 log=$logs/$1.log status seconds took tests_failed=0 skipped_before=$skipped
    outcome_note=
    # Without the file, the process was killed.
    read -r status seconds took 2>/dev/null <"$logs/$name.done" || { status=137 seconds=0 took=0; }
    outcome_seconds=$(((took + 999) / 1000))
    took=$(as_seconds "$took")
    # 137: it had to be killed.
    if [[ $status = @(124|137) ]] && [ "$outcome_seconds" -ge "$seconds" ] && [ "$seconds" -lt "$(limit "$name")" ]; then
        outcome='cut'
        printf '%-9s %10s   cut: the budget ended before it\n' "$name" "$took"
        return
    fi
    case $status in
    0)
        outcome=ok
        printf '%-9s %10s   ok (%s s of processor time)\n' "$name" "$took" "$(processor_seconds "$name")"
        # How far the fuzzers came, how many blocks of the documents ran, and the kills with
        # the seed that draws them again.
        sed -n 's/^\(.* executions \|doc blocks: \|seed \|all: \).*/            &/p' "$log"
        ;;
    77)
        printf '%-9s %10s   skipped: %s\n' "$name" "$took" "$(tail -n 1 "$log")"
        skipped=$((skipped + 1))
        outcome_note=$(tail -n 1 "$log")
        return
        ;;
    124)
        outcome=failed
        printf '%-9s %10s   FAILED: no end after %s s\n' "$name" "$took" "$seconds"
        ;;
    *)
        outcome=failed
        printf '%-9s %10s   FAILED (status %s)\n' "$name" "$took" "$status"
        ;;
    esac
    if count_tests "$log"; then
        grep -h '^skipped: ' "$log" | sort -u | sed 's/^/            /' || true
        if [ "$skipped" -gt "$skipped_before" ]; then outcome_note="$((skipped - skipped_before)) tests skipped"; fi
        # Tests that passed on the second run, with the output of the first one.
        sed -n 's/^flaky[:|].*/            &/p' "$log"
        if grep -q '^flaky: ' "$log"; then outcome_note+="${outcome_note:+, }$(grep -c '^flaky: ' "$log") tests flaky"; fi
        # A test that failed is counted; a stage that failed otherwise is not yet.
        if [ "$status" -ne 0 ] && [ "$tests_failed" -eq 0 ]; then failed=$((failed + 1)); fi
    elif [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    if [ "$status" -ne 0 ]; then
        failures+=("$name")
        if [ "$name" = build ]; then build_failed=1; fi
        sed -n 's/^test \(.*\) \.\.\. FAILED$/            failed: \1/p' "$log"
        if [ "$tests_failed" -gt 0 ]; then
            say "---- of $log"
            # What the failed tests said; each test program ends with such a part. Not by head(1):
            # the signal that then ends the writer would end check, too.
            awk '/^failures:$/ { on = 1 } on && shown++ < 200; /^test result/ { on = 0 }' "$log"
        else
            say "---- the end of $log"
            tail -n 60 "$log"
        fi
        if [ "$status" -eq 124 ] && [ -s "${log%.log}.stacks" ]; then
            say "---- where all threads stood: the end of ${log%.log}.stacks"
            tail -n 300 "${log%.log}.stacks"
        fi
        say "----"
    fi
}

# Prints the last line of check.
print_counts() {
    local second=''
    if [ "$flaky" -gt 0 ]; then second=" ($flaky of them on the second run: flaky)"; fi
    say "$passed passed$second, $failed failed, $skipped skipped"
}
