# Ceph's own ceph-mds and ceph-fuse on this cluster: a file system is made, mounted, written, mounted again and read; its server is
# killed, and a standby takes over under the mount. Needs the packages ceph-mds and ceph-fuse, /dev/fuse, and root.
set -euo pipefail
contains() { local text; text=$("${@:2}" 2>&1) || { echo "$*: failed: $text"; exit 1; }; grep -qE -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }
fails_with() { local text; if text=$("${@:2}" 2>&1); then echo "$*: succeeded"; exit 1; fi; grep -qE -- "$1" <<<"$text" || { echo "$*: no $1 in: $text"; exit 1; }; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1'"; exit 1; }; }
until_true() { for _ in $(seq 900); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; echo "never true: $*"; exit 1; }
export CEPH_ARGS=""    # those of clients are not for servers
mnt=$SCRATCH/mnt; mkdir -p "$mnt"
pids=()
stop() { umount -l "$mnt" 2>/dev/null || true; for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; }
trap stop EXIT

server() {
  local name=$1
  mkdir -p "$SCRATCH/mds.$name"
  ceph auth get-or-create mds.$name mon 'allow profile mds' osd 'allow rwx' mds 'allow *' mgr 'allow profile mds' >"$SCRATCH/mds.$name/keyring"
  ceph-mds -f -i $name --mds-data "$SCRATCH/mds.$name" --keyring "$SCRATCH/mds.$name/keyring" \
    --log-file "$SCRATCH/mds.$name.log" --admin-socket "$SCRATCH/mds.$name.asok" --crash-dir "$SCRATCH" >"$SCRATCH/mds.$name.out" 2>&1 </dev/null &
  pids+=($!)
  eval "pid_$name=$!"
}
mount_it() {
  ceph-fuse -f --log-file "$SCRATCH/fuse.log" "$@" "$mnt" >"$SCRATCH/fuse.out" 2>&1 </dev/null &
  pids+=($!); fuse=$!
  until_true mountpoint -q "$mnt"
}
unmount() { umount "$mnt"; wait "$fuse" || true; }
is() { ceph mds stat | grep -qE -- "$1"; }

# Pools and the file system.
for pool in fs-meta fs-data fs-more; do ceph osd pool create $pool 8 >/dev/null 2>&1; done
fails_with "ENOENT" ceph fs new cephfs no-such-pool fs-data
contains "new fs with metadata pool [0-9]+ and data pool [0-9]+" ceph fs new cephfs fs-meta fs-data
contains "name: cephfs, metadata pool: fs-meta, data pools: \[fs-data \]" ceph fs ls
fails_with "EBUSY.*in use by CephFS" ceph osd pool rm fs-data fs-data --yes-i-really-really-mean-it
contains "MDS_ALL_DOWN" ceph health detail
contains "added data pool" ceph fs add_data_pool cephfs fs-more

# A server becomes active, and clients mount.
server a
until_true is "cephfs:1 \{0=a=up:active\}"
contains "mds: +1/1 daemons up" ceph -s
contains "\"hostname\"" ceph mds metadata a
mount_it
mkdir -p "$mnt/a/b"; echo hello >"$mnt/a/b/x"; ln -s x "$mnt/a/b/link"; ln "$mnt/a/b/x" "$mnt/a/hard"
head -c 20000000 /dev/urandom >"$SCRATCH/big"; cp "$SCRATCH/big" "$mnt/big"
for i in $(seq 200); do echo $i >"$mnt/a/f$i"; done; mv "$mnt/a/f1" "$mnt/a/g1"; rm "$mnt/a/f2"
mkdir "$mnt/a/.snap/before"; echo changed >"$mnt/a/b/x"
unmount
mount_it
cmp "$SCRATCH/big" "$mnt/big"
same "$(cat "$mnt/a/b/x")" changed; same "$(cat "$mnt/a/hard")" changed; same "$(cat "$mnt/a/.snap/before/b/x")" hello
same "$(ls "$mnt/a" | wc -l)" 201; same "$(cat "$mnt/a/g1")" 1; same "$(readlink "$mnt/a/b/link")" x

# The server is killed: a standby takes over under the mount.
server b
until_true is "1 up:standby"
fails_with "EBUSY" ceph mds ok-to-stop a b
kill -9 $pid_a
until_true is "cephfs:1 \{0=b=up:active\}"
contains ":[0-9]+/[0-9]+ 20" ceph osd blocklist ls
echo after >"$mnt/after"; same "$(cat "$mnt/after")" after
cmp "$SCRATCH/big" "$mnt/big"
rmdir "$mnt/a/.snap/before"
server a
until_true is "1 up:standby"
contains "failed mds gid" ceph mds fail 0
until_true is "cephfs:1 \{0=a=up:active\}"
same "$(cat "$mnt/after")" after
unmount

# A client that is authorized for a directory.
ceph fs authorize cephfs client.part /a rw >"$SCRATCH/part.keyring"
mount_it -n client.part --keyring "$SCRATCH/part.keyring" -r /a
same "$(cat "$mnt/g1")" 1; echo mine >"$mnt/mine"
unmount

# The end.
fails_with "inactive/failed" ceph fs rm cephfs --yes-i-really-mean-it
ceph fs fail cephfs 2>/dev/null
until_true is "cephfs:0/1"
ceph fs rm cephfs --yes-i-really-mean-it 2>/dev/null
for pool in fs-meta fs-data fs-more; do ceph osd pool rm $pool $pool --yes-i-really-really-mean-it >/dev/null 2>&1; done
