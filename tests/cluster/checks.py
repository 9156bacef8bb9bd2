"""Parts of the cases: the table, the checks, and the zone cluster pg."""

import os
import time

from hosts import NUMBERS

# Seconds in which the application is back, on an idle machine. A lane beside others may miss them; a
# zone that is not back at all, or twice, fails the lane.
GOALS = {"planned move": 1.5, "host killed": 5.0, "init killed": 1.0}
SETTLE_SECONDS = 1.5


class Row:
    """A line of the table."""

    def __init__(self, event, back=None, gap=None, note=""):
        self.event, self.back, self.gap, self.note = event, back, gap, note

    def __str__(self):
        goal = GOALS.get(self.event)
        text = "" if goal is None or self.back is None else f"{goal:.1f} {'met' if self.back <= goal else 'MISSED'}"
        seconds = [f"{v:.2f}" if v is not None else "-" for v in (self.back, self.gap)]
        return f"| {self.event:24} | {seconds[0]:>8} | {seconds[1]:>8} | {text:>10} | {self.note} |"


class Failure(Exception):
    """A case saw what must not be."""


def expect(condition, text):
    """Fails the case with the text unless the condition holds."""
    if not condition:
        raise Failure(text)


def settle(world):
    """Waits for a whole cluster that stays whole."""
    world.wait_ready()
    time.sleep(SETTLE_SECONDS)
    return world.wait_ready()


# The address that the zones move among themselves.
FLOATING = "10.66.0.60"


def zone_cluster_of(prefix, first):
    """The commands for a zone cluster with a node on each host: the beginning of its host names, its first address."""
    nodes = "".join(f"""add node
set physical-host=host{n}
set hostname={prefix}{n}
add anet
set linkname=net0
set allowed-address=10.66.0.{first - 1 + n}/24
end
end
""" for n in NUMBERS)
    return f"""create
set ip-type=exclusive
add anet
set linkname=net0
set lower-link=br0
set floating-address={FLOATING}/24
end
{nodes}commit
"""


SSHD = """PermitRootLogin prohibit-password
SetEnv PATH=/opt/zones/bin:/usr/sbin:/usr/bin:/sbin:/bin ZONES_CGROUP={cgroup}
"""


def allow_ssh(world):
    """Lets root of each host log in on the others. After a restart of a host, its process 1 starts sshd."""
    keys = f"{world.hosts.shared}/closed/ssh"
    os.makedirs(keys, exist_ok=True)
    world.hosts.execute("host1", "[ -e /shared/closed/ssh/id ] || ssh-keygen -q -t ed25519 -N '' -f /shared/closed/ssh/id")
    for number in NUMBERS:
        with open(f"{keys}/sshd", "w", encoding="ascii") as file:
            file.write(SSHD.format(cgroup=f"{world.hosts.cgroup}/host{number}"))
        world.hosts.execute(f"host{number}", """set -e
mkdir -p -m 700 /root/.ssh /run/sshd
cp /shared/closed/ssh/id /root/.ssh/id_ed25519
cp /shared/closed/ssh/id.pub /root/.ssh/authorized_keys
chmod 600 /root/.ssh/*
echo 'StrictHostKeyChecking accept-new' >/root/.ssh/config
cp /shared/closed/ssh/sshd /etc/ssh/sshd_config.d/zones.conf
ssh-keygen -A >/dev/null
/usr/sbin/sshd
""")


def clzc(world, host, command, status=0, before=""):
    """Runs clzonecluster on a host, expects its exit status, and returns what it printed."""
    said = world.hosts.execute(host, f"{before} clzonecluster {command}; echo status $?")
    expect(said.endswith(f"status {status}\n"), f"{host}: clzonecluster {command}: expected status {status}: {said}")
    return said


def configure_zones(world, name="pg", first=61):
    """Configures a zone cluster with a node on each host."""
    with open(f"{world.hosts.shared}/{name}.clzc", "w", encoding="ascii") as file:
        file.write(zone_cluster_of(name, first))
    clzc(world, "host1", f"configure -f /shared/{name}.clzc {name}")
