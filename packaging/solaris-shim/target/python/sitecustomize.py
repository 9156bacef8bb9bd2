"""Tells Python that it runs on SunOS 5.11.

Only what names the operating system is changed: os.uname(), and with it
platform.system() and platform.release(). sys.platform stays what it is, as the
standard library depends on it.
"""

import os
import sys

_linux = os.uname()
_solaris = os.uname_result(("SunOS", _linux.nodename, "5.11", "11.4", _linux.machine))
os.uname = lambda: _solaris


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
