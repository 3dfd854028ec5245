"""Ten thousand groups on three OSDs: how long nobody is answered when all OSDs are killed, when one falls silent, and when
the monitor dies with them; and whether states are shown as they are.

Figures are printed, with the load of the machine, for they depend on it. What is asserted: everything acknowledged reads back,
each group serves again, and no state but active+clean is left. SEPIOLA is the binary; everything lies below SCRATCH.
"""
import argparse, json, os, pathlib, random, sys, threading, time
import rados
from machine import Machine
from tools import Wrong, run, until

SHORT = os.environ.get("SHORT") == "1"
POOLS, NAMES, BURST = 5, 4000, 1000
SETTLE_TIME_MAX, ANSWER_TIME_MAX = 600, 300
TICKS = os.sysconf("SC_CLK_TCK")
OSDS = range(3)


class Writer(threading.Thread):
    """One request at a time, each to some object of some pool."""

    def __init__(self, ios):
        super().__init__(daemon=True)
        self.ios, self.chance = ios, random.Random(1)
        self.stopping, self.error = threading.Event(), None
        self.acknowledged, self.stall, self.last, self.count = {}, 0.0, time.monotonic(), 0

    def run(self):
        while not self.stopping.is_set():
            pool, name = self.chance.randrange(POOLS), f"object{self.chance.randrange(NAMES)}"
            text = b"%d" % self.count
            try: self.ios[pool].write_full(name, text)
            except rados.Error as error:
                self.error = error
                return
            now = time.monotonic()
            self.acknowledged[pool, name] = text
            self.stall, self.last, self.count = max(self.stall, now - self.last), now, self.count + 1

    def reset(self):
        self.stall, self.last = 0.0, time.monotonic()

    def longest(self):
        return max(self.stall, time.monotonic() - self.last)

    def must_go_on(self):
        if self.error is not None: raise Wrong(f"a write failed: {self.error}")
        if not self.is_alive(): raise Wrong("the writer has ended")

    def end(self):
        self.stopping.set()
        self.join(ANSWER_TIME_MAX)
        if self.is_alive(): raise Wrong("a write is not answered")
        if self.error is not None: raise Wrong(f"a write failed: {self.error}")
        for (pool, name), text in self.acknowledged.items():
            found = self.ios[pool].read(name)
            if found != text: raise Wrong(f"pool {pool}, {name}: {found}, not {text}")


class Watch(threading.Thread):
    """What `ceph status` shows, until it is settled: every state with the time when it was first seen."""

    def __init__(self, machine, start):
        super().__init__(daemon=True)
        self.machine, self.start_time, self.history, self.settled_after = machine, start, [], None

    def run(self):
        seen = None
        while time.monotonic() - self.start_time < SETTLE_TIME_MAX:
            try: status = self.machine.ceph("status")
            except Wrong: continue
            after = time.monotonic() - self.start_time
            states = {one["state_name"]: one["count"] for one in status["pgmap"]["pgs_by_state"]}
            shown = f"{status['osdmap']['num_up_osds']} up, " + ", ".join(f"{count} {state}" for state, count in states.items())
            if shown != seen: self.history.append((after, shown))
            seen = shown
            up = status["osdmap"]["num_up_osds"] == len(OSDS)
            if up and states == {"active+clean": status["pgmap"]["num_pgs"]}:
                self.settled_after = after
                return
            time.sleep(0.2)


def burst(ios, seconds, key):
    """Seconds from `key`'s moment until the last of many objects in random groups is written."""
    chance, left = random.Random(2), threading.Semaphore(0)
    failed = []

    def done(completion):
        if completion.get_return_value() < 0: failed.append(completion.get_return_value())
        left.release()

    for number in range(BURST): ios[number % POOLS].aio_write_full(f"burst{chance.randrange(10**9)}", b"burst", oncomplete=done)
    for _ in range(BURST):
        if not left.acquire(timeout=ANSWER_TIME_MAX): raise Wrong("a write of the burst is not answered")
    if failed: raise Wrong(f"writes of the burst failed: {failed[:3]}")
    seconds[key] = time.monotonic() - seconds["start"]


def list_all(ios, seconds, key):
    """A listing goes through each group of its pool."""
    for io in ios: sum(1 for _ in io.list_objects())
    seconds[key] = time.monotonic() - seconds["start"]


def cpu_seconds(machine, name):
    try: fields = open(f"/proc/{machine.processes[name].pid}/stat").read().rsplit(")", 1)[1].split()
    except FileNotFoundError: return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def restart(machine, what, names):
    """All of `names` end at once and are started at once."""
    for name in names: machine.processes[name].kill()
    for name in names: machine.processes[name].wait(60)
    started = time.monotonic()
    starts = {"mon": machine.start_monitor, **{f"osd.{osd}": (lambda osd=osd: machine.start_osd(osd)) for osd in OSDS}}
    threads = [threading.Thread(target=starts[name]) for name in names]
    for thread in threads: thread.start()
    return started, threads


