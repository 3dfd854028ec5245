# Users of images as Cinder, Glance, Nova, ceph-csi and Proxmox document them: each does its work, and nothing else.
set -euo pipefail
v=volumes-$$ i=images-$$ users="glance cinder proxmox csi tenant tagged"
for pool in $v $i; do ceph osd pool create $pool 8 >/dev/null; rbd pool init $pool; done
rbd namespace create $v/mine; rbd namespace create $v/other
trap 'for u in $users; do ceph auth rm client.$u >/dev/null 2>&1; done; for x in $v $i; do ceph osd pool rm $x $x --yes-i-really-really-mean-it >/dev/null; done' EXIT
user() { local name=$1; shift; ceph auth get-or-create client.$name "$@" -o "$SCRATCH/$name.keyring"; }
as() { local name=$1 tool=$2; shift 2; "$tool" -n client.$name -k "$SCRATCH/$name.keyring" "$@"; }
denied() {
  local text; if text=$(as "$@" 2>&1); then echo "allowed: $*"; exit 1; fi
  grep -Eq 'Operation not permitted|Permission denied|EPERM|EACCES|access denied' <<<"$text" || { echo "$*: $text"; exit 1; }
}
user glance mon 'profile rbd' osd "profile rbd pool=$i" mgr "profile rbd pool=$i"
user cinder mon 'profile rbd' osd "profile rbd pool=$v, profile rbd-read-only pool=$i" mgr "profile rbd pool=$v"
user proxmox mon 'profile rbd' osd "profile rbd pool=$v"
user csi mon 'profile rbd' osd "profile rbd pool=$v" mgr 'allow rw'
user tenant mon 'profile rbd' osd "profile rbd pool=$v namespace=mine" mgr "profile rbd pool=$v namespace=mine"
ceph osd pool application set $v rbd data $v >/dev/null
user tagged mon 'profile rbd' osd "allow rwx tag rbd data=$v"

# Glance: an image that others clone.
head -c 2M /dev/urandom >"$SCRATCH/base"
as glance rbd import --no-progress "$SCRATCH/base" $i/base
as glance rbd snap create --no-progress $i/base@snap; as glance rbd snap protect $i/base@snap
denied glance rbd create --size 4M $v/stolen; denied glance rados -p $v put x "$SCRATCH/base"

# Cinder and Nova: volumes, cloned from images that they may only read.
as cinder rbd clone $i/base@snap $v/vol; as cinder rbd flatten --no-progress $v/vol
as cinder rbd export --no-progress $v/vol - | cmp - "$SCRATCH/base"
as cinder rbd clone $i/base@snap $v/child; as cinder rbd children $i/base@snap | grep -q child
as cinder rbd resize --no-progress --size 8M $v/vol; as cinder rbd snap create --no-progress $v/vol@s; as cinder rbd snap protect $v/vol@s
as cinder rbd snap rollback --no-progress $v/vol@s; as cinder rbd diff $v/vol@s >/dev/null
as cinder rbd snap unprotect $v/vol@s; as cinder rbd snap rm --no-progress $v/vol@s
as cinder rbd rm --no-progress $v/child
id=$(as cinder rbd info $v/vol | awk '/^\tid:/ { print $2 }'); as cinder rbd trash mv $v/vol; as cinder rbd trash ls $v | grep -q "$id"; as cinder rbd trash rm --no-progress $v/$id
as cinder ceph rbd perf image stats $v >/dev/null
as cinder ceph osd blocklist add 192.0.2.1:0/4711 >/dev/null 2>&1
as cinder ceph df >/dev/null; as cinder ceph osd pool ls >/dev/null; as cinder rados df >/dev/null
denied cinder rbd snap create --no-progress $i/base@mine; denied cinder rbd rm --no-progress $i/base
denied cinder rados -p $i put x "$SCRATCH/base"; denied cinder ceph rbd perf image stats $i
denied cinder ceph osd blocklist rm 192.0.2.1:0/4711; denied cinder ceph osd blocklist add 192.0.2.1
denied cinder ceph osd pool create nope 8; denied cinder ceph osd pool mksnap $v pool; denied cinder ceph auth ls
ceph osd blocklist rm 192.0.2.1:0/4711 >/dev/null 2>&1

# Proxmox has no capabilities for the manager; ceph-csi gives it work.
as proxmox rbd create --size 16M $v/disk; as proxmox rbd snap create --no-progress $v/disk@backup; as proxmox rbd export --no-progress $v/disk@backup - >/dev/null
as proxmox rbd snap purge --no-progress $v/disk; as proxmox rbd rm --no-progress $v/disk; denied proxmox ceph rbd perf image stats $v
as csi rbd create --size 16M $v/pvc; as csi rbd snap create --no-progress $v/pvc@s; as csi rbd clone --rbd-default-clone-format 2 $v/pvc@s $v/restored
as csi ceph rbd task add flatten $v/restored >/dev/null; as csi rbd trash mv $v/pvc
denied csi rbd create --size 4M $i/stolen

# Namespaces and tags.
as tenant rbd create --size 4M $v/mine/disk; as tenant rbd snap create --no-progress $v/mine/disk@s; as tenant rbd snap rm --no-progress $v/mine/disk@s
as tenant ceph rbd perf image stats $v/mine >/dev/null
denied tenant rbd create --size 4M $v/disk; denied tenant rbd create --size 4M $v/other/disk; denied tenant ceph rbd perf image stats $v
as tagged rbd create --size 4M $v/tagged; denied tagged rbd snap create --no-progress $v/tagged@s; denied tagged rados -p $i put x "$SCRATCH/base"
as tenant rbd rm --no-progress $v/mine/disk; as tagged rbd rm --no-progress $v/tagged
