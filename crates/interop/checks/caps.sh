# Capabilities are enforced on every operation.
set -euo pipefail
p=caps-$$; ceph osd pool create $p 8 >/dev/null; ceph osd pool create $p-other 8 >/dev/null
trap 'for x in $p $p-other; do ceph osd pool rm $x $x --yes-i-really-really-mean-it >/dev/null; done' EXIT
as() { local who=$1; shift; ceph auth get client.$who -o "$SCRATCH/$who.keyring" >/dev/null 2>&1; rados -n client.$who -k "$SCRATCH/$who.keyring" "$@"; }
user() { ceph auth get-or-create client.$1 mon 'allow r' osd "$2" >/dev/null; }
denied() { local text; if text=$("$@" 2>&1); then echo "allowed: $*"; exit 1; fi; grep -Eq 'Operation not permitted|Permission denied|EPERM|EACCES|bad_auth_method|auth_bad_method|\(1\)|\(13\)' <<<"$text" || { echo "$*: $text"; exit 1; }; }
echo data >"$SCRATCH/d"
rados -p $p put seed "$SCRATCH/d"
user reader "allow r pool=$p"
as reader -p $p get seed - >/dev/null; denied as reader -p $p put new "$SCRATCH/d"; denied as reader -p $p-other get seed -
user writer "allow rw pool=$p namespace=mine"
as writer -p $p -N mine put new "$SCRATCH/d"; denied as writer -p $p put new "$SCRATCH/d"
user prefixed "allow rwx pool=$p object_prefix my_"
as prefixed -p $p put my_object "$SCRATCH/d"; denied as prefixed -p $p put other "$SCRATCH/d"
user imager "profile rbd pool=$p"
as imager -p $p put rbd_thing "$SCRATCH/d"; denied as imager -p $p-other put x "$SCRATCH/d"
denied ceph -n client.reader -k "$SCRATCH/reader.keyring" osd pool create nope 8
printf '[client.reader]\n\tkey = %s\n' "$(ceph-authtool --gen-print-key)" >"$SCRATCH/wrong.keyring"
denied timeout 20 rados -n client.reader -k "$SCRATCH/wrong.keyring" -p $p ls
for who in reader writer prefixed imager; do ceph auth del client.$who >/dev/null; done
