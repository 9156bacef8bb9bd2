"""Cases of zone clusters whose zones have Pacemaker inside."""

import json
import re
import time
import xml.etree.ElementTree as tree

import document
from checks import Failure, Row, allow_ssh, clzc, configure_zones, expect, settle
from hosts import NUMBERS
from world import View

READY_SECONDS = 60.0
FENCED_SECONDS = 60.0
# Seconds in which the hosts' fence device is dead. The zones must not believe that a node is off.
DEAD_SECONDS = 15.0
# Sends a packet to the door of the zone, and prints the answer.
PACKET = """import socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect("/dev/zone-beadm")
door.send(sys.argv[1].encode())
print(door.recv(9999))
"""
# Stops every process of the zone pg, its init last, and prints the number of the init.
HANG = """init=$(pgrep -x zinit -P $(pgrep -f 'zoneadmd.* pg( |$)' | head -n 1))
space=$(readlink /proc/$init/ns/pid)
for p in /proc/[0-9]*; do
    [ "$(readlink $p/ns/pid)" != "$space" ] || [ ${p#/proc/} = $init ] || kill -STOP ${p#/proc/}
done
kill -STOP $init; echo $init"""


def start_pacemaker(world):
    """Starts corosync and Pacemaker in the zones, makes the fence device, and fences a zone by it. Returns the seconds."""
    began = time.time()
    for number in NUMBERS:
        document.run_block(world, f"host{number}", "zone_fencing", document.FENCING, 1)
    wait_view(world, "host1", "a whole cluster in the zones", lambda root: View(root).is_whole())
    seconds = time.time() - began
    document.run_block(world, "host1", "zone_fencing", document.FENCING, 2, zone="pg")
    expect(fenced(view(world, "host1"), "pg2"), "pg2 was not fenced")
    wait_running(world, "host2")
    wait_view(world, "host1", "pg2 is back, and the fence device is started", is_whole)
    return seconds


def view(world, host):
    """The view of Pacemaker in the zone of a host; None if it has none."""
    said = world.hosts.execute(host, "zlogin pg crm_mon -1 -r --output-as=xml 2>/dev/null", check=False, seconds=20)
    try:
        return tree.fromstring(said)
    except tree.ParseError:
        return None


def wait_view(world, host, what, good, seconds=READY_SECONDS):
    """Waits until the view of a zone is good. Returns the seconds."""
    began = time.time()
    root = None
    while time.time() - began < seconds:
        root = view(world, host)
        if root is not None and good(root):
            return time.time() - began
        time.sleep(0.3)
    text = None if root is None else tree.tostring(root, encoding="unicode")
    raise Failure(f"{host}: {what}: not so after {seconds} s: {text}")


def is_whole(root):
    """Returns true if all nodes are members and the fence device is there."""
    devices = [r for r in root.iter("resource") if r.get("resource_agent") == "stonith:fence_zone"]
    return View(root).is_whole() and any(r.get("role") == "Started" for r in devices)


def count_fenced(root, node):
    """How often a node was fenced."""
    return len([e for e in root.iter("fence_event") if e.get("target") == node and e.get("status") == "success"])


def fenced(root, node, count=1):
    """Returns true if a node was fenced so often."""
    return count_fenced(root, node) >= count


def agent(world, host, words, status, zone="pg"):
    """Runs the agent in a zone, expects its exit status, and returns what it printed."""
    said = world.hosts.execute(host, f"zlogin {zone} 'fence_zone {words} 2>&1; echo status $?'")
    expect(said.endswith(f"status {status}\n"), f"{host}: fence_zone {words}: expected status {status}: {said}")
    return said


def refusals(world, place):
    """What a zone may not do."""
    for node in ("host2", "web", "global", "pg4"):
        said = agent(world, "host1", f"-o off -n {node}", 1)
        expect("has no such node" in said, f"off {node}: {said}")
    expect("does not fence itself" in agent(world, "host1", "-o off -n pg1", 1), "a node has fenced itself")
    # A zone of the same host that is in no zone cluster.
    for words in ("-o off -n pg2", "-o monitor", "-o list", "-o status -n pg2"):
        said = agent(world, place["web"], words, 1, zone="web")
        expect("no node of a zone cluster" in said, f"web: {words}: {said}")
    said = world.hosts.execute("host1", "zlogin pg 'setpriv --reuid 65534 --regid 65534 --clear-groups fence_zone -o off -n pg2' 2>&1; true")
    expect("only root of the zone" in said, f"a user of the zone: {said}")
    # Words that the agent does not send.
    hostile = ("fence off pg2 -F", "fence off", "fence", "fence --local halt pg", "fence off pg2;id", "fence reboot ../pg2")
    with open(f"{world.hosts.shared}/packet.py", "w", encoding="ascii") as file:
        file.write(PACKET)
    for words in hostile:
        said = world.hosts.execute("host1", f"zlogin pg \"python3 - '{words}'\" </shared/packet.py", check=False)
        expect("expected monitor" in said or "a request has" in said, f"{words}: {said}")
    for number in NUMBERS:
        states = world.hosts.execute(f"host{number}", "zoneadm list -p")
        expect(":pg:running:" in states, f"host{number}: a refused request has halted the zone: {states}")


