"""Writes to an image at random places, and says where: rbd_pattern.py POOL IMAGE SEED SIZE

Each byte written has the value SEED. SIZE is what the image's size must be.
"""
import random
import sys

import rados
import rbd

pool, name, seed, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with rados.Rados(conffile="") as cluster, cluster.open_ioctx(pool) as ioctx, rbd.Image(ioctx, name) as image:
    assert image.size() == size, (image.size(), size)
    choice = random.Random(seed)
    for _ in range(12):
        offset = choice.randrange(size)
        length = min(size - offset, choice.choice([1, 4096, 70000, 1500000]))
        image.write(bytes([seed]) * length, offset)
        print(offset, length)
