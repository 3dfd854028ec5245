"""The control plane: on an etcd that speaks TLS, moved there and back, lost and rebuilt, with OSDs as processes.

Needs SEPIOLA (the binary), SCRATCH (an empty directory), etcd, openssl, and ceph and rados.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
from tools import Wrong, run, until

SEPIOLA = os.environ["SEPIOLA"]
SCRATCH = pathlib.Path(os.environ["SCRATCH"]).absolute()
SHORT = os.environ.get("SHORT") == "1"
DISK = ["--disk-size", "256M"]
MEMORY = ["--memory", "64M"]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def refused(reason, *command):
    try:
        run(*command)
    except Wrong as wrong:
        if reason not in str(wrong):
            raise
        return
    raise Wrong(f"{command} should have been refused")


class Processes:
    def __init__(self):
        self.running = {}

    def start(self, name, *command):
        log = open(SCRATCH / f"{name}.log", "ab")
        self.running[name] = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL)

    def stop(self, name, number=signal.SIGTERM):
        process = self.running.pop(name)
        process.send_signal(number)
        process.wait(60)

    def end(self):
        for name in list(self.running):
            self.stop(name, signal.SIGKILL)


PROCESSES = Processes()


class Cluster:
    """Clients' view of the cluster whose configuration lies in `directory`."""

    def __init__(self, directory):
        self.conf = directory / "ceph.conf"

    def run(self, *words, time_max=60):
        return run(*words, env=dict(os.environ, CEPH_CONF=str(self.conf)), timeout=time_max)

    def ceph(self, *words, time_max=30):
        return self.run("ceph", "--connect-timeout", time_max, *words, time_max=time_max + 5)

    def status(self):
        return json.loads(self.ceph("status", "-f", "json"))

    def is_clean(self):
        status = self.status()
        groups, osds = status["pgmap"], status["osdmap"]
        clean = [s["count"] for s in groups["pgs_by_state"] if s["state_name"] == "active+clean"]
        return sum(clean) == groups["num_pgs"] > 0 and osds["num_up_osds"] == osds["num_osds"]

    def create_pool(self, name):
        self.ceph("osd", "pool", "create", name, "8")
        self.ceph("osd", "pool", "application", "enable", name, "check")
        until("clean groups", self.is_clean)

    def put(self, name):
        path = SCRATCH / "object"
        path.write_text(f"contents of {name}")
        self.run("rados", "-p", "data", "put", name, path)

    def check(self, *names):
        for name in names:
            read = self.run("rados", "-p", "data", "get", name, "-")
            assert read == f"contents of {name}", f"{name}: {read!r}"


# An etcd with certificates of our own.

def make_certificates(directory):
    directory.mkdir()
    key = ["-newkey", "rsa:2048", "-nodes"]
    run("openssl", "req", "-x509", *key, "-keyout", directory / "ca.key", "-out", directory / "ca.pem", "-days", "2",
         "-subj", "/CN=an authority of our own")
    for name in ["server", "client"]:
        request = directory / f"{name}.csr"
        extensions = directory / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        run("openssl", "req", *key, "-keyout", directory / f"{name}.key", "-out", request, "-subj", f"/CN={name}")
        run("openssl", "x509", "-req", "-in", request, "-CA", directory / "ca.pem", "-CAkey", directory / "ca.key",
             "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", directory / f"{name}.pem")


class Etcd:
    def __init__(self, name, certificates=None):
        client, peer = free_ports(2)
        scheme = "https" if certificates else "http"
        self.url, self.name, self.certificates = f"{scheme}://127.0.0.1:{client}", name, certificates
        tls = []
        if certificates:
            tls = ["--cert-file", certificates / "server.pem", "--key-file", certificates / "server.key",
                   "--trusted-ca-file", certificates / "ca.pem", "--client-cert-auth"]
        PROCESSES.start(name, "etcd", "--name", name, "--data-dir", SCRATCH / name, "--logger", "zap", "--log-level",
                        "error", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                        "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls",
                        f"http://127.0.0.1:{peer}", "--initial-cluster", f"{name}=http://127.0.0.1:{peer}", *tls)
        until("the etcd serves", lambda: self.ctl("endpoint", "health"))

    def ctl(self, *words):
        tls = []
        if self.certificates:
            tls = ["--cacert", self.certificates / "ca.pem", "--cert", self.certificates / "client.pem", "--key",
                   self.certificates / "client.key"]
        return run("etcdctl", "--endpoints", self.url, *tls, *words, env=dict(os.environ, ETCDCTL_API="3")) or "done"

    def arguments(self):
        arguments = ["--etcd", self.url]
        if self.certificates:
            arguments += ["--etcd-ca", self.certificates / "ca.pem", "--etcd-cert", self.certificates / "client.pem",
                          "--etcd-key", self.certificates / "client.key"]
        return arguments


