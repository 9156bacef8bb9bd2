//! The filter that every process of a zone runs under.
//!
//! The filter refuses (EPERM) calls that affect the whole host, and calls that Solaris refuses in a
//! zone: kernel modules, another kernel, swap, accounting, the clock, raw ports, handles that
//! bypass path checks. The user namespace already refuses most of these calls; the filter is the
//! second barrier. docs/threat-model.md lists each call with the other barriers against it.
//!
//! The filter also refuses calls that the kernel permits to every process, but that affect
//! processes outside the zone: leases on files of the host that the zone shares, and sockets of
//! families that network namespaces do not isolate.
//!
//! For each system call, the kernel finds out once if the filter always admits the call, and does
//! not run the filter for such calls. The remaining cost is the slower entry into a call, measured
//! as 45 ns. Calls whose arguments the filter reads (fcntl, socket, socketpair) also cost a run of
//! the filter. A zone whose privileges have `sys_unfiltered` has no filter and no such cost.

use model::privilege::{Capabilities, Openings};

/// A system call by its numbers in the 64-bit and in the 32-bit table.
struct Call {
    native: u32,
    compat: Option<u32>,
}

const fn call(native: u32, compat: u32) -> Call {
    Call {
        native,
        compat: Some(compat),
    }
}

/// The numbers, in one table, of the calls whose arguments the filter checks.
struct ByArgument {
    /// The numbers of fcntl and, in a 32-bit table, of fcntl64.
    fcntl: &'static [u32],
    socket: u32,
    socketpair: u32,
    /// The number of socketcall, the single system call of i386 for all socket operations.
    socketcall: Option<u32>,
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{ByArgument, Call, call};

    /// AUDIT_ARCH_X86_64 and AUDIT_ARCH_I386.
    pub const NATIVE: u32 = 0xc000_003e;
    pub const COMPAT: u32 = 0x4000_0003;
    /// The bit that all calls of the x32 ABI have set. No distribution uses x32.
    pub const FOREIGN_BIT: Option<u32> = Some(0x4000_0000);

    pub const NATIVE_BY_ARGUMENT: ByArgument = ByArgument {
        fcntl: &[72],
        socket: 41,
        socketpair: 53,
        socketcall: None,
    };
    pub const COMPAT_BY_ARGUMENT: ByArgument = ByArgument {
        fcntl: &[221, 55],
        socket: 359,
        socketpair: 360,
        socketcall: Some(102),
    };

    pub const UNAME: Call = call(63, 122);
    /// The numbers of the older uname calls: one returns five names of 65 bytes, the other five
    /// names of 9 bytes.
    pub const OLD_UNAME: [Option<u32>; 2] = [Some(109), Some(59)];

    #[rustfmt::skip]
    pub const REFUSED: &[Call] = &[
        call(175, 128), // init_module
        call(313, 350), // finit_module
        call(176, 129), // delete_module
        call(246, 283), // kexec_load
        Call { native: 320, compat: None }, // kexec_file_load
        call(167, 87),  // swapon
        call(168, 115), // swapoff
        call(163, 51),  // acct
        call(172, 110), // iopl
        call(173, 101), // ioperm
        call(179, 131), // quotactl
        call(443, 443), // quotactl_fd
        call(304, 342), // open_by_handle_at
        call(321, 357), // bpf
        call(212, 253), // lookup_dcookie
        call(180, 169), // nfsservctl
        call(134, 86),  // uselib
        call(103, 103), // syslog: the machine's log
    ];

    #[rustfmt::skip]
    pub const CLOCK: &[Call] = &[
        call(164, 79),  // settimeofday
        call(227, 264), // clock_settime
        Call { native: 227, compat: Some(404) }, // clock_settime64
        Call { native: 164, compat: Some(25) },  // stime
    ];

    #[rustfmt::skip]
    pub const COUNTERS: &[Call] = &[
        call(298, 336), // perf_event_open
    ];
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{ByArgument, Call, call};

    /// AUDIT_ARCH_AARCH64 and AUDIT_ARCH_ARM.
    pub const NATIVE: u32 = 0xc000_00b7;
    pub const COMPAT: u32 = 0x4000_0028;
    pub const FOREIGN_BIT: Option<u32> = None;

