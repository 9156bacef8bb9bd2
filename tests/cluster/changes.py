"""set, move and show-rev on the zone cluster pg, whose three zones run."""

import time

from checks import clzc, expect, settle
from hosts import NUMBERS
from world import READY_TIMEOUT


def paths(world, path, numbers=NUMBERS):
    """Expects the files of the zones at a path, and nowhere else."""
    for number in numbers:
        host = f"host{number}"
        said = world.hosts.execute(host, "zoneadm list -cp | grep :pg:; ls -d /zones/pg* 2>&1; true")
        expect(f":{path}:" in said and said.endswith(f"\n{path}\n"), f"{host}: expected the zone at {path}: {said}")
        if ":running:" not in said:
            continue
        kept = world.hosts.execute(host, "zlogin pg cat /root/kept")
        expect(kept == f"{host}\n", f"{host}: a file of the zone: {kept}")


def restart(world, number):
    """Ends a host, and waits until it was fenced and is back: at first, the others do not notice its end."""
    began = time.time()
    world.hosts.kill(f"host{number}")
    world.hosts.wait_for(number, "pacemakerd", since=began, seconds=READY_TIMEOUT)
    settle(world)


def generation(world):
    """The generation of the configuration."""
    return int(clzc(world, "host1", "show pg").split("\n", 1)[0].split(": ")[1])


def set_properties(world):
    """set: all properties or none."""
    before = generation(world)
    said = clzc(world, "host2", "set -p cpu-shares=9 -p autobot=true pg", 3)
    expect("did you mean autoboot?" in said, f"set: {said}")
    clzc(world, "host2", "set -p cpu-shares=9 -p autoboot=perhaps pg", 3)
    clzc(world, "host2", "set -n host2 -p hostname=pg1 pg", 3)
    expect(generation(world) == before, "a refused set has changed the configuration")
    clzc(world, "host2", "set -p cpu-shares=9 -p autoboot=true pg")
    clzc(world, "host1", "set -n host2 -p hostname=db2 pg")
    expect("hostname=db2" in clzc(world, "host3", "export pg"), "the host name of a node is not set")
    clzc(world, "host1", "set -n host2 -p hostname=pg2 pg")
    clzc(world, "host1", "set -p autoboot=false pg")
    expect(generation(world) == before + 4, "each set is one generation")
    for number in NUMBERS:
        said = world.hosts.execute(f"host{number}", "zonecfg -z pg info cpu-shares")
        expect("9" in said, f"host{number}: {said}")


def releases(world):
    """show-rev: the same programs on all hosts, and a host that differs."""
    said = clzc(world, "host1", "show-rev -v")
    expect(said.count("3.1.7") == 3 and "differ" not in said, f"show-rev: {said}")
    world.hosts.execute("host2", "mkdir -p /root/old; printf '#!/bin/sh\\necho zoneadm 0.0.1\\n' >/root/old/zoneadm; chmod 755 /root/old/zoneadm")
    with open(f"{world.hosts.shared}/old-rsh", "w", encoding="ascii") as file:
        file.write("""host=$1
shift
[ "$host" != host2 ] || set -- "PATH=/root/old:$PATH; $*"
exec ssh -T -oBatchMode=yes -oConnectTimeout=5 "$host" "$@"
""")
    said = clzc(world, "host1", "show-rev", before="ZONES_RSH='sh /shared/old-rsh'")
    expect("the releases differ: 0.0.1 on host2, " in said, f"show-rev: {said}")
    world.hosts.execute("host2", "rm -r /root/old")


def move(world):
    """move: with a host that is down, and after deaths of hosts within the command."""
    for number in NUMBERS:
        world.hosts.execute(f"host{number}", "zlogin pg 'cat >/root/kept' </etc/hostname")
    said = clzc(world, "host1", "move -f /zones/pg-moved pg", 37)
    expect("only a halted zone can be moved" in said, f"move: {said}")
    clzc(world, "host1", "halt pg")
    said = clzc(world, "host1", "move -f /nowhere/pg pg", 37)
    expect("nothing was changed" in said, f"move: {said}")
    paths(world, "/zones/pg")
    world.hosts.switch_works = False
    try:
        world.hosts.kill("host3")
        said = clzc(world, "host1", "move -f /zones/pg-moved pg", 35)
        expect("host3: does not answer" in said, f"move: {said}")
        paths(world, "/zones/pg-moved", (1, 2))
        clzc(world, "host2", "boot pg", 35)
        clzc(world, "host2", "show-rev", 35)
    finally:
        world.hosts.switch_works = True
    settle(world)
    expect("older configuration" in clzc(world, "host3", "status pg"), "host3 has the new configuration already")
    clzc(world, "host1", "boot pg")
    paths(world, "/zones/pg-moved")
    # A host whose zone runs when the configuration comes: it keeps running, and moves after it was halted.
    clzc(world, "host1", "halt pg")
    clzc(world, "host1", "move -n host1 -f /zones/pg pg")
    paths(world, "/zones/pg", (1,))
    # The others have stored the configuration. No command that only looks or halts moves their zones.
    said = clzc(world, "host3", "move -n host1 -f /zones/pg pg")
    expect("already" in said, f"move: {said}")
    said = clzc(world, "host2", "apply -d pg")
    expect(said.count("has not taken the newest configuration") == 2, f"apply -d: {said}")
    clzc(world, "host2", "verify pg")
    clzc(world, "host2", "halt pg")
    paths(world, "/zones/pg-moved", (2, 3))
    # A repeated move moves the zones that have not moved.
    clzc(world, "host2", "move -n host3 -f /zones/pg pg")
    paths(world, "/zones/pg", (1, 3))
    world.hosts.execute("host3", "zoneadm -z pg move /zones/pg-moved")
    world.hosts.execute("host2", "zoneadm -z pg boot")
    # host3 has died after its zone was moved, and before it took the rest of the configuration.
    world.hosts.execute("host1", "clzonecluster --local show pg >/shared/pg.document")
    world.hosts.execute("host3", "clzonecluster --local store pg </shared/pg.document; zoneadm -z pg move /zones/pg")
    restart(world, 3)
    clzc(world, "host1", "boot pg")
    paths(world, "/zones/pg", (1, 3))
    paths(world, "/zones/pg-moved", (2,))
    expect("older configuration" in clzc(world, "host3", "status pg"), "the status does not tell that a zone must move")
    clzc(world, "host1", "halt pg")
    # Stored, and dead before the zone was moved: host2 still has to move.
    restart(world, 2)
    clzc(world, "host1", "boot pg")
    paths(world, "/zones/pg")
    expect("older" not in clzc(world, "host3", "status pg"), "a zone has the older configuration")


def check(world):
    """All of it."""
    set_properties(world)
    releases(world)
    move(world)
