#!/usr/bin/env python3
"""Measures clusters side by side with the same stock clients: rate, latency, CPU per operation, write amplification.

  compare.py --cluster NAME=CONF:PID[+PID…] [--cluster …] [--devices NAME=DEVICE[+DEVICE…]] [--pool bench]
             [--sizes 4096,131072,4194304] [--flights 1,16,64] [--kinds write,read] [--tools rados,fio]
             [--seconds 6] [--rounds 3] [--settle 1] [--client "chroot DIR"] [--raw RAW.JSON] [--json OUT.JSON]

Every cluster needs the pool. PIDs are its OSD processes (for Sepiola the one process with everything in it). At each point
the clusters take turns within one round, in the opposite order in every second one, so that a change of the machine's load
meets all alike; ratios are medians of the ratios within rounds, against the first cluster.

rados  `rados bench`: writes new objects of the block's size, reads them at random. It tells no percentiles.
fio    its engine `rados`: random blocks of 64 objects of 4 MiB that lie there already.

CPU is user and system time of the PIDs over the run, by completed operations. Bytes per byte of the client: what the PIDs
handed to devices (/proc/PID/io) and what the devices took (/sys/class/block/…/stat), up to --settle seconds after the run.
--raw adds the rows of the device itself, as `raw.py --json` left them.
"""
import argparse, json, re, subprocess, sys, time
from measure import Counters, amplification, fio, fio_latency, run, save, table

FIO_OBJECT, FIO_OBJECTS = 4 << 20, 64

class Cluster:
    def __init__(self, text, args, devices):
        self.name, rest = text.split("=", 1)
        self.conf, pids = rest.rsplit(":", 1)
        self.pool, self.client = args.pool, args.client.split()
        self.counters = Counters(pids.split("+"), devices.get(self.name, ()))

    def rados(self, *words):
        return run([*self.client, "rados", "-c", self.conf, "-p", self.pool, *map(str, words)])

    def fio(self, **options):
        return fio({"ioengine": "rados", "clientname": "admin", "pool": self.pool, "conf": self.conf,
                    "size": FIO_OBJECT * FIO_OBJECTS, "nrfiles": FIO_OBJECTS, **options}, self.client)

    def run_rados(self, kind, size, flight, seconds):
        words = ["-b", size, "--no-cleanup"] if kind == "write" else []
        verb = "write" if kind == "write" else "rand"
        text = self.rados("bench", seconds, verb, "-t", flight, *words, "--run-name", f"compare-{size}")
        def number(name):
            return float(re.search(rf"{name}:\s+([\d.e+-]+)", text)[1])
        operations = int(number("Total (?:writes|reads) made"))
        return {"operations": operations, "rate": operations / number("Total time run"),
                "mean_ms": number(r"Average Latency\(s\)") * 1e3, "p50_ms": None, "p99_ms": None}

    def run_fio(self, kind, size, flight, seconds):
        job = self.fio(rw=f"rand{kind}", bs=size, iodepth=flight, runtime=seconds, time_based=1, norandommap=1, touch_objects=0)
        account = job[kind]
        return {"operations": account["total_ios"], "rate": account["iops"], **fio_latency(account)}

    def prepare(self, tool):
        if tool == "fio":
            self.fio(rw="write", bs=FIO_OBJECT, iodepth=4)

    def clean(self, tool, size):
        if tool == "rados":
            self.rados("cleanup", "--prefix", "benchmark_data")
            self.rados("rm", f"compare-{size}")
        elif tool == "fio":
            self.rados("rm", *(f"compare.0.{number}" for number in range(FIO_OBJECTS)))

    def measure(self, tool, kind, size, flight, args):
        cpu, moved = self.counters.cpu(), self.counters.bytes()
        cell = (self.run_fio if tool == "fio" else self.run_rados)(kind, size, flight, args.seconds)
        operations = cell["operations"]
        cell["cpu_us"] = (self.counters.cpu() - cpu) * 1e6 / operations if operations else None
        time.sleep(args.settle)
        return {**cell, **amplification(moved, self.counters.bytes(), kind, operations * size)}

def points(args):
    for tool in args.tools:
        for size in args.sizes:
            # The deepest queue last: it leaves the most objects for the reads.
            for kind in args.kinds:
                for flight in sorted(args.flights):
                    yield tool, size, kind, flight

def guarded(what, action, *words):
    """A cluster that fails at one point is still measured at the others."""
    try:
        return action(*words)
    except (subprocess.SubprocessError, RuntimeError) as error:
        print(f"{what}: {error}\n{getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return {}

def measure_round(number, clusters, args, cells):
    order = clusters if number % 2 == 0 else clusters[::-1]
    last = None
    def clean(tool, size):
        for cluster in order:
            guarded(f"{cluster.name}, cleaning up", cluster.clean, tool, size)
    for tool, size, kind, flight in points(args):
        if last != (tool, size):
            if last and (last[0] != tool or tool == "rados"):
                clean(*last)
            if not last or last[0] != tool:
                for cluster in order:
                    guarded(f"{cluster.name}, preparing", cluster.prepare, tool)
            last = (tool, size)
        for cluster in order:
            what = f"round {number + 1}, {cluster.name}, {tool} {kind} {size}, {flight} in flight"
            cell = guarded(what, cluster.measure, tool, kind, size, flight, args)
            print(f"{what}: {cell.get('rate') or 0:.0f}/s", file=sys.stderr)
            cells.append({"kind": kind, "size": size, "flight": flight, "tool": tool, "subject": cluster.name,
                          "round": number, **cell})
    clean(*last)

def arguments():
    numbers, words = (lambda text: [int(x) for x in text.split(",")]), (lambda text: text.split(","))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--devices", action="append", default=[])
    parser.add_argument("--pool", default="bench")
    parser.add_argument("--sizes", type=numbers, default=[4096, 131072, 4194304])
    parser.add_argument("--flights", type=numbers, default=[1, 16, 64])
    parser.add_argument("--kinds", type=words, default=["write", "read"])
    parser.add_argument("--tools", type=words, default=["rados", "fio"])
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settle", type=float, default=1)
    parser.add_argument("--client", default="")
    parser.add_argument("--raw")
    parser.add_argument("--json")
    return parser.parse_args()

def with_raw(cells, path, tools):
    """The device's own cells, at each point where a cluster was measured; their CPU time is not a daemon's."""
    with open(path) as file:
        raw = json.load(file)["cells"]
    measured = {(cell["kind"], cell["size"], cell["flight"], cell["tool"]) for cell in cells}
    matching = [{**cell, "tool": tool, "cpu_us": None} for cell in raw for tool in tools
                if (cell["kind"], cell["size"], cell["flight"], tool) in measured]
    return cells + matching + [cell for cell in raw if cell["kind"] == "write+flush"]

def main():
    args = arguments()
    devices = dict(text.split("=", 1) for text in args.devices)
    devices = {name: text.split("+") for name, text in devices.items()}
    clusters = [Cluster(text, args, devices) for text in args.cluster]
    about, cells = {**vars(args), "began": time.strftime("%F %T")}, []
    for number in range(args.rounds):
        measure_round(number, clusters, args, cells)
        save(args.json, about, cells)
    # Clusters are listed in the order of the first round.
    print(table(with_raw(cells, args.raw, args.tools) if args.raw else cells))

main()
