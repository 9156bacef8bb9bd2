use super::*;

#[test]
fn accepts_and_canonicalises() {
    for (kind, given, canonical) in [
        (Kind::Text, "a b=c", "a b=c"),
        (Kind::Bool, "true", "true"),
        (Kind::Path, "/", "/"),
        (Kind::Path, "/a..b/.c", "/a..b/.c"),
        (Kind::Path, "//usr//local/", "/usr/local"),
        (Kind::ZonePath, "/zones/%{zonename}", "/zones/%{zonename}"),
        (Kind::Int { min: 1, max: 9 }, "007", "7"),
        (Kind::Size, "50m", "52428800"),
        (Kind::Cpus, "3", "3.00"),
        (Kind::Cpus, ".75", "0.75"),
        (Kind::Cpus, "1.500", "1.50"),
        (Kind::CpuRange, "1-4", "1-4"),
        (Kind::CpuRange, "2-2", "2"),
        (Kind::Words(&["a", "b"]), "b,a", "b,a"),
        (Kind::OneOf(&["auto"], &Kind::Mac), "auto", "auto"),
        (
            Kind::OneOf(&["auto"], &Kind::Mac),
            "2:8:20:0:1:A",
            "02:08:20:00:01:0a",
        ),
        (Kind::Address, "192.168.0.1/24", "192.168.0.1/24"),
        (Kind::Address, "fe80::1/10", "fe80::1/10"),
        (Kind::Address, "web.example.org", "web.example.org"),
        (
            Kind::Addresses,
            "10.0.0.1/24,fd00::1/64",
            "10.0.0.1/24,fd00::1/64",
        ),
        (Kind::Router, "10.0.0.254", "10.0.0.254"),
        (Kind::Link, "eth0", "eth0"),
        (Kind::Link, "net%{id}", "net%{id}"),
        (Kind::Dataset, "tank/a-b_c.d:e", "tank/a-b_c.d:e"),
        (Kind::RctlName, "zone.max-lwps", "zone.max-lwps"),
        (Kind::User, "anna", "anna"),
        (Kind::Bandwidth, "100M", "100M"),
        (Kind::Ports, "080", "80"),
        (Kind::Ports, "8000-8010", "8000-8010"),
        (Kind::Ports, "80-80", "80"),
        (Kind::Enum(&["x", "y"]), "y", "y"),
        (Kind::Brand, "ipkg", "ipkg"),
        (Kind::HostId, "0xFFFFFFFE", "0xFFFFFFFE"),
        (Kind::HostId, "0", "0"),
        (Kind::Label, "0x0004-08-68", "0x0004-08-68"),
        (Kind::Label, "0X0004-08-6800", "0x0004-08-68"),
        (Kind::FsType, "fuse.sshfs", "fuse.sshfs"),
        (Kind::AttrName, "kernel-version", "kernel-version"),
        (Kind::AttrName, "zonep2vchk-info", "zonep2vchk-info"),
    ] {
        assert_eq!(kind.check("p", given).as_deref(), Ok(canonical), "{given}");
    }
}

#[test]
fn refuses_what_is_illegal() {
    let long = "x".repeat(MAX_VALUE + 1);
    let long_path = format!("/{}", "x".repeat(MAX_PATH));
    for (kind, given) in [
        (Kind::Text, long.as_str()),
        (Kind::Text, "a\nb"),
        (Kind::Text, "a\"b"),
        (Kind::Bool, "TRUE"),
        (Kind::Path, "usr"),
        (Kind::Path, ""),
        (Kind::Path, "/a/../b"),
        (Kind::Path, &long_path),
        (Kind::ZonePath, "//"),
        (Kind::Int { min: 1, max: 9 }, "10"),
        (Kind::Int { min: 1, max: 9 }, "-1"),
        (Kind::Size, "K"),
        (Kind::Size, "1.5G"),
        (Kind::Size, "99999999999T"),
        (Kind::Size, "5é"),
        (Kind::Cpus, "0"),
        (Kind::Cpus, "."),
        (Kind::Cpus, "1.005"),
        (Kind::Cpus, "-1"),
        (Kind::CpuRange, "0"),
        (Kind::CpuRange, "4-1"),
        (Kind::CpuRange, "1-"),
        (Kind::CpuRange, "+1"),
        (Kind::Words(&["a", "b"]), "a,"),
        (Kind::OneOf(&["auto"], &Kind::Mac), "manual"),
        (Kind::Mac, "1:2:3:4:5:6"),
        (Kind::Mac, "0:0:0:0:0:0"),
        (Kind::Mac, "2:8:20:0:1"),
        (Kind::Address, "192.168.0.1/33"),
        (Kind::Address, "fe80::1"),
        (Kind::Address, "fe80::1/129"),
        (Kind::Address, "a b"),
        (Kind::Addresses, "10.0.0.1/24,"),
        (Kind::Router, "10.0.0.1/24"),
        (Kind::Link, "eth0:1"),
        (Kind::Link, "a-name-of-16-byt"),
        (Kind::Dataset, "/tank"),
        (Kind::Dataset, "tank@snap"),
        (Kind::RctlName, "process.max-file-size"),
        (Kind::User, "a:b"),
        (Kind::Bandwidth, "0"),
        (Kind::Bandwidth, "1T"),
        (Kind::Ports, "0"),
        (Kind::Ports, "65536"),
        (Kind::Ports, "8010-8000"),
        (Kind::Ports, "80-"),
        (Kind::Ports, "http"),
        (Kind::Enum(&["x"]), "z"),
        (Kind::ZoneName, "global"),
        (Kind::Brand, "hurd"),
        (Kind::HostId, "ffffffff"),
        (Kind::HostId, "0x"),
        (Kind::Label, "CNF : NEED TO KNOW"),
        (Kind::Label, "0x0004"),
        (Kind::Label, "0x0000-08-00"),
        (Kind::HostId, "+1"),
        (Kind::HostId, "123456789"),
        (Kind::FsType, "a/b"),
        (Kind::AttrName, "zonefoo"),
        (Kind::AttrName, "-x"),
    ] {
        assert!(kind.check("p", given).is_err(), "{kind:?} {given}");
    }
}

#[test]
fn paths_with_line_ends_and_quotes_are_refused() {
    for kind in [Kind::Path, Kind::ZonePath, Kind::List, Kind::Text] {
        for bad in ["\n", "\r", "\t", "\0", "\u{7f}", "\u{85}", "\""] {
            let path = format!("/zones/a{bad}evil:installed:/etc");
            assert!(kind.check("zonepath", &path).is_err(), "{kind:?} {bad:?}");
        }
    }
}

#[test]
fn names_the_choices() {
    let text = |words| {
        Kind::Enum(words)
            .check("p", "z")
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        text(&["a", "b", "c"]),
        Err("p value must be 'a', 'b' or 'c'.".to_owned())
    );
    assert_eq!(text(&["a"]), Err("p value must be 'a'.".to_owned()));
}
