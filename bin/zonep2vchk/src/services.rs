//! Services that do not work in a zone, or only with a network of its own.

use crate::args::Target;
use crate::report::{Finding, Section};
use crate::system::{System, base};

/// Services that do not work in a zone, by the missing facility.
const NEEDS: &[(&str, &[&str])] = &[
    (
        "devices belong to the host",
        &[
            "systemd-udevd",
            "udev",
            "eudev",
            "mdadm",
            "mdmonitor",
            "mdmonitor-takeover",
            "lvm2-monitor",
            "lvm2-lvmpolld",
            "dm-event",
            "multipathd",
            "multipath-tools",
            "smartd",
            "smartmontools",
            "hdparm",
            "fstrim",
            "cryptdisks",
            "drbd",
            "zfs-mount",
            "zfs-import-cache",
            "zfs-zed",
            "zfs-share",
            "ceph-osd@",
            "bluetooth",
            "ModemManager",
            "usbmuxd",
            "gpm",
            "lircd",
            "nvidia-persistenced",
            "fwupd",
            "alsa-restore",
            "console-setup",
            "keyboard-setup",
        ],
    ),
    (
        "kernel modules and parameters are loaded and set by the host",
        &[
            "systemd-modules-load",
            "kmod",
            "module-init-tools",
            "dkms",
            "kdump",
            "kdump-tools",
            "kexec",
            "kexec-load",
            "kpatch",
            "tuned",
            "apparmor",
            "auditd",
            "multipathd-queueing",
        ],
    ),
    (
        "the clock is the host's, which keeps it right for every zone",
        &[
            "systemd-timesyncd",
            "chrony",
            "chronyd",
            "ntp",
            "ntpd",
            "ntpsec",
            "openntpd",
            "ntpdate",
            "ptp4l",
            "phc2sys",
            "hwclock",
            "hwclock-save",
        ],
    ),
    (
        "block storage over the network is attached by the host: give the zone a device or fs resource",
        &[
            "iscsid",
            "iscsi",
            "open-iscsi",
            "iscsitarget",
            "target",
            "tgt",
            "nvmf-autoconnect",
            "rbdmap",
            "nbd-client",
            "nbd-server",
        ],
    ),
    (
        "the NFS server is in the kernel: share from the host, with the zone's file system there",
        &[
            "nfs-kernel-server",
            "nfs-server",
            "nfs-mountd",
            "nfs-blkmap",
            "rpc-svcgssd",
        ],
    ),
    (
        "a zone mounts no automatic file systems: mount on the host and add an fs resource",
        &["autofs", "proc-sys-fs-binfmt_misc"],
    ),
    (
        "containers need more privileges than a zone has: run them on the host, or each as a zone",
        &[
            "docker",
            "dockerd",
            "containerd",
            "crio",
            "cri-o",
            "kubelet",
            "k3s",
            "lxc",
            "lxc-net",
            "lxd",
            "incus",
            "podman",
            "systemd-nspawn@",
        ],
    ),
    (
        "virtual machines need the host's processor and devices",
        &[
            "libvirtd",
            "virtqemud",
            "virtlogd",
            "virtlockd",
            "xen",
            "xendomains",
            "vboxdrv",
            "vmware",
        ],
    ),
    (
        "a zone is no virtual machine: its host talks to the hypervisor",
        &[
            "qemu-guest-agent",
            "open-vm-tools",
            "vmtoolsd",
            "vboxadd",
            "vboxadd-service",
            "hyperv-daemons",
            "hv-kvp-daemon",
            "hv-fcopy-daemon",
            "hv-vss-daemon",
            "xe-daemon",
            "google-guest-agent",
            "walinuxagent",
            "cloud-init",
            "cloud-init-local",
            "cloud-config",
            "cloud-final",
        ],
    ),
    (
        "hardware is watched and governed by the host",
        &[
            "irqbalance",
            "thermald",
            "acpid",
            "upower",
            "tlp",
            "cpufrequtils",
            "cpupower",
            "loadcpufreq",
            "watchdog",
            "mcelog",
            "rasdaemon",
            "edac",
            "lm-sensors",
            "fancontrol",
            "ipmievd",
            "ipmi",
            "openipmi",
            "rngd",
            "rng-tools",
            "haveged",
            "sysstat-collect-hw",
            "nut-driver",
            "apcupsd",
        ],
    ),
];

/// Services that configure a network or filter it.
const NETWORK: &[&str] = &[
    "networking",
    "network",
    "NetworkManager",
    "systemd-networkd",
    "wicked",
    "dhclient",
    "dhcpcd",
    "ifplugd",
    "wpa_supplicant",
    "hostapd",
    "nftables",
    "iptables",
    "ip6tables",
    "netfilter-persistent",
    "firewalld",
    "ufw",
    "shorewall",
    "shorewall6",
    "ferm",
    "fail2ban",
    "conntrackd",
    "openvpn",
    "openvpn@",
    "openvpn-server@",
    "wg-quick@",
    "strongswan",
    "strongswan-starter",
    "ipsec",
    "keepalived",
    "vrrpd",
    "frr",
    "bird",
    "bird6",
    "quagga",
    "zebra",
    "isc-dhcp-server",
    "isc-dhcp-server6",
    "kea-dhcp4-server",
    "kea-dhcp6-server",
    "dhcpd",
    "radvd",
    "arpwatch",
    "snort",
    "suricata",
    "ntopng",
    "openvswitch-switch",
    "ovs-vswitchd",
    "ebtables",
    "tincd",
    "zerotier-one",
    "tailscaled",
];

