"""Three monitors on an etcd of three members, OSDs of their own, and stock clients under load.

A monitor, a member of the etcd and then the etcd's quorum are killed; reads and writes go on under
the maps that everybody has, what was acknowledged reads back, and changes go on once they can.
Needs SEPIOLA (the binary), SCRATCH (an empty directory), etcd, and ceph and rados.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

SEPIOLA = os.environ["SEPIOLA"]
SCRATCH = os.environ["SCRATCH"]
TAKEOVER_MAX = 15
STALL_MAX = 5.0


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Processes:
    def __init__(self):
        self.running = {}

    def start(self, name, *command):
        log = open(f"{SCRATCH}/{name}.log", "ab")
        self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def end(self):
        self.bench.send_signal(signal.SIGINT)
        self.bench.wait()
        # A line a second: the time, what is in flight, started, finished, and rates.
        with open(f"{SCRATCH}/bench.log") as log:
            lines = [line.split() for line in log]
        finished = [int(line[3]) for line in lines if len(line) == 8 and line[0].isdigit()]
        longest = still = 0
        for before, after in zip(finished, finished[1:]):
            still = still + 1 if after == before else 0
            longest = max(longest, still)
        assert longest < STALL_MAX, f"nothing was written for {longest} s"
        return longest


def main():
    build()
    answers = {name: status(name) for name in MONITORS}
    used = {name: answer["pgmap"]["num_pgs"] for name, answer in answers.items()}
    assert len(set(used.values())) == 1, used
    load = Load()
    load.put("before")

    first = leader()
    PROCESSES.kill(f"mon.{first}")
    load.put("without-its-leader")
    took = until("another leader", lambda: leader() != first, TAKEOVER_MAX)
    ceph("osd", "pool", "create", "second", "4")
    print(f"mon.{first} led and was killed; another one led after {took:.1f} s")
    start_monitor(first)
    until("it is back", lambda: len(status()["quorum"]) == 3, 30)

    PROCESSES.kill("etcd0")
    start = time.monotonic()
    ceph("osd", "set", "noout")
    load.put("without-one-member")
    print(f"a member of the etcd was killed; the next change took {time.monotonic() - start:.1f} s")

    PROCESSES.kill("etcd1")
    time.sleep(6)  # longer than leases last: whoever judged by them would judge now
    load.put("without-a-quorum")
    assert status()["osdmap"]["num_up_osds"] == 3
    try:
        ceph("osd", "unset", "noout", time_max=3)
        sys.exit("a change was made without a quorum")
    except (RuntimeError, subprocess.TimeoutExpired):
        print("without a quorum: reads, writes and status go on, changes wait")

    start_etcd(0)
    start_etcd(1)
    took = until("changes again", lambda: ceph("osd", "pool", "create", "third", "4") is not None, 60)
    print(f"the quorum is back; the next change was made after {took:.1f} s")
    load.put("after")
    until("clean groups", is_clean, 60)
    print(f"the load stood still for at most {load.end()} s")


if __name__ == "__main__":
    try:
        main()
    finally:
        PROCESSES.end()