    pub const NATIVE_BY_ARGUMENT: ByArgument = ByArgument {
        fcntl: &[25],
        socket: 198,
        socketpair: 199,
        socketcall: None,
    };
    pub const COMPAT_BY_ARGUMENT: ByArgument = ByArgument {
        fcntl: &[221, 55],
        socket: 281,
        socketpair: 288,
        socketcall: None,
    };

    pub const UNAME: Call = call(160, 122);
    pub const OLD_UNAME: [Option<u32>; 2] = [None, None];

    #[rustfmt::skip]
    pub const REFUSED: &[Call] = &[
        call(105, 128), // init_module
        call(273, 379), // finit_module
        call(106, 129), // delete_module
        call(104, 347), // kexec_load
        call(294, 401), // kexec_file_load
        call(224, 87),  // swapon
        call(225, 115), // swapoff
        call(89, 51),   // acct
        call(60, 131),  // quotactl
        call(443, 443), // quotactl_fd
        call(265, 371), // open_by_handle_at
        call(280, 386), // bpf
        call(18, 249),  // lookup_dcookie
        call(42, 169),  // nfsservctl
        call(116, 103), // syslog: the machine's log
    ];

    #[rustfmt::skip]
    pub const CLOCK: &[Call] = &[
        call(170, 79),  // settimeofday
        call(112, 262), // clock_settime
        Call { native: 112, compat: Some(404) }, // clock_settime64
    ];

    #[rustfmt::skip]
    pub const COUNTERS: &[Call] = &[
        call(241, 364), // perf_event_open
    ];
}

/// The number of io_uring_setup(2), the same in every table. A ring can make sockets of any family,
/// and no filter sees the operations of a ring.
const IO_URING_SETUP: u32 = 425;

/// Commands of fcntl(2) that the filter refuses: F_SETLEASE, F_NOTIFY and F_SETDELEG. The kernel
/// treats a zone's root as the owner of the host's files that the zone shares. So a lease on such a
/// file would block every process that opens the file.
const REFUSED_COMMANDS: [u32; 3] = [1024, 1026, 1040];

/// Commands that the filter refuses in addition in a zone with a label: F_OFD_GETLK, F_OFD_SETLK
/// and F_OFD_SETLKW. /proc/locks would show such locks to all zones, and the mode of /proc/locks is
/// the only other barrier.
const REFUSED_WITH_LABEL: [u32; 3] = [36, 37, 38];

/// Socket families that network namespaces isolate: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK,
/// AF_PACKET.
const FAMILIES: [u32; 5] = [1, 2, 10, 16, 17];
/// AF_KEY, the socket family for IPsec keys, which only a network administrator needs.
const FAMILY_OF_ADMINISTRATORS: u32 = 15;

/// The operation numbers of socket and socketpair in socketcall(2). Their arguments are in memory,
/// which a filter cannot read.
const SOCKETS_OF_SOCKETCALL: [u32; 2] = [1, 8];

/// Numbers of capabilities, as in linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_TIME: u32 = 25;
const CAP_PERFMON: u32 = 38;

// Classic BPF: opcodes used and the fields of struct seccomp_data.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// Offset of the low half of the first argument. The kernel ignores the high half for a command or
/// a family.
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;
const ADMIT: u32 = 0x7fff_0000;
const FAIL_WITH: u32 = 0x0005_0000;
/// The result EPERM.
const REFUSE: u32 = FAIL_WITH | 1;
/// The result EINVAL, which a file system without leases returns.
const INVALID: u32 = FAIL_WITH | 22;
/// The result ENOSYS, which a kernel without the call returns. Programs then do not use the call.
const UNKNOWN: u32 = FAIL_WITH | 38;
/// The result EAFNOSUPPORT, which a kernel without the socket family returns.
const NO_FAMILY: u32 = FAIL_WITH | 97;
const ASK: u32 = 0x7fc0_0000;

/// An instruction as `struct sock_filter` has it in memory (little endian).
const fn instruction(code: u16, when_true: u8, when_false: u8, value: u32) -> u64 {
    code as u64 | (when_true as u64) << 16 | (when_false as u64) << 24 | (value as u64) << 32
}

