"""A case with etcd, a service with a quorum of its own: no acknowledged write is lost with a host."""

import json
import time

from checks import Failure, Row, allow_ssh, clzc, configure_zones, expect, settle
from databases import Writer
from document import ETCD, run_block
from hosts import NUMBERS

MEMBERS = {f"host{n}": f"10.66.0.{80 + n}" for n in NUMBERS}
# Seconds of writing before each fault.
WRITE_SECONDS = 3.0
HEALTHY_SECONDS = 30.0

class MemberWriter(Writer):
    """A client that writes to one of several members from outside of all hosts. It begins with the member of a host."""

    def __init__(self, world, members, first):
        super().__init__(world, ",".join([members[first], *(members[host] for host in members if host != first)]))

    def numbers(self):
        """The numbers that were acknowledged until now."""
        return {number for _, number in self.acknowledged()}

    def pause(self, since):
        """The longest time without an acknowledged write after a time, in seconds."""
        times = [when for when, _ in self.acknowledged()]
        return max(b - a for a, b in zip(times, times[1:]) if b > since)


class Keys(MemberWriter):
    """A client of etcd that writes numbered keys."""

    program = "keys.py"


def etcdctl(world, host, words, check=True):
    """Runs etcdctl in the zone of a host, on the member there."""
    return world.hosts.execute(host, f"zlogin kv 'etcdctl {words}'", check=check, seconds=30)


def leader(world, host, among=tuple(MEMBERS)):
    """Waits until the member of a host knows a leader among these hosts. Returns its host."""
    end = time.time() + HEALTHY_SECONDS
    while time.time() < end:
        said = etcdctl(world, host, "endpoint status -w json", check=False)
        members = etcdctl(world, host, "member list -w json", check=False)
        try:
            number = json.loads(said)[0]["Status"]["leader"]
            name = next(member["name"] for member in json.loads(members)["members"] if member["ID"] == number)
        except (ValueError, LookupError, StopIteration):
            name = ""
        if f"host{name[2:]}" in among:
            return f"host{name[2:]}"
        time.sleep(0.1)
    raise Failure(f"{host}: etcd has no leader on {among}: {said}{members}")


def wait_healthy(world, hosts):
    """Waits until each of the members commits writes. Returns the seconds."""
    began = time.time()
    for host in hosts:
        said = ""
        while "is healthy" not in said:
            said = etcdctl(world, host, "endpoint health 2>&1", check=False)
            if time.time() - began > HEALTHY_SECONDS:
                log = world.hosts.execute(host, "zlogin kv tail -n 12 /var/lib/etcd/log", check=False)
                raise Failure(f"{host}: etcd is not healthy: {said}{log}")
            time.sleep(0.1)
    return time.time() - began


def present(world, host, consistency):
    """The numbers that the member of a host has. l: asks the majority; s: from its own copy."""
    words = etcdctl(world, host, f"get --prefix row/ --consistency={consistency}").split()
    pairs = zip(words[::2], words[1::2])
    return {int(value) for key, value in pairs if key == f"row/{value}"}


def missing(world, acknowledged, hosts):
    """The acknowledged numbers that are missing, for each member and kind of read where some are."""
    found = {}
    # The majority is asked first: with its answer, the own copy has all that was acknowledged before.
    for host in hosts:
        for consistency in "ls":
            lost = acknowledged - present(world, host, consistency)
            if lost:
                found[host, consistency] = lost
    return found


def lose(world, writer, spared=None):
    """Loses a host while keys are written, and has it return: that of the leader, or the follower that is not spared.

    Returns the pause of the writes, the text, and the host.
    """
    time.sleep(WRITE_SECONDS)
    before = len(writer.acknowledged())
    host = was = leader(world, "host1")
    if spared:
        host = next(host for host in MEMBERS if host not in (was, spared))
    others = [other for other in MEMBERS if other != host]
    began = time.time()
    # The cable goes first, so that no packet tells of the end of connections, as when the power is lost.
    world.hosts.cut(host)
    world.hosts.kill(host)
    # A write that was on its way may be acknowledged after the kill.
    writer.wait_back(began + 1)
    now = leader(world, others[0], others)
    lost = missing(world, writer.numbers(), others)
    expect(not lost, f"acknowledged keys are missing while {host} is dead: {lost}")
    settle(world)
    down = len(writer.acknowledged())
    expect(f"{host}: done" in clzc(world, others[0], "boot kv"), f"{host}: the zone was not booted")
    healthy = wait_healthy(world, [host])
    pause = writer.pause(began)
    text = (f"{'leader' if host == was else 'follower'} on {host} lost, then {now} leads: {pause:.2f} s without an acknowledged"
            f" write; {before} keys acknowledged before, {down - before} without the member, which answers {healthy:.1f} s"
            " after the boot of its zone")
    return pause, text, host


def etcd(world):
    """etcd in the zones of a zone cluster: the host of the leader is lost, and then that of a follower."""
    settle(world)
    allow_ssh(world)
    configure_zones(world, "kv", 81)
    clzc(world, "host1", "install kv")
    clzc(world, "host2", "boot kv")
    for host in MEMBERS:
        run_block(world, host, "etcd", ETCD, 2)
    wait_healthy(world, MEMBERS)
    writer = Keys(world, MEMBERS, leader(world, "host1"))
    try:
        writer.wait_back(0)
        pause, text, host = lose(world, writer)
        # Without the other follower, a majority needs the member that returned.
        _, more, _ = lose(world, writer, spared=host)
        time.sleep(1)
    finally:
        writer.close()
    acknowledged = writer.numbers()
    lost = missing(world, acknowledged, MEMBERS)
    expect(not lost, f"acknowledged keys are missing: {lost}")
    extra = len(present(world, "host1", "l") - acknowledged)
    # The control: a key that is missing is found, and no other.
    victim = sorted(acknowledged)[len(acknowledged) // 2]
    etcdctl(world, "host2", f"del row/{victim}")
    found = missing(world, acknowledged, MEMBERS)
    expect(found == {(host, consistency): {victim} for host in MEMBERS for consistency in "ls"},
           f"row/{victim} was deleted, and found missing: {found}")
    clzc(world, "host1", "halt kv")
    clzc(world, "host2", "uninstall -F kv")
    clzc(world, "host3", "delete kv")
    return Row("etcd, host killed", pause, None,
               f"{text}; {more}; {len(acknowledged)} keys acknowledged in all, {extra} more without an answer; 0 lost")
