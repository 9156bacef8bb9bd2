//! Measures which part of a program of 20 MB is shared when it runs in many zones.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use lifecycle::lane::Call;
use lifecycle::root::{self, MASTER, Roots};

use crate::fleet::{Contestant, Fleet, reap};
use crate::measure::rollup;
use crate::results::SharedRow;

/// The path of the program in every root.
const PROGRAM: &str = "/opt/z2-big";

/// A program that touches all of its pages and keeps running in the background.
const SOURCE: &str = r#"
#include <unistd.h>
__asm__(".section .rodata\n.global noise\nnoise: .incbin \"NOISE\"\n.global noise_end\nnoise_end:\n.text\n");
extern const char noise[], noise_end[];
int main(void) {
    int done[2], sum = 0;
    char byte = 0;
    if (pipe(done) != 0) return 1;
    if (fork() == 0) {
        setsid();
        for (const char *p = noise; p < noise_end; p += 4096) sum += *p;
        byte = (char)sum;
        if (write(done[1], &byte, 1) != 1) return 1;
        for (int fd = 0; fd < 64; fd++) close(fd);
        for (;;) pause();
    }
    close(done[1]);
    return read(done[0], &byte, 1) == 1 ? 0 : 1;
}
"#;

/// Copies the program into the master, before it is cloned, and into the copies of its root.
pub fn put_program(scratch: &Path, roots: &Roots) -> Result<()> {
    let (noise, source, program) = (
        scratch.join("noise"),
        scratch.join("big.c"),
        scratch.join("big"),
    );
    let mut random = fs::File::open("/dev/urandom")?.take(20 << 20);
    std::io::copy(&mut random, &mut fs::File::create(&noise)?)?;
    fs::write(&source, SOURCE.replace("NOISE", &noise.to_string_lossy()))?;
    let compile = Call::new("cc").args(["-O1", "-static", "-o"]);
    root::run(compile.args([&program, &source]))?;
    let master = scratch.join("zones/zones").join(MASTER).join("root");
    for root in [&master, &roots.plain, &roots.shifted] {
        let file = root.join(PROGRAM.trim_start_matches('/'));
        fs::create_dir_all(file.parent().context("no parent")?)?;
        fs::copy(&program, &file).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs the program in this number of zones, and adds up the memory.
pub fn measure(contestant: &Contestant, zones: usize) -> Result<SharedRow> {
    let fleet = Fleet::new(contestant, "big", zones, std::time::Duration::ZERO);
    let mut lanes = fleet.start()?;
    fleet.run_inside(&lanes, PROGRAM)?;
    let (mut rss, mut pss, mut found) = (0.0, 0.0, 0);
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        // The path is relative to the zone's root or to the process's own root.
        let Ok(file) = fs::read_link(path.join("exe")) else {
            continue;
        };
        let (Some(pid), true) = (name, file.to_string_lossy().ends_with(PROGRAM)) else {
            continue;
        };
        rss += rollup(pid, "Rss:");
        pss += rollup(pid, "Pss:");
        found += 1;
    }
    anyhow::ensure!(found == zones, "{found} programs run in {zones} zones");
    fleet.stop(&mut lanes)?;
    reap();
    Ok(SharedRow {
        tool: contestant.title.clone(),
        zones,
        rss_mib: rss / 1024.0,
        pss_mib: pss / 1024.0,
    })
}
