"""The two machines of the lane, their power switch, and what the application of the zone says."""

import os
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../../cluster")
from world import World  # noqa: E402 # the detector of the lane with virtual hosts

HOSTS = ("host1", "host2")
# Seconds for a boot of an emulated machine with other work beside it.
BOOT_SECONDS = 600


class Machine:
    """A QEMU machine that can be switched on and off, and is reached by ssh."""

    def __init__(self, name, work, words, beats):
        self.name, self.work = name, work
        self.number = HOSTS.index(name) + 1
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        other = 3 - self.number
        self.words = [word.replace("@HOST@", name) for word in words] + [
            "-drive", f"if=none,id=disk,file={work}/disk{self.number},format=raw,cache=none",
            # The LUN: each machine writes to it as if it were alone.
            "-drive", f"if=none,id=lun,file={work}/lun,format=raw,cache=none,file.locking=off",
            "-device", "virtio-blk-pci,drive=lun,share-rw=on",
            "-netdev", f"user,id=outside,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device", "virtio-net-pci,netdev=outside,romfile=",
            "-netdev", f"dgram,id=ring,local.type=unix,local.path={work}/ring{self.number}"
            f",remote.type=unix,remote.path={work}/ring{other}",
            "-device", f"virtio-net-pci,netdev=ring,romfile=,mac=52:54:00:66:00:0{self.number}",
            "-chardev", f"file,id=console,path={work}/console{self.number},append=on", "-serial", "chardev:console",
            "-chardev", f"socket,id=beats,path={beats}", "-serial", "chardev:beats",
        ]
        self.process = None
        self.lock = threading.Lock()

    def is_on(self):
        """Returns true if the machine has power."""
        return self.process is not None and self.process.poll() is None

    def on(self):
        """Switches the machine on."""
        with self.lock:
            if not self.is_on():
                log = open(f"{self.work}/qemu{self.number}.log", "a", encoding="utf-8")
                self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def off(self):
        """Cuts the power, and returns when the machine has none."""
        with self.lock:
            if self.is_on():
                self.process.kill()
            if self.process is not None:
                self.process.wait()
        self.forget_connection()

    def forget_connection(self):
        """Ends the connection of ssh, which a machine that restarts does not know any more."""
        subprocess.run(self.ssh() + ["-O", "exit", "root@127.0.0.1"], capture_output=True, check=False)

    def ssh(self):
        """Returns the words of ssh without the host and the command."""
        return ["ssh", "-q", "-F", "none", "-i", f"{self.work}/key", "-p", str(self.port), "-o", "BatchMode=yes",
                "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=30",
                "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=6", "-o", "ControlMaster=auto",
                "-o", "ControlPersist=yes", "-o", f"ControlPath={self.work}/ssh{self.number}"]

    def run(self, command, check=True, seconds=600):
        """Runs a command in the machine. Returns its output; raises it if the command fails."""
        words = self.ssh() + ["root@127.0.0.1", f"export LC_ALL=C; {command}"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False, timeout=seconds)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {command}\nstatus {done.returncode}: {done.stdout}")
        return done.stdout.strip()

    def boot_id(self):
        """Returns the id of this start of the kernel, or nothing if the machine does not answer."""
        try:
            return self.run("cat /proc/sys/kernel/random/boot_id", check=False, seconds=60)
        except subprocess.TimeoutExpired:
            self.forget_connection()
            return ""

    def wait_up(self, but_not=""):
        """Waits until the machine answers, with another id of its start than the given one."""
        end = time.time() + BOOT_SECONDS
        while time.time() < end:
            found = self.boot_id()
            if found and found != but_not:
                return
            time.sleep(2)
        raise RuntimeError(f"{self.name} is not up after {BOOT_SECONDS} s")


class Switch:
    """The power switch: the fence agents of the machines ask it over the network."""

    def __init__(self, machines):
        self.machines = machines
        # The actions that changed the power: time, action, host.
        self.log = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.server.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            action, host = connection.makefile().readline().split()
            machine = self.machines.get(host)
            answer = "ok"
            if action == "list":
                answer = " ".join(self.machines)
            elif action == "monitor":
                pass
            elif machine is None:
                answer = "no such host"
            elif action == "status":
                answer = "on" if machine.is_on() else "off"
            elif action in ("off", "on", "reboot"):
                self.log.append((time.time(), action, host))
                if action != "on":
                    machine.off()
                if action != "off":
                    machine.on()
            else:
                answer = "no such action"
            connection.sendall(f"{answer}\n".encode())


class Beats:
    """The records of the application in the order in which they arrived, from both machines."""

    # The detector: how often two instances spoke in turn.
    overlaps = World.overlaps

    def __init__(self, path):
        self.path = path
        # Order of arrival, host, time of the start of the application.
        self.lines = []
        # Time of arrival, number, host, start.
        self.beats = []
        self.lock = threading.Lock()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.server.accept()
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        with connection, connection.makefile(errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) == 3 and words[0].isdigit() and words[1] in HOSTS:
                    self.add(*words)

    def add(self, number, host, began):
        """Notes a record."""
        with self.lock:
            self.lines.append((len(self.lines), host, f"{host} {began}"))
            self.beats.append((time.time(), int(number), host, f"{host} {began}"))

    def records(self, _):
        """The records as the detector takes them."""
        with self.lock:
            return list(self.lines)

    def wait_from(self, host, since, seconds=900):
        """Waits for a record of an application that started on the host after a time. Returns when it arrived."""
        before = {start for when, _, _, start in self.beats if when < since}
        end = time.time() + seconds
        while time.time() < end:
            with self.lock:
                for when, _, found, start in self.beats:
                    if when >= since and found == host and start not in before:
                        return when
            time.sleep(0.2)
        raise RuntimeError(f"the zone does not run on {host} after {seconds} s")

    def last_before(self, when):
        """Returns the time of the last record before a time."""
        with self.lock:
            return max(beat[0] for beat in self.beats if beat[0] < when)

    def last_number(self):
        """Returns the last number that was said."""
        with self.lock:
            return self.beats[-1][1] if self.beats else 0
