//! Describes the parts of a guest, and makes QEMU's command line from them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Model;

/// The accelerator that executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// KVM: the host's processor executes the instructions.
    Kvm,
    /// TCG: QEMU translates the instructions, which is correct but many times slower.
    Tcg,
}

/// The format of a disk's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The blocks of the disk, without a header.
    Raw,
    /// qcow2, QEMU's own format, which can have another file as its base.
    Qcow2,
}

impl Format {
    /// Returns QEMU's name for the format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// A file of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The format of the file.
    pub format: Format,
    /// True if the file is a block device of the host rather than a regular file.
    pub block_device: bool,
    /// True if QEMU bypasses the host's page cache, which not every file system supports.
    pub direct: bool,
}

/// The kind of disk that the guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A hard disk.
    #[default]
    Disk,
    /// A CD in a CD drive.
    Cd,
}

/// A disk of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The number of the disk, which the guest sees as its serial number.
    pub id: u32,
    /// The kind of disk that the guest sees.
    #[serde(default)]
    pub kind: Kind,
    /// The position of the disk in the boot order, if any.
    pub boot: Option<u32>,
    /// True if the guest cannot write to the disk.
    pub read_only: bool,
    /// The port to which the disk is attached, so that the disk can be removed while the guest
    /// runs; `None` for a disk that stays until the guest ends.
    #[serde(default)]
    pub port: Option<u32>,
    /// The files of the disk: first the file that is written to, then its base, then the base of
    /// that base, and so on.
    pub parts: Vec<Part>,
}

/// A network card of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// The Ethernet address of the card.
    pub mac: String,
    /// The port to which the card is attached, so that the card can be removed while the guest
    /// runs; `None` for a card that stays until the guest ends.
    #[serde(default)]
    pub port: Option<u32>,
}

/// A UEFI firmware that replaces QEMU's own firmware. It has two files: the code and the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uefi {
    /// The size of the firmware's code in bytes.
    pub code_size: u64,
    /// The size of the firmware's variables in bytes.
    pub vars_size: u64,
    /// True if only code in the system management mode can write the flash memory of the variables.
    pub smm: bool,
}

/// The way in which the guest starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boot {
    /// The firmware looks for a boot loader on the disks.
    Firmware,
    /// QEMU loads this kernel directly. The paths are those that QEMU sees.
    Kernel {
        /// The path of the kernel.
        kernel: String,
        /// The path of the initial file system (initrd), if any.
        initrd: Option<String>,
        /// The command line of the kernel.
        command_line: String,
    },
}

/// The description of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The guest's name, which the QEMU process shows.
    pub name: String,
    /// The UUID that the firmware tables show to the guest.
    pub uuid: Option<String>,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// The hardware model, which stays the same for the life of the guest.
    pub model: Model,
    /// The number of virtual processors.
    pub cpus: u32,
    /// The size of the memory in bytes, a multiple of 1 MiB.
    pub memory: u64,
    /// The room for more processors and memory while the guest runs; `None` for a machine that
    /// keeps what it has.
    #[serde(default)]
    pub room: Option<Room>,
    /// The way in which the guest starts.
    pub boot: Boot,
    /// The UEFI firmware; `None` for the BIOS.
    pub uefi: Option<Uefi>,
    /// The disks of the guest.
    pub disks: Vec<Disk>,
    /// The network cards of the guest.
    pub nics: Vec<Nic>,
    /// The number of ports for parts that come and go while the guest runs, up to [`PORTS`].
    pub ports: u32,
    /// True if QEMU waits for the state of a suspended guest instead of starting it.
    pub incoming: bool,
}

/// The most processors and memory that a machine can get while its guest runs. The guest's kernel
/// learns these limits when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The number of processors.
    pub cpus: u32,
    /// The size of the memory in bytes, a multiple of 1 MiB.
    pub memory: u64,
}

/// The number of times that a machine can get more memory while its guest runs.
pub const MEMORY_SLOTS: u32 = 8;

/// The least memory of a machine that has room for more, in bytes. New memory of a q35 machine is above
/// 4 GiB, and a Linux guest with a chance of such memory sets aside 64 MiB for transfers of devices
/// (swiotlb). A guest of 1 GiB loses 6 % of its memory by that; one of 192 MiB would lose a third.
pub const LEAST_MEMORY_WITH_ROOM: u64 = 1 << 30;

/// The number of ports of a new machine, each for one part. All functions of one slot are ports.
pub const PORTS: u32 = 8;

/// The slot of the ports on the machine's bus. The other devices take the slots from 1 on, and the
/// machine's own bridges the last ones, so no device moves when a machine gets ports.
const PORT_SLOT: &str = "0x1c";