/// Selects whether the zone has a sensitivity label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labeled {
    /// The zone has a label.
    Yes,
    /// The zone has no label.
    No,
}

/// Returns the filter for a zone with these capabilities and openings.
#[must_use]
pub fn program(capabilities: Capabilities, openings: Openings, label: Labeled) -> Vec<u64> {
    let mut refused: Vec<&Call> = arch::REFUSED.iter().collect();
    if !capabilities.has(CAP_SYS_TIME) {
        refused.extend(arch::CLOCK);
    }
    if !capabilities.has(CAP_PERFMON) {
        refused.extend(arch::COUNTERS);
    }
    let native: Vec<u32> = refused.iter().map(|call| call.native).collect();
    let compat: Vec<u32> = refused.iter().filter_map(|call| call.compat).collect();
    let checks = |calls: &ByArgument| by_argument(calls, capabilities, openings, label);
    let native = table(
        checks(&arch::NATIVE_BY_ARGUMENT),
        &native,
        arch::FOREIGN_BIT,
    );
    let compat = table(checks(&arch::COMPAT_BY_ARGUMENT), &compat, None);
    either(native, compat)
}

/// Returns the filter that decides by the table of the call's architecture, and refuses the calls
/// of any other architecture.
fn either(native: Vec<u64>, compat: Vec<u64>) -> Vec<u64> {
    // A table has fewer than 255 instructions, because its lists are constants.
    let skip = u8::try_from(native.len()).unwrap_or(u8::MAX);
    let mut code = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(JUMP_EQUAL, 0, skip, arch::NATIVE),
    ];
    code.extend(native);
    code.push(instruction(JUMP_EQUAL, 1, 0, arch::COMPAT));
    code.push(instruction(RETURN, 0, 0, REFUSE));
    code.extend(compat);
    code
}

/// AF_UNIX, the socket family of this machine.
const FAMILY_OF_MACHINE: u32 = 1;

/// Returns a further filter for a process that must make no socket of the family AF_UNIX. The peer
/// of such a socket gets a pidfd of the process (SO_PEERPIDFD), and with it a process of the same
/// user namespace enters the mounts of the process, even from another pid namespace.
#[must_use]
pub fn without_local_sockets() -> Vec<u64> {
    let checks = |calls: &ByArgument| {
        let family = [FAMILY_OF_MACHINE];
        let mut code = check(calls.socket, FIRST_ARGUMENT, &family, NO_FAMILY, ADMIT);
        if let Some(number) = calls.socketcall {
            let sockets = &SOCKETS_OF_SOCKETCALL;
            code.extend(check(number, FIRST_ARGUMENT, sockets, UNKNOWN, ADMIT));
        }
        code
    };
    let native = table(checks(&arch::NATIVE_BY_ARGUMENT), &[], arch::FOREIGN_BIT);
    let compat = table(checks(&arch::COMPAT_BY_ARGUMENT), &[], None);
    either(native, compat)
}

/// Returns the instructions that decide about the calls of one table whose arguments the filter
/// checks. All other calls continue after these instructions. fcntl is checked first, because
/// programs call it most.
fn by_argument(
    calls: &ByArgument,
    capabilities: Capabilities,
    openings: Openings,
    label: Labeled,
) -> Vec<u64> {
    let mut commands = REFUSED_COMMANDS.to_vec();
    if label == Labeled::Yes {
        commands.extend(REFUSED_WITH_LABEL);
    }
    let mut families = FAMILIES.to_vec();
    if capabilities.has(CAP_NET_ADMIN) {
        families.push(FAMILY_OF_ADMINISTRATORS);
    }
    let mut code = Vec::new();
    for &number in calls.fcntl {
        code.extend(check(number, SECOND_ARGUMENT, &commands, INVALID, ADMIT));
    }
    for number in [calls.socket, calls.socketpair] {
        code.extend(check(number, FIRST_ARGUMENT, &families, ADMIT, NO_FAMILY));
    }
    if let Some(number) = calls.socketcall.filter(|_| !openings.socketcall) {
        code.extend(check(
            number,
            FIRST_ARGUMENT,
            &SOCKETS_OF_SOCKETCALL,
            UNKNOWN,
            ADMIT,
        ));
    }
    if !openings.io_uring {
        code.push(instruction(JUMP_EQUAL, 0, 1, IO_URING_SETUP));
        code.push(instruction(RETURN, 0, 0, UNKNOWN));
    }
    code
}

