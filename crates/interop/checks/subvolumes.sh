# Volumes and subvolumes as ceph-csi and Manila use them: group, subvolume, key, ceph-fuse on the subvolume with that key, quota, snapshot,
# clone, retained snapshots, removal; and the file system's layout on disk. Needs ceph-fuse, /dev/fuse, and root.
set -euo pipefail
fail() { echo "$*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: expected '$2', found '$1'"; }
until_true() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; fail "never true: $*"; }
unset CEPH_ARGS
data=$SCRATCH/subvolumes; one=$SCRATCH/one; all=$SCRATCH/all; mkdir -p "$one" "$all"
export CEPH_CONF=$data/ceph.conf
pids=()
stop() {
  umount -l "$one" 2>/dev/null || true; umount -l "$all" 2>/dev/null || true
  "$SEPIOLA" down --data "$data" >/dev/null 2>&1 || true
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}
trap stop EXIT
volume() { timeout 60 ceph fs "$@" 2>"$SCRATCH/error" || { echo "ceph fs $*: $(cat "$SCRATCH/error")" >&2; return 1; }; }
# The errno by name, and a part of the message.
refused() {
  local errno=$1 text=$2; shift 2
  if timeout 60 ceph fs "$@" >/dev/null 2>"$SCRATCH/error"; then fail "ceph fs $* succeeded"; fi
  grep -q "$errno.*$text" "$SCRATCH/error" || fail "ceph fs $*: expected $errno '$text': $(cat "$SCRATCH/error")"
}
field() { python3 -c "import json, sys; shown = json.load(sys.stdin); print(eval(sys.argv[1]))" "$1"; }
mount_at() { # mount point, entity, path, keyring
  ceph-fuse -f -c "$CEPH_CONF" -n "client.$2" -k "$4" -r "$3" --log-file "$SCRATCH/fuse.log" "$1" >"$SCRATCH/fuse.out" 2>&1 </dev/null &
  pids+=($!)
  until_true mountpoint -q "$1"
}
state() { volume clone status files "$@" | field "shown['status']['state']"; }
is_complete() { [ "$(state "$@")" = complete ]; }
is_gone() { [ -z "$(ls "$all/volumes/_deleting")" ]; }
tree() { (cd "$1"; find . -type f -print0 | sort -z | xargs -0 md5sum; find . \( -type d -printf '%M %u %g %T@ %p\n' \) -o -printf '%M %n %u %g %s %T@ %p %l\n' | sort); }

"$SEPIOLA" up --data "$data" --osds 1 --disk-size 1G --listen 127.0.0.1:0 --metrics none --fs files >"$SCRATCH/up.out" 2>"$SCRATCH/up.err" </dev/null &
pids+=($!)
until_true grep -q "Ctrl-C" "$SCRATCH/up.out"
admin=$data/ceph.client.admin.keyring

