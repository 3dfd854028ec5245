# Block images: `rbd`, python3-rbd, QEMU and fio's rbd engine on one pool.
set -euo pipefail
p=rbd-$$ d=rbd-data-$$ t=rbd-trash-$$
for pool in $p $d $t; do ceph osd pool create $pool 16 >/dev/null; rbd pool init $pool; done
remove() { ceph osd pool rm "$1" "$1" --yes-i-really-really-mean-it >/dev/null; }
trap 'remove $p; remove $d; remove $t' EXIT
rbd() { command rbd -p $p "$@"; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1' (line ${BASH_LINENO[0]})"; exit 1; }; }
refused() { if "$@" >"$SCRATCH/refused" 2>&1; then echo "should have failed: $*"; exit 1; fi; }

# Images of every set of features are created, written, read, resized and removed.
locked=layering,exclusive-lock mapped=layering,exclusive-lock,object-map,fast-diff
for features in layering $locked $mapped $mapped,deep-flatten,journaling; do
  rbd create image --size 64M --image-feature $features
  rbd bench image --io-type write --io-size 64K --io-total 1M --io-threads 4 --io-pattern rand >/dev/null
  rbd bench image --io-type read --io-size 64K --io-total 1M --io-threads 4 >/dev/null
  same "$(rbd info image --format json | python3 -c 'import json,sys; print(",".join(json.load(sys.stdin)["features"]))')" $features
  rbd resize image --size 100M; refused rbd resize image --size 10M; rbd resize image --size 10M --allow-shrink
  case $features in *object-map*) rbd object-map check image; rbd object-map rebuild image; rbd du image >/dev/null ;; esac
  case $features in *journaling*) rbd journal info --image image | grep -q order; rbd journal status --image image | grep -q commit_position ;; esac
  rbd rm image
done
rbd create striped --size 64M --object-size 1M --stripe-unit 64K --stripe-count 4 --data-pool $d
rbd info striped | grep -q "stripe count: 4"
rbd bench striped --io-type write --io-size 128K --io-total 2M >/dev/null
[ "$(rados -p $d ls | grep -c rbd_data)" -ge 2 ]
same "$(rbd ls)" striped
rbd rm striped; same "$(rados -p $d ls | grep -c rbd_data || true)" 0

# Names, features, locks, metadata.
rbd create one --size 32M
refused rbd create one --size 32M
rbd feature disable one object-map,fast-diff,deep-flatten,exclusive-lock
rbd feature enable one exclusive-lock,object-map,fast-diff,journaling
rbd feature disable one journaling
rbd object-map rebuild one
rbd rename one two; same "$(rbd ls)" two
rbd lock add two cookie --shared tag; rbd lock ls two | grep -q cookie
rbd lock rm two cookie "$(rbd lock ls two --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["locker"])')"
same "$(rbd lock ls two)" ""
rbd image-meta set two color blue; same "$(rbd image-meta get two color)" blue
rbd image-meta ls two | grep -q color; rbd image-meta rm two color; refused rbd image-meta get two color
rbd config image set two rbd_cache false; rbd config image ls two | grep -q 'rbd_cache .*false'
rbd status two | grep -q "Watchers: none"

# Trash, namespaces, groups, mirroring.
id=$(rbd info two --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])')
rbd trash mv two; same "$(rbd ls)" ""; rbd trash ls | grep -q "$id"
rbd trash restore "$id" --image three; same "$(rbd ls)" three
rbd trash mv three --expires-at "1 hour"; refused rbd trash rm "$id"; rbd trash rm --force "$id"; same "$(rbd trash ls)" ""
rbd create gone --size 8M; rbd trash mv gone; rbd trash purge; same "$(rbd trash ls)" ""
command rbd namespace create $p/space; rbd namespace ls | grep -q space
command rbd create $p/space/inside --size 8M; same "$(command rbd ls $p/space)" inside; same "$(rbd ls)" ""
refused command rbd namespace rm $p/space
command rbd rm $p/space/inside; command rbd namespace rm $p/space

