# `rados bench`: write, seq, rand; three object sizes, 1 to 64 in flight.
set -euo pipefail
p=bench-$$; ceph osd pool create $p 32 >/dev/null
trap 'ceph osd pool rm $p $p --yes-i-really-really-mean-it >/dev/null' EXIT
seconds=2; flights="1 16 64"; [ "${SHORT:-}" = 1 ] && { seconds=1; flights=16; }
for size in 4096 131072 4194304; do
  for t in $flights; do
    rados -p $p bench $seconds write -b $size -t $t --no-cleanup --run-name r$size-$t >"$SCRATCH/w"
    for kind in seq rand; do rados -p $p bench $seconds $kind -t $t --run-name r$size-$t >"$SCRATCH/r"; done
    printf '%s bytes, %s in flight: write %s IOPS, rand %s IOPS\n' $size $t \
      "$(awk '/Average IOPS/{print $3}' "$SCRATCH/w")" "$(awk '/Average IOPS/{print $3}' "$SCRATCH/r")"
    rados -p $p cleanup --run-name r$size-$t >/dev/null
  done
done
