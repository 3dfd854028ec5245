# Sepiola's own metadata server with stock clients: `sepiola up --fs`, ceph-fuse, python3-cephfs where it is installed; files are written,
# changed, read back by the same and by another client, and after another mount. Needs ceph-fuse, /dev/fuse, and root.
set -euo pipefail
fail() { echo "$*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: expected '$2', found '$1'"; }
within() { timeout 30 "$@" || fail "failed or took too long: $*"; }
until_true() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; fail "never true: $*"; }
unset CEPH_ARGS
data=$SCRATCH/own; one=$SCRATCH/one; two=$SCRATCH/two; mkdir -p "$one" "$two"
export CEPH_CONF=$data/ceph.conf
pids=()
stop() {
  umount -l "$one" 2>/dev/null || true; umount -l "$two" 2>/dev/null || true
  "$SEPIOLA" down --data "$data" >/dev/null 2>&1 || true
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}
trap stop EXIT
options=""; user=admin
mount_at() {
  ceph-fuse $options -f -c "$CEPH_CONF" -n client.$user --log-file "$SCRATCH/fuse.log" "$1" >"$SCRATCH/fuse.out" 2>&1 </dev/null &
  pids+=($!)
  until_true mountpoint -q "$1"
}
before=""
is_active_again() { local now; now=$(ceph fs dump 2>/dev/null | grep -o "mds.a{0:[0-9]*} state up:active"); [ -n "$now" ] && [ "$now" != "$before" ]; }
contents() { (cd "$1"; find . -type f -print0 | sort -z | xargs -0 md5sum; find . \( -type d -printf '%M %u %g %p\n' \) -o -printf '%M %n %u %g %s %T@ %p %l\n' | sort); }

up="up --data $data --osds 1 --disk-size 1G --listen 127.0.0.1:0 --metrics none"
"$SEPIOLA" $up --fs tree >"$SCRATCH/up.out" 2>"$SCRATCH/up.err" </dev/null &
pids+=($!)
until_true grep -q "mount -t ceph admin@" "$SCRATCH/up.out"
until_true grep -q "Ctrl-C" "$SCRATCH/up.out"
grep -q "tree:1 {0=a=up:active}" <<<"$(ceph mds stat)" || fail "$(ceph mds stat)"
same "$(ceph fs ls)" "name: tree, metadata pool: cephfs.tree.meta, data pools: [cephfs.tree.data ]" "fs ls"
grep -q "mds: 1/1 daemons up" <<<"$("$SEPIOLA" status --data "$data")" || fail "$("$SEPIOLA" status --data "$data")"

# One client.
mount_at "$one"
cd "$one"
within df . >/dev/null
within mkdir -p a/b/c
echo hello >a/x; same "$(cat a/x)" hello "write"
echo more >>a/x; same "$(cat a/x)" $'hello\nmore' "append"
within truncate -s 3 a/x; same "$(cat a/x)" hel "a shorter file"
within truncate -s 5 a/x; same "$(od -An -tx1 a/x | tr -d ' \n')" 68656c0000 "a longer file"
head -c 9000000 /dev/urandom >"$SCRATCH/big"; within cp "$SCRATCH/big" a/big; within cmp "$SCRATCH/big" a/big
within mv a/x a/b/y; [ ! -e a/x ] || fail "a renamed file is still there"
echo target >a/t1; echo other >a/t2; within mv a/t1 a/t2; same "$(cat a/t2)" target "rename over a file"
within ln a/t2 a/b/hard; same "$(stat -c %h a/t2)" 2 "links"; same "$(stat -c %i a/t2)" "$(stat -c %i a/b/hard)" "inode of a link"
echo new >a/b/hard; same "$(cat a/t2)" new "write by another name"
within rm a/t2; same "$(cat a/b/hard)" new "the other name"; same "$(stat -c %h a/b/hard)" 1 "links"
within ln -s b/hard a/link; same "$(cat a/link)" new "symbolic link"
within chmod 640 a/b/hard; within chown 1000:1001 a/b/hard; same "$(stat -c %a:%u:%g a/b/hard)" 640:1000:1001 "mode and owner"
within touch -d 2001-02-03T04:05:06Z a/b/hard; same "$(stat -c %Y a/b/hard)" 981173106 "mtime"
python3 - a/b/hard <<'PY'
import os, sys
path = sys.argv[1]
os.setxattr(path, "user.k", b"value")
assert os.getxattr(path, "user.k") == b"value"
os.setxattr(path, "user.other", b"x" * 5000)
assert sorted(os.listxattr(path)) == ["user.k", "user.other"], os.listxattr(path)
os.removexattr(path, "user.k")
assert os.listxattr(path) == ["user.other"]
PY
count=300; [ "$SHORT" = 1 ] || count=3000
for i in $(seq $count); do echo $i >a/b/c/f$i; done; same "$(ls a/b/c | wc -l)" $count "entries"
within rm a/b/c/f7; same "$(ls a/b/c | wc -l)" $((count - 1)) "entries"
if rmdir a/b 2>/dev/null; then fail "a full directory was removed"; fi
within mv a/b a/bb; same "$(cat a/bb/hard)" new "renamed directory"
if mv a a/bb 2>/dev/null; then fail "a directory was moved below itself"; fi
exec 5>open; echo 1 >&5; within rm open; echo 2 >&5; exec 5>&-
within dd if=/dev/zero of=sparse bs=1 count=1 seek=10M status=none; same "$(stat -c %s sparse)" 10485761 "sparse file"
within sync .

