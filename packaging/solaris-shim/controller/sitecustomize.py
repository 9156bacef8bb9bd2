"""Lets the zone connection plugin of Ansible's community.general run on Python 3.

The plugin takes lines of "zoneadm list" apart as text, and what Python 3 reads from a
program is bytes: it fails with "a bytes-like object is required, not 'str'", on every
system. Here the plugin, and nobody else, gets text from that command.
"""

import os
import subprocess
import sys

_PLUGIN = "ansible_collections.community.general.plugins.connection.zone"


def _is_zoneadm(command):
    return isinstance(command, list) and os.path.basename(os.fsdecode(command[0])) == "zoneadm"


class _Popen(subprocess.Popen):
    def __init__(self, args, *rest, **named):
        caller = sys._getframe(1).f_globals.get("__name__")
        # A plugin that says itself what it wants is a newer one.
        wishes = {"text", "universal_newlines", "encoding", "errors"}
        if caller == _PLUGIN and _is_zoneadm(args) and not wishes & named.keys():
            named["text"] = True
        super().__init__(args, *rest, **named)


subprocess.Popen = _Popen


def _next_sitecustomize():
    """Runs the sitecustomize of the machine, which this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_next_sitecustomize()
