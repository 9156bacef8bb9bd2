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
RESOURCE = """<primitive id="zone-kz" class="ocf" provider="zones" type="Zone">
<instance_attributes id="zone-kz-a">
<nvpair id="zone-kz-1" name="zone" value="kz"/>
<nvpair id="zone-kz-2" name="config" value="/shared/kz.cfg"/>
<nvpair id="zone-kz-3" name="shared_disks" value="true"/>
</instance_attributes>
<meta_attributes id="zone-kz-m"><nvpair id="zone-kz-4" name="allow-migrate" value="true"/></meta_attributes>
<operations>
<op id="zone-kz-o1" name="monitor" interval="10s" timeout="60s"/>
<op id="zone-kz-o2" name="start" interval="0" timeout="240s"/>
<op id="zone-kz-o3" name="stop" interval="0" timeout="120s"/>
<op id="zone-kz-o4" name="migrate_to" interval="0" timeout="600s"/>
<op id="zone-kz-o5" name="migrate_from" interval="0" timeout="120s"/>
</operations>
</primitive>"""
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


def kernel_zone(world):
    settle(world)
    allow_ssh(world)
    disk = f"{world.work}/kz.raw"
    made = os.environ.get("ZONES_GUEST_DISK")
    if made:
        shutil.copyfile(made, disk)
    else:
        run(f"{HERE}/guest-disk", disk, world.hosts.programs)
    shutil.move(disk, f"{world.hosts.shared}/closed/kz.raw")
    with open(f"{world.hosts.shared}/kz.cfg", "w", encoding="ascii") as file:
        file.write(CONFIG)
    with open(f"{world.hosts.shared}/kz.xml", "w", encoding="ascii") as file:
        file.write(RESOURCE)
    world.hosts.execute("host1", "cibadmin -o resources -C -x /shared/kz.xml && crm_resource -r zone-kz --move --node host1")
    host, boot = wait_guest(world, "guest", lambda: guest(world, BOOT_ID))
    expect(host == "host1", f"the guest runs on {host}")
    guest(world, WRITER)
    _, before = wait_guest(world, "line", lambda: written(world))

    began = time.time()
    world.hosts.execute("host1", "crm_resource -r zone-kz --move --node host2")
    def goes_on():
        found = written(world)
        return found if found and found[0] == "host2" and found[1] > before else None
    _, after = wait_guest(world, "guest that goes on on host2", goes_on)
    moved = time.time() - began
    expect(guest(world, BOOT_ID)[1] == boot, "the guest has booted in between")
    logged = "\n".join(world.logs(began))
    expect("migrate_to" in logged or "migrate" in world.hosts.execute("host1", "crm_mon -1 -o"), f"no migration: {logged}")

    # Its host is lost: another one boots it from the same disk.
    world.hosts.execute("host1", "crm_resource -r zone-kz --clear")
    began = time.time()
    world.hosts.kill("host2")
    others = [number for number in NUMBERS if number != 2]
    host, other = wait_guest(world, "guest on another host", lambda: guest(world, BOOT_ID, others))
    back = time.time() - began
    expect(other != boot, "the guest has not booted")
    lines = guest(world, "cat /root.lines")[1].split()
    expect(len(lines) >= after and lines == [str(n + 1) for n in range(len(lines))],
           f"{after} lines were on the disk, found {len(lines)}: {lines[-5:]}")
    running = [f"host{n}" for n in others if "running" in world.hosts.execute(f"host{n}", "zoneadm -z kz list -p", check=False)]
    expect(running == [host], f"the zone runs on {running}")
    world.hosts.execute(host, "crm_resource -r zone-kz --meta -p target-role -v Stopped")
    wait_guest(world, "stopped zone", lambda: "kz" not in (world.status() or world).places)
    world.hosts.execute(host, "cibadmin -D -x /shared/kz.xml --force; crm_resource --cleanup >/dev/null")
    settle(world)
    return Row("kernel zone, live", back, None,
               f"moved live in {moved:.1f} s, {after} lines, no boot; then host2 killed, cold on {host}")
