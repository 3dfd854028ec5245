"""A cluster on this machine whose OSDs are processes of their own, which can be killed one by one.

SEPIOLA is the binary; everything lies below a directory of the caller's.
"""
import atexit, json, os, pathlib, select, signal, subprocess, time
from tools import Wrong, run, until

MEMORY = "64M"
START_TIME_MAX, CLEAN_TIME_MAX, SCRUB_TIME_MAX = 60, 180, 120


class Machine:
    def __init__(self, directory, osds=3, disk_size="512M", up=("--osds", 0)):
        self.up = up
        self.binary, self.directory, self.disk_size = os.environ["SEPIOLA"], pathlib.Path(directory), disk_size
        self.directory.mkdir()
        self.processes, self.osds = {}, range(osds)
        atexit.register(self.stop)
        self.monitor = self.directory / "mon"
        self.start_monitor()
        self.conf = self.monitor / "ceph.conf"
        os.environ["CEPH_CONF"] = str(self.conf)
        for osd in self.osds: self.create_osd(osd)
        for osd in self.osds: self.start_osd(osd)

    def start(self, name, words, *command):
        """Returns when it has said one of `words`."""
        log = open(self.directory / f"{name}.log", "a")
        process = subprocess.Popen([self.binary, *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=log, text=True, start_new_session=True)
        self.processes[name] = process
        deadline = time.monotonic() + START_TIME_MAX
        while time.monotonic() < deadline:
            if not select.select([process.stdout], [], [], 1)[0]: continue
            line = process.stdout.readline()
            if any(word in line for word in words.split("|")): return line
            if not line: break
        raise Wrong(f"{name} did not start; see {log.name}")

    def start_monitor(self):
        self.start("mon", "healthy:|ready:", "up", "--data", self.monitor, *self.up, "--listen", "127.0.0.1:0")

    def data(self, osd):
        return self.directory / f"osd.{osd}"

    def create_osd(self, osd):
        run(self.binary, "osd", "create", "--conf", self.conf, "--data", self.data(osd), "--disk-size", self.disk_size,
            "--host", f"host{osd}")

    def start_osd(self, osd):
        self.start(f"osd.{osd}", "started", "osd", "start", "--data", self.data(osd), "--conf", self.conf, "--memory",
                   MEMORY, "--cores", 1)

    def kill(self, name, number=signal.SIGKILL):
        process = self.processes[name]
        if process.poll() is not None: raise Wrong(f"{name} ended by itself: {process.returncode}")
        process.send_signal(number)
        process.wait(60)
        process.stdout.close()

    def kill_osd(self, osd):
        self.kill(f"osd.{osd}")

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def ceph(self, *words):
        return json.loads(run("ceph", "--connect-timeout", 30, *words, "-f", "json") or "null")

    def create_pool(self, name, pgs=32):
        run("ceph", "osd", "pool", "create", name, pgs)
        run("rbd", "pool", "init", name)
        self.wait_clean()

    def create_erasure_pool(self, name, code, pgs=16):
        """Of a code such as 4+2, with each shard on an OSD of its own."""
        k, m = code.split("+")
        run("ceph", "osd", "erasure-code-profile", "set", name, f"k={k}", f"m={m}", "crush-failure-domain=osd")
        run("ceph", "osd", "pool", "create", name, pgs, pgs, "erasure", name)
        run("ceph", "osd", "pool", "application", "enable", name, "rbd")
        self.wait_clean()

    def deep_scrub(self):
        """Scrubs each group deeply, and fails unless all are sound; the number of groups."""
        stamps = lambda: {one["pgid"]: one["last_deep_scrub_stamp"] for one in self.ceph("pg", "dump", "pgs")["pg_stats"]}
        before = stamps()
        for group in before: run("ceph", "pg", "deep-scrub", group)
        until("all groups are scrubbed", lambda: all(stamps()[group] != stamp for group, stamp in before.items()), SCRUB_TIME_MAX)
        damaged = {name for name in self.ceph("health")["checks"]} & {"OSD_SCRUB_ERRORS", "PG_DAMAGED", "OBJECT_UNFOUND"}
        if damaged: raise Wrong(f"deep scrub: {run('ceph', 'health', 'detail')}")
        return len(before)

    def is_clean(self):
        status = self.ceph("status")
        groups, osds = status["pgmap"], status["osdmap"]
        clean = sum(s["count"] for s in groups["pgs_by_state"] if s["state_name"].startswith("active+clean"))
        return osds["num_up_osds"] == len(self.osds) and clean == groups["num_pgs"] > 0

    def wait_clean(self):
        return until("all OSDs up and all groups clean", self.is_clean, CLEAN_TIME_MAX)

    def check_stores(self):
        """After the end: each store is sound. The kernel may still be at work for a killed process."""
        self.stop()
        for osd in self.osds:
            def is_sound():
                return run(self.binary, "store", "fsck", "--deep", self.data(osd)) is not None
            until(f"osd.{osd} is sound", is_sound, 20)
