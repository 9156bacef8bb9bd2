"""A case with MariaDB Galera, whose members all take writes: no acknowledged row is lost with a host, nor with all of them."""

import re
import time

from checks import Failure, Row, allow_ssh, clzc, configure_zones, expect, settle
from document import GALERA, run_block
from hosts import NUMBERS
from quorum import MemberWriter

MEMBERS = {f"host{n}": f"10.66.0.{90 + n}" for n in NUMBERS}
# Seconds of writing before each fault.
WRITE_SECONDS = 4.0
SYNCED_SECONDS = 90.0
# Seconds in which two members that were lost with the third must not go on by themselves.
ALONE_SECONDS = 15.0
# The ends of the logs in a zone.
LOGS = "zlogin maria 'hostname; grep -E \"ERROR|WSREP\" /var/log/mysql/error.log | tail -n 25; ps ax | grep -c mariadbd'"


class Rows(MemberWriter):
    """A client of MariaDB that inserts numbered rows."""

    program = "rows.py"

    def host(self):
        """The host of the member that acknowledged the last row."""
        with open(self.path, encoding="ascii") as file:
            address = [line.split()[2] for line in file if line.endswith("\n")][-1]
        return next(host for host in MEMBERS if MEMBERS[host] == address)


def sql(world, host, text, check=True):
    """Runs a command of SQL in the zone of a host. Returns its output without headings."""
    return world.hosts.execute(host, f"zlogin maria mariadb -BN <<'END'\n{text}\nEND\n", check=check, seconds=30)


def wait_synced(world, hosts, members):
    """Waits until the members of these hosts are synced, in a cluster of so many members. Returns the seconds."""
    began = time.time()
    words = ("Synced", "Primary", str(members))
    for host in hosts:
        said = ""
        while not all(f"\t{word}\n" in said for word in words):
            if time.time() - began > SYNCED_SECONDS:
                logs = [world.hosts.execute(other, LOGS, check=False) for other in hosts]
                raise Failure("\n".join([f"{host}: the member is not synced in a cluster of {members}: {said}", *logs]))
            time.sleep(0.2)
            said = sql(world, host, """SHOW STATUS WHERE Variable_name IN
('wsrep_local_state_comment', 'wsrep_cluster_status', 'wsrep_cluster_size')""", check=False)
    return time.time() - began


def present(world, host):
    """The numbers that the member of a host has."""
    return {int(word) for word in sql(world, host, "SELECT n FROM shop.rows").split()}


def missing(world, acknowledged, hosts):
    """The acknowledged numbers that are missing, for each member where some are."""
    lost = {host: acknowledged - present(world, host) for host in hosts}
    return {host: numbers for host, numbers in lost.items() if numbers}


def lose(world, writer):
    """Loses the host of the member that the client uses, and has it return. Returns the pause of the writes, and the text."""
    time.sleep(WRITE_SECONDS)
    before = len(writer.acknowledged())
    host = writer.host()
    others = [other for other in MEMBERS if other != host]
    began = time.time()
    # The cable goes first, so that no packet tells of the end of connections, as when the power is lost.
    world.hosts.cut(host)
    world.hosts.kill(host)
    # A row that was on its way may be acknowledged after the kill.
    writer.wait_back(began + 1)
    expect(writer.host() != host, f"{host} is dead, and its member has acknowledged a row")
    lost = missing(world, writer.numbers(), others)
    expect(not lost, f"acknowledged rows are missing while {host} is dead: {lost}")
    settle(world)
    down = len(writer.acknowledged())
    expect(f"{host}: done" in clzc(world, others[0], "boot maria"), f"{host}: the zone was not booted")
    synced = wait_synced(world, [host], len(MEMBERS))
    kind = transfer(world, host)
    pause = writer.pause(began)
    text = (f"{host}, which the client used, lost: {pause:.2f} s without an acknowledged row; {before} acknowledged before,"
            f" {down - before} without the member, synced by {kind} {synced:.1f} s after the boot of its zone")
    return pause, text


