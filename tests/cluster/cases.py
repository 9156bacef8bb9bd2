"""The faults of the lane, and the table of what was seen."""

import os
import random
import time
import traceback

import changes
import databases
import fencing
import galera
import guests
import kernel
import network
import quorum
import storage
import zones
from checks import Failure, Row, allow_ssh, clzc, configure_zones, expect, settle
from hosts import NUMBERS
from world import ZONES


def another(host):
    """A host other than this."""
    return next(f"host{n}" for n in NUMBERS if f"host{n}" != host)


def measure(world, event, act, zone="web", moves=True, note=""):
    """Acts, waits until the zone is back, and makes the row."""
    host = settle(world)[zone]
    began = time.time()
    act(host)
    back, now_on = world.wait_back(zone, began)
    expect(now_on != host if moves else now_on == host, f"{event}: the zone was on {host} and is on {now_on}")
    time.sleep(1)
    return Row(event, back - began, world.gap(zone, began, time.time()), note or f"{host} to {now_on}")


def ocf_tester(world):
    expect("passed all tests" in world.agent and "status 0" in world.agent, f"ocf-tester: {world.agent}")
    return Row("ocf-tester", note="passed all tests")


def planned_move(world):
    def move(host):
        world.hosts.execute(host, f"crm_resource --move -r g-web -N {another(host)}")

    row = measure(world, "planned move", move)
    world.hosts.execute("host1", "crm_resource --clear -r g-web")
    return row


def host_killed(world):
    return measure(world, "host killed", world.hosts.kill)


def link_cut(world):
    cut = []

    def act(host):
        cut.append(host)
        world.hosts.cut(host)

    try:
        return measure(world, "link cut", act)
    finally:
        for host in cut:
            world.hosts.heal(host)


def init_killed(world):
    def act(host):
        world.hosts.execute(host, f"kill -9 $({INIT_OF_WEB})")

    return measure(world, "init killed", act, moves=False)


# Prints the number of the process that is init of the zone web: the child of its zoneadmd.
INIT_OF_WEB = "pgrep -x zinit -P $(pgrep -f 'zoneadmd.* web( |$)' | head -n 1)"


def dead_fence(world):
    host = settle(world)["web"]
    world.hosts.switch_works = False
    began = time.time()
    try:
        world.hosts.kill(host)
        time.sleep(12)
        moved = [i for i in world.instances("web") if i[0] > began]
        expect(not moved, f"the zone started on {moved} although {host} was not fenced")
    finally:
        world.hosts.switch_works = True
    answered = time.time()
    back, now_on = world.wait_back("web", began)
    time.sleep(1)
    return Row("fence device dead 12 s", back - answered, world.gap("web", began, time.time()),
               f"nothing moved while it was dead; {host} to {now_on} after it answered")


def returning_host(world):
    place = settle(world)
    host = place["db"]
    began = time.time()
    world.hosts.kill(host)
    back, now_on = world.wait_back("db", began)
    expect(now_on != host, f"{host} was killed, and the zone started there")
    place = settle(world)
    states = world.hosts.execute(host, "zoneadm list -cp")
    expect(place["db"] == now_on, f"the zone moved again when {host} returned")
    expect(":db:running:" not in states, f"{host} says the zone runs there: {states}")
    # The index of the host that was killed still has the zone: it must serve it again.
    world.hosts.execute(now_on, f"crm_resource --move -r g-db -N {host}")
    moved = time.time()
    _, again_on = world.wait_back("db", moved)
    world.hosts.execute(now_on, "crm_resource --clear -r g-db")
    expect(again_on == host, f"the zone went to {again_on}")
    return Row("host returns, zone back", world.wait_back("db", moved)[0] - moved, None,
               f"killed, back on {now_on} in {back - began:.2f} s, then moved back")


