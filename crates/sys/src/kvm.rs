//! Tests if the processor can run virtual machines.
//!
//! The existence of /dev/kvm proves nothing. If this host is itself a virtual machine, its
//! hypervisor may interpret the kernel of a guest instruction by instruction, slowly, or not know
//! some instructions. Therefore a tiny guest does the typical work of a kernel: a loop of two
//! million rounds, and instructions of SSE, the time stamp counter and the page tables, in 64-bit
//! supervisor mode. See [`runs_guests`]. The guest may run forever, so the caller uses a process
//! with a time limit.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::mapping::Mapping;

/// The number of a request in the C library's type: unsigned long in glibc, int in musl.
#[allow(
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    reason = "which of the two it is depends on the C library"
)]
const fn request(number: u32) -> libc::Ioctl {
    number as libc::Ioctl
}

const CREATE_VM: libc::Ioctl = request(0xae01);
const GET_VCPU_MMAP_SIZE: libc::Ioctl = request(0xae04);
const GET_SUPPORTED_CPUID: libc::Ioctl = request(0xc008_ae05);
const CREATE_VCPU: libc::Ioctl = request(0xae41);
const SET_USER_MEMORY_REGION: libc::Ioctl = request(0x4020_ae46);
const SET_TSS_ADDR: libc::Ioctl = request(0xae47);
const CREATE_IRQCHIP: libc::Ioctl = request(0xae60);
const RUN: libc::Ioctl = request(0xae80);
const SET_REGS: libc::Ioctl = request(0x4090_ae82);
const GET_SREGS: libc::Ioctl = request(0x8138_ae83);
const SET_SREGS: libc::Ioctl = request(0x4138_ae84);
const SET_CPUID2: libc::Ioctl = request(0x4008_ae90);

/// The value of `KVM_EXIT_IO`.
const EXIT_IO: u32 = 2;

#[repr(C)]
struct MemoryRegion {
    slot: u32,
    flags: u32,
    guest_address: u64,
    size: u64,
    address: u64,
}

