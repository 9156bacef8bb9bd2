"""The cluster on the virtual hosts, with two zones that fail over, and what is seen of them."""

import os
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as tree

from cib import cib
from hosts import HERE, NUMBERS, Hosts, run

# Zones, the host on which each prefers to run, and its address.
ZONES = {"web": "host1", "db": "host2"}
# app, sql and vol are put into the cluster by cases.
ADDRESSES = {"web": "10.66.0.50", "db": "10.66.0.51", "app": "10.66.0.52", "sql": "10.66.0.53", "vol": "10.66.0.54", "gst": "10.66.0.55"}
# The files are sparse.
LUN_BYTES = 512 * 1024 * 1024
READY_TIMEOUT = 90.0
PING_INTERVAL = 0.05
# ocf-tester calls each action of the agent several times, in states that Pacemaker never makes.
TEST_OF_AGENT = """
mount -o loop /shared/lun-db.img /zones/db
ocf-tester -n zone-db -o zone=db -o config=/zones/db/cluster.cfg -o watch=false \\
    -o probe='test -d /run' /usr/lib/ocf/resource.d/zones/Zone 2>&1
echo "status $?"
zonecfg -z db delete -F
umount /zones/db
rm -f /shared/closed/hb/hb.db
"""
# Lines of pacemaker.log that are printed of a case that failed.
LOG_WORDS = r"Zone\(|Filesystem\(|Result of|error|Requesting|\* (Move|Start|Recover|Stop|Restart|Fence)"


def config_of(zone):
    """The configuration of a zone, commands of zonecfg."""
    return f"""create
set ip-type=exclusive
add anet
set linkname=net0
set lower-link=br0
set allowed-address={ADDRESSES[zone]}/24
set defrouter=10.66.0.254
end
add fs
set dir=/hb
set special=/shared/closed/hb
set type=lofs
end
add fs
set dir=/hostid
set special=/run/hostid
set type=lofs
add options ro
end
commit
"""


