"""A virtual machine whose root disk is an image: QEMU reaches it through librbd, and another through `sepiola nbd`.

A Debian system (debootstrap) with its own kernel is put into an image, of which each machine has a clone. It starts with
systemd, compares its files, writes, discards and syncs, while an OSD is killed, restarts, and compares again; then the disk
is checked from outside. SEPIOLA is the binary; everything lies below SCRATCH. It needs root, debootstrap and
qemu-system-x86; there need be no KVM.
"""
import contextlib, os, pathlib, select, shutil, subprocess, sys, time
from machine import Machine, Wrong, run, until

POOL = "guests"
IMAGE_SIZE, DISK_SIZE = "1G", "1536M"
GUEST_TIME_MAX = 1200
PACKAGES = "linux-image-cloud-amd64,systemd-sysv,udev"
NEEDED = ["debootstrap", "qemu-system-x86_64", "mkfs.ext4", "e2fsck"]

# Each start compares the installed files; `boot` says how often it was started.
WORK = r"""#!/bin/bash
exec >/dev/ttyS1 2>&1
trap 'echo "guest: failed in line $LINENO"; sync; systemctl --no-block poweroff; exit 1' ERR
sha256sum --quiet --check /root/installed
case $(cat /root/boot) in
  0)
    echo "guest: works"
    dd if=/dev/urandom of=/root/random bs=1M count=24 oflag=direct status=none
    for copy in 1 2 3; do cp -a /usr/lib/systemd /root/copy$copy; sync; done
    rm -r /root/copy2; fstrim /
    find /root/random /root/copy1 /root/copy3 -type f -exec sha256sum {} + >/root/written
    echo 1 >/root/boot; sync
    echo "guest: starts again"; systemctl --no-block reboot ;;
  1)
    sha256sum --quiet --check /root/written
    diff -r /usr/lib/systemd /root/copy1; diff -r /root/copy1 /root/copy3
    echo 2 >/root/boot; sync
    echo "guest: done"; systemctl --no-block poweroff ;;
esac
"""
UNIT = "[Service]\nType=oneshot\nExecStart=/root/work\n[Install]\nWantedBy=multi-user.target\n"


def make_tree(scratch):
    tree = scratch / "tree"
    sources = pathlib.Path("/etc/apt/sources.list.d/debian.sources").read_text().splitlines()
    mirror = next(line.split()[1] for line in sources if line.startswith("URIs:"))
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", tree, mirror, timeout=1800)
    shutil.rmtree(tree / "var/cache/apt/archives")
    (tree / "etc/fstab").write_text("/dev/vda / ext4 errors=remount-ro 0 1\n")
    (tree / "etc/systemd/system/work.service").write_text(UNIT)
    wants = tree / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "work.service").symlink_to("../work.service")
    (tree / "root/work").write_text(WORK)
    (tree / "root/work").chmod(0o755)
    (tree / "root/boot").write_text("0\n")
    installed = run("sh", "-c", "find usr/bin usr/sbin usr/lib/systemd -type f -exec sha256sum {} + | sed 's|  usr|  /usr|'", cwd=tree)
    (tree / "root/installed").write_text(installed)
    return tree


class Guest:
    """A machine, and what it says on its second serial line; the first is the console."""

    def __init__(self, boot, drive, console):
        self.console, self.said = console, b""
        kernel, initrd = (next(boot.glob(name)) for name in ("vmlinuz-*", "initrd.img-*"))
        words = "root=/dev/vda rw console=ttyS0 systemd.show_status=false"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "768", "-display", "none", "-nodefaults", "-serial",
             f"file:{console}", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd, "-append", words, "-drive", f"{drive},if=virtio,format=raw,discard=unmap"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        self.deadline = time.monotonic() + GUEST_TIME_MAX

    def wait_for(self, words):
        while time.monotonic() < self.deadline:
            if words.encode() in self.said: return
            if not select.select([self.process.stdout], [], [], 1)[0]: continue
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            self.said += more
            if b"guest: failed" in self.said or not more: break
        raise Wrong(f"the guest did not say {words!r} but {self.said.decode(errors='replace')!r}; see {self.console}")

    def wait_for_end(self):
        self.process.communicate(timeout=max(self.deadline - time.monotonic(), 1))
        if self.process.returncode: raise Wrong(f"QEMU ended with {self.process.returncode}; see {self.console}")

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def through_librbd(machine, scratch, image):
    return contextlib.nullcontext(f"file=rbd:{POOL}/{image}:conf={machine.conf}")


@contextlib.contextmanager
def through_nbd(machine, scratch, image):
    socket = scratch / "nbd.sock"
    machine.start("nbd", "listening", "nbd", "--conf", machine.conf, "--socket", socket, f"{POOL}/{image}")
    yield f"file=nbd+unix:///{POOL}/{image}?socket={socket}"
    machine.kill("nbd", 15)


def live(machine, scratch, boot, way, image, victim):
    """A guest's whole life; what it says of its disk, and what others say of it then."""
    start = time.monotonic()
    with way(machine, scratch, image) as drive:
        guest = Guest(boot, drive, scratch / f"{image}.console")
        try:
            guest.wait_for("guest: works")
            machine.kill_osd(victim)
            guest.wait_for("guest: starts again")
            machine.start_osd(victim)
            guest.wait_for("guest: done")
            guest.wait_for_end()
        finally: guest.stop()
    machine.wait_clean()
    run("rbd", "object-map", "check", "--no-progress", f"{POOL}/{image}")
    file = scratch / "exported"
    run("rbd", "export", "--no-progress", f"{POOL}/{image}", file)
    run("e2fsck", "-fn", file)
    boots = run("debugfs", "-R", "cat /root/boot", file).strip()
    if boots != "2": raise Wrong(f"the disk says {boots!r} starts, not 2")
    file.unlink()
    return time.monotonic() - start


def main():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if os.geteuid() != 0 or missing: return print(f"skipped: this needs root and {', '.join(missing)}")
    scratch = pathlib.Path(os.environ["SCRATCH"]).absolute()
    tree, raw = make_tree(scratch), scratch / "raw"
    run("mkfs.ext4", "-q", "-d", tree, raw, IMAGE_SIZE)
    machine = Machine(scratch / "machine", 3, DISK_SIZE)
    machine.create_pool(POOL)
    run("rbd", "import", "--no-progress", raw, f"{POOL}/base")
    raw.unlink()
    run("rbd", "snap", "create", "--no-progress", f"{POOL}/base@installed")
    run("rbd", "clone", "--rbd-default-clone-format", 2, f"{POOL}/base@installed", f"{POOL}/librbd")
    run(machine.binary, "image", "clone", "--conf", machine.conf, f"{POOL}/base@installed", f"{POOL}/nbd")
    for victim, (way, image) in enumerate([(through_librbd, "librbd"), (through_nbd, "nbd")]):
        seconds = live(machine, scratch, tree / "boot", way, image, victim)
        print(f"a guest on {image}: started twice, written, an OSD killed, sound: {seconds:.0f} s", flush=True)
    machine.check_stores()


if __name__ == "__main__":
    try: main()
    except Wrong as wrong: sys.exit(f"guest: {wrong}")
