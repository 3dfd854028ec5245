"""Machines, disks and daemons fail, one after the other, under a client's load that is verified.

  faults.py [--hosts N] [--osds PER_HOST] [--code K+M] [--only FAULT,…] [--short] [--strict] [--keep]
Three hosts in network namespaces, each with a member of an etcd, a monitor and OSDs (see lab.py); the pool of the load is replicated,
or erasure-coded. After each fault everything acknowledged must read back as it was written last, the cluster must become clean, and
health must have said what happened, and no longer say it. Of each fault it tells the longest time in which nothing was acknowledged.
"""
import argparse, os, pathlib, shutil, signal, sys, time
from lab import POOL, Client, Disk, Lab
from tools import Wrong, run, until

# Bound of a stall: seconds where a connection breaks, and where a machine goes silent. Longer ones are told,
# and with --strict, on a machine that does nothing else, they are a failure.
BROKEN, SILENT = 1.0, 3.0
PATTERN = b"a block that is going to be damaged "
DISK_LENGTH = 512 << 20

# Faults. Each gets the lab, causes a fault, yields while it lasts, and repairs it.


def kill_osd(lab):
    osd = len(lab.hosts) - 1
    lab.kill(f"osd.{osd}")
    yield
    lab.start_osd(osd)


def pause_osd(lab):
    lab.kill("osd.1", signal.SIGSTOP)
    yield
    lab.kill("osd.1", signal.SIGCONT)


def cut(choose, directions):
    def fault(lab):
        host = choose(lab)
        for direction in directions: lab.network.cut(host, direction)
        yield
        lab.network.mend(host)
    return fault


def any_host(lab):
    """One with neither the leading monitor nor the etcd's leader, if there is one."""
    busy = [lab.monitors[lab.leader()], lab.etcd_leader()]
    return next((host for host in reversed(lab.hosts) if host not in busy), lab.hosts[-1])


def leading_host(lab):
    return lab.monitors[lab.leader()]


def lose_packets(lab):
    host = lab.hosts[-1]
    lab.network.lose(host, 0.02)
    delayed = lab.network.delay(host, 5)
    yield
    if delayed: lab.network.no_delay(host)
    lab.network.mend(host)


def kill_leader(lab):
    name = lab.leader()
    lab.kill(f"mon.{name}")
    yield
    if lab.leader() == name: raise Wrong(f"mon.{name} was killed, and nobody else leads")
    lab.start_monitor(name)


def stop_member(lab):
    host = lab.etcd_leader()
    lab.kill(f"etcd.{host}")
    yield
    lab.ceph("config", "set", "global", "rados_mon_op_timeout", "0")
    lab.start_etcd(host)


def stop_quorum(lab):
    for host in lab.hosts[1:]: lab.kill(f"etcd.{host}")
    yield
    for host in lab.hosts[1:]: lab.start_etcd(host)
    until("changes again", lambda: lab.ceph("config", "rm", "global", "rados_mon_op_timeout") is not None, 60)


def pull_disk(lab):
    """An OSD's disk answers with errors from now on; it gets another one under its old number."""
    osd = next(iter(lab.disks))
    lab.disks[osd].pull()
    yield
    lab.kill(f"osd.{osd}", signal.SIGTERM)
    lab.disks[osd].exchange()
    replace(lab, ["--id", osd, "--data", lab.directory(osd), "--wipe", *lab.store_arguments(osd)], lab.osds[osd])
    lab.start_osd(osd)


def replace(lab, arguments, host):
    run(*lab.on(host, lab.binary, "osd", "replace", "--conf", lab.conf, *arguments, "--host", host))