def zone_fencing(world):
    """The cluster in the zones fences by fence_zone: a node that hangs, one that is asked for, one with its host."""
    settle(world)
    allow_ssh(world)
    configure_zones(world)
    clzc(world, "host2", "install pg")
    clzc(world, "host3", "boot pg")
    ready = start_pacemaker(world)
    # The agent alone.
    expect(re.fullmatch(r"pg2,\npg3,\nstatus 0\n", agent(world, "host1", "-o list", 0)), "list")
    agent(world, "host1", "-o monitor", 0)
    expect("Status: ON" in agent(world, "host1", "-o status -n pg2", 0), "status")
    world.hosts.execute("host1", "fence_zone -o metadata | xmllint --noout -")
    said = world.hosts.execute("host1", "zlogin pg stonith_admin --metadata -a fence_zone")
    expect('name="fence_zone"' in said, f"Pacemaker does not know the agent: {said}")
    refusals(world, settle(world))
    # A node hangs.
    init = world.hosts.execute("host2", HANG).strip()
    began = time.time()
    wait_view(world, "host1", "pg2 is fenced", lambda root: fenced(root, "pg2", 2), FENCED_SECONDS)
    hung = time.time() - began
    expect(not world.hosts.execute("host2", f"[ ! -e /proc/{init} ] || cat /proc/{init}/stat"), "the zone that hung was not halted")
    wait_running(world, "host2")
    log = world.hosts.execute("host2", "cat /var/log/zones/pg.messages")
    expect("asked: off pg2" in log, f"host2 has not recorded the request: {log}")
    wait_view(world, "host1", "pg2 is back", is_whole)
    # An administrator of the zones fences a node, and off stays off.
    began = time.time()
    world.hosts.execute("host1", "zlogin pg stonith_admin --fence pg3 --timeout 60", seconds=90)
    asked = time.time() - began
    states = world.hosts.execute("host3", "zoneadm list -cp")
    expect(":pg:installed:" in states, f"host3: the zone is not off: {states}")
    expect("Status: OFF" in agent(world, "host1", "-o status -n pg3", 2), "status of a node that is off")
    agent(world, "host2", "-o on -n pg3", 0)
    wait_running(world, "host3")
    wait_view(world, "host1", "pg3 is back", is_whole)
    # The host of a node dies. Its node is off only when the hosts' cluster has fenced the host.
    count = count_fenced(view(world, "host1"), "pg3")
    world.hosts.switch_works = False
    try:
        world.hosts.kill("host3")
        began = time.time()
        while time.time() - began < DEAD_SECONDS:
            root = view(world, "host1")
            expect(root is None or not fenced(root, "pg3", count + 1), "pg3 counts as fenced, although its host was not")
            time.sleep(0.5)
        agent(world, "host2", "-o status -n pg3", 1)
    finally:
        world.hosts.switch_works = True
    confirmed = time.time()
    wait_view(world, "host1", "pg3 is fenced with its host", lambda root: fenced(root, "pg3", count + 1), FENCED_SECONDS)
    confirmed = time.time() - confirmed
    settle(world)
    log = world.hosts.execute("host1", "cat /var/log/zones/pg.messages") + world.hosts.execute("host2", "cat /var/log/zones/pg.messages")
    expect(re.search(r"fence request '(off|reboot) pg3': done", log), f"the request for pg3 is not in the logs: {log}")
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "uninstall -F pg")
    clzc(world, "host3", "delete pg")
    return Row("fence_zone: node hangs", hung, None,
               f"until it is fenced; cluster in the zones whole after {ready:.1f} s; stonith_admin --fence {asked:.1f} s;"
               f" host dead, its fence device dead {DEAD_SECONDS:.0f} s: nothing was believed, fenced {confirmed:.1f} s after it answered")


def wait_running(world, host):
    """Waits until the zone of a host runs."""
    end = time.time() + READY_SECONDS
    while time.time() < end:
        if ":pg:running:" in world.hosts.execute(host, "zoneadm list -p"):
            return
        time.sleep(0.2)
    raise Failure(f"{host}: the zone does not run")