# Another mount shows the same. ceph-fuse 16.2 answers a revocation before the kernel has dropped its pages, so another client's data is seen
# late, with Ceph's own server, too: clients of it that share files do without these pages.
if ceph-fuse --version | grep -q "version 16"; then options=--fuse_disable_pagecache=true; fi
contents "$one" >"$SCRATCH/before"
cd /; umount "$one"; mount_at "$one"; mount_at "$two"
contents "$one" >"$SCRATCH/after"; diff "$SCRATCH/before" "$SCRATCH/after" || fail "another mount shows something else"
contents "$two" >"$SCRATCH/after"; diff "$SCRATCH/before" "$SCRATCH/after" || fail "another client sees something else"

# Two clients.
within mkdir "$one/both"
for i in $(seq 30); do echo $i >"$one/both/f"; same "$(cat "$two/both/f")" $i "what the other has written"; done
# For the same reason the kernel may take no size from the lookup of an open, and append elsewhere (seen with ceph-fuse 16.2 and 18.2, and
# with 16.2 on Ceph's own server): it is asked before.
append() { stat "$2" >/dev/null; echo "$1" >>"$2"; }
touch "$one/both/l"
for i in $(seq 10); do append a "$one/both/l"; append b "$two/both/l"; done; same "$(wc -l <"$one/both/l")" 20 "lines of both"
within mv "$one/both/f" "$one/both/g"; same "$(ls "$two/both" | tr '\n' ' ')" "g l " "renamed by the other"
within truncate -s 3 "$two/both/l"; same "$(cat "$one/both/l" | tr '\n' ' ')" "a b" "cut by the other"
(for i in $(seq 100); do echo $i >"$one/both/a$i"; done) & first=$!
for i in $(seq 100); do echo $i >"$two/both/b$i"; done
wait $first
same "$(ls "$one/both" | wc -l)" 202 "entries of both"; same "$(ls "$two/both" | wc -l)" 202 "entries of both"
for i in $(seq 100); do same "$(cat "$two/both/a$i")$(cat "$one/both/b$i")" $i$i "files of both"; done
exec 5<"$two/both/a5"; within rm "$one/both/a5"; same "$(cat <&5)" 5 "a file without a name"; exec 5<&-