def corrupt_block(lab):
    """A block of an object changes on one disk, behind the back of its OSD, and is mended by order only."""
    lab.ceph("config", "set", "osd", "osd_scrub_auto_repair", "false")
    contents = PATTERN * (65536 // len(PATTERN))
    command = lab.on("client", "rados", "-p", POOL, "put", "damaged", "-")
    run(*command, env=lab.environment(), input=contents.decode())
    mapping = lab.json("osd", "map", POOL, "damaged")
    pg, osd = mapping["pgid"], mapping["acting"][1]
    # Until the block has left the log, there is another copy of it.
    until("a copy on the disk", lambda: damage(lab, osd), 30)
    lab.ceph("pg", "deep-scrub", pg)
    yield
    lab.ceph("pg", "repair", pg)
    lab.ceph("config", "rm", "osd", "osd_scrub_auto_repair")
    read = run(*lab.on("client", "rados", "-p", POOL, "get", "damaged", "-"), env=lab.environment())
    if read.encode() != contents: raise Wrong("the damaged object does not read as it was written")


def damage(lab, osd):
    path = lab.disks[osd].path if osd in lab.disks else lab.directory(osd) / "block"
    with open(path, "r+b") as disk:
        found, offset = [], 0
        while piece := disk.read(1 << 20):
            if (at := piece.find(PATTERN * 8)) >= 0: found.append(offset + at)
            offset += len(piece)
        for at in found:
            disk.seek(at)
            disk.write(b"DAMAGED!")
        disk.flush()
        os.fsync(disk.fileno())
    return bool(found)


def replace_disk(lab):
    """An OSD dies with its disk, and gets a new one under its old number."""
    osd = len(lab.hosts) - 1
    lab.kill(f"osd.{osd}")
    shutil.rmtree(lab.directory(osd))
    yield
    replace(lab, ["--id", osd, "--data", lab.directory(osd), *lab.store_arguments(osd)], lab.osds[osd])
    lab.start_osd(osd)


def replace_host(lab):
    """All OSDs of a machine die with their disks; another machine takes over their numbers and its place."""
    host = lab.hosts[1]
    osds = [osd for osd, place in lab.osds.items() if place == host]
    for osd in osds:
        lab.kill(f"osd.{osd}")
        shutil.rmtree(lab.directory(osd))
    yield
    data = [word for osd in osds for word in ("--data", lab.directory(osd))]
    replace(lab, ["--old-host", host, "--disk-size", DISK_LENGTH, *data], host)
    for osd in osds: lab.start_osd(osd)


# Name: the fault, how long a stall may be, and what health says of it.
FAULTS = {
    "kill": (kill_osd, BROKEN, {"OSD_DOWN"}),
    "silent": (cut(any_host, ["in", "out"]), SILENT, {"OSD_DOWN", "MON_DOWN"}),
    "silent-leader": (cut(leading_host, ["in", "out"]), SILENT, {"OSD_DOWN", "MON_DOWN"}),
    "pause": (pause_osd, SILENT, {"OSD_DOWN"}),
    "cut-in": (cut(any_host, ["in"]), SILENT, {"OSD_DOWN"}),
    "cut-out": (cut(any_host, ["out"]), SILENT, {"OSD_DOWN"}),
    "loss": (lose_packets, SILENT, set()),
    "leader": (kill_leader, BROKEN, {"MON_DOWN"}),
    "etcd": (stop_member, BROKEN, set()),
    "quorum": (stop_quorum, BROKEN, {"CONTROL_STORE_DOWN"}),
    "disk": (pull_disk, BROKEN, {"OSD_DOWN", "OSD_STORE_FAILED"}),
    "corrupt": (corrupt_block, BROKEN, {"OSD_SCRUB_ERRORS", "PG_DAMAGED"}),
    "replace": (replace_disk, BROKEN, {"OSD_DOWN"}),
    "replace-host": (replace_host, BROKEN, {"OSD_DOWN"}),
}
SHORT = ["kill", "cut-out", "silent-leader", "leader", "etcd", "disk", "corrupt"]


def run_fault(lab, client, name, seconds, strict):
    fault, bound, complaints = FAULTS[name]
    client.ask("reset")
    steps = fault(lab)
    seen = {}
    next(steps)
    start = time.monotonic()
    while time.monotonic() - start < seconds or not complaints <= seen.keys():
        if time.monotonic() - start > 30: raise Wrong(f"{name}: health never said {complaints - seen.keys()}, but {seen}")
        seen.update(lab.health())
        time.sleep(0.3)
    during = client.ask("report")
    next(steps, None)
    mended = time.monotonic()
    lab.wait_clean()
    clean = time.monotonic() - mended
    total = client.ask("report")
    objects = client.check("verify")
    said = ", ".join(sorted(seen)) or "nothing"
    print(f"{name:13} stall {during['stall']:5.2f} s, over all {total['stall']:5.2f} s; clean {clean:5.1f} s after; "
          f"{total['acks']} writes, {objects} objects verified; health said {said}", flush=True)
    if total["errors"]: raise Wrong(f"{name}: writes failed: {total['errors']}")
    if total["stall"] <= bound: return
    too_long = f"{name}: a stall of {total['stall']} s; {bound} s are the aim"
    if strict: raise Wrong(too_long)
    print(too_long, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--osds", type=int, default=1)
    parser.add_argument("--code", default="")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--short", action="store_true", default=os.environ.get("SHORT") == "1")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0: return print("skipped: network namespaces need root")
    names = arguments.only.split(",") if arguments.only else SHORT if arguments.short else list(FAULTS)
    seconds = arguments.seconds or (4 if arguments.short else 10)
    scratch = pathlib.Path(os.environ.get("SCRATCH", ".")).absolute() / f"faults.{os.getpid()}"
    scratch.mkdir(parents=True)
    lab = Lab(scratch, arguments.hosts, arguments.osds, arguments.code)
    if "disk" in names: add_disk(lab)
    client = Client(lab)
    time.sleep(1)
    for name in names:
        if name == "disk" and not lab.disks:
            print("disk          left out: there is no loop device here")
            continue
        run_fault(lab, client, name, seconds, arguments.strict)
    print(f"{client.check('finish')} objects are as they were acknowledged last", flush=True)
    client.stop()
    lab.check_stores()
    if not arguments.keep: shutil.rmtree(scratch)


def add_disk(lab):
    """An OSD on a device that can be pulled."""
    try:
        disk = Disk(lab.scratch / "disk", DISK_LENGTH)
    except (Wrong, FileNotFoundError):
        return
    lab.start_osd(lab.create_osd(lab.hosts[0], disk))
    lab.wait_clean()


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"faults: {wrong}")