def configuration_drift(world):
    host = settle(world)["web"]
    target = another(host)
    world.hosts.execute(target, """zonecfg -z web info >/dev/null 2>&1 || zonecfg -z web create
zonecfg -z web 'add attr; set name=drifted; set type=string; set value=yes; end; commit'
zonecfg -z web export | grep -q drifted""")
    began = time.time()
    world.hosts.execute(host, f"crm_resource --move -r g-web -N {target}")
    back, now_on = world.wait_back("web", began)
    expect(now_on == target, f"the zone went to {now_on}")
    export = world.hosts.execute(target, "zonecfg -z web export")
    expect("drifted" not in export and "10.66.0.50" in export, f"the zone runs with the host's configuration: {export}")
    world.hosts.execute(host, "crm_resource --clear -r g-web")
    return Row("configuration drift", back - began, None, f"{target} had another configuration; the cluster's was taken")


def failover_command(world):
    """zonecluster: from an installed zone to one that fails over, and back."""
    settle(world)

    def command(words, good=True):
        said = world.hosts.execute("host1", f"zonecluster {words}; echo status $?")
        expect(said.endswith("status 0\n") == good, f"zonecluster {words}: {said}")
        return said

    world.install("app")
    add = "add -d /shared/lun-app.img -o loop -p 'test -s /run/app.pid' -H host1,host2 app"
    world.hosts.switch_works = False
    try:
        said = command(add, good=False)
        expect("does not answer" in said, f"added without a fence device: {said}")
    finally:
        world.hosts.switch_works = True
    expect("<group id=\"g-app\">" in command(add.replace("add", "add -n", 1)), "-n prints no group")
    expect("g-app" not in world.hosts.execute("host1", "cibadmin --query"), "-n has changed the cluster")
    began = time.time()
    command(add)
    back, now_on = world.wait_back("app", began)
    seconds = time.time() - began
    expect(now_on == "host1", f"the zone prefers host1 and runs on {now_on}")
    expect("has it already" in command(add, good=False), "added twice")
    expect("No such" in command("update app2", good=False), "updated what is not there")
    expect("generation 2" in command("update app"), "the generation is not counted")
    command("move app host2")
    said = command("status")
    expect(f"{'app':20} {'host2':20} configured" in said, f"status: {said}")
    command("evacuate host2")
    said = command("status")
    expect(f"{'host2':20} evacuated" in said and f"{'app':20} {'host1':20} running" in said, f"status: {said}")
    command("return host2")
    command("remove app")
    expect("g-app" not in world.hosts.execute("host1", "cibadmin --query"), "something of the zone is left")
    expect(world.overlaps("app") == 0, "the zone ran twice")
    return Row("zonecluster add", back - began, None, f"on {now_on}, {seconds:.1f} s in all; then move, evacuate, remove")


def storage_late(world):
    host = settle(world)["db"]
    lun, away = (f"{world.hosts.shared}/lun-db.img{end}" for end in ("", ".away"))
    world.hosts.execute(host, "crm_resource -r g-db --meta -p target-role -v Stopped")
    # crm_resource --wait can return before the stop has begun.
    storage.wait_for("zone db is stopped", lambda: "is NOT running" in world.hosts.execute(
        host, "crm_resource --locate -r storage-db 2>&1", check=False))
    os.rename(lun, away)
    try:
        world.hosts.execute(host, "crm_resource -r g-db --meta -p target-role -v Started")
        time.sleep(4)
    finally:
        os.rename(away, lun)
    began = time.time()
    # Filesystem calls a device that is not there a fault of the installation: an administrator cleans up.
    world.hosts.execute(host, "crm_resource --cleanup -r g-db")
    back, now_on = world.wait_back("db", began)
    return Row("storage late by 4 s", back - began, None, f"on {now_on} after crm_resource --cleanup")


