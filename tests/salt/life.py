"""The life of a zone by Salt's modules zoneadm and zonecfg, one step right after the other.

Salt's loader gives modules the functions of others in __salt__ and facts of the host in
__grains__. The few that these two use are given here; the modules themselves are Salt's.
"""

import os
import subprocess

import salt.modules.zoneadm as zoneadm
import salt.modules.zonecfg as zonecfg
import salt.version

ZONE = "web"


def run_all(command):
    """Runs a command as Salt's cmd.run_all does: without a shell's syntax, and stripped."""
    ran = subprocess.run(command, shell=True, capture_output=True, text=True)
    print(f"$ {command} -> {ran.returncode}", flush=True)
    return {
        "retcode": ran.returncode,
        "stdout": ran.stdout.rstrip("\n"),
        "stderr": ran.stderr.rstrip("\n"),
    }


for module in (zoneadm, zonecfg):
    module.__grains__ = {"kernel": "SunOS", "os": "OpenIndiana"}
    module.__salt__ = {
        "cmd.run_all": run_all,
        "file.file_exists": os.path.isfile,
        "file.remove": os.remove,
    }


def done(result):
    """Fails unless a function of Salt says that it did what it should."""
    print(f"  {result}", flush=True)
    assert result["status"], result


def state():
    """Returns the state of the zone as Salt sees it, or None."""
    zones = zoneadm.list_zones(verbose=True, installed=True, configured=True)
    return zones[ZONE]["state"] if ZONE in zones else None


print(f"Salt {salt.version.__version__}")
assert zoneadm.__virtual__() == "zoneadm", zoneadm.__virtual__()
assert zonecfg.__virtual__() == "zonecfg", zonecfg.__virtual__()
assert state() is None

done(zonecfg.create_from_template(ZONE, "SUNWdefault"))
done(zonecfg.set_property(ZONE, "zonepath", "/zones/" + ZONE))
done(zonecfg.set_property(ZONE, "autoboot", False))
done(zonecfg.add_resource(ZONE, "attr", name="comment", type="string", value="by Salt"))
done(zonecfg.update_resource(ZONE, "attr", "name", name="comment", value="still by Salt"))
info = zonecfg.info(ZONE)
assert info["zonepath"] == "/zones/" + ZONE, info
assert info["autoboot"] is False, info
assert [attr["value"] for attr in info["attr"]] == ["still by Salt"], info
assert state() == "configured"

done(zoneadm.verify(ZONE))
# What follows has no pauses: each step begins as soon as the one before says that it is done.
for _ in range(2):
    done(zoneadm.install(ZONE))
    done(zoneadm.boot(ZONE))
    assert state() == "running"
    done(zoneadm.reboot(ZONE))
    done(zoneadm.shutdown(ZONE))
    assert state() == "installed"
    done(zoneadm.uninstall(ZONE))
    assert state() == "configured"
done(zoneadm.install(ZONE))
done(zoneadm.ready(ZONE))
done(zoneadm.boot(ZONE))
done(zoneadm.halt(ZONE))
refused = zoneadm.reboot(ZONE)
assert not refused["status"] and refused["message"], refused
done(zoneadm.uninstall(ZONE))
done(zonecfg.delete(ZONE))
assert state() is None