# A cluster of processes.

class Machines:
    MONITORS = "ab"

    def __init__(self, etcd):
        self.etcd = etcd
        self.ports = dict(zip(self.MONITORS, free_ports(len(self.MONITORS))))
        self.first = SCRATCH / "mon.a"
        run(SEPIOLA, "cluster", "create", "--data", self.first, "--name", "a", "--listen", self.address("a"), "--size",
             "2", *etcd.arguments())
        self.cluster = Cluster(SCRATCH)
        for name in self.MONITORS:
            self.start_monitor(name)
        self.write_conf()
        until("the monitors", lambda: len(self.cluster.status()["quorum"]) == len(self.MONITORS))
        for osd in range(3):
            run(SEPIOLA, "osd", "create", "--conf", self.cluster.conf, "--data", SCRATCH / f"osd.{osd}", *DISK, "--host",
                 f"h{osd}")
            self.start_osd(osd)
        self.cluster.create_pool("data")

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def start_monitor(self, name):
        PROCESSES.start(f"mon.{name}", SEPIOLA, "mon", "start", "--data", SCRATCH / f"mon.{name}", "--name", name,
                        "--listen", self.address(name), *self.etcd.arguments())

    def start_osd(self, osd):
        PROCESSES.start(f"osd.{osd}", SEPIOLA, "osd", "start", "--data", SCRATCH / f"osd.{osd}", "--conf",
                        self.cluster.conf, *MEMORY, "--cores", "1")

    def write_conf(self):
        hosts = ",".join(f"[v2:{self.address(name)}/0]" for name in self.MONITORS)
        lines = (self.first / "ceph.conf").read_text().splitlines()
        self.cluster.conf.write_text("\n".join(f"mon_host = {hosts}" if line.startswith("mon_host") else line
                                               for line in lines) + "\n")


def names_itself(directory, address):
    """The configuration that a monitor writes when it is started first."""
    text = (directory / "ceph.conf").read_text()
    assert address in text, text


def scrub_from_anywhere(machines):
    """Orders reach every OSD, whichever monitor it has its session with, and also an OSD itself."""
    cluster = machines.cluster
    stamps = lambda: {pg["pgid"]: pg["last_deep_scrub_stamp"]
                      for pg in json.loads(cluster.ceph("pg", "dump", "pgs", "-f", "json"))["pg_stats"]}
    before = stamps()
    cluster.ceph("osd", "deep-scrub", "all")
    until("all groups scrubbed", lambda: all(stamps()[pg] != stamp for pg, stamp in before.items()))
    one = sorted(before)[0]
    before = stamps()[one]
    cluster.ceph("tell", one, "deep-scrub")
    until("one group scrubbed", lambda: stamps()[one] != before)
    cluster.ceph("tell", one, "repair")
    print("scrubs were ordered of all OSDs, and of one group by 'tell'")


