# Common commands: status, health, pools, OSDs, auth, config; plain and JSON.
set -euo pipefail
json() { ceph "$@" -f json | python3 -c 'import json,sys; json.load(sys.stdin)' || { echo "ceph $* -f json: not JSON"; exit 1; }; }
contains() { local text; text=$("${@:2}" 2>&1); grep -q -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }
fails_with() { local text; if text=$("${@:2}" 2>&1); then echo "$*: succeeded"; exit 1; fi; grep -q -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }

# The machine of a test may have a full disk of its own, which is no fault of the cluster.
for limit in mon_data_avail_warn mon_data_avail_crit; do ceph config set mon $limit 0; done
contains HEALTH_OK ceph health
for limit in mon_data_avail_warn mon_data_avail_crit; do ceph config rm mon $limit; done
contains "3 osds: 3 up" ceph -s
for command in "status" "health detail" "versions" "df" "df detail" "fsid" "mon dump" "mon stat" "quorum_status" \
    "osd dump" "osd tree" "osd ls" "osd stat" "osd df" "osd df tree" "osd metadata 0" "osd find 0" "osd getmaxosd" \
    "osd crush tree" "osd crush rule ls" "osd crush rule dump" "osd crush dump" "osd erasure-code-profile ls" \
    "osd blocklist ls" "osd lspools" "osd perf" "pg dump" "pg stat" "pg ls" "auth ls" "config dump" "config-key ls" "log last" \
    "time-sync-status" "mgr dump" "mgr stat" "features" "node ls" "osd pool ls" "osd pool ls detail" "osd utilization"; do
  ceph $command >/dev/null || { echo "ceph $command failed"; exit 1; }
  json $command
done
fails_with "EINVAL" ceph no such command
fails_with "EINVAL" ceph osd pool create

p=commands-$$
ceph osd pool create $p 16 >/dev/null
contains $p ceph osd pool ls
contains "pg_num: 16" ceph osd pool get $p pg_num
ceph osd pool set $p min_size 1 >/dev/null
contains "min_size: 1" ceph osd pool get $p min_size
ceph osd pool application enable $p rados >/dev/null
contains rados ceph osd pool application get $p
ceph osd pool set-quota $p max_objects 10 >/dev/null
contains "10 objects" ceph osd pool get-quota $p
ceph osd pool rename $p $p-b >/dev/null
contains "$p-b" ceph osd map $p-b some-object
fails_with "EPERM" ceph osd pool delete $p-b
ceph osd pool delete $p-b $p-b --yes-i-really-really-mean-it >/dev/null
fails_with "ENOENT" ceph osd pool get $p-b size

ceph osd set noout >/dev/null; contains noout ceph osd dump; ceph osd unset noout >/dev/null
ceph osd blocklist add 10.9.8.7:0/123 60 >/dev/null; contains 10.9.8.7 ceph osd blocklist ls
ceph osd blocklist rm 10.9.8.7:0/123 >/dev/null
ceph osd erasure-code-profile set p21 k=2 m=1 crush-failure-domain=osd
contains "k=2" ceph osd erasure-code-profile get p21
ceph osd erasure-code-profile rm p21
ceph osd crush rule create-replicated by-osd default osd; contains by-osd ceph osd crush rule ls; ceph osd crush rule rm by-osd
ceph osd crush add-bucket rack-x rack >/dev/null; ceph osd crush move rack-x root=default >/dev/null; contains rack-x ceph osd tree
ceph osd crush rm rack-x >/dev/null

ceph auth get-or-create client.bob mon 'allow r' osd 'allow r' >/dev/null
ceph auth caps client.bob mon 'allow r' osd 'allow rw' >/dev/null
contains "allow rw" ceph auth get client.bob
ceph auth export client.bob >"$SCRATCH/bob.keyring"; ceph auth del client.bob >/dev/null
ceph auth import -i "$SCRATCH/bob.keyring" >/dev/null; ceph auth get-key client.bob >/dev/null; ceph auth del client.bob >/dev/null
ceph config set client debug_ms 0; contains debug_ms ceph config dump; contains 0 ceph config get client debug_ms; ceph config rm client debug_ms
ceph config-key set some/key value >/dev/null; contains value ceph config-key get some/key; ceph config-key rm some/key >/dev/null
ceph osd getmap -o "$SCRATCH/osdmap" 2>/dev/null; ceph osd getcrushmap -o "$SCRATCH/crushmap" 2>/dev/null
[ -s "$SCRATCH/osdmap" ] && [ -s "$SCRATCH/crushmap" ]