/// Returns the instructions that decide about the call with this number: the result is `listed` if
/// the argument is in `values`, and `other` if not.
fn check(number: u32, argument: u32, values: &[u32], listed: u32, other: u32) -> Vec<u64> {
    let length = u8::try_from(values.len()).unwrap_or(u8::MAX);
    let mut code = vec![
        instruction(JUMP_EQUAL, 0, length.saturating_add(3), number),
        instruction(LOAD, 0, 0, argument),
    ];
    for (left, value) in (1..=length).rev().zip(values) {
        code.push(instruction(JUMP_EQUAL, left, 0, *value));
    }
    code.push(instruction(RETURN, 0, 0, other));
    code.push(instruction(RETURN, 0, 0, listed));
    code
}

/// The layout of the result of uname(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uname {
    /// Six names of 65 bytes.
    New,
    /// The first five names, of 65 bytes each.
    Old,
    /// The first five names, of 9 bytes each.
    Oldest,
}

/// Returns the filter that reports uname(2) and admits every other call. The kernel finds out once
/// that other calls are always admitted, and does not run the filter for them.
#[must_use]
pub fn asking_about_uname() -> Vec<u64> {
    let compat: Vec<u32> = arch::UNAME
        .compat
        .into_iter()
        .chain(arch::OLD_UNAME.into_iter().flatten())
        .collect();
    let mut code = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(JUMP_EQUAL, 0, 4, arch::NATIVE),
        instruction(LOAD, 0, 0, NUMBER),
        instruction(JUMP_EQUAL, 0, 1, arch::UNAME.native),
        instruction(RETURN, 0, 0, ASK),
        instruction(RETURN, 0, 0, ADMIT),
        // The first filter refuses any other architecture.
        instruction(LOAD, 0, 0, NUMBER),
    ];
    for (left, number) in (1..=compat.len()).rev().zip(compat) {
        let distance = u8::try_from(left).unwrap_or(u8::MAX);
        code.push(instruction(JUMP_EQUAL, distance, 0, number));
    }
    code.push(instruction(RETURN, 0, 0, ADMIT));
    code.push(instruction(RETURN, 0, 0, ASK));
    code
}

/// Returns the layout of the result of a reported call; `None` for a call that is not uname(2).
#[must_use]
pub fn layout_of_uname(architecture: u32, number: u32) -> Option<Uname> {
    let [old, oldest] = arch::OLD_UNAME;
    match architecture {
        arch::NATIVE => (number == arch::UNAME.native).then_some(Uname::New),
        arch::COMPAT if arch::UNAME.compat == Some(number) => Some(Uname::New),
        arch::COMPAT if old == Some(number) => Some(Uname::Old),
        arch::COMPAT if oldest == Some(number) => Some(Uname::Oldest),
        _ => None,
    }
}

