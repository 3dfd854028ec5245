"""Several machines on one: network namespaces with an address each, OSDs in them, faults, and a stock client.

  hosts.py [--hosts N] [--osds PER_HOST] [--only FAULT,…] [--short] [--strict] [--keep]
SEPIOLA is the binary; everything lies below SCRATCH. It needs root. All network devices are in namespaces of this
run's own, so several runs do not meet, and nothing is left behind.

A client process writes objects all the time by librados, each with contents that tell name and version, and reads
some back. For each fault it tells the longest time in which nothing was acknowledged. In the end every
acknowledged object must be read back as it was written last. After each fault the cluster must become clean, and
health must have said what happened, and no longer say it.
"""
import argparse, atexit, collections, hashlib, json, os, pathlib, random, select, shutil, signal, socket, struct
import subprocess, sys, threading, time

POOL = "hosts"
DISK_SIZE, MEMORY = "512M", "64M"
CLEAN_TIME_MAX, START_TIME_MAX = 120, 60
# What a stall may last: seconds where a connection breaks, and where a machine goes silent.
BROKEN, SILENT = 1.0, 3.0
# The same for machines that are busy with something else.
SLACK = 3.0
MONITOR = "10.77.0.1:3300"


class Wrong(Exception):
    pass


def run(*command, check=True, quiet=False, input=None, env=None, timeout=120):
    done = subprocess.run(command, capture_output=True, text=True, input=input, env=env, timeout=timeout)
    if check and done.returncode != 0:
        raise Wrong(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for(what, condition, limit):
    start = time.monotonic()
    while True:
        value = condition()
        if value: return value
        if time.monotonic() - start > limit: raise Wrong(f"not within {limit} s: {what}")
        time.sleep(0.1)


# The network.

class Network:
    """A switch, and machines on it; each link can be cut, also one way, and made to lose packets."""

    DROP = "1,6 0 0 2"

    def __init__(self, hosts):
        self.prefix = f"sep{os.getpid()}"
        self.switch = f"{self.prefix}-net"
        self.hosts = hosts + ["client"]
        atexit.register(self.remove)
        run("ip", "netns", "add", self.switch)
        self.inside("ip", "link", "add", "name", "switch", "type", "bridge")
        self.inside("ip", "link", "set", "dev", "switch", "up")
        for number, host in enumerate(self.hosts): self.attach(host, number + 1)

    def inside(self, *command):
        return run("ip", "netns", "exec", self.switch, *command)

    def attach(self, host, number):
        space = self.space(host)
        run("ip", "netns", "add", space)
        run("ip", "-n", self.switch, "link", "add", f"p-{host}", "type", "veth", "peer", "name", "eth0", "netns", space)
        self.inside("ip", "link", "set", f"p-{host}", "master", "switch", "up")
        self.inside("tc", "qdisc", "add", "dev", f"p-{host}", "clsact")
        for command in [f"addr add 10.77.0.{number}/24 dev eth0", "link set eth0 up", "link set lo up"]:
            run("ip", "-n", space, *command.split())

    def space(self, host):
        return f"{self.prefix}-{host}"

    def address(self, host):
        return f"10.77.0.{self.hosts.index(host) + 1}"

    def filter(self, host, direction, program):
        """`out` is what the host sends, `in` what it gets."""
        side = "ingress" if direction == "out" else "egress"
        self.inside("tc", "filter", "add", "dev", f"p-{host}", side, "bpf", "da", "bytecode", program)

    def cut(self, host, direction):
        self.filter(host, direction, self.DROP)

    def lose(self, host, share):
        """Of each direction's packets this share, at random."""
        threshold = int((1 - share) * 2**32)
        for direction in ["in", "out"]:
            self.filter(host, direction, f"4,32 0 0 4294963256,53 0 1 {threshold},6 0 0 2,6 0 0 0")

    def mend(self, host):
        for side in ["ingress", "egress"]: self.inside("tc", "filter", "del", "dev", f"p-{host}", side)

    def delay(self, host, milliseconds):
        """Whether the kernel can."""
        command = ["ip", "netns", "exec", self.switch, "tc", "qdisc", "add", "dev", f"p-{host}", "root", "netem",
                   "delay", f"{milliseconds}ms", f"{milliseconds / 2}ms"]
        return subprocess.run(command, capture_output=True).returncode == 0

    def no_delay(self, host):
        self.inside("tc", "qdisc", "del", "dev", f"p-{host}", "root")

    def remove(self):
        for space in [self.switch] + [self.space(host) for host in self.hosts]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


# The daemons.

class Cluster:
    def __init__(self, scratch, network, hosts, per_host):
        self.binary = os.environ["SEPIOLA"]
        self.scratch, self.network, self.host_names = scratch, network, hosts
        self.conf = scratch / "mon" / "ceph.conf"
        self.processes, self.osds = {}, {}
        atexit.register(self.stop)
        self.start_monitor()
        for host in hosts:
            for _ in range(per_host): self.create(host)
        for osd in self.osds: self.start(osd)
        for osd in self.osds: self.wait_started(osd)

    def on(self, host, *command):
        return ["ip", "netns", "exec", self.network.space(host), *command]

    def spawn(self, name, host, *command):
        log = open(self.scratch / f"{name}.log", "a")
        environment = dict(os.environ, SEPIOLA_LOG=os.environ.get("SEPIOLA_LOG", "info"))
        command = self.on(host, self.binary, *command)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True,
                                   start_new_session=True)
        self.processes[name] = process
        return process

    def wait_line(self, name, words):
        process, deadline = self.processes[name], time.monotonic() + START_TIME_MAX
        while time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 1)[0]:
                line = process.stdout.readline()
                if any(word in line for word in words): return
                if not line: break
        raise Wrong(f"{name} did not start; see {self.scratch}/{name}.log")

    def start_monitor(self):
        self.spawn("mon", self.host_names[0], "up", "--osds", "0", "--listen", MONITOR, "--data",
                   str(self.scratch / "mon"))
        self.wait_line("mon", ["healthy:", "ready:"])

    def directory(self, osd):
        return self.scratch / f"osd.{osd}"

    def create(self, host):
        osd = len(self.osds)
        run(*self.on(host, self.binary, "osd", "create", "--conf", str(self.conf), "--data",
                     str(self.directory(osd)), "--disk-size", DISK_SIZE, "--host", host))
        self.osds[osd] = host

    def start(self, osd):
        self.spawn(f"osd.{osd}", self.osds[osd], "osd", "start", "--data", str(self.directory(osd)),
                   "--memory", MEMORY)

    def wait_started(self, osd):
        self.wait_line(f"osd.{osd}", ["started"])

    def kill(self, name, number=signal.SIGKILL):
        process = self.processes[name]
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(30)
            process.stdout.close()

    def ceph(self, *command, check=True):
        environment = dict(os.environ, CEPH_CONF=str(self.conf))
        client = self.on("client", "/usr/bin/ceph", "--connect-timeout", "20", *command)
        return run(*client, check=check, env=environment)

    def health(self):
        report = json.loads(self.ceph("health", "detail", "-f", "json"))
        return {name: check["summary"]["message"] for name, check in report["checks"].items()}

    def is_clean(self):
        status = json.loads(self.ceph("status", "-f", "json"))
        pgs, osds = status["pgmap"], status["osdmap"]
        clean = sum(s["count"] for s in pgs["pgs_by_state"] if s["state_name"] == "active+clean")
        all_up = osds["num_up_osds"] == osds["num_osds"] == len(self.osds)
        return all_up and pgs["num_pgs"] > 0 and clean == pgs["num_pgs"]

    def wait_clean(self):
        wait_for("all OSDs up and all groups clean", self.is_clean, CLEAN_TIME_MAX)
        wait_for(f"health without complaints: {self.health()}", lambda: not self.health(), CLEAN_TIME_MAX)

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


