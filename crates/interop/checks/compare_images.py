#!/usr/bin/env python3
"""Measures block images of clusters side by side: rate, latency to p99.9, CPU per operation of daemons and of clients.

  compare_images.py --cluster NAME=CONF:PID[+PID…][:DATAPOOL] [--cluster …] [--pool bench] [--image-size 1073741824]
                    [--tools librbd,nbd,qemu-nbd,native] [--kinds write,read,mixed,linear-write,linear-read] [--flights 1,32,128]
                    [--seconds 4] [--rounds 2] [--sepiola target/release/sepiola] [--raw FILE] [--json OUT.JSON]

Every cluster needs the pool, prepared by `rbd pool init`; an image is made in it, filled, and removed at the end. PIDs are its OSD
processes (for Sepiola the one process with everything in it). With DATAPOOL the image's data lies there (erasure-coded pools).
One cluster may stand here several times, with other pools. At each point the clusters take turns within one round, in the
opposite order in every second one; ratios are medians of the ratios within rounds, against the first cluster with the same tool,
or with librbd where that tool cannot use the first cluster.

librbd    fio's engine `rbd`, without librbd's cache: an answer means that the OSDs have it
nbd       `sepiola nbd`, fio's engine `nbd` over a Unix socket
qemu-nbd  `qemu-nbd` on librbd, without a cache, likewise; left out where qemu has no driver for rbd
native    `sepiola image bench`

write, read, mixed (70 % reads): 4 KiB at random, --flights in flight. linear-*: 4 MiB, --linear-flight in flight. CPU is user and
system time by completed operations: daemons are the PIDs, the client is whatever runs on the client's side, an NBD server included.
Bytes per byte are those that the daemons handed to devices in the operation's direction (/proc/PID/io), by bytes of the client.
--raw measures a file (made with --image-size if it is not there) by itself: O_DIRECT, writes O_DSYNC, too.
"""
import argparse, contextlib, json, os, resource, shutil, signal, subprocess, sys, tempfile, time
from measure import Counters, RUN_SECONDS_MAX, amplification, median, rate_text, ratio, save, shown, size_name

SMALL, LARGE = 4 << 10, 4 << 20
READ_PERCENT = 70
FIO_KINDS = {"write": "randwrite", "read": "randread", "mixed": "randrw", "linear-write": "write", "linear-read": "read"}
COLUMNS = ("p50_ms", "p99_ms", "p999_ms", "daemon_us", "client_us", "process_amplification")
SERVER_START_SECONDS = 20

def run(command, conf=None):
    environment = {**os.environ, "CEPH_CONF": conf} if conf else None
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=RUN_SECONDS_MAX, env=environment).stdout

