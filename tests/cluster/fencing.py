"""A case with the commands by which an administrator makes the cluster of the hosts and its fence devices."""

import time

from checks import Row, expect, settle
from document import FAILOVER, block, run_block
from hosts import NUMBERS

# Without systemd, pcs starts nothing: it only writes the file.
SETUP = (("pcs host auth host1 host2 host3 -u hacluster\n", ""), ("--start --enable", "--corosync_conf=/root/demo.conf"))
IPMI = "fence_ipmilan ip=10.0.9.$n username=fence password_script=/etc/fence-password lanplus=1"
DEVICES = " ".join(f"fence-host{n}" for n in NUMBERS)


def host_fencing(world):
    """pcs writes a file that corosync reads, and makes fence devices; one of them fences its host."""
    settle(world)
    world.hosts.execute("host1", f"""set -e; cd /root
{block("host_fencing", FAILOVER, 2, SETUP)}
COROSYNC_MAIN_CONFIG_FILE=/root/demo.conf corosync -t
grep -q 'cluster_name: demo' demo.conf; grep -c ring0_addr demo.conf | grep -qx 3""")
    # The device of the lane is away, so that those of the page do it.
    world.hosts.execute("host1", "pcs stonith disable fence")
    began = time.time()
    try:
        run_block(world, "host1", "host_fencing", FAILOVER, 3, ((IPMI, "fence_virtual_host"),))
        seconds = time.time() - began
        settle(world)
    finally:
        world.hosts.execute("host1", f"pcs stonith enable fence; for d in {DEVICES}; do pcs stonith delete $d; done")
    asked = [line for line in world.hosts.traced() if float(line.split()[0]) > began and "asked reboot" in line]
    expect([line.split()[-1] for line in asked] == ["host3"], f"expected that host3 was fenced, and no other: {asked}")
    settle(world)
    left = world.hosts.execute("host1", "cibadmin --query --xpath //resources")
    expect("fence-host" not in left, f"something of the devices is left: {left}")
    return Row("pcs stonith", seconds, None, "three devices made, and host3 fenced by its own")