# Work in the background.
tasks() { ceph rbd task list -f json | tr -d '\n'; }
rbd create gone --size 64M; rbd bench gone --io-type write --io-size 4M --io-total 32M >/dev/null
rbd create trashed --size 8M; rbd trash mv trashed
ceph rbd task add remove $p/gone | grep -q "Removing image $p/gone"
ceph rbd task add trash remove "$p/$(rbd trash ls --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["id"])')" >/dev/null
for _ in $(seq 100); do [ "$(tasks)" = "[]" ] && break; sleep 0.1; done
same "$(tasks)" "[]"; same "$(rbd ls)" ""; same "$(rbd trash ls --all)" ""; same "$(rados -p $p ls | grep -c rbd_data || true)" 0
rbd create kept --size 8M; rbd snap create kept@s 2>/dev/null; ceph rbd task add remove $p/kept >/dev/null
for _ in $(seq 100); do tasks | grep -q "has snapshots" && break; sleep 0.1; done
ceph rbd task cancel "$(ceph rbd task list -f json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["id"])')" >/dev/null
same "$(tasks)" "[]"
command rbd clone --rbd-default-clone-format 2 $p/kept@s $p/flat; ceph rbd task add flatten $p/flat >/dev/null
for _ in $(seq 100); do [ "$(tasks)" = "[]" ] && break; sleep 0.1; done
same "$(tasks)" "[]"; same "$(rbd info flat | grep -c parent || true)" 0
for image in flat kept; do rbd snap purge $image 2>/dev/null; rbd rm $image 2>/dev/null; done

# Image statistics: polled until an OSD has counted.
rbd create busy --size 64M
( while :; do rbd bench busy --io-type write --io-size 16K --io-threads 4 --io-total 8M; done ) >/dev/null 2>&1 & busy=$!
iostat() { timeout 60 env rbd perf image iostat "$@" --format json | python3 -c 'import json,sys; print(*[i["image"] for i in json.load(sys.stdin) if i["write_ops"] > 0 and i["write_bytes"] > 0])'; }
iostat $p | grep -qw busy
ceph rbd perf image counters $p -f json | python3 -c '
import json, sys
told = json.load(sys.stdin)
assert told["counter_descriptors"][:2] == ["write_ops", "read_ops"], told
rows = {name: row for image in told["counters"] for name, row in image.items()}
[(name, row)] = [(name, row) for name, row in rows.items() if name.split("/")[1] == "busy"]
assert told["pool_descriptors"][name.split("/")[0]] == sys.argv[1] and row[0] > 0, told' $p
refused ceph rbd perf image stats nowhere
kill $busy; wait $busy 2>/dev/null || true
for _ in $(seq 100); do rbd rm busy >/dev/null 2>&1 && break; sleep 0.2; done; same "$(rbd ls)" ""

# Schedules: kept by level. The trash of a pool of its own is purged by what is due, each minute: it is looked at below.
command rbd trash purge schedule add --pool $t 1m
command rbd trash purge schedule ls --pool $t --format json | grep -q '"interval":"1m"'
command rbd trash purge schedule status --pool $t --format json | grep -q schedule_time
refused command rbd trash purge schedule add --pool nowhere 1d
refused command rbd trash purge schedule add --pool $t 1w
command rbd mirror snapshot schedule add --pool $p 1h; command rbd mirror snapshot schedule ls --pool $p | grep -q "every 1h"
command rbd mirror snapshot schedule remove --pool $p; same "$(command rbd mirror snapshot schedule ls --pool $p --format json)" ""
command rbd create $t/old --size 8M; command rbd trash mv $t/old
command rbd create $t/kept --size 8M; command rbd trash mv $t/kept --expires-at "1 day"

# Migrations that a task carries out: with snapshots, into another pool and back, ended and undone.
done_() { ceph rbd task add migration $1 "$2" >/dev/null; for _ in $(seq 300); do [ "$(tasks)" = "[]" ] && return; sleep 0.1; done; tasks; exit 1; }
rbd create away --size 32M --object-size 1M
scatter() { rbd bench away --io-type write --io-size 64K --io-total 3M --io-pattern rand >/dev/null; }
scatter; rbd snap create away@a 2>/dev/null; scatter; rbd resize away --size 12M --allow-shrink 2>/dev/null
rbd snap create away@b 2>/dev/null; rbd resize away --size 24M 2>/dev/null; scatter
sums() { for at in @a @b ""; do command rbd export "$1$at" - 2>/dev/null | sha256sum; done; }
held=$(sums $p/away)
rbd migration prepare away $d/there; same "$(sums $d/there)" "$held"
done_ execute $d/there; command rbd status $d/there | grep -q "state: executed"; same "$(sums $d/there)" "$held"
done_ commit $d/there; same "$(sums $d/there)" "$held"
same "$(rbd ls)$(rbd trash ls --all)$(rados -p $p ls | grep -c rbd_data || true)" 0
for at in "" @a @b; do command rbd object-map check $d/there$at 2>/dev/null; done
command rbd migration prepare $d/there $p/back
command rbd bench $p/back --io-type write --io-size 64K --io-total 1M --io-pattern rand >/dev/null
done_ abort $p/back; same "$(sums $d/there)" "$held"; same "$(rbd ls)$(command rbd trash ls --all $d)" ""
command rbd snap purge $d/there 2>/dev/null; command rbd rm $d/there 2>/dev/null

