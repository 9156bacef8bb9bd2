//! Process 1 of a sparse zone: reaps processes, runs /etc/rc.zone, and shuts the zone down.
//!
//! Standard input, output and error are the zone's console.
//!
//! - At its start it runs `/etc/rc.zone start` if that file is executable; the executable bit is
//!   the switch. /bin/sh runs a file without `#!`. Boot argument `-s` (single user) skips
//!   `/etc/rc.zone`. zinit does not wait for `/etc/rc.zone`: a zone without further processes still
//!   counts as running.
//! - It starts the services with a link in `/etc/rc2.d`, unless the boot is for a single user or the
//!   zone exists for one program. See [`services`].
//! - zinit also runs the program that `/etc/zone.init` names, if that file exists: the command of a
//!   container image. The zone ends when the program ends. See [`command`].
//! - Power off: SIGPWR, SIGTERM, SIGRTMIN+3 or +4. Reboot: SIGINT, SIGRTMIN+5.
//!   (RTMIN as in the GNU C library, 34.) See [`shutdown`] for the order.
//! - zinit ends by reboot(2): its parent sees a death by SIGINT for power off, by SIGHUP for
//!   reboot. Where reboot(2) is not allowed, zinit's exit status tells its parent: 0 is power off
//!   and 133 is reboot.
//! - If zinit is called `poweroff`, `halt`, `reboot` or `shutdown`, it sends process 1 the matching
//!   signal and exits. A sparse zone contains zinit under those names; see [`order`].
//! - Descriptor 3 is the other side of the console's terminal. zinit keeps it open, and its
//!   children do not inherit it.
//!
//! zinit can be built in two forms from the same code. With `panic = "abort"` (release builds)
//! zinit has no standard library: it is a file of some KiB and uses two or three pages of memory of
//! its own. In other builds (tests, lints) zinit is an ordinary program with the standard library,
//! which the compiler requires there.
#![cfg_attr(panic = "abort", no_std, no_main)]

mod command;
mod console;
mod life;
mod order;
mod services;
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

    /// Ends the zone after a panic: a process 1 that continues after a broken invariant would be
    /// worse.
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