# A file that is cut loses its data in the pool, and shows zeros when it is longer again: also when it is cut twice, the second time behind the
# first. Objects stay without data until the file is removed, and have the size to which they were cut.
head -c 10485760 /dev/urandom >"$SCRATCH/ten"; cut=both/cut; within cp "$SCRATCH/ten" "$one/$cut"; within sync "$one/$cut"
ino=$(printf %x "$(stat -c %i "$one/$cut")")
sizes() { for object in 0 1 2; do rados -p cephfs.tree.data stat "$ino.0000000$object" 2>/dev/null | sed 's/.*size //' || echo none; done | tr '\n' ' '; }
have_sizes() { [ "$(sizes)" = "$1" ]; }
until_true have_sizes "4194304 4194304 2097152 "
within truncate -s 1M "$two/$cut"; until_true have_sizes "1048576 0 0 "
within truncate -s 10M "$one/$cut"; within truncate -s 6M "$two/$cut"; within truncate -s 9M "$one/$cut"
until_true have_sizes "1048576 2097152 0 "
cmp <(head -c 1M "$SCRATCH/ten"; head -c 8M /dev/zero) "$one/$cut" || fail "a file that was cut twice shows old data"
cmp "$one/$cut" "$two/$cut" || fail "clients see different data of a file that was cut"
within rm "$one/$cut"
steps=2000; [ "$SHORT" = 1 ] && steps=400
within mkdir "$one/model"
for seed in 1 2 3; do timeout 300 python3 "$TWO_MOUNTS" $seed $steps "$one/model" "$two/model"; rm -f "$one/model/"*; done
timeout 120 python3 "$TWO_LOCKS" "$one/model" "$two/model"
if python3 -c "import cephfs" 2>/dev/null; then
  python3 - <<'PY'
import cephfs, os
fs = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"], auth_id="admin")
fs.mount(filesystem_name=b"tree")
fs.mkdir("/python", 0o755)
file = fs.open("/python/file", "w", 0o644)
assert fs.write(file, b"from python", 0) == 11
fs.fsync(file, 0)
fs.close(file)
fs.setxattr("/python/file", "user.x", b"1", 0)
assert fs.getxattr("/python/file", "user.x") == b"1"
assert fs.stat("/python/file").st_size == 11
fs.unmount(); fs.shutdown()
PY
  same "$(cat "$one/python/file")" "from python" "written by libcephfs"
fi

# Commands to the server.
tell() { timeout 30 ceph tell "$@" 2>"$SCRATCH/tell.err"; }
field() { python3 -c "import json, sys; shown = json.load(sys.stdin); print(eval(sys.argv[1], {'shown': shown, 'len': len, 'sorted': sorted}))" "$1"; }
same "$(tell mds.a status | field "shown['state']")" up:active "ceph tell mds.a status"
same "$(tell mds.0 status | field "shown['whoami']")" 0 "ceph tell mds.0 status"
tell 'mds.*' version | grep -q "sepiola version" || fail "ceph tell mds.* version: $(cat "$SCRATCH/tell.err")"
same "$(tell mds.a session ls | field "len(shown)")" 2 "sessions"
tell mds.a client ls state=open | field "sorted(session['client_metadata']['mount_point'] for session in shown)" | grep -q "$one.*$two" || fail "mount points of the sessions"
same "$(tell mds.a ops | field "shown['num_ops']")" 0 "requests in flight"
[ "$(tell mds.a perf dump mds | field "shown['mds']['request']")" -gt 100 ] || fail "requests are not counted"
same "$(tell mds.a dump inode 1 | field "shown['path']")" / "the root"
tell mds.a cache status >/dev/null; same "$(tell mds.a damage ls | field "shown")" "[]" "damage"
tell mds.a config show >/dev/null; tell mds.a config get mds_cache_memory_limit >/dev/null; tell mds.a help >/dev/null
same "$(tell mds.a flush journal | field "shown['return_code']")" 0 "flush journal"
log() { tell mds.a perf dump mds_log | field "shown['mds_log']['$1_record']"; }
touch "$one/flushed"; tell mds.a flush journal >/dev/null; [ "$(log checkpoint)" -gt 0 ] || fail "no checkpoint after flush journal"; rm "$one/flushed"
for refusal in "heap stats" "cache drop"; do if tell mds.a $refusal; then fail "mds.a answers '$refusal'"; fi; grep -q "does not serve" "$SCRATCH/tell.err" || fail "'$refusal': $(cat "$SCRATCH/tell.err")"; done
grep -q "0 *active *a" <<<"$(ceph fs status tree)" || fail "$(ceph fs status tree)"
# The server reports every two seconds.
counts_clients() { grep -q "^tree - $1 clients$" <<<"$(ceph fs status tree)"; }
until_true counts_clients 2
evicted=$(tell mds.a session ls "client_metadata.mount_point=$two" | field "shown[0]['id']")
tell mds.a session evict "id=$evicted" >/dev/null || fail "session evict: $(cat "$SCRATCH/tell.err")"
same "$(tell mds.a session ls "id=$evicted" | field "len(shown)")" 0 "sessions of the client that was evicted"
[ -n "$(ceph osd blocklist ls 2>/dev/null)" ] || fail "a client was evicted without the blocklist"
umount -l "$two"; mount_at "$two"; same "$(ls "$two" | sort)" "$(ls "$one" | sort)" "a client that was evicted, mounted anew"

