"""Prints what clients with different capabilities for OSDs may do there: a line for each of the capabilities and each
place, with the error number of each operation.

Usage: capabilities.py CEPH.CONF FOLDER-FOR-KEYRINGS
"""

import json
import sys

import rados

CAPS = [
    "allow *", "allow r", "allow w", "allow rw", "allow rwx", "allow x", "allow class-read", "allow r class-write",
    "allow w class-read", "allow * pool=p1", "allow r pool=p1", "allow rw namespace=n1",
    "allow rwx pool=p2 namespace=n*", "allow rwx pool=p1 namespace=n1 object_prefix o", "allow rw object_prefix x",
    "allow rw object_prefix o", "profile rbd", "profile rbd pool=p1", "profile rbd pool=p2 namespace=n1",
    "profile rbd-read-only", "profile simple-rados-client", "allow rw tag rbd *=*", "allow rwx tag rbd key=value",
    "allow class lock", "allow class lock get_info", "allow class version read, allow class lock",
    "allow r network 10.0.0.0/8", "allow r network 127.0.0.0/8", "allow r, allow w pool=p1",
    "allow r; allow class version", "allow rw pool=p1, allow r pool=p2",
]


def watch(io):
    io.watch("o", lambda *_: None).close()


def omap_get(io):
    with rados.ReadOpCtx() as op:
        values, _ = io.get_omap_vals(op, "", "", 9)
        io.operate_read_op(op, "o")
        list(values)


def omap_set(io):
    with rados.WriteOpCtx() as op:
        io.set_omap(op, ("k",), (b"v",))
        io.operate_write_op(op, "o")


def lock(io):
    io.lock_exclusive("l", "n", "c")
    io.unlock("l", "n", "c")


OPERATIONS = {
    "read": lambda io: io.read("o"),
    "stat": lambda io: io.stat("o"),
    "write": lambda io: io.write("o", b"x"),
    "append": lambda io: io.append("o", b"x"),
    "get_xattr": lambda io: io.get_xattr("o", "a"),
    "set_xattr": lambda io: io.set_xattr("o", "a", b"b"),
    "omap_get": omap_get,
    "omap_set": omap_set,
    "list": lambda io: list(io.list_objects()),
    "watch": watch,
    "notify": lambda io: io.notify("o", "m"),
    "lock": lock,
    "list_locks": lambda io: io.execute("o", "lock", "list_locks", b""),
    "version": lambda io: io.execute("o", "version", "read", b""),
    "hello": lambda io: io.execute("o", "hello", "say_hello", b""),
    "record": lambda io: io.execute("new", "hello", "record_hello", b""),
    "no_class": lambda io: io.execute("o", "nothing", "at_all", b""),
    "remove": lambda io: io.remove_object("gone"),
}


def places(cluster):
    for pool in ("p1", "p2"):
        for namespace in ("", "n1"):
            io = cluster.open_ioctx(pool)
            io.set_namespace(namespace)
            yield f"{pool}/{namespace}", io


def answer(do, io):
    try:
        do(io)
        return "0"
    except rados.Error as error:
        return str(getattr(error, "errno", type(error).__name__))


def main():
    conf, folder = sys.argv[1:]
    admin = rados.Rados(conffile=conf, name="client.admin")
    admin.connect(timeout=30)
    for pool in ("p1", "p2"):
        admin.create_pool(pool)
    enable = {"prefix": "osd pool application enable", "pool": "p1", "app": "rbd"}
    admin.mon_command(json.dumps(enable), b"", timeout=30)
    for _, io in places(admin):
        io.write_full("o", b"content")
        io.set_xattr("o", "a", b"b")
        omap_set(io)
    for number, caps in enumerate(CAPS):
        name = f"client.c{number}"
        make = {"prefix": "auth get-or-create", "entity": name, "caps": ["mon", "allow r", "osd", caps]}
        result, keyring, why = admin.mon_command(json.dumps(make), b"", timeout=30)
        assert result == 0, f"{caps}: {why}"
        path = f"{folder}/{name}.keyring"
        with open(path, "wb") as file:
            file.write(keyring)
        client = rados.Rados(conffile=conf, name=name, conf={"keyring": path})
        client.connect(timeout=30)
        for place, io in places(client):
            answers = " ".join(f"{word}:{answer(do, io)}" for word, do in OPERATIONS.items())
            print(f"{caps} | {place} | {answers}", flush=True)
        client.shutdown()
    admin.shutdown()


main()