/// Returns the report sections about services.
pub fn check(system: &System, target: Target) -> Vec<Section> {
    let (mut never, mut exclusive) = (Vec::new(), Vec::new());
    for unit in enabled(system) {
        let stem = stem(&unit);
        if let Some((why, _)) = NEEDS.iter().find(|(_, names)| names.contains(&stem)) {
            never.push(Finding::new(unit, *why));
        } else if NETWORK.contains(&stem) && target == Target::S10 {
            exclusive.push(Finding::new(unit, "needs a network of its own: -T S11"));
        }
    }
    vec![
        Section::new(
            "services",
            "The following services will not work in a zone. Disable them in it:",
            never,
        ),
        Section::new(
            "exclusive",
            "The following services require ip-type \"exclusive\" to work in a zone:",
            exclusive,
        ),
    ]
}

/// Returns the units and old init scripts that start with the system.
fn enabled(system: &System) -> Vec<String> {
    let mut units = Vec::new();
    for folder in [
        "etc/systemd/system",
        "usr/lib/systemd/system",
        "lib/systemd/system",
    ] {
        for name in system.names(folder) {
            if name.ends_with(".wants") || name.ends_with(".requires") {
                units.extend(system.names(&format!("{folder}/{name}")));
            }
        }
    }
    // A unit that is masked is a link to /dev/null.
    let own = system.names("etc/systemd/system");
    units.retain(|unit| !own.contains(unit) || !is_masked(system, unit));
    for level in [
        "etc/rc2.d",
        "etc/rc3.d",
        "etc/rcS.d",
        "etc/rc.d/rc3.d",
        "etc/runlevels/default",
        "etc/runlevels/boot",
    ] {
        for name in system.names(level) {
            let script = match name.strip_prefix('S') {
                Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
                // OpenRC links scripts by their names.
                None if level.contains("runlevels") => &name,
                None => continue,
            };
            // The same service, as a script for those without systemd.
            if !units.iter().any(|unit| self::stem(unit) == script) {
                units.push(script.to_owned());
            }
        }
    }
    units.sort_unstable();
    units.dedup();
    units
}

fn is_masked(system: &System, unit: &str) -> bool {
    // Of an open system /dev/null is a device, of a copied one it may be missing.
    let path = format!("etc/systemd/system/{unit}");
    system.file(&path).is_none() && !system.is_folder(std::path::Path::new(&path))
}

/// Returns `docker` for `docker.service`; an instance is reduced to the name of its template.
fn stem(unit: &str) -> &str {
    let unit = base(unit);
    let unit = unit
        .strip_suffix(".service")
        .or_else(|| unit.strip_suffix(".socket"))
        .or_else(|| unit.strip_suffix(".timer"))
        .or_else(|| unit.strip_suffix(".automount"))
        .or_else(|| unit.strip_suffix(".target"))
        .unwrap_or(unit);
    match unit.find('@') {
        Some(at) => &unit[..=at],
        None => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_service_is_in_one_list() {
        let mut names: Vec<&str> = NEEDS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        names.extend(NETWORK);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn units_that_are_enabled_and_not_masked() {
        let tree = tempfile::tempdir().unwrap();
        let etc = tree.path().join("etc/systemd/system");
        let wants = etc.join("multi-user.target.wants");
        fs::create_dir_all(&wants).unwrap();
        for unit in [
            "docker.service",
            "cron.service",
            "chrony.service",
            "wg-quick@wg0.service",
            "ufw.service",
        ] {
            symlink(format!("/lib/systemd/system/{unit}"), wants.join(unit)).unwrap();
        }
        symlink("/dev/null", etc.join("chrony.service")).unwrap();
        let rc = tree.path().join("etc/rc2.d");
        fs::create_dir_all(&rc).unwrap();
        for script in ["S01docker", "S20autofs", "K01ntp", "README"] {
            fs::write(rc.join(script), "").unwrap();
        }
        let system = System::open(tree.path()).unwrap();
        let found = |target| {
            let sections = check(&system, target).into_iter();
            let names = |section: Section| -> Vec<String> {
                section
                    .findings
                    .into_iter()
                    .map(|one| one.subject)
                    .collect()
            };
            sections.map(names).collect::<Vec<_>>()
        };
        let never = vec!["autofs".to_owned(), "docker.service".to_owned()];
        assert_eq!(found(Target::S11), [never.clone(), Vec::new()]);
        let network = vec!["ufw.service".to_owned(), "wg-quick@wg0.service".to_owned()];
        assert_eq!(found(Target::S10), [never, network]);
    }
}