def split_brain(world):
    """The control: without fencing and quorum the zone runs twice, and the detector sees it.

    Before it: without fencing the agent does not take a zone from a host that may run it.
    """
    host = settle(world)["web"]
    for name, value in (("stonith-enabled", "false"), ("no-quorum-policy", "ignore")):
        world.hosts.execute(host, f"crm_attribute -t crm_config -n {name} -v {value}")
    time.sleep(1)
    before = world.overlaps("web")
    began = time.time()
    world.hosts.cut(host)
    time.sleep(8)
    started = [i for i in world.instances("web") if i[0] > began]
    expect(not started, f"fencing is off and {host} is cut off, and the zone was taken over: {started}")
    world.hosts.heal(host)
    host = settle(world)["web"]
    world.hosts.execute(host, "crm_resource -r zone-web -p unfenced -v true && crm_resource --wait -T 30s")
    world.hosts.execute(host, "crm_resource --cleanup -r g-web && crm_resource --wait -T 30s")
    host = settle(world)["web"]
    began = time.time()
    world.hosts.cut(host)
    back, now_on = world.wait_back("web", began)
    end = time.time() + 10
    while time.time() < end and world.overlaps("web") == before:
        time.sleep(0.2)
    time.sleep(1)
    seen = world.overlaps("web") - before
    expect(seen > 0, f"the control fails: the zone ran on {host} and {now_on}, and the detector saw nothing")
    return Row("control: no fencing", back - began, None, f"agent told to take over: {seen} interleavings of {host} and {now_on} detected")


# Seconds in which ssh and the ring must work after a start.
RING_SECONDS = 20.0


def wait_ring(world, host, nodes):
    """Waits until the zone on a host sees a ring with a majority and so many nodes."""
    end = time.time() + RING_SECONDS
    while time.time() < end:
        said = world.hosts.execute(host, "zlogin pg corosync-quorumtool -s", check=False)
        if "Quorate:          Yes" in said and f"Nodes:            {nodes}" in said:
            return
        time.sleep(0.3)
    raise Failure(f"{host}: the ring of the zones is not whole: {said}")


START_RING = ("zlogin pg 'mkdir -p /var/lib/corosync /var/log/corosync;"
              " setsid corosync -f >/var/log/corosync/stderr 2>&1 </dev/null &'")


def zone_cluster(world):
    settle(world)
    allow_ssh(world)
    began = time.time()
    configure_zones(world)
    clzc(world, "host2", "verify pg")
    # A zone that was changed or deleted by hand gets the configuration of its node again.
    world.hosts.execute("host1", "zonecfg -z pg delete -F")
    world.hosts.execute("host3", "zonecfg -z pg 'set autoboot=true'")
    clzc(world, "host3", "apply pg")
    said = world.hosts.execute("host3", "zonecfg -z pg info autoboot") + world.hosts.execute("host1", "zoneadm list -c")
    expect("autoboot: false" in said and "pg" in said, f"apply: {said}")
    # Installed and booted from another host than the one that configured it.
    clzc(world, "host2", "install pg")
    booting = time.time()
    clzc(world, "host3", "boot pg")
    booted = time.time()
    said = clzc(world, "host3", "status pg")
    expect(said.count("Running") == 3, f"status: {said}")
    for number in NUMBERS:
        name = world.hosts.execute(f"host{number}", "zlogin pg hostname").strip()
        expect(name == f"pg{number}", f"host{number}: the zone's host name is {name}")
        world.hosts.execute(f"host{number}", START_RING)
    wait_ring(world, "host2", 3)
    # A host is lost, and stays down. The others are still acted on, and their ring keeps its majority.
    world.hosts.switch_works = False
    try:
        world.hosts.kill("host3")
        wait_ring(world, "host1", 2)
        lost = time.time()
        said = clzc(world, "host1", "status pg", 35)
        expect("host does not answer" in said and said.count("Running") == 2, f"status: {said}")
        with open(f"{world.hosts.shared}/more.clzc", "w", encoding="ascii") as file:
            file.write("set cpu-shares=7\n")
        said = clzc(world, "host2", "configure -f /shared/more.clzc pg", 35)
        expect("host3: does not answer" in said, f"configure: {said}")
        clzc(world, "host1", "halt -n host2 pg")
        said = clzc(world, "host1", "boot pg", 35)
        expect("host1: runs already" in said and "host2: done" in said, f"boot: {said}")
        answered = time.time() - lost
    finally:
        world.hosts.switch_works = True
    # The host returns with the older configuration, and takes the newer one.
    settle(world)
    said = clzc(world, "host1", "status pg")
    expect("older configuration" in said, f"status: {said}")
    clzc(world, "host3", "boot pg")
    shares = world.hosts.execute("host3", "zonecfg -z pg info cpu-shares")
    expect("7" in shares, f"host3 has the older configuration: {shares}")
    # Two hosts with different configurations of one generation are refused, until the administrator chooses.
    world.hosts.execute("host2", "sed -i 's/hostname=pg1/hostname=other/' /etc/zones/clusters/pg.cfg")
    said = clzc(world, "host1", "boot pg", 37)
    expect("different configurations of generation 2" in said, f"boot: {said}")
    clzc(world, "host1", "apply --from host1 pg")
    said = clzc(world, "host2", "export pg")
    expect("hostname=pg1" in said, f"export: {said}")
    changes.check(world)
    clzc(world, "host1", "delete pg", 37)
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "uninstall -F pg")
    clzc(world, "host3", "delete pg")
    for number in NUMBERS:
        left = world.hosts.execute(f"host{number}", "ls /etc/zones/clusters; zoneadm list -c; ls /zones")
        expect("pg" not in left, f"host{number}: left behind: {left}")
    return Row("zone cluster", booted - booting, None,
               f"boot of 3 zones; {booting - began:.1f} s to configure and install; with a host down, 4 commands took {answered:.1f} s")


