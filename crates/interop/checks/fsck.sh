# The check of file systems: rows that are lost while the server runs are found and written again by a scrub; damage of a failed file system is
# named by `sepiola fs fsck`, repaired, and a server serves the files again. Needs ceph-fuse, /dev/fuse, and root.
set -euo pipefail
fail() { echo "$*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: expected '$2', found '$1'"; }
until_true() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; fail "never true: $*"; }
unset CEPH_ARGS
data=$SCRATCH/fsck; one=$SCRATCH/one; mkdir -p "$one"
export CEPH_CONF=$data/ceph.conf
pids=()
stop() {
  umount -l "$one" 2>/dev/null || true
  "$SEPIOLA" down --data "$data" >/dev/null 2>&1 || true
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}
trap stop EXIT
mount_it() {
  ceph-fuse -f -c "$CEPH_CONF" -n client.admin --log-file "$SCRATCH/fuse.log" "$one" >"$SCRATCH/fuse.out" 2>&1 </dev/null &
  pids+=($!)
  until_true mountpoint -q "$one"
}
row_object() { rados -p cephfs.files.meta -N sepiola "$@"; }
fs() { timeout 60 "$SEPIOLA" fs "$@" --data "$data" >"$SCRATCH/out" 2>"$SCRATCH/error"; }
refused() { local text=$1; shift; if fs "$@"; then fail "sepiola fs $* succeeded"; fi; grep -q "$text" "$SCRATCH/out" "$SCRATCH/error" || fail "sepiola fs $*: no '$text': $(cat "$SCRATCH/out" "$SCRATCH/error")"; }
accepted() { fs "$@" || fail "sepiola fs $*: $(cat "$SCRATCH/out" "$SCRATCH/error")"; }
is_served() { ceph mds stat | grep -q "0=a=up:active"; }
contents() { (cd "$1"; find . -type f -print0 | sort -z | xargs -0 md5sum); }

"$SEPIOLA" up --data "$data" --osds 1 --disk-size 1G --listen 127.0.0.1:0 --metrics none --fs files >"$SCRATCH/up.out" 2>"$SCRATCH/up.err" </dev/null &
pids+=($!)
until_true grep -q "Ctrl-C" "$SCRATCH/up.out"
mount_it
mkdir -p "$one/d/e" "$one/kept"
for i in $(seq 30); do echo "content $i" >"$one/d/e/f$i"; echo "$i" >"$one/kept/k$i"; done
head -c 5000000 /dev/urandom >"$one/d/big"; ln "$one/d/e/f1" "$one/kept/hard"
mkdir "$one/d/.snap/before"; rm "$one/d/e/f30"
contents "$one" >"$SCRATCH/before"; contents "$one/d/e" >"$SCRATCH/e"
kept=$(printf %x "$(stat -c %i "$one/kept")"); d=$(printf %x "$(stat -c %i "$one/d")"); e=$(printf %x "$(stat -c %i "$one/d/e")")
sync "$one"; umount "$one"
# The client's process gives back what it has behind the unmount, and changes rows by that.
no_session() { [ "$(ceph tell mds.a session ls 2>/dev/null | tr -d ' \n')" = "[]" ]; }
for _ in $(seq 100); do if no_session; then break; fi; sleep 0.1; done
no_session || fail "the client's session does not end"
ceph tell mds.a flush journal >/dev/null 2>&1

# While it is served.
refused "ceph fs fail" fsck files
accepted scrub files; grep -q "no active scrubs" "$SCRATCH/out" || fail "$(cat "$SCRATCH/out")"
row_object rm dir.$kept.0.0
refused "/kept/k7: the row is missing" scrub files
accepted scrub files --repair
accepted scrub files
row_object listomapkeys dir.$kept.0.0 | grep -qa k7 || fail "the rows were not written again"
tell() { timeout 30 ceph tell mds.a "$@" 2>/dev/null; }
tell scrub start / recursive | grep -q scrub_tag || fail "scrub start"
tell scrub status | grep -q status || fail "scrub status"
tell scrub pause >/dev/null; tell scrub resume >/dev/null; tell scrub abort >/dev/null
same "$(tell damage ls | tr -d ' \n')" "[]" "damage"
if tell damage rm 77; then fail "damage that is not there was removed"; fi

# While it is failed: entries of a directory are lost, and a row is nonsense.
ceph fs fail files >/dev/null 2>&1
accepted fsck files --data-objects; grep -q "nothing is wrong" "$SCRATCH/out" || fail "$(cat "$SCRATCH/out")"
row_object rm dir.$d.0.0
row_object setomapval roots.0 no-such-key nonsense
refused "no-inode" fsck files; grep -q undecodable "$SCRATCH/out" || fail "$(cat "$SCRATCH/out")"
refused '"problem": "undecodable"' fsck files --json
accepted fsck files --repair; grep -q "rows and objects were changed" "$SCRATCH/out" || fail "$(cat "$SCRATCH/out")"
accepted fsck files
ceph fs set files joinable true >/dev/null 2>&1
until_true is_served
mount_it
contents "$one/lost+found/$e" >"$SCRATCH/found"; diff "$SCRATCH/e" "$SCRATCH/found" || fail "files of the directory that was found"
contents "$one" | grep /kept/ >"$SCRATCH/after"; grep /kept/ "$SCRATCH/before" | diff - "$SCRATCH/after" || fail "files that were not damaged"
mv "$one/lost+found/$e" "$one/e"; echo more >"$one/e/new"; same "$(cat "$one/e/new")" more "a new file"