# Groups and subvolumes: made twice, resized, described.
same "$(volume volume ls | field "[one['name'] for one in shown]")" "['files']" "volumes"
same "$(volume subvolumegroup exist files)" "no subvolumegroup exists" "groups"
refused ENOENT "subvolume group 'csi' does not exist" subvolume create files vol --group_name csi
volume subvolumegroup create files csi --mode 711 --uid 7
volume subvolumegroup create files csi
refused EINVAL "internal directory" subvolumegroup create files _nogroup
same "$(volume subvolumegroup ls files | field "[one['name'] for one in shown]")" "['csi']" "groups"
same "$(volume subvolumegroup exist files)" "subvolumegroup exists" "groups"
same "$(volume subvolumegroup getpath files csi)" /volumes/csi "path of the group"
same "$(volume subvolumegroup info files csi | field "(oct(shown['mode']), shown['uid'], shown['bytes_quota'])")" "('0o40711', 7, 'infinite')" "group"
volume subvolume create files vol --group_name csi --size 104857600 --mode 750 --uid 0 --gid 5
volume subvolume create files vol --group_name csi --size 209715200
refused EINVAL "Invalid pool layout" subvolume create files other --group_name csi --pool_layout none
refused ENOENT "Volume 'none' not found" subvolume ls none
refused ENOENT "subvolume 'none' does not exist" subvolume getpath files none csi
path=$(volume subvolume getpath files vol csi)
case "$path" in /volumes/csi/vol/*-*-*-*-*) ;; *) fail "path $path" ;; esac
info() { volume subvolume info files vol csi | field "$1"; }
same "$(info "(shown['type'], shown['state'], oct(shown['mode']), shown['gid'], shown['bytes_quota'])")" "('subvolume', 'complete', '0o40750', 5, 209715200)" "info"
same "$(info "shown['features']")" "['snapshot-clone', 'snapshot-autoprotect', 'snapshot-retention']" "features"
same "$(info "(shown['path'], shown['data_pool'], shown['pool_namespace'])")" "('$path', 'cephfs.files.data', '')" "info"
same "$(volume subvolume resize files vol inf csi | field "[shown[1]['bytes_quota'], shown[2]['bytes_pcent']]")" "['infinite', 'undefined']" "resize"
volume subvolume resize files vol 20971520 csi >/dev/null
volume subvolume metadata set files vol Owner "some one" csi
same "$(volume subvolume metadata get files vol owner csi)" "some one" "metadata"
same "$(volume subvolume metadata ls files vol csi | field "shown")" "{'owner': 'some one'}" "metadata"
refused ENOENT "key 'none' does not exist" subvolume metadata rm files vol none csi
volume subvolume metadata rm files vol none csi --force
volume subvolume metadata rm files vol owner csi

# A key for it, and a mount with that key that shows its quota.
key=$(volume subvolume authorize files vol user csi)
same "$key" "$(ceph auth get-key client.user)" "the key"
same "$(volume subvolume authorized_list files vol csi | field "shown")" "[{'user': 'rw'}]" "entities"
ceph auth get-or-create client.other >/dev/null
refused EPERM "not created by" subvolume authorize files vol other csi
printf '[client.user]\nkey = %s\n' "$key" >"$SCRATCH/user.keyring"
mount_at "$one" user "$path" "$SCRATCH/user.keyring"
same "$(df --output=size -B1 "$one" | tail -1 | tr -d ' ')" 20971520 "size of the mount"
cd "$one"
mkdir -p a/b; head -c 5000000 /dev/urandom >a/big; echo hello >a/b/x; ln a/b/x a/hard; ln -s b/x a/link; chmod 640 a/big; chown 3:4 a/b/x
head -c 4096 /dev/urandom >a/sparse; truncate -s 9M a/sparse; touch -d 2001-02-03T04:05:06Z a/big a/b; mkdir a/empty
for i in $(seq 50); do echo $i >a/b/f$i; done
python3 -c "import os; os.setxattr('a/big', b'user.k', b'value')"
sync .; cd /
timeout 30 dd if=/dev/zero of="$one/full" bs=1M count=40 conv=fsync status=none 2>/dev/null && fail "the quota was exceeded"
rm -f "$one/full"

# Snapshots.
volume subvolume snapshot create files vol snap csi
volume subvolume snapshot create files vol snap csi
same "$(volume subvolume snapshot ls files vol csi | field "shown")" "[{'name': 'snap'}]" "snapshots"
same "$(volume subvolume snapshot info files vol snap csi | field "(shown['data_pool'], shown['has_pending_clones'])")" "('cephfs.files.data', 'no')" "snapshot"
volume subvolume snapshot metadata set files vol snap k v csi
same "$(volume subvolume snapshot metadata ls files vol snap csi | field "shown")" "{'k': 'v'}" "metadata of the snapshot"
volume subvolume snapshot protect files vol snap csi; volume subvolume snapshot unprotect files vol snap csi
refused ENOENT "snapshot 'none' does not exist" subvolume snapshot info files vol none csi
refused ENOTEMPTY "subvolume 'vol' has snapshots" subvolume rm files vol csi
tree "$one" >"$SCRATCH/before"
rm "$one/a/hard"; echo changed >"$one/a/big"

# A clone of the snapshot has what the subvolume had then.
volume subvolume snapshot clone files vol snap copy --group_name csi --target_group_name csi
refused EEXIST "subvolume 'copy' exists" subvolume snapshot clone files vol snap copy --group_name csi --target_group_name csi
until_true is_complete copy csi
same "$(volume subvolume info files copy csi | field "(shown['type'], shown['bytes_quota'], oct(shown['mode']))")" "('clone', 20971520, '0o40750')" "clone"
refused EINVAL "clone finished" clone cancel files copy csi
refused ENOTSUP "is not allowed on subvolume 'vol'" clone status files vol csi
mount_at "$all" admin / "$admin"
copy=$(volume subvolume getpath files copy csi)
tree "$all$copy" >"$SCRATCH/after"
diff "$SCRATCH/before" "$SCRATCH/after" || fail "the clone has something else"
same "$(python3 -c "import os, sys; print(os.getxattr(sys.argv[1], b'user.k'))" "$all$copy/a/big")" "b'value'" "attribute of the clone"
[ "$(du -k "$all$copy/a/sparse" | cut -f1)" -le 9216 ] || fail "size of a sparse file"

# What is on disk is what Ceph's module has there.
same "$(tr '\n' '|' <"$all/volumes/csi/vol/.meta" | sed 's/path = [^|]*/path = P/')" \
  "[GLOBAL]|version = 2|type = subvolume|path = P|state = complete||[SNAP_METADATA_snap]|k = v||" "metadata of the subvolume"
