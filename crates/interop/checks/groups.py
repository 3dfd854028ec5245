"""A pool gets more placement groups and less, under load, while OSDs leave and come back: nothing is lost, nothing
is executed twice, and status tells what is.

Meanwhile the pool has a snapshot, which shows in the end what it showed in the beginning, and leaves nothing behind when it
is removed. Threads append numbered records to objects of their own, with what was acknowledged in mind; each record must be
there exactly once, in the order in which it was sent. POOL is made by the script.
"""
import json, os, random, struct, subprocess, sys, threading, time
import rados

POOL = "groups"
SHORT = os.environ.get("SHORT") == "1"
STEPS = [16, 12] if SHORT else [64, 16, 40]
PG_NUM, THREADS, OBJECTS, IN_FLIGHT = 8, 3, 40, 8
OLD = [f"old{number}" for number in range(60)]
SETTLE_TIME_MAX = 600
RECORD = struct.Struct("<Q")


def ceph(*args):
    args = ["ceph", *map(str, args), "-f", "json"]
    output = subprocess.run(args, stdout=subprocess.PIPE, check=True, text=True, timeout=60).stdout
    return json.loads(output) if output.strip() else None


def until(what, holds):
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < SETTLE_TIME_MAX, f"still not: {what}; {ceph('status')}"
        time.sleep(0.5)
    return time.monotonic() - start


class Writer(threading.Thread):
    """Appends to its objects, several requests at a time."""

    def __init__(self, number):
        super().__init__(daemon=True)
        self.random, self.stop, self.error = random.Random(number), threading.Event(), None
        self.sent = {f"object{number}.{index}": [] for index in range(OBJECTS)}
        self.slots, self.count, self.stall, self.last = threading.Semaphore(IN_FLIGHT), 0, 0.0, time.monotonic()
        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        self.cluster.connect(timeout=30)
        self.io = self.cluster.open_ioctx(POOL)

    def done(self, completion):
        if completion.get_return_value() < 0: self.error = completion.get_return_value()
        now = time.monotonic()
        self.stall, self.last = max(self.stall, now - self.last), now
        self.slots.release()

    def run(self):
        while not self.stop.is_set() and self.error is None:
            name = self.random.choice(list(self.sent))
            self.count += 1
            self.sent[name].append(self.count)
            self.slots.acquire()
            self.io.aio_append(name, RECORD.pack(self.count), oncomplete=self.done)
        for _ in range(IN_FLIGHT): self.slots.acquire()

    def end(self):
        self.stop.set()
        self.join(120)
        assert not self.is_alive(), "requests are not answered"
        assert self.error is None, f"a request failed: {self.error}"

    def verify(self):
        for name, sent in self.sent.items():
            data = self.io.read(name, 1 << 20) if sent else b""
            found = [record for record, in RECORD.iter_unpack(data)]
            assert found == sent, f"{name}: {len(found)} records of {len(sent)}"


def pool():
    return next(pool for pool in ceph("osd", "dump")["pools"] if pool["pool_name"] == POOL)


def is_settled(pg_num):
    now, status = pool(), ceph("status")["pgmap"]
    has = (now["pg_num"], now["pg_placement_num"], now["pg_num_pending"]) == (pg_num,) * 3
    return has and [(one["state_name"], one["count"]) for one in status["pgs_by_state"]] == [
        ("active+clean", status["num_pgs"])]


def step(pg_num):
    ceph("osd", "pool", "set", POOL, "pg_num", pg_num)
    time.sleep(1.5)
    # It comes back by itself, as one that was wrongly thought dead.
    ceph("osd", "down", random.choice([0, 1, 2]))
    took = until(f"{pg_num} groups", lambda: is_settled(pg_num))
    print(f"{pg_num} groups after {took:.1f} s", flush=True)


def take_snapshot(io):
    for name in OLD: io.write_full(name, b"before")
    io.create_snap("s")
    for name in OLD: io.write_full(name, b"after")


def remove_snapshot(io):
    io.set_read(io.lookup_snap("s").snap_id)
    for name in OLD: assert io.read(name) == b"before", f"{name} at the snapshot: {io.read(name)}"
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    for name in OLD: assert io.read(name) == b"after", name
    io.remove_snap("s")
    until("the snapshot is trimmed", lambda: not ceph("osd", "dump")["removed_snaps_queue"])


def look(writers):
    """Checks the commands' view of the pool, while no client writes."""
    names = {name for writer in writers for name, sent in writer.sent.items() if sent} | set(OLD)
    size = sum(RECORD.size * len(sent) for writer in writers for sent in writer.sent.values())
    size += len(OLD) * len(b"after")
    listed = subprocess.run(["rados", "-p", POOL, "ls"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    assert sorted(listed) == sorted(names), f"{len(listed)} of {len(names)} objects are listed"
    number = pool()["pool"]
    groups = [one for one in ceph("pg", "dump", "pgs")["pg_stats"] if one["pgid"].startswith(f"{number}.")]
    assert len(groups) == STEPS[-1], f"{len(groups)} groups are shown"
    used = lambda: next(one for one in ceph("df")["pools"] if one["name"] == POOL)["stats"]
    until("df is right", lambda: (used()["objects"], used()["stored"]) == (len(names), size))
    assert ceph("osd", "pool", "autoscale-status") is not None


def main():
    ceph("osd", "pool", "create", POOL, PG_NUM)
    ceph("osd", "pool", "application", "enable", POOL, "rados")
    ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")
    writers = [Writer(number) for number in range(THREADS)]
    io = writers[0].io
    for writer in writers: writer.start()
    take_snapshot(io)
    for pg_num in STEPS: step(pg_num)
    for writer in writers: writer.end()
    remove_snapshot(io)
    for writer in writers: writer.verify()
    look(writers)
    count, stall = sum(writer.count for writer in writers), max(writer.stall for writer in writers)
    print(f"{count} records, each there once; no thread was without an answer for more than {stall:.1f} s")


main()
# Callbacks may still come.
sys.stdout.flush(); os._exit(0)
