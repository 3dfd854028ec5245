"""A Debian system in an image: imported, snapshotted, cloned, and changed by a real file system through the NBD server and
through librbd, while OSDs are killed. What comes out is compared file by file, and with e2fsck.

The system is made by debootstrap, or in the short form taken from this machine. The kernel's ext4 writes to a loop device
over a file that nbdfuse shows, which is an export of `sepiola nbd`, or of qemu-nbd with librbd. SEPIOLA is the binary;
everything lies below SCRATCH. It needs root, loop devices and FUSE.
"""
import contextlib, hashlib, os, pathlib, shutil, subprocess, sys, time
from machine import Machine
from tools import Wrong, run, until

POOL = "images"
SHORT = os.environ.get("SHORT") == "1"
IMAGE_SIZE, DISK_SIZE = ("96M", "512M") if SHORT else ("3G", "3G")
MAPPED = "layering,exclusive-lock,object-map,fast-diff,deep-flatten"
HERE = ["/etc", "/usr/share/zoneinfo"]
NEEDED = ["nbdfuse", "qemu-nbd", "losetup", "mkfs.ext4", "e2fsck"]


def make_tree(scratch):
    tree = scratch / "tree"
    if SHORT or not shutil.which("debootstrap"):
        for source in filter(os.path.exists, HERE):
            (tree / source.strip("/")).parent.mkdir(parents=True, exist_ok=True)
            run("cp", "-a", source, tree / source.strip("/"))
    else:
        sources = pathlib.Path("/etc/apt/sources.list.d/debian.sources").read_text().splitlines()
        mirror = next(line.split()[1] for line in sources if line.startswith("URIs:"))
        run("debootstrap", "--variant=minbase", "bookworm", tree, mirror, timeout=1800)
    return tree


def manifest(root):
    """Of all files below: what they are, and what is in them."""
    found = {}
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            state = os.lstat(path)
            text = f"{state.st_mode} {state.st_uid} {state.st_gid}"
            if os.path.islink(path): text += os.readlink(path)
            elif os.path.isfile(path): text += hashlib.sha256(open(path, "rb").read()).hexdigest()
            found[os.path.relpath(path, root)] = text
    found.pop("lost+found", None)
    return found


def compare(what, found, expected):
    differs = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if differs: raise Wrong(f"{what}: {len(differs)} files differ, such as {differs[:5]}")


@contextlib.contextmanager
def mounted(file, at, *options):
    at.mkdir(exist_ok=True)
    run("mount", "-o", ",".join(["loop", *options]), file, at)
    try: yield at
    finally: run("umount", at)


@contextlib.contextmanager
def shown(socket, export, at):
    """The export as a file. While the file system flushes, nbdfuse may not end."""
    at.mkdir(exist_ok=True)
    process = subprocess.Popen(["nbdfuse", f"{at}/", f"nbd+unix:///{export}?socket={socket}"], start_new_session=True)
    try:
        until("nbdfuse shows the export", (at / "nbd").exists, 30)
        yield at / "nbd"
    finally:
        until("the file can be given up", lambda: run("umount", at) is not None, 30)
        process.wait(30)


class Images:
    def __init__(self, machine, scratch):
        self.machine, self.scratch, self.killed = machine, scratch, 0

    def spec(self, name):
        return f"{POOL}/{name}"

    @contextlib.contextmanager
    def an_osd_dies(self):
        """One is gone in the middle, and is back at the end."""
        osd = self.killed % len(self.machine.osds)
        self.killed += 1
        yield lambda: self.machine.kill_osd(osd)
        self.machine.start_osd(osd)

    @contextlib.contextmanager
    def through_nbd(self, name):
        """The native client, by way of `sepiola nbd`."""
        socket = self.scratch / "nbd.sock"
        self.machine.start("nbd", "listening", "nbd", "--conf", self.machine.conf, "--socket", socket, self.spec(name))
        with shown(socket, self.spec(name), self.scratch / "fuse") as file: yield file
        self.machine.kill("nbd", 15)

    @contextlib.contextmanager
    def through_librbd(self, name):
        socket = self.scratch / "qemu.sock"
        image = f"rbd:{self.spec(name)}:conf={self.machine.conf}"
        server = subprocess.Popen(["qemu-nbd", "--format=raw", "--persistent", "--shared=4", f"--socket={socket}", image],
                                  start_new_session=True)
        try:
            until("qemu-nbd listens", socket.exists, 30)
            with shown(socket, "", self.scratch / "fuse") as file: yield file
        finally:
            server.terminate()
            server.wait(60)

    def export(self, name):
        path = self.scratch / "exported"
        path.unlink(missing_ok=True)
        run("rbd", "export", "--no-progress", self.spec(name), path)
        return path

    def check(self, name, expected):
        """The file system in an image is sound, and has these files."""
        file = self.export(name)
        run("e2fsck", "-fy", file)
        with mounted(file, self.scratch / "mnt", "ro") as root: compare(name, manifest(root), expected)
        file.unlink()

    def change(self, way, name, change):
        """A file system is changed; an OSD dies after half of it. The files that there are then."""
        with self.an_osd_dies() as die:
            with way(name) as file, mounted(file, self.scratch / "mnt") as root:
                change(root, 0)
                die()
                change(root, 1)
                os.sync()
                expected = manifest(root)
        self.machine.wait_clean()
        return expected


