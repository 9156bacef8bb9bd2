//! Tests kernel zones with dedicated CPUs: no other process works on these CPUs, not even while the
//! memory of the zone is written to disk.

use std::fs;

use e2e::guest::{boot_machine, fill_memory, wait_for_guest};
use e2e::{Host, start, wait_for};

/// Returns the CPUs of a list in the kernel's format.
fn processors(list: &str) -> Vec<u32> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().expect("a processor");
        all.extend(number(first)..=number(last));
    }
    all
}

/// Returns, for each thread of a process, the CPUs on which it may run, and the CPU on which it ran
/// last.
fn seats(pid: i32) -> Vec<(i32, Vec<u32>, u32)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let tasks = tasks.flatten().flatten();
    tasks
        .filter_map(|task| {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
            let status = read("status")?;
            let allowed = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            // The CPU is the 39th field. The second field, the name, may contain blanks.
            let stat = read("stat")?;
            // The threads of io_uring belong to the kernel, and compress nothing.
            if stat.contains("(iou-") {
                return None;
            }
            let last = stat.rsplit(')').next()?.split_whitespace().nth(36)?;
            let thread = task.file_name().to_str()?.parse().ok()?;
            Some((thread, processors(allowed), last.parse().ok()?))
        })
        .collect()
}

#[test]
fn own_processors_do_the_work() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if all < 2 {
        e2e::skip("one processor");
        return;
    }
    let Some(host) = Host::new() else { return };
    let own = "add dedicated-cpu; set ncpus=1; end";
    if !boot_machine(&host, own) {
        return;
    }
    fill_memory(&host, 60_000_000);
    let qemu = host.init_of("k1");
    let theirs = seats(qemu);
    let own = theirs.first().expect("a thread").1.clone();
    assert_eq!(own.len(), 1, "{theirs:?}");
    // The test may look too late. Then it tries once more.
    wait_for("threads at work", || {
        let daemon = host.zoneadmd("k1").expect("a zoneadmd");
        let mut command = host.command("zoneadm", &["-z", "k1", "suspend"]);
        let mut command = start(&mut command);
        let mut seen = 0;
        while command.try_wait().expect("a state").is_none() {
            // With one CPU, only one thread compresses at a time. Other work of zoneadmd does not
            // count.
            for (thread, may, on) in seats(daemon).iter().filter(|seat| seat.0 != daemon) {
                assert_eq!(may, &own, "thread {thread}");
                assert!(own.contains(on), "thread {thread} on {on}");
                seen += 1;
            }
        }
        assert!(command.wait().expect("an end").success());
        let _ = host.on("k1", &["boot"]).ok();
        wait_for_guest(&host);
        (seen > 0).then_some(())
    });
    host.halt("k1");
}