# The client, in a process of its own in its namespace.

def contents(name, version):
    generator = random.Random(f"{name} {version}")
    length = generator.choice([100, 4096, 4096, 16384, 70000])
    return b"%s %d " % (name.encode(), version) + generator.randbytes(length)


class Load:
    IN_FLIGHT, NAMES = 16, 400

    def __init__(self):
        import rados
        self.cluster = rados.Rados(conffile="", rados_id="admin")
        self.cluster.connect()
        self.pool = self.cluster.open_ioctx(POOL)
        self.lock = threading.Condition()
        # Per name: the version that was acknowledged last, and the newest that was sent.
        self.acknowledged, self.sent, self.busy = {}, collections.Counter(), set()
        self.stopping = False
        self.reset()

    def reset(self):
        self.acks, self.errors, self.stall, self.last = 0, [], 0.0, time.monotonic()

    def note(self):
        now = time.monotonic()
        self.stall = max(self.stall, now - self.last)
        self.last = now

    def write_all(self):
        generator = random.Random(1)
        while not self.stopping:
            with self.lock:
                while len(self.busy) >= self.IN_FLIGHT and not self.stopping: self.lock.wait()
                if self.stopping: break
                name = f"object.{generator.randrange(self.NAMES)}"
                if name in self.busy: continue
                self.busy.add(name)
                self.sent[name] += 1
                version = self.sent[name]
            done = lambda completion, name=name, version=version: self.done(completion, name, version)
            self.pool.aio_write_full(name, contents(name, version), oncomplete=done)
            time.sleep(0.002)
        with self.lock:
            while self.busy: self.lock.wait()

    def done(self, completion, name, version):
        result = completion.get_return_value()
        with self.lock:
            self.busy.discard(name)
            if result == 0:
                self.acks += 1
                self.acknowledged[name] = version
                self.note()
            else:
                self.errors.append(f"{name}: {result}")
            self.lock.notify_all()

    def report(self):
        with self.lock:
            now = time.monotonic()
            stall = max(self.stall, now - self.last)
            return {"acks": self.acks, "stall": round(stall, 3), "errors": self.errors[:5]}

    def wrong(self):
        """Of all objects, those that are not as they were acknowledged last."""
        wrong = []
        for name, version in sorted(self.acknowledged.items()):
            try:
                found = self.pool.read(name, 1 << 20)
            except Exception as error:
                wrong.append(f"{name}: {error}")
                continue
            if found != contents(name, version): wrong.append(f"{name}: not version {version} but {found[:30]}")
        return wrong

    def serve(self):
        writer = threading.Thread(target=self.write_all)
        writer.start()
        for line in sys.stdin:
            answer = {}
            if line.strip() == "reset":
                with self.lock: self.reset()
            elif line.strip() == "report":
                answer = self.report()
            elif line.strip() == "finish":
                self.stopping = True
                with self.lock: self.lock.notify_all()
                writer.join()
                answer = {"wrong": self.wrong(), "objects": len(self.acknowledged)}
            print(json.dumps(answer), flush=True)
        os._exit(0)


