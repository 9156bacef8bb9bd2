//! Tests `zoneadm migrate` of a running kernel zone over a real sshd: what the guest notices, and
//! the state after a cut at any moment.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Stdio};
use std::time::Instant;

use e2e::guest::{
    BOOT_ID, Kept, boot_cloned_machine, boot_machine, disk_is_whole, in_guest, messages, said,
    wait_for_guest,
};
use e2e::ssh::{Server, hosts};
use e2e::{Host, Ran, Random, beats, efi, machine, rounds, start, still_runs_after, wait_for};
use rustix::process::{Pid, Signal};

fn state(host: &Host) -> String {
    e2e::ssh::state(host, "k1")
}

/// Checks that the migration was live. Prints how long the guest was paused.
#[track_caller]
fn went_live(ran: Ran) {
    let ran = ran.ok();
    let told = ran
        .out
        .lines()
        .find(|line| line.contains("stood still for "));
    println!("{}", told.expect("how long it stood still"));
    assert!(ran.out.contains("The guest runs over there"), "{}", ran.out);
}

/// Returns true if a process is stopped.
fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    state.trim_start().starts_with('T')
}

fn signal(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, signal).expect("a process of ours");
}

/// Starts one process in the guest that writes numbered lines to a file and syncs them, until it is
/// told to stop, and another that has written half of a file. Prints the number of the first
/// process.
const WRITERS: &str = "
    head -c 3000000 /dev/urandom >/run/first; head -c 3000000 /dev/urandom >/run/second
    cat >/run/writer <<'END'
echo $$ >/run/writer.pid
n=0
while [ ! -e /run/stop ]; do
    n=$((n + 1))
    echo line $n >>/root.lines
    [ $((n % 50)) = 0 ] && sync
done
sync
touch /run/stopped
END
    cat >/run/half <<'END'
exec 5>/root.half
cat /run/first >&5
while [ ! -e /run/stop ]; do sleep 1; done
cat /run/second >&5
exec 5>&-
sync
touch /run/whole
END
    for one in writer half; do
        setsid sh /run/$one </dev/null >/dev/null 2>&1 &
    done
    while [ ! -s /run/writer.pid ]; do sleep 1; done
    cat /run/writer.pid";

