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
        for name in list(self.running):
            self.kill(name)


PROCESSES = Processes()
PEERS, CLIENTS = free_ports(3), free_ports(3)
MONITORS = dict(zip("abc", free_ports(3)))
URLS = ",".join(f"http://127.0.0.1:{port}" for port in CLIENTS)


def start_etcd(index):
    cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(PEERS))
    client, peer = (f"http://127.0.0.1:{ports[index]}" for ports in (CLIENTS, PEERS))
    PROCESSES.start(
        f"etcd{index}", "etcd", "--name", f"m{index}", "--data-dir", f"{SCRATCH}/etcd{index}",
        "--logger", "zap", "--log-level", "error", "--initial-cluster", cluster,
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer)


def start_monitor(name):
    PROCESSES.start(
        f"mon.{name}", SEPIOLA, "mon", "start", "--data", f"{SCRATCH}/{name}", "--name", name,
        "--listen", f"127.0.0.1:{MONITORS[name]}", "--etcd", URLS)


def call(*command, time_max=60):
    done = subprocess.run(command, capture_output=True, text=True, timeout=time_max)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def ceph(*words, monitor=None, time_max=60):
    at = ["-m", f"127.0.0.1:{MONITORS[monitor]}"] if monitor else []
    return call("ceph", "--connect-timeout", str(time_max), *at, *words, time_max=time_max + 5)


def status(monitor=None):
    return json.loads(ceph("status", "-f", "json", monitor=monitor))


def until(what, done, time_max):
    start = time.monotonic()
    while True:
        try:
            if done():
                return time.monotonic() - start
        except (RuntimeError, subprocess.TimeoutExpired):
            pass
        if time.monotonic() - start > time_max:
            sys.exit(f"{what}: not after {time_max} s")
        time.sleep(0.2)


def build():
    for index in range(3):
        start_etcd(index)
    create = [SEPIOLA, "cluster", "create", "--data", f"{SCRATCH}/a", "--name", "a", "--listen",
              f"127.0.0.1:{MONITORS['a']}", "--size", "2", "--etcd", URLS]
    until("the etcd serves", lambda: call(*create), 60)
    for name in MONITORS:
        start_monitor(name)
    conf = f"{SCRATCH}/ceph.conf"
    hosts = ",".join(f"[v2:127.0.0.1:{port}/0]" for port in MONITORS.values())
    with open(f"{SCRATCH}/a/ceph.conf") as first, open(conf, "w") as new:
        new.writelines(f"mon_host = {hosts}\n" if line.startswith("mon_host") else line
                       for line in first)
    os.environ["CEPH_CONF"] = conf
    until("three monitors", lambda: len(status()["quorum"]) == 3, 60)
    for osd in range(3):
        directory = f"{SCRATCH}/osd.{osd}"
        call(SEPIOLA, "osd", "create", "--conf", conf, "--data", directory, "--disk-size", "1G",
             "--host", f"h{osd}")
        PROCESSES.start(f"osd.{osd}", SEPIOLA, "osd", "start", "--data", directory, "--memory", "64M",
                        "--cores", "1")
    until("three OSDs", lambda: status()["osdmap"]["num_up_osds"] == 3, 60)
    ceph("osd", "pool", "create", "data", "16")
    ceph("osd", "pool", "application", "enable", "data", "check")
    until("clean groups", is_clean, 60)


def is_clean():
    groups = status()["pgmap"]
    clean = [s["count"] for s in groups["pgs_by_state"] if s["state_name"] == "active+clean"]
    return sum(clean) == groups["num_pgs"] > 0


def leader():
    return json.loads(ceph("quorum_status"))["quorum_leader_name"]


class Load:
    """Writes all the time; what was acknowledged must read back, and nothing may stall for long."""

    def __init__(self):
        self.bench = subprocess.Popen(
            ["rados", "-p", "data", "bench", "600", "write", "-b", "4096", "-t", "4", "--no-cleanup",
             "--run-name", "load"], stdout=open(f"{SCRATCH}/bench.log", "wb"), stderr=subprocess.STDOUT)
        self.written = {}

    def put(self, name):
        path = f"{SCRATCH}/{name}"
        with open(path, "w") as file:
            file.write(f"contents of {name}")
        start = time.monotonic()
        call("rados", "-p", "data", "put", name, path)
        self.written[name] = f"contents of {name}"
        took = time.monotonic() - start
        for known, contents in self.written.items():
            read = call("rados", "-p", "data", "get", known, "-")
            assert read == contents, f"{known}: {read!r}"
        return took

    def end(self):
        self.bench.send_signal(signal.SIGINT)
        self.bench.wait()
        with open(f"{SCRATCH}/bench.log") as log:
            lines = dict(line.split(":", 1) for line in log if line.count(":") == 1)
        longest = float(lines["Max latency(s)"])
        assert longest < STALL_MAX, f"a write took {longest} s"
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
    print(f"the longest write of the load took {load.end():.2f} s")


if __name__ == "__main__":
    try:
        main()
    finally:
        PROCESSES.end()
