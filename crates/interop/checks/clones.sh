# Clones made, written, flattened and removed by `sepiola image` and `sepiola nbd`, and by librbd, in turn.
set -euo pipefail
p=clones-$$ d=clones-other-$$
for pool in $p $d; do ceph osd pool create $pool 16 >/dev/null; rbd pool init $pool; done
servers=()
finish() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; wait "$server" || true; done
  for pool in $p $d; do ceph osd pool rm $pool $pool --yes-i-really-really-mean-it >/dev/null; done
}
trap finish EXIT
image() { local verb=$1; shift; if [ "$verb" = snap ]; then verb="snap $1"; shift; fi; "$SEPIOLA" image $verb --conf "$CEPH_CONF" "$@"; }
rbd() { command rbd -p $p "$@"; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1' (line ${BASH_LINENO[0]})"; exit 1; }; }
refused() { if "$@" >"$SCRATCH/refused" 2>&1; then echo "should have failed: $*"; exit 1; fi; }
said() { grep -q "$1" "$SCRATCH/refused" || { echo "not said: $1"; cat "$SCRATCH/refused"; exit 1; }; }
digest() { python3 -c 'import hashlib,sys; print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())'; }
theirs() { command rbd export "$1" - --no-progress | digest; }
ours() { image export "$1" - | digest; }
both() { same "$(ours "$1")" "$2"; same "$(theirs "$1")" "$2"; }
their_clone() { command rbd clone --rbd-default-clone-format 2 --image-feature layering,deep-flatten "$@"; }
# Serves an image or a snapshot; `uri` is then its address.
serve() {
  local socket=$SCRATCH/serve-${#servers[@]}.sock; uri="nbd+unix:///$1?socket=$socket"
  "$SEPIOLA" nbd --conf "$CEPH_CONF" --socket "$socket" "$1" >"$SCRATCH/nbd.out" 2>&1 & servers+=($!)
  for _ in $(seq 200); do [ -S "$socket" ] && return; sleep 0.05; done; cat "$SCRATCH/nbd.out"; exit 1
}
unserve() { local server=${servers[-1]}; kill "$server"; wait "$server" || true; unset 'servers[-1]'; }
# Random writes and zeros of all sizes: commands of qemu-io.
scribble() {
  python3 - "$1" "$2" "$3" >"$SCRATCH/scribble" <<'PY'
import random, sys
seed, size, count = map(int, sys.argv[1:])
random.seed(seed)
for number in range(count):
    length = 512 * random.choice((1, 8, 33, 200, 2048, 5000))
    offset = 512 * random.randrange(0, (size - length) // 512 + 1)
    kind = random.randrange(4)
    command = f"write -P {random.randrange(1, 256)}" if kind < 2 else "write -z" if kind == 2 else "write -z -u"
    print(f"{command} {offset} {length}")
PY
}
play() { # address, option…
  local address=$1; shift
  qemu-io -f raw "$@" "$address" <"$SCRATCH/scribble" >"$SCRATCH/qemu-io" 2>&1
  if grep -qi "fail\|error" "$SCRATCH/qemu-io"; then grep -i "fail\|error" "$SCRATCH/qemu-io" | head; exit 1; fi
  same "$(grep -c "wrote " "$SCRATCH/qemu-io")" "$(wc -l <"$SCRATCH/scribble")"
}
by_us() { serve "$1"; play "$uri"; unserve; }
by_them() { play "rbd:$1:conf=$CEPH_CONF"; }
size=$((24 << 20))

# A parent of each maker, with data that changes after the snapshot.
rbd create base --size 24M --image-feature layering,deep-flatten --object-size 1M
scribble 1 $size 60; by_them $p/base; image snap create $p/base@s; base=$(theirs $p/base@s)
scribble 2 $size 60; by_us $p/base; same "$(theirs $p/base@s)" "$base"

rbd image-meta set base note kept

# Each makes a clone, in one pool and in another, of objects of other sizes; each reads both.
image clone --object-size 512K $p/base@s $p/mine
their_clone --object-size 4M $p/base@s $d/yours
for clone in $p/mine $d/yours; do both $clone "$base"; done
rbd info mine | grep -q "parent: $p/base@s"; rbd info mine | grep -q "overlap: 24 MiB"; rbd info mine | grep -q "op_features: clone-child"
image info $d/yours | grep -q "$p/base@s, 24 MiB of it"; same "$(rbd image-meta get mine note)" kept
same "$(rbd children base@s | sort | xargs)" "$(printf '%s\n' $p/mine $d/yours | sort | xargs)"
same "$(image children $p/base@s | sort | xargs)" "$(printf '%s\n' $p/mine $d/yours | sort | xargs)"
same "$(rados -p $p ls | grep -c "$(rbd info mine --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["block_name_prefix"])')" || true)" 0

# Written in turn, with snapshots between, both are what an independent copy becomes that librbd writes.
rbd cp $p/base@s $p/flat --no-progress; seed=10
for round in 1 2 3; do
  seed=$((seed + 1)); scribble $seed $size 40
  by_them $p/flat; by_us $p/mine; by_us $d/yours; wanted=$(theirs $p/flat)
  for clone in $p/mine $d/yours; do both $clone "$wanted"; done
  image snap create $p/mine@ours$round; command rbd snap create $d/yours@theirs$round --no-progress; rbd snap create flat@$round --no-progress
  seed=$((seed + 1)); scribble $seed $size 40
  by_them $p/flat; by_them $p/mine; by_them $d/yours
  for at in $(seq $round); do
    wanted=$(theirs $p/flat@$at); both $p/mine@ours$at "$wanted"; both $d/yours@theirs$at "$wanted"
  done
done
both $p/base@s "$base"; wanted=$(theirs $p/flat); [ "$wanted" != "$base" ]
serve $p/mine
qemu-img compare -f raw -F raw "$uri" rbd:$d/yours:conf="$CEPH_CONF" >/dev/null
# Nothing with data is said to be a hole.
qemu-img map -f raw --output json "$uri" >"$SCRATCH/map"; rbd export mine "$SCRATCH/raw" --no-progress
python3 - "$SCRATCH/map" "$SCRATCH/raw" <<'PY'
import json, sys
data = open(sys.argv[2], "rb").read()
extents = json.load(open(sys.argv[1]))
assert sum(extent["length"] for extent in extents) == len(data), extents
for extent in extents:
    part = data[extent["start"]:extent["start"] + extent["length"]]
    assert extent["data"] or not any(part), extent
PY
unserve; serve $p/mine@ours2
qemu-img compare -f raw -F raw "$uri" rbd:$p/flat@2:conf="$CEPH_CONF" >/dev/null; refused qemu-io -f raw -c "write 0 512" "$uri"; unserve
rm "$SCRATCH/raw"

# librbd knows the changes between snapshots: applying the differences makes a copy equal.
for pair in $p/mine:ours $d/yours:theirs; do
  clone=${pair%:*} snap=${pair#*:}
  command rbd export $clone@${snap}1 - --no-progress | command rbd import - $p/copy --no-progress; rbd snap create copy@${snap}1 --no-progress
  command rbd export-diff --from-snap ${snap}1 $clone - --no-progress | rbd import-diff - copy --no-progress
  both $p/copy "$wanted"; rbd snap purge copy --no-progress; rbd rm copy --no-progress
done
command rbd du $p/mine >/dev/null; command rbd diff $d/yours >/dev/null

# Clones of clones of clones, read and written over all generations.
image clone --object-size 64K $p/mine@ours3 $d/second; command rbd snap create $d/second@s --no-progress
their_clone $d/second@s $p/third; image snap create $p/third@s; image clone --clone-format 2 $p/third@s $p/fourth
third=$(theirs $p/mine@ours3); for name in $d/second $p/third $p/fourth; do both $name "$third"; done
scribble 50 $size 30; by_us $p/fourth; rbd cp $p/mine@ours3 $p/flat4 --no-progress; by_them $p/flat4; both $p/fourth "$(theirs $p/flat4)"
# An independent image keeps what it was, whoever makes it so.
image flatten $p/fourth; if rbd info fourth | grep -q parent; then echo "still a clone"; exit 1; fi
both $p/fourth "$(theirs $p/flat4)"; same "$(rbd children third@s)" ""; same "$(image children $p/third)" ""
refused image flatten $p/fourth; said "is no clone"
image snap rm $p/third@s; rbd flatten third --no-progress; both $p/third "$third"
command rbd snap rm $d/second@s --no-progress; image rm $d/second; same "$(image children $p/mine@ours3)" ""

# Smaller and bigger: what the parent shows does not come back, snapshots keep it.
image snap create $p/mine@big; rbd snap create flat@big --no-progress
for name in mine flat; do image resize --size 5M --allow-shrink $p/$name; image resize --size 24M $p/$name; done
both $p/mine "$(theirs $p/flat)"; both $p/mine@big "$(theirs $p/flat@big)"
scribble 60 $size 30; by_us $p/mine; by_them $p/flat; both $p/mine "$(theirs $p/flat)"
# Each flattens the other's; snapshots lose nothing.
rbd flatten mine --no-progress; image flatten $d/yours
for at in 1 2 3; do both $p/mine@ours$at "$(theirs $p/flat@$at)"; both $d/yours@theirs$at "$(theirs $p/flat@$at)"; done
both $p/mine@big "$(theirs $p/flat@big)"; both $d/yours "$wanted"; same "$(rbd children base@s)" ""
image snap rm $p/base@s; same "$(rbd snap ls base --all)" ""
both $p/mine "$(theirs $p/flat)"; both $d/yours "$wanted"

# A snapshot that is removed while it has clones goes with the last one, whoever does what.
for name in a b; do rbd snap create base@$name --no-progress; done
image clone $p/base@a $p/child-a; their_clone $p/base@b $d/child-b; now=$(theirs $p/base)
rbd snap rm base@a --no-progress; image snap rm $p/base@b
same "$(image snap ls $p/base)" ""; same "$(rbd snap ls base)" ""; same "$(rbd snap ls base --all | grep -c trash)" 2
image snap ls --all $p/base | grep -q "removed, was a"
refused image rm $p/base; said "has snapshots"
both $p/child-a "$now"; both $d/child-b "$now"
image rm $p/child-a; command rbd rm $d/child-b --no-progress
same "$(rbd snap ls base --all)" ""

# Clones of format 1: noted in their own pool, of a protected snapshot.
image snap create $p/base@old; refused image clone --clone-format 1 $p/base@old $p/first; said "not protected"
rbd snap protect base@old
image clone --clone-format 1 $p/base@old $d/first; command rbd clone --rbd-default-clone-format 1 $p/base@old $d/also
same "$(rbd children base@old | sort | xargs)" "$d/also $d/first"; same "$(image children $p/base@old | sort | xargs)" "$d/also $d/first"
both $d/first "$now"; both $d/also "$now"
refused rbd snap unprotect base@old; refused image snap unprotect $p/base@old; said "has clones"
for feature in fast-diff object-map exclusive-lock; do command rbd feature disable $d/also $feature 2>/dev/null || true; done
scribble 70 $size 20; by_us $d/also; by_them $d/first; same "$(theirs $d/also)" "$(ours $d/first)"
command rbd flatten $d/first --no-progress; image rm $d/also; same "$(image children $p/base@old)" ""
image snap unprotect $p/base@old; rbd snap rm base@old --no-progress; image rm $p/base; image rm $d/first
for name in mine flat flat4 third fourth; do rbd snap purge $name --no-progress; image rm $p/$name; done
image snap purge $d/yours; image rm $d/yours
for pool in $p $d; do same "$(rados -p $pool ls | grep -c 'rbd_data\|rbd_header' || true)" 0; done
