# `sepiola nbd` with the tools that people have: nbdinfo, nbdcopy, qemu-img, fio.
set -euo pipefail
p=nbd-$$
ceph osd pool create $p 16 >/dev/null; rbd pool init $p
socket=$SCRATCH/nbd.sock
"$SEPIOLA" image create --conf "$CEPH_CONF" --size 64M $p/disk
"$SEPIOLA" image create --conf "$CEPH_CONF" --size 16M --object-size 64K $p/small
# What the server before printed must not be taken for what this one prints.
serve() { : >"$SCRATCH/nbd.out"; "$SEPIOLA" nbd --conf "$CEPH_CONF" --socket "$socket" --listen 127.0.0.1:0 "$@" >"$SCRATCH/nbd.out" 2>>"$SCRATCH/nbd.err" & server=$!; for _ in $(seq 100); do grep -q "nbd+unix" "$SCRATCH/nbd.out" && break; sleep 0.1; done; }
serve $p/disk $p/small
stop() { kill $server 2>/dev/null || true; wait $server || true; cat "$SCRATCH/nbd.err"; ceph osd pool rm $p $p --yes-i-really-really-mean-it >/dev/null; }
trap stop EXIT
uri="nbd+unix:///$p/disk?socket=$socket" small="nbd+unix:///$p/small?socket=$socket"
tcp="nbd://$(sed -n 's/^listening on \(127.*\)/\1/p' "$SCRATCH/nbd.out")/$p/disk"
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1' (line ${BASH_LINENO[0]})"; exit 1; }; }
refused() { if "$@" >"$SCRATCH/refused" 2>&1; then echo "should have failed: $*"; exit 1; fi; }
exported() { rbd export $p/disk - --no-progress; }

# Capabilities that the server announces.
nbdinfo --list "nbd+unix:///?socket=$socket" | grep -q "export=\"$p/small\""
nbdinfo --size "$tcp" | grep -q $((64 << 20))
nbdinfo --json "$uri" >"$SCRATCH/info.json"
python3 - "$SCRATCH/info.json" <<'PY'
import json, sys
info = json.load(open(sys.argv[1]))["exports"][0]
for name in ("can_multi_conn", "can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_df", "can_cache"):
    assert info[name] is True, (name, info)
assert info["is_read_only"] is False and info["contexts"] == ["base:allocation"], info
PY
refused nbdinfo "nbd+unix:///$p/none?socket=$socket"
refused nbdinfo "nbds+unix:///$p/disk?socket=$socket"

# Data goes in through NBD and comes out through librbd, and the other way round.
python3 - "$SCRATCH/file" <<'PY'
import random, sys
random.seed(3)
with open(sys.argv[1], "wb") as f:
    f.truncate(64 << 20)
    for offset in (0, (4 << 20) - 5000, 17 << 20, (64 << 20) - 100_000):
        f.seek(offset); f.write(random.randbytes(100_000))
PY
nbdcopy --flush "$SCRATCH/file" "$uri"
exported | cmp - "$SCRATCH/file"
nbdcopy --connections=4 "$tcp" "$SCRATCH/out"; cmp "$SCRATCH/out" "$SCRATCH/file"; rm "$SCRATCH/out"
nbdinfo --map "$uri" >"$SCRATCH/map"; grep -q "hole,zero" "$SCRATCH/map"; grep -q "data" "$SCRATCH/map"
qemu-img compare -f raw -F raw "$uri" "$SCRATCH/file" >/dev/null
qemu-img convert -f raw -O qcow2 "$uri" "$SCRATCH/out.qcow2"; qemu-img compare -f qcow2 -F raw "$SCRATCH/out.qcow2" "$uri" >/dev/null
qemu-img bench -f raw -w -c 2000 -d 32 -s 4096 -t none "$uri" >/dev/null

# Many clients at once, and nothing is lost.
size=16M; [ "$SHORT" = 1 ] && size=4M
fio --name=verify --ioengine=nbd --uri="$tcp" --rw=randwrite --bs=4k --iodepth=32 --size=$size --verify=crc32c --group_reporting --minimal >/dev/null
fio --name=mixed --ioengine=nbd --uri="$small" --rw=randrw --bsrange=512-128k --bs_unaligned=1 --iodepth=8 --size=$size --verify=crc32c --minimal >/dev/null
fio --name=two --numjobs=4 --ioengine=nbd --uri="$uri" --rw=randwrite --bs=16k --iodepth=8 --size=$size --offset_increment=$size --verify=crc32c --minimal >/dev/null

