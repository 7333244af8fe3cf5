"""Writes blocks of 4 KiB, one after the other, ten a second: rbd_writer.py POOL IMAGE OFFSET BLOCKS

All bytes of a block have the block's number, from 1 on. Says so on standard error after the first.
"""
import sys
import time

import rados
import rbd

pool, name, offset, blocks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with rados.Rados(conffile="") as cluster, cluster.open_ioctx(pool) as ioctx, rbd.Image(ioctx, name) as image:
    for block in range(blocks):
        image.write(bytes([block % 255 + 1]) * 4096, offset + block * 4096 % (1 << 20))
        if block == 0:
            print("wrote", file=sys.stderr, flush=True)
        time.sleep(0.1)
