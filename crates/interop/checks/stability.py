#!/usr/bin/env python3
"""How steady an image's throughput is: `sepiola bench stability` for whatever fio reaches, by the same criterion.

  stability.py (--image POOL/IMAGE --conf CONF | --uri NBD-URI | --file PATH | --series CSV) [--block 4194304]
               [--depths 1,2,4,8,16,32] [--patterns write,read] [--seconds 10] [--warm-up 2] [--bucket-ms 100]
               [--size BYTES] [--csv OUT.CSV] [--json OUT.JSON]

--image   an image of any cluster, Ceph's or Sepiola's, through librbd (fio's engine `rbd`); it is overwritten, once before
          anything is measured, so that there is something to read
--uri     an NBD server's export (fio's engine `nbd`)
--file    a file or device of this machine, with O_DIRECT: what the disk does by itself
--series  no measurement: judges the series that `sepiola bench stability --csv` or this program wrote

One block after the other, --depths in flight. The bytes that complete are counted in buckets. Throughput is called stable if,
of the means over every window of one second, the coefficient of variation (CV) is at most 10 %, none is less than half of the
mean of all, and the last third of the time is within 20 % of the first (drift). Why so: a request of 4 MiB is 40 % of what
100 MB/s bring in a tenth of a second, so that shorter windows tell more of the block than of the system; one stall in a
minute moves the CV hardly, a slow decline moves neither.
"""
import argparse, collections, csv, glob, json, os, statistics, subprocess, tempfile

CV_MAX, LEAST_MIN, DRIFT_MAX = 0.10, 0.5, 0.2
MIB = 1 << 20

def judge(rates, window):
    """The numbers of `sepiola bench stability`, from rates in MiB/s of one bucket after the other."""
    windows = [statistics.fmean(rates[i:i + window]) for i in range(len(rates) - window + 1)]
    mean = statistics.fmean(rates)
    if not windows or not mean:
        raise SystemExit("stability.py: nothing completed in the time, or less than a second was counted")
    third = max(len(rates) // 3, 1)
    found = {"mean": mean, "bucket_cv": statistics.pstdev(rates) / mean, "bucket_min": min(rates), "bucket_max": max(rates),
             "window_cv": statistics.pstdev(windows) / statistics.fmean(windows), "window_min": min(windows), "window_max": max(windows),
             "drift": (statistics.fmean(rates[-third:]) - statistics.fmean(rates[:third])) / mean}
    found["is_stable"] = (found["window_cv"] <= CV_MAX and found["window_min"] >= LEAST_MIN * mean
                          and abs(found["drift"]) <= DRIFT_MAX)
    return found

def engine(args):
    if args.image:
        pool, image = args.image.split("/", 1)
        return {"ioengine": "rbd", "clientname": "admin", "pool": pool, "rbdname": image}
    if args.uri:
        return {"ioengine": "nbd", "uri": args.uri}
    return {"ioengine": "libaio", "direct": 1, "filename": args.file}

def fio(args, options, log=None):
    """Runs one job; an error says what fio said."""
    words = {**engine(args), "bs": args.block, **options}
    if args.size:
        words["size"] = args.size
    if log:
        words["write_bw_log"] = log
    environment = {**os.environ, **({"CEPH_CONF": os.path.abspath(args.conf)} if args.conf else {})}
    done = subprocess.run(["fio", "--name=stability", "--minimal", *(f"--{name}={value}" for name, value in words.items())],
                          text=True, capture_output=True, env=environment)
    if done.returncode:
        raise SystemExit(f"stability.py: fio failed: {done.stderr or done.stdout}")

def rates(args, log):
    """fio's log has a line for each completion: milliseconds since the start, rate, direction, bytes."""
    counts = [0] * (args.seconds * 1000 // args.bucket_ms)
    for line in open(log):
        at, _, _, length = (int(word) for word in line.split(",")[:4])
        bucket = (at - int(args.warm_up * 1000)) // args.bucket_ms
        if 0 <= bucket < len(counts):
            counts[bucket] += length
    return [count / MIB / (args.bucket_ms / 1000) for count in counts]

def measure(args):
    """Series by pattern and depth."""
    series = {}
    fio(args, {"rw": "write", "iodepth": 16, "bs": 4 * MIB})
    for pattern in args.patterns:
        for depth in args.depths:
            with tempfile.TemporaryDirectory() as directory:
                fio(args, {"rw": pattern, "iodepth": depth, "time_based": 1, "runtime": args.seconds + args.warm_up},
                    f"{directory}/log")
                series[pattern, depth] = rates(args, glob.glob(f"{directory}/log_bw.*.log")[0])
                show(args, pattern, depth, series[pattern, depth])
    return series

def read_series(args):
    series, times = collections.defaultdict(list), set()
    for row in csv.DictReader(open(args.series)):
        series[row["pattern"], int(row["depth"])].append(float(row["mib_per_second"]))
        times.add(float(row["seconds"]))
    args.bucket_ms = round(sorted(times)[1] * 1000)
    for (pattern, depth), values in series.items():
        show(args, pattern, depth, values)
    return series

def show(args, pattern, depth, values):
    found = judge(values, 1000 // args.bucket_ms)
    print(f"{pattern:<8} {depth:>5} {found['mean']:>9.1f} {found['bucket_cv'] * 100:>7.1f} % "
          f"{found['bucket_min']:>6.0f}..{found['bucket_max']:<6.0f} {found['window_cv'] * 100:>7.1f} % "
          f"{found['window_min']:>6.0f}..{found['window_max']:<6.0f} {found['drift'] * 100:>6.0f} %  "
          f"{'stable' if found['is_stable'] else 'unstable'}", flush=True)

def save(args, series):
    if args.csv:
        with open(args.csv, "w") as file:
            print("pattern,depth,seconds,mib_per_second", file=file)
            for (pattern, depth), values in series.items():
                for number, value in enumerate(values):
                    print(f"{pattern},{depth},{number * args.bucket_ms / 1000:.3f},{value:.3f}", file=file)
    if args.json:
        window = 1000 // args.bucket_ms
        points = [{"pattern": pattern, "depth": depth, **judge(values, window), "series": values}
                  for (pattern, depth), values in series.items()]
        with open(args.json, "w") as file:
            json.dump({"block_size": args.block, "bucket_seconds": args.bucket_ms / 1000, "points": points}, file, indent=1)

def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("--image", "--uri", "--file", "--series"):
        what.add_argument(name)
    parser.add_argument("--conf")
    parser.add_argument("--block", type=int, default=4 * MIB)
    parser.add_argument("--depths", type=lambda text: [int(x) for x in text.split(",")], default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--patterns", type=lambda text: text.split(","), default=["write", "read"])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--bucket-ms", type=int, default=100)
    parser.add_argument("--size", type=int)
    parser.add_argument("--csv")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.file and not args.size and not os.path.exists(args.file):
        parser.error("--file names nothing that is there: give --size")
    return args

def main():
    args = arguments()
    print(f"{'MiB/s':<8} {'depth':>5} {'mean':>9} {'CV bucket':>9} {'min..max':>14} {'CV 1 s':>9} {'min..max':>14} {'drift':>8}")
    save(args, read_series(args) if args.series else measure(args))

main()
