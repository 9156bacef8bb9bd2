//! Tests of the form that a command line selects, and of the command lines that are refused.

use stat::Resource;
use stat::report::Kind;

use super::*;
use crate::time::Stamp;

fn call(line: &str) -> Result<Call, String> {
    let words: Vec<OsString> = line
        .split(' ')
        .filter(|w| !w.is_empty())
        .map(OsString::from)
        .collect();
    parse(&words).map_err(|wrong| wrong.0)
}

fn reports(line: &str) -> Reports {
    match call(line) {
        Ok(Call::Reports(reports)) => *reports,
        other => panic!("{line}: {other:?}"),
    }
}

fn dashboard(line: &str) -> Dashboard {
    match call(line) {
        Ok(Call::Dashboard(dashboard)) => dashboard,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn intervals_are_parsed_as_on_solaris() {
    let plain = reports("5");
    assert_eq!(plain.sections, [Section::Summary]);
    assert_eq!((plain.timing.interval, plain.timing.duration), (5, None));
    assert_eq!(plain.form, Form::Human);
    let timing = |line| {
        let timing = reports(line).timing;
        (timing.interval, timing.duration, timing.report)
    };
    assert_eq!(timing("10 6"), (10, Some(60), None));
    assert_eq!(timing("10s 24h"), (10, Some(86_400), None));
    assert_eq!(
        timing("-R total 10s 24h 1h"),
        (10, Some(86_400), Some(3_600))
    );
    assert_eq!(timing("-R high 2 inf 4"), (2, None, Some(8)));
    assert_eq!(timing("default"), (5, None, None));
}

#[test]
fn every_option_of_solaris() {
    let all = reports(
        "-z web,db -z w[1-2,4] -r psets,memory -n mem_default -T u -R high,total -q -pP zones,header -S pcap,physical-memory 1m 5m",
    );
    assert_eq!(all.common.zones, ["web", "db", "w[1-2,4]"]);
    let memory = [Resource::Physical, Resource::Virtual, Resource::Locked];
    let mut sections: Vec<Section> = memory.map(Section::One).to_vec();
    sections.push(Section::Psets);
    assert_eq!(all.sections, sections);
    assert_eq!(all.names, ["mem_default"]);
    assert_eq!(all.stamp, Some(Stamp::Unix));
    assert_eq!(all.kinds, [Kind::Total, Kind::High]);
    assert!(all.quiet && all.form == Form::Parseable);
    assert!(all.lines.zones && all.lines.header && !all.lines.footer && !all.lines.total);
    assert_eq!(
        (all.sort, all.summary_by),
        (vec![Sort::PercentOfCap], Resource::Physical)
    );
    assert_eq!(reports("-r all 5").sections.len(), 15);
    assert_eq!(
        reports("-r default-pset 5").sections,
        [Section::DefaultPset]
    );
    assert_eq!(
        reports("-r lwps,lwps 5").sections,
        [Section::One(Resource::Lwps)]
    );
}

#[test]
fn the_dashboard_is_what_has_no_interval_or_one_of_its_options() {
    let plain = dashboard("");
    assert_eq!((plain.count, plain.interval), (Some(1), 1));
    assert!(!plain.limits && !plain.parseable && !plain.full_names);
    let limits = dashboard("-l 5");
    assert!(limits.limits);
    assert_eq!((limits.interval, limits.count), (5, None));
    let all = dashboard("-lPN 5 10");
    assert!(all.limits && all.parseable && all.full_names);
    assert_eq!((all.interval, all.count), (5, Some(10)));
    assert!(dashboard("-P 5 10").parseable);
    assert!(dashboard("-P -l").limits);
    assert_eq!(dashboard("--dashboard 5").interval, 5);
    assert_eq!(dashboard("-z web").common.zones, ["web"]);
}

#[test]
fn ours() {
    let json = reports("-j");
    assert_eq!(json.form, Form::Json);
    assert_eq!((json.timing.interval, json.timing.duration), (1, Some(1)));
    assert_eq!(reports("-j 5").timing.duration, None);
    assert_eq!(call("--help"), Ok(Call::Help));
    assert_eq!(call("-?"), Ok(Call::Help));
    assert!(matches!(call("--openmetrics"), Ok(Call::OpenMetrics(_))));
    assert!(matches!(
        call("--tui 1"),
        Ok(Call::Tui(Tui { interval: 1, .. }))
    ));
    let Ok(Call::Serve(_, address)) = call("--serve") else {
        panic!("no service");
    };
    assert_eq!(address, DEFAULT_ADDRESS);
    assert!(matches!(call("--root /x -j"), Ok(Call::Reports(_))));
}

#[test]
fn errors_name_the_wrong_argument() {
    for (line, said) in [
        ("-r summary", "Interval required."),
        ("-z web -R total", "Interval required."),
        ("0", "Invalid interval: \"0\""),
        ("abc", "Invalid interval: \"abc\""),
        ("inf", "Invalid interval: \"inf\""),
        ("5 0", "Invalid duration: \"0\""),
        ("5 default", "Invalid duration: \"default\""),
        ("-R total 5 5 0", "Invalid report period: \"0\""),
        ("5 5 5", "A report period requires -R"),
        ("5 5 5 5", "Too many operands: \"5\""),
        ("-q 5", "-q requires -R"),
        ("-P zones 5", "-P requires -p"),
        ("-T x 5", "Invalid -T arg \"x\". Must be 'u', 'i', or 'd'."),
        ("-p -T d 5", "-T d invalid with -p.  Use -T [u | i]"),
        ("-r memories 5", "Unknown resource: memories"),
        ("-R lowest 5", "Unknown -R arg: lowest"),
        ("-p -P lines 5", "Unknown -P arg: lines"),
        ("-S size 5", "Unknown -S arg: size"),
        (
            "-S cpu,virtual-memory 5",
            "-S: only one of \"cpu\", \"physical-memory\", or \"virtual-memory\" permitted",
        ),
        ("-z web, 5", "Invalid list: \"web,\""),
        (
            "-l -r memory 5",
            "-l, -N and -P without -p cannot go with -r, -n, -T, -R, -q and -S",
        ),
        (
            "-l -j 5",
            "-l, -N and -P without -p are for the dashboard only",
        ),
        ("-l 5 1m", "Invalid count: \"1m\""),
        ("-p -j 5", "-p and -j are two forms"),
        (
            "-j -S cpu 5",
            "-n, -T and -S cannot go with -j, which has one object for each zone",
        ),
        (
            "--tui -j",
            "only one of -j, --tui, --openmetrics and --serve can be given",
        ),
        (
            "--tui -p",
            "-r, -n, -T, -R, -q, -p and -S are for reports only",
        ),
        ("--openmetrics 5", "Too many operands: \"5\""),
    ] {
        assert_eq!(call(line), Err(said.to_owned()), "{line}");
    }
    for line in ["-x", "-z", "-r", "--interval 5", "-P -p 5", "-pP"] {
        assert!(call(line).is_err(), "{line}");
    }
}
