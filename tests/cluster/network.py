"""A case about the network of a zone that fails over: its addresses, its guards and its multicast groups move with it."""

from checks import Failure, Row, expect, settle
from hosts import CLIENT, run
from world import ADDRESSES

GROUP = "239.66.0.1"
PORT = 5000
# An address that the zone may not use.
FOREIGN = "10.66.0.99"
# Joins the group, says so, and prints the first packet. The timeout is in seconds.
RECEIVER = f"""import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("{GROUP}", {PORT}))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton("{GROUP}"), bytes(4)))
s.settimeout(10)
open("/run/joined", "w").close()
print(s.recv(99).decode())
"""
# Sends for a second, because bridges learn of a membership with a delay.
SENDER = f"""import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("{CLIENT}"))
for _ in range(20):
    s.sendto(b"to the group", ("{GROUP}", {PORT}))
    time.sleep(0.05)
"""


def outside(world, *words):
    """Runs a command in the network of the clients, and returns its output."""
    return run("nsenter", "-t", str(world.hosts.network.pid), "-n", *words)


def ethernet_address(world):
    """The Ethernet address that a client has learned for the zone."""
    words = outside(world, "ip", "neigh", "show", ADDRESSES["web"]).split()
    expect("lladdr" in words, f"no neighbour {ADDRESSES['web']}: {words}")
    return words[words.index("lladdr") + 1]


def check_zone(world, host):
    """Fails unless the zone on the host hears its group and cannot send from another address."""
    zlogin = world.hosts.execute
    zlogin(host, f"zlogin web 'cat >/run/receiver' <<'END'\n{RECEIVER}\nEND\nzlogin web 'rm -f /run/joined /run/heard'")
    zlogin(host, "zlogin web 'setsid python3 /run/receiver >/run/heard 2>&1 </dev/null &'")
    zlogin(host, "zlogin web 'for i in $(seq 100); do [ -e /run/joined ] && exit; sleep 0.1; done; cat /run/heard; exit 1'")
    outside(world, "python3", "-c", SENDER)
    heard = zlogin(host, "zlogin web 'cat /run/heard'")
    expect(heard == "to the group\n", f"{host}: the zone did not hear its multicast group: {heard!r}")
    spoofed = f"""zlogin web 'ip addr add {FOREIGN}/24 dev net0
ping -c 2 -i 0.2 -W 1 -I {FOREIGN} {CLIENT}; echo status $?
ping -c 1 -W 1 -I {ADDRESSES["web"]} {CLIENT}; echo status $?
ip addr del {FOREIGN}/24 dev net0'"""
    said = zlogin(host, spoofed)
    statuses = [line for line in said.splitlines() if line.startswith("status")]
    expect(statuses == ["status 1", "status 0"], f"{host}: expected no answer to {FOREIGN}, and one to the zone's own address: {said}")


def links(world, host):
    """The names of the links of a host that are no part of every host."""
    lines = world.hosts.execute(host, "ip -br link").splitlines()
    return {line.split()[0].partition("@")[0] for line in lines} - {"lo", "br0", "eth0"}


def network_follows(world):
    """Addresses, guards and multicast groups of an exclusive-IP zone follow it to another host."""
    place = settle(world)
    host = place["web"]
    before = ethernet_address(world)
    check_zone(world, host)
    target = next(name for name in ("host1", "host2", "host3") if name not in place.values())
    world.hosts.execute(host, f"zonecluster move web {target}")
    try:
        place = settle(world)
        expect(place["web"] == target, f"the zone went to {place['web']}")
        after = ethernet_address(world)
        expect(after == before, f"the Ethernet address was {before} and is {after}")
        check_zone(world, target)
        left = links(world, host)
        expect(not left or host in place.values(), f"{host} runs no zone and has links: {left}")
    except Failure:
        print(world.hosts.execute(target, "ip -d link; nft list ruleset; zoneadm links", check=False))
        raise
    return Row("network follows the zone", None, None,
               f"{host} to {target}: Ethernet address {after}, multicast heard, {FOREIGN} refused on both")
