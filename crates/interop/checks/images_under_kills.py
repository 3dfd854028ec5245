"""Images under fio with verification, through librbd and through `sepiola nbd`, while OSDs are killed and restarted one
after another, and at last all at once: nothing is lost, and snapshots show what they showed.

Each pass of fio writes every block of its image once, in a random order and with contents that depend on the pass, and
reads all of it back. With a code, the images' data lies in an erasure-coded pool. At the end, deep scrub finds nothing. SEPIOLA is the
binary; everything lies below SCRATCH.

  images_under_kills.py [--rounds N] [--osds N] [--code K+M] [--seed N]
"""
import argparse, json, os, pathlib, random, subprocess, sys, threading, time
from machine import Machine
from tools import Wrong, run

POOL, SHARDS = "images", "shards"
# Of an image, and the longest time that fio may take for a pass.
SIZE, PASS_TIME_MAX = "24M", 300
MAPPED = "layering,exclusive-lock,object-map,fast-diff"


class Load(threading.Thread):
    """Passes of fio over one image, until told to stop; after each, a snapshot may be taken."""

    def __init__(self, name, engine, snapshots):
        super().__init__(daemon=True)
        self.image, self.engine, self.snapshots_max = name, engine, snapshots
        self.stopping, self.error = threading.Event(), None
        self.passes, self.slowest_ms, self.shown = 0, 0.0, {}

    def fio(self, *more):
        command = ["fio", f"--name={self.image}", *self.engine, "--rw=randwrite", "--bsrange=4k-32k", "--blockalign=4k",
                   "--iodepth=16", f"--size={SIZE}", "--verify=crc32c", "--verify_fatal=1", f"--randseed={self.passes + 1}",
                   f"--aux-path={os.environ['SCRATCH']}", "--output-format=json", *more]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PASS_TIME_MAX)
        if done.returncode != 0: raise Wrong(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
        jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
        return max(job[way]["lat_ns"]["max"] / 1e6 for job in jobs for way in ("read", "write"))

    def run(self):
        try:
            while not self.stopping.is_set(): self.one_pass()
        except (Wrong, subprocess.TimeoutExpired) as error: self.error = error

    def one_pass(self):
        self.slowest_ms = max(self.slowest_ms, self.fio())
        self.passes += 1
        if len(self.shown) < self.snapshots_max:
            spec = f"{POOL}/{self.image}@pass{self.passes}"
            run("rbd", "snap", "create", "--no-progress", spec)
            self.shown[spec] = digest(spec)

    def verify(self):
        """Verifies the data of the last pass."""
        self.passes -= 1
        self.fio("--verify_only=1")
        self.passes += 1
        for spec, shown in self.shown.items():
            if digest(spec) != shown: raise Wrong(f"{spec} does not show what it showed when it was taken")


def digest(spec):
    script = 'set -o pipefail; rbd export --no-progress "$1" - | sha256sum'
    return run("bash", "-c", script, "bash", spec)


def create_loads(machine, code):
    """One image through librbd, one through the NBD server; both with an object map and snapshots."""
    place = ["--data-pool", SHARDS] if code else []
    for name in ("librbd", "nbd"):
        run("rbd", "create", f"{POOL}/{name}", "--size", SIZE, "--image-feature", MAPPED, *place)
    socket = machine.directory / "nbd.sock"
    machine.start("nbd", "listening", "nbd", "--conf", machine.conf, "--socket", socket, f"{POOL}/nbd")
    librbd = ["--ioengine=rbd", "--clientname=admin", f"--pool={POOL}", "--rbdname=librbd"]
    nbd = ["--ioengine=nbd", f"--uri=nbd+unix:///{POOL}/nbd?socket={socket}"]
    return [Load("librbd", librbd, 2), Load("nbd", nbd, 2)]


def kill_in_turn(machine, loads, rounds, seed):
    """Each OSD in turn; a round is over when all groups are clean again. How long that took at most."""
    chance, slowest = random.Random(seed), 0.0
    for _ in range(rounds):
        for osd in machine.osds:
            must_go_on(loads)
            machine.kill_osd(osd)
            # Not waits for something to become true: how long an OSD is away is arbitrary by intent.
            time.sleep(chance.uniform(0.2, 2.0))
            machine.start_osd(osd)
            slowest = max(slowest, machine.wait_clean())
    return slowest


def kill_all(machine):
    for osd in machine.osds: machine.kill_osd(osd)
    for osd in machine.osds: machine.start_osd(osd)
    machine.wait_clean()


def must_go_on(loads):
    for load in loads:
        if load.error: raise Wrong(f"{load.image}: {load.error}")


def main():
    short = os.environ.get("SHORT") == "1"
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1 if short else 8)
    parser.add_argument("--osds", type=int)
    parser.add_argument("--code", default="")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    scratch = pathlib.Path(os.environ["SCRATCH"]).absolute()
    shards = sum(map(int, arguments.code.split("+"))) if arguments.code else 0
    machine = Machine(scratch / f"machine{arguments.code.replace('+', '-')}", arguments.osds or max(3, shards))
    machine.create_pool(POOL)
    if arguments.code: machine.create_erasure_pool(SHARDS, arguments.code)
    loads = create_loads(machine, arguments.code)
    for load in loads: load.start()
    slowest = kill_in_turn(machine, loads, arguments.rounds, arguments.seed)
    kill_all(machine)
    for load in loads: load.stopping.set()
    for load in loads: load.join()
    must_go_on(loads)
    kill_all(machine)
    for load in loads: load.verify()
    for load in loads: run("rbd", "object-map", "check", f"{POOL}/{load.image}")
    scrubbed = machine.deep_scrub()
    passes = ", ".join(f"{load.passes} passes over {load.image} (slowest request {load.slowest_ms / 1000:.1f} s)" for load in loads)
    snapshots = sum(len(load.shown) for load in loads)
    print(f"{arguments.code or 'copies'}: {arguments.rounds * len(machine.osds)} kills of single OSDs and 2 of all: {passes}, "
          f"{snapshots} snapshots; clean after at most {slowest:.1f} s; {scrubbed} groups scrubbed")
    machine.check_stores()


if __name__ == "__main__":
    try: main()
    except Wrong as wrong: sys.exit(f"images: {wrong}")