#[test]
fn a_machine_goes_while_it_runs() {
    let Some([(here, back), (there, server)]) = hosts() else {
        return;
    };
    if !boot_machine(&here, "") {
        return;
    }
    let kept = Kept::of(&here);
    let writer = said(&here, WRITERS);
    let born = format!("cut -d ' ' -f 22 /proc/{writer}/stat");
    let alive = said(&here, &born);
    let uuid = here.row("k1").uuid;

    // The dry run prints the steps and changes nothing.
    let planned = server.migrate(&here, "k1", &["-n"]).ok().out;
    assert!(planned.contains("while it runs (live"), "{planned}");
    assert_eq!(state(&there), "none");
    server
        .migrate(&here, "k1", &["-t", "hot"])
        .mentions(2, "hot: not auto, live or warm");

    // If live migration is impossible, and the option allows no other way, the zone keeps running
    // on the source.
    server
        .migrate_with(&here, "k1", &["-t", "live"], "live:1:fail")
        .mentions(1, "does not go live: a fault was asked for");
    assert_eq!(state(&here), "running");
    // The target discards its received data when the source no longer waits.
    wait_for("nothing of it there", || {
        let nothing = state(&there) == "none" && !there.path("zones/k1").exists();
        nothing.then_some(())
    });
    assert!(messages(&here).contains("did not leave"));

    let goes_on = |host: &Host| {
        kept.goes_on(host);
        assert_eq!(said(host, &born), alive, "the writer");
        assert_eq!(machine::auxiliary(host, "k1"), "");
        assert_eq!(host.row("k1").uuid, uuid);
    };
    goes_on(&here);

    // If zoneadmd is killed after all data has arrived, its successor continues the guest on the
    // source. Then the guest must not run on the target, too.
    let mut command = server.command(&here, "k1", &["-t", "live"]);
    command.env("ZONES_FAULT", "live:3:stop");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut mover = start(&mut command);
    let pid = i32::try_from(mover.id()).expect("a number");
    wait_for("it to stand still, and all of it there", || {
        is_stopped(pid).then_some(())
    });
    let zoneadmd = here.zoneadmd("k1").expect("a zoneadmd");
    signal(zoneadmd, Signal::KILL);
    wait_for("another zoneadmd", || {
        let _ = here.rows();
        here.zoneadmd("k1").filter(|pid| *pid != zoneadmd)
    });
    let stood = wait_for_guest(&here);
    signal(pid, Signal::CONT);
    assert!(!mover.wait().expect("a child").success());
    wait_for("nothing of it there", || {
        let nothing = state(&there) == "none" && !there.path("zones/k1").exists();
        nothing.then_some(())
    });
    goes_on(&here);
    wait_for("it to go on", || {
        (wait_for_guest(&here) > stood).then_some(())
    });

    // The zone migrates to the target and back.
    beats::begin(&here);
    let (ran, heard) = beats::during([&here, &there], || server.migrate(&here, "k1", &[]));
    went_live(ran);
    println!(
        "outside, on the console, the guest was silent for {:.3} s at most",
        heard.silence.as_secs_f64()
    );
    // The client got answers before and after the migration, and the counter continued.
    let [first, .., last] = heard.numbers[..] else {
        panic!("{heard:?}");
    };
    assert!(first < last && heard.numbers.is_sorted(), "{heard:?}");
    beats::end(&there);
    let came_by = std::fs::read_to_string(there.path("zones/k1/.arrived")).expect("a mark");
    assert_eq!(here.state("k1"), "configured");
    assert!(!here.path("zones/k1").exists());
    goes_on(&there);
    let told = messages(&here) + &messages(&there);
    assert!(told.contains("runs on another host") && told.contains("comes from another host"));
    assert!(!told.contains("suspended to"), "{told}");
    went_live(back.migrate(&there, "k1", &["-t", "live"]));
    goes_on(&here);
    // A late query is answered that the zone arrived, even if it has moved on since.
    let words = ["receive", "--status", came_by.trim()];
    assert_eq!(there.on("k1", &words).ok().out, "\"arrived\"\n");

    // A zone that cannot migrate live migrates suspended, and a message says so.
    let ran = server.migrate_with(&here, "k1", &[], "live:2:fail").ok();
    assert!(
        ran.out.contains("It does not go live: a fault"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("Suspending the zone."), "{}", ran.out);
    goes_on(&there);

    // The file that was written all the time is complete and in order.
    let _ = said(&there, "touch /run/stop");
    let done = "while [ ! -e /run/stopped ] || [ ! -e /run/whole ]; do sleep 1; done";
    let lines = "awk '$2 != NR { print \"line\", NR, \"is\", $0; exit }' /root.lines";
    let drop = "sync; echo 3 >/proc/sys/vm/drop_caches";
    assert_eq!(said(&there, &format!("{done}; {drop}; {lines}")), "");
    let halves = "cat /run/first /run/second | cmp - /root.half && echo same";
    assert_eq!(said(&there, halves), "same");
    there.halt("k1");
    disk_is_whole(&there);
    server
        .migrate(&here, "k1", &["-t", "live"])
        .mentions(1, "must be installed before migrate");
    back.migrate(&there, "k1", &["-t", "live"])
        .mentions(1, "only such a zone migrates live");
}

#[test]
fn a_machine_goes_after_a_snapshot_of_its_disks() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some([(here, _), (there, server)]) = hosts() else {
        return;
    };
    if !boot_machine(&here, "") {
        return;
    }
    let kept = Kept::of(&here);
    // On a file system that cannot share blocks, the disk has one more file in QEMU and in the
    // record than on the command line of QEMU.
    let _ = here.on("k1", &["snapshot", "one"]).ok();
    let _ = said(&here, "echo after >/root.after; sync");
    went_live(server.migrate(&here, "k1", &["-t", "live"]));
    assert_eq!(
        (state(&here), state(&there)),
        ("configured".to_owned(), "running".to_owned())
    );
    kept.goes_on(&there);
    assert_eq!(said(&there, "cat /root.after"), "after");
    let _ = there.on("k1", &["snapshot", "two"]).ok();
    there.halt("k1");
    machine::boot(&there, "k1");
    assert_eq!(said(&there, "cat /root.after"), "after");
}