# Layouts: data of new files goes to the pool and the namespace of their directory, is truncated and removed there, and a file that has data
# keeps its layout.
ceph osd pool create extra 8 >/dev/null 2>&1; ceph fs add_data_pool tree extra >/dev/null 2>&1
within mkdir "$one/laid"
python3 - "$one/laid" "$SCRATCH/ten" <<'PY'
import errno, os, sys
laid, source = sys.argv[1:]
layout = "stripe_unit=65536 stripe_count=3 object_size=131072 pool=extra pool_namespace=theirs"
os.setxattr(laid, "ceph.dir.layout", layout.encode())
assert os.getxattr(laid, "ceph.dir.layout").decode() == layout, os.getxattr(laid, "ceph.dir.layout")
data = open(source, "rb").read(1000000)
with open(laid + "/f", "wb") as file:
    file.write(data)
    os.fsync(file.fileno())
assert os.getxattr(laid + "/f", "ceph.file.layout").decode() == layout
for name, value in [("ceph.file.layout.pool", "cephfs.tree.data"), ("ceph.dir.layout.stripe_unit", "1234"), ("ceph.dir.layout.pool", "nonesuch")]:
    path, error = (laid + "/f", errno.ENOTEMPTY) if "file" in name else (laid, errno.EINVAL)
    try:
        os.setxattr(path, name, value.encode())
    except OSError as refused:
        assert refused.errno == error, (name, refused)
    else:
        raise AssertionError(name)
os.truncate(laid + "/f", 100000)
os.truncate(laid + "/f", 1000000)
assert open(laid + "/f", "rb").read() == data[:100000] + bytes(900000)
PY
same "$(rados -p extra -N theirs ls | wc -l)" 9 "objects of a striped file"
bytes_in() { for object in $(rados -p extra -N theirs ls); do rados -p extra -N theirs stat "$object" | sed 's/.*size //'; done | awk '{ sum += $1 } END { print sum + 0 }'; }
have_bytes() { [ "$(bytes_in)" = "$1" ]; }
until_true have_bytes 100000
within rm "$one/laid/f"; have_no_objects() { local objects; objects=$(rados -p extra --all ls) && [ -z "$objects" ]; }; until_true have_no_objects
ceph fs rm_data_pool tree extra >/dev/null 2>&1; rmdir "$one/laid"

