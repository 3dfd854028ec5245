"""python3-rados: objects, xattrs, omap, aio, watch/notify, locks, namespaces, errors."""
import os, threading, rados

cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
cluster.connect(timeout=10)
pool = f"librados-{os.getpid()}"
cluster.create_pool(pool)
io = cluster.open_ioctx(pool)

def raises(kind, call, *args):
    try:
        call(*args)
    except kind:
        return
    raise AssertionError(f"{call} did not raise {kind}")

# objects
io.write_full("a", b"hello world")
assert io.read("a") == b"hello world"
io.write("a", b"HELLO", 0); io.append("a", b"!"); assert io.read("a") == b"HELLO world!"
assert io.read("a", 5, 6) == b"world"
io.trunc("a", 5); assert io.stat("a")[0] == 5
raises(rados.ObjectNotFound, io.read, "missing")
raises(rados.ObjectNotFound, io.remove_object, "missing")

# xattrs
io.set_xattr("a", "k", b"v"); assert io.get_xattr("a", "k") == b"v"
assert dict(io.get_xattrs("a")) == {"k": b"v"}
io.rm_xattr("a", "k"); raises(rados.NoData, io.get_xattr, "a", "k")

# omap, more keys than one reply holds
keys = tuple(f"key{i:05}" for i in range(3000))
with rados.WriteOpCtx() as op:
    io.set_omap(op, keys, tuple(k.encode() * 3 for k in keys)); io.operate_write_op(op, "omap")
seen, after = [], ""
while True:
    with rados.ReadOpCtx() as op:
        found, ret = io.get_omap_vals(op, after, "", 500); io.operate_read_op(op, "omap")
        page = list(found)
    if not page: break
    seen += page; after = page[-1][0]
assert [k for k, _ in seen] == list(keys) and all(v == k.encode() * 3 for k, v in seen)
with rados.ReadOpCtx() as op:
    found, ret = io.get_omap_vals_by_keys(op, ("key00001", "nope")); io.operate_read_op(op, "omap")
    assert dict(found) == {"key00001": b"key00001" * 3}
with rados.WriteOpCtx() as op:
    io.remove_omap_keys(op, ("key00001",)); io.operate_write_op(op, "omap")
with rados.ReadOpCtx() as op:
    found, ret = io.get_omap_vals_by_keys(op, ("key00001",)); io.operate_read_op(op, "omap")
    assert dict(found) == {}

# atomic vectors
with rados.WriteOpCtx() as op:
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE); op.write_full(b"once"); io.operate_write_op(op, "excl")
with rados.WriteOpCtx() as op:
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE); op.write_full(b"twice")
    raises(rados.ObjectExists, io.operate_write_op, op, "excl")
assert io.read("excl") == b"once"

# aio
done = [io.aio_write_full(f"aio{i}", bytes([i]) * 8192) for i in range(64)]
for c in done: c.wait_for_complete(); assert c.get_return_value() == 0
results = {}
def on_read(i): return lambda completion, data: results.__setitem__(i, data)
done = [io.aio_read(f"aio{i}", 8192, 0, on_read(i)) for i in range(64)]
for c in done: c.wait_for_complete_and_cb()
assert all(results[i] == bytes([i]) * 8192 for i in range(64))

# listing by namespace
io.set_namespace("space"); io.write_full("inside", b"x")
assert [o.key for o in io.list_objects()] == ["inside"]
io.set_namespace(""); names = {o.key for o in io.list_objects()}
assert "a" in names and "inside" not in names and len([n for n in names if n.startswith("aio")]) == 64
io.set_namespace(rados.LIBRADOS_ALL_NSPACES); assert ("space", "inside") in {(o.nspace, o.key) for o in io.list_objects()}
io.set_namespace("")

# locks
io.lock_exclusive("a", "lock", "cookie1"); raises(rados.ObjectBusy, io.lock_exclusive, "a", "lock", "cookie2")
io.unlock("a", "lock", "cookie1"); io.lock_shared("a", "lock", "c1", "tag"); io.lock_shared("a", "lock", "c2", "tag")
io.unlock("a", "lock", "c1"); io.unlock("a", "lock", "c2")

# watch and notify: python3-rados has them from 15 on
if hasattr(io, "watch"):
    got = threading.Event(); payloads = []
    def on_notify(notify_id, notifier_id, watch_id, data):
        payloads.append(data); got.set(); return b"answer"
    with io.watch("a", on_notify) as watch:
        assert io.notify("a", "ping", 5000) in (None, True) or True
        assert got.wait(10) and payloads == [b"ping"], payloads
        watch.check()

cluster.get_cluster_stats(); io.get_stats()
io.close(); cluster.delete_pool(pool); cluster.shutdown()