def digest(path):
    return run("sha256sum", path).split()[0]


def upgrade(root, half):
    """As much as an upgrade does: files are removed, replaced, appended to, and new ones come."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(files[half::2]):
        if number % 7 == 0: path.unlink()
        elif number % 7 == 1: path.write_bytes(path.read_bytes()[::-1])
        elif number % 7 == 2:
            with open(path, "ab") as file: file.write(str(path).encode() * 50)
    run("cp", "-a", root / "etc", root / f"copy{half}")
    os.sync()


def work(images, raw, tree):
    files, whole = manifest(tree), digest(raw)
    run("rm", "-r", "--one-file-system", tree)
    run("rbd", "import", "--no-progress", raw, images.spec("base"), "--image-feature", MAPPED)
    run("rbd", "snap", "create", "--no-progress", images.spec("base@clean"))
    run("rbd", "snap", "protect", images.spec("base@clean"))
    for number in (1, 2):
        run("rbd", "clone", "--rbd-default-clone-format", number, images.spec("base@clean"), images.spec(f"child{number}"),
            "--image-feature", MAPPED)
    run(images.machine.binary, "image", "clone", "--conf", images.machine.conf, "--features", MAPPED, images.spec("base@clean"),
        images.spec("child3"))
    first = images.change(images.through_nbd, "base", upgrade)
    second = images.change(images.through_librbd, "child1", upgrade)
    run("rbd", "snap", "create", "--no-progress", images.spec("child1@changed"))
    third = images.change(images.through_librbd, "child1", lambda root, half: run("rm", "-r", root / f"copy{half}"))
    fourth = images.change(images.through_nbd, "child3", upgrade)
    if digest(images.export("base@clean")) != whole: raise Wrong("the snapshot is not what was imported")
    images.check("base", first)
    images.check("child1@changed", second)
    images.check("child1", third)
    images.check("child2", files)
    images.check("child3", fourth)
    with images.an_osd_dies() as die:
        flatten = subprocess.Popen(["rbd", "flatten", "--no-progress", images.spec("child1")])
        die()
        if flatten.wait(600): raise Wrong(f"rbd flatten: {flatten.returncode}")
    run("ceph", "rbd", "task", "add", "flatten", images.spec("child3"))
    until("child3 is flattened", lambda: not images.machine.ceph("rbd", "task", "list"), 600)
    if "parent" in run("rbd", "info", images.spec("child3")): raise Wrong("child3 still has a parent")
    images.machine.wait_clean()
    for number in (1, 2, 3): run("rbd", "object-map", "check", images.spec(f"child{number}"))
    images.check("child3", fourth)
    images.check("child1", third)
    images.check("child1@changed", second)
    roll_back_and_copy(images, first, files)
    return len(files)


def roll_back_and_copy(images, first, files):
    """A copy by differences has what the image has; a rollback brings back what was imported."""
    diff = images.scratch / "diff"
    run("rbd", "deep", "copy", "--no-progress", images.spec("child2"), images.spec("copy"))
    run("rbd", "export-diff", "--no-progress", "--from-snap", "clean", images.spec("base"), diff)
    run("rbd", "snap", "create", "--no-progress", images.spec("copy@clean"))
    run("rbd", "import-diff", "--no-progress", diff, images.spec("copy"))
    images.check("copy", first)
    run("rbd", "snap", "rollback", "--no-progress", images.spec("base@clean"))
    images.check("base", files)


def main():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if os.geteuid() != 0 or missing or not os.path.exists("/dev/fuse"):
        return print(f"skipped: this needs root, FUSE and {', '.join(missing) or 'loop devices'}")
    scratch = pathlib.Path(os.environ["SCRATCH"]).absolute()
    tree, raw = make_tree(scratch), scratch / "raw"
    run("mkfs.ext4", "-q", "-d", tree, raw, IMAGE_SIZE)
    start = time.monotonic()
    machine = Machine(scratch / "machine", 3, DISK_SIZE)
    machine.create_pool(POOL)
    images = Images(machine, scratch)
    count = work(images, raw, tree)
    print(f"{count} files in an image of {IMAGE_SIZE}, three clones, a copy; {images.killed} OSDs killed; "
          f"{time.monotonic() - start:.0f} s")
    machine.check_stores()


if __name__ == "__main__":
    try: main()
    except Wrong as wrong: sys.exit(f"real-image: {wrong}")
