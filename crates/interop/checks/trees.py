#!/usr/bin/env python3
"""A tree of files on a network file system: unpacked, listed, compared and removed, with the CPU time of its servers.

  trees.py --client COMMAND --mount COMMAND --archive TAR [--servers NAME=PID+PID …] [--rounds 2] [--settle 5]
           [--json OUT.JSON]

--client   runs a shell script, its last argument, as root where the file system is mounted: `sh -c` is this machine,
           another command may start a virtual machine; what the script prints must arrive at once
--mount    mounts the file system at /mnt of the client; it is mounted again before each cold step
--archive  an uncompressed tar file, or a device with its content, as the client sees it
--servers  processes of this machine whose CPU time is shown, in groups: nfs=812, or mds=77 osd=12+13+14

Steps of a round: untar; sync; ls -lR and du with what the client has cached; both again, each after another mount; after a
third one, all data and attributes are compared with the archive; rm -rf; sync. After each sync the client sleeps --settle
seconds, and what servers need meanwhile, for write-back and purging, is added to the sync. A client is busy while its CPU is
not idle. Requests are those that the client's kernel counts: RPCs of NFS, or requests of Ceph's client to metadata servers,
and its reads and writes.
"""
import argparse, json, os, shlex, statistics, subprocess, time

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

SCRIPT = r"""set -e
requests() {
  awk '$1 == "device" {operations = 0} /per-op statistics/ {operations = 1} operations {n += $2} END {printf "rpc=%d ", n}' \
    /proc/self/mountstats
  cat /sys/kernel/debug/ceph/*/metrics/latency 2>/dev/null | awk '/^(metadata|read|write) / {printf "%s=%d ", $1, $2}'
}
mark() { echo "mark $1 $2 $(awk '/^cpu / {print $2+$3+$4+$7+$8, $5+$6}' /proc/stat) $(requests)"; }
step() { name=$1; shift; mark begin $name; "$@"; mark end $name; }
listed() { ls -lR /mnt/tree >/dev/null; }
added() { du -s /mnt/tree >/dev/null; }
mounted() { MOUNT; grep -q " /mnt " /proc/mounts; }
again() { umount /mnt; mounted; }
cd /; mkdir -p /mnt; mounted
for round in $(seq ROUNDS); do
  mkdir /mnt/tree
  step untar tar -xf ARCHIVE -C /mnt/tree
  step sync sync
  step settle sleep SETTLE
  step ls listed
  step du added
  again
  step ls-cold listed
  again
  step du-cold added
  again
  step compare tar -df ARCHIVE -C /mnt/tree
  step rm rm -rf /mnt/tree
  step rm-sync sync
  step settle sleep SETTLE
  again
done
umount /mnt
"""

def cpu(pids):
    """User and system time of processes so far, in seconds."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND

def measure(args, groups):
    """The steps of all rounds, in order."""
    script = SCRIPT
    values = {"MOUNT": args.mount, "ROUNDS": str(args.rounds), "ARCHIVE": shlex.quote(args.archive), "SETTLE": str(args.settle)}
    for name, value in values.items():
        script = script.replace(name, value)
    client = subprocess.Popen(shlex.split(args.client) + [script], stdout=subprocess.PIPE, text=True)
    found, begin = [], None
    for line in client.stdout:
        words = line.split()
        if not words or words[0] != "mark":
            continue
        now = {"time": time.monotonic(), "cpu": {name: cpu(pids) for name, pids in groups.items()},
               "busy": float(words[3]), "idle": float(words[4]),
               "requests": {name: int(count) for name, count in (word.split("=") for word in words[5:])}}
        if words[1] == "begin":
            begin = now
            continue
        used = {name: now["cpu"][name] - begin["cpu"][name] for name in groups}
        if words[2] == "settle":
            for name in groups:
                found[-1]["cpu"][name] += used[name]
            continue
        busy, idle = now["busy"] - begin["busy"], now["idle"] - begin["idle"]
        requests = {name: count - begin["requests"].get(name, 0) for name, count in now["requests"].items()}
        found.append({"step": words[2], "seconds": now["time"] - begin["time"],
                      "busy": busy / (busy + idle) if busy + idle else 0.0, "cpu": used, "requests": requests})
        print(json.dumps(found[-1]), flush=True)
    if client.wait():
        raise SystemExit(f"trees.py: the client ended with {client.returncode}, after {len(found)} steps")
    return found

def table(found, groups):
    print("| step | seconds | client busy | " + " | ".join(f"CPU s, {name}" for name in groups) + " | requests |")
    print("|---" * (4 + len(groups)) + "|")
    for name in dict.fromkeys(cell["step"] for cell in found):
        cells = [cell for cell in found if cell["step"] == name]
        def each(value, form):
            return ", ".join(format(value(cell), form) for cell in cells)
        requests = "; ".join(f"{kind} {each(lambda cell: cell['requests'].get(kind, 0), 'd')}" for kind in cells[0]["requests"])
        busy = 100 * statistics.fmean(cell["busy"] for cell in cells)
        print(f"| {name} | {each(lambda cell: cell['seconds'], '.2f')} | {busy:.0f} % | "
              + " | ".join(each(lambda cell: cell["cpu"][group], ".2f") for group in groups) + f" | {requests} |")

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", default="sh -c")
    parser.add_argument("--mount", required=True)
    parser.add_argument("--archive", required=True)
    parser.add_argument("--servers", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--settle", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    groups = {name: pids.split("+") for name, pids in (group.split("=") for group in args.servers)}
    found = measure(args, groups)
    table(found, groups)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)

if __name__ == "__main__":
    main()