def random_faults(world, count=50, seed=None):
    seed = seed if seed is not None else int(time.time())
    draw = random.Random(seed)
    print(f"random faults: seed {seed}", flush=True)
    faults = (planned_move, host_killed, link_cut, init_killed)
    slowest = 0.0
    for number in range(count):
        fault = draw.choice(faults)
        row = fault(world)
        slowest = max(slowest, row.back)
        print(f"  {number + 1:2} {row}", flush=True)
        check_exclusive(world)
    return Row(f"{count} random faults", slowest, None, f"the slowest; seed {seed}; no zone ran twice")


def check_exclusive(world):
    """Fails if a zone ran twice."""
    for zone in ZONES:
        count = world.overlaps(zone)
        expect(count == 0, f"zone {zone} ran twice at once: {count} interleavings")


# The control is the last: it leaves damaged storage behind.
CASES = (ocf_tester, planned_move, network.network_follows, init_killed, host_killed, link_cut, dead_fence, returning_host,
         configuration_drift, failover_command, storage.storage_resource, storage_late, zone_cluster, zones.zone_cluster_clone)
# Run with --long, or if they are named: each takes half a minute and more.
LONG_CASES = (guests.guest_node, fencing.host_fencing, zones.zone_fencing, databases.postgres_failover,
              databases.postgres_replicated, quorum.etcd, galera.galera, kernel.kernel_zone, random_faults)


def chosen(names, is_long):
    """The cases that have these names; without names those of the short lane, or all."""
    every = {case.__name__: case for case in (*CASES, *LONG_CASES, split_brain)}
    unknown = [name for name in names if name not in every]
    if unknown:
        raise Failure(f"expected one of these cases: {' '.join(every)}; found {' '.join(unknown)}")
    short = {case.__name__ for case in (*CASES, split_brain)}
    return [case for name, case in every.items() if (name in names if names else is_long or name in short)]


def run_all(world, cases):
    """Runs the cases and prints the table. Returns the exit status."""
    rows, failed = [], []
    for case in cases:
        began = time.time()
        try:
            row = case(world)
            if case is not split_brain:
                check_exclusive(world)
            rows.append(row)
            print(f"test cluster::{case.__name__} ... ok", flush=True)
        except Exception as error:  # the next case may still pass
            failed.append(case.__name__)
            if not isinstance(error, Failure):
                traceback.print_exc()
            print(f"test cluster::{case.__name__} ... FAILED\n  {error}", flush=True)
            print("  the end of the trace:", *world.hosts.traced()[-12:], sep="\n    ")
            print("  logs:", *world.logs(began), sep="\n    ", flush=True)
    print(f"\n| {'event':24} | {'back, s':>8} | {'gap, s':>8} | {'goal, s':>10} | |\n|---|--:|--:|--:|---|")
    for row in rows:
        print(row)
    for zone in ZONES:
        print(f"zone {zone}: {len(world.records(zone))} records of {len(world.instances(zone))} starts")
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {len(rows)} passed; {len(failed)} failed; 0 ignored")
    return 1 if failed else 0
