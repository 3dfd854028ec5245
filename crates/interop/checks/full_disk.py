"""Disks fill up: writes are refused, nothing is lost, deletes go on, and the space comes back.

  full_disk.py fill JOURNAL    writes until there is no room; names of what was acknowledged go to JOURNAL
  full_disk.py empty JOURNAL   on the full cluster: verifies, deletes, and writes again
The cluster's disks are small, about 512 MiB. It may be killed and started again between the two.
"""
import json, os, random, subprocess, sys, threading, time
import rados

POOL = "full"
SIZES = [4 << 10, 64 << 10, 300_000, 1 << 20]
IN_FLIGHT = 8
SHORT = os.environ.get("SHORT") == "1"
BENCH = os.environ.get("BENCH", "-b 1M -t 4").split()
# Flags of librados that python3-rados has no names for.
FULL_TRY, FULL_FORCE = 64, 128
# Monitors learn of usage every 5 s.
NOTICED_TIME_MAX, REQUEST_TIME_MAX, FILL_TIME_MAX = 20, 10, 120
REFUSALS = 50
# Bytes that an emptied cluster may use beyond a new one: logs of placement groups.
LEFT_BYTES_MAX = 4 << 20

def command(*args, timeout=REQUEST_TIME_MAX):
    args = [str(arg) for arg in args]
    return subprocess.run(args, stdout=subprocess.PIPE, check=True, text=True, timeout=timeout).stdout

def ceph(*args):
    return json.loads(command("ceph", *args, "-f", "json"))

def bytes_used():
    by_rados = int(json.loads(command("rados", "df", "-f", "json"))["total_used"]) << 10
    return max(by_rados, ceph("df")["stats"]["total_used_raw_bytes"])

def health():
    return ceph("health")["checks"].keys()

def until(what, holds, time_max=NOTICED_TIME_MAX):
    limit = time.monotonic() + time_max
    while not holds():
        assert time.monotonic() < limit, f"after {time_max} s still not: {what} ({', '.join(health())})"
        time.sleep(0.2)

def all_up():
    return all(osd["up"] and osd["in"] for osd in ceph("osd", "dump")["osds"])

def contents(name):
    return random.Random(name).randbytes(random.Random(name).choice(SIZES))

class Client:
    def __init__(self):
        conf = {"rados_osd_op_timeout": str(REQUEST_TIME_MAX), "rados_mon_op_timeout": str(REQUEST_TIME_MAX)}
        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"], conf=conf)
        self.cluster.connect(timeout=REQUEST_TIME_MAX)
        self.io, self.slots, self.lock = self.cluster.open_ioctx(POOL), threading.Semaphore(IN_FLIGHT), threading.Lock()

    def operate(self, name, change, flags, on_result):
        """Starts an operation when fewer than `IN_FLIGHT` are on their way."""
        self.slots.acquire()
        def done(completion):
            with self.lock: on_result(name, completion.get_return_value())
            self.slots.release()
        with rados.WriteOpCtx() as op:
            change(op)
            self.io.operate_aio_write_op(op, name, oncomplete=done, flags=flags)

    def drain(self):
        for _ in range(IN_FLIGHT): self.slots.acquire()
        for _ in range(IN_FLIGHT): self.slots.release()

    def fill(self, enough):
        """Writes until `enough` and all was refused for a while; gives what was acknowledged."""
        acknowledged, refused, number = [], [0], 0
        def on_result(name, result):
            assert result in (0, -28), f"{name}: {result}"
            if result: refused[0] += 1
            else: acknowledged.append(name); refused[0] = 0
        limit = time.monotonic() + FILL_TIME_MAX
        while refused[0] < REFUSALS or not enough():
            assert time.monotonic() < limit, "it does not get full"
            name, number = f"object{number}", number + 1
            self.operate(name, lambda op: op.write_full(contents(name)), FULL_TRY, on_result)
            if refused[0] > REFUSALS: time.sleep(0.01)
        self.drain()
        return acknowledged

    def verify(self, names):
        for name in names:
            assert self.io.read(name, SIZES[-1] + 1) == contents(name), f"{name} differs"

    def remove(self, names):
        def on_result(name, result): assert result == 0, f"removing {name}: {result}"
        for name in names: self.operate(name, lambda op: op.remove(), FULL_FORCE, on_result)
        self.drain()

def fill(journal):
    used_at_start = bytes_used()
    pool = ["ceph", "osd", "pool"]
    command(*pool, "create", POOL, 16); command(*pool, "application", "enable", POOL, "rados")
    # Two of three, so that disks are full and others are not.
    command(*pool, "set", POOL, "size", 2)
    client = Client()
    bench = subprocess.Popen(["rados", "-p", POOL, "bench", str(FILL_TIME_MAX), "write", "--no-cleanup", *BENCH],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    full = lambda: bench.poll() is not None or "OSD_FULL" in health()
    acknowledged = client.fill(full)
    # It has been refused, or waits until the pool is no longer full.
    assert bench.poll() != 0, "rados bench found room"
    bench.kill(); bench.wait()
    until("OSD_FULL, POOL_FULL", lambda: {"OSD_FULL", "POOL_FULL"} <= health())
    assert all_up()
    client.verify(acknowledged)
    with open(journal, "w") as file: json.dump({"used at start": used_at_start, "acknowledged": acknowledged}, file)
    print(len(acknowledged), "objects acknowledged beside rados bench,", bytes_used() >> 20, "MiB used when full")

def empty(journal):
    state = json.load(open(journal))
    client, acknowledged = Client(), state["acknowledged"]
    until("POOL_FULL", lambda: "POOL_FULL" in health())
    client.verify(acknowledged)
    # As with Ceph, deletes wait, too, unless the client insists.
    names = command("rados", "-p", POOL, "ls").split()
    others = sorted(set(names) - set(acknowledged))
    assert subprocess.run(["timeout", "1", "rados", "-p", POOL, "rm", others[0]]).returncode == 124
    command("rados", "-p", POOL, "rm", others[0], "--force-full")
    command("rados", "-p", POOL, "rm", *others[1::2], "--force-full", timeout=60)
    until("room", lambda: not {"OSD_FULL", "POOL_FULL"} & health())
    command("rados", "-p", POOL, "put", "after", os.environ["CEPH_CONF"])
    client.verify(acknowledged)
    client.remove(set(command("rados", "-p", POOL, "ls").split()))
    until("space is free again", lambda: bytes_used() < state["used at start"] + LEFT_BYTES_MAX)
    if not SHORT:
        command("rados", "-p", POOL, "bench", 5, "write", "-b", "1M", "--max-objects", 100, timeout=30)
        until("space is free again", lambda: bytes_used() < state["used at start"] + LEFT_BYTES_MAX)
    assert all_up() and not command("rados", "-p", POOL, "ls")
    print(len(names), "objects read or removed while full,", bytes_used() >> 10, "KiB used at the end")

{"fill": fill, "empty": empty}[sys.argv[1]](sys.argv[2])
# Callbacks of requests that timed out may still come.
sys.stdout.flush(); os._exit(0)
