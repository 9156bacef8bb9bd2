//! Runs system calls in another process: ptrace(2).
//!
//! Some operations must be done by a process itself, but its program has no code for them. For
//! example, only a process itself can create a userfaultfd for its own memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The type of a ptrace request in this C library.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
/// The type of a ptrace request in this C library.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// The traced process is killed when this process ends.
const EXIT_KILL: usize = 1 << 20;

/// Maximum number of bytes to search in the kernel's code page of a process.
const MAX_CODE_BYTES: u64 = 1 << 16;

/// A process whose first thread is stopped. When this value is dropped, the process continues at
/// the instruction where it was stopped. If the calling program dies before that, the kernel kills
/// the stopped process (PTRACE_O_EXITKILL), because the process would continue with the registers
/// of the injected system call.
#[derive(Debug)]
pub struct Stopped {
    pid: libc::pid_t,
    before: libc::user_regs_struct,
    /// The address of a system call instruction.
    call: u64,
    /// A signal that arrived in the meantime and is delivered later; 0 means none.
    signal: libc::c_int,
    gone: bool,
}

impl Stopped {
    /// Stops a process, which must be an x86-64 program.
    ///
    /// # Errors
    /// Fails with EPERM if the caller may not trace the process, and with ESRCH if the process has
    /// ended.
    pub fn new(pid: i32) -> io::Result<Self> {
        let call = kernel_call(pid)?;
        request(libc::PTRACE_SEIZE, pid, 0, EXIT_KILL)?;
        // From here on, every error path must release the process.
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
            // A signal stopped the process: deliver this signal, and wait for the next stop.
            let signal = usize::try_from(libc::WSTOPSIG(status)).unwrap_or(0);
            request(libc::PTRACE_CONT, pid, 0, signal)?;
        }
        stopped.before = stopped.get()?;
        Ok(stopped)
    }

    /// Makes the process execute a system call, which must not block.
    ///
    /// # Errors
    /// Fails with the error of the system call itself, or of ptrace(2).
    pub fn call(&mut self, number: i64, arguments: [u64; 3]) -> io::Result<u64> {
        let [first, second, third] = arguments;
        let mut registers = self.before;
        registers.rip = self.call;
        registers.rax = u64::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
        // With this value the kernel restarts no interrupted system call of the process.
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

    /// Waits until the process is stopped again.
    fn wait(&mut self) -> io::Result<libc::c_int> {
        let mut status = 0;
        loop {
            // SAFETY: `status` is a local variable, to which the kernel writes one integer.
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
        // `before` is still zero if the process was never stopped.
        if self.before.rip != 0 {
            let _ = self.set(&self.before);
        }
        let signal = usize::try_from(self.signal).unwrap_or(0);
        let _ = request(libc::PTRACE_DETACH, self.pid, 0, signal);
    }
}

fn registers() -> libc::user_regs_struct {
    // SAFETY: the structure has only numbers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// Returns the address of a system call instruction in the kernel's code page of a process.
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
    // SAFETY: `data` is a number, or the address of a structure of the type that the request `what`
    // reads or writes.
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
        // Waits until the child executes that program.
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