#[repr(C)]
#[derive(Default)]
struct Registers {
    /// The registers rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8 to r15.
    general: [u64; 16],
    rip: u64,
    rflags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Segment {
    base: u64,
    limit: u32,
    selector: u16,
    kind: u8,
    present: u8,
    dpl: u8,
    db: u8,
    s: u8,
    l: u8,
    g: u8,
    avl: u8,
    unusable: u8,
    padding: u8,
}

#[repr(C)]
#[derive(Default)]
struct Table {
    base: u64,
    limit: u16,
    padding: [u16; 3],
}

#[repr(C)]
#[derive(Default)]
struct SpecialRegisters {
    cs: Segment,
    /// The segment registers ds, es, fs, gs, ss.
    data: [Segment; 5],
    tr: Segment,
    ldt: Segment,
    gdt: Table,
    idt: Table,
    cr0: u64,
    cr2: u64,
    cr3: u64,
    cr4: u64,
    cr8: u64,
    efer: u64,
    apic_base: u64,
    interrupts: [u64; 4],
}

/// Maximum number of processor features that are requested.
const MAX_FEATURES: usize = 256;

#[repr(C)]
struct Features {
    count: u32,
    padding: u32,
    entries: [[u32; 10]; MAX_FEATURES],
}

/// Size of the guest's memory, in bytes.
const GUEST_BYTES: usize = 4 << 20;
const CODE: usize = 0x8000;
const COUNTER: u32 = 0x6000;

/// The I/O port on which the guest reports its end, and the value that it writes.
const PORT: u16 = 0x3f8;
const WORD: u8 = b'K';

/// Runs the tiny guest until its end.
///
/// # Errors
/// Fails with a description of the failed step. The call may also never return.
pub fn runs_guests() -> io::Result<()> {
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    // A hypervisor that interprets instructions does not know these and reports this at once. With
    // the loop alone, only the time limit would reveal it.
    run(&kvm, &code_of_instructions())?;
    run(&kvm, &code_of_loop())
}

/// The instructions are: mov dx, PORT; mov al, WORD; out dx, al; hlt
fn done() -> Vec<u8> {
    let [low, high] = PORT.to_le_bytes();
    vec![0x66, 0xba, low, high, 0xb0, WORD, 0xee, 0xf4]
}

fn code_of_loop() -> Vec<u8> {
    // The instruction is: mov ecx, 2000000
    let mut code = vec![0xb9];
    code.extend(2_000_000_u32.to_le_bytes());
    // The instructions are: again: inc qword [COUNTER]; dec ecx; jnz again
    code.extend([0x48, 0xff, 0x04, 0x25]);
    code.extend(COUNTER.to_le_bytes());
    code.extend([0xff, 0xc9, 0x75, 0xf4]);
    code.extend(done());
    code
}

fn code_of_instructions() -> Vec<u8> {
    // The instructions are: mov rax, cr4; or ax, OSFXSR|OSXMMEXCPT; mov cr4, rax
    let mut code = vec![0x0f, 0x20, 0xe0, 0x66, 0x0d, 0x00, 0x06, 0x0f, 0x22, 0xe0];
    // The instructions are: fninit; movaps xmm0, xmm1; pxor xmm0, xmm0; movups [COUNTER], xmm0
    code.extend([0xdb, 0xe3, 0x0f, 0x28, 0xc1, 0x66, 0x0f, 0xef, 0xc0]);
    code.extend([0x0f, 0x11, 0x04, 0x25]);
    code.extend(COUNTER.to_le_bytes());
    // The instructions are: rdtsc; invlpg [COUNTER]
    code.extend([0x0f, 0x31, 0x0f, 0x01, 0x3c, 0x25]);
    code.extend(COUNTER.to_le_bytes());
    code.extend(done());
    code
}

/// Writes page tables that map the first 4 MiB to themselves, segment descriptors, and the code.
fn memory_with(code: &[u8]) -> io::Result<Mapping> {
    let file = rustix::fs::memfd_create("kvm", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, GUEST_BYTES as u64)?;
    let memory = Mapping::new(file.as_fd(), GUEST_BYTES)?;
    for (at, what) in [
        (0x1000, 0x2003_u64),
        (0x2000, 0x3003),
        (0x3000, 0x83),
        (0x3008, 0x20_0083),
        (0x508, 0x00af_9b00_0000_ffff),
        (0x510, 0x00cf_9300_0000_ffff),
    ] {
        memory.write(at, &what.to_le_bytes())?;
    }
    memory.write(CODE, code)?;
    Ok(memory)
}

fn run(kvm: &File, code: &[u8]) -> io::Result<()> {
    let kvm = kvm.as_raw_fd();
    let memory = memory_with(code)?;
    let odd = |what: &'static str| io::Error::new(io::ErrorKind::Unsupported, what);
    // SAFETY: the request CREATE_VM takes a number.
    let machine = unsafe { opened(libc::ioctl(kvm, CREATE_VM, 0))? };
    let machine = machine.as_raw_fd();
    // SAFETY: both requests take a number.
    unsafe {
        checked(libc::ioctl(machine, SET_TSS_ADDR, 0xfffb_d000_u64))?;
        checked(libc::ioctl(machine, CREATE_IRQCHIP, 0))?;
    }
    let region = MemoryRegion {
        slot: 0,
        flags: 0,
        guest_address: 0,
        size: GUEST_BYTES as u64,
        address: memory.address(),
    };
    let mut features = Box::new(Features {
        count: 256,
        padding: 0,
        entries: [[0; 10]; MAX_FEATURES],
    });
    let mut special = SpecialRegisters::default();
    // SAFETY: each structure has the layout that its request needs, and exists during the call. The
    // memory of the guest exists longer than the guest, because the descriptors of the guest are
    // closed before `memory` is dropped.
    let processor = unsafe {
        checked(libc::ioctl(
            machine,
            SET_USER_MEMORY_REGION,
            &raw const region,
        ))?;
        let processor = opened(libc::ioctl(machine, CREATE_VCPU, 0))?;
        let raw = processor.as_raw_fd();
        checked(libc::ioctl(kvm, GET_SUPPORTED_CPUID, &raw mut *features))?;
        checked(libc::ioctl(raw, SET_CPUID2, &raw const *features))?;
        checked(libc::ioctl(raw, GET_SREGS, &raw mut special))?;
        processor
    };
    into_long_mode(&mut special);
    let registers = Registers {
        general: [0, 0, 0, 0, 0, 0, 0x7000, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        rip: CODE as u64,
        rflags: 2,
    };
    let raw = processor.as_raw_fd();
    // SAFETY: both structures have the layouts that their requests need, and exist during the
    // calls.
    let length = unsafe {
        checked(libc::ioctl(raw, SET_SREGS, &raw const special))?;
        checked(libc::ioctl(raw, SET_REGS, &raw const registers))?;
        checked(libc::ioctl(kvm, GET_VCPU_MMAP_SIZE, 0))?
    };
    let length = usize::try_from(length).map_err(|_| odd("no size"))?;
    let state = Mapping::new(processor.as_fd(), length)?;
    // SAFETY: the request RUN takes a number; the guest writes to `memory`, and the kernel writes
    // to `state`.
    unsafe { checked(libc::ioctl(raw, RUN, 0))? };
    // In `struct kvm_run`, exit_reason is at offset 8. For an exit by an I/O port, direction, size
    // and port begin at offset 32, and the offset of the data is at 40.
    let mut head = [0; 48];
    state.read(0, &mut head)?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let port = u16::from_ne_bytes([head[34], head[35]]);
    let mut said = [0];
    if word(8) == EXIT_IO && port == PORT {
        state.read(word(40) as usize, &mut said)?;
    }
    match said {
        [WORD] => Ok(()),
        _ => Err(odd("the guest stopped on its way")),
    }
}

fn into_long_mode(special: &mut SpecialRegisters) {
    let segment = |selector, kind, db, l| Segment {
        limit: u32::MAX,
        selector,
        kind,
        present: 1,
        db,
        s: 1,
        l,
        g: 1,
        ..Segment::default()
    };
    special.cs = segment(0x08, 0xb, 0, 1);
    special.data = [segment(0x10, 3, 1, 0); 5];
    special.gdt = Table {
        base: 0x500,
        limit: 23,
        ..Table::default()
    };
    special.cr3 = 0x1000;
    special.cr4 |= 0x20;
    special.cr0 = 0x8000_0033;
    special.efer |= 0x500;
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        result if result < 0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// # Safety
/// The number is a new descriptor without an owner, or negative.
unsafe fn opened(result: RawFd) -> io::Result<OwnedFd> {
    let number = checked(result)?;
    // SAFETY: the caller guarantees that the number is a new descriptor without an owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Registers>(), 0x90);
        assert_eq!(size_of::<SpecialRegisters>(), 0x138);
        assert_eq!(size_of::<MemoryRegion>(), 0x20);
        assert_eq!(size_of::<Segment>(), 24);
    }

    #[test]
    fn jumps_lead_to_the_begin_of_the_loop() {
        let code = code_of_loop();
        // The operand of the jump counts from the end of the instruction: from byte 17 back to byte
        // 5.
        assert_eq!(code[16], (5_i8 - 17) as u8);
    }
}
