"""Several machines on one: network namespaces, an etcd of a member on each, monitors, OSDs, and a client that verifies.

All network devices are in namespaces of this run's own, so several runs do not meet, and nothing is left behind.
SEPIOLA is the binary; everything lies below SCRATCH. It needs root, etcd, and stock clients.
"""
import atexit, collections, json, os, pathlib, random, select, signal, subprocess, sys, threading, time
from tools import Wrong, run, until

POOL = "load"
DISK_SIZE, MEMORY = "512M", "64M"
CLEAN_TIME_MAX, START_TIME_MAX = 120, 60


class Network:
    """A switch, and machines on it; each link can be cut, also one way, and made to lose packets."""

    DROP = "1,6 0 0 2"

    def __init__(self, hosts, subnet="10.77.0"):
        self.prefix, self.subnet = f"sep{os.getpid()}", subnet
        self.switch = f"{self.prefix}-net"
        self.hosts = hosts
        atexit.register(self.remove)
        run("ip", "netns", "add", self.switch)
        self.inside("ip", "link", "add", "name", "switch", "type", "bridge")
        self.inside("ip", "link", "set", "dev", "switch", "up")
        for number, host in enumerate(hosts): self.attach(host, number + 1)

    def inside(self, *command):
        return run("ip", "netns", "exec", self.switch, *command)

    def attach(self, host, number):
        space = self.space(host)
        run("ip", "netns", "add", space)
        run("ip", "-n", self.switch, "link", "add", f"p-{host}", "type", "veth", "peer", "name", "eth0", "netns", space)
        self.inside("ip", "link", "set", f"p-{host}", "master", "switch", "up")
        self.inside("tc", "qdisc", "add", "dev", f"p-{host}", "clsact")
        for command in [f"addr add {self.subnet}.{number}/24 dev eth0", "link set eth0 up", "link set lo up"]:
            run("ip", "-n", space, *command.split())

    def space(self, host):
        return f"{self.prefix}-{host}"

    def address(self, host):
        return f"{self.subnet}.{self.hosts.index(host) + 1}"

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


class Disk:
    """A loop device over a file, which can be pulled."""

    def __init__(self, path, size):
        self.path = path
        with open(path, "wb") as file: file.truncate(size)
        self.size = size
        self.device = run("losetup", "--find", "--show", str(path)).strip()
        atexit.register(self.remove)

    def resize(self, size):
        os.truncate(self.path, size)
        run("losetup", "--set-capacity", self.device)

    def pull(self):
        """All that is read or written from here on is an error."""
        self.resize(4096)

    def exchange(self):
        self.resize(0)
        self.resize(self.size)

    def remove(self):
        subprocess.run(["losetup", "--detach", self.device], capture_output=True)


