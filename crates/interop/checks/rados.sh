# The `rados` tool on one pool.
set -euo pipefail
p=rados-$$; ceph osd pool create $p 16 >/dev/null
trap 'ceph osd pool rm $p $p --yes-i-really-really-mean-it >/dev/null' EXIT
rados() { command rados -p $p "$@"; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1'"; exit 1; }; }
head -c 9000000 /dev/urandom >"$SCRATCH/in"
rados put big "$SCRATCH/in"; rados get big "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
echo -n hello >"$SCRATCH/a"; rados put small "$SCRATCH/a"; rados append small "$SCRATCH/a"; rados get small - >"$SCRATCH/b"
same "$(cat "$SCRATCH/b")" hellohello
rados stat small | grep -q 'size 10'
same "$(rados ls | sort | tr '\n' ' ')" "big small "
rados truncate small 3; rados get small - >"$SCRATCH/b"; same "$(cat "$SCRATCH/b")" hel
rados setxattr small color blue; same "$(rados getxattr small color)" blue; same "$(rados listxattr small)" color
rados rmxattr small color; same "$(rados listxattr small)" ""
rados setomapval small key1 value1; rados setomapval small key2 value2
same "$(rados listomapkeys small | tr '\n' ' ')" "key1 key2 "
rados getomapval small key2 "$SCRATCH/v"; same "$(cat "$SCRATCH/v")" value2
rados setomapheader small head; rados getomapheader small | grep -q head
rados rmomapkey small key1; same "$(rados listomapkeys small)" key2; rados clearomap small; same "$(rados listomapkeys small)" ""
rados lock get small lock1 --lock-cookie c1 --lock-type exclusive
rados lock info small lock1 | grep -q exclusive
if rados lock get small lock1 --lock-cookie c2 --lock-type exclusive 2>/dev/null; then echo "locked twice"; exit 1; fi
rados lock list small | grep -q lock1
rados lock break small lock1 "$(rados lock info small lock1 | grep -o 'client\.[0-9]*' | head -1)" --lock-cookie c1
rados cp small copied; rados get copied - >"$SCRATCH/b"; same "$(cat "$SCRATCH/b")" hel
rados -N space put inside "$SCRATCH/a"; same "$(rados -N space ls)" inside; rados --all ls | grep -q inside
rados export "$SCRATCH/export" >/dev/null; rados rm big small copied; same "$(rados ls)" ""
rados import "$SCRATCH/export" >/dev/null; rados get big "$SCRATCH/out"; cmp "$SCRATCH/in" "$SCRATCH/out"
rados df | grep -q $p
rados purge $p --yes-i-really-really-mean-it >/dev/null 2>&1; same "$(rados ls)" ""