# Clients whose capabilities do not allow everything.
umount "$two"
until_true have_sizes "none none none "
mkdir -p "$one/p/a" "$one/p/b"; chmod 777 "$one/p/b"; echo x >"$one/p/a/x"; echo y >"$one/p/b/y"
new_user() { user=$1; shift; ceph fs authorize tree client.$user "$@" >"$data/ceph.client.$user.keyring"; options="$options --keyring $data/ceph.client.$user.keyring"; }
refused() { if "$@" 2>"$SCRATCH/refused"; then fail "$user may do what it may not: $*"; fi; grep -q "Permission denied" "$SCRATCH/refused" || fail "$(cat "$SCRATCH/refused")"; }
all=$options
new_user part / r /p/a rw
mount_at "$two"
same "$(cat "$two/p/a/x" "$two/p/b/y" | tr '\n' ' ')" "x y " "what a client may read"
if timeout 30 ceph -n client.part --keyring "$data/ceph.client.part.keyring" tell mds.a session ls >/dev/null 2>"$SCRATCH/tell.err"; then fail "a client without 'allow *' commands the server"; fi; grep -q EACCES "$SCRATCH/tell.err" || fail "$(cat "$SCRATCH/tell.err")"
echo z >>"$two/p/a/x"; mkdir "$two/p/a/d"; rmdir "$two/p/a/d"
for change in "touch $two/p/b/n" "rm $two/p/b/y" "chmod 600 $two/p/b/y" "truncate -s 0 $two/p/b/y" "mv $two/p/a/x $two/p/b/x" "ln $two/p/b/y $two/p/a/y" "mkdir $two/d"; do refused $change; done
umount "$two"; options=$all; new_user inner /p/a rw
same "$(options="$options --client_mount_timeout 5"; ceph-fuse $options -f -n client.inner --log-file "$SCRATCH/fuse.log" "$two" 2>&1 | grep -c "may not mount '/'")" 1 "mount of more than is allowed"
options="$options -r /p/a"; mount_at "$two"; same "$(cat "$two/x" | tr '\n' ' ')" "x z " "a client of one directory"; echo n >"$two/n"
umount "$two"; options=$all; new_user squashed / rw root_squash
mount_at "$two"
refused touch "$two/p/b/n"; refused chmod 600 "$two/p/b/y"
python3 - "$two/p/b/n" <<'PY'
import os, sys
os.setgroups([]); os.setgid(1000); os.setuid(1000)
open(sys.argv[1], "w").write("by a user")
PY
same "$(cat "$one/p/b/n")" "by a user" "root_squash"
umount "$two"; options=$all; user=admin; mount_at "$two"
within rm -rf "$one/a" "$one/both" "$one/model" "$one/python" "$one/sparse" "$one/p"; same "$(ls -A "$two")" "" "what is left"

# A client goes on when its connection to the server breaks, in whichever message.
if command -v ss >/dev/null; then
  port=$(ceph fs dump 2>/dev/null | sed -n 's/.*mds\.a{0:.* addr v2:[0-9.]*:\([0-9]*\).*/\1/p')
  [ -n "$port" ] || fail "the map does not tell the server's port"
  mkdir "$one/k"; broken=0
  (for i in $(seq 300); do mkdir "$one/k/d$i"; echo $i >"$one/k/d$i/f"; mv "$one/k/d$i/f" "$one/k/d$i/g"; done) & first=$!
  for i in $(seq 200); do kill -0 $first 2>/dev/null || break; if [ -n "$(ss -HK "dport = :$port" 2>/dev/null)" ]; then broken=$((broken + 1)); fi; sleep 0.2; done
  [ $broken -gt 0 ] || fail "ss -K broke no connection: does the kernel have CONFIG_INET_DIAG_DESTROY?"
  if kill -0 $first 2>/dev/null; then fail "a client hangs after its connection has broken"; fi
  for i in $(seq 300); do same "$(cat "$two/k/d$i/g")" $i "file $i, which was made while connections broke"; done
  within rm -rf "$one/k"
fi

# Quotas: clients stop at a bound of entries (a directory counts itself) and of bytes, whichever of them used it up; what is moved out counts
# no more; `df` of a directory with a quota shows that. They outlive the server.
attribute() { python3 -c 'import os, sys; path, name, *value = sys.argv[1:]; os.setxattr(path, name, value[0].encode()) if value else print(os.getxattr(path, name).decode())' "$@"; }
over_quota() { if "$@" 2>"$SCRATCH/refused"; then fail "beyond a quota: $*"; fi; grep -q "Disk quota exceeded\|Errno 122" "$SCRATCH/refused" || fail "$(cat "$SCRATCH/refused")"; }
shows() { [ "$(attribute "$1" "$2")" = "$3" ]; }
q="$one/q"; within mkdir -p "$q/in/deep"
attribute "$q" ceph.quota.max_files 6; attribute "$q" ceph.quota.max_bytes 2000000
same "$(attribute "$q" ceph.quota)" "max_bytes=2000000 max_files=6" "a quota"
until_true shows "$two/q" ceph.quota "max_bytes=2000000 max_files=6"
for i in 1 2 3; do echo $i >"$q/in/deep/f$i"; done
same "$(attribute "$q" ceph.dir.rentries)" 6 "entries below the quota"
over_quota touch "$q/in/f4"; over_quota mkdir "$q/in/d4"
until_true shows "$two/q" ceph.dir.rentries 6; over_quota touch "$two/q/in/deep/g"
within rm "$q/in/deep/f3"; touch "$q/in/f4"; over_quota touch "$q/in/f5"
attribute "$q" ceph.quota.max_files 0; touch "$q/in/f5" "$two/q/in/deep/g"
within head -c 1500000 /dev/zero >"$q/in/f5"; within sync "$q/in/f5"
over_quota dd if=/dev/zero of="$q/in/deep/big" bs=1M count=64 oflag=append conv=notrunc status=none
rm -f "$q/in/deep/big"; until_true shows "$two/q" ceph.dir.rbytes 1500004; over_quota dd if=/dev/zero of="$two/q/in/deep/g" bs=1M count=64 status=none
mkdir "$one/free"; mv "$q/in" "$one/free/in"; within head -c 3000000 /dev/zero >"$one/free/in/f6"; same "$(attribute "$q" ceph.dir.rbytes)" 0 "bytes of a quota whose files were moved"
attribute "$q" ceph.quota.max_bytes 104857600
umount "$two"; options="$options -r /q"; mount_at "$two"; same "$(df --output=size -B1M "$two" | tail -1 | tr -d ' ')" 100 "df of a quota"
umount "$two"; options=${options% -r /q}; mount_at "$two"; attribute "$q" ceph.quota.max_files 3; touch "$q/a"

