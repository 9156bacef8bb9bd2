"""Cases with PostgreSQL: no acknowledged row is lost with the host that ran the database."""

import os
import subprocess
import time

import document
import zones
from checks import FLOATING, Failure, Row, allow_ssh, clzc, expect, settle
from hosts import HERE, NUMBERS, run
from world import ADDRESSES

# Seconds of writing before and after the fault.
WRITE_SECONDS = 5.0
BACK_SECONDS = 60.0
# The LUN of the page, and the file that the virtual hosts have instead. The client of the lane has no password.
LUN = ("/dev/disk/by-id/wwn-0x5000c500-sql", "/shared/lun-sql.img")
NO_PASSWORD = ("scram-sha-256", "trust")


class Writer:
    """A client that writes numbered rows from outside of all hosts."""

    # Its arguments are the address and the file of what was acknowledged.
    program = "writer.py"

    def __init__(self, world, address):
        self.words = ["nsenter", "-t", str(world.hosts.network.pid), "-n", "python3", f"{HERE}/{self.program}", address]
        self.path = f"{world.work}/acknowledged.{address}"
        self.process = subprocess.Popen([*self.words, self.path], stdin=subprocess.DEVNULL)

    def acknowledged(self):
        """The time and number of each commit that was acknowledged."""
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return [(float(line[0]), int(line[1])) for line in lines]

    def wait_back(self, since):
        """Waits for a commit that was acknowledged after a time. Returns its time."""
        end = time.time() + BACK_SECONDS
        while time.time() < end:
            for when, _ in self.acknowledged():
                if when > since:
                    return when
            time.sleep(0.05)
        raise RuntimeError(f"no commit in {BACK_SECONDS} s")

    def close(self):
        """Ends the client."""
        self.process.terminate()
        self.process.wait()

    def present(self):
        """The numbers in the table."""
        return {int(word) for word in run(*self.words, "-").split()}


def fail_while_writing(world, writer, fail):
    """Makes a fault while rows are written. Returns the seconds without a commit, and the text with the counts."""
    writer.wait_back(0)
    time.sleep(WRITE_SECONDS)
    before = len(writer.acknowledged())
    expect(before > 20, f"only {before} rows in {WRITE_SECONDS} s")
    began = time.time()
    fail()
    # Commits may be acknowledged until the last process of the host is gone.
    last = max(when for when, _ in writer.acknowledged() if when < began + 1)
    back = writer.wait_back(max(began + 1, last))
    time.sleep(WRITE_SECONDS)
    writer.close()
    acknowledged = {number for _, number in writer.acknowledged()}
    present = writer.present()
    lost = acknowledged - present
    text = (f"{len(acknowledged)} rows acknowledged, {before} of them before the fault; {len(present)} in the table;"
            f" {len(present - acknowledged)} without an answer; {len(lost)} lost")
    expect(not lost, f"acknowledged rows are missing: {sorted(lost)[:20]}; {text}")
    # The control: a row that is missing is found.
    victim = max(acknowledged)
    run(*writer.words, f"-{victim}")
    expect(acknowledged - writer.present() == {victim}, "the check does not find a row that was deleted")
    return back - began, text


def postgres_failover(world):
    """PostgreSQL in a failover zone on shared storage."""
    settle(world)
    document.run_block(world, "host1", "postgres_failover", document.FAILOVER, 4, (LUN, NO_PASSWORD))
    said = document.run_block(world, "host1", "postgres_failover", document.FAILOVER, 5,
                              ((LUN[0], f"{LUN[1]} -o loop"),))
    expect("sql" in said, f"zonecluster status: {said}")
    host = world.wait_ready(zones=("sql",))["sql"]
    world.hosts.execute(host, """zlogin sql 'cd /; su postgres -c "psql -qc \\"CREATE TABLE rows (n bigint PRIMARY KEY)\\""'""")
    writer = Writer(world, ADDRESSES["sql"])
    try:
        seconds, text = fail_while_writing(world, writer, lambda: world.hosts.kill(host))
    finally:
        writer.close()
    settle(world)
    world.hosts.execute("host2", "zonecluster remove sql")
    return Row("PostgreSQL, host killed", seconds, None, f"failover zone on shared storage: {text}")


# The ends of the logs in a zone.
LOGS = "hostname; grep -E \"pgsql|IPaddr2\" /var/log/pacemaker/pacemaker.log | tail -n 12; tail -n 12 /var/lib/postgresql/log"


def roles(root):
    """The node with the primary, and that with the synchronous standby; None for what there is not."""
    primary = standby = None
    for resource in root.iter("resource"):
        if resource.get("id") == "pgsql" and resource.get("role") in ("Promoted", "Master"):
            primary = next((node.get("name") for node in resource.iter("node")), None)
    for node in root.iterfind("node_attributes/node"):
        if any(a.get("name") == "pgsql-data-status" and a.get("value") == "STREAMING|SYNC" for a in node.iter("attribute")):
            standby = node.get("name")
    return primary, standby


def postgres_replicated(world):
    """PostgreSQL with synchronous replication between the zones of a zone cluster, under Pacemaker in the zones."""
    def page(host, number):
        changes = (NO_PASSWORD,) if number == 3 else ()
        document.run_block(world, host, "postgres_replicated", document.REPLICATION, number, changes)

    settle(world)
    allow_ssh(world)
    document.run_block(world, "host1", "zone_cluster_clone", document.ZONES)
    zones.start_pacemaker(world)
    page("host1", 1)
    for number in NUMBERS:
        page(f"host{number}", 2)
    page("host1", 3)
    for host in ("host2", "host3"):
        page(host, 4)
    world.hosts.execute("host1", """zlogin pg 'cd /; su postgres -c "psql -qc \\"CREATE TABLE rows (n bigint PRIMARY KEY)\\""'""")
    page("host1", 5)
    try:
        ready = zones.wait_view(world, "host1", "a primary and a synchronous standby", lambda root: all(roles(root)), 90)
    except Failure as failure:
        logs = [world.hosts.execute(f"host{n}", f"zlogin pg '{LOGS}'", check=False) for n in NUMBERS]
        raise Failure("\n".join([str(failure)[:300], *logs])) from failure
    root = zones.view(world, "host1")
    primary, standby = roles(root)
    count = zones.count_fenced(root, primary)
    host = f"host{primary[2:]}"
    other = next(f"host{n}" for n in NUMBERS if f"host{n}" != host)
    writer = Writer(world, FLOATING)
    try:
        seconds, text = fail_while_writing(world, writer, lambda: world.hosts.kill(host))
        now, _ = roles(zones.view(world, other))
    finally:
        writer.close()
    expect(now == standby, f"the primary was {primary}, its synchronous standby {standby}, and now {now} is the primary")
    settle(world)
    root = zones.view(world, other)
    expect(zones.count_fenced(root, primary) > count, f"{now} took over, and {primary} was not fenced")
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "uninstall -F pg")
    clzc(world, "host3", "delete pg")
    return Row("PostgreSQL, host killed", seconds, None,
               f"zone cluster, synchronous replication, {primary} to {now}: {text}; ready after {ready:.1f} s")