class Client:
    def __init__(self, cluster):
        environment = dict(os.environ, CEPH_CONF=str(cluster.conf))
        command = cluster.on("client", "/usr/bin/python3", os.path.abspath(__file__), "--load")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def ask(self, question, limit=120):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], limit)[0]: raise Wrong(f"the client does not {question}")
        line = self.process.stdout.readline()
        if not line: raise Wrong("the client has died")
        return json.loads(line)

    def stop(self):
        if self.process.poll() is None: self.process.kill()


# What goes wrong. Each is given the cluster, does something, yields while it lasts, and mends it.

def kill_osd(cluster, seconds):
    osd = len(cluster.osds) - 1
    cluster.kill(f"osd.{osd}")
    yield seconds
    cluster.start(osd)
    cluster.wait_started(osd)


def pause_osd(cluster, seconds):
    osd = 1
    cluster.kill(f"osd.{osd}", signal.SIGSTOP)
    yield seconds
    cluster.kill(f"osd.{osd}", signal.SIGCONT)


def cut(directions):
    def fault(cluster, seconds):
        host = cluster.host_names[-1]
        for direction in directions: cluster.network.cut(host, direction)
        yield seconds
        cluster.network.mend(host)
    return fault


def lose_packets(cluster, seconds):
    host = cluster.host_names[-1]
    cluster.network.lose(host, 0.02)
    delayed = cluster.network.delay(host, 5)
    yield seconds
    if delayed: cluster.network.no_delay(host)
    cluster.network.mend(host)


