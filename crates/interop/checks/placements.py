"""Places of erasure-coded groups, as the monitor and Ceph's own `osdmaptool` compute them from the same map: 4+2, 8+3, and a multi-step
retry rule, while OSDs are down and out, with upmaps and temporary sets.

SEPIOLA is the binary, CLIENT what comes before a client's command (`chroot DIR`); everything lies below SCRATCH.
"""
import json, os, pathlib, random, re, shlex, sys
from machine import Machine
from tools import Wrong, run, until

OSDS, HOSTS, PGS, OBJECTS = 12, 4, 32, 40
POOLS = {
    "p42": "k=4 m=2 crush-failure-domain=osd",
    "p83": "k=8 m=3 crush-failure-domain=osd",
    "msr": "k=4 m=2 crush-failure-domain=host crush-num-failure-domains=3 crush-osds-per-failure-domain=2",
}
SETS = r"\(?\[([^]]*)\], p(-?\d+)\)"


class Places:
    def __init__(self, scratch):
        self.scratch, self.client = scratch, shlex.split(os.environ.get("CLIENT", ""))
        self.machine = Machine(scratch / "cluster", osds=0, up=["--osds", OSDS, "--size", 2, "--disk-size", "300M"])
        for osd in range(OSDS): self.ceph("osd", "crush", "set", f"osd.{osd}", 1, "root=default", f"host=host{osd % HOSTS}")
        self.ceph("osd", "set-require-min-compat-client", "squid", "--yes-i-really-mean-it")
        for name, profile in POOLS.items():
            self.ceph("osd", "erasure-code-profile", "set", name, *profile.split())
            self.ceph("osd", "pool", "create", name, PGS, PGS, "erasure", name)
        self.ids = {one["poolname"]: one["poolnum"] for one in self.json("osd", "lspools")}

    def on_client(self, *command):
        return run(*self.client, "env", f"CEPH_CONF={self.machine.conf}", *command)

    def ceph(self, *words):
        return self.on_client("ceph", "--connect-timeout", 30, *words)

    def json(self, *words):
        return json.loads(self.ceph(*words, "-f", "json"))

    def tool(self, *options):
        return self.on_client("osdmaptool", self.scratch / "map", *options)

    def compare(self, what):
        """Sets of the groups of some objects; again when the map changed meanwhile."""
        count = None
        while count is None: count = self.compared(what, self.json("osd", "dump")["epoch"])
        print(f"{what}: {count} objects have the same places", flush=True)

    def compared(self, what, epoch):
        """The number of objects; nothing if the map is another one."""
        self.ceph("osd", "getmap", epoch, "-o", self.scratch / "map")
        count = 0
        for name, pool in self.ids.items():
            if name not in POOLS: continue
            theirs = self.groups(pool)
            for index in range(OBJECTS):
                ours = self.json("osd", "map", name, f"object{index}")
                if ours["epoch"] != epoch: return None
                group = ours["pgid"]
                expected = [(ours["up"], ours["up_primary"]), (ours["acting"], ours["acting_primary"])]
                if theirs[group] != expected: raise Wrong(f"{what}: {group}: osdmaptool has {theirs[group]}, the monitor {expected}")
                said = self.tool("--test-map-object", f"object{index}", "--pool", pool)
                if f"-> {group} ->" not in said: raise Wrong(f"{what}: object{index} is in {group}, and osdmaptool says {said}")
                count += 1
        return count

    def groups(self, pool):
        """Up and acting set of each group, with their primaries, as osdmaptool computes them."""
        found = {}
        for line in self.tool("--test-map-pgs-dump-all", "--pool", pool).splitlines():
            match = re.match(rf"(\S+) raw {SETS} up {SETS} acting {SETS}", line)
            if not match: continue
            osds = lambda text: [int(one) for one in text.split(",") if one]
            group, _, _, up, up_primary, acting, primary = match.groups()
            found[group] = [(osds(up), int(up_primary)), (osds(acting), int(primary))]
        if len(found) != PGS: raise Wrong(f"osdmaptool shows {len(found)} groups")
        return found

    def down(self, osd):
        self.ceph("osd", "down", osd)
        until(f"osd.{osd} is down", lambda: not self.json("osd", "dump")["osds"][osd]["up"])


def main():
    places = Places(pathlib.Path(os.environ["SCRATCH"]).absolute())
    chance = random.Random(os.environ.get("SEED", "1"))
    places.compare("all up and in")
    places.ceph("osd", "set", "noup")
    first, second, third = chance.sample(range(OSDS), 3)
    places.down(first)
    places.compare(f"osd.{first} down")
    places.ceph("osd", "out", first)
    places.compare(f"osd.{first} down and out")
    places.down(second)
    places.ceph("osd", "out", third)
    places.compare(f"osd.{second} down, osd.{third} out")
    places.ceph("osd", "reweight", second, 0.4)
    places.ceph("osd", "unset", "noup")
    places.ceph("osd", "in", first, third)
    until("all are up", lambda: all(one["up"] for one in places.json("osd", "dump")["osds"]))
    places.compare(f"osd.{second} at 0.4")
    pool = places.ids["p42"]
    for seed in range(4):
        up = places.json("osd", "map", "p42", f"object{seed}")
        free = chance.choice([osd for osd in range(OSDS) if osd not in up["up"]])
        places.ceph("osd", "pg-upmap-items", up["pgid"], chance.choice(up["up"]), free)
    for seed in range(4):
        group = f"{pool}.{seed + 8:x}"
        up = places.groups(pool)[group][0][0]
        places.ceph("osd", "pg-temp", group, *up[1:], up[0])
    places.compare("upmaps and temporary sets")


try: main()
except Wrong as wrong: sys.exit(f"placements: {wrong}")
