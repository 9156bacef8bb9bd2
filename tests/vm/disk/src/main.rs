//! A disk for a virtual machine that loses unflushed data when its power is cut.
//!
//! A machine whose power fails loses what is in the cache of its disk: each sector that
//! was written since the last flush is there or it is not, in no order. A killed QEMU
//! loses nothing of the kind, as the host keeps what it has written. So the disk is
//! served to QEMU over NBD from here, and when the connection breaks without a farewell
//! the sectors since the last flush are taken back, all of them or every other one by
//! chance.
//!
//! The cache holds few data most of the time, because careful programs flush at once. So the power
//! is cut not at a moment but at a write, counted from the request: after that write the disk
//! answers nothing, and the process that waits for QEMU's end kills QEMU.

mod disk;
mod serve;

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use disk::{Disk, Fate};
use serve::End;

const USAGE: &str = "\
usage: volatile-disk SOCKET FILE all|some SEED CUE WRITES

Serves FILE to one QEMU on SOCKET over NBD. When QEMU is killed, sectors that were
written and not flushed are taken back: all of them, or some, which SEED chooses.
Prints how many, or that the machine ended in order.

Once the file CUE is there WRITES more writes are served, and then nothing; a line says
that QEMU is to be killed now.
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, file, fate, seed, cue, writes] = words.as_slice() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let (fate, mut left) = match (fate.as_str(), seed.parse(), writes.parse::<u32>()) {
        ("all", Ok(_), Ok(writes)) => (Fate::AllLost, writes),
        ("some", Ok(seed), Ok(writes)) => (Fate::SomeLost(seed), writes),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let cue = Path::new(cue);
    let mut fails = || {
        if !cue.exists() {
            return false;
        }
        if left > 0 {
            left -= 1;
            return false;
        }
        println!("the power fails");
        true
    };
    match run(socket, file, fate, &mut fails) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("volatile-disk: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    socket: &str,
    file: &str,
    fate: Fate,
    fails: &mut dyn FnMut() -> bool,
) -> anyhow::Result<String> {
    let opened = File::options().read(true).write(true).open(file);
    let mut disk = Disk::new(opened.with_context(|| file.to_owned())?)?;
    let listener = UnixListener::bind(socket).with_context(|| socket.to_owned())?;
    let (client, _) = listener.accept()?;
    Ok(match serve::serve(&client, &mut disk, fails)? {
        End::InOrder => "the machine ended in order".to_owned(),
        End::CutOff => {
            let (lost, kept) = disk.cut_off(fate)?;
            format!(
                "{lost} sectors lost of {} that were not flushed",
                lost + kept
            )
        }
    })
}