def kill_monitor(cluster, seconds):
    cluster.kill("mon")
    yield seconds
    cluster.start_monitor()


def replace_disk(cluster, seconds):
    """The newest OSD dies with its disk, and gets a new one under its old number."""
    osd = len(cluster.osds) - 1
    cluster.kill(f"osd.{osd}")
    shutil.rmtree(cluster.directory(osd))
    yield seconds
    run(*cluster.on(cluster.osds[osd], cluster.binary, "osd", "replace", "--conf", str(cluster.conf), "--id",
                    str(osd), "--data", str(cluster.directory(osd)), "--disk-size", DISK_SIZE,
                    "--host", cluster.osds[osd]))
    cluster.start(osd)
    cluster.wait_started(osd)


# Name: the fault, how long a stall may be, and what health says of it.
FAULTS = {
    "kill": (kill_osd, BROKEN, "OSD_DOWN"),
    "cut": (cut(["in", "out"]), SILENT, "OSD_DOWN"),
    "pause": (pause_osd, SILENT, "OSD_DOWN"),
    "cut-in": (cut(["in"]), SILENT, "OSD_DOWN"),
    "cut-out": (cut(["out"]), SILENT, "OSD_DOWN"),
    "loss": (lose_packets, SILENT, None),
    "monitor": (kill_monitor, SILENT, None),
    "replace": (replace_disk, BROKEN, "OSD_DOWN"),
}
SHORT = ["kill", "cut", "pause"]


def run_fault(cluster, client, name, seconds, slack):
    fault, bound, complaint = FAULTS[name]
    client.ask("reset")
    steps = fault(cluster, seconds)
    start, seen = time.monotonic(), {}
    lasts = next(steps)
    while time.monotonic() - start < lasts:
        if name != "monitor": seen.update(cluster.health())
        time.sleep(0.3)
    during = client.ask("report")
    next(steps, None)
    mended = time.monotonic()
    cluster.wait_clean()
    clean = time.monotonic() - mended
    total = client.ask("report")
    said = ", ".join(sorted(seen)) or "nothing"
    print(f"{name:8} stall {during['stall']:6.2f} s, over all {total['stall']:6.2f} s; clean {clean:5.1f} s after; "
          f"{total['acks']} writes; health said {said}", flush=True)
    if total["errors"]: raise Wrong(f"{name}: writes failed: {total['errors']}")
    if total["stall"] > bound * slack: raise Wrong(f"{name}: a stall of {total['stall']} s; allowed are {bound * slack} s")
    if complaint and complaint not in seen: raise Wrong(f"{name}: health never said {complaint}, but {seen}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--osds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--short", action="store_true", default=os.environ.get("SHORT") == "1")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    if arguments.load: return Load().serve()
    if os.geteuid() != 0: return print("skipped: network namespaces need root")
    names = arguments.only.split(",") if arguments.only else SHORT if arguments.short else list(FAULTS)
    seconds = arguments.seconds or (6 if arguments.short else 10)
    scratch = pathlib.Path(os.environ.get("SCRATCH", ".")).absolute() / f"hosts.{os.getpid()}"
    scratch.mkdir(parents=True)
    hosts = [f"host{number + 1}" for number in range(arguments.hosts)]
    network = Network(hosts)
    cluster = Cluster(scratch, network, hosts, arguments.osds)
    cluster.ceph("osd", "pool", "create", POOL, "32")
    cluster.ceph("osd", "pool", "application", "enable", POOL, "rados")
    cluster.wait_clean()
    client = Client(cluster)
    atexit.register(client.stop)
    client.ask("report")
    time.sleep(2)
    for name in names: run_fault(cluster, client, name, seconds, 1.0 if arguments.strict else SLACK)
    result = client.ask("finish", 300)
    if result["wrong"]: raise Wrong(f"{len(result['wrong'])} objects are not as acknowledged: {result['wrong'][:5]}")
    print(f"{result['objects']} objects are as they were acknowledged last", flush=True)
    client.stop()
    cluster.stop()
    for osd in cluster.osds: run(cluster.binary, "store", "fsck", "--deep", str(cluster.directory(osd)), timeout=600)
    if not arguments.keep: shutil.rmtree(scratch)


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"hosts: {wrong}")
