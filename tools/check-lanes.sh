# shellcheck shell=bash disable=SC2034,SC2154 # check and the files that it sources share variables
# Sourced by check: the lanes of ./check --long, whose results are kept, and their budget.
#
# A lane is a stage in its long form. results/LANE holds lines "key value":
#   result   ok, failed, skipped, cut (ended because the budget was over), or changed (files
#            changed during the run)
#   seconds  the duration of that run
#   usual    the expected duration of the next run, in seconds
#   when     the end of that run, in UTC
#   commit   the checked out commit; with a + if files differed from it
#   inputs   the hashes of the files that the lane depends on
#   note     the reason of a skip, or the number of tests that were skipped

results=$top/target/check/results
# Where the hashed files are.
tree=$top

# parse_budget TEXT: prints "2h30m", "90m" or "45s" in seconds. Fails with other text.
parse_budget() {
    [[ $1 =~ ^(([0-9]{1,3})h)?(([0-9]{1,4})m)?(([0-9]{1,6})s)?$ ]] || return 1
    local seconds=$((10#${BASH_REMATCH[2]:-0} * 3600 + 10#${BASH_REMATCH[4]:-0} * 60 + 10#${BASH_REMATCH[6]:-0}))
    [ "$seconds" -gt 0 ] && say "$seconds"
}

# duration SECONDS: prints it as "2h05m", "4m10s" or "12s".
duration() {
    if [ "$1" -ge 3600 ]; then
        printf '%dh%02dm\n' $(($1 / 3600)) $(($1 % 3600 / 60))
    elif [ "$1" -ge 60 ]; then
        printf '%dm%02ds\n' $(($1 / 60)) $(($1 % 60))
    else
        printf '%ds\n' "$1"
    fi
}

reads_docs() { case $1 in scripts | unit | man | docs | package | upgrade | systemd) true ;; *) false ;; esac; }
# The pages that bench/ writes have no blocks of shell, and an upgrade does not read them.
pages_of_bench=(docs/figures.md docs/benchmarks.md docs/brands-bench.* docs/patch-bench* docs/z2* docs/net.md docs/zonestat.md docs/suspend.md docs/suspend.json docs/suspend.svg)
reads_pages_of_bench() { case $1 in upgrade | systemd) false ;; *) true ;; esac; }
# Comments do not change a program: the other lanes run programs, and see none.
reads_comments() { case $1 in scripts | fmt | clippy | unit | build | deny) true ;; *) false ;; esac; }

# The folders that only some lanes depend on. All lanes depend on the other files.
folders_of_some=(.ci tests/e2e tests/crash tests/cluster tests/vm/systemd bench)
# The functions of all stages. A lane depends on that of its stage, and on what no stage has alone.
stages=tools/check-stages.sh
# The files that decide when a stage runs and how its result is kept.
runner=(check "$stages" tools/check-self-test tools/check-again.sh tools/check-beside.sh tools/check-lanes.sh tools/check-run.sh tools/watch-tests)
# folders_of LANE: prints those that the lane depends on.
folders_of() {
    case $1 in
    scripts | fmt | clippy | unit | deny) printf '%s\n' "${folders_of_some[@]}" ;;
    e2e | upgrade) say tests/e2e ;;
    # The kills have the hosts of the end-to-end tests.
    crash) printf '%s\n' tests/e2e tests/crash ;;
    cluster) say tests/cluster ;;
    # The machine runs the unit tests of the workspace, and the packages of bench/patch.
    vm) printf '%s\n' tests/crash bench/patch/packages ;;
    zfs) say bench/snapshots ;;
    systemd) say tests/vm/systemd ;;
    esac
}