# The exclusive lock goes to whoever writes, here and there, and nothing is lost.
lockers() { rbd lock ls $p/disk --format json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))'; }
same "$(lockers)" 1
rbd bench $p/disk --io-type write --io-size 4K --io-threads 4 --io-total 4M --io-pattern rand >/dev/null
for round in 1 2 3; do
  fio --name=mine --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=8 --offset=32M --size=1M --verify=crc32c --minimal >/dev/null & mine=$!
  fio --name=theirs --ioengine=rbd --clientname=admin --pool=$p --rbdname=disk --rw=randwrite --bs=4k --iodepth=8 --offset=48M --size=1M --verify=crc32c --minimal >/dev/null
  wait $mine
done
nbdcopy "$SCRATCH/file" "$uri"; same "$(lockers)" 1; exported | cmp - "$SCRATCH/file"

# Zeros, holes, and a new size while clients are there.
python3 - "$socket" "$p/disk" <<'PY'
import socket, struct, sys
def client(name):
    s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); f = s.makefile("rwb")
    assert f.read(18)[:8] == b"NBDMAGIC"
    f.write(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, 6 + len(name)) + struct.pack(">I", len(name)) + name + struct.pack(">H", 0)); f.flush()
    size = None
    while True:
        _, _, kind, length = struct.unpack(">QIII", f.read(20)); data = f.read(length)
        if kind == 3 and data[:2] == b"\0\0": size = struct.unpack(">Q", data[2:10])[0]
        if kind == 1: return f, size
def ask(f, command, offset, length, flags=0, data=b""):
    f.write(struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length) + data); f.flush()
    magic, error, cookie = struct.unpack(">IIQ", f.read(16)); assert (magic, cookie) == (0x67446698, 7)
    return error
f, size = client(sys.argv[2].encode()); assert size == 64 << 20
assert ask(f, 1, 1000, 5000, data=b"x" * 5000) == 0
assert ask(f, 6, 1500, 100, flags=16) == 0 and ask(f, 4, 3000, 200) == 0 and ask(f, 5, 0, 4096) == 0 and ask(f, 3, 0, 0) == 0
assert ask(f, 0, 1000, 5000) == 0
assert f.read(5000) == b"x" * 500 + b"\0" * 100 + b"x" * 1400 + b"\0" * 200 + b"x" * 2800
assert ask(f, 1, size, 512, data=b"y" * 512) == 28 and ask(f, 0, size - 1, 2) == 22 and ask(f, 9, 0, 0) == 22
assert ask(f, 0, 0, 0) == 0, "nobody else says anything that would bring its answer along"
PY
"$SEPIOLA" image resize --conf "$CEPH_CONF" --size 80M $p/disk
for _ in $(seq 50); do [ "$(nbdinfo --size "$uri")" = $((80 << 20)) ] && break; sleep 0.1; done
same "$(nbdinfo --size "$uri")" $((80 << 20))
fio --name=new --ioengine=nbd --uri="$uri" --rw=write --bs=64k --offset=70M --size=1M --verify=crc32c --minimal >/dev/null

# The holder dies: whoever comes next shuts it out, takes the lock over, and finds what was acknowledged; both ways.
mapped() { same "$(rbd info $p/disk --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["flags"])')" "[]"; rbd object-map check $p/disk --no-progress; }
holder() { rbd lock ls $p/disk --format json | python3 -c 'import json,sys; print(*(lock["address"] for lock in json.load(sys.stdin)))'; }
fio --name=last --ioengine=nbd --uri="$uri" --rw=write --bs=64k --size=1M --verify=crc32c --minimal >/dev/null
dead=$(holder); [ -n "$dead" ]; kill -9 $server; wait $server || true
fio --name=last --ioengine=rbd --clientname=admin --pool=$p --rbdname=disk --rw=randrw --bs=4k --offset=8M --size=1M --verify=crc32c --minimal >/dev/null
ceph osd blocklist ls 2>/dev/null | grep -q "$dead"; mapped
cat >"$SCRATCH/holder.py" <<'PY'
import os, rados, rbd, signal, sys
with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster, cluster.open_ioctx(sys.argv[1]) as pool, rbd.Image(pool, "disk") as image:
    image.write(b"theirs" * 1000, 20 << 20); print("written", flush=True); signal.pause()