/// Returns the instructions for one table: they refuse `numbers` and all calls with `foreign_bit`,
/// let `by_argument` decide about its calls, and admit all other calls.
fn table(by_argument: Vec<u64>, numbers: &[u32], foreign_bit: Option<u32>) -> Vec<u64> {
    let mut code = vec![instruction(LOAD, 0, 0, NUMBER)];
    code.extend(by_argument);
    let checks = foreign_bit
        .map(|bit| (JUMP_SET, bit))
        .into_iter()
        .chain(numbers.iter().map(|number| (JUMP_EQUAL, *number)));
    let checks: Vec<_> = checks.collect();
    for (i, (opcode, value)) in checks.iter().enumerate() {
        // This jump leads to the refusal, which follows the admission at the end of the list.
        let distance = u8::try_from(checks.len() - i).unwrap_or(u8::MAX);
        code.push(instruction(*opcode, distance, 0, *value));
    }
    code.push(instruction(RETURN, 0, 0, ADMIT));
    code.push(instruction(RETURN, 0, 0, REFUSE));
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::IpType;

    /// Arguments that every filter admits. The first is AF_INET for socket(2) and the number of
    /// bind for socketcall(2). The second is F_GETFL for fcntl(2).
    const HARMLESS: [u32; 2] = [2, 3];

    fn admits(code: &[u64], architecture: u32, number: u32) -> bool {
        run(code, architecture, number, HARMLESS) == ADMIT
    }

    /// Runs the filter as the kernel would.
    fn run(code: &[u64], architecture: u32, number: u32, arguments: [u32; 2]) -> u32 {
        let (mut at, mut register) = (0usize, 0u32);
        loop {
            let word = code[at];
            let value = (word >> 32) as u32;
            let [_, _, when_true, when_false, ..] = word.to_le_bytes();
            let jump = |condition| usize::from(if condition { when_true } else { when_false });
            at += 1;
            match (word & 0xffff) as u16 {
                LOAD => {
                    register = match value {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        FIRST_ARGUMENT => arguments[0],
                        SECOND_ARGUMENT => arguments[1],
                        other => panic!("load of {other}"),
                    }
                }
                JUMP_EQUAL => at += jump(register == value),
                JUMP_SET => at += jump(register & value != 0),
                RETURN => return value,
                other => panic!("opcode {other:#x}"),
            }
        }
    }

    fn made(limitpriv: &str, ip: IpType, own_userland: bool) -> Vec<u64> {
        program(
            model::privilege::capabilities(limitpriv, ip).unwrap(),
            model::privilege::openings(limitpriv, ip, own_userland).unwrap(),
            Labeled::No,
        )
    }

    fn standard() -> Vec<u64> {
        made("", IpType::Shared, false)
    }

    /// The expected call numbers are those of one architecture.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_instructions() {
        use sys::bpf::listing::classic;
        insta::assert_snapshot!("the_filter", classic(&standard()));
        insta::assert_snapshot!("the_filter_of_uname", classic(&asking_about_uname()));
    }

    #[test]
    fn refuses_every_listed_call_and_no_other() {
        let code = standard();
        let listed: Vec<&Call> = arch::REFUSED
            .iter()
            .chain(arch::CLOCK)
            .chain(arch::COUNTERS)
            .collect();
        let ring = |number| number == IO_URING_SETUP;
        for number in 0..600 {
            let native = listed.iter().any(|call| call.native == number) || ring(number);
            assert_eq!(admits(&code, arch::NATIVE, number), !native, "{number}");
            let compat = listed.iter().any(|call| call.compat == Some(number)) || ring(number);
            assert_eq!(
                admits(&code, arch::COMPAT, number),
                !compat,
                "compat {number}"
            );
        }
    }

    /// Both tables of the architecture of this host.
    const TABLES: [(u32, ByArgument); 2] = [
        (arch::NATIVE, arch::NATIVE_BY_ARGUMENT),
        (arch::COMPAT, arch::COMPAT_BY_ARGUMENT),
    ];

    #[test]
    fn a_trusted_login_makes_no_local_socket() {
        let code = without_local_sockets();
        for (table, calls) in TABLES {
            for family in 0..50 {
                let local = family == FAMILY_OF_MACHINE;
                let expected = if local { NO_FAMILY } else { ADMIT };
                assert_eq!(run(&code, table, calls.socket, [family, 0]), expected);
                assert_eq!(run(&code, table, calls.socketpair, [family, 0]), ADMIT);
            }
            if let Some(number) = calls.socketcall {
                assert_eq!(run(&code, table, number, [1, 0]), UNKNOWN);
                assert_eq!(run(&code, table, number, [3, 0]), ADMIT);
            }
        }
    }

    #[test]
    fn leases_are_refused_and_no_other_command_of_fcntl() {
        let code = standard();
        for (table, calls) in TABLES {
            for &number in calls.fcntl {
                for command in (0..64).chain(1000..1100) {
                    // The commands are F_SETLEASE, F_NOTIFY and F_SETDELEG.
                    let refused = [1024, 1026, 1040].contains(&command);
                    let expected = if refused { INVALID } else { ADMIT };
                    // The value of the first argument does not matter.
                    let said = run(&code, table, number, [1024, command]);
                    assert_eq!(said, expected, "fcntl {number}, command {command}");
                }
            }
        }
    }

    #[test]
    fn a_zone_with_a_label_has_no_locks_of_open_files() {
        let capabilities = model::privilege::capabilities("", IpType::Shared).unwrap();
        let code = program(capabilities, Openings::default(), Labeled::Yes);
        for (table, calls) in TABLES {
            for &number in calls.fcntl {
                for command in (0..64).chain(1000..1100) {
                    let refused = [36, 37, 38, 1024, 1026, 1040].contains(&command);
                    let expected = if refused { INVALID } else { ADMIT };
                    let said = run(&code, table, number, [3, command]);
                    assert_eq!(said, expected, "fcntl {number}, command {command}");
                }
            }
        }
    }

    #[test]
    fn sockets_exist_only_for_namespaced_families() {
        for (ip, own_userland) in [(IpType::Shared, false), (IpType::Exclusive, true)] {
            let code = made("", ip, own_userland);
            for (table, calls) in TABLES {
                for number in [calls.socket, calls.socketpair] {
                    for family in 0..64 {
                        // The families are AF_UNIX, AF_INET, AF_INET6, AF_NETLINK and AF_PACKET; 15
                        // is AF_KEY.
                        let known = [1, 2, 10, 16, 17];
                        let keys = family == 15 && ip == IpType::Exclusive;
                        let admitted = known.contains(&family) || keys;
                        let expected = if admitted { ADMIT } else { NO_FAMILY };
                        let said = run(&code, table, number, [family, 1]);
                        assert_eq!(said, expected, "call {number}, family {family}");
                    }
                }
            }
        }
    }

    #[test]
    fn ways_around_the_families_are_open_only_to_whom_they_are_given() {
        let sockets = |code: &[u64], function: u32| {
            let number = arch::COMPAT_BY_ARGUMENT.socketcall;
            number.map(|number| run(code, arch::COMPAT, number, [function, 0]))
        };
        let is_there = arch::COMPAT_BY_ARGUMENT.socketcall.is_some();
        for function in 1..=20 {
            let makes = [1, 8].contains(&function);
            let expected = if makes { UNKNOWN } else { ADMIT };
            let sparse = sockets(&standard(), function);
            assert_eq!(sparse, is_there.then_some(expected), "{function}");
            // A 32-bit userland has no other call for its sockets.
            let own = sockets(&made("", IpType::Shared, true), function);
            assert_eq!(own, is_there.then_some(ADMIT), "{function}");
            let shut = made("default,!net_socketcall", IpType::Shared, true);
            assert_eq!(sockets(&shut, function), is_there.then_some(expected));
        }
        for table in [arch::NATIVE, arch::COMPAT] {
            let ring = |code: &[u64]| run(code, table, IO_URING_SETUP, HARMLESS);
            assert_eq!(ring(&standard()), UNKNOWN);
            let given = made("default,proc_io_uring", IpType::Shared, false);
            assert_eq!(ring(&given), ADMIT);
        }
    }

    #[test]
    fn only_uname_is_passed_to_the_answerer() {
        let code = asking_about_uname();
        for architecture in [arch::NATIVE, arch::COMPAT] {
            for number in 0..600 {
                let asks = layout_of_uname(architecture, number).is_some();
                let expected = if asks { ASK } else { ADMIT };
                assert_eq!(
                    run(&code, architecture, number, HARMLESS),
                    expected,
                    "{number}"
                );
            }
        }
        assert_eq!(
            layout_of_uname(arch::NATIVE, arch::UNAME.native),
            Some(Uname::New)
        );
        assert_eq!(layout_of_uname(0x1234, arch::UNAME.native), None);
    }

    #[test]
    fn refuses_unknown_system_call_tables() {
        let code = standard();
        assert!(!admits(&code, 0x1234, 0));
        if let Some(bit) = arch::FOREIGN_BIT {
            assert!(!admits(&code, arch::NATIVE, bit));
            assert!(!admits(&code, arch::NATIVE, bit | 175));
        }
    }

    #[test]
    fn a_privilege_opens_its_calls() {
        let code = made("default,sys_time,cpc_cpu", IpType::Shared, false);
        for call in arch::CLOCK.iter().chain(arch::COUNTERS) {
            assert!(admits(&code, arch::NATIVE, call.native));
        }
        assert!(!admits(&code, arch::NATIVE, arch::REFUSED[0].native));
    }
}
