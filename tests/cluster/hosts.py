"""Three virtual hosts of a cluster in namespaces of this machine, and their power switch.

A virtual host has its own network, mounts, process ids, IPC and name, a snapshot of the node root as its
root, and a control group. The programs of zones are mounted at /opt/zones/bin. /shared is the
same folder on all hosts: the storage network, the trace, and the socket of the power switch. A host that
is switched off loses its process 1, with which the kernel ends every process in it.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = (1, 2, 3)
# The address of the network itself, from which the clients of zones ask.
CLIENT = "10.66.0.254"
CHILD_TIMEOUT = 5.0

# Device nodes of a host: name, mode, type, numbers.
DEVICES = (
    "null 666 c 1 3", "zero 666 c 1 5", "full 666 c 1 7", "random 666 c 1 8", "urandom 666 c 1 9",
    "tty 666 c 5 0", "kmsg 600 c 1 11", "net/tun 666 c 10 200", "fuse 666 c 10 229",
    "loop-control 600 c 10 237", "kvm 600 c 10 232",
)


def run(*words, **options):
    """Runs a command, and raises the error with its output if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def first_child(process, seconds=CHILD_TIMEOUT):
    """Waits for the first child of a process and returns its number."""
    end = time.time() + seconds
    while time.time() < end:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as children:
            found = children.read().split()
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise RuntimeError(f"process {process} has no child")