# hash_of PATHSPEC...: prints a hash of the names, modes and content of the files that are
# tracked, or new and not ignored. A commit of the same files has the same hash.
# Some versions of git leave out all files if the other patterns have a common folder in front and
# one is an exclusion: exclusions go only with patterns of the whole tree.
hash_of() { files_of "$@" | hash_of_files; }
files_of() { as_user git -C "$tree" ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu; }
# Reads names of files, and prints one hash of their names, modes and content.
hash_of_files() {
    tar -C "$tree" -c --null --no-recursion --verbatim-files-from -T - --ignore-failed-read --format=ustar \
        --mtime=@0 --owner=0 --group=0 --mode=go-w 2>/dev/null | sha256sum | cut -c1-16
}
# Reads names of files, and prints each name and the file's lines that are not only a comment. A file
# that is gone has neither.
without_comments() {
    (
        cd "$tree"
        xargs -0 -r sed -s -E -e 1F -e '\;^[[:space:]]*//([/! ]|$);d' 2>/dev/null
    ) || true
}
# hash_of_code FOLDER [PATHSPEC...]: prints a hash of the code in a folder: of the files that are no
# documents, and of the files of Rust without lines that are only a comment. FOLDER can be a file.
hash_of_code() {
    local folder=$1 programs others
    shift
    programs=$(files_of "$folder" "$@" | { grep -z '\.rs$' || true; } | without_comments | sha256sum | cut -c1-16)
    others=$(files_of "$folder" "$@" | { grep -zvE '^docs/|\.md$|\.rs$|^LICENSE$' || true; } | hash_of_files)
    say "$others-$programs"
}
# without_other_stages LANE: copies $stages from stdin to stdout, without the functions of other stages.
without_other_stages() {
    awk -v own="stage_$1()" '
        /^stage_[a-z0-9]+\(\) / { other = $1 != own }
        !other
        # The end of a function of many lines, or of one line.
        /^}/ || /^stage_.*}$/ { other = 0 }'
}
# Sets a hash for each kind of files. Fails without a checkout of git.
hash_inputs() {
    as_user git -C "$tree" rev-parse --is-inside-work-tree >/dev/null 2>&1 || return
    hash_of_docs=$(hash_of docs '*.md' LICENSE)
    hash_of_guides=$(hash_of docs '*.md' LICENSE "${pages_of_bench[@]/#/:(exclude)}")
    hash_of_rust=$(hash_of '*.rs')
    hash_of_rest=$(hash_of_code . "${folders_of_some[@]/#/:(exclude)}" "${runner[@]/#/:(exclude)}")
    hash_of_runner=$(hash_of "${runner[@]}")
    local folder
    for folder in "${folders_of_some[@]}" bench/patch/packages bench/snapshots; do hash_of_folder[$folder]=$(hash_of_code "$folder"); done
}
declare -A hash_of_folder=()
# inputs_of LANE: prints the hashes of the files that the lane depends on.
inputs_of() {
    local inputs=$hash_of_rest folder
    if [ -e "$tree/$stages" ]; then inputs+=-stage-$(without_other_stages "$1" <"$tree/$stages" | sha256sum | cut -c1-16); fi
    if [ "$1" = scripts ]; then inputs+=-runner-$hash_of_runner; fi
    for folder in $(folders_of "$1"); do inputs+=-${folder##*/}-${hash_of_folder[$folder]}; done
    if reads_docs "$1"; then
        if reads_pages_of_bench "$1"; then inputs+=-docs-$hash_of_docs; else inputs+=-guides-$hash_of_guides; fi
    fi
    if reads_comments "$1"; then inputs+=-rust-$hash_of_rust; fi
    say "$inputs"
}

# same_since COMMIT LANE: succeeds if none of the files that the lane depends on differs from those of
# the commit. Here a comment counts as a difference for every lane.
# A result thus holds when this file has changed how hashes are made.
same_since() {
    local commit=$1 lane=$2 paths=(. "${folders_of_some[@]/#/:(exclude)}") folders
    case $commit in '' | none | *+) return 1 ;; esac
    if [ "$lane" != scripts ]; then paths+=("${runner[@]/#/:(exclude)}"); fi
    if ! reads_docs "$lane"; then
        paths+=(':(exclude)docs' ':(exclude)*.md' ':(exclude)LICENSE')
    elif ! reads_pages_of_bench "$lane"; then
        paths+=("${pages_of_bench[@]/#/:(exclude)}")
    fi
    mapfile -t folders < <(folders_of "$lane")
    no_difference "$commit" "${paths[@]}" || return
    same_stage "$commit" "$lane" || return
    [ ${#folders[@]} -eq 0 ] || no_difference "$commit" "${folders[@]}"
}
# same_stage COMMIT LANE: succeeds if the lane's part of $stages is that of the commit. Both may lack the file.
same_stage() {
    local then='' now=''
    then=$(as_user git -C "$tree" show "$1:$stages" 2>/dev/null | without_other_stages "$2") || true
    if [ -e "$tree/$stages" ]; then now=$(without_other_stages "$2" <"$tree/$stages"); fi
    [ "$then" = "$now" ]
}
# no_difference COMMIT PATHSPEC...: succeeds if the files are those of the commit, and none is new.
no_difference() {
    local commit=$1 new
    shift
    as_user git -C "$tree" diff --quiet "$commit" -- "$@" 2>/dev/null || return
    new=$(as_user git -C "$tree" ls-files --others --exclude-standard -- "$@") && [ -z "$new" ]
}

commit_now() {
    local plus=''
    [ -z "$(as_user git -C "$tree" status --porcelain 2>/dev/null)" ] || plus=+
    say "$(as_user git -C "$tree" rev-parse --short HEAD 2>/dev/null || say none)$plus"
}

# kept LANE KEY: prints the value in the lane's result, or nothing.
kept() { sed -n "s/^$2 //p" "$results/$1" 2>/dev/null || true; }

# Prints the expected duration of a lane, in seconds: of its last run, or else an estimate for
# two slow cores.
usual_seconds() {
    local known
    known=$(kept "$1" usual)
    if [ -n "$known" ]; then say "$known"; else estimate "$1"; fi
}
estimate() {
    case $1 in
    fmt) say 10 ;;
    scripts | man | smoke) say 40 ;;
    ansible | salt | package | docs | deny) say 120 ;;
    clippy) say 240 ;;
    unit | soak | cluster) say 400 ;;
    build) say 500 ;;
    property | load | upgrade) say 1000 ;;
    fuzz) say 1100 ;;
    zfs | systemd) say 1800 ;;
    e2e) say 2000 ;;
    vm) say 2700 ;;
    crash) say 3600 ;;
    *) say 300 ;;
    esac
}

