"""SIGKILL under load, again and again: nothing acknowledged is lost, no write is half there, fsck finds nothing.

  kill_store.py [--rounds N] [--devices files|loop] [--osds N] [--seed N] [--images DIRECTORY]
SEPIOLA is the binary; the cluster lives below SCRATCH, files behind loop devices in /dev/shm. --images keeps a
copy of the disks as the last kill left them.

A round: a client process verifies every object, then several threads of it write; at a random moment the cluster is
killed, then its client; fsck reads everything; the cluster starts again (and is sometimes killed while it does).
In some rounds the client lives on and must see each of its writes take effect, once, after the restart. The client
journals each operation before it is sent and when it is acknowledged. What an object may show after a kill is
what its acknowledged operations made of it, or those and the first of the ones that were in flight.
"""
import argparse, atexit, collections, hashlib, json, os, pathlib, random, select, shutil, signal, struct, subprocess
import sys, threading, time, traceback
import rados

POOL = "kill"
THREADS, IN_FLIGHT = 4, 16
# How many objects of each kind there are, and how large they may grow.
KINDS = {"small": (240, 24 << 10), "middle": (90, 400 << 10), "large": (12, 6 << 20)}
OMAP_KEYS = 400
DISK_SIZE, MEMORY = 256 << 20, "64M"
START_TIME_MAX = CLIENT_TIME_MAX = 60
# One round in so many has a client that lives on; one start in so many is killed before it is complete.
SURVIVOR_EVERY, KILLED_START_EVERY = 4, 5
UNIT = 512
WRONG_SHOWN_MAX = 5


class Wrong(Exception):
    pass


# Objects as they should be.

def contents(name, number, start, end):
    """Bytes that name their object, the operation that wrote them and their offset."""
    filler = random.Random(f"{name} {number}").randbytes(UNIT - 40)
    first, behind = start // UNIT, -(-end // UNIT)
    units = (b"%-16s %11d %10d\n" % (name.encode(), number, unit * UNIT) + filler for unit in range(first, behind))
    return b"".join(units)[start - first * UNIT:end - first * UNIT]


class Image:
    """An object. The methods that change it have the names and arguments of librados'."""

    def __init__(self):
        self.data, self.xattrs, self.omap = bytearray(), {}, {}

    def copy(self):
        other = Image()
        other.data, other.xattrs, other.omap = bytearray(self.data), dict(self.xattrs), dict(self.omap)
        return other

    def __eq__(self, other):
        return other is not None and (self.data, self.xattrs, self.omap) == (other.data, other.xattrs, other.omap)

    def write(self, data, offset):
        if offset > len(self.data): self.data.extend(bytes(offset - len(self.data)))
        self.data[offset:offset + len(data)] = data

    def write_full(self, data): self.data = bytearray(data)
    def append(self, data): self.data.extend(data)
    def zero(self, offset, length): self.write(bytes(length), offset)

    def truncate(self, size):
        if size < len(self.data): del self.data[size:]
        else: self.data.extend(bytes(size - len(self.data)))

    def set_xattr(self, key, value): self.xattrs[key] = value
    def rm_xattr(self, key): del self.xattrs[key]
    def set_omap(self, keys, values): self.omap.update(zip(keys, values))
    def remove_omap_keys(self, keys): [self.omap.pop(key) for key in keys]
    def clear_omap(self): self.omap = {}


def calls(name, number, steps):
    """An operation's steps with the bytes that they write."""
    for step, *args in steps:
        if step == "write": yield step, contents(name, number, args[0], sum(args)), args[0]
        elif step in ("write_full", "append"): yield step, contents(name, number, 0, args[0])
        elif step == "set_xattr": yield step, args[0], contents(name, number, 0, args[1])
        elif step == "set_omap": yield step, tuple(args[0]), tuple(contents(key, number, 0, args[1]) for key in args[0])
        elif step == "remove_omap_keys": yield step, tuple(args[0])
        # python3-rados of Ceph 16 passes offset and length in the wrong order: so they are the same.
        elif step == "zero": yield step, args[0], args[0]
        else: yield step, *args


def apply(name, image, number, steps):
    """The state of an object (None: it does not exist) after an operation."""
    for call, *args in calls(name, number, steps):
        if call == "remove": return None
        image = image or Image()
        getattr(image, call)(*args)
    return image