class Hosts:
    """The hosts, the network between them, and the switch."""

    def __init__(self, nodes, work, programs, cgroup):
        self.nodes = nodes
        self.shared = f"{work}/shared"
        self.programs = programs
        self.cgroup = cgroup
        # The messages of unshare about hosts that are killed.
        self.log = open(f"{work}/hosts.log", "a", encoding="utf-8")
        self.running = {}
        self.lock = threading.Lock()
        # False: the fence device does not answer.
        self.switch_works = True
        os.makedirs(f"{self.shared}/closed/hb")
        os.chmod(self.shared, 0o755)
        # A zone may write only where no user of the host comes.
        os.chmod(f"{self.shared}/closed", 0o700)
        os.chmod(f"{self.shared}/closed/hb", 0o777)
        self.authkey = os.urandom(256)
        self.network = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        time.sleep(0.2)
        self.in_network(
            "ip link set lo up; ip link add br0 type bridge stp_state 0 forward_delay 0;"
            f" ip link set br0 up; ip addr add {CLIENT}/24 dev br0"
        )

    # ---- the network ----

    def in_network(self, script):
        """Runs a script of shell in the namespace of the network."""
        return run("nsenter", "-t", str(self.network.pid), "-n", "sh", "-ec", script)

    def cut(self, host):
        """Pulls the network cable of a host."""
        self.trace(f"cut {host}")
        self.in_network(f"ip link set v{host} down")

    def heal(self, host):
        """Puts the cable back."""
        self.trace(f"heal {host}")
        self.in_network(f"ip link set v{host} up")

    # ---- the hosts ----

    def prepare(self, number):
        """Makes the root of a host, a snapshot of the node root."""
        root = f"{self.nodes}/host{number}"
        self.forget(number)
        run("btrfs", "-q", "subvolume", "snapshot", f"{self.nodes}/node", root)
        shutil.copy(f"{HERE}/corosync.conf", f"{root}/etc/corosync/corosync.conf")
        with open(f"{root}/etc/corosync/authkey", "wb") as key:
            key.write(self.authkey)
        os.chmod(f"{root}/etc/corosync/authkey", 0o400)
        agents = f"{root}/usr/lib/ocf/resource.d/zones"
        os.makedirs(agents, exist_ok=True)
        shutil.copy(f"{HERE}/../../cluster/ocf/Zone", f"{agents}/Zone")
        shutil.copy(f"{HERE}/fence_virtual_host", f"{root}/usr/sbin/fence_virtual_host")
        # Zones that inherit /usr have this agent from their host.
        shutil.copy(f"{self.programs}/fence_zone", f"{root}/usr/sbin/fence_zone")
        shutil.copy(f"{HERE}/node-init", f"{root}/usr/local/sbin/node-init")
        for folder in ("opt/zones/bin", "shared", "zones"):
            os.makedirs(f"{root}/{folder}", exist_ok=True)
        with open(f"{root}/etc/hosts", "w", encoding="ascii") as hosts:
            hosts.write("127.0.0.1 localhost\n" + "".join(f"10.66.0.{i} host{i}\n" for i in NUMBERS))
        with open(f"{root}/etc/hostname", "w", encoding="ascii") as name:
            name.write(f"host{number}\n")

    def forget(self, number):
        """Deletes the root of a host, with the subvolumes of its zones."""
        root = f"{self.nodes}/host{number}"
        if not os.path.exists(root):
            return
        listed = run("btrfs", "subvolume", "list", "-o", root)
        for path in sorted(re.findall(r" path (.*)", listed), reverse=True):
            run("btrfs", "-q", "subvolume", "delete", f"{self.nodes}/{path}")
        run("btrfs", "-q", "subvolume", "delete", root)

    def seed(self, number, cib, cluster=True):
        """Puts the cluster's configuration in place, or has the host start without the cluster."""
        root = f"{self.nodes}/host{number}"
        marker = f"{root}/etc/no-cluster"
        if not cluster:
            open(marker, "w", encoding="ascii").close()
            return
        if os.path.exists(marker):
            os.unlink(marker)
        path = f"{root}/var/lib/pacemaker/cib/cib.xml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(cib)
        run("chroot", root, "chown", "hacluster:haclient", "/var/lib/pacemaker/cib/cib.xml")
        os.chmod(path, 0o600)

    def on(self, number):
        """Switches a host on."""
        if number in self.running:
            return
        root = f"{self.nodes}/host{number}"
        nodes = "\n".join(
            f"mknod -m {mode} $D/{name} {kind}" for name, mode, kind in (d.split(" ", 2) for d in DEVICES)
        )
        script = f"""
mount --make-rprivate /
mount --bind {root} {root}; cd {root}
mount --bind {self.shared} {root}/shared
mount --bind {self.programs} {root}/opt/zones/bin
mount -o remount,bind,ro {root}/opt/zones/bin
mount -t sysfs -o ro sysfs {root}/sys; mount --rbind /sys/fs/cgroup {root}/sys/fs/cgroup
D={root}/dev; mount -t tmpfs -o mode=755 tmpfs $D; mkdir $D/shm $D/pts $D/net
mount -t tmpfs -o mode=1777 tmpfs $D/shm
mount -t devpts -o newinstance,mode=620,ptmxmode=666,gid=5 devpts $D/pts; ln -s pts/ptmx $D/ptmx
{nodes}
for i in $(seq 0 63); do mknod -m 660 $D/loop$i b 7 $i; done
ln -s /proc/self/fd $D/fd; ln -s /proc/self/fd/0 $D/stdin
ln -s /proc/self/fd/1 $D/stdout; ln -s /proc/self/fd/2 $D/stderr
mkdir -p {root}/.old; pivot_root . .old
exec env -i /bin/bash /usr/local/sbin/node-init {number} {self.cgroup}/host{number}
"""
        process = subprocess.Popen(
            ["unshare", "-n", "-m", "-u", "-i", "-p", "-f", "--kill-child", "bash", "-ec", script],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        init = first_child(process.pid)
        self.running[number] = (process, init)
        link, other = f"vhost{number}", f"vp{number}"
        # The link of the former namespace may not be gone yet.
        self.in_network(
            f"ip link del {link} 2>/dev/null || true; ip link add {link} type veth peer name {other};"
            f" ip link set {link} master br0 up; ip link set {other} netns {init} name eth0"
        )
        self.trace(f"on host{number}")

    def off(self, number):
        """Switches a host off. Returns when its last process is gone."""
        if number in self.running:
            process, init = self.running.pop(number)
            if process.poll() is None:
                os.kill(init, signal.SIGKILL)
                process.wait()
        self.trace(f"off host{number}")

    def kill(self, host):
        """Ends process 1 of a host, as a loss of power does. The switch is not told of it."""
        self.trace(f"kill {host}")
        os.kill(self.running[int(host[4:])][1], signal.SIGKILL)

    def is_on(self, number):
        """Returns true if the host runs."""
        return number in self.running and self.running[number][0].poll() is None

    def execute(self, host, script, check=True, seconds=120):
        """Runs a script of shell on a host and returns its output."""
        _, init = self.running[int(host[4:])]
        done = subprocess.run(
            ["nsenter", "-t", str(init), "-a", "env", "-i", "HOME=/root", "LC_ALL=C", "TERM=dumb",
             "PATH=/opt/zones/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             f"ZONES_CGROUP={self.cgroup}/{host}", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=seconds,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{host}: {script}: status {done.returncode}: {done.stdout}")
        return done.stdout

    def wait_for(self, number, word, since=0.0, seconds=15):
        """Waits for a line of the host's process 1 in the trace."""
        end = time.time() + seconds
        while time.time() < end:
            for line in self.traced():
                when, _, rest = line.partition(" ")
                if rest == f"host{number} {word}" and float(when) >= since:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"host{number} has not reached '{word}' in {seconds} s")

    # ---- the trace and the switch ----

    def trace(self, text):
        """Adds a line to the trace."""
        with open(f"{self.shared}/trace", "a", encoding="utf-8") as file:
            file.write(f"{time.time():.6f} switch {text}\n")

    def traced(self):
        """The lines of the trace."""
        try:
            with open(f"{self.shared}/trace", encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def serve(self):
        """Starts the power switch."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{self.shared}/switch.sock")
        listener.listen(16)

        def loop():
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self.answer, args=(client,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()

    def answer(self, client):
        """Answers one request of a fence agent."""
        with client:
            words = client.makefile().readline().split()
            action, host = (words + ["-", "-"])[:2]
            number = int(host[4:]) if re.fullmatch(r"host[123]", host) else 0
            reply = "bad"
            if not self.switch_works:
                time.sleep(1)
                reply = "dead"
            elif action == "status" and number:
                reply = "on" if self.is_on(number) else "off"
            elif action == "monitor":
                reply = "ok"
            elif action == "list":
                reply = " ".join(f"host{i}," for i in NUMBERS)
            elif action in ("off", "on", "reboot") and number:
                self.trace(f"asked {action} {host}")
                with self.lock:
                    if action != "on":
                        self.off(number)
                    if action != "off":
                        self.on(number)
                reply = "ok"
            try:
                client.sendall((reply + "\n").encode())
            except OSError:
                pass

    def close(self):
        """Switches everything off."""
        with self.lock:
            self.switch_works = False
            for number in list(self.running):
                self.off(number)
        self.network.kill()
        self.network.wait()
