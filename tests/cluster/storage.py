"""A case of failover zones above storage that Pacemaker manages itself: zonecluster add -s."""

import time

from checks import Failure, Row, expect, settle

ZONE = "vol"
LUN = f"/shared/lun-{ZONE}.img"
MOUNTED = f"""<primitive id="store" class="ocf" provider="heartbeat" type="Filesystem">
<instance_attributes id="store-a">
<nvpair id="store-1" name="device" value="{LUN}"/>
<nvpair id="store-2" name="directory" value="/zones/{ZONE}"/>
<nvpair id="store-3" name="fstype" value="ext4"/>
<nvpair id="store-4" name="options" value="loop"/>
</instance_attributes>
<meta_attributes id="store-m"><nvpair id="store-5" name="resource-stickiness" value="100"/></meta_attributes></primitive>"""
# A promotable clone, as DRBD is for Pacemaker. The kernel of this machine has no DRBD; Pacemaker's own Stateful
# keeps only its role, so this part shows the constraints and no replication.
PROMOTABLE = """<clone id="disk-clone"><meta_attributes id="disk-clone-m">
<nvpair id="disk-clone-1" name="promotable" value="true"/></meta_attributes>
<primitive id="disk" class="ocf" provider="pacemaker" type="Stateful"><operations>
<op id="disk-o1" name="monitor" interval="10s" timeout="20s" role="Promoted"/>
<op id="disk-o2" name="monitor" interval="11s" timeout="20s" role="Unpromoted"/>
</operations></primitive></clone>"""
WAIT_SECONDS = 30.0


def command(world, words, good=True):
    """Runs zonecluster on host1, and expects that it succeeds or fails. Returns what it printed."""
    said = world.hosts.execute("host1", f"zonecluster {words}; echo status $?")
    expect(said.endswith("status 0\n") == good, f"zonecluster {words}: {said}")
    return said


def create(world, resource):
    """Adds a resource to the cluster, and waits until it runs."""
    with open(f"{world.hosts.shared}/resource.xml", "w", encoding="ascii") as file:
        file.write(resource)
    world.hosts.execute("host1", "cibadmin --create -o resources --xml-file /shared/resource.xml && crm_resource --wait -T 30s")


def wait_for(what, found):
    """Calls a function until it returns a value that is true, and returns it."""
    end = time.time() + WAIT_SECONDS
    while time.time() < end:
        value = found()
        if value:
            return value
        time.sleep(0.3)
    raise Failure(f"{what}: not so after {WAIT_SECONDS} s")


def wait_on(world, host):
    """Waits until the zone runs on a host and nowhere else."""
    def is_there():
        view = world.status()
        return view and view.places.get(ZONE) == [host]

    wait_for(f"zone {ZONE} runs on {host}", is_there)


def wait_located(world, resource, host=None, role="", other_than=None):
    """Waits until a resource runs on one host, in a role if one is given. Returns the host."""
    def located():
        said = world.hosts.execute("host1", f"crm_resource --locate -r {resource}", check=False)
        lines = [line for line in said.splitlines() if " is running on: " in line and line.rstrip().endswith(role)]
        places = [line.split(": ")[1].split()[0] for line in lines]
        return len(places) == 1 and host in (None, places[0]) and places[0] != other_than and places[0]

    return wait_for(f"{resource} {role} runs on {host or 'one host'}", located)


def storage_resource(world):
    """A zone above a resource that mounts its zonepath, and above a promotable clone that gives the device."""
    settle(world)
    world.install(ZONE)
    said = command(world, f"add -s nosuch {ZONE}", good=False)
    expect("-s nosuch: expected the id of a resource" in said, said)
    world.hosts.execute("host1", f"umount /zones/{ZONE}")
    create(world, MOUNTED)
    world.hosts.execute("host1", "crm_resource --move -r store -N host1")
    wait_located(world, "store", "host1")
    # The resource is located on a host as soon as its start begins.
    is_mounted = f"mountpoint /zones/{ZONE} || :"
    wait_for("store is mounted", lambda: " is a mountpoint" in world.hosts.execute("host1", is_mounted))
    world.hosts.execute("host1", "crm_resource --clear -r store")
    command(world, f"add -s store -H host1,host2 {ZONE}")
    wait_on(world, "host1")
    # The zone follows its storage, and the storage its zone.
    world.hosts.execute("host1", "crm_resource --move -r store -N host2")
    wait_on(world, "host2")
    world.hosts.execute("host1", "crm_resource --clear -r store")
    command(world, f"move {ZONE} host1")
    wait_located(world, "store", "host1")
    # An administrator's own constraint keeps the group from being deleted, and is found before the zone is stopped.
    order = f'<rsc_order id="own-order" first="g-{ZONE}" then="fence" kind="Optional"/>'
    world.hosts.execute("host1", f"cibadmin --create -o constraints --xml-text '{order}'")
    said = command(world, f"remove {ZONE}", good=False)
    expect("own-order" in said and "nothing was changed" in said, said)
    wait_on(world, "host1")
    world.hosts.execute("host1", "cibadmin --delete --xpath '//rsc_order[@id=\"own-order\"]'")
    command(world, f"remove {ZONE}")
    cib = world.hosts.execute("host1", "cibadmin --query")
    expect(f"g-{ZONE}" not in cib and 'id="store"' in cib, "expected the storage without the zone")
    world.hosts.execute("host1", """crm_resource -r store --meta -p target-role -v Stopped && crm_resource --wait -T 30s
cibadmin --delete -o resources --xml-text '<primitive id="store"/>'""")

    create(world, PROMOTABLE)
    said = command(world, f"add -s disk -d {LUN} -o loop {ZONE}", good=False)
    expect("it is in disk-clone" in said, said)
    world.hosts.execute("host1", f"mount -o loop {LUN} /zones/{ZONE} && zoneadm -z {ZONE} attach")
    command(world, f"add -s disk-clone -d {LUN} -o loop {ZONE}")
    first = wait_located(world, "disk-clone", role=" Promoted")
    wait_on(world, first)
    world.hosts.execute("host1", f"crm_resource --ban -r disk-clone --promoted -N {first}")
    second = wait_located(world, "disk-clone", role=" Promoted", other_than=first)
    wait_on(world, second)
    command(world, f"remove {ZONE}")
    world.hosts.execute("host1", """crm_resource --clear -r disk-clone
crm_resource -r disk-clone --meta -p target-role -v Stopped && crm_resource --wait -T 30s
cibadmin --delete -o resources --xml-text '<clone id="disk-clone"/>'""")
    expect(world.overlaps(ZONE) == 0, "the zone ran twice")
    return Row("zonecluster add -s", None, None,
               f"with its storage to host2 and back; with the promoted role from {first} to {second}")
