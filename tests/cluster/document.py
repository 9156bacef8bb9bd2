"""The blocks of shell of docs/clusters.md, which the cases run on the virtual hosts."""

from checks import Failure
from hosts import HERE

PAGE = f"{HERE}/../../docs/clusters.md"
BLOCK_SECONDS = 180
# Headings of the page.
FAILOVER = "From three hosts to a failover zone"
ZONES = "Zone clusters"
FENCING = "Fencing between the zones"
REPLICATION = "PostgreSQL with replication in a zone cluster"
ETCD = "A quorum service: etcd in a zone cluster"
GALERA = "A database with a quorum of its own: MariaDB Galera"
# Each address of the page begins with the first; those of the lane begin with the second.
NETWORKS = ("10.0.0.", "10.66.0.")


def blocks(heading):
    """The blocks of shell below a heading of the page, until the next heading: each with the marker before it."""
    found, lines, marker, below = [], None, "", False
    with open(PAGE, encoding="utf-8") as page:
        for line in page:
            if lines is not None and line == "```\n":
                found.append((marker, "".join(lines)))
                lines = None
            elif lines is not None:
                lines.append(line)
            elif line.startswith("#"):
                below = line.lstrip("#").strip() == heading
            elif line.startswith("<!-- run:"):
                marker = line
            elif below and line == "```sh\n":
                lines = []
    if not found:
        raise Failure(f"docs/clusters.md: expected a block of shell below the heading '{heading}', found none")
    return found


def block(case, heading, number=1, changes=()):
    """A block of the page with the addresses of the lane. Each change is a text of the block, and the text instead of it.

    Fails unless the marker before the block says that the case runs it, and if a text to change is not there.
    """
    marker, text = blocks(heading)[number - 1]
    if f"the case {case} of the lane " not in marker:
        raise Failure(f"docs/clusters.md: '{heading}', block {number}: expected a marker with the case {case}, found {marker}")
    for old, new in changes:
        if old not in text:
            raise Failure(f"docs/clusters.md: '{heading}', block {number}: expected the text '{old}', found:\n{text}")
        text = text.replace(old, new)
    return text.replace(*NETWORKS)


def run_block(world, host, case, heading, number=1, changes=(), zone=None):
    """Runs a block of the page on a host, or in its zone, until the first command that fails. Returns what it printed."""
    text = f"set -e; cd /root\n{block(case, heading, number, changes)}"
    if zone:
        text = f"zlogin {zone} 'sh -s' <<'END OF THE BLOCK'\n{text}END OF THE BLOCK\n"
    return world.hosts.execute(host, text, seconds=BLOCK_SECONDS)