# keep_result LANE: writes the result of the lane that run_stage has just run.
keep_result() {
    local lane=$1 result=$outcome seconds=$outcome_seconds usual inputs
    inputs=$(inputs_of "$lane")
    hash_inputs
    if [ "$inputs" != "$(inputs_of "$lane")" ] && [ "$result" = ok ]; then result=changed; fi
    usual=$(usual_seconds "$lane")
    # If this run had only the tests that failed in the one before, the result has the time of both.
    if [ -n "${former-}" ]; then seconds=$((seconds + $(kept "$lane" seconds))); fi
    case $result in
    ok | changed) usual=$seconds ;;
    failed) if [ "$seconds" -gt "$usual" ]; then usual=$seconds; fi ;;
    # It needs more than it had.
    cut) if [ $((2 * seconds)) -gt "$usual" ]; then usual=$((2 * seconds)); fi ;;
    esac
    as_user mkdir -p "$results"
    {
        say "result $result"
        say "seconds $seconds"
        say "usual $usual"
        say "when $(date -u +%Y-%m-%dT%H:%MZ)"
        say "commit $(commit_now)"
        say "inputs $(inputs_of "$lane")"
        [ -z "$outcome_note" ] || say "note $outcome_note"
    } >"$results/.$lane.$$"
    mv "$results/.$lane.$$" "$results/$lane"
}

