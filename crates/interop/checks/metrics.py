"""Metrics for Prometheus: complete, well-formed, and what Ceph's own alert rules and dashboards look for.

Debian's packages prometheus, ceph-prometheus-alerts and ceph-grafana-dashboards are used if they are installed, or the files
that RULES and DASHBOARDS name; what is left out without them is said. Waiting times of the rules are cut, so that alerts fire as soon as their expressions hold.
"""
import glob, json, os, re, shutil, signal, socket, subprocess, sys, time, urllib.parse, urllib.request

SCRATCH, SHORT = os.environ["SCRATCH"], os.environ.get("SHORT") == "1"
RULES = os.environ.get("RULES", "/etc/prometheus/ceph/ceph_default_alerts.yml")
DASHBOARDS = os.environ.get("DASHBOARDS", "/etc/grafana/dashboards/ceph-dashboard/*.json")
WAIT_TIME_MAX = 90
HOST = socket.gethostname()
POOL = "vms"
# Names of Ceph's that promtool would spell otherwise.
MISSPELT = {"ceph_osd_apply_latency_ms", "ceph_osd_commit_latency_ms"}
# Read by dashboards, and of what is not here: of other exporters, of daemons that do not run, or stale upstream.
ABSENT = re.compile(r"\b(node_\w+|ceph_(rgw|mds|bluestore|bluefs|rocksdb|filestore|data_sync|nvmeof|hardware|extblkdev|cephadm)_\w+|ceph_unclean_pgs|"
                    r"ceph_pool_raw_bytes_used|ceph_fs_metadata|ceph_objecter_\w+|ceph_cluster_total_objects|ALERTS|ceph_mds\w*)")
# Expressions that have no answer while nothing is wrong, no disk is large, nothing is compressed, and no day has passed.
LISTS_FAULTS = re.compile(r"[=!<>]=? *(bool *)?[0-9]|compress|\[\d+d")


