# Erasure-coded pools as users see them: profiles, pools, refusals, objects, snapshots, copies between pools of both kinds, images.
set -euo pipefail
contains() { local text; text=$("${@:2}" 2>&1) || { echo "$*: failed: $text"; exit 1; }; grep -qE -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }
fails_with() { local text; if text=$("${@:2}" 2>&1); then echo "$*: succeeded"; exit 1; fi; grep -qE -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1'"; exit 1; }; }
until_true() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; echo "never true: $*"; exit 1; }
shards=shards-$$ copies=copies-$$ disks=disks-$$ appends=appends-$$
trap 'for p in $shards $copies $disks $appends; do ceph osd pool rm $p $p --yes-i-really-really-mean-it >/dev/null 2>&1 || true; done' EXIT

# Profiles and pools.
ceph osd erasure-code-profile set $shards k=2 m=1 crush-failure-domain=osd
contains "^k=2$" ceph osd erasure-code-profile get $shards
contains "^$shards$" ceph osd erasure-code-profile ls
fails_with "ENOTSUP.*lrc" ceph osd erasure-code-profile set other plugin=lrc k=4 m=2 l=3
fails_with "EPERM|EINVAL" ceph osd erasure-code-profile set $shards k=3 m=1 crush-failure-domain=osd
fails_with "ENOENT" ceph osd pool create nothing 8 8 erasure no-such-profile
ceph osd erasure-code-profile set wide-$$ k=4 m=2 crush-failure-domain=osd
fails_with "EINVAL.*wide-$$" ceph osd pool create nothing 8 8 erasure wide-$$
ceph osd erasure-code-profile rm wide-$$
ceph osd pool create $shards 8 8 erasure $shards 2>/dev/null
ceph osd pool create $copies 8 8 >/dev/null 2>&1
fails_with "EBUSY" ceph osd erasure-code-profile rm $shards
contains "'$shards' erasure profile $shards size 3 min_size 2 .*ec_overwrites.* stripe_width 8192" ceph osd pool ls detail
contains "erasure_code_profile: $shards" ceph osd pool get $shards erasure_code_profile
contains "allow_ec_overwrites: true" ceph osd pool get $shards allow_ec_overwrites
fails_with "EINVAL" ceph osd pool set $shards allow_ec_overwrites false
fails_with "EPERM|EINVAL|ENOTSUP" ceph osd pool set $shards size 4
ceph osd pool application enable $shards rados >/dev/null 2>&1; ceph osd pool application enable $copies rbd >/dev/null 2>&1
contains "acting \\(\\[[0-2],[0-2],[0-2]\\], p[0-2]\\)" ceph osd map $shards some-object
contains "rule_name" ceph osd crush rule dump $shards

# Objects.
rados() { command rados -p $shards "$@"; }
head -c 3000000 /dev/urandom >"$SCRATCH/in"; echo -n hello >"$SCRATCH/a"
rados put big "$SCRATCH/in"; rados get big "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
rados put small "$SCRATCH/a"; rados append small "$SCRATCH/a"; same "$(rados get small -)" hellohello
rados put big "$SCRATCH/a" --offset 8190; cp "$SCRATCH/in" "$SCRATCH/model"
dd if="$SCRATCH/a" of="$SCRATCH/model" bs=1 seek=8190 conv=notrunc status=none
rados get big "$SCRATCH/out"; cmp "$SCRATCH/model" "$SCRATCH/out"
for size in 2999999 1228800 8193 4096 1; do
  rados truncate big $size; truncate -s $size "$SCRATCH/model"; rados get big "$SCRATCH/out"; cmp "$SCRATCH/model" "$SCRATCH/out"
done
rados truncate big 20000; truncate -s 20000 "$SCRATCH/model"; rados get big "$SCRATCH/out"; cmp "$SCRATCH/model" "$SCRATCH/out"
rados stat big | grep -q "size 20000"
rados setxattr small color blue; same "$(rados getxattr small color)" blue; rados rmxattr small color; same "$(rados listxattr small)" ""
fails_with "not supported" rados setomapval small key value
fails_with "not supported" rados setomapheader small head
same "$(rados ls | sort | tr '\n' ' ')" "big small "
rados lock get small lock1 --lock-cookie c1 --lock-type exclusive
fails_with "busy" rados lock get small lock1 --lock-cookie c2 --lock-type exclusive
rados lock break small lock1 "$(rados lock info small lock1 | grep -o 'client\.[0-9]*' | head -1)" --lock-cookie c1

# Snapshots of the pool, and what they keep.
rados mksnap before >/dev/null; rados put small "$SCRATCH/in"; rados rm big
rados get small "$SCRATCH/out" --snap before >/dev/null; same "$(cat "$SCRATCH/out")" hellohello
rados get big "$SCRATCH/out" --snap before >/dev/null; cmp "$SCRATCH/model" "$SCRATCH/out"
rados rollback small before >/dev/null; rados rollback big before >/dev/null
same "$(rados get small -)" hellohello; rados get big "$SCRATCH/out"; cmp "$SCRATCH/model" "$SCRATCH/out"
rados rmsnap before >/dev/null