/// The number of the first descriptor that is passed to QEMU.
pub const FIRST: i32 = 3;

/// The numbers of the descriptors that QEMU gets, from [`FIRST`] on. The process that starts QEMU
/// passes the descriptors in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The file that is the guest's memory, with the size of that memory.
    pub memory: i32,
    /// The listening socket of QEMU's monitor.
    pub monitor: i32,
    /// The listening socket of the serial line.
    pub console: i32,
    /// The listening socket of the channel to the agent in the guest.
    pub agent: i32,
    /// The files of each disk, in the order of the disk's parts.
    pub disks: Vec<Vec<i32>>,
    /// The file with the code of the UEFI firmware, and the file with its variables.
    pub uefi: Option<[i32; 2]>,
    /// The tap device of each network card.
    pub nics: Vec<i32>,
}

impl Descriptors {
    /// Returns the descriptor numbers for a guest.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let mut numbers = FIRST..;
        let mut next = || numbers.next().unwrap_or(i32::MAX);
        Self {
            memory: next(),
            monitor: next(),
            console: next(),
            agent: next(),
            disks: machine
                .disks
                .iter()
                .map(|disk| disk.parts.iter().map(|_| next()).collect())
                .collect(),
            uefi: machine.uefi.map(|_| [next(), next()]),
            nics: machine.nics.iter().map(|_| next()).collect(),
        }
    }
}

/// The name of the virtual serial port on which the agent in the guest listens.
pub const AGENT_PORT: &str = "org.qemu.guest_agent.0";

/// QEMU's name for the memory; a resume must use the same name.
const MEMORY: &str = "ram0";

impl Machine {
    /// Returns the arguments of QEMU, without the program's name.
    // This function is long because it is the list of QEMU's options in their order.
    #[must_use]
    pub fn command_line(&self) -> Vec<String> {
        let given = Descriptors::of(self);
        let mut line = Line::default();
        line.option("-name", format!("guest={0},debug-threads=on", self.name));
        // QEMU gets only the devices that this command line names, and reads no configuration file
        // of the host.
        line.flag("-nodefaults");
        line.flag("-no-user-config");
        line.option("-display", "none");
        line.option(
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        );
        // QEMU ends when the guest restarts; zoneadmd then boots the zone again with its current
        // configuration.
        line.option("-action", "reboot=shutdown,shutdown=poweroff,panic=none");
        let mut kind = format!(
            "{},memory-backend={MEMORY},sata=off,smbus=off,usb=off,vmport=off",
            self.model.machine
        );
        if let (Some(uefi), Some(numbers)) = (self.uefi, given.uefi) {
            uefi.add(numbers, &mut kind, &mut line);
        }
        line.option("-machine", kind);
        line.option(
            "-accel",
            match self.accelerator {
                Accelerator::Kvm => "kvm",
                Accelerator::Tcg => "tcg,thread=multi",
            },
        );
        line.option("-cpu", &self.model.cpu);
        let (mut cpus, mut memory) = (self.cpus.to_string(), format!("{}M", self.memory >> 20));
        if let Some(room) = self.room {
            if room.cpus > self.cpus {
                cpus.push_str(&format!(",maxcpus={}", room.cpus));
            }
            if room.memory > self.memory && self.memory >= LEAST_MEMORY_WITH_ROOM {
                let most = room.memory >> 20;
                memory.push_str(&format!(",slots={MEMORY_SLOTS},maxmem={most}M"));
            }
        }
        line.option("-smp", cpus);
        line.option("-m", memory);
        // The memory is a shared file, because only shared memory stays in place when the guest is
        // suspended.
        line.option(
            "-object",
            format!(
                "memory-backend-file,id={MEMORY},size={},mem-path=/proc/self/fd/{},share=on",
                self.memory, given.memory
            ),
        );
        if let Some(uuid) = &self.uuid {
            line.option("-uuid", uuid);
        }
        for (name, number) in [
            ("monitor", given.monitor),
            ("console", given.console),
            ("agent", given.agent),
        ] {
            line.option(
                "-chardev",
                format!("socket,id={name},fd={number},server=on,wait=off"),
            );
        }
        line.option("-mon", "chardev=monitor,mode=control");
        line.option("-serial", "chardev:console");
        line.option("-device", "virtio-serial-pci,id=channels,max_ports=2");
        line.option(
            "-device",
            format!("virtserialport,bus=channels.0,chardev=agent,name={AGENT_PORT}"),
        );
        line.option("-device", "virtio-rng-pci");
        line.option("-device", "pvpanic");
        for port in 0..self.ports.min(PORTS) {
            // The firmware reserves no I/O ports for a port, because virtio devices need none, and
            // there is room for few such reservations.
            line.option(
                "-device",
                format!(
                    "pcie-root-port,id={},bus=pcie.0,addr={PORT_SLOT}.{port:x},multifunction=on,chassis={},io-reserve=0",
                    port_name(port),
                    port + 1
                ),
            );
        }
        self.add_disks(&given, &mut line);
        for (index, (nic, number)) in self.nics.iter().zip(&given.nics).enumerate() {
            let network = match nic.port {
                Some(port) => network_name(port),
                None => format!("net{index}"),
            };
            line.option("-netdev", format!("tap,id={network},fd={number}"));
            // The card has no boot ROM, because a zone does not boot from the network.
            let mut device = format!("virtio-net-pci,netdev={network},mac={},romfile=", nic.mac);
            if let Some(port) = nic.port {
                let (id, bus) = (card_name(port, &nic.mac), port_name(port));
                device.push_str(&format!(",id={id},bus={bus}"));
            }
            line.option("-device", device);
        }
        if let Boot::Kernel {
            kernel,
            initrd,
            command_line,
        } = &self.boot
        {
            line.option("-kernel", kernel);
            if let Some(initrd) = initrd {
                line.option("-initrd", initrd);
            }
            line.option("-append", command_line);
        }
        if self.incoming {
            line.option("-incoming", "defer");
        }
        line.0
    }