def lose_etcd(machines):
    """All that the etcd had is gone; a new one is filled with what the OSDs remember."""
    cluster = machines.cluster
    cluster.put("before-the-loss")
    admin = (machines.first / "ceph.client.admin.keyring").read_text()
    for name in [f"mon.{name}" for name in Machines.MONITORS] + [f"osd.{osd}" for osd in range(3)]:
        PROCESSES.stop(name, signal.SIGKILL)
    PROCESSES.stop(machines.etcd.name, signal.SIGKILL)
    shutil.rmtree(SCRATCH / machines.etcd.name)
    for name in Machines.MONITORS:
        shutil.rmtree(SCRATCH / f"mon.{name}")
    machines.etcd = Etcd("etcd-new", machines.etcd.certificates)
    files = []
    for machine in [["--osd", SCRATCH / "osd.0", "--osd", SCRATCH / "osd.1"], ["--osd", SCRATCH / "osd.2"]]:
        files.append(SCRATCH / f"remains.{len(files)}")
        until("the stores are free", lambda: run(SEPIOLA, "control", "collect", *machine, "--out", files[-1]), 20)
    rebuild = [SEPIOLA, "control", "rebuild", "--data", machines.first, "--listen", machines.address("a"), "--size", "2",
               *machines.etcd.arguments()]
    refused("osd.2", *rebuild, files[0])
    run(*rebuild, *files)
    assert (machines.first / "ceph.client.admin.keyring").read_text() != admin
    for name in Machines.MONITORS:
        machines.start_monitor(name)
    machines.write_conf()
    until("the monitors", lambda: len(cluster.status()["quorum"]) == len(Machines.MONITORS))
    for osd in range(3):
        machines.start_osd(osd)
    took = until("clean groups", cluster.is_clean)
    cluster.check("before-the-loss")
    cluster.put("after-the-rebuild")
    cluster.check("after-the-rebuild")
    print(f"an etcd was lost and rebuilt from the OSDs; clean after {took:.1f} s, everything reads back")


# A cluster on one machine.

def up(directory, *arguments):
    PROCESSES.start(directory.name, SEPIOLA, "up", "--data", directory, *MEMORY, *arguments)
    cluster = Cluster(directory)
    until("the cluster serves", lambda: cluster.conf.exists() and cluster.status()["osdmap"]["num_up_osds"] >= 2)
    return cluster


def move_there_and_back(etcd):
    directory = SCRATCH / "moved"
    new = ["--listen", f"127.0.0.1:{free_ports(1)[0]}", "--osds", "2", *DISK]
    cluster = up(directory, *new)
    cluster.create_pool("data")
    cluster.put("in-the-file")
    move = [SEPIOLA, "control", "move", "--data", directory]
    refused("sepiola down", *move, *etcd.arguments(), "--etcd-prefix", "moved")
    PROCESSES.stop(directory.name)
    run(*move, *etcd.arguments(), "--etcd-prefix", "moved")
    cluster = up(directory)
    assert etcd.ctl("get", "--prefix", "--keys-only", "moved/state/leader").strip() != "done"
    until("clean groups", cluster.is_clean)
    cluster.check("in-the-file")
    cluster.put("on-the-etcd")
    refused("in use", *move, "--back")
    PROCESSES.stop(directory.name)
    run(*move, "--back")
    assert not (directory / "etcd.json").exists()
    cluster = up(directory)
    until("clean groups", cluster.is_clean)
    cluster.check("in-the-file", "on-the-etcd")
    cluster.put("in-the-file-again")
    print("a cluster was moved to an etcd and back, with its data")
    lose_file(directory, cluster)


def lose_file(directory, cluster):
    PROCESSES.stop(directory.name)
    cluster = up(directory, "--fs", "files")
    group = lambda word: cluster.ceph("fs", "subvolumegroup", word, "files", *["kept"][:word == "create"])
    until("a directory is made", lambda: group("create") is not None)
    PROCESSES.stop(directory.name, signal.SIGKILL)
    (directory / "control.redb").unlink()
    osds = [word for osd in range(2) for word in ("--osd", directory / f"osd.{osd}")]
    rebuild = [SEPIOLA, "control", "rebuild", "--data", directory, *osds]
    told = []
    until("the stores are free", lambda: told.append(run(*rebuild)) or told, 20)
    cluster = up(directory)
    until("clean groups", cluster.is_clean)
    cluster.check("in-the-file", "on-the-etcd", "in-the-file-again")
    steps = [line.split()[1:] for line in told[0].splitlines() if line.startswith("  ceph fs ")]
    assert len(steps) == 2, told
    for step in steps:
        cluster.ceph(*step)
    PROCESSES.stop(directory.name)
    cluster = up(directory, "--fs", "files")
    until("the file system has what it had", lambda: "kept" in group("ls"))
    PROCESSES.stop(directory.name)
    print("the control store of one machine was lost and rebuilt from its OSDs")


