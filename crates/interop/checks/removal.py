#!/usr/bin/env python3
"""Latency of clients while groups of very many objects are removed, on a cluster of its own: a ratio within one run.

  removal.py --sepiola BINARY --scratch DIRECTORY [--objects 200000] [--groups 4] [--osds 3] [--seconds 20] [--flight 16]
             [--how pool|out] [--worst 2.0] [--json OUT.JSON]

A pool of few groups is filled with small objects. Then 4 KiB objects are written to another pool, first for so long with
nothing else to do, then while the filled pool is removed (`pool`), or while an OSD leaves and comes back, whose groups are
then strays of the others (`out`); after that once more. It fails if the p99 of any of the later is more than --worst times
that of the first. Not part of `interop`: it takes minutes, and a quiet machine.
"""
import argparse, json, pathlib, select, subprocess, sys, time
from tools import Wrong, run, until

READY = ("healthy:", "ready:")
START_SECONDS_MAX, CLEAN_SECONDS_MAX = 120, 900
SMALL, WRITTEN = "64", "4K"


class Cluster:
    def __init__(self, args):
        self.binary, self.data = args.sepiola, pathlib.Path(args.scratch) / "removal"
        self.conf = self.data / "ceph.conf"
        command = [self.binary, "up", "--listen", "127.0.0.1:0", "--osds", args.osds, "--disk-size", args.disk_size, "--data", self.data]
        self.log = open(self.data.with_suffix(".log"), "a")
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=self.log, text=True)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if select.select([self.process.stdout], [], [], 1)[0]:
                line = self.process.stdout.readline()
                if line.startswith(READY): return
                if not line: break
        raise Wrong(f"the cluster does not start: see {self.log.name}")

    def ceph(self, *words):
        return run("ceph", "-c", self.conf, *words)

    def bench(self, pool, *words):
        return json.loads(run(self.binary, "bench", "-p", pool, "write", "--data", self.data, "--json", "--runs", 1, *words))

    def is_clean(self):
        states = json.loads(self.ceph("-s", "-f", "json"))["pgmap"].get("pgs_by_state", [])
        return bool(states) and all(state["state_name"].startswith("active+clean") for state in states)

    def objects(self, pool):
        pools = json.loads(self.ceph("df", "-f", "json"))["pools"]
        return next((found["stats"]["objects"] for found in pools if found["name"] == pool), 0)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def latency(report):
    """Milliseconds of one run."""
    found = dict(report["latency_ms"])
    return {name: found[name]["median"] for name in ("p50", "p99", "max")}


def removal(args):
    cluster = Cluster(args)
    try:
        cluster.ceph("config", "set", "mon", "mon_allow_pool_delete", "true")
        for pool, groups in (("filled", args.groups), ("written", 8)):
            cluster.ceph("osd", "pool", "create", pool, groups)
            cluster.ceph("osd", "pool", "application", "enable", pool, "rados")
        until("clean", cluster.is_clean, CLEAN_SECONDS_MAX)
        cluster.bench("filled", "-b", SMALL, "-t", 64, "--objects", args.objects, "--keep")
        time.sleep(args.settle)
        def measure(): return latency(cluster.bench("written", "-b", WRITTEN, "-t", args.flight, "--seconds", args.seconds))
        found = {"quiet": measure()}
        if args.how == "pool":
            cluster.ceph("osd", "pool", "rm", "filled", "filled", "--yes-i-really-really-mean-it")
            found["removing"] = measure()
        else:
            cluster.ceph("osd", "out", 0)
            until("clean without an OSD", cluster.is_clean, CLEAN_SECONDS_MAX)
            cluster.ceph("osd", "in", 0)
            until("clean with it", cluster.is_clean, CLEAN_SECONDS_MAX)
            found["removing"] = measure()
        found["afterwards"] = measure()
        return found
    finally:
        cluster.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sepiola", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--disk-size", default="6G")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--settle", type=float, default=5)
    parser.add_argument("--flight", type=int, default=16)
    parser.add_argument("--how", choices=("pool", "out"), default="pool")
    parser.add_argument("--worst", type=float, default=2.0)
    parser.add_argument("--json")
    args = parser.parse_args()
    found = removal(args)
    quiet = found["quiet"]["p99"]
    for phase, cell in found.items():
        print(f"{phase:<11} p50 {cell['p50']:8.3f} ms   p99 {cell['p99']:8.3f} ms ({cell['p99'] / quiet:.2f})   max {cell['max']:8.3f} ms")
    if args.json: pathlib.Path(args.json).write_text(json.dumps(found))
    if found["removing"]["p99"] > args.worst * quiet: raise Wrong("the removal is felt")


if __name__ == "__main__":
    try: main()
    except Wrong as wrong: sys.exit(f"removal.py: {wrong}")