kill_server() {
  local process
  for process in /proc/[0-9]*; do
    if { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -q "mds start .*--data $data/mds.a"; then kill -9 "${process#/proc/}"; fi
  done
}
# Snapshots: they keep what was there, whatever becomes of it, through both clients, also behind a kill of the server.
objects() { rados -p cephfs.tree.data ls 2>/dev/null | wc -l; }
kept=$(objects); are_as_before() { [ "$(objects)" -le "$kept" ]; }
s="$one/s"; t="$two/s"; within mkdir -p "$s/a/b" "$s/c"
echo one >"$s/a/f"; echo deep >"$s/a/b/g"; echo gone >"$s/a/unlinked"; echo cut and long >"$s/a/cut"; echo hard >"$s/c/h1"; ln "$s/c/h1" "$s/a/h2"
head -c 9000000 /dev/urandom >"$SCRATCH/old"; cp "$SCRATCH/old" "$s/a/big"; python3 -c "import os, sys; os.setxattr(sys.argv[1], 'user.x', b'1')" "$s/a/f"
contents "$s" >"$SCRATCH/s.before"
within mkdir "$s/.snap/x"
same "$(ls "$s/.snap")" x "snapshots"
same "$(cat "$s/.snap/x/a/f")" one "a file in a snapshot, at once"
contents "$s/.snap/x" | sed 's/ 1 root/ 1 root/' >"$SCRATCH/s.snap"
diff <(cut -d' ' -f1,3- "$SCRATCH/s.before" | grep -v ' d') <(cut -d' ' -f1,3- "$SCRATCH/s.snap" | grep -v ' d') >"$SCRATCH/s.diff" || { head -5 "$SCRATCH/s.diff"; fail "the snapshot differs at once"; }
echo two >"$s/a/f"; echo more >>"$s/a/b/g"; rm "$s/a/unlinked"; truncate -s 3 "$s/a/cut"; head -c 5000000 /dev/urandom | dd of="$s/a/big" conv=notrunc bs=1M seek=1 status=none
mv "$s/a/b" "$s/c/bb"; echo new >"$s/a/new"; echo changed >"$s/c/h1"; chmod 600 "$s/a/f"; rm -r "$s/a/h2"; within sync "$s/c/h1"
rm "$s/a/big"; mkdir "$s/a/big"; touch "$s/c/bb/z"; sync -f "$s" || true
compare() { contents "$1/.snap/x" >"$SCRATCH/s.snap"; diff <(grep -v "^d" "$SCRATCH/s.before" | cut -d' ' -f1,3-) <(grep -v "^d" "$SCRATCH/s.snap" | cut -d' ' -f1,3-) >"$SCRATCH/s.diff" || { head -5 "$SCRATCH/s.diff"; fail "$2"; }; }
compare "$s" "the snapshot has changed"
compare "$t" "another client sees another snapshot"
cmp "$SCRATCH/old" "$t/.snap/x/a/big" || fail "a removed file in a snapshot"
same "$(ls "$s/a/.snap")" "_x_$(stat -c %i "$s")" "the snapshot of a directory above"
# ceph-fuse keeps one name of a directory, also of one in a snapshot.
same "$(cat "$t/c/.snap/"_x_*/h1)" hard "by a directory below"; umount "$two"; mount_at "$two"
if touch "$s/.snap/x/a/w" 2>/dev/null; then fail "a snapshot can be changed"; fi
if rm "$s/.snap/x/a/f" 2>/dev/null; then fail "a snapshot can be changed"; fi
if mkdir "$s/.snap/x" 2>/dev/null; then fail "two snapshots of a name"; fi
if rmdir "$s/.snap/none" 2>/dev/null; then fail "a snapshot that is not there is removed"; fi
# A second one, and files that move out of the first one's directory.
echo second >"$s/a/f"; within mkdir "$t/a/.snap/y"; echo third >"$s/a/f"
same "$(cat "$t/a/.snap/y/f") $(cat "$t/.snap/x/a/f") $(cat "$t/a/f")" "second one third" "two snapshots"
mv "$s/c/bb" "$one/moved"; echo x >"$one/moved/g"; within sync "$one/moved/g"; same "$(cat "$t/.snap/x/a/b/g")" deep "a file that was moved away and changed"
mv "$s/.snap/x" "$s/.snap/xx"; same "$(ls "$t/.snap")" xx "a renamed snapshot"; mv "$s/.snap/xx" "$s/.snap/x"
before=$(ceph fs dump 2>/dev/null | grep -o "mds.a{0:[0-9]*} state up:active")
kill_server; until_true is_active_again
compare "$t" "the snapshot has changed with the server"
umount "$one"; mount_at "$one"
compare "$s" "the snapshot differs after another mount"
same "$(cat "$s/a/.snap/y/f")" second "the other one"
echo fourth >"$s/a/f"; same "$(cat "$s/a/.snap/y/f")" second "the other one, by a new mount"
if rmdir "$s/a" 2>/dev/null; then fail "a directory with snapshots was removed"; fi
rmdir "$t/a/.snap/y"; same "$(ls "$s/a/.snap" | grep -c y)" 0 "a removed snapshot"; compare "$s" "the snapshot has changed when another one was removed"
rmdir "$s/.snap/x"; same "$(ls -A "$s/.snap")" "" "snapshots"
rm -rf "$s" "$one/moved"; until_true are_as_before

# A server that is failed, and one that is killed, have all that they have answered, and clients go on. `up` starts it again.
grows() { for i in $(seq $1 $2); do echo $i >"$one/w/f$i"; mv "$one/w/f$i" "$one/w/g$i"; done; }
mkdir "$one/w"; cp "$SCRATCH/big" "$one/big"; ln "$one/big" "$one/w/hard"
grows 1 200 & first=$!
before=$(ceph fs dump 2>/dev/null | grep -o "mds.a{0:[0-9]*} state up:active")
ceph mds fail 0 2>/dev/null
until_true is_active_again
wait $first
grows 201 400 & first=$!
for i in 1 2 3; do
  sleep 1
  before=$(ceph fs dump 2>/dev/null | grep -o "mds.a{0:[0-9]*} state up:active")
  kill_server
  until_true is_active_again
done
wait $first
same "$(grep -c "the metadata server has ended (signal: 9" "$SCRATCH/up.err")" 4 "ends of the server that were told"
for i in $(seq 400); do same "$(cat "$one/w/g$i")" $i "file $i, which was made under kills"; done
within cmp "$SCRATCH/big" "$one/w/hard"
touch "$q/b"; over_quota touch "$q/c"
contents "$one" >"$SCRATCH/before"
umount "$one" "$two"; mount_at "$one"
contents "$one" >"$SCRATCH/after"; diff "$SCRATCH/before" "$SCRATCH/after" || fail "another mount shows something else after kills"
umount "$one"
"$SEPIOLA" down --data "$data" >/dev/null
if grep -i panic "$SCRATCH/up.err"; then fail "a daemon panicked"; fi