# A remote shell that an administrator chose: it writes down its words, and calls ssh without them.
RSH = """echo "$@" >>/root/rsh.log
shift
exec ssh -T -oBatchMode=yes -oConnectTimeout=5 "$@"
"""


def zone_cluster_clone(world):
    """A zone cluster is cloned, is reached by another remote shell, and is deleted while a host is dead."""
    settle(world)
    allow_ssh(world)
    said = document.run_block(world, "host1", "zone_cluster_clone", document.ZONES)
    expect(said.count("Running") == 3, f"the zone cluster of the page: {said}")
    for number in NUMBERS:
        world.hosts.execute(f"host{number}", f"zlogin pg 'echo {number} >/root/word'")
    configure_zones(world, "copy", 71)
    expect("failed with status" in clzc(world, "host2", "clone -Z copy pg", 37), "zones that run were cloned")
    clzc(world, "host2", "halt pg")
    began = time.time()
    clzc(world, "host2", "clone -Z copy pg")
    seconds = time.time() - began
    # The clone runs beside its source, with names, addresses and a key of its own.
    clzc(world, "host1", "boot +")
    keys = set()
    for number in NUMBERS:
        host = f"host{number}"
        said = world.hosts.execute(host, "zlogin copy 'hostname; cat /root/word; ip -4 -o addr show net0'").split()
        expect(said[:2] == [f"copy{number}", str(number)] and f"10.66.0.{70 + number}/24" in said, f"{host}: the clone: {said}")
        for zone in ("pg", "copy"):
            keys.add(world.hosts.execute(host, f"zlogin {zone} 'sha256sum </etc/corosync/authkey'"))
    expect(len(keys) == 2, f"expected a key for each of two zone clusters, found {len(keys)}")
    # Another remote shell gets its option, the host, and the command.
    with open(f"{world.hosts.shared}/rsh", "w", encoding="ascii") as file:
        file.write(RSH)
    said = clzc(world, "host1", "status copy", before="ZONES_RSH='sh /shared/rsh --mine'")
    expect(said.count("Running") == 3, f"status by another remote shell: {said}")
    log = world.hosts.execute("host1", "cat /root/rsh.log")
    expect("--mine host2 clzonecluster --local report copy" in log and "--mine host3" in log, f"the remote shell: {log}")
    said = clzc(world, "host1", "status copy", 35, before="ZONES_RSH='/shared/absent'")
    expect(said.count("host does not answer") == 2 and said.count("Running") == 1, f"status without a remote shell: {said}")
    # A host is dead while the zone cluster is deleted.
    clzc(world, "host1", "halt copy")
    world.hosts.switch_works = False
    try:
        world.hosts.kill("host3")
        clzc(world, "host1", "uninstall -F copy", 35)
        clzc(world, "host1", "delete copy", 35)
        expect("copy" in clzc(world, "host1", "list"), "deleted although a host does not answer")
        clzc(world, "host1", "delete -F copy", 35)
        for host in ("host1", "host2"):
            left = world.hosts.execute(host, "zoneadm list -c; clzonecluster list")
            expect("copy" not in left, f"{host}: left behind: {left}")
    finally:
        world.hosts.switch_works = True
    settle(world)
    # The host that was dead learns of the deletion, keeps the files of its zone, and boots it no more.
    said = clzc(world, "host3", "boot copy", 36)
    expect("no longer has it" in said, f"host3: boot: {said}")
    states = world.hosts.execute("host3", "zoneadm list -cp")
    expect(":copy:installed:" in states, f"host3: {states}")
    world.hosts.execute("host3", "zoneadm -z copy uninstall -F && zonecfg -z copy delete -F")
    expect("copy" not in clzc(world, "host3", "list"), "host3 still lists the zone cluster")
    # ready makes the zones without their processes; status tells programs the same as people.
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "ready pg")
    said = clzc(world, "host3", "status -j pg")
    nodes = json.loads(said[:said.rindex("status")])
    expect([node["state"] for node in nodes] == ["ready"] * 3 and nodes[0]["hostname"] == "pg1", f"status -j: {said}")
    clzc(world, "host1", "boot pg")
    clzc(world, "host2", "halt -n host2 pg")
    clzc(world, "host1", "boot -w pg")
    said = clzc(world, "host3", "status pg")
    expect(said.count("Running") == 3, f"boot of ready zones: {said}")
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "uninstall -F pg")
    clzc(world, "host3", "delete pg")
    return Row("clzonecluster clone", seconds, None, "3 zones; then another remote shell, and delete -F with a dead host")
