//! Process 1 of a sparse zone: reaps, runs /etc/rc.zone, ends the zone in order.
//!
//! Standard input, output and error are the zone's console.
//!
//! - At its start it runs `/etc/rc.zone start` if that file is executable (the
//!   mode is the switch), or else nothing; a file without `#!` is run by
//!   /bin/sh. Boot argument `-s` (single user) leaves it out. Nothing waits
//!   for it: a zone without further processes is a zone that runs.
//! - Beside that it runs the program that `/etc/zone.init` names, if there is such a
//!   file: the command of a container image. The zone ends with it. See [`command`].
//! - Power off: SIGPWR, SIGTERM, SIGRTMIN+3 or +4. Reboot: SIGINT, SIGRTMIN+5.
//!   (RTMIN as in the GNU C library, 34.) See [`shutdown`] for the order.
//! - It ends by reboot(2): its parent sees a death by SIGINT for power off, by SIGHUP for
//!   reboot. Where reboot(2) is not allowed, the exit status says the same: 0 and 133.
//! - Called `poweroff`, `halt`, `reboot` or `shutdown` it signals process 1 accordingly and
//!   is done. A sparse zone has it under those names, see [`order`].
//! - Descriptor 3 is the other side of the console; it is kept open and not handed on.
//!
//! The program exists in two forms with the same code. With `panic = "abort"`
//! (release builds) it has no standard library: some KiB, two or three pages of
//! its own. Elsewhere (tests, lints) it is an ordinary program, as the compiler
//! knows no other way there.
#![cfg_attr(panic = "abort", no_std, no_main)]

mod command;
mod console;
mod life;
mod order;
mod shutdown;

#[cfg(panic = "abort")]
mod bare {
    use core::panic::PanicInfo;

    start::entry!(main);

    fn main(args: start::Arguments) -> u8 {
        let mut args = args.map(core::ffi::CStr::to_bytes);
        let name = args.next().unwrap_or_default();
        crate::life::run(name, args)
    }

    /// Ends the zone: process 1 that goes on after a broken promise is worse.
    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        crate::console::say(&[b"broken, the zone ends"]);
        start::exit(134)
    }
}

#[cfg(not(panic = "abort"))]
fn main() -> std::process::ExitCode {
    use std::os::unix::ffi::OsStrExt as _;

    let args: Vec<_> = std::env::args_os().collect();
    let mut args = args.iter().map(|arg| arg.as_bytes());
    let name = args.next().unwrap_or_default();
    life::run(name, args).into()
}
