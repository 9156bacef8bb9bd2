//! Tests of every layout, and of the form for programs by its grammar.

use insta::assert_snapshot;

use super::*;
use crate::args::{self, Call};
use crate::example;

fn print(line: &str) -> String {
    print_of(line, None)
}

fn print_labeled(line: &str) -> String {
    print_interval(line, None, &example::labeled_interval())
}

fn print_of(line: &str, kind: Option<Kind>) -> String {
    print_interval(line, kind, &example::interval())
}

fn print_interval(line: &str, kind: Option<Kind>, interval: &Interval) -> String {
    let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
    let Ok(Call::Reports(reports)) = args::parse(&words) else {
        panic!("{line}");
    };
    let zones = Zones::new(&reports.common.zones).unwrap();
    let heading = Heading {
        kind,
        count: 1,
        seconds: 5,
        start: 1_763_674_372,
        end: 1_763_674_377,
    };
    let printer = Printer {
        reports: &reports,
        zones: &zones,
    };
    printer.print(&heading, interval)
}

#[test]
fn summary() {
    assert_snapshot!(print("5"), @r#"
    Interval: 1, Duration: 0:00:05
    SUMMARY                    Cpus/Online: 8/8   Physical: 16.0G    Virtual: 24.0G
                        ----------CPU---------- ----PHYSICAL----- -----VIRTUAL-----
                   ZONE  USED %PART  %CAP %SHRU  USED   PCT  %CAP  USED   PCT  %CAP
                [total]  2.00 25.0%     -     - 8192M 50.0%     - 10.0G 41.6%     -
               [system]  0.01 0.12%     -     - 1024M 6.25%     - 1024M 4.16%     -
                     db  1.50 75.0%     -     - 3072M 18.7%     - 3840M 15.6%     -
                 global  0.25 4.16%     -     - 2785M 16.9%     - 3737M 15.2%     -
                    web  0.20 3.33% 80.0% 5.55%  256M 1.56% 50.0%  320M 1.30% 31.2%
                  guest  0.04 0.66%     - 3.33% 1024M 6.25%     - 1280M 5.20%     -
     web-of-a-long-name  0.00 0.00%     - 0.00% 31.0M 0.18%     - 38.7M 0.15%     -
    "#);
    assert_snapshot!(print("-T d -z web 5"), @r#"
    Thu Nov 20 21:32:57 UTC 2025, Interval: 1, Duration: 0:00:05
    SUMMARY                    Cpus/Online: 8/8   Physical: 16.0G    Virtual: 24.0G
                        ----------CPU---------- ----PHYSICAL----- -----VIRTUAL-----
                   ZONE  USED %PART  %CAP %SHRU  USED   PCT  %CAP  USED   PCT  %CAP
                [total]  2.00 25.0%     -     - 8192M 50.0%     - 10.0G 41.6%     -
               [system]  0.01 0.12%     -     - 1024M 6.25%     - 1024M 4.16%     -
                    web  0.20 3.33% 80.0% 5.55%  256M 1.56% 50.0%  320M 1.30% 31.2%
    "#);
    assert_snapshot!(print("-p 5"), @r#"
    interval:header:since-last-interval:20251120T213257Z:1:5
    interval:summary:[resource]:8:8:16777216K:25165824K
    interval:summary:[total]:2.00:25.00%:-:-:8388608K:50.00%:-:10485760K:41.66%:-
    interval:summary:[system]:0.01:0.12%:-:-:1048576K:6.25%:-:1048576K:4.16%:-
    interval:summary:db:1.50:75.00%:-:-:3145728K:18.75%:-:3932160K:15.62%:-
    interval:summary:global:0.25:4.16%:-:-:2851840K:16.99%:-:3826944K:15.20%:-
    interval:summary:web:0.20:3.33%:80.00%:5.55%:262144K:1.56%:50.00%:327680K:1.30%:31.25%
    interval:summary:guest:0.04:0.66%:-:3.33%:1048576K:6.25%:-:1310720K:5.20%:-
    interval:summary:web-of-a-long-name:0.00:0.00%:-:0.00%:31744K:0.18%:-:39680K:0.15%:-
    interval:footer:20251120T213257Z:5:5
    "#);
}

#[test]
fn labels_are_the_last_column_for_people() {
    assert_snapshot!(print_labeled("5"), @r#"
    Interval: 1, Duration: 0:00:05
    SUMMARY                    Cpus/Online: 8/8   Physical: 16.0G    Virtual: 24.0G
                        ----------CPU---------- ----PHYSICAL----- -----VIRTUAL-----
                   ZONE  USED %PART  %CAP %SHRU  USED   PCT  %CAP  USED   PCT  %CAP LABEL
                [total]  2.00 25.0%     -     - 8192M 50.0%     - 10.0G 41.6%     - -
               [system]  0.01 0.12%     -     - 1024M 6.25%     - 1024M 4.16%     - -
                     db  1.50 75.0%     -     - 3072M 18.7%     - 3840M 15.6%     - CONFIDENTIAL NEED TO KNOW
                 global  0.25 4.16%     -     - 2785M 16.9%     - 3737M 15.2%     - -
                    web  0.20 3.33% 80.0% 5.55%  256M 1.56% 50.0%  320M 1.30% 31.2% PUBLIC
                  guest  0.04 0.66%     - 3.33% 1024M 6.25%     - 1280M 5.20%     - 0x0005-08-00
     web-of-a-long-name  0.00 0.00%     - 0.00% 31.0M 0.18%     - 38.7M 0.15%     - -
    "#);
    assert_snapshot!(print_labeled("-r psets,lwps,network -z web,guest 5"), @r#"
    Interval: 1, Duration: 0:00:05
    PROCESSOR_SET                   TYPE  ONLINE/CPUS     MIN/MAX
    pset_default            default-pset          6/6         1/8
                                    ZONE  USED   PCT   CAP  %CAP   SHRS  %SHR %SHRU LABEL
                                 [total]  0.50 8.33%     -     -      5     -     - -
                                [system]  0.01 0.16%     -     -      -     -     - -
                                     web  0.20 3.33%  0.25 80.0%      3 60.0% 5.55% PUBLIC
                                   guest  0.04 0.66%     -     -      1 20.0% 3.33% 0x0005-08-00

    LWPS                          SYSTEM LIMIT
    system-limit                         32.0K
                                    ZONE  USED   PCT   CAP  %CAP LABEL
                                 [total]   300 0.91%     -     - -
                                [system]     0 0.00%     -     - -
                                   guest     4 0.01%     -     - 0x0005-08-00
                                     web     4 0.01%   100 4.00% PUBLIC

    NETWORK                            BYTES/S
                                    ZONE  RECV  SENT LABEL
                                     web  585K  781K PUBLIC
                                   guest  117K  156K 0x0005-08-00

    NETWORK LINKS                      BYTES/S
                    ZONE            LINK  RECV  SENT LABEL
                     web            net0  195K  585K PUBLIC
                     web            net1  390K  195K PUBLIC
                   guest            net0 39.0K  117K 0x0005-08-00
                   guest            net1 78.1K 39.0K 0x0005-08-00
    "#);
    // Without a zone that has a label, and for programs, there is no column.
    let unlabeled = "-r all -z global,web-of-a-long-name 5";
    assert_eq!(print_labeled(unlabeled), print(unlabeled));
    for programs in ["-p 5", "-p -r all 5"] {
        assert_eq!(print_labeled(programs), print(programs));
    }
}

#[test]
fn memory() {
    assert_snapshot!(print("-r memory 5"), @r#"
    Interval: 1, Duration: 0:00:05
    PHYSICAL-MEMORY              SYSTEM MEMORY
    mem_default                          16.0G
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total] 8192M 50.0%     -     -
                                [system] 1024M 6.25%     -     -
                                      db 3072M 18.7%     -     -
                                  global 2785M 16.9%     -     -
                                   guest 1024M 6.25%     -     -
                                     web  256M 1.56%  512M 50.0%
                      web-of-a-long-name 31.0M 0.18%     -     -

    VIRTUAL-MEMORY               SYSTEM MEMORY
    vm_default                           24.0G
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total] 10.0G 41.6%     -     -
                                [system] 1024M 4.16%     -     -
                                      db 3840M 15.6%     -     -
                                  global 3737M 15.2%     -     -
                                   guest 1280M 5.20%     -     -
                                     web  320M 1.30% 1024M 31.2%
                      web-of-a-long-name 38.7M 0.15%     -     -

    LOCKED-MEMORY                SYSTEM MEMORY
    mem_default                          16.0G
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total] 64.0M 0.39%     -     -
                                [system]     0 0.00%     -     -
                                      db 30.7M 0.18%     -     -
                                  global 20.1M 0.12%     -     -
                                   guest 10.2M 0.06%     -     -
                                     web 2621K 0.01% 64.0M 3.99%
                      web-of-a-long-name  317K 0.00%     -     -
    "#);
    assert_snapshot!(print("-p -r physical-memory -T u -S name 5"), @r#"
    1763674377:interval:header:since-last-interval:1763674377:1:5
    1763674377:interval:physical-memory:mem_default:[resource]:16777216K
    1763674377:interval:physical-memory:mem_default:[total]:8388608K:50.00%:-:-
    1763674377:interval:physical-memory:mem_default:[system]:1048576K:6.25%:-:-
    1763674377:interval:physical-memory:mem_default:db:3145728K:18.75%:-:-
    1763674377:interval:physical-memory:mem_default:global:2851840K:16.99%:-:-
    1763674377:interval:physical-memory:mem_default:guest:1048576K:6.25%:-:-
    1763674377:interval:physical-memory:mem_default:web:262144K:1.56%:524288K:50.00%
    1763674377:interval:physical-memory:mem_default:web-of-a-long-name:31744K:0.18%:-:-
    1763674377:interval:footer:1763674377:5:5
    "#);
}

#[test]
fn processor_sets_are_reported() {
    assert_snapshot!(print("-r psets 5"), @r#"
    Interval: 1, Duration: 0:00:05
    PROCESSOR_SET                   TYPE  ONLINE/CPUS     MIN/MAX
    pset_default            default-pset          6/6         1/8
                                    ZONE  USED   PCT   CAP  %CAP   SHRS  %SHR %SHRU
                                 [total]  0.50 8.33%     -     -      5     -     -
                                [system]  0.01 0.16%     -     -      -     -     -
                                  global  0.25 4.16%     -     -      -     -     -
                                     web  0.20 3.33%  0.25 80.0%      3 60.0% 5.55%
                                   guest  0.04 0.66%     -     -      1 20.0% 3.33%
                      web-of-a-long-name  0.00 0.00%     -     -      1 20.0% 0.00%

    PROCESSOR_SET                   TYPE  ONLINE/CPUS     MIN/MAX
    SUNWtmp_db             dedicated-cpu          2/2         1/2
                                    ZONE  USED   PCT   CAP  %CAP   SHRS  %SHR %SHRU
                                 [total]  1.50 75.0%     -     -      -     -     -
                                [system]  0.00 0.00%     -     -      -     -     -
                                      db  1.50 75.0%     -     -      -     -     -
    "#);
    assert_snapshot!(print("-p -r psets -P resource,total,zones 5"), @r#"
    interval:processor-set:default-pset:pset_default:[resource]:6:6:1:8:0-00-30.00
    interval:processor-set:default-pset:pset_default:[total]:0.50:8.33%:-:-:5:-:-:0-00-02.50
    interval:processor-set:default-pset:pset_default:global:0.25:4.16%:-:-:-:-:-:0-00-01.25
    interval:processor-set:default-pset:pset_default:web:0.20:3.33%:0.25:80.00%:3:60.00%:5.55%:0-00-01.00
    interval:processor-set:default-pset:pset_default:guest:0.04:0.66%:-:-:1:20.00%:3.33%:0-00-00.20
    interval:processor-set:default-pset:pset_default:web-of-a-long-name:0.00:0.00%:-:-:1:20.00%:0.00%:0-00-00.00
    interval:processor-set:dedicated-cpu:SUNWtmp_db:[resource]:2:2:1:2:0-00-10.00
    interval:processor-set:dedicated-cpu:SUNWtmp_db:[total]:1.50:75.00%:-:-:-:-:-:0-00-07.50
    interval:processor-set:dedicated-cpu:SUNWtmp_db:db:1.50:75.00%:-:-:-:-:-:0-00-07.50
    "#);
    assert_eq!(print("-r psets -n db 5"), print("-r psets -n SUNWtmp_db 5"));
    assert_snapshot!(print("-r psets -n SUNWtmp_db 5"), @r#"
    Interval: 1, Duration: 0:00:05
    PROCESSOR_SET                   TYPE  ONLINE/CPUS     MIN/MAX
    SUNWtmp_db             dedicated-cpu          2/2         1/2
                                    ZONE  USED   PCT   CAP  %CAP   SHRS  %SHR %SHRU
                                 [total]  1.50 75.0%     -     -      -     -     -
                                [system]  0.00 0.00%     -     -      -     -     -
                                      db  1.50 75.0%     -     -      -     -     -
    "#);
    assert_snapshot!(print("-p -P zones -r default-pset -z web 5"), @r#"interval:processor-set:default-pset:pset_default:web:0.20:3.33%:0.25:80.00%:3:60.00%:5.55%:0-00-01.00"#);
}

#[test]
fn limits_and_system_v_ipc_are_reported() {
    assert_snapshot!(print("-r limits -z web 5"), @r#"
    Interval: 1, Duration: 0:00:05
    PROCESSES                     SYSTEM LIMIT
    system-limit                         32.0K
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total]   150 0.45%     -     -
                                [system]     0 0.00%     -     -
                                     web     3 0.00%    50 6.00%

    LWPS                          SYSTEM LIMIT
    system-limit                         32.0K
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total]   300 0.91%     -     -
                                [system]     0 0.00%     -     -
                                     web     4 0.01%   100 4.00%

    LOFI                          SYSTEM LIMIT
    system-limit                             -
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total]     2     -     -     -
                                [system]     0     -     -     -
                                     web     0     -     -     -
    "#);
    assert_snapshot!(print("-r shm-memory,sem-ids -z web 5"), @r#"
    Interval: 1, Duration: 0:00:05
    SHM_MEMORY                    SYSTEM LIMIT
    system-limit                         16.0G
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total] 4096K 0.02%     -     -
                                [system]     0 0.00%     -     -
                                     web 1024K 0.00%  256M 0.39%

    SEM_IDS                       SYSTEM LIMIT
    system-limit                         31.2K
                                    ZONE  USED   PCT   CAP  %CAP
                                 [total]     4 0.01%     -     -
                                [system]     0 0.00%     -     -
                                     web     1 0.00%     -     -
    "#);
}

#[test]
fn network_disk_and_pressure_are_reported() {
    assert_snapshot!(print("-r network,disk,pressure -z web 5"), @r#"
    Interval: 1, Duration: 0:00:05
    NETWORK                            BYTES/S
                                    ZONE  RECV  SENT
                                     web  585K  781K

    NETWORK LINKS                      BYTES/S
                    ZONE            LINK  RECV  SENT
                     web            net0  195K  585K
                     web            net1  390K  195K

    DISK                               BYTES/S
                                    ZONE  READ WRITE
                                     web  195K  390K

    PRESSURE                       TIME WAITED
                                    ZONE   CPU   MEM   ALL  DISK   ALL
                                     web 2.00% 0.00% 0.00% 0.00% 0.00%
    "#);
    assert_snapshot!(print("-p -P zones -r network,disk,pressure -z web 5"), @r#"
    interval:network:net_default:web:585K:781K
    interval:network-link:net0:web:195K:585K
    interval:network-link:net1:web:390K:195K
    interval:disk:disk_default:web:195K:390K
    interval:pressure:psi_default:web:2.00%:0.00%:0.00%:0.00%:0.00%
    "#);
}

#[test]
fn reports_over_intervals() {
    assert_snapshot!(print_of("-R total -z web 5 5 1", Some(Kind::Total)), @r#"
    Report: Total Usage
        Start: Thu Nov 20 21:32:52 UTC 2025
          End: Thu Nov 20 21:32:57 UTC 2025
        Intervals: 1, Duration: 0:00:05
    SUMMARY                    Cpus/Online: 8/8   Physical: 16.0G    Virtual: 24.0G
                        ----------CPU---------- ----PHYSICAL----- -----VIRTUAL-----
                   ZONE  USED %PART  %CAP %SHRU  USED   PCT  %CAP  USED   PCT  %CAP
                [total]  2.00 25.0%     -     - 8192M 50.0%     - 10.0G 41.6%     -
               [system]  0.01 0.12%     -     - 1024M 6.25%     - 1024M 4.16%     -
                    web  0.20 3.33% 80.0% 5.55%  256M 1.56% 50.0%  320M 1.30% 31.2%
    "#);
    assert_snapshot!(print_of("-p -R high -P header,footer 5 5 1", Some(Kind::High)), @r#"
    report-high:header:20251120T213252Z:20251120T213257Z:5:5
    report-high:footer:20251120T213257Z:5:5
    "#);
}

#[test]
fn order() {
    let names = |line: &str| -> Vec<String> {
        let text = print(&format!("-p -P zones {line} 5"));
        let name = |line: &str| line.split(':').nth(2).map(str::to_owned);
        text.lines().filter_map(name).collect()
    };
    let (web, long) = ("web", "web-of-a-long-name");
    assert_eq!(names("-S name"), ["db", "global", "guest", web, long]);
    assert_eq!(names("-S used"), ["db", "global", web, "guest", long]);
    assert_eq!(
        names("-S physical-memory,used")[..3],
        ["db", "global", "guest"]
    );
    assert_eq!(names("-S cap")[0], web);
    assert_eq!(names("-S pcap,name"), [web, "db", "global", "guest", long]);
    assert_eq!(names("-S shr,name"), [web, "guest", long, "db", "global"]);
    assert_eq!(names("-S pshru,name")[..2], [web, "guest"]);
}

/// A parsed line of the form for programs, by the grammar of zonestat(8).
#[derive(Debug, PartialEq)]
enum Parsed {
    Header,
    Footer,
    Resource,
    /// The use in millionths or bytes, and the name of the user.
    Use(String),
}

fn parse(line: &str, with_time: bool) -> Option<Parsed> {
    let mut fields: Vec<&str> = line.split(':').collect();
    if with_time {
        let _time: u64 = fields.remove(0).parse().ok()?;
    }
    let kinds = ["interval", "report-total", "report-average", "report-high"];
    let (kind, rest) = fields.split_first()?;
    kinds.contains(kind).then_some(())?;
    let is_time =
        |text: &str| text.len() == 16 && text.ends_with('Z') || text.parse::<u64>().is_ok();
    let is_count = |text: &str| text.parse::<u64>().is_ok();
    let is_amount = |text: &str| {
        text == "-"
            || text
                .strip_suffix('K')
                .unwrap_or(text)
                .parse::<u64>()
                .is_ok()
    };
    let is_decimal = |text: &str| {
        text.split_once('.')
            .is_some_and(|(whole, part)| is_count(whole) && part.len() == 2 && is_count(part))
    };
    let is_percent = |text: &str| text == "-" || text.strip_suffix('%').is_some_and(is_decimal);
    let is_cpus = |text: &str| text == "-" || is_decimal(text);
    let is_cpu_time = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == 3 && is_count(parts[0]) && is_count(parts[1]) && is_decimal(parts[2])
    };
    let user = |name: &str| Parsed::Use(name.to_owned());
    match rest {
        ["header", "since-last-interval", time, count, elapsed] => {
            (is_time(time) && is_count(count) && is_count(elapsed)).then_some(Parsed::Header)
        }
        ["header", start, end, interval, elapsed] => {
            (is_time(start) && is_time(end) && is_count(interval) && is_count(elapsed))
                .then_some(Parsed::Header)
        }
        ["footer", time, interval, elapsed] => {
            (is_time(time) && is_count(interval) && is_count(elapsed)).then_some(Parsed::Footer)
        }
        ["summary", "[resource]", all, online, memory, virtual_] => {
            (is_count(all) && is_count(online) && is_amount(memory) && is_amount(virtual_))
                .then_some(Parsed::Resource)
        }
        [
            "summary",
            name,
            cpu,
            part,
            cap,
            shares,
            m,
            mp,
            mc,
            v,
            vp,
            vc,
        ] => (is_cpus(cpu)
            && [m, v].into_iter().all(|field| is_amount(field))
            && [part, cap, shares, mp, mc, vp, vc]
                .into_iter()
                .all(|field| is_percent(field)))
        .then(|| user(name)),
        ["processor-set", kind, _, "[resource]", numbers @ .., time] => (is_pset(kind)
            && numbers.len() == 4
            && numbers.iter().all(|field| is_count(field))
            && is_cpu_time(time))
        .then_some(Parsed::Resource),
        [
            "processor-set",
            kind,
            _,
            name,
            used,
            percent,
            cap,
            of_cap,
            shares,
            share,
            of_share,
            time,
        ] => (is_pset(kind)
            && is_cpus(used)
            && is_cpus(cap)
            && (is_amount(shares) || matches!(*shares, "inf" | "no-fss"))
            && [percent, of_cap, share, of_share]
                .into_iter()
                .all(|field| is_percent(field))
            && is_cpu_time(time))
        .then(|| user(name)),
        ["network" | "network-link" | "disk", _, name, one, two] => {
            (is_amount(one) && is_amount(two)).then(|| user(name))
        }
        ["pressure", _, name, waits @ ..] => {
            (waits.len() == 5 && waits.iter().all(|field| is_percent(field))).then(|| user(name))
        }
        [resource, name, rest @ ..] => {
            let known = stat::Resource::ALL
                .iter()
                .any(|one| one.as_str() == *resource);
            let names = ["mem_default", "vm_default", "system-limit"];
            (known && names.contains(name)).then_some(())?;
            match rest {
                ["[resource]", size] => is_amount(size).then_some(Parsed::Resource),
                [zone, used, percent, cap, of_cap] => {
                    (is_amount(used) && is_percent(percent) && is_amount(cap) && is_percent(of_cap))
                        .then(|| user(zone))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_pset(kind: &str) -> bool {
    matches!(
        kind,
        "default-pset" | "pool-pset" | "psrset-pset" | "dedicated-cpu"
    )
}

#[test]
fn programs_can_read_every_line() {
    for (line, with_time) in [("-p -r all 5", false), ("-p -r all -T u 5", true)] {
        for kind in [
            None,
            Some(Kind::Total),
            Some(Kind::Average),
            Some(Kind::High),
        ] {
            let text = print_of(line, kind);
            let parsed = text.lines().map(|line| {
                parse(line, with_time).unwrap_or_else(|| panic!("not by the grammar: {line}"))
            });
            let parsed: Vec<Parsed> = parsed.collect();
            assert_eq!(parsed.first(), Some(&Parsed::Header));
            assert_eq!(parsed.last(), Some(&Parsed::Footer));
            let of = |name: &str| {
                let wanted = Parsed::Use(name.to_owned());
                parsed.iter().filter(|one| **one == wanted).count()
            };
            // The summary, ten resources, a set of CPUs, three resources that only this program
            // has, and two links.
            assert_eq!(of("web"), 17);
            assert_eq!(of("[total]"), 13);
        }
    }
    for bad in [
        "interval:summary:web:1.0:0.00%:-:-:1:0.00%:-:1:0.00%:-",
        "interval:memory:web",
        "today:footer:20251120T213257Z:5:5",
        "",
    ] {
        assert_eq!(parse(bad, false), None, "{bad}");
    }
}