def ceph(*args):
    done = subprocess.run(["ceph", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"ceph {' '.join(map(str, args))}: {done.stderr}"
    return done.stdout


def until(what, holds, limit=WAIT_TIME_MAX):
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < limit, f"not within {limit} s: {what}"
        time.sleep(0.3)


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def names(text):
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


def metrics_url():
    return json.loads(ceph("mgr", "services", "-f", "json"))["prometheus"] + "metrics"


def lint(text):
    if not shutil.which("promtool"): return print("promtool is not installed: the format is not checked")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line and line.split()[0] not in MISSPELT]
    assert not said, f"promtool: {said[:10]}"
    print(f"promtool has no complaints about {len(names(text))} names")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Prometheus:
    def __init__(self, url, fsid):
        port, self.rules = free_port(), []
        files = []
        if os.path.exists(RULES):
            text = open(RULES).read()
            self.rules = re.findall(r'alert: "?(\w+)', text)
            files = [f"{SCRATCH}/rules.yml"]
            open(files[0], "w").write(re.sub(r'\n( +)for: "?\w+"?', r"\n\1for: 0s", text))
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "external_labels": {}},
            "rule_files": files,
            "scrape_configs": [{
                "job_name": "ceph", "honor_labels": True,
                "static_configs": [{"targets": [url.split("/")[2]], "labels": {"cluster": fsid}}],
            }],
        }
        open(f"{SCRATCH}/prometheus.yml", "w").write(json.dumps(config))
        self.log = open(f"{SCRATCH}/prometheus.log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={SCRATCH}/prometheus.yml", f"--storage.tsdb.path={SCRATCH}/tsdb",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=self.log, stderr=self.log)
        self.url = f"http://127.0.0.1:{port}"
        until("Prometheus scrapes", lambda: self.is_up() and self.query("up == 1"))

    def is_up(self):
        assert self.process.poll() is None, open(self.log.name).read()[-2000:]
        try: return get(self.url + "/-/ready")
        except OSError: return False

    def query(self, text):
        answer = json.loads(get(f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": text})))
        return answer["data"]["result"]

    def firing(self):
        alerts = json.loads(get(self.url + "/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def alerts(prometheus):
    """Causes faults one by one: each fires Ceph's own alert, and the alert ends with the fault."""
    # The machine of a test may have a full disk of its own, which is no fault of the cluster.
    for limit in ("mon_data_avail_warn", "mon_data_avail_crit"): ceph("config", "set", "mon", limit, 0)
    osds = ceph("osd", "ls").split()
    crash = json.dumps({"crash_id": "2026-11-27T10:00:00.000000Z_00000000-0000-0000-0000-000000000001", "entity_name": "osd.0",
                        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()), "process_name": "sepiola"})

    def post_crash():
        subprocess.run(["ceph", "crash", "post", "-i", "-"], input=crash, text=True, check=True, timeout=60)

    def down(*which):
        ceph("osd", "set", "noup")
        ceph("osd", "down", *which)

    def objects():
        return len(subprocess.run(["rados", "-p", POOL, "ls"], check=True, capture_output=True, timeout=60).stdout.splitlines())

    def fill(kind):
        for osd in osds: ceph("tell", f"osd.{osd}", "injectfull", kind)

    faults = [
        ("a flag is set", ["CephHealthWarning"], lambda: ceph("osd", "set", "noout"), lambda: ceph("osd", "unset", "noout")),
        ("an OSD is down", ["CephOSDDown", "CephOSDDownHigh"], lambda: down(osds[0]),
         lambda: ceph("osd", "unset", "noup")),
        ("a pool is near its quota", ["CephPoolNearFull"], lambda: ceph("osd", "pool", "set-quota", POOL, "max_objects", objects() * 11 // 10),
         lambda: ceph("osd", "pool", "set-quota", POOL, "max_objects", 0)),
        ("a pool is over its quota", ["CephPoolFull"], lambda: ceph("osd", "pool", "set-quota", POOL, "max_objects", 1),
         lambda: ceph("osd", "pool", "set-quota", POOL, "max_objects", 0)),
        ("a daemon crashed", ["CephDaemonCrash"], post_crash, lambda: ceph("crash", "archive-all")),
        ("all OSDs are down", ["CephOSDHostDown", "CephHealthWarning"], lambda: down(*osds), lambda: ceph("osd", "unset", "noup")),
        ("disks are nearly full", ["CephOSDNearFull"], lambda: fill("nearfull"), lambda: fill("none")),
        ("disks are too full for backfill", ["CephOSDBackfillFull", "CephPoolBackfillFull"], lambda: fill("backfillfull"),
         lambda: fill("none")),
        ("disks are full", ["CephOSDFull", "CephHealthError"], lambda: fill("full"), lambda: fill("none")),
        ("requests are slow", ["CephSlowOps", "CephDaemonSlowOps"], slow_request, slow_request_ends),
        ("a monitor has little space", ["CephMonDiskspaceLow"], lambda: ceph("config", "set", "mon", "mon_data_avail_warn", 100),
         lambda: ceph("config", "set", "mon", "mon_data_avail_warn", 0)),
        ("a monitor has hardly any space", ["CephMonDiskspaceCritical"],
         lambda: ceph("config", "set", "mon", "mon_data_avail_crit", 100), lambda: ceph("config", "set", "mon", "mon_data_avail_crit", 0)),
    ]
    for what, names_of_alerts, cause, mend in faults[:6] if SHORT else faults:
        names_of_alerts = [name for name in names_of_alerts if name in prometheus.rules]
        assert names_of_alerts, f"no rule for: {what}"
        is_quiet = lambda: not set(names_of_alerts) & prometheus.firing()
        # Otherwise an alert of something else would be taken for that of the fault.
        until(f"no {names_of_alerts} before {what}", is_quiet)
        cause()
        until(f"{what}: {names_of_alerts} fire", lambda: set(names_of_alerts) <= prometheus.firing())
        mend()
        until(f"{what}: {names_of_alerts} end", is_quiet)
        print(f"{what}: {', '.join(names_of_alerts)}")
    until("the cluster recovers", lambda: "HEALTH_ERR" not in ceph("health"))


waiting = []


def slow_request():
    """A write waits because its group has too few members."""
    ceph("config", "set", "osd", "osd_op_complaint_time", 1)
    ceph("osd", "pool", "set", POOL, "min_size", 3)
    ceph("osd", "set", "noup")
    ceph("osd", "down", ceph("osd", "ls").split()[0])
    waiting.append(subprocess.Popen(["rados", "-p", POOL, "bench", "20", "write", "-b", "4096", "-t", "16", "--no-cleanup"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def slow_request_ends():
    ceph("osd", "unset", "noup")
    ceph("osd", "pool", "set", POOL, "min_size", 2)
    ceph("config", "rm", "osd", "osd_op_complaint_time")
    waiting.pop().wait(180)


def expressions():
    """The expressions of the dashboards, with their variables replaced."""
    found = set()
    for path in glob.glob(DASHBOARDS):
        stack = [json.load(open(path))]
        while stack:
            part = stack.pop()
            if isinstance(part, dict):
                if isinstance(part.get("expr"), str): found.add(part["expr"])
                stack.extend(part.values())
            elif isinstance(part, list): stack.extend(part)
    return sorted(found)


def concrete(expression):
    values = {"interval": "5s", "__rate_interval": "5s", "__range": "5s", "osd": "osd.0", "osd_id": "osd.0", "pool_name": POOL, "Pool": POOL,
              "Image": "disk", "pool": POOL, "image": "disk", "topk": "5", "mon_hosts": ".*", "osd_hosts": ".*", "ceph_hosts": HOST}
    put = lambda match: values.get(match.group(1) or match.group(2), ".*")
    return re.sub(r"\$\{?(\w+)\}?|\[\[(\w+)\]\]", put, expression).replace("[1m]", "[5s]").replace("[5m]", "[5s]").replace("[30s]", "[5s]")


def dashboards(prometheus):
    """Each expression answers while an image is read and written, but for those that list what is wrong."""
    ours = [text for text in map(concrete, expressions()) if "ceph_" in text and not ABSENT.search(text)]
    load = [subprocess.Popen(["rbd", "bench", "--io-type", kind, "--io-size", "4K", "--io-total", "4G", f"{POOL}/disk"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for kind in ("write", "read")]
    silent = ours
    def all_answer():
        nonlocal silent
        silent = [text for text in silent if not prometheus.query(text)]
        return not [text for text in silent if not LISTS_FAULTS.search(text)]
    try: until("the expressions of dashboards answer", all_answer, 60)
    except AssertionError: raise AssertionError("no answer to\n" + "\n".join(silent))
    finally:
        for one in load: one.kill()
        for one in load: one.wait()
    print(f"{len(ours) - len(silent)} of {len(ours)} expressions of dashboards answer, the others list what is not there")


def main():
    url, fsid = metrics_url(), ceph("fsid").strip()
    ceph("osd", "pool", "create", POOL, 16)
    ceph("osd", "pool", "application", "enable", POOL, "rbd")
    ceph("config", "set", "mgr", "mgr/prometheus/rbd_stats_pools", POOL)
    get(url)
    subprocess.run(["rbd", "create", "--size", "64M", f"{POOL}/disk"], check=True, timeout=60)
    for direction in ("write", "read"):
        subprocess.run(["rbd", "bench", "--io-type", direction, "--io-size", "4K", "--io-total", "4M", f"{POOL}/disk"], check=True,
                       timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["rados", "-p", POOL, "bench", "2", "write", "-b", "4096", "-t", "8", "--max-objects", "90", "--no-cleanup"], check=True,
                   timeout=60, stdout=subprocess.DEVNULL)
    until("images are counted", lambda: "ceph_rbd_write_ops{" in get(url))
    text = get(url)
    for name in ("ceph_osd_op_w", "ceph_osd_op_w_latency_sum", "sepiola_store_batches_total", "sepiola_osd_cpu_seconds_total"):
        counted = sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))
        assert counted > 0, f"{name} is {counted}"
    lint(text)
    perf = json.loads(ceph("tell", "osd.0", "perf", "dump"))
    assert perf["sepiola_store"]["batches"] > 0 and "op_w_latency" in perf["osd"], perf
    assert json.loads(ceph("tell", "osd.0", "perf", "histogram", "dump"))["osd"]
    if not shutil.which("prometheus"): return print("prometheus is not installed: no rules and dashboards are tried")
    prometheus = Prometheus(url, fsid)
    try:
        if glob.glob(DASHBOARDS): dashboards(prometheus)
        else: print("ceph-grafana-dashboards is not installed: no dashboards are tried")
        if prometheus.rules: alerts(prometheus)
        else: print("ceph-prometheus-alerts is not installed: no rules are tried")
    finally:
        prometheus.stop()


main()