rbd create member --size 8M
command rbd group create $p/group; command rbd group image add $p/group $p/member
same "$(command rbd group image ls $p/group | tr -d " ")" $p/member
refused rbd rm member
command rbd group image rm $p/group $p/member; command rbd group rename $p/group $p/other; command rbd group rm $p/other
command rbd mirror pool enable $p image; command rbd mirror pool info $p | grep -q "Mode: image"
rbd mirror image enable member journal; rbd mirror image status member | grep -q global_id
command rbd mirror pool status $p | grep -q health; rbd mirror image disable member; command rbd mirror pool disable $p
rbd bench member --io-type write --io-size 4K --io-total 64K >/dev/null
rbd rm member

# Snapshots: what they show stays, also of an image that is written, resized, rolled back and flattened.
rbd create image --size 64M --image-feature $mapped
fill() { rbd bench image --io-type write --io-size 64K --io-total 4M --io-threads 4 --io-pattern rand >/dev/null; }
shown() { rbd export "$1" - 2>/dev/null | sha256sum; }
fill; first=$(shown image); rbd snap create image@first 2>/dev/null
fill; second=$(shown image); rbd snap create image@second 2>/dev/null
fill; rbd resize image --size 80M 2>/dev/null
same "$(shown image@first)" "$first"; same "$(shown image@second)" "$second"
same "$(rbd snap ls image --format json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')" 2
[ "$(rbd diff --from-snap first image@second | wc -l)" -gt 1 ]
rbd du image 2>/dev/null | grep -q image@second
rbd export-diff image@first "$SCRATCH/1" 2>/dev/null
rbd export-diff --from-snap first image@second "$SCRATCH/2" 2>/dev/null
command rbd merge-diff "$SCRATCH/1" "$SCRATCH/2" "$SCRATCH/12" 2>/dev/null
rbd create copy --size 1M; rbd import-diff "$SCRATCH/12" copy 2>/dev/null; same "$(shown copy)" "$second"
rbd snap protect image@first; refused rbd snap rm image@first
command rbd clone $p/image@first $p/child; same "$(rbd children image@first)" $p/child
same "$(shown child)" "$first"; refused rbd snap unprotect image@first
rbd bench child --io-type write --io-size 4K --io-total 256K --io-threads 2 --io-pattern rand >/dev/null
changed=$(shown child); rbd flatten child 2>/dev/null; same "$(shown child)" "$changed"
same "$(rbd children image@first)" ""; rbd snap unprotect image@first
rbd snap rollback image@first 2>/dev/null; same "$(shown image)" "$first"; same "$(shown image@second)" "$second"
command rbd clone --rbd-default-clone-format 2 $p/image@second $p/young; same "$(shown young)" "$second"; rbd rm young 2>/dev/null
command rbd deep cp $p/image $p/deep 2>/dev/null; same "$(shown deep@second)" "$second"
rbd snap rename image@second image@third; rbd snap rm image@third 2>/dev/null
for image in image copy deep child; do rbd snap purge $image 2>/dev/null; rbd rm $image 2>/dev/null; done
same "$(rados -p $p ls | grep -c rbd_data || true)" 0

