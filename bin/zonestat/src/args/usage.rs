//! The texts for `--help` and for a wrong command line.

macro_rules! usage {
    () => {
        "\
usage: zonestat [-z zonelist] [-r reslist] [-n namelist] [-T u|d|i] [-R reports] [-q]
                [-p [-P lines]] [-S cols] interval [duration [report]]
       zonestat [-l] [-P] [-N] [-z zonelist] [interval [count]]
       zonestat -j [-z zonelist] [-r reslist] [-R reports] [-q] [interval [duration [report]]]
       zonestat --tui [-z zonelist] [interval]
       zonestat --openmetrics | --serve [address] | --help
"
    };
}

/// The synopsis.
pub const USAGE: &str = usage!();

/// The text of `--help`.
pub const HELP: &str = concat!(
    usage!(),
    "
Shows the zones' use of CPUs, memory and other limited resources.

As on Solaris 11:
    interval    seconds, or [nh][nm][ns] as in 1h30m, or 'default', which is 5 s
    duration    number of intervals, or a time, or 'inf'
    report      reports after so many intervals, or after a time; needs -R
    -z zones    these zones: names, globs ('web*') or ranges ('web[1-9]')
    -r what     summary (the default), physical-memory, virtual-memory,
                locked-memory, memory (these three), processor-set or psets,
                default-pset, processes, lwps, lofi, limits (these three), shm-memory,
                shm-ids, sem-ids, msg-ids, sysv (these four), all;
                and on Linux: network, disk, pressure
    -n names    only these: mem_default, vm_default, system-limit, or a set of CPUs,
                by the name of its pool or of its zone
    -T u|d|i    adds the time: seconds since 1970, as date(1), as 20251120T213257Z
    -R reports  total, average, high: over all intervals
    -q          prints only the reports
    -p          for programs: fields separated by colons
    -P lines    with -p, only these: resource, total, system, zones, header, footer
    -S columns  sorts by name, used, cap, pcap, shr, pshru; the summary by these of
                cpu, physical-memory or virtual-memory

The dashboard of 2009:
    -l          shows limits
    -P          separates fields by colons, with the time as last field
    -N          shows names in full
    --dashboard selects this form without -l, -P or -N. Without an interval it takes
                one sample, in a second

Also:
    -j, --json      prints all figures, or those of -r, a line of JSON for each interval
                    or report
    --tui           full screen; '?' there shows the keys
    --openmetrics   prints the present counters and figures for Prometheus
    --serve         serves them over HTTP, at 127.0.0.1:9781 or the given address,
                    and keeps a history
    --root dir      uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 done, 1 error, 2 usage.

Examples:
    zonestat 5                        a summary every 5 seconds
    zonestat -r psets,memory -z web1 10 6
    zonestat -p -P zones -r psets 5 1
    zonestat -q -R total,high 10s 24h 1h
    zonestat -l 5                     the dashboard, with limits
    zonestat -j 1 | jq '.zones[].name'
"
);
