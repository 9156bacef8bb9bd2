"""Usage: lane.py WORK --pcs|"" QEMU-WORDS...; tests/vm/cluster/run calls it."""

import re
import signal
import subprocess
import sys
import time
import traceback
import xml.etree.ElementTree as tree
from concurrent.futures import ThreadPoolExecutor

from machines import HOSTS, Beats, Machine, Switch
from world import View

ZONE = "web"
# On each host, before the cluster: docs/clusters.md. The password is one of this run's machines.
PREPARE = """set -e
systemctl start pcsd
pcs cluster destroy
echo hacluster:of-this-test | chpasswd
"""
# The blocks of docs/clusters.md, for two hosts and the fence agent of the test.
SETUP = """set -e
pcs host auth host1 host2 -u hacluster -p of-this-test
pcs cluster setup demo host1 host2 totem token=5000 --start --enable
"""
FENCES = """set -e
for n in 1 2; do
    pcs stonith create fence-host$n fence_virtual_host ip=10.0.2.2 ipport={port} \\
        pcmk_host_list=host$n pcmk_delay_base=$((n * 4 - 4))s op monitor interval=60s
done
"""
# The same devices without pcs. A delay for one of them: two hosts that lose each other must not both be fenced.
DEVICES = """set -e
for n in 1 2; do
    cibadmin --create -o resources --xml-text "<primitive id='fence-host$n' class='stonith' type='fence_virtual_host'>
<instance_attributes id='fence-host$n-a'><nvpair id='fence-host$n-1' name='ip' value='10.0.2.2'/>
<nvpair id='fence-host$n-2' name='ipport' value='{port}'/><nvpair id='fence-host$n-3' name='pcmk_host_list' value='host$n'/>
<nvpair id='fence-host$n-4' name='pcmk_delay_base' value='$((n * 4 - 4))s'/></instance_attributes>
<operations><op id='fence-host$n-m' name='monitor' interval='60s' timeout='60s'/></operations></primitive>"
done
"""
MAKE_ZONE = """set -e
mkfs.ext4 -q /dev/vdb
mkdir -p /zones/web && mount /dev/vdb /zones/web && chmod 700 /zones/web
zonecfg -z web 'create; set ip-type=exclusive
add anet; set linkname=net0; set lower-link=br0; set allowed-address=10.66.0.50/24; end
add fs; set dir=/hb; set special=/var/lib/closed/hb; set type=lofs; end
add fs; set dir=/hostid; set special=/var/lib/hostid; set type=lofs; add options ro; end'
zoneadm -z web install
zoneadm -z web boot
zlogin web 'cat >/etc/rc.zone; chmod 755 /etc/rc.zone' </root/rc.zone
zoneadm -z web shutdown
"""
# An action of a second can take a minute in an emulated machine, and its timeout would be a fault of the zone.
SLOW = r"""set -e
cibadmin --query -o resources | sed -E "s/timeout=\"[0-9]+s?\"/timeout=\"900s\"/g" | cibadmin --replace -o resources --xml-pipe
"""
# Parts the journal: what it has of the shutdown comes after this.
REBOOT = "the lane reboots this machine"
# Seconds after which a state that must come is given up.
STATE_SECONDS = 900


