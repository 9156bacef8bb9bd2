//! Tests of every layout, and of the colon-separated form by its grammar.

use insta::assert_snapshot;

use super::*;
use crate::args::{self, Call};
use crate::example;

fn print(line: &str) -> String {
    let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
    let Ok(Call::Dashboard(options)) = args::parse(&words) else {
        panic!("{line}");
    };
    let zones = Zones::new(&options.common.zones).unwrap();
    let mut printer = Printer::new(&options, &zones);
    let mut text = printer.print(&example::interval());
    text += &printer.print(&example::interval());
    text
}

#[test]
fn short() {
    assert_snapshot!(print("--dashboard 5"), @r#"
            |--Pool--|Pset|-------Memory------|
    Zonename| IT|Size|Used| RAM| Shm| Lkd|  VM|
    ------------------------------------------
      global  0D    6  0.3 2.9G    0  21M 3.9G
         web  0D    6  0.2 268M 1.0M 2.6M 335M
    web-of-a  0D    6  0.0  32M 1.0M 325K  40M
       guest  0D    6  0.0 1.0G 1.0M  10M 1.3G
          db  1P    2  1.5 3.2G 1.0M  32M 4.0G
    ==TOTAL=        8  2.0 8.5G 4.1M  67M  10G
    --------
      global  0D    6  0.3 2.9G    0  21M 3.9G
         web  0D    6  0.2 268M 1.0M 2.6M 335M
    web-of-a  0D    6  0.0  32M 1.0M 325K  40M
       guest  0D    6  0.0 1.0G 1.0M  10M 1.3G
          db  1P    2  1.5 3.2G 1.0M  32M 4.0G
    ==TOTAL=        8  2.0 8.5G 4.1M  67M  10G
    "#);
}

#[test]
fn the_long_dashboard_shows_full_names() {
    assert_snapshot!(print("-l 5"), @r#"
            |----Pool-----|-------CPU-------|----------------Memory-----------------|
            |   |--Size---|----Pset---------|---RAM---|---Shm---|---Lkd---|---VM----|
    Zonename| IT| Max| Cur| Cap|Used|Shr|S%| Cap|Used| Cap|Used| Cap|Used| Cap|Used|
    -------------------------------------------------------------------------------
      global  0D    8    6       0.3             2.9G  18E    0  18E  21M  18E 3.9G
         web  0D    8    6  0.3  0.2   3 60 536M 268M 268M 1.0M  67M 2.6M 1.0G 335M
    web-of-a  0D    8    6       0.0   1 20       32M  18E 1.0M  18E 325K  18E  40M
       guest  0D    8    6       0.0   1 20      1.0G  18E 1.0M  18E  10M  18E 1.3G
          db  1P    2    2       1.5             3.2G  18E 1.0M  18E  32M  18E 4.0G
    ==TOTAL=             8       2.0         17G 8.5G  17G 4.1M  17G  67M  25G  10G
    --------
      global  0D    8    6       0.3             2.9G  18E    0  18E  21M  18E 3.9G
         web  0D    8    6  0.3  0.2   3 60 536M 268M 268M 1.0M  67M 2.6M 1.0G 335M
    web-of-a  0D    8    6       0.0   1 20       32M  18E 1.0M  18E 325K  18E  40M
       guest  0D    8    6       0.0   1 20      1.0G  18E 1.0M  18E  10M  18E 1.3G
          db  1P    2    2       1.5             3.2G  18E 1.0M  18E  32M  18E 4.0G
    ==TOTAL=             8       2.0         17G 8.5G  17G 4.1M  17G  67M  25G  10G
    "#);
    assert_snapshot!(print("-lN -z w* 5"), @r#"
                      |----Pool-----|-------CPU-------|----------------Memory-----------------|
                      |   |--Size---|----Pset---------|---RAM---|---Shm---|---Lkd---|---VM----|
              Zonename| IT| Max| Cur| Cap|Used|Shr|S%| Cap|Used| Cap|Used| Cap|Used| Cap|Used|
    -----------------------------------------------------------------------------------------
                   web  0D    8    6  0.3  0.2   3 60 536M 268M 268M 1.0M  67M 2.6M 1.0G 335M
    web-of-a-long-name  0D    8    6       0.0   1 20       32M  18E 1.0M  18E 325K  18E  40M
              ==TOTAL=             8       2.0         17G 8.5G  17G 4.1M  17G  67M  25G  10G
    ------------------
                   web  0D    8    6  0.3  0.2   3 60 536M 268M 268M 1.0M  67M 2.6M 1.0G 335M
    web-of-a-long-name  0D    8    6       0.0   1 20       32M  18E 1.0M  18E 325K  18E  40M
              ==TOTAL=             8       2.0         17G 8.5G  17G 4.1M  17G  67M  25G  10G
    "#);
}

#[test]
fn colons() {
    assert_snapshot!(print("-P 5"), @r#"
    Zonename:I:T:Max:Cur:Cap:Used:Shr:S%:RAMCap:Used:ShmCap:Used:LkdCap:Used:VMCap:Used:Time
    global:0:D:8:6::0.3::::2.9G:18E:0:18E:21M:18E:3.9G:20251120T213257Z
    web:0:D:8:6:0.3:0.2:3:60:536M:268M:268M:1.0M:67M:2.6M:1.0G:335M:20251120T213257Z
    web-of-a-long-name:0:D:8:6::0.0:1:20::32M:18E:1.0M:18E:325K:18E:40M:20251120T213257Z
    guest:0:D:8:6::0.0:1:20::1.0G:18E:1.0M:18E:10M:18E:1.3G:20251120T213257Z
    db:1:P:2:2::1.5::::3.2G:18E:1.0M:18E:32M:18E:4.0G:20251120T213257Z
    ==TOTAL=::::8::2.0:::17G:8.5G:17G:4.1M:17G:67M:25G:10G:20251120T213257Z
    global:0:D:8:6::0.3::::2.9G:18E:0:18E:21M:18E:3.9G:20251120T213257Z
    web:0:D:8:6:0.3:0.2:3:60:536M:268M:268M:1.0M:67M:2.6M:1.0G:335M:20251120T213257Z
    web-of-a-long-name:0:D:8:6::0.0:1:20::32M:18E:1.0M:18E:325K:18E:40M:20251120T213257Z
    guest:0:D:8:6::0.0:1:20::1.0G:18E:1.0M:18E:10M:18E:1.3G:20251120T213257Z
    db:1:P:2:2::1.5::::3.2G:18E:1.0M:18E:32M:18E:4.0G:20251120T213257Z
    ==TOTAL=::::8::2.0:::17G:8.5G:17G:4.1M:17G:67M:25G:10G:20251120T213257Z
    "#);
}

#[test]
fn the_header_comes_again() {
    let Ok(Call::Dashboard(options)) = args::parse(&["-l".into(), "5".into()]) else {
        panic!("no dashboard");
    };
    let zones = Zones::new(&[]).unwrap();
    let mut printer = Printer::new(&options, &zones);
    let mut text = String::new();
    for _ in 0..9 {
        text += &printer.print(&example::interval());
    }
    // Each sample has seven lines, so every fourth sample has a header.
    assert_eq!(text.matches("Zonename").count(), 3);
}

#[test]
fn rows_have_the_fields_of_the_header() {
    let text = print("-P 5");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(':').collect();
    assert_eq!(
        (header.first(), header.last()),
        (Some(&"Zonename"), Some(&"Time"))
    );
    let mut totals = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(':').collect();
        assert_eq!(fields.len(), header.len(), "{line}");
        let is_total = fields[0] == TOTAL;
        totals += usize::from(is_total);
        for (name, field) in header.iter().zip(&fields).skip(3) {
            let is_size = |text: &str| {
                let digits = text.trim_end_matches(['K', 'M', 'G', 'T', 'P', 'E']);
                text.len() <= digits.len() + 1 && digits.parse::<f64>().is_ok()
            };
            let fine = match *name {
                "Time" => field.len() == 16,
                "S%" => field.is_empty() || *field == "HH" || field.parse::<u8>().is_ok(),
                _ => field.is_empty() || is_size(field),
            };
            assert!(fine, "{name} is {field} in {line}");
        }
        let (number, kind) = (fields[1], fields[2]);
        let is_pool = number.parse::<u32>().is_ok() && matches!(kind, "D" | "P" | "S");
        assert!(
            is_pool || (is_total && number.is_empty() && kind.is_empty()),
            "{line}"
        );
    }
    assert_eq!(totals, 2);
}