def transfer(world, host):
    """How the member of a host got the rows that it missed: IST, only those, or SST, a copy of everything."""
    log = world.hosts.execute(host, "zlogin maria cat /var/log/mysql/error.log")
    kinds = re.findall(r"rsync ([IS]ST) completed on joiner", log)
    expect(kinds, f"{host}: the log names no transfer: {log[-600:]}")
    return kinds[-1]


def lose_all(world):
    """Ends all members at once. They find each other again by themselves. Returns the seconds."""
    clzc(world, "host1", "halt maria")
    began = time.time()
    clzc(world, "host2", "boot maria")
    wait_synced(world, MEMBERS, len(MEMBERS))
    return time.time() - began


def bootstrap_again(world):
    """Ends all members, and a host does not come back: the cluster is made again from the newest member that is left."""
    clzc(world, "host1", "halt maria")
    clzc(world, "host1", "boot -n host1,host2 maria")
    time.sleep(ALONE_SECONDS)
    for host in ("host1", "host2"):
        said = sql(world, host, "INSERT INTO shop.rows VALUES (0)", check=False)
        expect("ERROR" in said, f"{host}: two of three members that were all lost take a row: {said}")
    positions = {}
    for host in ("host1", "host2"):
        said = run_block(world, host, "galera", GALERA, 5)
        positions[host] = int(re.search(r"wsrep_start_position=[0-9a-f-]+:(\d+)", said)[1])
    newest = max(positions, key=positions.get)
    run_block(world, newest, "galera", GALERA, 6)
    for host in ("host1", "host2"):
        if host != newest:
            world.hosts.execute(host, "zlogin maria 'service mariadb start'")
    clzc(world, "host1", "boot maria")
    wait_synced(world, MEMBERS, len(MEMBERS))


def galera(world):
    """MariaDB Galera in the zones of a zone cluster, from the blocks of docs/clusters.md."""
    settle(world)
    allow_ssh(world)
    configure_zones(world, "maria", 91)
    clzc(world, "host1", "install maria")
    clzc(world, "host2", "boot maria")
    for host in MEMBERS:
        run_block(world, host, "galera", GALERA, 2)
    run_block(world, "host1", "galera", GALERA, 3)
    said = [run_block(world, host, "galera", GALERA, 4) for host in ("host2", "host3")]
    expect("wsrep_cluster_size\t3\n" in said[-1], f"the members do not find each other: {said}")
    wait_synced(world, MEMBERS, len(MEMBERS))
    writer = Rows(world, MEMBERS, "host1")
    try:
        writer.wait_back(0)
        pause, text = lose(world, writer)
        # Without this one, a majority needs the member that returned.
        _, more = lose(world, writer)
        time.sleep(1)
    finally:
        writer.close()
    acknowledged = writer.numbers()
    lost = missing(world, acknowledged, MEMBERS)
    expect(not lost, f"acknowledged rows are missing: {lost}")
    extra = len(present(world, "host1") - acknowledged)
    together = lose_all(world)
    lost = missing(world, acknowledged, MEMBERS)
    expect(not lost, f"acknowledged rows are missing after the loss of all members: {lost}")
    bootstrap_again(world)
    lost = missing(world, acknowledged, MEMBERS)
    expect(not lost, f"acknowledged rows are missing after the new bootstrap: {lost}")
    # The control: a row that is missing is found, and no other.
    victim = sorted(acknowledged)[len(acknowledged) // 2]
    sql(world, "host2", f"DELETE FROM shop.rows WHERE n = {victim}")
    found = missing(world, acknowledged, MEMBERS)
    expect(found == {host: {victim} for host in MEMBERS}, f"row {victim} was deleted, and found missing: {found}")
    clzc(world, "host1", "halt maria")
    clzc(world, "host2", "uninstall -F maria")
    clzc(world, "host3", "delete maria")
    return Row("Galera, host killed", pause, None,
               f"{text}; {more}; {len(acknowledged)} rows acknowledged in all, {extra} more without an answer; 0 lost;"
               f" all members lost at once: synced again after {together:.1f} s")
