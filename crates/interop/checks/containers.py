"""Machines that boot systemd: containers of systemd-nspawn, each a copy-on-write view of this machine's own system,
with a network namespace, disks and a hostname of its own, and nothing enabled but what its system brings by itself.

It needs root, systemd-container and overlayfs; nothing is left behind.
"""
import atexit, os, pathlib, shutil, stat, subprocess, uuid
from lab import Disk, Network
from tools import Wrong, run, until

BOOT_TIME_MAX, SYSTEM_SIZE = 60, 8 << 30
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# State of this machine that a fresh one does not have.
ABSENT = ["etc/systemd/system", "etc/ceph", "etc/sepiola", "etc/default/etcd", "etc/default/sepiola", "etc/machine-id",
          "var/lib/apt/lists", "var/lib/etcd/default", "var/lib/sepiola", "var/log/journal"]
# Directories that a fresh one has, and are empty; without lists apt takes the installed packages for the newest ones.
EMPTY = ["etc/systemd/system", "etc/ceph", "var/lib/apt/lists/partial"]


def hierarchies():
    """Top directories of control groups: one, or one for each controller."""
    if (CGROUPS / "cgroup.procs").exists(): return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink()]


class Container:
    def __init__(self, name, address, directory, space, hosts, disks):
        self.name, self.address, self.directory, self.disks = name, address, directory, disks
        self.group = f"{space}-systemd"
        self.root = directory / "root"
        self.process = None
        atexit.register(self.remove)
        self.disk = self.make_disk()
        options = f"lowerdir=/,upperdir={self.disk}/changes,workdir={self.disk}/work"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.root)
        self.make_fresh(hosts)
        self.boot(space)

    def make_disk(self):
        """For what the machine changes in its system: a full disk below the tests is no fault of the cluster."""
        disk, image = self.directory / "disk", self.directory / "disk.image"
        for path in [disk, self.root]: path.mkdir(parents=True)
        with open(image, "wb") as file: file.truncate(SYSTEM_SIZE)
        run("mkfs.ext4", "-q", image)
        run("mount", "-o", "loop", image, disk)
        for part in ["changes", "work"]: (disk / part).mkdir()
        return disk

    def make_fresh(self, hosts):
        for path in ABSENT:
            path = self.root / path
            if path.is_dir(): shutil.rmtree(path)
            elif path.exists(): path.unlink()
        for path in EMPTY: (self.root / path).mkdir(parents=True)
        (self.root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        lines = [f"{address} {name}\n" for name, address in hosts.items()]
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        (self.root / "etc/systemd/system/default.target").symlink_to("/lib/systemd/system/multi-user.target")

    def boot(self, space):
        """In control groups of its own: the systemd of each container takes those that it finds itself in for its own."""
        for top in hierarchies(): (top / self.group).mkdir(exist_ok=True)
        joins = "".join(f"echo $$ > {top / self.group}/cgroup.procs 2>/dev/null || true;" for top in hierarchies())
        devices = " ".join(f"--bind={self.node(path, disk)}:{path}" for path, disk in self.disks.items())
        if os.path.exists("/dev/fuse"): devices += " --bind=/dev/fuse"
        command = (f"{joins} exec systemd-nspawn --quiet --register=no --keep-unit --boot --link-journal=no --console=pipe "
                   f"--network-namespace-path=/run/netns/{space} --hostname={self.name} {devices} -D {self.root}")
        log = open(self.directory / "console.log", "ab")
        self.process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(f"{self.name} has booted", self.is_running, BOOT_TIME_MAX)

    def node(self, path, disk):
        """The device as udev makes it for a disk: for the group `disk`."""
        node, number = self.directory / pathlib.Path(path).name, os.stat(disk.device).st_rdev
        os.mknod(node, 0o660 | stat.S_IFBLK, number)
        os.chmod(node, 0o660)
        shutil.chown(node, "root", "disk")
        return node

    def leader(self):
        """The first process inside."""
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children: raise Wrong(f"{self.name} does not run; see {self.directory}/console.log")
        return children[0]

    def is_running(self):
        if self.process.poll() is not None: raise Wrong(f"{self.name} ended: {self.process.returncode}")
        state = self.shell("systemctl is-system-running || true").strip()
        return state in ("running", "degraded")

    def shell(self, command, timeout=300):
        """What a command of root's prints, run as if at a terminal of the machine."""
        inside = ["nsenter", "--target", self.leader(), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
                  "env", "-i", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
                  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "bash", "-c", f"cd /root\n{command}"]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if done.returncode != 0: raise Wrong(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try: self.process.wait(20)
            except subprocess.TimeoutExpired: self.process.kill()
            self.process.wait()
        for path in [self.root, self.directory / "disk"]:
            subprocess.run(["umount", "--lazy", str(path)], capture_output=True)
        for top in hierarchies(): remove_group(top / self.group)


def remove_group(top):
    """With the groups below it, once the kernel has seen the end of their processes."""
    if not top.exists(): return
    for path, _, _ in os.walk(top, topdown=False):
        try: os.rmdir(path)
        except OSError: pass


class Machines:
    """`names` with the addresses 10.0.0.1 and so on, and disks /dev/sdb, /dev/sdc … each."""

    def __init__(self, scratch, names, disks, disk_size):
        self.network = Network(names, "10.0.0")
        hosts = {name: self.network.address(name) for name in names}
        self.containers = {}
        for name in names:
            directory = pathlib.Path(scratch) / name
            directory.mkdir(parents=True)
            paths = [f"/dev/sd{'bcdefgh'[number]}" for number in range(disks.get(name, 0))]
            found = {path: Disk(directory / path.replace("/", "-"), disk_size) for path in paths}
            container = Container(name, hosts[name], directory / "system", self.network.space(name), hosts, found)
            self.containers[name] = container

    def __getitem__(self, name):
        return self.containers[name]

    def remove(self):
        for container in self.containers.values(): container.remove()
        self.network.remove()
