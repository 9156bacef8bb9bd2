"""Cases with PostgreSQL: no acknowledged row is lost with the host that ran the database."""

import os
import subprocess
import time

import document
import zones
from checks import FLOATING, Failure, Row, allow_ssh, clzc, configure_zones, expect, settle
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


# PostgreSQL under Pacemaker in the zones: a primary and two standbys, and the address of the primary.
REPLICATED = f"""<clone id="pgsql-clone">
<meta_attributes id="c-m">
<nvpair id="c-1" name="promotable" value="true"/><nvpair id="c-2" name="promoted-max" value="1"/>
<nvpair id="c-3" name="clone-max" value="3"/><nvpair id="c-4" name="notify" value="true"/>
<nvpair id="c-5" name="target-role" value="Stopped"/>
</meta_attributes>
<primitive id="pgsql" class="ocf" provider="lane" type="pgsql">
<instance_attributes id="p-a">
<nvpair id="p-1" name="pgctl" value="/usr/lib/postgresql/15/bin/pg_ctl"/>
<nvpair id="p-2" name="psql" value="/usr/lib/postgresql/15/bin/psql"/>
<nvpair id="p-3" name="pgdata" value="/var/lib/postgresql/data"/>
<nvpair id="p-4" name="tmpdir" value="/var/lib/postgresql/tmp"/>
<nvpair id="p-5" name="logfile" value="/var/lib/postgresql/log"/>
<nvpair id="p-6" name="rep_mode" value="sync"/>
<nvpair id="p-7" name="node_list" value="pg1 pg2 pg3"/>
<nvpair id="p-8" name="master_ip" value="{FLOATING}"/>
</instance_attributes>
<operations>
<op id="p-o1" name="start" interval="0" timeout="60s"/><op id="p-o2" name="stop" interval="0" timeout="60s"/>
<op id="p-o3" name="monitor" interval="4s" timeout="30s"/>
<op id="p-o4" name="monitor" role="Promoted" interval="3s" timeout="30s"/>
<op id="p-o5" name="promote" interval="0" timeout="60s"/><op id="p-o6" name="demote" interval="0" timeout="60s"/>
<op id="p-o7" name="notify" interval="0" timeout="60s"/>
</operations>
</primitive>
</clone>
<primitive id="address" class="ocf" provider="heartbeat" type="IPaddr2">
<instance_attributes id="i-a"><nvpair id="i-1" name="ip" value="{FLOATING}"/>
<nvpair id="i-2" name="cidr_netmask" value="24"/><nvpair id="i-3" name="nic" value="net0"/></instance_attributes>
<operations><op id="i-o1" name="monitor" interval="5s" timeout="20s"/></operations>
</primitive>"""
CONSTRAINTS = """<rsc_colocation id="k-1" rsc="address" with-rsc="pgsql-clone" with-rsc-role="Promoted" score="INFINITY"/>
<rsc_order id="k-2" first="pgsql-clone" first-action="promote" then="address" then-action="start" symmetrical="false"/>"""
# The agent of Debian 12 (resource-agents 4.12.0, pacemaker 2.1.5) calls 'crm_attribute -p -v -INFINITY', which reads the
# value as the options -I -N FINITY, so that no start ends. The lane has a copy that writes --update=-INFINITY.
AGENT = """set -e
mkdir -p /usr/lib/ocf/resource.d/lane
sed 's/ocf_promotion_score -v \\$/ocf_promotion_score --update=$/; s/ -v "\\$2"$/ --update="$2"/' \\
    /usr/lib/ocf/resource.d/heartbeat/pgsql >/usr/lib/ocf/resource.d/lane/pgsql
chmod 755 /usr/lib/ocf/resource.d/lane/pgsql
! grep 'ocf_promotion_score -v' /usr/lib/ocf/resource.d/lane/pgsql
"""
# The ends of the logs in a zone.
LOGS = "hostname; grep -E \"pgsql|IPaddr2\" /var/log/pacemaker/pacemaker.log | tail -n 12; tail -n 12 /var/lib/postgresql/log"
# Makes the database on the first node, copies it to the others, and puts it at its place. It is made beside its place,
# because Pacemaker's first look at the resource adds a line to postgresql.conf there, with which nothing starts yet.
INIT = """set -e
bin=/usr/lib/postgresql/15/bin; data=/var/lib/postgresql/data; new=$data.new
as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
cd /
mkdir -p $new /var/lib/postgresql/tmp /run/postgresql
chown -R postgres: /var/lib/postgresql /run/postgresql
chmod 700 $new
if [ "$1" = first ]; then
    as $bin/initdb -D $new -A trust >/dev/null
    cat >>$new/postgresql.conf <<END
listen_addresses = '*'
wal_level = replica
hot_standby = on
wal_keep_size = 64MB
restart_after_crash = off
END
    echo 'host all all 10.66.0.0/24 trust' >>$new/pg_hba.conf
    echo 'host replication all 10.66.0.0/24 trust' >>$new/pg_hba.conf
    as $bin/pg_ctl -D $new -l /var/lib/postgresql/log -s -w start
    as $bin/psql -qc 'CREATE TABLE rows (n bigint PRIMARY KEY)'
elif [ "$1" = copy ]; then
    as $bin/pg_basebackup -h 10.66.0.61 -D $new -X stream -c fast
else
    [ ! -e $new/postmaster.pid ] || as $bin/pg_ctl -D $new -s -m fast stop
    mv $new $data
fi
"""


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
    settle(world)
    allow_ssh(world)
    configure_zones(world)
    for number in NUMBERS:
        world.hosts.execute(f"host{number}", AGENT)
    clzc(world, "host1", "install pg")
    zones.put_pacemaker(world, zones.cib(REPLICATED, CONSTRAINTS))
    zones.wait_view(world, "host1", "a whole cluster in the zones", zones.is_whole)
    with open(f"{world.hosts.shared}/init", "w", encoding="ascii") as file:
        file.write(INIT)
    for number, word in ((1, "first"), (2, "copy"), (3, "copy"), (1, "place"), (2, "place"), (3, "place")):
        world.hosts.execute(f"host{number}", f"zlogin pg 'bash -s {word}' </shared/init")
    world.hosts.execute("host1", "zlogin pg crm_resource -r pgsql-clone --meta -p target-role -v Started")
    try:
        ready = zones.wait_view(world, "host1", "a primary and a synchronous standby", lambda root: all(roles(root)), 90)
    except Failure as failure:
        logs = [world.hosts.execute(f"host{n}", f"zlogin pg '{LOGS}'", check=False) for n in NUMBERS]
        raise Failure("\n".join([str(failure)[:300], *logs])) from failure
    primary, standby = roles(zones.view(world, "host1"))
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
    if not zones.fenced(root, primary):
        raise Failure(f"{now} took over, and {primary} was not fenced")
    clzc(world, "host1", "halt pg")
    clzc(world, "host2", "uninstall -F pg")
    clzc(world, "host3", "delete pg")
    return Row("PostgreSQL, host killed", seconds, None,
               f"zone cluster, synchronous replication, {primary} to {now}: {text}; ready after {ready:.1f} s")