class Lab:
    """Hosts `host1`… with an etcd member, a monitor (`a`…) and OSDs each, and a client's."""

    def __init__(self, scratch, hosts, osds, code=""):
        self.binary = os.environ["SEPIOLA"]
        self.scratch = pathlib.Path(scratch)
        self.hosts = [f"host{number + 1}" for number in range(hosts)]
        self.monitors = dict(zip("abcdefg", self.hosts))
        self.network = Network(self.hosts + ["client"])
        self.conf = self.scratch / "ceph.conf"
        self.processes, self.osds, self.disks = {}, {}, {}
        atexit.register(self.stop)
        self.urls = ",".join(f"http://{self.network.address(host)}:2379" for host in self.hosts)
        for host in self.hosts: self.start_etcd(host)
        self.create_cluster()
        for name in self.monitors: self.start_monitor(name)
        self.write_conf()
        until("all monitors", lambda: len(self.status()["quorum"]) == hosts, 60)
        # Each fault is to be met as if it were the first: machines that came back are not suspected for it.
        self.ceph("config", "set", "mon", "mon_osd_adjust_heartbeat_grace", "false")
        # The machine of a test may have a full disk of its own, which is no fault of the cluster.
        for limit in ("mon_data_avail_warn", "mon_data_avail_crit"): self.ceph("config", "set", "mon", limit, "0")
        for _ in range(osds):
            for host in self.hosts: self.create_osd(host)
        for osd in self.osds: self.start_osd(osd, wait=False)
        for osd in self.osds: self.wait_line(f"osd.{osd}", "started")
        self.create_pool(code)
        self.ceph("osd", "pool", "application", "enable", POOL, "rados")
        self.wait_clean()

    def create_pool(self, code):
        """Replicated, or of a code such as 2+1 with one shard on each host."""
        kind = []
        if code:
            k, m = code.split("+")
            self.ceph("osd", "erasure-code-profile", "set", POOL, f"k={k}", f"m={m}", "crush-failure-domain=host")
            kind = ["32", "erasure", POOL]
        self.ceph("osd", "pool", "create", POOL, "32", *kind)

    # Processes.

    def on(self, host, *command):
        return ["ip", "netns", "exec", self.network.space(host), *map(str, command)]

    def spawn(self, name, host, *command):
        log = open(self.scratch / f"{name}.log", "a")
        environment = dict(os.environ, SEPIOLA_LOG=os.environ.get("SEPIOLA_LOG", "info"))
        process = subprocess.Popen(self.on(host, *command), stdout=subprocess.PIPE, stderr=log, env=environment,
                                   text=True, start_new_session=True)
        self.processes[name] = process

    def wait_line(self, name, word):
        process, deadline = self.processes[name], time.monotonic() + START_TIME_MAX
        while time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 1)[0]:
                line = process.stdout.readline()
                if word in line: return
                if not line: break
        raise Wrong(f"{name} did not start; see {self.scratch}/{name}.log")

    def kill(self, name, number=signal.SIGKILL):
        process = self.processes[name]
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(30)
            process.stdout.close()

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def start_etcd(self, host):
        url = lambda other, port: f"http://{self.network.address(other)}:{port}"
        members = ",".join(f"{other}={url(other, 2380)}" for other in self.hosts)
        self.spawn(f"etcd.{host}", host, "etcd", "--name", host, "--data-dir", self.scratch / f"etcd.{host}",
                   "--logger", "zap", "--log-level", "error", "--initial-cluster", members,
                   "--listen-client-urls", url(host, 2379), "--advertise-client-urls", url(host, 2379),
                   "--listen-peer-urls", url(host, 2380), "--initial-advertise-peer-urls", url(host, 2380))

    def create_cluster(self):
        first = self.hosts[0]
        create = self.on(first, self.binary, "cluster", "create", "--data", self.scratch / "mon.a", "--name", "a",
                         "--listen", self.network.address(first), "--etcd", self.urls)
        def try_it():
            run(*create)
            return True
        until("the etcd serves", try_it, 60)

    def start_monitor(self, name):
        host = self.monitors[name]
        self.spawn(f"mon.{name}", host, self.binary, "mon", "start", "--data", self.scratch / f"mon.{name}",
                   "--name", name, "--listen", self.network.address(host), "--etcd", self.urls)
        self.wait_line(f"mon.{name}", "listens")

    def write_conf(self):
        """The first monitor's, with the addresses of all, for every machine."""
        hosts = ",".join(f"[v2:{self.network.address(host)}:3300/0]" for host in self.monitors.values())
        lines = (self.scratch / "mon.a" / "ceph.conf").read_text().splitlines()
        lines = [f"mon_host = {hosts}" if line.startswith("mon_host") else line for line in lines]
        self.conf.write_text("\n".join(lines) + "\n")

    def directory(self, osd):
        return self.scratch / f"osd.{osd}"

    def store_arguments(self, osd):
        if osd in self.disks: return ["--disk", self.disks[osd].device]
        return ["--disk-size", DISK_SIZE]

    def create_osd(self, host, disk=None):
        osd = len(self.osds)
        if disk: self.disks[osd] = disk
        run(*self.on(host, self.binary, "osd", "create", "--conf", self.conf, "--data", self.directory(osd),
                     *self.store_arguments(osd), "--host", host))
        self.osds[osd] = host
        return osd

    def start_osd(self, osd, wait=True):
        self.spawn(f"osd.{osd}", self.osds[osd], self.binary, "osd", "start", "--data", self.directory(osd),
                   "--conf", self.conf, "--memory", MEMORY)
        if wait: self.wait_line(f"osd.{osd}", "started")

    # State of the cluster.

    def environment(self):
        return dict(os.environ, CEPH_CONF=str(self.conf))

    def ceph(self, *command, limit=30):
        client = self.on("client", "/usr/bin/ceph", "--connect-timeout", limit, *command)
        return run(*client, env=self.environment(), timeout=limit + 10)

    def json(self, *command):
        return json.loads(self.ceph(*command, "-f", "json"))

    def status(self):
        return self.json("status")

    def health(self):
        checks = self.json("health", "detail")["checks"]
        return {name: check["summary"]["message"] for name, check in checks.items()}

    def leader(self):
        return self.json("quorum_status")["quorum_leader_name"]

    def is_clean(self):
        status = self.status()
        pgs, osds = status["pgmap"], status["osdmap"]
        clean = sum(s["count"] for s in pgs["pgs_by_state"] if s["state_name"] == "active+clean")
        all_up = osds["num_up_osds"] == osds["num_osds"] == len(self.osds)
        return all_up and pgs["num_pgs"] > 0 and clean == pgs["num_pgs"]

    def wait_clean(self):
        until("all OSDs up and all groups clean", self.is_clean, CLEAN_TIME_MAX)
        until(f"health without complaints, of {self.health()}", lambda: not self.health(), CLEAN_TIME_MAX)

    def etcd_leader(self):
        endpoints = self.on("client", "etcdctl", "--endpoints", self.urls, "endpoint", "status", "-w", "json")
        answer = json.loads(run(*endpoints, env=dict(os.environ, ETCDCTL_API="3")))
        for number, member in enumerate(answer):
            status = member["Status"]
            if status["leader"] == status["header"]["member_id"]: return self.hosts[number]
        raise Wrong("the etcd has no leader")

    def check_stores(self):
        """After the end: each store is sound. The kernel may still be at work for a killed process."""
        self.stop()
        for osd in self.osds:
            fsck = [self.binary, "store", "fsck", "--deep", str(self.directory(osd))]
            def is_sound():
                run(*fsck, timeout=600)
                return True
            until(f"osd.{osd} is sound", is_sound, 20)


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
            stall = max(self.stall, time.monotonic() - self.last)
            return {"acks": self.acks, "stall": round(stall, 3), "errors": self.errors[:5]}

    def wrong(self):
        """Of all objects, those that are not as they were acknowledged last."""
        with self.lock:
            settled = {name: version for name, version in self.acknowledged.items() if name not in self.busy}
        wrong = []
        for name, version in sorted(settled.items()):
            try:
                found = self.pool.read(name, 1 << 20)
            except Exception as error:
                wrong.append(f"{name}: {error}")
                continue
            with self.lock:
                if self.sent[name] != version: continue  # written again meanwhile
            if found != contents(name, version): wrong.append(f"{name}: not version {version} but {found[:30]}")
        return {"wrong": wrong[:5], "objects": len(settled)}

    def serve(self):
        writer = threading.Thread(target=self.write_all)
        writer.start()
        for line in sys.stdin:
            answer, word = {}, line.strip()
            if word == "reset":
                with self.lock: self.reset()
            elif word == "report":
                answer = self.report()
            elif word == "verify":
                answer = self.wrong()
            elif word == "finish":
                self.stopping = True
                with self.lock: self.lock.notify_all()
                writer.join()
                answer = self.wrong()
            print(json.dumps(answer), flush=True)
        os._exit(0)


class Client:
    def __init__(self, lab):
        command = lab.on("client", "/usr/bin/python3", os.path.abspath(__file__), "--load")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=lab.environment())
        atexit.register(self.stop)
        self.ask("report")

    def ask(self, question, limit=120):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], limit)[0]: raise Wrong(f"the client does not {question}")
        line = self.process.stdout.readline()
        if not line: raise Wrong("the client has died")
        return json.loads(line)

    def check(self, question):
        """Everything that was acknowledged must be as it was written last; of how many objects."""
        found = self.ask(question, 300)
        if found["wrong"]: raise Wrong(f"objects are not as acknowledged: {found['wrong']}")
        return found["objects"]

    def stop(self):
        if self.process.poll() is None: self.process.kill()


if __name__ == "__main__" and "--load" in sys.argv:
    Load().serve()