def fio(words, point, seconds, conf=None):
    """Runs one job: operations, rate, and latency, those of reads and writes together weighted by their number."""
    options = {**words, "bs": point["size"], "iodepth": point["flight"], "norandommap": 1, "randrepeat": 0}
    if seconds:
        options |= {"time_based": 1, "runtime": seconds}
    text = run(["fio", "--name=images", "--output-format=json", "--clat_percentiles=0", "--lat_percentiles=1",
                "--percentile_list=50:99:99.9", f"--rw={FIO_KINDS[point['kind']]}", f"--rwmixread={READ_PERCENT}",
                *(f"--{name}={value}" for name, value in options.items())], conf)
    job = json.loads(text[text.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio failed with error {job['error']}")
    parts = [job[direction] for direction in ("read", "write") if job[direction]["total_ios"]]
    operations = sum(part["total_ios"] for part in parts)
    def together(value):
        return sum(value(part) * part["total_ios"] for part in parts) / operations / 1e6
    percentile = lambda name: together(lambda part: part["lat_ns"]["percentile"][name])
    return {"operations": operations, "rate": sum(part["iops"] for part in parts), "mean_ms": together(lambda part: part["lat_ns"]["mean"]),
            "p50_ms": percentile("50.000000"), "p99_ms": percentile("99.000000"), "p999_ms": percentile("99.900000")}

class Cluster:
    def __init__(self, text, args):
        self.name, rest = text.split("=", 1)
        conf, pids, *data_pool = rest.split(":")
        self.data_pool = data_pool[0] if data_pool else None
        self.conf, self.counters, self.args = os.path.abspath(conf), Counters(pids.split("+")), args
        self.image = f"compare-{os.getpid()}-{self.data_pool or 'plain'}"
        self.good_tools, self.bad_tools = set(), set()
        self.spec = f"{args.pool}/{self.image}"

    def rbd(self, *words):
        return run(["rbd", "-c", self.conf, *map(str, words)])

    @contextlib.contextmanager
    def prepared(self):
        self.rbd("create", "--image-feature", "layering", *(["--data-pool", self.data_pool] if self.data_pool else []), "--size", f"{self.args.image_size}B", self.spec)
        try:
            # An acknowledgement of librbd means durable, as with the other tools.
            self.rbd("config", "image", "set", self.spec, "rbd_cache", "false")
            fio(self.librbd(), {"kind": "linear-write", "size": LARGE, "flight": 8}, None, self.conf)
            yield
        finally:
            self.remove()

    def remove(self):
        # Watches of servers that were killed run out after half a minute.
        for attempt in range(10):
            try:
                return self.rbd("rm", "--no-progress", self.spec)
            except subprocess.CalledProcessError as error:
                last = error
                time.sleep(5)
        print(f"{self.name}: {self.spec} is left over: {last.stderr}", file=sys.stderr)

    def librbd(self):
        return {"ioengine": "rbd", "clientname": "admin", "pool": self.args.pool, "rbdname": self.image}

    @contextlib.contextmanager
    def served(self, tool):
        """An NBD server of the image: its process, and where fio finds it."""
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/socket"
            command = {"nbd": [self.args.sepiola, "nbd", "--conf", self.conf, "--socket", path, self.spec],
                       "qemu-nbd": ["qemu-nbd", "--cache=none", "-t", "-e", "4", "-f", "raw", "-k", path,
                                    f"rbd:{self.spec}:conf={self.conf}"]}[tool]
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                until = time.monotonic() + SERVER_START_SECONDS
                while not os.path.exists(path):
                    if server.poll() is not None or time.monotonic() > until:
                        server.kill()
                        raise RuntimeError(f"{command[0]}: {server.communicate()[1]}")
                    time.sleep(0.05)
                name = self.spec if tool == "nbd" else ""
                yield server, {"ioengine": "nbd", "uri": f"nbd+unix:///{name}?socket={path}"}
            finally:
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=30)

    def native(self, point):
        words = [self.args.sepiola, "image", "bench", "--conf", self.conf, "--json", "--runs", "1", "--seconds", self.args.seconds,
                 "-b", point["size"], "-t", point["flight"], "--read-percent", READ_PERCENT, "--seed", point["round"] + 1,
                 self.spec, FIO_KINDS[point["kind"]]]
        found = json.loads(run([str(word) for word in words]))
        latency = {name: value["median"] for name, value in found["latency_ms"]}
        rate = found["iops"]["median"]
        return {"operations": rate * self.args.seconds, "rate": rate, "mean_ms": latency["mean"], "p50_ms": latency["p50"],
                "p99_ms": latency["p99"], "p999_ms": latency["p99.9"]}

    def try_to_measure(self, tool, point):
        """A tool that could not do the first thing that it was asked for here is not asked for more."""
        if tool in self.bad_tools:
            return {}
        try:
            cell = self.measure(tool, point)
        except Exception:
            if tool not in self.good_tools:
                self.bad_tools.add(tool)
            raise
        self.good_tools.add(tool)
        return cell

    def measure(self, tool, point):
        if tool in ("nbd", "qemu-nbd"):
            with self.served(tool) as (server, words):
                return self.account(point, lambda: fio(words, point, self.args.seconds), [server.pid])
        if tool == "native":
            return self.account(point, lambda: self.native(point))
        return self.account(point, lambda: fio(self.librbd(), point, self.args.seconds, self.conf))

    def account(self, point, action, servers=()):
        """CPU on both sides while something runs. A server's own is looked up, for it has not ended."""
        helpers = Counters(servers)
        daemons, client, helped, moved = self.counters.cpu(), children_cpu(), helpers.cpu(), self.counters.bytes()
        cell = action()
        if point["kind"] != "mixed":
            direction = "read" if point["kind"].endswith("read") else "write"
            cell |= amplification(moved, self.counters.bytes(), direction, cell["operations"] * point["size"])
        by_operation = 1e6 / cell["operations"] if cell["operations"] else 0
        cell["daemon_us"] = (self.counters.cpu() - daemons) * by_operation
        cell["client_us"] = (children_cpu() - client + helpers.cpu() - helped) * by_operation
        return cell

def children_cpu():
    """Of the processes that this one has started and seen end."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

def raw(args, point):
    """The device's own figures: each write is durable when it ends."""
    words = {"ioengine": "libaio", "direct": 1, "sync": "dsync", "filename": args.raw, "size": args.image_size}
    before = children_cpu()
    cell = fio(words, point, args.seconds)
    return {**cell, "daemon_us": None, "client_us": (children_cpu() - before) * 1e6 / max(cell["operations"], 1)}

def points(args):
    for kind in args.kinds:
        if kind.startswith("linear"):
            yield {"kind": kind, "size": LARGE, "flight": args.linear_flight}
        else:
            for flight in args.flights:
                yield {"kind": kind, "size": SMALL, "flight": flight}

def guarded(what, action):
    """A cluster that fails at one point is still measured at the others."""
    try:
        return action()
    except (subprocess.SubprocessError, RuntimeError, OSError, KeyError, ValueError) as error:
        print(f"{what}: {error}\n{getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return {}

def measure_round(number, clusters, args, cells):
    order = clusters if number % 2 == 0 else clusters[::-1]
    for point in points(args):
        point["round"] = number
        if args.raw:
            cells.append({**point, "tool": "raw", "subject": "device", **guarded("the device", lambda: raw(args, point))})
        for tool in args.tools:
            for cluster in order:
                what = f"round {number + 1}, {cluster.name}, {tool} {point['kind']} {size_name(point['size'])}, {point['flight']} in flight"
                cell = guarded(what, lambda: cluster.try_to_measure(tool, point))
                print(f"{what}: {cell.get('rate') or 0:.0f}/s, {cell.get('daemon_us') or 0:.1f} + {cell.get('client_us') or 0:.1f} µs",
                      file=sys.stderr)
                cells.append({**point, "tool": tool, "subject": cluster.name, **cell})

def table(cells):
    """Markdown. At a point, the clusters are compared with the first one, tool by tool, or with its librbd."""
    lines = ["| point | tool | of | rate, median (min..max) | p50 ms | p99 ms | p99.9 ms | daemons µs/op | client µs/op | bytes/byte "
             "| rate ratio | p50 ratio | daemons' CPU ratio |", "|" + "---|" * 13]
    rows = {}
    for cell in cells:
        key = tuple(cell[name] for name in ("kind", "size", "flight", "tool"))
        rows.setdefault(key, {}).setdefault(cell["subject"], {})[cell["round"]] = cell
    for (kind, size, flight, tool), subjects in sorted(rows.items(), key=lambda row: place(cells, row[0])):
        base, first = None, next(iter(subjects))
        if not any(cell.get("rate") for cell in subjects[first].values()):
            others = rows.get((kind, size, flight, "librbd"), {}).get(first, {})
            base = {number: cell for number, cell in others.items() if cell.get("rate")} or None
        for subject, rounds in subjects.items():
            good = {number: cell for number, cell in rounds.items() if cell.get("rate")}
            head = f"| {kind} {size_name(size)}, {flight} in flight | {tool} | {subject} |"
            if not good:
                lines.append(f"{head} – |" + " |" * 9)
                continue
            base = base if base is not None else good
            values = {name: median([cell.get(name) for cell in good.values()]) for name in COLUMNS}
            lines.append(f"{head} " + " | ".join([
                rate_text(size, [cell["rate"] for cell in good.values()]),
                *(shown(values[name], ".3f") for name in COLUMNS[:3]), *(shown(values[name], ".1f") for name in COLUMNS[3:]),
                *(shown(ratio(good, base, name), ".2f") for name in ("rate", "p50_ms", "daemon_us"))]) + " |")
    return "\n".join(lines)

def place(cells, key):
    """Where a point first came up."""
    return next(i for i, cell in enumerate(cells) if tuple(cell[name] for name in ("kind", "size", "flight", "tool")) == key)

def has_qemu_rbd():
    if not shutil.which("qemu-nbd") or not shutil.which("qemu-img"):
        return False
    formats = subprocess.run(["qemu-img", "--help"], text=True, capture_output=True).stdout.rsplit("Supported formats:", 1)[-1]
    return "rbd" in formats.split()

def arguments():
    numbers, words = (lambda text: [int(x) for x in text.split(",")]), (lambda text: text.split(","))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--pool", default="bench")
    parser.add_argument("--image-size", type=int, default=1 << 30)
    parser.add_argument("--tools", type=words, default=["librbd", "nbd", "qemu-nbd", "native"])
    parser.add_argument("--kinds", type=words, default=list(FIO_KINDS))
    parser.add_argument("--flights", type=numbers, default=[1, 32, 128])
    parser.add_argument("--linear-flight", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sepiola", default="target/release/sepiola")
    parser.add_argument("--raw")
    parser.add_argument("--json")
    args = parser.parse_args()
    if "qemu-nbd" in args.tools and not has_qemu_rbd():
        print("qemu-nbd is not measured: it is not here, or has no driver for rbd", file=sys.stderr)
        args.tools.remove("qemu-nbd")
    return args

def main():
    args = arguments()
    clusters = [Cluster(text, args) for text in args.cluster]
    about, cells = {**vars(args), "began": time.strftime("%F %T")}, []
    with contextlib.ExitStack() as stack:
        for cluster in clusters:
            stack.enter_context(cluster.prepared())
        for number in range(args.rounds):
            measure_round(number, clusters, args, cells)
            save(args.json, about, cells)
    print(table(cells))

main()