#[test]
fn uefi_variables_migrate_with_the_machine() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    const SAYS: &str = "a loader that travels";
    let Some([(here, _), (there, server)]) = hosts() else {
        return;
    };
    if !machine::has_qemu() || !efi::has_tools() {
        return;
    }
    let disk = here.path("/plain.raw");
    efi::disk(&disk, &efi::program(SAYS));
    machine::configure(&here, "k1", "");
    let words = ["install", "-a", &disk.to_string_lossy()];
    machine::done(here.on("k1", &words));
    let nvram = |host: &Host| std::fs::read(host.path("/zones/k1/uefi.nvram")).expect("a file");
    let made = nvram(&here);
    machine::done(here.on("k1", &["boot"]));
    machine::hears(&here, "k1", SAYS);
    let kept = nvram(&here);
    assert!(kept != made, "its firmware has written nothing");

    // Data of the failed attempt does not disturb the next one.
    server
        .migrate_with(&here, "k1", &["-t", "live"], "live:1:fail")
        .mentions(1, "does not go live");
    went_live(server.migrate(&here, "k1", &["-t", "live"]));
    assert_eq!(there.state("k1"), "running");
    assert!(nvram(&there) == kept);
    there.halt("k1");
    machine::done(there.on("k1", &["boot"]));
    machine::hears(&there, "k1", SAYS);
}

/// The process that is killed, and the moment.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// zoneadm is killed at a step that it counts.
    At(u32),
    /// A process is killed after this many milliseconds, if the migration takes that long.
    After(Who, u64),
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Zoneadm,
    Line,
    Zoneadmd,
    OtherZoneadmd,
    OtherMachine,
}

const ALL: [Who; 5] = [
    Who::Line,
    Who::OtherZoneadmd,
    Who::Zoneadmd,
    Who::OtherMachine,
    Who::Zoneadm,
];

#[test]
fn a_cut_at_any_moment_leaves_it_on_one_side() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some([(one, to_one), (two, to_two)]) = hosts() else {
        return;
    };
    if !boot_cloned_machine(&one) {
        return;
    }
    let boot = said(&one, BOOT_ID);
    let mut sides = [(&to_one, &two), (&to_two, &one)];
    // The duration of a migration on this machine is measured first, so that the kills come during
    // the migration.
    let began = Instant::now();
    went_live(to_two.migrate(&one, "k1", &["-t", "live"]));
    let took = u64::try_from(began.elapsed().as_millis()).expect("not for ever");
    // The steps: the guest is paused; all data has arrived; the target is complete and not marked;
    // it is marked; it runs the zone.
    let mut cuts: Vec<Cut> = (1..=5).map(Cut::At).collect();
    let mut random = Random::new(5);
    for round in rounds(1) {
        let who = ALL[usize::try_from(round).expect("a few") % ALL.len()];
        cuts.push(Cut::After(who, random.below(took)));
    }
    let mut in_time = 0;
    for cut in cuts {
        let [(server, here), (_, there)] = sides;
        let count = answering(here);
        let mut command = server.command(here, "k1", &[]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let Cut::At(step) = cut {
            command.env("ZONES_FAULT", format!("live:{step}:kill"));
        }
        let mut child = start(&mut command);
        if let Cut::After(who, millis) = cut {
            in_time += u32::from(still_runs_after(&mut child, millis));
            strike(who, server, here, there, &mut child);
        }
        let ended = child.wait().expect("a child");
        if matches!(cut, Cut::At(4)) {
            // The guest never runs in two places, not even with another zoneadmd.
            let zoneadmd = here.zoneadmd("k1").expect("a zoneadmd");
            signal(zoneadmd, Signal::KILL);
            wait_for("another zoneadmd", || {
                let _ = here.rows();
                here.zoneadmd("k1").filter(|pid| *pid != zoneadmd)
            });
            assert_eq!(machine::auxiliary(here, "k1"), "migrating-out");
            for verb in ["suspend", "shutdown"] {
                here.on("k1", &[verb]).mentions(1, "another host");
            }
            let other = server.migrate_to(here, "k1", "127.0.0.2");
            other.mentions(1, "may already be on root@127.0.0.1");
        }
        let moved = settled(server, here, there);
        let (at, other) = if moved { (there, here) } else { (here, there) };
        println!(
            "{cut:?}: {ended}, it is {}",
            if moved { "there" } else { "here" }
        );
        let now = answering(at);
        assert!(now >= count, "the counter was {count} and is {now}");
        assert_eq!(said(at, BOOT_ID), boot, "it was booted");
        assert_eq!(other.inits_of("k1"), Vec::<i32>::new(), "on both sides");
        if moved {
            sides.reverse();
        }
    }
    println!("{in_time} were cut off by chance");
    assert!(in_time > 0, "each ended before");
    let [(server, here), (_, there)] = sides;
    went_live(server.migrate(here, "k1", &["-t", "live"]));
    answering(there);
    assert_eq!(said(there, BOOT_ID), boot);
    there.halt("k1");
    let _ = there.on("k1", &["boot"]).ok();
    answering(there);
}