same "$(field "(shown['subvolumes'], shown['dirty'])" <"$all/volumes/\$user.meta")" "({'csi/vol': {'dirty': False, 'access_level': 'rw'}}, False)" "file of the entity"
same "$(field "shown['auths']" <"$all/volumes/_csi:vol.meta")" "{'user': {'dirty': False, 'access_level': 'rw'}}" "file of entities"

# Eviction, and the end of the permission.
timeout 60 ceph fs subvolume evict files vol user csi
cannot_read() { ! timeout 20 ls "$one" >/dev/null 2>&1; }
until_true cannot_read
umount -l "$one"
volume subvolume deauthorize files vol user csi
volume subvolume deauthorize files vol user csi
same "$(volume subvolume authorized_list files vol csi | field "shown")" "[]" "entities"
if ceph auth get client.user >/dev/null 2>&1; then fail "the key is still there"; fi

# Snapshots without their subvolume, and a clone of such a one.
volume subvolume rm files vol csi --retain-snapshots
same "$(volume subvolume info files vol csi | field "sorted(shown.items())[1:]")" "[('state', 'snapshot-retained'), ('type', 'subvolume')]" "retained"
refused ENOENT "has only snapshots retained" subvolume getpath files vol csi
volume subvolume snapshot clone files vol snap again --group_name csi
until_true is_complete again
again=$(volume subvolume getpath files again)
tree "$all$again" >"$SCRATCH/after"; diff "$SCRATCH/before" "$SCRATCH/after" || fail "the second clone has something else"
volume subvolume snapshot rm files vol snap csi
refused ENOENT "subvolume 'vol' does not exist" subvolume info files vol csi

# A namespace of its own, and removal of all.
volume subvolume create files apart --namespace-isolated
[ -n "$(volume subvolume info files apart | field "shown['pool_namespace']")" ] || fail "no namespace"
same "$(volume subvolume ls files | field "[one['name'] for one in shown]")" "['again', 'apart']" "subvolumes"
refused ENOTEMPTY "is not empty" subvolumegroup rm files csi
for name in again apart; do volume subvolume rm files $name; done
volume subvolume rm files copy csi
volume subvolume rm files copy csi --force
volume subvolumegroup rm files csi
refused ENOENT "does not exist" subvolumegroup rm files csi
volume subvolumegroup rm files csi --force
until_true is_gone
same "$(volume volume info files | field "shown['pending_subvolume_deletions']")" 0 "deletions"
umount -l "$all"

# Another volume.
volume volume create second
same "$(volume volume ls | field "[one['name'] for one in shown]")" "['files', 'second']" "volumes"
refused EAGAIN "has no metadata server" subvolume ls second
volume volume rename second third --yes-i-really-mean-it >/dev/null
ceph osd pool ls | grep -q "cephfs.third.data" || fail "the pools have their former names"
refused EPERM "PERMANENTLY DESTROY" volume rm third
ceph config set mon mon_allow_pool_delete true
volume volume rm third --yes-i-really-mean-it >/dev/null
same "$(volume volume ls | field "[one['name'] for one in shown]")" "['files']" "volumes"
if ceph osd pool ls | grep -q "cephfs.third"; then fail "the pools are still there"; fi
echo done