# The state of a lane on the files that are there now: ok, failed, skipped, cut, or left (not
# run on them).
state_of() {
    # Advisories change without us: a result of deny says nothing tomorrow.
    if [ "$(kept "$1" inputs)" != "$(inputs_of "$1")" ] && ! same_since "$(kept "$1" commit)" "$1"; then
        say left
    elif [ "$1" = deny ] && [[ $(kept deny when) != "$(date -u +%Y-%m-%d)"* ]]; then
        say left
    else
        kept "$1" result
    fi
}

# Prints the lanes that are not green, in the order in which they run: those of up to two
# minutes, those that have no result yet, the others; in each group the quickest first.
lanes_to_run() {
    local lane usual group
    for lane; do
        [ "$(state_of "$lane")" != ok ] || continue
        usual=$(usual_seconds "$lane")
        group=3
        if [ ! -e "$results/$lane" ]; then group=2; fi
        if [ "$usual" -le 120 ]; then group=1; fi
        say "$group $usual $lane"
    done | sort -k1,1n -k2,2n -s | cut -d' ' -f3
}

seconds_left() { say $((deadline - $(now_ms) / 1000)); }

# run_lane LANE: runs a lane if its expected duration fits into the rest of the budget, and keeps
# its result. Fails if it did not start.
run_lane() {
    local lane=$1 usual rest
    usual=$(usual_seconds "$lane")
    rest=$(seconds_left)
    if [ "$usual" -gt "$rest" ]; then
        printf '%-9s %10s   not started: it usually takes %s, and %s are left\n' "$lane" left \
            "$(duration "$usual")" "$(duration $((rest > 0 ? rest : 0)))"
        return 1
    fi
    run_stage "$lane"
    keep_result "$lane"
}

# The programs are built for the first lane that needs them, also if the lane build is green:
# they may be those of another commit.
programs_ready() {
    if [ -z "${programs_state-}" ]; then
        programs_state=absent
        if run_lane build && [ "$outcome" = ok ]; then programs_state=ready; fi
    fi
    [ "$programs_state" = ready ]
}

# run_within SECONDS LANE...: runs those of the lanes that are not green. Returns 0 if all are
# green now, 1 if one has failed on these files, or 75 if one is left.
run_within() {
    local lane status=0 lanes
    deadline=$(($(now_ms) / 1000 + $1))
    shift
    hash_inputs || die "$tree: --within keeps results for a checkout of git, and this is none"
    mapfile -t lanes < <(lanes_to_run "$@")
    for lane in "${lanes[@]}"; do
        if needs_programs "$lane" || [ "$lane" = build ]; then programs_ready || continue; fi
        [ "$lane" = build ] || run_lane "$lane" || true
    done
    print_results "$@"
    for lane; do
        case $(state_of "$lane") in
        ok) ;;
        failed) return 1 ;;
        *) status=75 ;;
        esac
    done
    return "$status"
}

# Prints the table of all lanes.
print_results() {
    local lane state note
    say
    printf '%-9s %-8s %8s   %-17s  %-9s %s\n' lane result seconds when commit note
    for lane; do
        state=$(state_of "$lane")
        note=$(kept "$lane" note)
        if [ ! -e "$results/$lane" ]; then
            printf '%-9s %-8s %8s   %-17s  %-9s %s\n' "$lane" left - - - "never run; about $(duration "$(usual_seconds "$lane")")"
            continue
        fi
        case $state in
        left) note="files have changed since; it was $(kept "$lane" result)" ;;
        changed) note="files changed during the run" ;;
        cut) note="ended by the budget; about $(duration "$(usual_seconds "$lane")")" ;;
        esac
        printf '%-9s %-8s %8s   %-17s  %-9s %s\n' "$lane" "$state" "$(kept "$lane" seconds)" \
            "$(kept "$lane" when)" "$(kept "$lane" commit)" "$note"
    done
}
