//! Kernel modules and parameters: a zone uses those of the host.

use crate::report::{Finding, Section};
use crate::system::{System, base};

/// Kernel parameters that each zone has separately.
const OWN: [&str; 9] = [
    "net.",
    "kernel.hostname",
    "kernel.domainname",
    "kernel.shm",
    "kernel.msg",
    "kernel.sem",
    "fs.mqueue.",
    "user.",
    "kernel.ns_last_pid",
];

/// Returns the report sections about the kernel.
pub fn check(system: &System) -> Vec<Section> {
    vec![modules(system), parameters(system)]
}

fn modules(system: &System) -> Section {
    let mut findings = Vec::new();
    let mut files = system.paths("etc/modules-load.d", ".conf");
    files.push("etc/modules".to_owned());
    for file in files {
        for line in system.lines(&file) {
            let module = line.split_whitespace().next().unwrap_or_default();
            findings.push(Finding::new(
                module,
                format!("loaded at boot by /{file}: have the host load it"),
            ));
        }
    }
    for module in system.names("var/lib/dkms") {
        // Beside its modules dkms keeps keys there.
        if system.is_folder(format!("var/lib/dkms/{module}").as_ref()) {
            let advice = "built for this kernel by dkms: needed on the host, or not at all";
            findings.push(Finding::new(module, advice));
        }
    }
    for line in system.read("proc/modules").lines() {
        let (name, taints) = (line.split(' ').next(), line.rsplit(' ').next());
        let is_foreign = taints
            .is_some_and(|taints| taints.starts_with('(') && taints.contains(['O', 'P', 'E']));
        if let (Some(name), true) = (name, is_foreign) {
            let advice = "is loaded and not of the kernel: needed on the host, or not at all";
            findings.push(Finding::new(name, advice));
        }
    }
    Section::new(
        "modules",
        "The following kernel modules are used. A zone loads none:",
        findings,
    )
}

fn parameters(system: &System) -> Section {
    let mut files = system.paths("etc/sysctl.d", ".conf");
    files.push("etc/sysctl.conf".to_owned());
    let mut findings = Vec::new();
    // Debian has a link to the one file in the folder.
    let mut seen = Vec::new();
    for file in files {
        if base(&file) == "99-sysctl.conf" {
            continue;
        }
        for line in system.lines(&file) {
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            let name = name.trim().trim_start_matches('-').replace('/', ".");
            if OWN.iter().any(|own| name.starts_with(own)) || seen.contains(&name) {
                continue;
            }
            let advice = format!("set to {} by /{file}: have the host set it", value.trim());
            findings.push(Finding::new(&*name, advice));
            seen.push(name);
        }
    }
    Section::new(
        "parameters",
        "The following kernel parameters are set. They are the host's:",
        findings,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn modules_and_parameters_are_read() {
        let tree = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("etc/modules", "# none\nloop max_loop=8\n");
        put("etc/modules-load.d/kvm.conf", "kvm\n");
        put("var/lib/dkms/mok.key", "");
        put("var/lib/dkms/wireguard/1.0/x", "");
        put(
            "proc/modules",
            "ext4 1 2 - Live 0x0\nnvidia 1 0 - Live 0x0 (POE)\n",
        );
        put(
            "etc/sysctl.conf",
            "vm.swappiness = 10\nnet.ipv4.ip_forward=1\nkernel.shmmax=1\n",
        );
        put("etc/sysctl.d/a.conf", "-kernel/sysrq=1\nnonsense\n");
        let system = System::open(tree.path()).unwrap();
        let sections = check(&system);
        let names = |at: usize| -> Vec<&str> {
            let findings = &sections[at].findings;
            findings.iter().map(|one| one.subject.as_str()).collect()
        };
        assert_eq!(names(0), ["kvm", "loop", "nvidia", "wireguard"]);
        assert_eq!(names(1), ["kernel.sysrq", "vm.swappiness"]);
    }
}
