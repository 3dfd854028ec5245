#!/usr/bin/env python3
"""Measures clusters side by side with the same stock client: `rados bench`, IOPS and CPU per operation.

  compare.py --cluster NAME=CONF:PID[+PID…] [--cluster …] [--seconds 10] [--rounds 3] [--sizes 4096,4194304] [--flights 1,16,64]
             [--client "chroot DIR"]

Each cluster needs a pool `bench`; PIDs are its OSD processes (for Sepiola the one process with everything in it).
Rounds are interleaved, so that a change of the machine's load meets all clusters alike. CPU is user and system time of
the PIDs (/proc/PID/stat) over the run, divided by completed operations.
"""
import argparse, os, re, statistics, subprocess

TICK = os.sysconf("SC_CLK_TCK")

def cpu(pids):
    total = 0
    for pid in pids:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK

class Cluster:
    def __init__(self, text, client):
        self.name, rest = text.split("=", 1)
        self.conf, pids = rest.rsplit(":", 1)
        self.pids, self.client, self.points = pids.split("+"), client.split(), {}

    def rados(self, *args):
        command = [*self.client, "rados", "-c", self.conf, "-p", "bench", *map(str, args)]
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout

    def measure(self, kind, size, flight, seconds):
        run = ["--run-name", f"compare-{size}"]
        before = cpu(self.pids)
        extra = ["-b", size, "--no-cleanup"] if kind == "write" else []
        text = self.rados("bench", seconds, kind, "-t", flight, *extra, *run)
        used = cpu(self.pids) - before
        operations = int(re.search(r"Total (?:writes|reads) made:\s+(\d+)", text)[1])
        elapsed = float(re.search(r"Total time run:\s+([\d.]+)", text)[1])
        latency = float(re.search(r"Average Latency\(s\):\s+([\d.e-]+)", text)[1])
        point = (operations / elapsed, latency * 1e3, used * 1e6 / operations)
        self.points.setdefault((kind, size, flight), []).append(point)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="4096")
    parser.add_argument("--flights", default="16")
    parser.add_argument("--client", default="")
    args = parser.parse_args()
    clusters = [Cluster(text, args.client) for text in args.cluster]
    sizes, flights = ([int(x) for x in text.split(",")] for text in (args.sizes, args.flights))
    for _ in range(args.rounds):
        for size in sizes:
            # The deepest queue last: it leaves the most objects for the reads.
            for kind in ("write", "rand"):
                for flight in sorted(flights):
                    for cluster in clusters:
                        cluster.measure(kind, size, flight, args.seconds)
            for cluster in clusters:
                cluster.rados("cleanup", "--run-name", f"compare-{size}")
    print("| point | cluster | IOPS median (min..max) | mean latency ms | daemon CPU us/op | IOPS ratio | CPU ratio |")
    print("|---|---|---|---|---|---|---|")
    for point in clusters[0].points:
        base = None
        for cluster in clusters:
            rows = cluster.points[point]
            iops, latency, used = (statistics.median(row[i] for row in rows) for i in range(3))
            base = base or (iops, used)
            spread = f"{min(r[0] for r in rows):.0f}..{max(r[0] for r in rows):.0f}"
            kind, size, flight = point
            print(f"| {kind} {size} B, {flight} in flight | {cluster.name} | {iops:.0f} ({spread}) | {latency:.2f} | {used:.0f} "
                  f"| {iops / base[0]:.2f} | {used / base[1]:.2f} |")

main()
