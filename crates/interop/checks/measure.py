"""Shared by `compare.py` and `raw.py`: counters of processes and devices, runs of fio, one shape of table.

A cell is what one tool measured at one point (kind, size, in flight) in one round, a dictionary with
  rate            operations per second             mean_ms, p50_ms, p99_ms   latency; None where the tool does not tell
  cpu_us          CPU time per operation            amplification             device bytes per byte of the client
"""
import json, os, statistics, subprocess

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SECTOR = 512
RUN_SECONDS_MAX = 600
COLUMNS = ("mean_ms", "p50_ms", "p99_ms", "cpu_us", "process_amplification", "device_amplification")

class Counters:
    """Running totals of processes (with all their threads) and of block devices."""

    def __init__(self, pids=(), devices=()):
        self.pids, self.devices = pids, [os.path.basename(os.path.realpath(f"/dev/{os.path.basename(d)}")) for d in devices]
        self.cpu(), self.bytes()

    def cpu(self):
        """User and system time so far, in seconds. A process's own account includes threads that have ended."""
        ticks = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_SECOND

    def bytes(self):
        """Bytes so far, by who counts them and direction; None where nobody counts."""
        totals = {("process", "read"): None, ("process", "write"): None, ("device", "read"): None, ("device", "write"): None}
        def add(who, direction, count):
            totals[who, direction] = (totals[who, direction] or 0) + count
        for pid in self.pids:
            try:
                with open(f"/proc/{pid}/io") as file:
                    counts = dict(line.split(": ") for line in file.read().splitlines())
            except PermissionError:
                continue
            for direction in ("read", "write"):
                add("process", direction, int(counts[f"{direction}_bytes"]))
        for device in self.devices:
            with open(f"/sys/class/block/{device}/stat") as file:
                fields = file.read().split()
            add("device", "read", int(fields[2]) * SECTOR)
            add("device", "write", int(fields[6]) * SECTOR)
        return totals

def amplification(before, after, direction, client_bytes):
    """Bytes that processes and devices moved for each byte of the client."""
    found = {}
    for who in ("process", "device"):
        start, end = before[who, direction], after[who, direction]
        found[f"{who}_amplification"] = None if start is None or not client_bytes else (end - start) / client_bytes
    return found

def run(command):
    """A command's output; a cluster that hangs must not hang whoever measures it."""
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=RUN_SECONDS_MAX).stdout

def fio(options, prefix=()):
    """Runs one job; gives fio's account of it."""
    command = [*prefix, "fio", "--name=compare", "--output-format=json", "--clat_percentiles=0", "--lat_percentiles=1",
               *(f"--{name}={value}" for name, value in options.items())]
    text = run(command)
    job = json.loads(text[text.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio failed with error {job['error']}: {' '.join(command)}")
    return job

def fio_latency(account):
    """Mean, p50 and p99 of what fio tells of one direction, in milliseconds."""
    latency = account["lat_ns"]
    percentiles = latency.get("percentile", {})
    names = {"p50_ms": "50.000000", "p99_ms": "99.000000"}
    found = {name: percentiles[key] / 1e6 if key in percentiles else None for name, key in names.items()}
    return {"mean_ms": latency["mean"] / 1e6, **found}

def size_name(size):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"

def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

def shown(value, form):
    return "–" if value is None else format(value, form)

def rate_text(size, rates):
    """Operations per second for small blocks, MB/s for large ones."""
    unit, factor = ("IOPS", 1) if size < 65536 else ("MB/s", size / 1e6)
    low, middle, high = (f(rates) * factor for f in (min, statistics.median, max))
    return f"{middle:.0f} {unit}" + (f" ({low:.0f}..{high:.0f})" if len(rates) > 1 else "")

def ratio(cells, base, column):
    """Median over the rounds of one subject's value by the base's in the same round."""
    pairs = [(cells[i].get(column), base[i].get(column)) for i in sorted(cells.keys() & base.keys())]
    return median([value / reference for value, reference in pairs if value is not None and reference])

def table(cells):
    """Markdown. `cells` is a list of dictionaries with kind, size, flight, tool, subject, round and a cell's values; the
    subject that comes first at a point is what the others are compared with."""
    lines = ["| point | tool | of | rate, median (min..max) | mean ms | p50 ms | p99 ms | CPU µs/op | bytes/byte: processes "
             "| devices | rate ratio | latency ratio | CPU ratio |", "|" + "---|" * 13]
    points = {}
    for cell in cells:
        point = tuple(cell[name] for name in ("kind", "size", "flight", "tool"))
        points.setdefault(point, {}).setdefault(cell["subject"], {})[cell["round"]] = cell
    for (kind, size, flight, tool), subjects in points.items():
        base = None
        for subject, rounds in subjects.items():
            good = {number: cell for number, cell in rounds.items() if cell.get("rate")}
            head = f"| {kind} {size_name(size)}, {flight} in flight | {tool} | {subject} |"
            if not good:
                lines.append(f"{head} failed |" + " |" * 9)
                continue
            base = base if base is not None else good
            values = {name: median([cell.get(name) for cell in good.values()]) for name in COLUMNS}
            columns = [rate_text(size, [cell["rate"] for cell in good.values()]),
                       *(shown(values[name], ".3f") for name in COLUMNS[:3]), shown(values["cpu_us"], ".1f"),
                       *(shown(values[name], ".2f") for name in COLUMNS[4:]),
                       *(shown(ratio(good, base, name), ".2f") for name in ("rate", "mean_ms", "cpu_us"))]
            lines.append(f"{head} " + " | ".join(columns) + " |")
    return "\n".join(lines)

def save(path, about, cells):
    """Written anew after each round, so that a run that is cut short leaves what it has."""
    if path:
        with open(f"{path}.new", "w") as file:
            json.dump({"about": about, "cells": cells}, file, indent=1)
        os.rename(f"{path}.new", path)