PY
/usr/bin/python3 "$SCRATCH/holder.py" $p >"$SCRATCH/holder.out" & other=$!
for _ in $(seq 200); do grep -q written "$SCRATCH/holder.out" && break; sleep 0.1; done
dead=$(holder); [ -n "$dead" ]; kill -9 $other; wait $other || true
serve --exclusive $p/disk
for _ in $(seq 600); do [ -n "$(holder)" ] && [ "$(holder)" != "$dead" ] && break; sleep 0.1; done
same "$(lockers)" 1; ceph osd blocklist ls 2>/dev/null | grep -q "$dead"
nbdcopy "$uri" - | python3 -c 'import sys; data = sys.stdin.buffer.read(); at = 20 << 20; assert data[at:at + 6000] == b"theirs" * 1000'

# A server that keeps the lock: nobody else writes, and a second such server does not begin. It resizes for others, takes snapshots and removes them.
rbd resize $p/disk --size 90M --no-progress; same "$(nbdinfo --size "$uri")" $((90 << 20))
refused rbd resize $p/disk --size 80M --no-progress; rbd resize $p/disk --size 80M --allow-shrink --no-progress
before=$(nbdcopy "$uri" - | sha1sum); rbd snap create $p/disk@one --no-progress; refused rbd snap create $p/disk@one --no-progress
fio --name=kept --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --offset=60M --size=1M --verify=crc32c --minimal >/dev/null
rbd snap create $p/disk@two --no-progress; same "$(rbd snap ls $p/disk | awk 'NR > 1 {print $2}' | xargs)" "one two"
same "$(rbd export $p/disk@one - --no-progress | sha1sum)" "$before"; [ "$(nbdcopy "$uri" - | sha1sum)" != "$before" ]
for name in one two; do rbd snap rm $p/disk@$name --no-progress; done; same "$(rbd snap ls --all $p/disk)" ""; same "$(lockers)" 1
refused rbd bench $p/disk --io-type write --io-size 4K --io-total 4K
refused "$SEPIOLA" image resize --conf "$CEPH_CONF" --size 90M $p/disk; grep -q "keeps its exclusive lock" "$SCRATCH/refused"
refused "$SEPIOLA" nbd --conf "$CEPH_CONF" --socket "$socket.2" --exclusive $p/disk
refused "$SEPIOLA" nbd --conf "$CEPH_CONF" --socket "$socket.2" --shared $p/disk; grep -q "feature disable" "$SCRATCH/refused"
fio --name=kept --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --size=1M --verify=crc32c --minimal >/dev/null
kill $server; wait $server || true
[ ! -e "$socket" ] || { echo "the socket is left over"; exit 1; }
same "$(rbd status $p/disk | grep -c watcher= || true)" 0; same "$(lockers)" 0; mapped