def up_on_etcd_with_hosts(etcd):
    """A test cluster on a real etcd whose hosts are processes, one of which is replaced."""
    directory = SCRATCH / "hosts"
    cluster = up(directory, "--hosts", "3", *DISK, "--listen", f"127.0.0.1:{free_ports(1)[0]}", *etcd.arguments(),
                 "--etcd-prefix", "hosts")
    cluster.create_pool("data")
    cluster.put("on-three-hosts")
    tree = json.loads(cluster.ceph("osd", "tree", "-f", "json"))["nodes"]
    hosts = sorted(node["name"] for node in tree if node["type"] == "host")
    assert hosts == ["host1", "host2", "host3"], hosts
    parent = PROCESSES.running[directory.name].pid
    children = run("pgrep", "-P", parent).split()
    assert len(children) == 3, children
    os.kill(int(children[0]), signal.SIGKILL)
    until("a host is down", lambda: "OSD_DOWN" in cluster.status()["health"]["checks"])
    down = [node["id"] for node in json.loads(cluster.ceph("osd", "tree", "-f", "json"))["nodes"]
            if node.get("status") == "down"]
    cluster.check("on-three-hosts")
    replaced = SCRATCH / "replaced"
    host = next(node["name"] for node in tree if node["type"] == "host" and node["children"] == down)
    run(SEPIOLA, "osd", "replace", "--conf", cluster.conf, "--old-host", host, "--data", replaced, *DISK)
    PROCESSES.start("replaced", SEPIOLA, "osd", "start", "--data", replaced, *MEMORY)
    until("clean groups", cluster.is_clean)
    cluster.check("on-three-hosts")
    after = json.loads(cluster.ceph("osd", "tree", "-f", "json"))["nodes"]
    places = lambda nodes: {node["name"]: node.get("children") for node in nodes if node["type"] == "host"}
    assert places(after) == places(tree), "ids and places are kept"
    PROCESSES.stop("replaced")
    PROCESSES.stop(directory.name)
    print("a test cluster of three hosts ran on an etcd; one was replaced, with its id and place")


def verify_units():
    units = os.environ.get("UNITS")
    if not units or not shutil.which("systemd-analyze"):
        return print("units left out: no systemd-analyze here")
    # The program is installed elsewhere; everything else is as it is.
    directory = SCRATCH / "units"
    directory.mkdir()
    for unit in pathlib.Path(units).iterdir():
        text = unit.read_text().replace("/usr/bin/sepiola", SEPIOLA).replace("/usr/lib/sepiola/own-directory", "/bin/true")
        (directory / unit.name).write_text(text)
    instances = [directory / name for name in ["sepiola-mon@a.service", "sepiola-osd@3.service", "sepiola-mds@a.service",
                                               "sepiola-up.service", "sepiola.target"]]
    for instance in instances[:3]:
        template = instance.name.split("@")[0] + "@.service"
        shutil.copy(directory / template, instance)
    said = subprocess.run(["systemd-analyze", "--man=no", "verify", *map(str, instances)], capture_output=True, text=True)
    about_ours = [line for line in said.stderr.splitlines() if "sepiola" in line]
    assert said.returncode == 0 and not about_ours, said.stderr
    # Tenths: the exposure that is documented as the most.
    for unit in instances[:4]: run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
    print("systemd has nothing to say against the units")


def main():
    certificates = SCRATCH / "certificates"
    make_certificates(certificates)
    etcd = Etcd("etcd", certificates)
    refused("etcd", SEPIOLA, "cluster", "create", "--data", SCRATCH / "stranger", "--listen", "127.0.0.1:3300", "--etcd",
            etcd.url, "--etcd-ca", certificates / "ca.pem")
    machines = Machines(etcd)
    print("monitors and OSDs run on an etcd that speaks TLS and knows its clients by certificates")
    names_itself(SCRATCH / "mon.b", machines.address("b"))
    scrub_from_anywhere(machines)
    lose_etcd(machines)
    for name in list(PROCESSES.running):
        PROCESSES.stop(name, signal.SIGKILL)
    plain = Etcd("etcd-plain")
    move_there_and_back(plain)
    up_on_etcd_with_hosts(plain)
    verify_units()


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"control: {wrong}")
    finally:
        PROCESSES.end()