    fn add_disks(&self, given: &Descriptors, line: &mut Line) {
        for (disk, numbers) in self.disks.iter().zip(&given.disks) {
            // The base files of a disk come first on the command line, because the upper files
            // refer to them.
            let parts = disk.parts.iter().zip(numbers).enumerate();
            for (place, (part, number)) in parts.collect::<Vec<_>>().into_iter().rev() {
                line.option("-add-fd", format!("fd={number},set={number}"));
                let block = disk.block(place, *part, i64::from(*number));
                line.option("-blockdev", block.to_string());
            }
            let drive = node(disk.id, 0);
            let mut device = match disk.kind {
                Kind::Disk => {
                    let mut device = format!("virtio-blk-pci,drive={drive},serial=disk{}", disk.id);
                    if let Some(port) = disk.port {
                        let (id, bus) = (part_name(disk.id), port_name(port));
                        device.push_str(&format!(",id={id},bus={bus}"));
                    }
                    device
                }
                Kind::Cd => {
                    line.option("-device", format!("virtio-scsi-pci,id=scsi{}", disk.id));
                    format!("scsi-cd,bus=scsi{}.0,drive={drive}", disk.id)
                }
            };
            // A kernel that QEMU loads directly already has the first position in the boot order.
            if let (Some(boot), Boot::Firmware) = (disk.boot, &self.boot) {
                device.push_str(&format!(",bootindex={boot}"));
            }
            line.option("-device", device);
        }
    }
}

impl Disk {
    /// Returns QEMU's options for one file of the disk, which QEMU opens as the descriptor set with
    /// this number.
    pub(crate) fn block(&self, place: usize, part: Part, set: i64) -> Value {
        // The base that the file itself names is never used: the guest or the maker of the image
        // could name any file of the host.
        let below = match part.format {
            Format::Raw => None,
            Format::Qcow2 if place + 1 < self.parts.len() => Some(json!(node(self.id, place + 1))),
            Format::Qcow2 => Some(json!(null)),
        };
        let read_only = self.read_only || place > 0;
        block_of(&node(self.id, place), part, read_only, set, below)
    }
}

/// Returns QEMU's options for a file that QEMU opens as the descriptor set with this number. `below`
/// is the name of the file below a qcow2.
pub(crate) fn block_of(
    name: &str,
    part: Part,
    read_only: bool,
    set: i64,
    below: Option<Value>,
) -> Value {
    let mut block = json!({
        "driver": part.format.as_str(),
        "node-name": name,
        "read-only": read_only,
        "discard": "unmap",
        "cache": { "direct": part.direct, "no-flush": false },
        "file": {
            "driver": if part.block_device { "host_device" } else { "file" },
            "filename": format!("/dev/fdset/{set}"),
            "aio": "threads",
            "discard": "unmap",
            "cache": { "direct": part.direct, "no-flush": false },
        },
    });
    if let Some(below) = below {
        block["backing"] = below;
    }
    block
}

/// Prefix of the names of devices in ports.
pub(crate) const PART: &str = "part-";

