"""Stores a real source tree, file by file, as objects, and verifies every acknowledged one.

  source_tree.py store TARBALL JOURNAL LIMIT   files from a tarball; names and hashes of what was acknowledged go to JOURNAL
  source_tree.py verify JOURNAL                reads every journalled object back and compares its SHA-256
The cluster may die at any time during `store`: what is in the journal had been acknowledged.
"""
import hashlib, os, sys, tarfile, threading, rados

POOL = "source-tree"
IN_FLIGHT = 32

def connect():
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"], conf={"rados_osd_op_timeout": "60", "rados_mon_op_timeout": "30"})
    cluster.connect(timeout=30)
    return cluster, cluster.open_ioctx(POOL)

def store(tarball, journal_path, limit):
    cluster, io = connect()
    journal = open(journal_path, "a", buffering=1)
    known = {line.split(" ", 1)[1].rstrip("\n") for line in open(journal_path)}
    slots, lock, stored = threading.Semaphore(IN_FLIGHT), threading.Lock(), [len(known)]
    def acknowledged(name, digest):
        def on_ack(completion):
            if completion.get_return_value() == 0:
                with lock:
                    journal.write(f"{digest} {name}\n"); stored[0] += 1
            slots.release()
        return on_ack
    archive = tarfile.open(tarball, "r|*")
    for member in archive:
        if not member.isfile() or member.name in known: continue
        if stored[0] >= limit: break
        data = archive.extractfile(member).read()
        slots.acquire()
        io.aio_write_full(member.name, data, oncomplete=acknowledged(member.name, hashlib.sha256(data).hexdigest()))
    for _ in range(IN_FLIGHT): slots.acquire()
    print(stored[0], "objects acknowledged")

def verify(journal_path):
    cluster, io = connect()
    wrong = checked = 0
    # Later acknowledgements count for the next verification.
    for line in open(journal_path).readlines():
        digest, name = line.rstrip("\n").split(" ", 1)
        size, _ = io.stat(name)
        if hashlib.sha256(io.read(name, max(size, 1))).hexdigest() != digest:
            wrong += 1; print("differs:", name)
        checked += 1
    print(checked, "objects verified,", wrong, "wrong")
    sys.exit(1 if wrong else 0)

if __name__ == "__main__":
    if sys.argv[1] == "store":
        store(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        verify(sys.argv[2])
