#!/bin/bash
# What record.py records: workload.sh CEPH_CONF. Needs ceph, rados, rbd, fio and python3-rados, and a cluster to spoil.
set -u
export CEPH_CONF="$1"
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
echo "some bytes of an object" > "$tmp/in"
ceph -s; ceph osd tree; ceph osd pool create rec 8; ceph osd pool create big 64 64; ceph pg dump pgs_brief >/dev/null
ceph tell osd.0 version; ceph tell mon.a version; ceph df; ceph log "a line for the log"; ceph log last 3 >/dev/null
ceph osd pool application enable rec rados; ceph config set client debug_ms 0/0
timeout 5 ceph -w >/dev/null & sleep 2; ceph log "seen by a watcher"; wait
ceph ping mon.a >/dev/null
echo '{"k": "v"}' > "$tmp/key"; ceph config-key set rec/key -i "$tmp/key"
r="rados -p rec"
$r put obj "$tmp/in"; $r get obj "$tmp/out"; cmp "$tmp/in" "$tmp/out"; $r stat obj; $r append obj "$tmp/in"; $r truncate obj 9; $r get obj -
$r -N space put inspace "$tmp/in"; $r --all ls; $r ls; $r stat missing; rados lspools; rados df >/dev/null; $r touch empty
$r setxattr obj attr value; $r getxattr obj attr; $r listxattr obj; $r rmxattr obj attr; $r getxattr obj attr
$r setomapval obj key value; $r setomapval obj key2 value2; $r listomapvals obj; $r listomapkeys obj; $r getomapval obj key; $r rmomapkey obj key
$r setomapheader obj header; $r getomapheader obj; $r clearomap obj
$r lock get obj thelock; $r lock info obj thelock; $r lock list obj
$r cp obj copy; $r rm copy
(sleep 4 | timeout 4 $r watch obj >/dev/null) & sleep 1; $r listwatchers obj; $r notify obj message; wait
$r put --offset 4 obj "$tmp/in"; $r listsnaps obj; $r mksnap before; $r put obj "$tmp/key"; $r -s before get obj -; $r listsnaps obj; $r rollback obj before; $r lssnap; $r rmsnap before
$r set-alloc-hint obj 4096 4096; $r bench 1 write -b 4096 -t 2 --no-cleanup >/dev/null; $r bench 1 rand -t 1 >/dev/null; $r cleanup >/dev/null
rados -p rec rm obj
rbd pool init big; rbd create -s 8M big/img; rbd bench --io-type write --io-size 512 --io-total 2K --io-threads 1 big/img >/dev/null
rbd snap create big/img@s; rbd bench --io-type write --io-size 512 --io-total 2K --io-threads 1 big/img >/dev/null; rbd snap rollback --no-progress big/img@s; rbd export big/img - 2>/dev/null | md5sum; rbd diff big/img >/dev/null; rbd snap rm --no-progress big/img@s; rbd rm --no-progress big/img
/usr/bin/python3 "$here/workload.py" "$CEPH_CONF"
fio --name=f --ioengine=rados --clientname=admin --pool=rec --rw=randrw --bs=512 --size=16k --conf="$CEPH_CONF" >/dev/null
# Placement groups that are not ready yet ask their clients to hold back.
$r bench 6 write -b 512 -t 16 --no-cleanup >/dev/null & for _ in 1 2 3 4; do sleep 1; ceph osd down 0 1; done; wait
ceph osd pool rm rec rec --yes-i-really-really-mean-it; ceph osd pool rm big big --yes-i-really-really-mean-it