/// Returns QEMU's name for the device of a disk in a port.
pub(crate) fn part_name(disk: u32) -> String {
    format!("{PART}disk{disk}")
}

/// Prefix of the names of network cards in ports.
pub(crate) const CARD: &str = "part-card";

/// Returns QEMU's name for the device of a network card in a port. The name has the Ethernet address,
/// because the state of a machine fits no machine with another address.
pub(crate) fn card_name(port: u32, mac: &str) -> String {
    format!("{CARD}{port}-{}", mac.replace(':', ""))
}

/// Returns QEMU's name for the host's side of a network card in a port.
pub(crate) fn network_name(port: u32) -> String {
    format!("card{port}")
}

/// Returns QEMU's name for a port, which is also the name of the bus behind the port.
pub(crate) fn port_name(port: u32) -> String {
    format!("port{port}")
}

/// The names of the QEMU nodes of the firmware's code and variables.
const FLASH: [&str; 2] = ["firmware", "nvram"];

impl Uefi {
    fn add(self, numbers: [i32; 2], kind: &mut String, line: &mut Line) {
        let sizes = [self.code_size, self.vars_size];
        for (at, ((node, size), number)) in FLASH.iter().zip(sizes).zip(numbers).enumerate() {
            line.option("-add-fd", format!("fd={number},set={number}"));
            // The sizes are stated, so that a resumed guest finds its flash memory with the same
            // sizes.
            let block = json!({
                "driver": "raw",
                "node-name": node,
                "read-only": at == 0,
                "size": size,
                "file": { "driver": "file", "filename": format!("/dev/fdset/{number}") },
            });
            line.option("-blockdev", block.to_string());
            kind.push_str(&format!(",pflash{at}={node}"));
        }
        if self.smm {
            kind.push_str(",smm=on");
            line.option("-global", "driver=cfi.pflash01,property=secure,value=on");
            // Firmware that uses the system management mode cannot wake up from suspend-to-RAM
            // (S3), so S3 is disabled.
            line.option("-global", "ICH9-LPC.disable_s3=1");
        }
    }
}

/// Returns QEMU's name for a file of a disk; place 0 is the file that the guest writes to.
pub(crate) fn node(disk: u32, place: usize) -> String {
    match place {
        0 => format!("disk{disk}"),
        place => format!("disk{disk}-{place}"),
    }
}