class World:
    """Hosts, cluster and zones."""

    def __init__(self, nodes, work, programs, cgroup):
        self.work = work
        self.hosts = Hosts(nodes, work, programs, cgroup)
        self.pings = {}
        # The output of ocf-tester about the agent.
        self.agent = ""

    # ---- made and ended ----

    def make(self):
        """Makes the zones on their storage, and starts the hosts with the cluster."""
        for number in NUMBERS:
            self.hosts.prepare(number)
        for zone in ADDRESSES:
            path = f"{self.hosts.shared}/lun-{zone}.img"
            with open(path, "wb") as lun:
                lun.truncate(LUN_BYTES)
            run("mkfs.ext4", "-q", path)
        self.hosts.seed(1, "", cluster=False)
        self.hosts.on(1)
        self.hosts.wait_for(1, "boot")
        for zone in ZONES:
            self.install(zone)
            self.hosts.execute("host1", f"""set -e
zonecfg -z {zone} export >/zones/{zone}/cluster.cfg
zoneadm -z {zone} detach
umount /zones/{zone}
zonecfg -z {zone} delete -F
""")
        self.agent = self.hosts.execute("host1", TEST_OF_AGENT, check=False)
        self.hosts.off(1)
        self.start()

    def install(self, zone):
        """Installs a zone on its storage, on the first host."""
        with open(f"{self.hosts.shared}/{zone}.cfg", "w", encoding="ascii") as file:
            file.write(config_of(zone))
        shutil.copy(f"{HERE}/rc.zone", f"{self.hosts.shared}/rc.zone")
        self.hosts.execute("host1", f"""set -e
mkdir -p /zones/{zone}
mount -o loop /shared/lun-{zone}.img /zones/{zone}
chmod 700 /zones/{zone}
zonecfg -z {zone} -f /shared/{zone}.cfg
zoneadm -z {zone} install
zoneadm -z {zone} boot
zlogin {zone} 'cat >/etc/rc.zone; chmod 755 /etc/rc.zone' </shared/rc.zone
zoneadm -z {zone} halt
""")

    def start(self):
        """Starts the hosts, each with the configuration of the cluster."""
        self.hosts.serve()
        text = cib(ZONES)
        for number in NUMBERS:
            self.hosts.seed(number, text)
        for number in NUMBERS:
            self.hosts.on(number)
        for zone in ZONES:
            log = open(f"{self.work}/ping.{zone}", "w", encoding="ascii")
            self.pings[zone] = subprocess.Popen(
                ["nsenter", "-t", str(self.hosts.network.pid), "-n", "ping", "-n", "-D", "-i", str(PING_INTERVAL),
                 "-W", "1", ADDRESSES[zone]], stdout=log, stderr=subprocess.DEVNULL)

    def close(self):
        """Ends everything."""
        for ping in self.pings.values():
            ping.terminate()
            ping.wait()
        self.hosts.close()
        for number in NUMBERS:
            self.hosts.forget(number)

    # ---- the view of the cluster ----

    def status(self, asked=None):
        """crm_mon's view of a host that runs: nodes with their state, zones with their hosts."""
        for number in NUMBERS:
            host = f"host{number}"
            if asked not in (None, host) or not self.hosts.is_on(number):
                continue
            text = self.hosts.execute(host, "crm_mon -1 -r --output-as=xml 2>/dev/null", check=False, seconds=20)
            try:
                return View(tree.fromstring(text))
            except tree.ParseError:
                continue
        return None

    def wait_ready(self, seconds=READY_TIMEOUT, zones=ZONES):
        """Waits until all hosts are online and each zone runs once. Returns the host of each zone."""
        end = time.time() + seconds
        view = None
        while time.time() < end:
            view = self.status()
            if view and view.is_whole() and all(len(view.places.get(z, ())) == 1 for z in zones):
                return {zone: view.places[zone][0] for zone in zones}
            time.sleep(0.3)
        raise RuntimeError(f"the cluster is not whole after {seconds} s: {view}")

    def logs(self, since):
        """The lines of the hosts' logs since a time that may tell of a fault."""
        lines = []
        for number in NUMBERS:
            path = f"{self.hosts.nodes}/host{number}/var/log/pacemaker/pacemaker.log"
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    stamp = time.mktime(time.strptime(f"{time.gmtime().tm_year} {line[:15]}", "%Y %b %d %H:%M:%S")) \
                        if re.match(r"[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d ", line) else 0
                    if stamp >= int(since) and re.search(LOG_WORDS, line):
                        lines.append(f"host{number} {line.strip()[:260]}")
        return sorted(lines, key=lambda line: line[6:21])[-80:]

    # ---- what zones and clients see ----

    def records(self, zone):
        """The records of a zone's application: time, host, and the time at which it started."""
        try:
            with open(f"{self.hosts.shared}/closed/hb/hb.{zone}", encoding="ascii") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            return []
        return sorted((float(l[0]), l[1], float(l[2])) for l in lines if len(l) == 3)

    def overlaps(self, zone):
        """Returns how often two instances of a zone wrote in turn: 0 if it never ran twice at once."""
        records = self.records(zone)
        seen, last, count = set(), None, 0
        for _, _, instance in records:
            if instance == last:
                continue
            if instance in seen:
                count += 1
            seen.add(instance)
            last = instance
        return count

    def instances(self, zone):
        """The instances of a zone's application: the time of its start, its host."""
        return sorted({(instance, host) for _, host, instance in self.records(zone)})

    def wait_back(self, zone, since, seconds=40.0):
        """Waits for an instance that started after a time. Returns its first record and host."""
        end = time.time() + seconds
        while time.time() < end:
            for when, host, instance in self.records(zone):
                if instance > since:
                    return when, host
            time.sleep(0.05)
        raise RuntimeError(f"zone {zone} is not back after {seconds} s")

    def gap(self, zone, since, until):
        """The longest time without an answer that a client saw between two times, in seconds."""
        with open(f"{self.work}/ping.{zone}", encoding="ascii") as file:
            text = file.read()
        times = [float(t) for t in re.findall(r"^\[([\d.]+)\].* time=", text, re.M)]
        times = [t for t in times if since - 1 < t < until]
        return max((b - a for a, b in zip(times, times[1:])), default=until - since)


class View:
    """A status that crm_mon printed."""

    def __init__(self, root):
        self.nodes = {node.get("name"): node.attrib for node in root.iterfind("nodes/node")}
        self.places = {}
        for resource in root.iter("resource"):
            if resource.get("resource_agent") != "ocf:zones:Zone" or resource.get("role") != "Started":
                continue
            hosts = [node.get("name") for node in resource.iter("node")]
            self.places[resource.get("id")[len("zone-"):]] = hosts
        self.failed = [f.get("op_key") or f.get("id") for f in root.iter("failure")]

    def is_whole(self, hosts=NUMBERS):
        """Returns true if all hosts are members."""
        return len(self.nodes) == len(hosts) and all(
            n["online"] == "true" and n["unclean"] == "false" and n["pending"] == "false" for n in self.nodes.values()
        )

    def __str__(self):
        states = {n: [k for k in ("online", "unclean", "pending", "standby") if a[k] == "true"] for n, a in self.nodes.items()}
        return f"nodes {states}, zones {self.places}, failed {self.failed}"