def send(io, name, number, steps, on_ack):
    with rados.WriteOpCtx() as op:
        for call, *args in calls(name, number, steps):
            if "omap" in call: getattr(io, call)(op, *args)
            else: getattr(op, call)(*args)
        io.operate_aio_write_op(op, name, oncomplete=on_ack)


# Client operations.

def next_steps(rng, image, size_max):
    """A random operation, by its weight among those that are possible."""
    size = len(image.data) if image else 0
    def write(length, aligned=1):
        length = min(length, size_max)
        return ["write", rng.randrange(0, min(size + length, size_max) - length + 1, aligned), length]
    def set_xattr():
        return ["set_xattr", f"x{rng.randrange(8)}", rng.choice([9, 300, 3000])]
    def set_omap():
        keys = rng.sample(range(OMAP_KEYS), rng.choice([1, 3, 40]))
        return ["set_omap", [f"key{key:04}" for key in keys], rng.choice([5, 100, 900])]
    possible = [
        (35, lambda: [write(4096, 4096)]),
        (8, lambda: [write(4096 * rng.randint(2, 16), 4096)]),
        (15, lambda: [write(rng.randint(1, 20_000))]),
        (6, lambda: [write(128 << 10, rng.choice([1, 4096]))]),
        (8, lambda: [["write_full", rng.randint(0, min(size_max, 70_000))]]),
        (4, lambda: [set_xattr()]),
        (6, lambda: [set_omap()]),
        (5, lambda: [write(rng.randint(1, 9000)), set_xattr(), set_omap()]),
    ]
    if size_max > 4 << 20: possible.append((15, lambda: [write(rng.randint(1 << 20, 4 << 20), rng.choice([1, 4096]))]))
    if size + 9000 <= size_max: possible.append((10, lambda: [["append", rng.randint(1, 9000)]]))
    if image: possible += [(5, lambda: [["remove"]]), (1, lambda: [["truncate", rng.randint(size, size_max)]])]
    if size: possible.append((4, lambda: [["truncate", rng.randrange(size)]]))
    # Zeroing to the very end would truncate, as it does in Ceph.
    if size > 2: possible.append((4, lambda: [["zero", rng.randint(1, (size - 1) // 2)]]))
    if image and image.xattrs: possible.append((2, lambda: [["rm_xattr", rng.choice(sorted(image.xattrs))]]))
    if image and image.omap:
        some = rng.sample(sorted(image.omap), min(len(image.omap), rng.choice([1, 30])))
        possible += [(3, lambda: [["remove_omap_keys", some]]), (1, lambda: [["clear_omap"]])]
    weights, choices = zip(*possible)
    return rng.choices(choices, weights)[0]()


class Client:
    """A process of its own, forked with all that is known: `model` by name, and `pending`, what was in flight."""

    def __init__(self, model, pending, journal, seed, first_number):
        self.model, self.pending, self.seed, self.number = model, pending, seed, first_number
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.lock, self.stopping = threading.Lock(), False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.stopping = True

    def note(self, **entry):
        os.write(self.journal, json.dumps(entry).encode() + b"\n")

    def connect(self):
        # A client that lives on should look for its cluster more often than once in 15 s.
        hunt = "mon_client_hunt_interval"
        patience = {"ms_max_backoff": "0.3", hunt: "1", f"{hunt}_max_multiple": "1"}
        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"], conf=patience)
        self.cluster.connect(timeout=START_TIME_MAX)

    def verify(self):
        names, wrong = collections.deque(self.model), []
        def work():
            io = self.cluster.open_ioctx(POOL)
            while True:
                try: name = names.popleft()
                except IndexError: return
                try: self.verify_one(io, name)
                except Wrong as error: wrong.append(str(error))
        in_threads([work] * 2 * THREADS)
        if wrong: raise Wrong("\n".join([f"{len(wrong)} objects are wrong", *wrong[:WRONG_SHOWN_MAX]]))

    def verify_one(self, io, name):
        """Finds out how many of the operations in flight had their effect."""
        found, image, pending = fetch(io, name), self.model[name], self.pending.get(name, [])
        image = image and image.copy()
        for applied in range(len(pending) + 1):
            if found == image: break
            if applied == len(pending): raise Wrong(describe(name, self.model[name], found, pending))
            image = apply(name, image, *pending[applied])
        self.model[name] = image
        if pending: self.note(found=name, applied=applied)

    def write(self, thread):
        io, rng = self.cluster.open_ioctx(POOL), random.Random(f"{self.seed} {thread}")
        names = sorted(self.model)[thread::THREADS]
        slots = threading.Semaphore(IN_FLIGHT)
        while not self.stopping:
            # A few objects get many operations, so that several of theirs are in flight.
            name = rng.choice(names if rng.randrange(4) else names[::16])
            slots.acquire()
            steps = next_steps(rng, self.model[name], KINDS[name.split("-")[0]][1])
            with self.lock: self.number += 1; number = self.number
            self.model[name] = apply(name, self.model[name], number, steps)
            self.note(sent=number, object=name, steps=steps)
            def on_ack(completion, number=number):
                self.note(acknowledged=number, result=completion.get_return_value()); slots.release()
            send(io, name, number, steps, on_ack)
        for _ in range(IN_FLIGHT): slots.acquire()

    def run(self, verified):
        try:
            self.connect()
            self.verify()
        except Wrong as error:
            self.note(wrong=str(error))
            return
        os.write(verified, b"!")
        in_threads([lambda thread=thread: self.write(thread) for thread in range(THREADS)])
        self.note(complete=True)

    @staticmethod
    def start(*args):
        """Its process id, and what becomes readable when it has verified everything."""
        readable, writable = os.pipe()
        process = os.fork()
        if process: os.close(writable); return process, readable
        try: Client(*args).run(writable)
        except BaseException: traceback.print_exc()
        finally: os._exit(0)


def in_threads(work):
    threads = [threading.Thread(target=part) for part in work]
    for thread in threads: thread.start()
    for thread in threads: thread.join()


def fetch(io, name):
    found = Image()
    try: found.data = bytearray(io.read(name, KINDS["large"][1] * 2))
    except rados.ObjectNotFound: return None
    found.xattrs = dict(io.get_xattrs(name))
    with rados.ReadOpCtx() as op:
        pairs, _ = io.get_omap_vals(op, "", "", OMAP_KEYS + 1)
        io.operate_read_op(op, name)
        found.omap = dict(pairs)
    return found


def describe(name, image, found, pending):
    if image is None or found is None:
        return f"{name}: {'there' if found else 'missing'}, with {len(pending)} in flight: {pending}"
    texts = [f"{name}: {len(found.data)} bytes, {len(image.data)} acknowledged, {len(pending)} in flight: {pending}"]
    ours, theirs = bytes(image.data), bytes(found.data)
    differs = [at for at in range(0, min(len(ours), len(theirs)), UNIT) if ours[at:at + UNIT] != theirs[at:at + UNIT]]
    for at in differs[:4] + differs[-1:]:
        texts.append(f"  at {at}: {theirs[at:at + 40]}, acknowledged {ours[at:at + 40]}")
    for what in "xattrs", "omap":
        ours, theirs = getattr(image, what), getattr(found, what)
        for key in [key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != theirs.get(key)][:4]:
            texts.append(f"  {what} {key}: {theirs.get(key, b'')[:40]}, acknowledged {ours.get(key, b'')[:40]}")
    return "\n".join(texts)


# The cluster.

class Cluster:
    def __init__(self, options):
        self.binary, self.scratch = os.environ["SEPIOLA"], pathlib.Path(os.environ["SCRATCH"])
        self.data, self.process, self.log = self.scratch / "cluster", None, open(self.scratch / "cluster.log", "a")
        self.directories = [self.data / f"osd.{osd}" for osd in range(options.osds)]
        self.loops, self.backing = [], pathlib.Path(f"/dev/shm/kill-store-{os.getpid()}")
        atexit.register(self.close)
        if options.devices == "loop":
            self.attach(options.osds)
            disks = [arg for loop in self.loops for arg in ("--disk", loop)]
        else: disks = ["--osds", options.osds, "--disk-size", DISK_SIZE]
        os.environ["CEPH_CONF"] = str(self.data / "ceph.conf")
        self.start("--size", min(2, options.osds), *disks)
        run("ceph", "osd", "pool", "create", POOL, 16)

    def attach(self, count):
        self.backing.mkdir()
        for number in range(count):
            path = self.backing / f"disk{number}"
            with open(path, "wb") as file: file.truncate(DISK_SIZE)
            self.loops.append(run("losetup", "--find", "--show", path).strip())

    def start(self, *new, until=None):
        """Starts it and waits until clients may come; but after `until` seconds it is killed. Whether it came up."""
        said = open(self.scratch / "said", "wb+")
        command = [self.binary, "up", "--data", self.data, "--listen", "127.0.0.1:0", "--memory", MEMORY, *new]
        self.process = subprocess.Popen([str(arg) for arg in command], stdout=said, stderr=self.log)
        begin = time.monotonic()
        while not any(line.startswith(("healthy:", "ready:")) for line in open(said.name)):
            took = time.monotonic() - begin
            if until is not None and took > until: self.kill(); return False
            if took > START_TIME_MAX: raise Wrong("the cluster did not become ready")
            self.must_be_alive()
            time.sleep(0.02)
        return True

    def must_be_alive(self):
        if self.process.poll() is not None: raise Wrong(f"the cluster ended by itself: {self.process.returncode}")

    def kill(self):
        self.must_be_alive()
        self.process.kill(); self.process.wait()

    def fsck(self):
        for directory in self.directories:
            command = [self.binary, "store", "fsck", "--deep", str(directory)]
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if result.returncode: raise Wrong(f"fsck of {directory}: {result.returncode}\n{result.stdout}")

    def keep_images(self, images):
        images.mkdir(exist_ok=True)
        for directory in self.directories:
            run("cp", "--sparse=always", "-L", directory / "block", images / f"{directory.name}.block")

    def close(self):
        if self.process and self.process.poll() is None: self.process.kill(); self.process.wait()
        for loop in self.loops: run("losetup", "--detach", loop)
        self.loops = []


def run(*command):
    command = [str(arg) for arg in command]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


def exported(binary, directory):
    """The hash of each client object in a store, by placement group and name."""
    command = [binary, "store", "export", str(directory), "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    objects, group = {}, b""
    process.stdout.readline()
    while head := process.stdout.read(5):
        kind, length = struct.unpack("<BI", head)
        payload, _ = process.stdout.read(length), process.stdout.read(4)
        if kind == 1: group = payload
        elif kind == 2:
            name_end = 6 + struct.unpack_from("<I", payload, 2)[0]
            size, = struct.unpack_from("<Q", payload, name_end)
            data, others = bytearray(size), [payload[name_end:]]
            objects[group, payload[:name_end]] = data, others
        elif kind == 3: offset, = struct.unpack_from("<Q", payload); data[offset:offset + length - 8] = payload[8:]
        elif kind in (4, 5): others.append(payload)
    if process.wait(): raise Wrong(f"export of {directory}: {process.returncode}")
    ours = tuple(kind.encode() + b"-" for kind in KINDS)
    return {key: hashlib.sha256(b"".join([data, *others])).hexdigest()
            for key, (data, others) in objects.items() if any(kind in key[1] for kind in ours)}


def compare_copies(cluster, copies, present):
    """After a quiet end all copies of an object are the same."""
    found = collections.defaultdict(list)
    for directory in cluster.directories:
        for key, digest in exported(cluster.binary, directory).items(): found[key].append(digest)
    if len(found) != present: raise Wrong(f"{len(found)} objects in the stores, {present} in the cluster")
    for key, digests in found.items():
        if len(digests) != copies or len(set(digests)) != 1: raise Wrong(f"copies of {key} differ: {digests}")


# The rounds.

class Check:
    def __init__(self, options):
        self.options, self.rng, self.cluster = options, random.Random(options.seed), Cluster(options)
        self.model = {f"{kind}-{number}": None for kind, (count, _) in KINDS.items() for number in range(count)}
        self.pending, self.counts = {}, collections.Counter()

    def start_client(self, number):
        journal = self.cluster.scratch / f"journal-{number}"
        seed = f"{self.options.seed} {number}"
        client, verified = Client.start(self.model, self.pending, journal, seed, number * 10_000_000)
        try:
            if not select.select([verified], [], [], CLIENT_TIME_MAX)[0]: raise Wrong("verification does not end")
            # An end without a byte: it did not get that far.
            if not os.read(verified, 1): self.take_in(journal); raise Wrong("the client failed")
        except Wrong: os.kill(client, signal.SIGKILL); raise
        finally: os.close(verified)
        return client, journal

    def round(self, number):
        client, journal = self.start_client(number)
        survives = number % SURVIVOR_EVERY == 1
        # Not a wait for something to become true: the moment of the kill is arbitrary by intent.
        time.sleep(self.rng.uniform(0.2, 1.8))
        try:
            self.cluster.kill()
            if not survives: end(client, signal.SIGKILL)
            self.examine("kills")
            self.restart()
            if survives: end(client, signal.SIGTERM)
        except Wrong: os.kill(client, signal.SIGKILL); raise
        self.take_in(journal, is_complete=survives)
        if number > 1: (self.cluster.scratch / f"journal-{number - 2}").unlink()

    def examine(self, reason):
        if self.options.images: self.cluster.keep_images(self.options.images)
        self.cluster.fsck()
        self.counts[reason] += 1
        self.counts["fsck runs"] += len(self.cluster.directories)

    def restart(self):
        while self.rng.randrange(KILLED_START_EVERY) == 0:
            if self.cluster.start(until=self.rng.uniform(0, 1.2)): self.cluster.kill()
            self.examine("kills while starting")
        self.cluster.start()

    def take_in(self, journal, is_complete=False):
        """Builds the model, and the set of operations in flight, from a client's journal."""
        entries = [json.loads(line) for line in open(journal)]
        sent, acknowledged = collections.defaultdict(list), set()
        for entry in entries:
            if "wrong" in entry: raise Wrong(entry["wrong"])
            elif "found" in entry: self.settle(entry["found"], self.pending[entry["found"]][:entry["applied"]])
            elif "sent" in entry: sent[entry["object"]].append((entry["sent"], entry["steps"]))
            elif "acknowledged" in entry: acknowledged.add(entry["acknowledged"])
            if entry.get("result"): raise Wrong(f"operation {entry['acknowledged']}: {entry['result']}")
        self.counts["of them found done"] += sum(entry.get("applied", 0) for entry in entries)
        if is_complete and "complete" not in entries[-1]: raise Wrong("the client that lived on did not complete")
        self.pending = {}
        for name, operations in sent.items():
            # Operations on an object take effect in order.
            done = max((place for place, (number, _) in enumerate(operations, 1) if number in acknowledged), default=0)
            self.settle(name, operations[:done])
            if operations[done:]: self.pending[name] = operations[done:]
        self.counts["operations acknowledged"] += len(acknowledged)
        self.counts["objects verified"] += len(self.model)
        self.counts["in flight at a kill"] += sum(map(len, self.pending.values()))

    def settle(self, name, operations):
        for operation in operations: self.model[name] = apply(name, self.model[name], *operation)

    def run(self):
        for number in range(self.options.rounds): self.round(number)
        client, journal = self.start_client(self.options.rounds)
        end(client, signal.SIGTERM)
        self.take_in(journal, is_complete=True)
        self.cluster.kill()
        self.examine("kills")
        objects = sum(image is not None for image in self.model.values())
        compare_copies(self.cluster, min(2, self.options.osds), objects)
        counts = [f"{count} {what}" for what, count in self.counts.items()] + [f"{objects} objects at the end"]
        print(f"{self.options.rounds} rounds, {self.options.osds} OSDs on {self.options.devices}:", ", ".join(counts))


def end(client, number):
    os.kill(client, number)
    limit = time.monotonic() + CLIENT_TIME_MAX
    while not os.waitpid(client, os.WNOHANG)[0]:
        if time.monotonic() > limit: os.kill(client, signal.SIGKILL)
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3 if os.environ.get("SHORT") == "1" else 100)
    parser.add_argument("--devices", choices=["files", "loop"], default="files")
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--seed", default=os.environ.get("SEED", "1"))
    parser.add_argument("--images", type=pathlib.Path)
    options = parser.parse_args()
    try:
        if options.devices == "loop": run("losetup", "--find")
    except (subprocess.CalledProcessError, FileNotFoundError):
        print("skipped: there are no loop devices here")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    check = Check(options)
    try: check.run()
    except Wrong as error:
        counts, scratch = dict(check.counts), check.cluster.scratch
        sys.exit(f"seed {options.seed}, {counts}:\n{error}\nthe cluster is in {scratch}")
    check.cluster.close()
    shutil.rmtree(check.cluster.backing, ignore_errors=True)


main()