# Data in and out.
head -c 20000000 /dev/urandom >"$SCRATCH/in"; truncate -s 40000000 "$SCRATCH/in"
rbd import "$SCRATCH/in" data; rbd export data "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
rbd object-map check data; [ "$(rados -p $p ls | grep -c rbd_data)" -lt 7 ]
rbd cp data $p/copy; rbd export copy - | cmp - "$SCRATCH/in"
rbd export-diff data "$SCRATCH/diff"; rbd create patched --size 40000000B; rbd import-diff "$SCRATCH/diff" patched
rbd export patched - | cmp - "$SCRATCH/in"
rbd sparsify copy; rbd export copy - | cmp - "$SCRATCH/in"
rbd migration prepare copy $p/moved; rbd migration execute moved; rbd migration commit moved
rbd deep cp moved $p/deep; rbd export deep - | cmp - "$SCRATCH/in"; same "$(rbd trash ls --all)" ""
for image in moved deep patched; do rbd rm $image; done

python3 - $p "$SCRATCH" <<'PY'
import os, rados, rbd, sys
pool, scratch = sys.argv[1:]
with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster, cluster.open_ioctx(pool) as ioctx:
    library = rbd.RBD()
    library.create(ioctx, "python", 32 << 20, old_format=False)
    with rbd.Image(ioctx, "python") as image:
        image.write(b"x" * 70000, 4 << 20)
        image.write(b"y" * 10, (8 << 20) - 5)
        assert image.read(4 << 20, 70001) == b"x" * 70000 + b"\0"
        assert image.read((8 << 20) - 5, 10) == b"y" * 10
        image.discard(4 << 20, 4 << 20)
        assert image.read(4 << 20, 70000) == b"\0" * 70000
        image.write_zeroes(8 << 20, 4096)
        extents = []
        image.diff_iterate(0, image.size(), None, lambda offset, length, exists: extents.append((offset, exists)))
        image.flush()
        done = []
        writes = [image.aio_write(bytes([n]) * 4096, n << 16, lambda _: done.append(1)) for n in range(64)]
        for write in writes:
            write.wait_for_complete_and_cb()
        assert len(done) == 64 and image.read(63 << 16, 4096) == bytes([63]) * 4096
        image.resize(64 << 20)
        assert image.size() == 64 << 20 and image.is_exclusive_lock_owner()
        image.metadata_set("key", "value")
        assert list(image.metadata_list()) == [("key", "value")]
    assert "python" in library.list(ioctx)
    library.rename(ioctx, "python", "renamed")
    library.remove(ioctx, "renamed")
PY

if command -v qemu-img >/dev/null; then
  drive() { echo "rbd:$p/$1:conf=$CEPH_CONF"; }
  qemu-img compare -f raw -F raw "$SCRATCH/in" "$(drive data)" >/dev/null
  qemu-img convert -f raw -O qcow2 "$(drive data)" "$SCRATCH/disk.qcow2"; qemu-img check "$SCRATCH/disk.qcow2" >/dev/null
  qemu-img convert -f qcow2 -O raw "$SCRATCH/disk.qcow2" "$(drive qemu)"
  qemu-img compare -f raw -F raw "$(drive data)" "$(drive qemu)" >/dev/null
  qemu-img resize -f raw "$(drive qemu)" 64M >/dev/null; rbd rm qemu
else
  echo "without QEMU, which is not installed"
fi
rbd rm data

# Any set of features, and none, under random writes that are verified.
jobs=layering; [ "$SHORT" = 1 ] || jobs="layering $locked $mapped,journaling"
for features in $jobs $mapped; do
  rbd create fio --size 64M --image-feature $features
  fio --name=verify --ioengine=rbd --clientname=admin --pool=$p --rbdname=fio --rw=randrw --bs=512-64k --iodepth=16 \
    --size=64M --io_size=24M --verify=crc32c --do_verify=1 --verify_fatal=1 --output="$SCRATCH/fio" || { cat "$SCRATCH/fio"; exit 1; }
  case $features in *object-map*) rbd object-map check fio ;; esac
  rbd rm fio
done
same "$(rados -p $p ls | grep -v '^rbd_\(directory\|info\|trash\|children\|namespace\|mirroring\|group_directory\|task\)$' || true)" ""

# What was scheduled above has been done.
for _ in $(seq 900); do command rbd trash ls $t | grep -q old || break; sleep 0.1; done
same "$(command rbd trash ls $t | cut -d " " -f 2)" kept
command rbd trash rm --force "$t/$(command rbd trash ls $t --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["id"])')"
command rbd trash purge schedule remove --pool $t; same "$(command rbd trash purge schedule ls --pool $t --format json)" ""