# Copies within the pool, and between pools of both kinds.
rados cp small copied; same "$(rados get copied -)" hellohello
rados cp big big --target-pool $copies; command rados -p $copies get big "$SCRATCH/out"; cmp "$SCRATCH/model" "$SCRATCH/out"
command rados -p $copies put back "$SCRATCH/in"; command rados -p $copies cp back back --target-pool $shards
rados get back "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
rados export "$SCRATCH/export" >/dev/null; rados rm big small copied back; same "$(rados ls)" ""
rados import "$SCRATCH/export" >/dev/null; rados get back "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"

# Images with their data in such a pool (one without snapshots of its own), while an OSD is thought dead.
ceph osd pool create $disks 8 8 erasure $shards 2>/dev/null; ceph osd pool application enable $disks rbd >/dev/null 2>&1
rbd() { command rbd "$@" 2>"$SCRATCH/rbd.log" || { cat "$SCRATCH/rbd.log"; exit 1; }; }
rbd create $copies/image --size 16M --data-pool $disks
contains "data_pool: $disks" command rbd info $copies/image
head -c 9000001 /dev/urandom >"$SCRATCH/disk"; truncate -s 16M "$SCRATCH/disk"
command rbd bench --io-type write --io-size 3000 --io-threads 8 --io-total 1M --io-pattern rand $copies/image >/dev/null
rbd import "$SCRATCH/disk" $copies/imported --data-pool $disks
rbd snap create $copies/imported@s; rbd snap protect $copies/imported@s; rbd clone $copies/imported@s $copies/clone --data-pool $disks
ceph osd down 0
command rbd bench --io-type write --io-size 5000 --io-threads 8 --io-total 1M --io-pattern rand $copies/clone >/dev/null
rbd export $copies/imported@s - | cmp - "$SCRATCH/disk"
rbd flatten $copies/clone; rbd object-map check $copies/clone
rm "$SCRATCH/out"; rbd export $copies/clone "$SCRATCH/out"; rbd snap unprotect $copies/imported@s
rbd snap rollback $copies/imported@s; rbd export $copies/imported - | cmp - "$SCRATCH/disk"
rbd mv $copies/clone $copies/renamed; "$SEPIOLA" image export --conf "$CEPH_CONF" $copies/renamed - | cmp - "$SCRATCH/out"
fails_with "not supported|EOPNOTSUPP" command rbd create $disks/image --size 1M

# The state of groups, usage, damage.
until_true eval "ceph pg stat | grep -vqE 'degraded|peering|undersized|down'"
group=$(ceph osd map $shards back -f json | python3 -c 'import json,sys; print(json.load(sys.stdin)["pgid"])')
ceph pg "$group" query | python3 -c 'import json,sys; q = json.load(sys.stdin); assert len(q["acting"]) == 3, q'
ceph pg deep-scrub "$group" >/dev/null 2>&1
contains "$shards" ceph df; contains "$shards" command rados df; contains "$group" ceph pg dump pgs
fails_with "EPERM|EBUSY|EINVAL" ceph osd pool set $shards erasure_code_profile default
ceph osd pool set-quota $shards max_objects 1 >/dev/null 2>&1; until_true eval "ceph health detail | grep -q POOL_FULL"
ceph osd pool set-quota $shards max_objects 0 >/dev/null 2>&1; until_true eval "! ceph health detail | grep -q POOL_FULL"
[ "$SHORT" = 1 ] && exit 0

# Appends only: what Ceph has as its default.
ceph config set mon osd_pool_default_flag_ec_overwrites false
ceph osd pool create $appends 8 8 erasure $shards 2>/dev/null; ceph config rm mon osd_pool_default_flag_ec_overwrites
command rados -p $appends put o "$SCRATCH/a"
fails_with "not supported" command rados -p $appends put o "$SCRATCH/a" --offset 1
ceph osd pool set $appends allow_ec_overwrites true >/dev/null 2>&1; command rados -p $appends put o "$SCRATCH/a" --offset 1

# Groups are divided and merged, and data moves by upmap.
for pgs in 16 8; do
  ceph osd pool set $shards pg_num $pgs >/dev/null 2>&1
  until_true eval "ceph osd pool get $shards pg_num | grep -q 'pg_num: $pgs$'"
  rados get back "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
done
command rados -p $shards bench 3 write -b 40000 --no-cleanup >/dev/null; command rados -p $shards bench 2 seq >/dev/null
command rados -p $shards bench 2 rand >/dev/null; command rados -p $shards cleanup >/dev/null
