"""Ceph's own model checker of objects (`ceph_test_rados`, unmodified) while groups are divided and merged and OSDs leave, come back
and are killed: writes, reads, appends, attributes, deletions and snapshots of 200 objects, each compared with a model, and replies
that must come in the order of their requests. Each kind of pool in turn: replicated; erasure-coded with overwrites; with appends only.

  rados_model.py [--runs 6] [--seconds-max 300] [--first 1] [--kinds replicated,overwrites,appends]

SEPIOLA is the binary, CLIENT what comes before a client's command (`chroot DIR`); everything lies below SCRATCH. A run fails when the
program aborts, or does not end in time.
"""
import argparse, json, os, pathlib, random, shlex, signal, subprocess, sys, threading, time
from machine import Machine
from tools import Wrong, run, until

OSDS, COPIES, PGS, PGS_MORE = 4, 2, 8, 24
PROFILE = ("k=2", "m=1", "crush-failure-domain=host")
OPERATIONS = ("--max-ops 3000 --objects 200 --max-in-flight 16 --size 400000 --min-stride-size 40000 --max-stride-size 80000 "
              "--op read 100 --op delete 30 --op snap_create 10 --op snap_remove 10 --op setattr 25 --op append 40 ")
SHARDS = "--op rollback 20 --op copy_from 20 "
KINDS = {
    "replicated": "--op write 150",
    "overwrites": SHARDS + "--no-omap --op write 150 --op write_excl 20 --op rmattr 10",
    "appends": SHARDS + "--no-omap --op append 100 --op append_excl 20 --op rmattr 10",
}


class Disturber(threading.Thread):
    """One disturbance after another until told to stop; every OSD is up and in when it ends."""

    def __init__(self, machine, pool, seed):
        super().__init__(daemon=True)
        self.machine, self.pool, self.chance = machine, pool, random.Random(seed)
        self.stopping, self.error, self.done = threading.Event(), None, {}

    def ceph(self, *words):
        run("ceph", "--connect-timeout", 30, *words)

    def resize(self, _):
        more = self.chance.random() < 0.5
        self.ceph("osd", "pool", "set", self.pool, "pg_num", PGS_MORE if more else PGS)

    def out_and_in(self, osd):
        self.ceph("osd", "out", osd)
        self.stopping.wait(self.chance.uniform(0.5, 4))
        self.ceph("osd", "in", osd)

    def down(self, osd):
        self.ceph("osd", "down", osd)

    def kill(self, osd):
        self.machine.kill_osd(osd)
        self.stopping.wait(self.chance.uniform(0, 2))
        self.machine.start_osd(osd)

    def run(self):
        try:
            while not self.stopping.wait(self.chance.uniform(0.2, 2.5)):
                action = self.chance.choice([self.resize, self.resize, self.out_and_in, self.down, self.kill])
                action(self.chance.randrange(OSDS))
                self.done[action.__name__] = self.done.get(action.__name__, 0) + 1
        except (Wrong, subprocess.TimeoutExpired) as error: self.error = error


def create_pool(pool, kind):
    create = "ceph", "osd", "pool", "create", pool, PGS, PGS
    if kind == "replicated":
        run(*create)
        run("ceph", "osd", "pool", "set", pool, "size", COPIES)
        run("ceph", "osd", "pool", "set", pool, "min_size", 1)
        return
    run("ceph", "config", "set", "mon", "osd_pool_default_flag_ec_overwrites", str(kind == "overwrites").lower())
    run("ceph", "osd", "erasure-code-profile", "set", "model", *PROFILE)
    run(*create, "erasure", "model")


def one_run(machine, number, kind, seconds_max, log):
    pool = f"model-{number}"
    create_pool(pool, kind)
    machine.wait_clean()
    disturber = Disturber(machine, pool, number)
    command = [*shlex.split(os.environ.get("CLIENT", "")), "env", f"CEPH_CONF={machine.conf}", f"CEPH_ARGS=--log-to-stderr=false",
               "ceph_test_rados", *(["--ec-pool"] if kind == "appends" else []), *OPERATIONS.split(), *KINDS[kind].split(), "--pool", pool]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        disturber.start()
        try: status = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            process.wait()
            status = f"not done within {seconds_max} s"
        disturber.stopping.set()
        disturber.join()
    if disturber.error: raise Wrong(f"run {number}: {disturber.error}")
    if status != 0:
        tail = open(log, errors="replace").read()[-3000:]
        raise Wrong(f"run {number}: ceph_test_rados: {status}, see {log}\n{tail}")
    machine.wait_clean()
    run("ceph", "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    os.remove(log)
    return disturber.done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3 if os.environ.get("SHORT") == "1" else 6)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds-max", type=int, default=300)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    scratch = pathlib.Path(os.environ["SCRATCH"])
    machine = Machine(scratch / "cluster", osds=OSDS, disk_size="1G")
    total, failed = {}, 0
    for number in range(args.first, args.first + args.runs):
        start, kind = time.monotonic(), kinds[number % len(kinds)]
        try:
            for name, count in one_run(machine, number, kind, args.seconds_max, scratch / f"model-{number}.log").items():
                total[name] = total.get(name, 0) + count
            print(f"run {number}, {kind}: passed in {time.monotonic() - start:.0f} s", flush=True)
        except Wrong as wrong:
            failed += 1
            print(f"run {number}, {kind}: {wrong}", flush=True)
            machine.wait_clean()
    print(f"{args.runs - failed} runs passed, {failed} failed; disturbances: {total}")
    machine.stop()
    sys.exit(bool(failed))


main()
