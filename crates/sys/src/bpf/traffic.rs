//! Loads programs that decide about packets at a network device (tc-bpf(8)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{BPF_PROG_TEST_RUN, bpf, load};

const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;

/// Offset of the priority in `struct __sk_buff`, in words of 32 bits.
const PRIORITY: usize = 8;
/// Offset of the mark in `struct __sk_buff`, in words.
const MARK: usize = 2;
/// Size of the buffer for `struct __sk_buff`, in words. The structure is larger in newer kernels.
const CONTEXT: usize = 64;

/// The part of `union bpf_attr` that BPF_PROG_TEST_RUN reads and writes.
#[repr(C)]
struct RunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

/// The result of a program for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The return value of the program.
    pub verdict: i32,
    /// The priority of the frame after the program.
    pub priority: u32,
    /// The mark of the frame after the program.
    pub mark: u32,
    /// The average run time of the program, in nanoseconds.
    pub duration: u32,
}

/// Loads a program for frames that arrive at or leave a device.
///
/// # Errors
/// Fails with the error of bpf(2): `EPERM` without CAP_BPF and CAP_NET_ADMIN, `EINVAL` and `EACCES`
/// for a program that the kernel's verifier refuses.
pub fn load_classifier(program: &[u64]) -> io::Result<OwnedFd> {
    load(BPF_PROG_TYPE_SCHED_CLS, 0, program)
}

/// Runs a loaded program `times` times on a frame that is not sent.
///
/// # Errors
/// Fails with the error of bpf(2): `EINVAL` for a frame without an Ethernet header.
pub fn run_classifier(program: BorrowedFd<'_>, frame: &[u8], times: u32) -> io::Result<Ran> {
    run_with_mark(program, frame, times, 0)
}

/// Does the same as [`run_classifier`] on a frame that has a mark before the program.
///
/// # Errors
/// Fails as [`run_classifier`] does.
pub fn run_with_mark(
    program: BorrowedFd<'_>,
    frame: &[u8],
    times: u32,
    mark: u32,
) -> io::Result<Ran> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let length = u32::try_from(frame.len()).map_err(invalid)?;
    // A program may add a VLAN tag, so the output can be longer than the input.
    let mut out = vec![0_u8; frame.len() + 64];
    let mut given = [0_u32; MARK + 1];
    given[MARK] = mark;
    let mut context = [0_u32; CONTEXT];
    let mut run = RunAttr {
        prog_fd: program.as_raw_fd() as u32,
        retval: 0,
        data_size_in: length,
        data_size_out: u32::try_from(out.len()).map_err(invalid)?,
        data_in: frame.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat: times,
        duration: 0,
        ctx_size_in: u32::try_from(size_of_val(&given)).map_err(invalid)?,
        ctx_size_out: u32::try_from(size_of_val(&context)).map_err(invalid)?,
        ctx_in: given.as_ptr() as u64,
        ctx_out: context.as_mut_ptr() as u64,
    };
    // SAFETY: `run` is a prefix of union bpf_attr of the size given. The kernel reads
    // `data_size_in` bytes of `frame` and `ctx_size_in` bytes of `given`, and writes at most `data_size_out` bytes to `out` and
    // `ctx_size_out` bytes to `context`, which are that long.
    unsafe { bpf(BPF_PROG_TEST_RUN, &raw mut run)? };
    Ok(Ran {
        verdict: run.retval as i32,
        priority: context[PRIORITY],
        mark: context[MARK],
        duration: run.duration,
    })
}