# TLS: certificates as qemu-nbd and nbdkit name them.
tls=$SCRATCH/tls; mkdir -p "$tls/server" "$tls/client" "$tls/stranger"
authority() { openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout "$1/ca-key.pem" -out "$1/ca-cert.pem" -subj "/CN=$2" -config <(printf '[req]\ndistinguished_name=n\nx509_extensions=e\n[n]\n[e]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n') 2>/dev/null; }
signed() { openssl req -newkey rsa:2048 -nodes -keyout "$1/$2-key.pem" -out "$1/$2.csr" -subj "/CN=$2" 2>/dev/null
  openssl x509 -req -days 2 -in "$1/$2.csr" -CA "$tls/ca-cert.pem" -CAkey "$tls/ca-key.pem" -CAcreateserial -out "$1/$2-cert.pem" -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=%sAuth\nkeyUsage=digitalSignature,keyEncipherment\nbasicConstraints=critical,CA:FALSE\n' "$2") 2>/dev/null; }
authority "$tls" sepiola-test; authority "$tls/stranger" somebody-else; cp "$tls/ca-cert.pem" "$tls/server"; signed "$tls/server" server; cp "$tls/ca-cert.pem" "$tls/client"
secure() { : >"$SCRATCH/nbd.out"; "$SEPIOLA" nbd --conf "$CEPH_CONF" --listen 127.0.0.1:0 --tls-certs "$tls/server" "$@" $p/disk >"$SCRATCH/nbd.out" 2>"$SCRATCH/nbd.err" & server=$!
  for _ in $(seq 100); do grep -q '^listening' "$SCRATCH/nbd.out" && break; sleep 0.1; done
  port=$(sed -n 's/^listening on 127.0.0.1://p' "$SCRATCH/nbd.out"); at=localhost:$port/$p/disk; }
refused "$SEPIOLA" nbd --conf "$CEPH_CONF" --listen 127.0.0.1:0 --tls-certs "$tls" $p/disk; grep -q "server-cert.pem" "$SCRATCH/refused"
secure
nbdinfo --size "nbd://127.0.0.1:$port/$p/disk" | grep -q $((80 << 20))
kill $server; wait $server || true
secure --tls-required
nbdinfo --json "nbds://$at?tls-certificates=$tls/client" >"$SCRATCH/info.json"
python3 -c 'import json, sys; i = json.load(open(sys.argv[1])); assert i["TLS"] is True and i["exports"][0]["contexts"] == ["base:allocation"], i' "$SCRATCH/info.json"
refused nbdinfo "nbd://$at"; grep -qi tls "$SCRATCH/refused"
refused nbdinfo "nbds://$at?tls-certificates=$tls/stranger"
truncate -s 80M "$SCRATCH/file"
nbdcopy --flush "$SCRATCH/file" "nbds://$at?tls-certificates=$tls/client"
exported | cmp - "$SCRATCH/file"
nbdcopy --connections=4 "nbds://$at?tls-certificates=$tls/client" "$SCRATCH/out"; cmp "$SCRATCH/out" "$SCRATCH/file"; rm "$SCRATCH/out"
secret="tls-creds-x509,id=tls0,endpoint=client,dir=$tls/client"
options="driver=nbd,host=localhost,port=$port,export=$p/disk,tls-creds=tls0"
qemu-img compare --object "$secret" --image-opts "$options" "driver=raw,file.driver=file,file.filename=$SCRATCH/file" >/dev/null
tac "$SCRATCH/file" >"$SCRATCH/other"; truncate -s 80M "$SCRATCH/other"
qemu-img convert --object "$secret" -n -f raw --target-image-opts "$SCRATCH/other" "$options"
exported | cmp - "$SCRATCH/other"
python3 - "$port" <<'PY'
import socket, ssl, struct, sys
def connect():
    s = socket.create_connection(("localhost", int(sys.argv[1])), timeout=60); f = s.makefile("rwb")
    assert f.read(18)[:8] == b"NBDMAGIC"
    f.write(struct.pack(">I", 3)); return s, f
start = b"IHAVEOPT" + struct.pack(">II", 5, 0)
# Words in the clear behind the request for TLS end the connection.
s, f = connect(); f.write(start + b"IHAVEOPT" + struct.pack(">II", 3, 0)); f.flush()
assert f.read() in (b"", struct.pack(">QIII", 0x3e889045565a9, 5, 1, 0))
# So does what is not TLS, after an alert.
s, f = connect(); f.write(start); f.flush(); f.read(20); f.write(b"x" * 100); f.flush()
assert f.read()[:1] == b"\x15"
PY
kill $server; wait $server || true
# Only those whom the authority knows.
secure --tls-required --tls-verify-peer
refused nbdinfo "nbds://$at?tls-certificates=$tls/client"
signed "$tls/client" client
nbdinfo --size "nbds://$at?tls-certificates=$tls/client" | grep -q $((80 << 20))
kill $server; wait $server || true
same "$(rbd status $p/disk | grep -c watcher= || true)" 0
"$SEPIOLA" image rm --conf "$CEPH_CONF" $p/disk
