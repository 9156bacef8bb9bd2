//! Measures the cost of a snapshot for later writes: the first write to a big file copies the whole
//! file, or shares its blocks if the file system supports this.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::Result;
use lifecycle::options::Options;
use lifecycle::root;

use crate::disk::{Image, Space};
use crate::results::CopyUpRow;

const ZONE: &str = "db";

pub fn measure(options: &Options, kind: &str, file_mib: u64) -> Result<CopyUpRow> {
    let disk = Image::make(&options.scratch, kind, 2 * file_mib + 1024)?;
    let zones = disk.at.join("zones");
    std::fs::create_dir(&zones)?;
    let bin = options.scratch.join("bin");
    let call = |program: &str, words: &[&str]| {
        let words = words.iter().map(OsString::from);
        // The cgroup is below that of the run, so that the run finds and removes it.
        let call = root::zones_call(&bin, &options.scratch.join("zones"), program);
        root::run(call.env("ZONES_ROOT", &zones).args(words))
    };
    let on_zone = |words: &[&str]| call("zoneadm", &[&["-z", ZONE], words].concat());
    call("zonecfg", &["-z", ZONE, "create"])?;
    on_zone(&["install"])?;
    on_zone(&["boot"])?;
    let count = format!("count={file_mib}");
    let fill = [
        "/bin/dd",
        "if=/dev/zero",
        "of=/var/big",
        "bs=1M",
        &count,
        "conv=fsync",
    ];
    let touch = [
        "/bin/dd",
        "if=/dev/zero",
        "of=/var/big",
        "bs=4k",
        "count=1",
        "conv=notrunc,fsync",
    ];
    let inside = |words: &[&str]| -> Result<f64> {
        let began = Instant::now();
        call("zlogin", &[&[ZONE], words].concat())?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    };
    let row = inside(&fill).and_then(|_| {
        let before = inside(&touch)?;
        on_zone(&["halt"])?;
        on_zone(&["snapshot", "one"])?;
        on_zone(&["boot"])?;
        let space = Space::Mount(disk.at.clone());
        let used = space.used()?;
        Ok(CopyUpRow {
            filesystem: kind.to_owned(),
            file_mib,
            before_snapshot_ms: before,
            first_after_ms: inside(&touch)?,
            second_after_ms: inside(&touch)?,
            disk_mib: (space.used()? - used) / 1024.0,
        })
    });
    on_zone(&["halt"])?;
    on_zone(&["uninstall", "-F"])?;
    call("zonecfg", &["-z", ZONE, "delete", "-F"])?;
    row
}
