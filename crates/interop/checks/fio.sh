# fio's rados engine, with verification.
set -euo pipefail
p=fio-$$; ceph osd pool create $p 16 >/dev/null
trap 'ceph osd pool rm $p $p --yes-i-really-really-mean-it >/dev/null' EXIT
fio --name=j --ioengine=rados --clientname=admin --pool=$p --conf="$CEPH_CONF" --rw=randwrite --bs=4k --size=8m --nrfiles=4 \
  --iodepth=16 --verify=crc32c --do_verify=1 --output-format=terse >"$SCRATCH/report" || { cat "$SCRATCH/report"; exit 1; }
fio --name=j --ioengine=rados --clientname=admin --pool=$p --conf="$CEPH_CONF" --rw=randrw --bs=16k --size=8m --iodepth=8 \
  --output-format=terse >"$SCRATCH/report" || { cat "$SCRATCH/report"; exit 1; }
