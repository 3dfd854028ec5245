#!/usr/bin/env bash
# Block devices in memory, for measurements where software is all there is.
#
#   ram-devices.sh up COUNT SIZE     makes COUNT loop devices of SIZE (such as 4G) and prints their paths, one per line
#   ram-devices.sh list              prints the paths of those that are there
#   ram-devices.sh down              removes all of them, with what is on them
#
# Environment: RAM_DEVICES  directory of the backing files, in a tmpfs (default /dev/shm/sepiola-ram-devices)
#              SECTOR_SIZE  logical block size (default 512)
# Needs root. Their memory is taken at once, so that nothing fails later for lack of it; at least a quarter of what the
# machine has free must remain (a tmpfs may be larger than the memory behind it, and the kernel then kills processes).
set -Eeuo pipefail
dir=${RAM_DEVICES:-/dev/shm/sepiola-ram-devices}
sector=${SECTOR_SIZE:-512}
die() { echo "ram-devices.sh: $*" >&2; exit 1; }

devices_of() { losetup --list --noheadings --output NAME --associated "$1"; }

list() {
  local file
  for file in "$dir"/*.img; do [ -e "$file" ] && devices_of "$file"; done
  return 0
}

down() {
  local file device
  for file in "$dir"/*.img; do
    [ -e "$file" ] || continue
    for device in $(devices_of "$file"); do losetup --detach "$device"; done
    rm -f "$file"
  done
  rmdir "$dir" 2>/dev/null || true
}

up() {
  local count=$1 size=$2 number file device bytes free
  [[ $count =~ ^[1-9][0-9]?$ ]] || die "COUNT is a number from 1 to 99"
  bytes=$(numfmt --from=iec "${size%iB}") || die "SIZE is a number with K, M, G or T"
  free=$(($(awk '/^MemAvailable:/{print $2}' /proc/meminfo) << 10))
  ((count * bytes <= free / 4 * 3)) || die "$count times $size is more than three quarters of the $((free >> 20)) MiB that are free"
  [ -z "$(list)" ] || die "there are some in $dir already; 'down' removes them"
  mkdir -p "$dir"
  [ "$(stat -f -c %T "$dir")" = tmpfs ] || die "$dir is not in a tmpfs"
  trap 'down' ERR
  for ((number = 0; number < count; number++)); do
    file=$dir/$number.img
    fallocate --length "$bytes" "$file"
    device=$(losetup --find --show --sector-size "$sector" "$file")
    echo 0 >"/sys/block/${device#/dev/}/queue/rotational"
    echo "$device"
  done
}

[ "$(id -u)" = 0 ] || die "needs root"
case ${1:-} in
  up) [ $# = 3 ] || die "up COUNT SIZE"; up "$2" "$3" ;;
  list) list ;;
  down) down ;;
  *) sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 1 ;;
esac