/// Waits for the guest as [`wait_for_guest`], and fails with a description of the zone.
fn answering(host: &Host) -> u64 {
    catch_unwind(AssertUnwindSafe(|| wait_for_guest(host)))
        .unwrap_or_else(|_| panic!("{}", described(host)))
}

/// Returns the name, state and processor time (in ticks) of each thread of a process.
fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let lines = tasks.flatten().filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Some(format!("{name}) {} {} {}", words[0], words[11], words[12]))
    });
    lines.collect()
}

/// Returns what an administrator would look at when the guest does not answer.
fn described(host: &Host) -> String {
    let answer = in_guest(host, "cat /run/count");
    let logs = ["k1.messages", "k1.console"].map(|name| {
        let text = fs::read(host.path("/var/log/zones").join(name)).unwrap_or_default();
        let end = text.len().saturating_sub(8 << 10);
        String::from_utf8_lossy(&text[end..]).into_owned()
    });
    let machines = host.inits_of("k1");
    let look = || machines.iter().map(|pid| threads(*pid)).collect::<Vec<_>>();
    let before = look();
    std::thread::sleep(std::time::Duration::from_secs(2));
    format!(
        "{answer:?}\n{:?}\nQEMU: {machines:?}\nits threads, two seconds apart: {before:#?} {:#?}\n{logs:#?}",
        host.rows(),
        look()
    )
}

fn strike(who: Who, server: &Server, here: &Host, there: &Host, child: &mut Child) {
    let end = |pid: Option<i32>| {
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    };
    match who {
        Who::Zoneadm => {
            let _ = child.kill();
        }
        Who::Line => server.cut(),
        Who::Zoneadmd => end(here.zoneadmd("k1")),
        Who::OtherZoneadmd if state(there) != "running" => end(there.zoneadmd("k1")),
        // A guest that runs only on the target must not be ended.
        Who::OtherMachine if state(there) != "running" => {
            end(there.inits_of("k1").into_iter().next());
        }
        Who::OtherZoneadmd | Who::OtherMachine => {}
    }
}

/// Waits until it is known which host has the zone, with the commands that an administrator would
/// use. Returns true if the zone has moved.
fn settled(server: &Server, here: &Host, there: &Host) -> bool {
    wait_for("one side that has it", || {
        let marked = here.path("zones/k1/.migrating").exists();
        match state(here).as_str() {
            // The guest is paused, or is just being torn down: the same command is given again.
            "running" | "installed" if marked => {
                let _ = server.migrate(here, "k1", &[]);
                None
            }
            "running" => {
                // Another zoneadmd follows one that was killed.
                let _ = here.on("k1", &["boot"]);
                let ran = in_guest(here, "cat /run/count");
                let alive = ran.code() == Some(0) && state(there) != "running";
                // The target needs a moment to remove its received files.
                (alive && there.inits_of("k1").is_empty()).then_some(false)
            }
            "incomplete" => {
                // The cut came while the source removed the zone.
                let _ = here.on("k1", &["uninstall", "-F"]);
                None
            }
            "configured" | "none" => {
                let _ = there.on("k1", &["boot"]);
                (state(there) == "running").then_some(true)
            }
            _ => None,
        }
    })
}
