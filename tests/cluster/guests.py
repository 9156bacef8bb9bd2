"""Guest nodes: what zonecluster add --guest refuses, and the resources that Pacemaker accepts."""

import time

from checks import Row, expect, settle

ADD = "add -n --guest gapp --guest-address 10.66.0.55 -d /shared/lun-gst.img -o loop gst"
# Lists for a guest that may only read, and for one that may write.
ACLS = """<acls><acl_role id="see"><acl_permission id="see-all" kind="read" xpath="/cib"/></acl_role>
<acl_role id="all"><acl_permission id="all-all" kind="write" xpath="/cib"/></acl_role>
<acl_target id="gapp"><role id="see"/></acl_target><acl_target id="gbad"><role id="all"/></acl_target></acls>"""
ENABLE = "crm_attribute -t crm_config -n enable-acl -v"


def guest_node(world):
    """A guest is refused without access control lists and with the right to write. Its resources pass crm_verify."""
    settle(world)
    world.install("gst")

    def command(words, status):
        said = world.hosts.execute("host1", f"zonecluster {words} 2>&1; echo status $?")
        expect(said.endswith(f"status {status}\n"), f"zonecluster {words}: expected status {status}: {said}")
        return said

    began = time.time()
    try:
        expect(ENABLE in command(ADD, 1), "the refusal without lists does not name the command")
        world.hosts.execute("host1", f"{ENABLE} false")
        expect(ENABLE in command(ADD, 1), "the refusal with lists that are off does not name the command")
        world.hosts.execute("host1", f"{ENABLE} true && cibadmin --modify --allow-create --scope acls --xml-text '{ACLS}'")
        said = command(ADD, 0)
        expect('name="remote-node" value="gapp"' in said and 'value="10.66.0.55"' in said, f"no guest node: {said}")
        text = world.hosts.execute("host1", "cibadmin --query")
        for name, why in (("root", "everything"), ("hacluster", "user of this host"), ("gbad", "acl_target gbad"), ("zone-web", "has this name already")):
            said = command(ADD.replace("gapp", name), 1)
            expect("guest" in said and (why in said or "user of this host" in said), f"{name}: {said}")
        expect(world.hosts.execute("host1", "cibadmin --query") == text, "-n or a refusal has changed the cluster")
    finally:
        world.hosts.execute("host1", f"{ENABLE} false; cibadmin --delete --xml-text '<acls/>'; umount /zones/gst; zonecfg -z gst delete -F", check=False)
    settle(world)
    return Row("guest node", None, None, f"refusals, and the XML checked by crm_verify, in {time.time() - began:.1f} s")
