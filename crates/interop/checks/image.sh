# Images of `sepiola image` with the stock `rbd`, and the other way round.
set -euo pipefail
p=image-$$ d=image-data-$$
for pool in $p $d; do ceph osd pool create $pool 16 >/dev/null; rbd pool init $pool; done
remove() { ceph osd pool rm "$1" "$1" --yes-i-really-really-mean-it >/dev/null; }
trap 'remove $p; remove $d' EXIT
image() { local verb=$1 what=; shift; case $verb in snap|feature|object-map) what=$1; shift;; esac; "$SEPIOLA" image "$verb" $what --conf "$CEPH_CONF" "$@"; }
rbd() { command rbd -p $p "$@"; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1' (line ${BASH_LINENO[0]})"; exit 1; }; }
refused() { if "$@" >"$SCRATCH/refused" 2>&1; then echo "should have failed: $*"; exit 1; fi; }
said() { grep -q "$1" "$SCRATCH/refused" || { echo "not said: $1"; cat "$SCRATCH/refused"; exit 1; }; }

# Each client reads what the other has made.
image create --size 64M $p/ours; rbd create theirs --size 64M --image-feature layering
same "$(rbd ls | xargs)" "ours theirs"; same "$(image ls $p | xargs)" "ours theirs"
rbd info ours | grep -q "features: layering, exclusive-lock, object-map, fast-diff, deep-flatten"; rbd info ours | grep -q "16 objects"
image info $p/theirs | grep -q "64 MiB in 16 objects of 4 MiB"
refused image create --size 1M $p/ours; said "already an image"
refused image info $p/nothing; said "no image"
refused image create --size 1M --features journaling $p/more; said "not a feature"
image mv $p/ours mine; rbd info mine >/dev/null; refused rbd info ours; rbd rename mine ours

# A file with holes goes in by one and comes out by the other, in every shape.
python3 - "$SCRATCH/file" <<'PY'
import os, random, sys
random.seed(7)
with open(sys.argv[1], "wb") as f:
    f.truncate(50_000_123)
    for offset in (0, 4194304 - 100, 9_000_001, 30_000_000, 50_000_000):
        f.seek(offset); f.write(random.randbytes(123 if offset == 50_000_000 else 300_000))
PY
for shape in "" "--object-size 64K" "--data-pool $d" "--object-size 1M --stripe-unit 64K --stripe-count 5"; do
  image import $shape "$SCRATCH/file" $p/in
  rbd export in "$SCRATCH/out" --no-progress; cmp "$SCRATCH/file" "$SCRATCH/out"; rm "$SCRATCH/out"
  image export $p/in "$SCRATCH/out"; cmp "$SCRATCH/file" "$SCRATCH/out"
  [ "$(stat -c %b "$SCRATCH/out")" -le "$(($(stat -c %b "$SCRATCH/file") + 64))" ] || { echo "the export is not sparse"; exit 1; }
  image export $p/in - | cmp "$SCRATCH/file" -; rm "$SCRATCH/out"
  image rm $p/in
done
same "$(rados -p $d ls | grep -c rbd_data || true)" 0
image import - --size 40M $p/stdin < <(head -c 40M "$SCRATCH/file")
rbd export stdin - --no-progress | cmp - <(head -c 40M "$SCRATCH/file"); image rm $p/stdin
refused image import - --size 1M $p/cut < <(head -c 2M "$SCRATCH/file"); said "longer"; image rm $p/cut
refused image import --size 20M "$SCRATCH/file" $p/cut; said "only 20971520 fit"
rbd import "$SCRATCH/file" imported --image-feature layering,deep-flatten --no-progress
image export $p/imported "$SCRATCH/out"; cmp "$SCRATCH/file" "$SCRATCH/out"

# Sizes: what is behind a new end is gone, and a later growth shows zeros.
refused image resize --size 20M $p/imported; said "allow-shrink"
image resize --size 20M --allow-shrink $p/imported; image resize --size 50M $p/imported
rbd export imported - --no-progress | cmp - <(head -c 20M "$SCRATCH/file"; head -c 30M /dev/zero)

# Measuring: what was written is there for stock clients, and nothing is left over.
image create --size 8M $p/measured
image bench --seconds 1 --runs 1 --json --fill -b 64K -t 4 $p/measured randrw >"$SCRATCH/measured"
python3 - "$SCRATCH/measured" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert (report["workload"], report["block_size"], report["in_flight"]) == ("randrw", 65536, 4), report
assert report["iops"]["median"] > 0 and dict(report["latency_ms"])["p99.9"]["median"] > 0, report
PY
if rbd export measured - --no-progress | cmp -s - <(head -c 8M /dev/zero); then echo "nothing was written"; exit 1; fi
same "$(rbd status measured | grep -c watcher= || true)" 0
refused image bench -b 16M $p/measured randread; said "less than one block"
image rm $p/measured
"$SEPIOLA" bench --conf "$CEPH_CONF" -p $p stability --image-size 16M --depths 1,4 --seconds 1 --warm-up 100ms --csv "$SCRATCH/series" --json >"$SCRATCH/stability"
same "$(wc -l <"$SCRATCH/series")" 41
python3 -c 'import json, sys; assert [(p["pattern"], p["depth"]) for p in json.load(sys.stdin)["points"]] == [("write", 1), ("write", 4), ("read", 1), ("read", 4)]' <"$SCRATCH/stability"
if rbd ls | grep -q stability; then echo "an image is left over"; exit 1; fi

# Snapshots of one are the other's.
digest() { python3 -c 'import hashlib,sys; print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())'; }
theirs() { command rbd -p $p export "$1" - --no-progress | digest; }
ours() { image export "$p/$1" - | digest; }
rbd create shots --size 24M --image-feature layering,deep-flatten --object-size 1M
# Of sizes that differ: what is written follows from the size and the second.
bench() { command rbd -p $p bench shots --io-type write --io-pattern rand --io-size $1 --io-total 1M >/dev/null; }
bench 16K; image snap create $p/shots@ours; first=$(theirs shots)
bench 8K; rbd snap create shots@theirs --no-progress; second=$(ours shots); bench 32K; now=$(theirs shots)
for name in shots@ours shots@theirs shots; do same "$(ours $name)" "$(theirs $name)"; done
same "$(theirs shots@ours) $(ours shots@theirs) $(ours shots)" "$first $second $now"
if [ "$first" = "$second" ] || [ "$second" = "$now" ]; then echo "nothing was written between snapshots"; exit 1; fi
same "$(rbd snap ls shots | awk 'NR > 1 {print $2}' | xargs)" "ours theirs"
same "$(image snap ls $p/shots | awk '{print $2}' | xargs)" "ours theirs"
refused image snap create $p/shots@ours; said "already a snapshot"
image snap rename $p/shots@ours mine; image snap protect $p/shots@mine
rbd snap ls shots | grep mine | grep -q yes; refused rbd snap rm shots@mine; refused image snap rm $p/shots@mine; said protected
refused image rm $p/shots; said "has snapshots"
image snap unprotect $p/shots@mine; rbd snap protect shots@mine; rbd snap unprotect shots@mine
image info $p/shots@mine | grep -q "24 MiB"
# Back and forth, with another size on the way.
image resize --size 10M --allow-shrink $p/shots; image snap rollback $p/shots@theirs; same "$(theirs shots)" "$second"
rbd snap rollback shots@mine --no-progress; same "$(ours shots)" "$first"
rbd snap rm shots@mine --no-progress; image snap rm $p/shots@theirs; same "$(rbd snap ls shots)" ""; same "$(ours shots)" "$first"
for name in a b c; do image snap create $p/shots@$name; done; image snap purge $p/shots; same "$(rbd snap ls shots --all)" ""
image rm $p/shots

# Object maps: what was written here, discarded, cut and taken a snapshot of is what librbd finds.
mapped() { same "$(rbd info "$1" --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["flags"])')" "[]"; rbd object-map check "$1" --no-progress; }
image import "$SCRATCH/file" $p/map; mapped map
used() { rbd du map --format json | python3 -c 'import json,sys; print(-(-json.load(sys.stdin)["images"][-1]["used_size"] >> 22))'; }
prefix=$(rbd info map --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["block_name_prefix"])')
same "$(used)" "$(rados -p $p ls | grep -c "$prefix")"
image snap create $p/map@one; mapped map; mapped map@one
rbd bench map --io-type write --io-size 4K --io-total 1M --io-pattern rand >/dev/null; rbd snap create map@two --no-progress
image resize --size 20M --allow-shrink $p/map; mapped map; image resize --size 50M $p/map; mapped map
image snap rm $p/map@one; mapped map@two; mapped map
image snap rollback $p/map@two; mapped map; rbd export map - --no-progress | cmp - <(rbd export map@two - --no-progress)
# Features come and go; what has no map is counted object by object.
ours=$(image du --json $p/map); image feature disable $p/map object-map; same "$(image du --json $p/map)" "$ours"
rbd info map | grep -q "features: layering, exclusive-lock, deep-flatten"; refused image feature enable $p/map fast-diff; said "object-map"
image feature enable $p/map object-map,fast-diff; rbd info map | grep -q "object map invalid"; rbd object-map rebuild map --no-progress; mapped map
# Maps made anew here are what librbd finds, of images and snapshots; what it makes is what is found here.
refused image object-map check $p/map@two; said "marked as invalid"
for what in map@two map; do image object-map rebuild $p/$what; mapped $what; rbd object-map rebuild $what --no-progress; image object-map check $p/$what; done
rbd bench map --io-type write --io-size 4K --io-total 1M --io-pattern rand >/dev/null; rbd snap create map@three --no-progress; image resize --size 42M --allow-shrink $p/map
for what in map@two map@three map; do image object-map check $p/$what; image object-map rebuild $p/$what; mapped $what; done
rados -p $p rm "rbd_object_map.${prefix#rbd_data.}"; refused image object-map check $p/map; said "marked as invalid"; image object-map rebuild $p/map; mapped map
refused image object-map rebuild $p/theirs; said "lacks the feature"
image snap purge $p/map; image rm $p/map; same "$(rados -p $p ls | grep -c object_map || true)" 1

# An image in use cannot be removed.
command rbd -p $p bench ours --io-type write --io-size 4K --io-threads 1 --io-total 1G >/dev/null 2>&1 & user=$!
for _ in $(seq 100); do rbd status ours | grep -q watcher && break; sleep 0.1; done
refused image rm $p/ours; said "in use"
kill $user; wait $user || true
rbd create locked --size 8M --image-feature exclusive-lock; image resize --size 9M $p/locked; rbd info locked | grep -q "size 9 MiB"
same "$(rbd lock ls locked)" ""; same "$(rbd status locked | grep -c watcher= || true)" 0
rbd feature enable locked journaling; refused image resize --size 10M $p/locked; said "rbd feature disable"
for name in imported theirs; do image rm $p/$name; done
same "$(rbd ls | xargs)" "locked ours"; same "$(rados -p $p ls | grep -c rbd_data || true)" "$(rados -p $p ls | grep -c "$(rbd info ours --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["block_name_prefix"])')")"
