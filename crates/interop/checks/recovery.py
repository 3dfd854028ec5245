#!/usr/bin/env python3
"""Measures recovery, and its effect on clients, on clusters side by side with the same stock clients.

  recovery.py --cluster NAME=CONF:PID[+PID…] [--cluster …] [--pool bench] [--osd 2] [--objects 200] [--size 4194304]
              [--flight 16] [--quiet-seconds 6] [--rounds 1] [--json OUT.JSON]

Each cluster's pool is filled with objects by `rados bench`; 4 KiB random writes by `fio --ioengine=rados` tell latency while
all is well. Then, under the same load, `ceph osd out` sends the groups of one OSD elsewhere, and `ceph osd in` brings them
back; each time runs until every group is active+clean. Clusters take turns.

Per phase: seconds until clean, MB/s of data that was moved (what the fullness of OSDs says is not needed: objects that were
misplaced, by their size), the client's rate, p50, p99 and greatest latency, CPU seconds of the PIDs, their greatest memory.
"""
import argparse, json, os, signal, subprocess, sys, time
from measure import Counters, fio_latency, run, save

FIO_OBJECT, FIO_OBJECTS = 4 << 20, 32
CLEAN_SECONDS_MAX = 600
POLL_SECONDS = 0.1
CALM_SECONDS = 2.5
LOAD_SECONDS_MAX = 900

class Cluster:
    def __init__(self, text, args):
        self.name, rest = text.split("=", 1)
        self.conf, pids = rest.rsplit(":", 1)
        self.pool, self.args = args.pool, args
        self.pids = pids.split("+")
        self.counters = Counters(self.pids)

    def ceph(self, *words):
        return json.loads(run(["ceph", "-c", self.conf, *map(str, words), "-f", "json"]) or "null")

    def rados(self, *words):
        return run(["rados", "-c", self.conf, "-p", self.pool, *map(str, words)])

    def fill(self):
        self.rados("bench", 600, "write", "-b", self.args.size, "-t", 4, "--max-objects", self.args.objects, "--no-cleanup",
                   "--run-name", "recovery")
        command = self.load_command(rw="write", bs=FIO_OBJECT, iodepth=4)
        subprocess.run(command, check=True, capture_output=True, timeout=LOAD_SECONDS_MAX)

    def load_command(self, **options):
        options = {"ioengine": "rados", "clientname": "admin", "pool": self.pool, "conf": self.conf,
                   "size": FIO_OBJECT * FIO_OBJECTS, "nrfiles": FIO_OBJECTS, **options}
        return ["fio", "--name=recovery", "--output-format=json", "--clat_percentiles=0", "--lat_percentiles=1",
                *(f"--{name}={value}" for name, value in options.items())]

    def begin_load(self):
        command = self.load_command(rw="randwrite", bs=4096, iodepth=self.args.flight, runtime=LOAD_SECONDS_MAX, time_based=1,
                                    norandommap=1, touch_objects=0)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end_load(self, load):
        """fio tells what it did until it was interrupted."""
        load.send_signal(signal.SIGINT)
        text, _ = load.communicate(timeout=60)
        account = json.loads(text[text.index("{"):])["jobs"][0]["write"]
        return {"rate": account["iops"], **fio_latency(account), "max_ms": account["lat_ns"]["max"] / 1e6}

    def is_clean(self):
        """Every group of every pool is active and clean, scrubbed or not."""
        states = self.ceph("-s")["pgmap"].get("pgs_by_state", [])
        return bool(states) and all({"active", "clean"} <= set(s["state_name"].split("+")) and "remapped" not in s["state_name"]
                                    for s in states)

    def misplaced(self):
        pgmap = self.ceph("-s")["pgmap"]
        return pgmap.get("misplaced_objects", 0) + pgmap.get("degraded_objects", 0)

    def memory(self):
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/status") as file:
                total += int(next(line for line in file if line.startswith("VmRSS")).split()[1])
        return total / 1024

    def phase(self, name, action):
        load = self.begin_load()
        time.sleep(1)
        cpu, began = self.counters.cpu(), time.monotonic()
        action()
        moved, memory = 0, 0
        if name == "quiet":
            time.sleep(self.args.quiet_seconds)
            seconds = time.monotonic() - began
        else:
            seconds, moved, memory = self.wait_until_clean(began)
        cell = {"subject": self.name, "phase": name, "seconds": seconds, "cpu_seconds": self.counters.cpu() - cpu,
                "moved_objects": moved, "moved_mb_per_second": moved * self.args.size / seconds / 1e6, "memory_mib": memory}
        return {**cell, **self.end_load(load)}

    def wait_until_clean(self, began):
        """How long it took, the greatest number of objects that were out of place, and the greatest memory. The first
        moments may still look clean: it is over when nothing has been out of place for a while."""
        moved, memory, cleaned = 0, 0, None
        while time.monotonic() - began < CLEAN_SECONDS_MAX:
            moved, memory = max(moved, self.misplaced()), max(memory, self.memory())
            is_clean, now = self.is_clean(), time.monotonic()
            cleaned = (cleaned or now) if is_clean else None
            if cleaned and now - cleaned >= CALM_SECONDS:
                return cleaned - began, moved, memory
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"{self.name}: groups are not clean after {CLEAN_SECONDS_MAX} s; ceph -c {self.conf} pg dump_stuck tells which")

    def measure(self):
        osd = self.args.osd
        yield self.phase("quiet", lambda: None)
        yield self.phase("out", lambda: run(["ceph", "-c", self.conf, "osd", "out", str(osd)]))
        yield self.phase("in", lambda: run(["ceph", "-c", self.conf, "osd", "in", str(osd)]))

    def clean_up(self):
        self.rados("cleanup", "--run-name", "recovery")
        self.rados("rm", *(f"recovery.0.{number}" for number in range(FIO_OBJECTS)))

def table(cells):
    names = ("seconds", "moved_objects", "moved_mb_per_second", "rate", "p50_ms", "p99_ms", "max_ms", "cpu_seconds", "memory_mib")
    print("| phase | cluster | until clean s | objects moved | MB/s | client IOPS | p50 ms | p99 ms | max ms | daemon CPU s | memory MiB |")
    print("|" + "---|" * 11)
    for cell in cells:
        values = " | ".join(format(cell[name], ".1f") if cell[name] is not None else "–" for name in names)
        print(f"| {cell['phase']} | {cell['subject']} | {values} |")

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--pool", default="bench")
    for name, default in (("osd", 2), ("objects", 200), ("size", 4 << 20), ("flight", 16), ("rounds", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quiet-seconds", type=float, default=6)
    parser.add_argument("--json")
    args = parser.parse_args()
    clusters, cells = [Cluster(text, args) for text in args.cluster], []
    for cluster in clusters:
        cluster.fill()
    for number in range(args.rounds):
        for cluster in clusters if number % 2 == 0 else clusters[::-1]:
            for cell in cluster.measure():
                print(f"{cell['subject']} {cell['phase']}: {cell['seconds']:.1f} s, p99 {cell['p99_ms']} ms", file=sys.stderr)
                cells.append({**cell, "round": number})
        save(args.json, {**vars(args), "began": time.strftime("%F %T")}, cells)
    for cluster in clusters:
        cluster.clean_up()
    table(cells)

main()
