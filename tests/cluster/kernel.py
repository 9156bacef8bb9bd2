"""A kernel zone whose disk every host reaches: it migrates live, and boots cold where its host is lost.

The disk is a file in /shared with a boot loader and a small system; guest-disk makes it.
"""

import os
import shlex
import shutil
import time

from checks import Failure, Row, allow_ssh, expect, settle
from hosts import HERE, NUMBERS, run

# The guest is emulated, on a machine that may be busy.
GUEST_SECONDS = 240.0
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
CONFIG = """create -t SYSsolaris-kz
remove -F anet
remove -F device
add device
set storage=file:///shared/closed/kz.raw
set id=0
set bootpri=0
end
select capped-memory
set physical=192m
end
select virtual-cpu
set ncpus=1
end
commit
"""
# Writes numbered lines to the disk of the guest; a number is in /run/written after it is on the disk.
WRITER = """cat >/run/writer <<'END'
n=0
while :; do
    n=$((n + 1)); echo $n >>/root.lines; sync; echo $n >/run/written.new; mv /run/written.new /run/written; sleep 1
done
END
setsid sh /run/writer </dev/null >/dev/null 2>&1 &"""


def guest(world, script, hosts=NUMBERS):
    """Runs a script in the guest, on the host that has it. Returns the host and the output; None if no guest answers."""
    for number in hosts:
        if not world.hosts.is_on(number):
            continue
        said = world.hosts.execute(
            f"host{number}", f"zlogin -n kz {shlex.quote(script)} 2>/dev/null && echo done", check=False, seconds=60)
        if said.endswith("done\n"):
            return f"host{number}", said[:-len("done\n")].strip()
    return None


def wait_guest(world, what, good):
    """Waits until good() accepts an answer, and returns that."""
    end = time.time() + GUEST_SECONDS
    while time.time() < end:
        found = good()
        if found:
            return found
        time.sleep(1)
    raise Failure(f"no {what} in {GUEST_SECONDS} s: {world.status()}")


def written(world):
    """The host of the guest, and the last number that is on its disk."""
    found = guest(world, "cat /run/written")
    return (found[0], int(found[1])) if found and found[1].isdigit() else None


def ask(world, host, command):
    """Runs a command on a host that waits for a guest, and returns what it printed."""
    return world.hosts.execute(host, command, seconds=GUEST_SECONDS)


def moves_live(world, host, command, boot, before):
    """Runs a command that moves the zone: the same boot of the guest goes on. Returns its host, its last line on the disk, and
    the seconds that the command took."""
    began = time.time()
    said = ask(world, host, command)
    took = time.time() - began

    def goes_on():
        found = written(world)
        return found if found and found[1] > before else None

    now_on, after = wait_guest(world, f"guest that goes on after {command}", goes_on)
    expect(guest(world, BOOT_ID) == (now_on, boot), f"{command}: the guest has booted in between: {said}")
    expect(now_on != host or "evacuate" in command, f"{command}: the guest is still on {host}: {said}")
    return now_on, after, took


def add(world):
    """Puts the zone under Pacemaker. Returns the identity of the boot of its guest."""
    disk = f"{world.work}/kz.raw"
    made = os.environ.get("ZONES_GUEST_DISK")
    if made:
        shutil.copyfile(made, disk)
    else:
        run(f"{HERE}/guest-disk", disk, world.hosts.programs)
    shutil.move(disk, f"{world.hosts.shared}/closed/kz.raw")
    with open(f"{world.hosts.shared}/kz.cfg", "w", encoding="ascii") as file:
        file.write(CONFIG)
    ask(world, "host1", "zonecfg -z kz -f /shared/kz.cfg")
    said = ask(world, "host1", "zonecluster add --shared-disks -H host1,host2,host3 kz")
    expect("runs on host1" in said, f"zonecluster add: {said}")
    host, boot = wait_guest(world, "guest", lambda: guest(world, BOOT_ID))
    expect(host == "host1", f"the guest runs on {host}")
    return boot


def is_lost(world, host, boot, written_before):
    """Kills the host: another one boots the guest from the same disk, which has every line. Returns that, the new boot, and
    the seconds until the guest answered."""
    began = time.time()
    world.hosts.kill(host)
    others = [number for number in NUMBERS if f"host{number}" != host]
    now_on, other = wait_guest(world, "guest on another host", lambda: guest(world, BOOT_ID, others))
    back = time.time() - began
    expect(other != boot, "the guest has not booted")
    lines = guest(world, "cat /root.lines")[1].split()
    expect(len(lines) >= written_before and lines == [str(n + 1) for n in range(len(lines))],
           f"{written_before} lines were on the disk, found {len(lines)}: {lines[-5:]}")
    return now_on, other, back


def kernel_zone(world):
    settle(world)
    allow_ssh(world)
    boot = add(world)
    guest(world, WRITER)
    _, before = wait_guest(world, "line", lambda: written(world))

    host, after, moved = moves_live(world, "host1", "zonecluster move kz host2", boot, before)
    expect(host == "host2", f"the guest was moved to host2, and is on {host}")
    host, after, _ = moves_live(world, "host2", "zonecluster evacuate host2", boot, after)
    expect(host != "host2", "an evacuated host runs the guest")
    # host2 has an old configuration now.
    ask(world, host, """set -e
zonecfg -z kz 'add attr; set name=comment; set type=string; set value=second; end'
zonecluster update kz
zonecluster return host2
""")
    host, after, _ = moves_live(world, host, "zonecluster move kz host2", boot, after)
    expect("second" in ask(world, "host2", "zonecfg -z kz info attr"), "host2 has the old configuration")
    _, after = wait_guest(world, "line", lambda: written(world))

    host, boot, back = is_lost(world, "host2", boot, after)
    settle(world)
    allow_ssh(world)
    running = [f"host{n}" for n in NUMBERS if "running" in ask(world, f"host{n}", "zoneadm -z kz list -p || true")]
    expect(running == [host], f"the zone runs on {running}")
    # host2 is back, with the zonepath that it had.
    expect(":installed:" in ask(world, "host2", "zoneadm -z kz list -p"), "host2 has no old zonepath")
    guest(world, "rm -f /root.lines; " + WRITER)
    _, before = wait_guest(world, "line", lambda: written(world))
    moves_live(world, host, "zonecluster move kz host2", boot, before)
    ask(world, "host2", "zonecluster remove kz")
    for number in NUMBERS:
        said = ask(world, f"host{number}", "zonecfg -z kz delete -F 2>&1; ls -d /zones/kz 2>&1; true")
        expect("No such file" in said, f"host{number} has a zonepath still: {said}")
    settle(world)
    return Row("kernel zone, live", back, None,
               f"moved live in {moved:.1f} s, {after} lines, no boot; then host2 killed, cold on {host}")
