//! System calls in another process, on its behalf: ptrace(2).
//!
//! For operations that a process can do only for itself, but has no code for: here a userfaultfd
//! for its own memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A request of ptrace(2); its type differs between C libraries.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
/// See above.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// It dies with us.
const EXIT_KILL: usize = 1 << 20;

/// Maximum number of bytes that are searched in the kernel's page of code of each process.
const MAX_CODE_BYTES: u64 = 1 << 16;

/// A process whose first thread stands still. It goes on where it was when this is
/// dropped; it dies when we die before that, as it would go on with our call's registers.
#[derive(Debug)]
pub struct Stopped {
    pid: libc::pid_t,
    before: libc::user_regs_struct,
    /// The address of an instruction that calls the kernel.
    call: u64,
    /// A signal that came meanwhile, for later; 0 for none.
    signal: libc::c_int,
    gone: bool,
}

impl Stopped {
    /// Stops a process; it must be one of x86-64.
    ///
    /// # Errors
    /// EPERM if it is not permitted, ESRCH when the process is gone.
    pub fn new(pid: i32) -> io::Result<Self> {
        let call = kernel_call(pid)?;
        request(libc::PTRACE_SEIZE, pid, 0, EXIT_KILL)?;
        // From here on it must be let go.
        let mut stopped = Self {
            pid,
            before: registers(),
            call,
            signal: 0,
            gone: false,
        };
        request(libc::PTRACE_INTERRUPT, pid, 0, 0).inspect_err(|_| stopped.gone = true)?;
        loop {
            let status = stopped.wait()?;
            if status >> 16 == libc::PTRACE_EVENT_STOP {
                break;
            }
            // The process stopped for a signal: deliver it, and wait for the next stop.
            let signal = usize::try_from(libc::WSTOPSIG(status)).unwrap_or(0);
            request(libc::PTRACE_CONT, pid, 0, signal)?;
        }
        stopped.before = stopped.get()?;
        Ok(stopped)
    }

    /// Has it call the kernel; the call must not wait for anything.
    ///
    /// # Errors
    /// Fails with the error of the call itself or of ptrace(2).
    pub fn call(&mut self, number: i64, arguments: [u64; 3]) -> io::Result<u64> {
        let [first, second, third] = arguments;
        let mut registers = self.before;
        registers.rip = self.call;
        registers.rax = u64::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
        // It is in no call that would have to be begun again.
        registers.orig_rax = u64::MAX;
        (registers.rdi, registers.rsi, registers.rdx) = (first, second, third);
        self.set(&registers)?;
        loop {
            request(libc::PTRACE_SINGLESTEP, self.pid, 0, 0)?;
            let status = self.wait()?;
            registers = self.get()?;
            if registers.rip != self.call {
                break;
            }
            let signal = libc::WSTOPSIG(status);
            if status >> 16 == 0 && signal != libc::SIGTRAP {
                self.signal = signal;
            }
        }
        let result = i64::from_ne_bytes(registers.rax.to_ne_bytes());
        match i32::try_from(-result) {
            Ok(code @ 1..4096) => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(registers.rax),
        }
    }

    fn get(&self) -> io::Result<libc::user_regs_struct> {
        let mut found = registers();
        let at = &raw mut found as usize;
        request(libc::PTRACE_GETREGS, self.pid, 0, at)?;
        Ok(found)
    }

    fn set(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        let at = std::ptr::from_ref(registers) as usize;
        request(libc::PTRACE_SETREGS, self.pid, 0, at)
    }

    /// Waits until it stands still again.
    fn wait(&mut self) -> io::Result<libc::c_int> {
        let mut status = 0;
        loop {
            // SAFETY: the status is ours.
            if unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) } == self.pid {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                self.gone = true;
                return Err(error);
            }
        }
        match libc::WIFSTOPPED(status) {
            true => Ok(status),
            false => {
                self.gone = true;
                Err(io::Error::from_raw_os_error(libc::ESRCH))
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        // Never set when it was not stopped at all.
        if self.before.rip != 0 {
            let _ = self.set(&self.before);
        }
        let signal = usize::try_from(self.signal).unwrap_or(0);
        let _ = request(libc::PTRACE_DETACH, self.pid, 0, signal);
    }
}

fn registers() -> libc::user_regs_struct {
    // SAFETY: it is numbers only.
    unsafe { std::mem::zeroed() }
}

/// Returns the address of a system call instruction in the kernel's own page of code in a process.
fn kernel_call(pid: i32) -> io::Result<u64> {
    let none = || io::Error::from(io::ErrorKind::Unsupported);
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split(' ').next());
    let (start, end) = range
        .and_then(|range| range.split_once('-'))
        .ok_or_else(none)?;
    let number = |text| u64::from_str_radix(text, 16).map_err(|_| none());
    let (start, end) = (number(start)?, number(end)?);
    let length = usize::try_from(end.saturating_sub(start).min(MAX_CODE_BYTES)).unwrap_or(0);
    let mut code = vec![0; length];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut code, start)?;
    let place = code.windows(2).position(|two| two == [0x0f, 0x05]);
    Ok(start + place.ok_or_else(none)? as u64)
}

fn request(what: Request, pid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: what the kernel writes to is `data` of a caller above, of the right type.
    if unsafe { libc::ptrace(what, pid, address, data) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_stopped_process_makes_a_system_call_and_continues() {
        let mut other = Command::new("sleep")
            .arg("1")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        // Not before it is that program.
        while !std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap()
            .starts_with("sleep")
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match Stopped::new(pid) {
            Err(error) => println!("skipped: no ptrace here: {error}"),
            Ok(mut stopped) => {
                let own = stopped.call(libc::SYS_getpid, [0; 3]).unwrap();
                assert_eq!(own, u64::try_from(pid).unwrap());
                let closed = stopped.call(libc::SYS_close, [9999, 0, 0]).unwrap_err();
                assert_eq!(closed.raw_os_error(), Some(libc::EBADF));
            }
        }
        assert!(other.wait().unwrap().success());
        assert!(Stopped::new(pid).is_err(), "it is gone");
    }
}