class Lane:
    """The machines and the results."""

    def __init__(self, work, pcs, words):
        self.work = work
        self.pcs = pcs
        self.beats = Beats(f"{work}/beats")
        self.machines = {host: Machine(host, work, words, self.beats.path) for host in HOSTS}
        self.switch = Switch(self.machines)
        self.failed = 0

    # ---- results ----

    def check(self, name, good, detail=""):
        """Prints a result."""
        print(f"{'ok' if good else 'FAILED':6} {name}" + (f": {detail}" if detail and not good else ""), flush=True)
        if not good:
            self.failed += 1

    def took(self, name, began):
        """Prints the time of a step."""
        print(f"{time.time() - began:10.1f} s   {name} (emulated)", flush=True)

    # ---- the cluster ----

    def view(self, host):
        """Returns the status of the cluster as a host sees it, or nothing."""
        text = self.machines[host].run("crm_mon -1 -r --output-as=xml 2>/dev/null", check=False, seconds=120)
        try:
            return View(tree.fromstring(text))
        except tree.ParseError:
            return None

    def wait_view(self, host, wanted, what):
        """Waits until the status of the cluster has a property."""
        end = time.time() + STATE_SECONDS
        view = None
        while time.time() < end:
            view = self.view(host)
            if view and wanted(view):
                return
            time.sleep(2)
        raise RuntimeError(f"{what}: not after {STATE_SECONDS} s: {view}")

    def wait_device(self, host, other):
        """Waits until Pacemaker on a host knows a fence device for the other host."""
        end = time.time() + STATE_SECONDS
        while f"fence-{other}" not in self.machines[host].run(f"stonith_admin --list {other} 2>&1", check=False):
            if time.time() > end:
                raise RuntimeError(f"{host} knows no fence device for {other} after {STATE_SECONDS} s")
            time.sleep(1)

    def wait_whole(self, host, place):
        """Waits until both machines are online and the zone runs in one place."""
        self.wait_view(host, lambda view: view.is_whole(HOSTS) and view.places.get(ZONE) == [place],
                       f"both hosts online and the zone on {place}")

    def running_on(self):
        """Returns the hosts on which the kernel runs the zone, whatever Pacemaker says."""
        return [host for host, machine in self.machines.items() if machine.is_on()
                and ":running:" in machine.run(f"zoneadm -z {ZONE} list -p", check=False)]

    def check_once(self, place):
        """Checks that the zone runs exactly once, and did all the time."""
        found = self.running_on()
        self.check(f"the zone runs on {place} only", found == [place], f"it runs on {found}")
        count = self.beats.overlaps(ZONE)
        self.check("no two instances of the application spoke in turn", count == 0, f"{count} times")

    def check_record(self, host, number):
        """Checks the file of the application: it has each number once, and all that were said before."""
        text = self.machines[host].run(f"cut -d' ' -f1 /zones/{ZONE}/root/var/lib/record")
        numbers = [int(word) for word in text.split()]
        self.check("the record on the LUN goes on, each number once", numbers == list(range(1, len(numbers) + 1)))
        self.check(f"the record has the number {number}, said before", len(numbers) >= number, f"last {len(numbers)}")

    # ---- the steps ----

    def start(self):
        """Boots the machines and makes the cluster with the zone."""
        began = time.time()
        for machine in self.machines.values():
            machine.on()
        for machine in self.machines.values():
            machine.wait_up()
        self.took("boot of two machines", began)
        if self.pcs:
            self.make_with_pcs()
        else:
            began = time.time()
            self.wait_view("host1", lambda view: view.is_whole(HOSTS), "both hosts online")
            self.machines["host1"].run(DEVICES.format(port=self.switch.port))
            for host in HOSTS:
                self.wait_device("host1", host)
            self.took("both hosts online, fence devices made", began)
        self.make_zone()
        place = self.view("host1").places[ZONE][0]
        self.beats.wait_from(place, 0)
        self.check_once(place)
        return place

    def make_with_pcs(self):
        """Makes the cluster and its fence devices with pcs."""
        began = time.time()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda machine: machine.run(PREPARE, seconds=1200), self.machines.values()))
        self.took("start of pcsd and pcs cluster destroy, on both machines", began)
        began = time.time()
        first = self.machines["host1"]
        first.run(SETUP, seconds=900)
        self.wait_view("host1", lambda view: view.is_whole(HOSTS), "both hosts online")
        first.run(FENCES.format(port=self.switch.port), seconds=900)
        self.took("pcs host auth, pcs cluster setup, pcs stonith create", began)

    def make_zone(self):
        """Makes the zone on the LUN, and puts it into the cluster."""
        began = time.time()
        first = self.machines["host1"]
        first.run(MAKE_ZONE)
        self.took("mkfs, zonecfg, zoneadm install and boot", began)
        began = time.time()
        print(self.begin(first, f"zonecluster add -d /dev/vdb {ZONE}"), flush=True)
        first.run(SLOW)
        self.took("zonecluster add", began)
        self.wait_view("host1", lambda view: len(view.places.get(ZONE, ())) == 1, "the zone runs")
        print(first.run("zonecluster status"), flush=True)

    @staticmethod
    def begin(machine, command):
        """Runs a command of zonecluster. It gives up the wait for Pacemaker after 120 s; the lane waits longer."""
        said = machine.run(f"{command} || echo status $?")
        if re.search(r"^status \d+$", said, re.M) and "not done after" not in said:
            raise RuntimeError(f"{command}: {said}")
        return said

    def planned_move(self, source, target):
        """Moves the zone by zonecluster."""
        number, began = self.beats.last_number(), time.time()
        self.begin(self.machines[source], f"zonecluster move {ZONE} {target}")
        back = self.beats.wait_from(target, began)
        self.took(f"planned move, {source} to {target}, until the application is back", began)
        print(f"{back - self.beats.last_before(back):10.1f} s   without a record of it (emulated)", flush=True)
        self.wait_whole(source, target)
        self.check_once(target)
        self.check_record(target, number)
        self.check("no machine was fenced", not self.switch.log, self.switch.log)

    def power_cut(self, source, target):
        """Cuts the power of the machine of the zone, and waits until the machine is back in the cluster."""
        fenced, number, began = len(self.switch.log), self.beats.last_number(), time.time()
        self.machines[source].off()
        back = self.beats.wait_from(target, began)
        self.took(f"power cut of {source}, until the application is back on {target}", began)
        after = self.switch.log[fenced:]
        self.check("the machine was fenced before", [(a, h) for t, a, h in after if t < back] in (
            [("reboot", source)], [("off", source)], [("off", source), ("on", source)]), after)
        self.machines[source].on()
        self.machines[source].wait_up()
        self.wait_whole(target, target)
        self.took(f"{source} is back in the cluster", began)
        self.check_once(target)
        self.check_record(target, number)

    def clean_reboot(self, source, target):
        """Reboots the machine of the zone: Pacemaker must stop the zone, before zones.service ends zones."""
        fenced, number, began = len(self.switch.log), self.beats.last_number(), time.time()
        machine = self.machines[source]
        before = machine.boot_id()
        machine.run(f"logger -t lane '{REBOOT}'; systemctl reboot", check=False)
        self.beats.wait_from(target, began)
        self.took(f"systemctl reboot of {source}, until the application is back on {target}", began)
        machine.forget_connection()
        machine.wait_up(but_not=before)
        self.wait_whole(target, target)
        self.took(f"{source} is back in the cluster", began)
        self.check_once(target)
        self.check_record(target, number)
        self.check("no machine was fenced", len(self.switch.log) == fenced, self.switch.log[fenced:])
        self.check_shutdown(machine.run("journalctl -q -b -1 -o short-monotonic --no-pager", seconds=300))
        self.check("the machine has booted zones.service", machine.run("systemctl is-active zones", check=False) == "active")
        booted = machine.run("journalctl -q -b 0 -u zones.service --no-pager", seconds=300)
        self.check("zones.service has not booted the zone", ZONE not in re.split(r"\W+", booted), booted)

    def check_shutdown(self, log):
        """Checks the journal of a start that ended by a reboot: Pacemaker stopped the zone, then zones.service stopped."""
        _, marked, log = log.partition(REBOOT)
        self.check("the journal has the shutdown", marked and "zones.service" in log, "no such lines")
        stopped = re.search(rf"Result of stop operation for zone-{ZONE} on \w+: ok", log)
        stopping = log.find("Stopping zones.service")
        self.check("Pacemaker stopped the zone, and then zones.service began to stop",
                   stopped is not None and stopping > stopped.start(), f"{stopped}, {stopping}")
        ended = [line for line in log.splitlines() if "it has ended; telling Pacemaker" in line]
        self.check("the zone did not end before Pacemaker stopped it", not ended, ended)
        order = re.findall(r"(?:Stopping|Stopped) (zones|pacemaker)\.service", log)
        self.check("zones.service stops after Pacemaker has stopped",
                   order == ["pacemaker", "pacemaker", "zones", "zones"], order)

    def run(self):
        """Runs all steps."""
        place = self.start()
        other = {"host1": "host2", "host2": "host1"}
        self.planned_move(place, other[place])
        self.power_cut(other[place], place)
        self.clean_reboot(place, other[place])

    def logs(self):
        """Leaves the logs of the machines that answer, and prints their last lines of interest."""
        for host, machine in self.machines.items():
            if not machine.is_on():
                continue
            try:
                for number in (-1, 0):
                    text = machine.run(f"journalctl -q -b {number} --no-pager", check=False, seconds=300)
                    with open(f"{self.work}/journal.{host}.{number}", "w", encoding="utf-8") as file:
                        file.write(text)
                lines = [line for line in text.splitlines() if re.search(r"Zone\(|error|fenc|Failed", line)]
                print(*(f"       | {host} {line[:240]}" for line in lines[-25:]), sep="\n", flush=True)
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                print(f"       | {host}: {error}", flush=True)

    def end(self):
        """Switches the machines off."""
        for machine in self.machines.values():
            machine.off()


def control(beats_class, path):
    """Fails if the detector does not see two instances that speak in turn."""
    beats = beats_class(path)
    for number, host in enumerate(["host1", "host2", "host1", "host2"]):
        beats.add(number, host, 1)
    if beats.overlaps(ZONE) == 0:
        raise RuntimeError("the detector does not see a zone that runs twice")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work, pcs, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    control(Beats, f"{work}/control")
    lane = Lane(work, pcs, words)
    good = False
    try:
        lane.run()
    except (SystemExit, KeyboardInterrupt):
        lane.end()
        raise
    except Exception:  # the trace helps, whatever it was
        traceback.print_exc()
    else:
        good = lane.failed == 0
    try:
        if not good:
            lane.logs()
    finally:
        lane.end()
    print("two machines: " + ("all checks are as they must be" if good else f"{lane.failed} checks failed, or a step did"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