def after_restart(machine, writer, ios, what, names):
    writer.reset()
    seconds = {"start": 0.0}
    seconds["start"], threads = restart(machine, what, names)
    watch = Watch(machine, seconds["start"])
    probes = [threading.Thread(target=burst, args=(ios, seconds, "burst"), daemon=True),
              threading.Thread(target=list_all, args=(ios, seconds, "listed"), daemon=True)]
    for thread in [watch, *probes]: thread.start()
    for thread in threads: thread.join(SETTLE_TIME_MAX)
    seconds["started"] = time.monotonic() - seconds["start"]
    watch.join(SETTLE_TIME_MAX + 60)
    for thread in probes: thread.join(ANSWER_TIME_MAX)
    writer.must_go_on()
    if watch.settled_after is None: raise Wrong(f"{what}: not clean: {watch.history[-1]}")
    if "burst" not in seconds or "listed" not in seconds: raise Wrong(f"{what}: groups do not serve")
    cpu = ", ".join(f"{name} {cpu_seconds(machine, name):.1f}" for name in machine.processes)
    print(f"{what}: all started after {seconds['started']:.1f} s, the writer without an answer for {writer.longest():.1f} s, "
          f"{BURST} writes to random groups answered after {seconds['burst']:.1f} s, all groups listed after "
          f"{seconds['listed']:.1f} s, shown clean after {watch.settled_after:.1f} s; CPU seconds {cpu}; "
          f"load {os.getloadavg()[0]:.0f}", flush=True)
    for after, shown in watch.history[:12]: print(f"  {after:5.1f} s: {shown}", flush=True)
    look(machine)


def look(machine):
    """Each group is there, once, and is what it should be."""
    groups = machine.ceph("pg", "dump", "pgs")["pg_stats"]
    expected = machine.ceph("status")["pgmap"]["num_pgs"]
    states = {group["state"] for group in groups}
    if len(groups) != expected or states != {"active+clean"}: raise Wrong(f"{len(groups)} groups of {expected}: {states}")


def silence(machine, writer, osd, seconds):
    """One OSD is stopped, as a machine that hangs, and goes on later."""
    writer.reset()
    process = machine.processes[f"osd.{osd}"]
    process.send_signal(19)
    time.sleep(seconds)
    stall, degraded = writer.longest(), machine.ceph("status")["pgmap"]["pgs_by_state"]
    writer.reset()
    process.send_signal(18)
    start = time.monotonic()
    machine.wait_clean()
    writer.must_go_on()
    print(f"osd.{osd} silent for {seconds} s: the writer without an answer for {stall:.1f} s, for {writer.longest():.1f} s when it "
          f"came back; clean {time.monotonic() - start:.1f} s after that; load {os.getloadavg()[0]:.0f}", flush=True)
    print("  meanwhile: " + ", ".join(f"{one['count']} {one['state_name']}" for one in degraded), flush=True)
    if any(one["state_name"] == "active+clean" for one in degraded): raise Wrong(f"shown as clean with a member away: {degraded}")
    look(machine)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=1000 if SHORT else 10000)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--silence", type=int, default=10 if SHORT else 27)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the cluster running until a line is read")
    args = parser.parse_args()
    machine = Machine(pathlib.Path(os.environ["SCRATCH"]) / "many-groups", disk_size="2G")
    for option, value in [("mon_max_pg_per_osd", 20000), ("osd_pool_default_pg_autoscale_mode", "off")]:
        run("ceph", "config", "set", "global", option, value)
    start = time.monotonic()
    for number in range(POOLS):
        run("ceph", "osd", "pool", "create", f"pool{number}", args.groups // POOLS)
        run("ceph", "osd", "pool", "set", f"pool{number}", "size", args.size)
        run("ceph", "osd", "pool", "application", "enable", f"pool{number}", "rados")
    until("all groups clean", machine.is_clean, SETTLE_TIME_MAX)
    print(f"{args.groups} groups of {args.size} made in {time.monotonic() - start:.1f} s", flush=True)
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=30)
    ios = [cluster.open_ioctx(f"pool{number}") for number in range(POOLS)]
    writer = Writer(ios)
    writer.start()
    osds = [f"osd.{osd}" for osd in OSDS]
    for _ in range(args.rounds):
        after_restart(machine, writer, ios, "all OSDs killed", osds)
        after_restart(machine, writer, ios, "all OSDs and the monitor killed", ["mon", *osds])
        silence(machine, writer, 1, args.silence)
    if args.keep: input()
    writer.end()
    print(f"{writer.count} writes by one writer, {len(writer.acknowledged)} objects read back", flush=True)
    machine.check_stores()


if __name__ == "__main__":
    main()
    # Callbacks may still come.
    sys.stdout.flush(); os._exit(0)
