"""Usage: lane.py NODES WORK PROGRAMS CGROUP [--long] [CASE...]; tests/cluster/run calls it."""

import sys
import time
import traceback

import cases
from checks import Failure
from world import World


def main():
    words = [word for word in sys.argv[1:] if word != "--long"]
    nodes, work, programs, cgroup = words[:4]
    try:
        wanted = cases.chosen(words[4:], "--long" in sys.argv)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 2
    began = time.time()
    world = World(nodes, work, programs, cgroup)
    status = 1
    try:
        world.make()
        print(f"zones installed, hosts started: {time.time() - began:.1f} s", flush=True)
        began = time.time()
        world.wait_ready()
        print(f"from the start of the hosts to running zones: {time.time() - began:.1f} s", flush=True)
        status = cases.run_all(world, wanted)
    except Exception:  # the trace helps, whatever it was
        traceback.print_exc()
        print("the end of the trace:", *world.hosts.traced()[-30:], sep="\n  ")
    finally:
        world.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
