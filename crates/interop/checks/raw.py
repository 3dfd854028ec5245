#!/usr/bin/env python3
"""Measures a device (or a file) itself, with fio through io_uring and without the page cache.

  raw.py PATH [--overwrite] [--size 1G] [--seconds 4] [--rounds 1] [--flights 1,16,64] [--json OUT.JSON]

A file that does not exist is made, written once and removed; --overwrite allows what exists to be written over, which
DESTROYS WHAT IS IN IT. Points: 4 KiB written one after the other, each followed by fdatasync (what a log with one client
costs); 4 KiB at random; 128 KiB and 4 MiB one after the other. The table has the shape of compare.py's, which takes the
JSON with --raw. CPU is fio's own.
"""
import argparse, os, stat, sys, time
from measure import Counters, amplification, fio, fio_latency, save, table

def points(flights):
    yield "write+flush", 4096, 1, {"rw": "write", "fdatasync": 1}
    for kind in ("write", "read"):
        for flight in flights:
            yield kind, 4096, flight, {"rw": f"rand{kind}", "norandommap": 1}
    for size in (131072, 4194304):
        for kind in ("write", "read"):
            for flight in flights:
                yield kind, size, flight, {"rw": kind}

def measure(common, counters, kind, size, flight, options, seconds):
    moved = counters.bytes()
    job = fio({**common, **options, "bs": size, "iodepth": flight, "runtime": seconds, "time_based": 1})
    direction = "read" if kind == "read" else "write"
    account = job[direction]
    cell = {"operations": account["total_ios"], "rate": account["iops"], **fio_latency(account)}
    if kind == "write+flush":
        # The same percentile of both steps: close to that of their sum, since the flush is nearly all of it.
        for name, value in fio_latency(job["sync"]).items():
            cell[name] = None if value is None else cell[name] + value
    used = (job["usr_cpu"] + job["sys_cpu"]) / 100 * account["runtime"] * 1e3
    cell["cpu_us"] = used / account["total_ios"]
    return {**cell, **amplification(moved, counters.bytes(), direction, account["total_ios"] * size)}

def about_device(name):
    found = {}
    for key in ("write_cache", "rotational", "logical_block_size", "physical_block_size"):
        try:
            with open(f"/sys/class/block/{name}/queue/{key}") as file:
                found[key] = file.read().strip()
        except OSError:
            pass
    return found

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--size", default="1G")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--flights", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--json")
    args = parser.parse_args()
    exists = os.path.exists(args.path)
    if exists and not args.overwrite:
        sys.exit(f"{args.path} exists and would be written over; --overwrite allows it")
    is_device = exists and stat.S_ISBLK(os.stat(args.path).st_mode)
    device = os.path.basename(os.path.realpath(args.path))
    counters = Counters(devices=[device] if is_device else [])
    common = {"filename": args.path, "ioengine": "io_uring", "direct": 1, "size": args.size}
    about = {**vars(args), **(about_device(device) if is_device else {}), "began": time.strftime("%F %T")}
    cells = []
    try:
        # Blocks that were never written read too fast and write too slowly.
        fio({**common, "rw": "write", "bs": "4M", "iodepth": 4, "end_fsync": 1})
        for number in range(args.rounds):
            for kind, size, flight, options in points(sorted(args.flights)):
                cell = measure(common, counters, kind, size, flight, options, args.seconds)
                cells.append({"kind": kind, "size": size, "flight": flight, "tool": "fio io_uring", "subject": "device",
                              "round": number, **cell})
            save(args.json, about, cells)
    finally:
        if not exists and os.path.exists(args.path):
            os.remove(args.path)
    print(table(cells))

main()