#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn flag(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    fn option(&mut self, name: &str, value: impl Into<String>) {
        self.flag(name);
        self.0.push(value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let part = |format| Part {
            format,
            block_device: false,
            direct: true,
        };
        Machine {
            name: "kz1".to_owned(),
            uuid: Some("5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10".to_owned()),
            accelerator: Accelerator::Tcg,
            model: Model {
                qemu: "7.2.22".to_owned(),
                machine: "pc-q35-7.2".to_owned(),
                cpu: "max".to_owned(),
            },
            cpus: 2,
            memory: 512 << 20,
            room: None,
            boot: Boot::Kernel {
                kernel: "/boot/vmlinuz".to_owned(),
                initrd: Some("/boot/initrd.img".to_owned()),
                command_line: "console=ttyS0 root=/dev/vda".to_owned(),
            },
            uefi: None,
            disks: vec![
                Disk {
                    id: 0,
                    kind: Kind::Disk,
                    boot: Some(0),
                    read_only: false,
                    port: None,
                    parts: vec![part(Format::Qcow2), part(Format::Raw)],
                },
                Disk {
                    id: 1,
                    kind: Kind::Disk,
                    boot: None,
                    read_only: true,
                    port: None,
                    parts: vec![Part {
                        block_device: true,
                        ..part(Format::Raw)
                    }],
                },
            ],
            nics: vec![Nic {
                mac: "02:08:20:00:00:01".to_owned(),
                port: None,
            }],
            ports: 0,
            incoming: false,
        }
    }

    fn lines(machine: &Machine) -> String {
        let mut text = String::new();
        for word in machine.command_line() {
            let separator = if word.starts_with('-') { "\n" } else { " " };
            text.push_str(separator);
            text.push_str(&word);
        }
        text
    }

    #[test]
    fn a_machine_with_room_says_so_where_it_has_more() {
        let line = |cpus, room: u64, memory: u64| {
            let room = Some(Room { cpus, memory: room });
            let line = Machine {
                room,
                memory,
                ..machine()
            }
            .command_line();
            let after = |name: &str| {
                let at = line.iter().position(|word| word == name).unwrap();
                line[at + 1].clone()
            };
            [after("-smp"), after("-m")]
        };
        let least = LEAST_MEMORY_WITH_ROOM;
        assert_eq!(line(2, least, least), ["2", "1024M"]);
        assert_eq!(line(1, 64 << 20, least), ["2", "1024M"]);
        assert_eq!(
            line(4, 2 << 30, least),
            ["2,maxcpus=4", "1024M,slots=8,maxmem=2048M"]
        );
        assert_eq!(
            line(4, 2 << 30, least - (1 << 20)),
            ["2,maxcpus=4", "1023M"],
            "a small machine keeps no room for memory"
        );
    }

    #[test]
    fn the_command_line() {
        insta::assert_snapshot!(lines(&machine()));
    }

    #[test]
    fn a_machine_that_waits_differs_in_nothing_else() {
        let waits = Machine {
            incoming: true,
            ..machine()
        };
        let text = lines(&waits);
        assert_eq!(text, format!("{}\n-incoming defer", lines(&machine())));
    }

    #[test]
    fn a_disk_in_a_port_leaves_the_other_devices_where_they_are() {
        let mut with = machine();
        with.ports = 2;
        with.disks[1].port = Some(1);
        let text = lines(&with);
        let port = "pcie-root-port,id=port1,bus=pcie.0,addr=0x1c.1,multifunction=on,chassis=2,io-reserve=0";
        assert!(text.contains(port), "{text}");
        assert!(
            text.contains("serial=disk1,id=part-disk1,bus=port1\n"),
            "{text}"
        );
        let is_port = |line: &&str| !line.contains("pcie-root-port");
        let others: Vec<&str> = text.lines().filter(is_port).collect();
        let others = others.join("\n").replace(",id=part-disk1,bus=port1", "");
        assert_eq!(others, lines(&machine()));
    }

    #[test]
    fn a_card_in_a_port_has_its_address_in_its_name() {
        let mut with = machine();
        with.ports = 2;
        with.nics[0].port = Some(1);
        let text = lines(&with);
        assert!(text.contains("-netdev tap,id=card1,fd=10\n"), "{text}");
        let device = "virtio-net-pci,netdev=card1,mac=02:08:20:00:00:01,romfile=,id=part-card1-020820000001,bus=port1";
        assert!(text.contains(device), "{text}");
    }

    #[test]
    fn firmware_needs_no_kernel() {
        let machine = Machine {
            boot: Boot::Firmware,
            ..machine()
        };
        let text = lines(&machine);
        assert!(!text.contains("-kernel") && !text.contains("-append"));
    }

    #[test]
    fn a_uefi_firmware_is_its_flash_memory() {
        let uefi = Uefi {
            code_size: 3_653_632,
            vars_size: 540_672,
            smm: false,
        };
        let mut machine = Machine {
            boot: Boot::Firmware,
            uefi: Some(uefi),
            ..machine()
        };
        let given = Descriptors::of(&machine);
        assert_eq!((given.uefi, given.nics), (Some([10, 11]), vec![12]));
        let text = lines(&machine);
        for part in [
            r#""filename":"/dev/fdset/10""#,
            r#""node-name":"firmware","read-only":true,"size":3653632"#,
            r#""node-name":"nvram","read-only":false,"size":540672"#,
            "vmport=off,pflash0=firmware,pflash1=nvram\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        machine.uefi = Some(Uefi { smm: true, ..uefi });
        let text = lines(&machine);
        assert!(text.contains("pflash1=nvram,smm=on\n"), "{text}");
        assert!(text.contains("cfi.pflash01,property=secure,value=on"));
    }

    #[test]
    fn a_cd_is_in_a_drive_of_its_own() {
        let mut machine = machine();
        machine.boot = Boot::Firmware;
        machine.disks[1].kind = Kind::Cd;
        machine.disks[1].boot = Some(7);
        let text = lines(&machine);
        assert!(
            text.contains("-device virtio-scsi-pci,id=scsi1\n"),
            "{text}"
        );
        assert!(text.contains("-device scsi-cd,bus=scsi1.0,drive=disk1,bootindex=7"));
    }

    #[test]
    fn descriptors_have_no_gaps() {
        let given = Descriptors::of(&machine());
        assert_eq!((given.memory, given.agent), (3, 6));
        assert_eq!(given.disks, [vec![7, 8], vec![9]]);
        assert_eq!(given.nics, [10]);
    }

    #[test]
    fn a_qcow2_stands_on_what_we_say_and_nothing_else() {
        let mut alone = machine();
        alone.disks[0].parts.truncate(1);
        assert!(lines(&alone).contains(r#""backing":null"#));
        assert!(lines(&machine()).contains(r#""backing":"disk0-1""#));
    }
}
