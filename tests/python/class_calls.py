"""Calls methods of object classes, sensible and not, and prints what came of each.

    class_calls.py POOL

What is printed must be the same on Nacre and on Ceph. Times, addresses and what is random are left out of it.
"""
import struct
import sys

import rados

from class_encodings import Calls, block, items, s64, text, time, u8, u32, u64
from queue_calls import cmpomap, queue, two_phase_queue

NO_SNAP = 0xFFFFFFFFFFFFFFFE


def no_output(out):
    return "..." if out else ""


def hello(call, io):
    call("hello", "hello", "say_hello")
    io.write_full("hello", b"there")
    call("hello", "hello", "say_hello")
    call("hello", "hello", "say_hello", b"Ceph")
    call("hello", "hello", "say_hello", b"x" * 101)
    call("hello", "hello", "record_hello")
    call("recorded", "hello", "record_hello", b"you")
    call("recorded", "hello", "replay")
    call("recorded", "hello", "turn_it_to_11")
    call("recorded", "hello", "turn_it_to_11", b"x")
    call("recorded", "hello", "replay")
    call("absent", "hello", "turn_it_to_11")
    call.content("recorded", ["said_by", "amplified_by"])
    call("hello", "hello", "write_return_data")
    call("hello", "hello", "write_return_data", b"x")
    call("hello", "hello", "writes_dont_return_data")
    call("hello", "hello", "bad_reader")
    call("hello", "hello", "bad_writer", b"x")
    call("hello", "hello", "nothing")
    call("hello", "nothing", "at_all")
    call.content("hello")


def lock(call, io):
    def request(name, kind, cookie, tag="", why="", seconds=0, flags=0):
        return block(text(name) + u8(kind) + text(cookie) + text(tag) + text(why) + time(seconds) + u8(flags))

    def info(out):
        """How many hold it, of which kind it is, and its tag."""
        count = struct.unpack_from("<I", out, 6)[0]
        at = 10
        cookies = []
        for _ in range(count):
            at += 6 + 9
            length = struct.unpack_from("<I", out, at)[0]
            cookies.append(out[at + 4 : at + 4 + length])
            at += 4 + length
            length = struct.unpack_from("<I", out, at + 2)[0]
            at += 6 + length
        kind = out[at]
        return f"{cookies} {kind} {out[at + 1:].hex()}"

    def get(name, lock):
        call(name, "lock", "get_info", block(text(lock)), info)

    get("l", "x")
    for kind in (0, 1, 2, 3, 4):
        name = f"l{kind}"
        call(name, "lock", "lock", request("x", kind, "c", "t", "because"))
        get(name, "x")
        call(name, "lock", "lock", request("x", kind, "c", "t"))
        call(name, "lock", "lock", request("x", kind, "c", "t", flags=1))
        call(name, "lock", "lock", request("x", kind, "c", "t", flags=2))
        call(name, "lock", "lock", request("x", kind, "c", "t", flags=3))
        call(name, "lock", "lock", request("x", kind, "d", "t", flags=2))
        call(name, "lock", "lock", request("x", kind, "d", "t"))
        call(name, "lock", "lock", request("x", kind, "d", "u"))
        call(name, "lock", "lock", request("x", 3 - kind if kind < 3 else 1, "e", "t"))
        get(name, "x")
        for cookie, tag in (("c", "t"), ("c", "u"), ("f", "t")):
            call(name, "lock", "assert_locked", block(text("x") + u8(kind) + text(cookie) + text(tag)))
            call(name, "lock", "set_cookie", block(text("x") + u8(kind) + text(cookie) + text(tag) + text("g")))
        call(name, "lock", "set_cookie", block(text("x") + u8(kind) + text("g") + text("t") + text("d")))
        call(name, "lock", "assert_locked", block(text("y") + u8(kind) + text("c") + text("t")))
        call(name, "lock", "list_locks")
        get(name, "x")
        call(name, "lock", "unlock", block(text("x") + text("nobody")))
        call(name, "lock", "unlock", block(text("x") + text("g")))
        get(name, "x")
        call(name, "lock", "list_locks")
        call(name, "lock", "unlock", block(text("x") + text("g")))
        call.content(name, ["lock.x"])
    call("l", "lock", "lock", request("", 1, "c"))
    call("l", "lock", "lock", request("x", 1, "c", seconds=1000))
    call("l", "lock", "lock", request("y", 2, "c"))
    call("l", "lock", "list_locks")
    nobody = u8(8) + s64(1)
    call("l", "lock", "break_lock", block(text("x") + nobody + text("c")))
    call("l", "lock", "break_lock", block(text("z") + nobody + text("c")))
    call("l", "lock", "lock", b"")
    call("l", "lock", "lock", block(b"", 9, 9))
    call("l", "lock", "get_info", b"\1\1\xff\0\0\0")
    call("absent", "lock", "unlock", block(text("x") + text("c")))
    call("absent", "lock", "assert_locked", block(text("x") + u8(1) + text("c") + text("")))
    io.lock_exclusive("held", "mine", "cookie", "why")
    try:
        io.lock_shared("held", "mine", "other", "tag", "why")
    except rados.Error as error:
        print("shared beside exclusive: error", error.errno)
    io.unlock("held", "mine", "cookie")


def refcount(call, io):
    def request(tag, implicit):
        return block(text(tag) + u8(implicit))

    call("r", "refcount", "get", request("a", 1))
    call("r", "refcount", "put", request("a", 1))
    call("r", "refcount", "read", block(u8(1)))
    for implicit in (0, 1):
        name = f"r{implicit}"
        io.write_full(name, b"data")
        call(name, "refcount", "read", block(u8(implicit)))
        call(name, "refcount", "put", request("nobody", 0))
        call(name, "refcount", "get", request("a", implicit))
        call(name, "refcount", "get", request("b", implicit))
        call(name, "refcount", "get", request("b", implicit))
        call(name, "refcount", "read", block(u8(implicit)))
        call.content(name)
        for tag in ("b", "b", "c", "c", "a", "d"):
            call(name, "refcount", "put", request(tag, implicit))
            call(name, "refcount", "read", block(u8(implicit)))
            call.content(name)
    io.write_full("r2", b"data")
    call("r2", "refcount", "set", block(items([text("x"), text("y")])))
    call.content("r2")
    call("r2", "refcount", "set", block(items([])))
    call.content("r2")
    call("r2", "refcount", "set", block(items([])))
    call("r2", "refcount", "get", b"junk")


def version(call, io):
    def of(number, tag):
        return block(u64(number) + text(tag))

    def condition(number, tag, code):
        return block(of(number, tag) + u32(code))

    def conditions(*given):
        return block(of(0, "") + items(list(given)))

    call("v", "version", "read")
    call("v", "version", "check_conds", conditions())
    call("v", "version", "set", block(of(5, "tag")))
    call("v", "version", "read")
    for code in range(9):
        for number, tag in ((4, "tag"), (5, "tag"), (6, "other")):
            call("v", "version", "check_conds", conditions(condition(number, tag, code)))
    call("v", "version", "inc", block(of(0, "")))
    call("v", "version", "inc", conditions())
    call("v", "version", "inc_conds", conditions(condition(6, "tag", 1)))
    call("v", "version", "inc_conds", conditions(condition(6, "tag", 1)))
    call("v", "version", "read")
    call.content("v")
    call("v2", "version", "inc", conditions())
    call("v2", "version", "read", show=lambda out: f"{out[12:20].hex()} {len(out)}")
    io.write_full("v3", b"")
    call("v3", "version", "read")
    call("v3", "version", "check_conds", conditions(condition(0, "", 1)))
    call("v3", "version", "inc_conds", conditions(condition(1, "", 2)))
    call.content("v3", ["ceph.objclass.version"])


def log(call, io):
    def entry(section, name, at, data, key=""):
        return block(text(section) + text(name) + time(*at) + text(data) + text(key), 2)

    def add(*entries, monotonic=0):
        return block(items(list(entries)) + u8(monotonic), 2)

    def list_from(start, end, marker="", most=0):
        return block(time(*start) + text(marker) + time(*end) + u32(most))

    def trim(start, end, first="", last=""):
        return block(time(*start) + time(*end) + text(first) + text(last), 2)

    call("g", "log", "list", list_from((0,), (0,)))
    call("g", "log", "info", block(b""))
    call("g", "log", "trim", trim((0,), (100,)))
    for second in (30, 10, 20):
        call("g", "log", "add", add(entry("s", "n", (second, 5000), "data", f"1_{second:010}.000005_{second}")))
    call("g", "log", "info", block(b""))
    call("g", "log", "add", add(entry("s", "n", (15,), "back", "1_0000000015.000000_x"), monotonic=1))
    call("g", "log", "info", block(b""))
    call("g", "log", "add", add())
    for start, end, marker, most in (
        ((0,), (0,), "", 0),
        ((0,), (0,), "", 2),
        ((0,), (25,), "", 0),
        ((1,), (20, 5000), "", 0),
        ((1,), (20, 6000), "", 0),
        ((1,), (20, 6000), "", 1),
        ((12,), (0,), "", 0),
        ((0,), (0,), "1_0000000020.000005_20", 0),
        ((0,), (0,), "1_0000000099", 0),
        ((0,), (0,), "", 0xFFFFFFFF),
    ):
        call("g", "log", "list", list_from(start, end, marker, most))
    call("g", "log", "trim", trim((11,), (14,)))
    call("g", "log", "trim", trim((0,), (10, 4000)))
    call("g", "log", "trim", trim((0,), (10, 5000)))
    call.content("g")
    call("g", "log", "trim", trim((0,), (0,), "", "1_0000000015.000000_x"))
    call("g", "log", "trim", trim((0,), (0,), "1_0000000020.000005_20", "1_0000000030.000005_30"))
    call.content("g")
    call("g", "log", "trim", trim((0,), (100,)))
    call("g", "log", "trim", trim((0,), (100,)))
    call.content("g")
    call("g2", "log", "add", add(entry("s", "n", (7, 1000), "data")))
    call("g2", "log", "list", list_from((0,), (0,)), lambda out: len(out) > 60)
    call("g", "log", "add", b"")


def timeindex(call, io):
    def entry(at, name, value):
        return block(time(*at) + text(name) + text(value))

    def list_from(start, end, marker="", most=100):
        return block(time(*start) + text(marker) + time(*end) + u32(most))

    def trim(start, end, first="", last=""):
        return block(time(*start) + time(*end) + text(first) + text(last))

    call("t", "timeindex", "list", list_from((0,), (0,)))
    call("t", "timeindex", "add", block(items([entry((30, 5000), "c", "3"), entry((10,), "a", "1"), entry((20,), "b", "2")])))
    call("t", "timeindex", "add", block(items([entry((20,), "b", "2 again"), entry((40,), "two words", "4")])))
    call.content("t")
    for start, end, marker, most in (
        ((0,), (0,), "", 100),
        ((0,), (50,), "", 100),
        ((0,), (50,), "", 2),
        ((0,), (50,), "", 0),
        ((15,), (30,), "", 100),
        ((15,), (30, 6000), "", 100),
        ((30,), (10,), "", 100),
        ((0,), (50,), "1_0000000020.000000_b", 100),
    ):
        call("t", "timeindex", "list", list_from(start, end, marker, most))
    call("t", "timeindex", "trim", trim((0,), (5,)))
    call("t", "timeindex", "trim", trim((0,), (10,)))
    call.content("t")
    call("t", "timeindex", "trim", trim((0,), (0,), "", "1_0000000020.000000_b"))
    call("t", "timeindex", "trim", trim((0,), (100,)))
    call("t", "timeindex", "trim", trim((0,), (100,)))
    call.content("t")


def numops(call, io):
    for method, number in (
        ("add", "5"), ("add", "-7.25"), ("mul", "3"), ("mul", "1e3"), ("mul", "1000000"), ("mul", "1e20"), ("add", "1"),
        ("mul", "0"), ("add", "0.1"), ("add", "0.2"), ("mul", "0.0001"), ("add", ""), ("add", "abc"), ("add", "1x"), ("add", " 2"),
        ("add", "-1e-7"), ("mul", "12345.678901"), ("add", "0x10"), ("add", "2 "),
    ):
        call("n", "numops", method, text("key") + text(number))
        call.content("n")
    with rados.WriteOpCtx() as op:
        io.set_omap(op, ("bad", "empty"), (b"12 apples", b""))
        io.operate_write_op(op, "n")
    call("n", "numops", "add", text("bad") + text("1"))
    call("n", "numops", "add", text("empty") + text("1"))
    call("n", "numops", "mul", text("new") + text("4"))
    call("n", "numops", "add", text("key"))
    call("absent", "numops", "mul", text("key") + text("2"))
    call.content("n")
    call.content("absent", ["amplified_by"])
    io.remove_object("absent")


def cas(call, io):
    def source(name):
        body = text("") + text(name) + u64(NO_SNAP) + u32(7) + u8(0) + text("") + s64(3)
        return block(body, 4, 3)

    def create(name, data, flags=0):
        return block(source(name) + u64(flags) + text(data))

    call("p", "cas", "chunk_get_ref", block(source("a")))
    call("p", "cas", "chunk_put_ref", block(source("a")))
    call("p", "cas", "chunk_create_or_get_ref", create("a", "data"))
    call("p", "cas", "chunk_create_or_get_ref", create("a", "data"))
    call("p", "cas", "chunk_create_or_get_ref", create("b", "data", 1))
    call("p", "cas", "chunk_create_or_get_ref", create("b", "other", 1))
    call("p", "cas", "chunk_create_or_get_ref", create("b", "other"))
    call("p", "cas", "chunk_get_ref", block(source("c")))
    call("p", "cas", "references_chunk", text("q"))
    for name in ("d", "a", "a", "a", "b", "b", "b", "c"):
        call("p", "cas", "chunk_put_ref", block(source(name)))
        call.content("p", ["chunk_refs"])
    call("p", "cas", "chunk_put_ref", b"")


def image(call, io):
    name = "rbd_header.1"

    def ask(method, data=b"", show=lambda out: out.hex()):
        call(name, "rbd", method, data, show)

    def state():
        for method in ("get_size", "get_features", "get_flags", "parent_overlap_get", "get_parent"):
            ask(method, u64(NO_SNAP))
        for method in ("get_snapcontext", "get_object_prefix", "get_data_pool", "get_stripe_unit_count", "op_features_get",
                       "parent_get", "snapshot_get_limit", "image_group_get", "mirror_mode_get", "mirror_uuid_get", "migration_get"):
            ask(method)
        call.content(name, ["create_timestamp", "access_timestamp", "modify_timestamp", "snapshot_0"])

    state()
    create = u64(1 << 30) + u8(22)
    ask("set_size", u64(5))
    ask("snapshot_add", text("s") + u64(1))
    ask("create", create + u64(1 << 20) + text("rbd_data.1"))
    ask("create", create + u64(61) + text(""))
    ask("create", create + u64(256) + text("rbd_data.1"))
    ask("create", create + u64(128) + text("rbd_data.1"))
    ask("create", create + u64(1) + text("rbd_data.1") + s64(3))
    ask("create", create[:5])
    call.content(name)
    ask("create", create + u64(61) + text("rbd_data.1"))
    ask("create", create + u64(61) + text("rbd_data.1"))
    state()
    call("rbd_header.2", "rbd", "create", create + u64(128 | 2) + text("rbd_data.2") + s64(7))
    for unit, count in ((0, 1), (1 << 16, 0), (3000, 2), (1 << 23, 1), (1 << 16, 16)):
        call("rbd_header.2", "rbd", "set_stripe_unit_count", u64(unit) + u64(count))
    call("rbd_header.2", "rbd", "get_stripe_unit_count")
    call("rbd_header.2", "rbd", "get_data_pool")
    ask("set_stripe_unit_count", u64(1 << 16) + u64(16))
    ask("get_all_features")
    for method in ("get_create_timestamp", "get_access_timestamp", "get_modify_timestamp"):
        ask(method, show=lambda out: len(out))
    ask("set_access_timestamp")
    ask("set_modify_timestamp")
    call("absent", "rbd", "set_access_timestamp")
    ask("get_features", u64(NO_SNAP) + u8(1))
    ask("get_features", u64(77))
    ask("get_features")
    ask("get_size", u64(77))
    ask("get_flags", u64(77))
    changes = [(4 | 8, 12), (0, 12), (0, 32), (32, 32), (1, 1), (0, 1), (256, 256), (512, 512), (1 << 30, 1 << 30)]
    changes += [(64, 64), (0, 64), (60, 60), (28, 28)]
    for features, mask in changes:
        ask("set_features", u64(features) + u64(mask))
        ask("get_features", u64(NO_SNAP))
    for value, mask in ((1, 1), (3, 2), (0, 3), (8, 8), (16, 16), (16, 8), (0, 255)):
        ask("op_features_set", u64(value) + u64(mask))
        ask("op_features_get")
        ask("get_features", u64(NO_SNAP))
    for flags, mask in ((1, 1), (3, 2), (0, 1)):
        ask("set_flags", u64(flags) + u64(mask))
        ask("get_flags", u64(NO_SNAP))
    ask("set_flags", u64(1) + u64(1) + u64(77))
    ask("set_size", u64(1 << 31))
    state()

    user = block(u32(0))
    ask("snapshot_add", text("first") + u64(4) + user)
    ask("snapshot_add", text("first") + u64(5) + user)
    ask("snapshot_add", text("second") + u64(4) + user)
    ask("snapshot_add", text("second") + u64(3) + user)
    ask("snapshot_add", text("second") + u64(8))
    ask("snapshot_add", text("third") + u64((1 << 64) - 1) + user)
    ask("snapshot_set_limit", u64(1))
    ask("snapshot_set_limit", u64(2))
    ask("snapshot_get_limit")
    ask("snapshot_add", text("third") + u64(9) + user)
    ask("snapshot_set_limit", u64((1 << 64) - 1))
    ask("snapshot_get_limit")
    ask("snapshot_add", text("third") + u64(9) + user)
    state()
    without_time = lambda out: (out[:-12] + out[-4:]).hex()
    for snap in (4, 8, 9, 77, NO_SNAP):
        ask("snapshot_get", u64(snap), without_time)
        ask("get_snapshot_name", u64(snap))
        ask("get_snapshot_timestamp", u64(snap), lambda out: len(out))
        ask("get_size", u64(snap))
        ask("get_flags", u64(snap))
        ask("get_protection_status", u64(snap))
        ask("parent_overlap_get", u64(snap))
        ask("get_parent", u64(snap))
    ask("set_flags", u64(1) + u64(1) + u64(8))
    ask("get_flags", u64(8))
    ask("snapshot_rename", u64(9) + text("second"))
    ask("snapshot_rename", u64(9) + text("3rd"))
    ask("snapshot_rename", u64(9) + text("3rd"))
    ask("snapshot_rename", u64(77) + text("x"))
    ask("get_snapshot_name", u64(9))
    for snap, status in ((8, 2), (8, 3), (77, 2), (NO_SNAP, 2), (8, 1)):
        ask("set_protection_status", u64(snap) + u8(status))
        ask("get_protection_status", u64(snap))
    ask("snapshot_remove", u64(8))
    ask("snapshot_trash_add", u64(8))
    ask("set_protection_status", u64(8) + u8(0))
    call("rbd_header.2", "rbd", "set_protection_status", u64(8) + u8(0))

    def child(pool, image, namespace=""):
        return block(s64(pool) + text(image) + text(namespace), 2)

    ask("children_list", u64(8))
    ask("children_list", u64(77))
    ask("child_attach", u64(77) + child(1, "a"))
    ask("child_attach", u64(8) + child(1, "a"))
    ask("child_attach", u64(8) + child(1, "a"))
    ask("child_attach", u64(8) + child(2, "b", "ns"))
    ask("child_attach", u64(9) + child(1, "a"))
    ask("children_list", u64(8))
    ask("op_features_get")
    ask("snapshot_get", u64(8), without_time)
    ask("snapshot_remove", u64(8))
    ask("child_detach", u64(8) + child(3, "a"))
    ask("child_detach", u64(8) + child(1, "a"))
    ask("child_detach", u64(8) + child(2, "b", "ns"))
    ask("child_detach", u64(8) + child(2, "b", "ns"))
    ask("op_features_get")
    ask("snapshot_trash_add", u64(9))
    ask("snapshot_get", u64(9), lambda out: len(out))
    ask("snapshot_trash_add", u64(9))
    ask("child_attach", u64(9) + child(5, "a"))
    ask("op_features_get")
    ask("child_detach", u64(9) + child(1, "a"))
    ask("op_features_get")
    ask("snapshot_remove", u64(9))
    ask("op_features_get")
    ask("snapshot_remove", u64(9))
    state()

    def parent(pool, image, snap, namespace=""):
        return block(s64(pool) + text(namespace) + text(image) + u64(snap))

    for spec, overlap in (
        (parent(-1, "p", 3), 100), (parent(1, "", 3), 100), (parent(1, "p", NO_SNAP), 100), (parent(1, "p", 3), 0),
        (parent(1, "p", 3, "ns"), 1 << 40),
        (parent(1, "p", 3, "ns"), 100), (parent(1, "q", 3), 100),
    ):
        ask("parent_attach", spec + u64(overlap))
        ask("parent_get")
        ask("parent_overlap_get", u64(NO_SNAP))
        ask("get_parent", u64(NO_SNAP))
    ask("parent_attach", parent(1, "q", 3) + u64(1 << 20) + u8(1))
    ask("snapshot_add", text("with parent") + u64(12) + user)
    ask("set_size", u64(1 << 19))
    ask("parent_overlap_get", u64(NO_SNAP))
    ask("parent_overlap_get", u64(12))
    ask("set_size", u64(1 << 21))
    ask("parent_overlap_get", u64(NO_SNAP))
    state()
    ask("parent_detach")
    ask("parent_detach")
    state()
    ask("parent_attach", parent(2, "r", 3) + u64(1 << 20))
    ask("set_features", u64(0) + u64(32))
    ask("snapshot_add", text("with another") + u64(13) + user)
    ask("remove_parent")
    state()
    ask("get_parent", u64(13))
    ask("set_parent", s64(1) + text("s") + u64(4) + u64(100))
    ask("snapshot_remove", u64(13))
    ask("snapshot_remove", u64(12))
    state()
    call("rbd_header.2", "rbd", "parent_attach", parent(1, "p", 3) + u64(100))
    call("rbd_header.2", "rbd", "parent_detach")
    call("absent", "rbd", "parent_attach", parent(1, "p", 3) + u64(100))

    ask("metadata_list", text("") + u64(0))
    ask("metadata_set", items([text("a") + text("1"), text("b") + text("2"), text("conf_x") + text("")]))
    ask("metadata_list", text("") + u64(0))
    ask("metadata_list", text("a") + u64(1))
    ask("metadata_list", text("zz") + u64(0))
    ask("metadata_get", text("b"))
    ask("metadata_get", text("c"))
    ask("metadata_remove", text("b"))
    ask("metadata_remove", text("b"))
    ask("metadata_list", text("") + u64(0))
    call("rbd_info", "rbd", "metadata_list", text("") + u64(0))
    call("rbd_info", "rbd", "metadata_remove", text("x"))
    call("rbd_info", "rbd", "metadata_set", items([text("x") + text("1")]))
    call.content("rbd_info")


def children(call, io):
    key = s64(1) + text("image") + u64(4)
    other = s64(1) + text("image") + u64(5)
    call("rbd_children", "rbd", "get_children", key)
    call("rbd_children", "rbd", "remove_child", key + text("a"))
    for child in ("a", "b", "a"):
        call("rbd_children", "rbd", "add_child", key + text(child))
    call("rbd_children", "rbd", "add_child", other + text("a"))
    call("rbd_children", "rbd", "get_children", key)
    call("rbd_children", "rbd", "get_children", s64(2) + text("image") + u64(5))
    for child in ("c", "a", "a", "b"):
        call("rbd_children", "rbd", "remove_child", key + text(child))
    call("rbd_children", "rbd", "get_children", key)


def directory(call, io):
    d = "rbd_directory"
    call("rbd_id.a", "rbd", "get_id")
    call("rbd_id.a", "rbd", "set_id", text("10a"))
    io.write_full("rbd_id.a", b"")
    call("rbd_id.a", "rbd", "get_id")
    for bad in ("", "a b", "1.2"):
        call("rbd_id.a", "rbd", "set_id", text(bad))
    call("rbd_id.a", "rbd", "set_id", text("10a"))
    call("rbd_id.a", "rbd", "set_id", text("10b"))
    call("rbd_id.a", "rbd", "get_id")
    io.write_full("rbd_id.b", b"junk")
    call("rbd_id.b", "rbd", "get_id")
    call(d, "rbd", "dir_list", text("") + u64(10))
    call(d, "rbd", "dir_state_assert", u8(0))
    call(d, "rbd", "dir_remove_image", text("a") + text("1"))
    call(d, "rbd", "dir_state_set", u8(1))
    for name, key in (("a", "1"), ("a", "2"), ("b", "1"), ("", "3"), ("c", ""), ("c", "x y"), ("b", "2"), ("c", "3"), ("d", "4")):
        call(d, "rbd", "dir_add_image", text(name) + text(key))
    call(d, "rbd", "dir_get_id", text("b"))
    call(d, "rbd", "dir_get_id", text("z"))
    call(d, "rbd", "dir_get_name", text("2"))
    call(d, "rbd", "dir_get_name", text("9"))
    for start, most in (("", 10), ("", 2), ("b", 10), ("d", 10), ("", 0)):
        call(d, "rbd", "dir_list", text(start) + u64(most))
    for source, target, key in (("a", "b", "1"), ("z", "y", "1"), ("a", "y", "2"), ("a", "y", "9"), ("a", "a", "1"), ("a", "y", "1"), ("y", "", "1")):
        call(d, "rbd", "dir_rename_image", text(source) + text(target) + text(key))
    for name, key in (("b", "1"), ("b", "9"), ("z", "2"), ("b", "2"), ("b", "2")):
        call(d, "rbd", "dir_remove_image", text(name) + text(key))
    call(d, "rbd", "dir_state_assert", u8(0))
    for wanted in (0, 1, 2):
        call(d, "rbd", "dir_state_set", u8(wanted))
        call(d, "rbd", "dir_state_assert", u8(0))
        call(d, "rbd", "dir_state_assert", u8(wanted))
    call.content(d)
    call("empty_directory", "rbd", "dir_state_set", u8(0))
    call("empty_directory", "rbd", "dir_state_set", u8(1))
    call("empty_directory", "rbd", "dir_add_image", text("a") + text("1"))
    call.content("empty_directory")

    t = "rbd_trash"

    def spec(state=0, source=0):
        return block(u8(source) + text("name") + time(5) + time(6) + u8(state), 2)

    call(t, "rbd", "trash_list", text("") + u64(10))
    call(t, "rbd", "trash_get", text("1"))
    call(t, "rbd", "trash_remove", text("1"))
    call(t, "rbd", "trash_add", text("1") + spec())
    call(t, "rbd", "trash_add", text("1") + spec())
    call(t, "rbd", "trash_add", text("2") + spec(1))
    call(t, "rbd", "trash_add", text("3"))
    call(t, "rbd", "trash_get", text("1"))
    call(t, "rbd", "trash_list", text("") + u64(10))
    call(t, "rbd", "trash_list", text("1") + u64(10))
    for key, new, expected in (("1", 1, 0), ("1", 1, 0), ("1", 2, 0), ("1", 2, 1), ("9", 1, 0)):
        call(t, "rbd", "trash_state_set", text(key) + u8(new) + u8(expected))
        call(t, "rbd", "trash_get", text("1"))
    call(t, "rbd", "trash_remove", text("2"))
    call(t, "rbd", "trash_remove", text("2"))
    call.content(t)

    n = "rbd_namespace"
    call(n, "rbd", "namespace_list", text("") + u64(10))
    call(n, "rbd", "namespace_remove", text("a"))
    for name in ("a", "b", "a"):
        call(n, "rbd", "namespace_add", text(name))
    call(n, "rbd", "namespace_list", text("") + u64(10))
    call(n, "rbd", "namespace_list", text("a") + u64(10))
    call(n, "rbd", "namespace_remove", text("a"))
    call(n, "rbd", "namespace_remove", text("a"))
    call.content(n)
    call("rbd_mirroring", "rbd", "mirror_image_get", text("1"))
    io.write_full("rbd_mirroring", b"")
    call("rbd_mirroring", "rbd", "mirror_image_get", text("1"))
    call("rbd_mirroring", "rbd", "mirror_mode_get")
    call("rbd_mirroring", "rbd", "mirror_uuid_get")


def data_objects(call, io):
    call("d1", "rbd", "copyup", b"from the parent")
    call("d1", "rbd", "copyup", b"again")
    call.content("d1")
    call("d0", "rbd", "copyup")
    call.content("d0")
    extents = items([u64(0) + u64(3), u64(10) + u64(2)])
    call("d2", "rbd", "sparse_copyup", extents + text("abcde"))
    call("d2", "rbd", "sparse_copyup", extents + text("fghij"))
    call.content("d2")
    call("d3", "rbd", "sparse_copyup", items([]) + text(""))
    call("d3", "rbd", "sparse_copyup", items([]) + text(""))
    call.content("d3")
    call("d4", "rbd", "sparse_copyup", extents + text("abc"))
    call.content("d4")
    for seq, kind in ((0, 0), (5, 0), (0, 1), (5, 1), (5, 2)):
        call("d1", "rbd", "assert_snapc_seq", u64(seq) + u8(kind))
    for seq, kind in ((0, 0), (5, 0), (0, 1)):
        with rados.WriteOpCtx() as op:
            op.execute("rbd", "assert_snapc_seq", u64(seq) + u8(kind))
            op.write(b"x", 0)
            try:
                io.operate_write_op(op, f"guarded {seq} {kind}")
                print("guarded", seq, kind, "written")
            except rados.Error as error:
                print("guarded", seq, kind, "error", error.errno)
    zeros, ones = bytes(4096), b"1" * 4096
    io.write_full("s", ones + zeros * 3 + ones + zeros)
    # A size of 0 has a Ceph count for ever.
    for size in (100, 3000):
        call("s", "rbd", "sparsify", u64(size) + u8(0))
    call("s", "rbd", "sparsify", u64(4096) + u8(0))
    call.content("s")
    io.write_full("z", zeros * 2)
    call("z", "rbd", "sparsify", u64(4096) + u8(0))
    call.content("z")
    io.write_full("z", zeros * 2)
    call("z", "rbd", "sparsify", u64(4096) + u8(1))
    call.content("z")
    call("absent", "rbd", "sparsify", u64(4096) + u8(1))


def object_map(call, io):
    m = "rbd_object_map.1"
    call(m, "rbd", "object_map_load")
    call(m, "rbd", "object_map_update", u64(0) + u64(1) + u8(1) + u8(0))
    call(m, "rbd", "object_map_snap_add")
    call(m, "rbd", "object_map_resize", u64(21) + u8(0))
    call.content(m)
    call(m, "rbd", "object_map_load")
    for start, end, wanted, expected in (
        (0, 1, 1, None), (3, 9, 1, 0), (5, 7, 2, 1), (20, 21, 3, None), (0, 22, 1, None), (9, 8, 1, None),
        (4, 4, 1, None), (0, 21, 0, 1), (1, 3, 3, None), (1, 2, 2, 1),
    ):
        guard = u8(0) if expected is None else u8(1) + u8(expected)
        call(m, "rbd", "object_map_update", u64(start) + u64(end) + u8(wanted) + guard)
        call.content(m)
    call(m, "rbd", "object_map_update", u64(0) + u64(9) + u8(1) + u8(0))
    call(m, "rbd", "object_map_snap_add")
    call(m, "rbd", "object_map_load")
    gone = call.last
    call(m, "rbd", "object_map_update", u64(2) + u64(3) + u8(1) + u8(0))
    call(m, "rbd", "object_map_snap_remove", gone)
    call(m, "rbd", "object_map_load")
    call("snap_map", "rbd", "object_map_save", gone)
    call("snap_map", "rbd", "object_map_update", u64(0) + u64(2) + u8(1) + u8(0))
    call("snap_map", "rbd", "object_map_load")
    written = call.last
    call(m, "rbd", "object_map_snap_remove", written)
    call(m, "rbd", "object_map_snap_remove", b"junk")
    call(m, "rbd", "object_map_load")
    for count, default in ((5, 0), (40, 0), (10, 0), (9, 1), (30, 1), (41, 3), (1 << 40, 0)):
        call(m, "rbd", "object_map_resize", u64(count) + u8(default))
        call.content(m)
    call(m, "rbd", "object_map_save", b"junk")
    call("large_map", "rbd", "object_map_resize", u64(70_000) + u8(0))
    for start, end in ((0, 1), (16_383, 16_385), (69_999, 70_000), (30_000, 60_000)):
        call("large_map", "rbd", "object_map_update", u64(start) + u64(end) + u8(1) + u8(0))
    import zlib
    call("large_map", "rbd", "object_map_load", show=lambda out: f"{len(out)} {zlib.crc32(out):08x}")


def several(call, io):
    """Calls as steps of operations with others."""
    def operate(name, *steps):
        with rados.WriteOpCtx() as op:
            for step in steps:
                step(op)
            try:
                io.operate_write_op(op, name)
                print(f"{name}: done")
            except rados.Error as error:
                print(f"{name}: error {error.errno}")

    def execute(cls, method, data=b""):
        return lambda op: op.execute(cls, method, data)

    exclusive = rados.LIBRADOS_CREATE_EXCLUSIVE
    operate("rbd_id.m", lambda op: op.new(exclusive), execute("rbd", "set_id", text("77")))
    operate("rbd_id.m", lambda op: op.new(exclusive), execute("rbd", "set_id", text("78")))
    call.content("rbd_id.m")
    operate("m", execute("hello", "record_hello"), execute("hello", "record_hello"))
    operate("m", execute("version", "set", block(block(u64(3) + text("t")))), execute("version", "inc", block(block(u64(0) + text("")) + items([]))))
    call.content("m", ["ceph.objclass.version", "said_by"])
    operate("m", execute("numops", "add", text("k") + text("1")), execute("numops", "add", text("k") + text("1")), lambda op: op.append(b"x"))
    call.content("m", ["ceph.objclass.version", "said_by"])
    operate("m", execute("lock", "assert_locked", block(text("x") + u8(1) + text("c") + text(""))), lambda op: op.append(b"y"))
    operate("m", lambda op: op.append(b"y"), execute("nothing", "at_all"))
    call.content("m", ["ceph.objclass.version", "said_by"])


def main():
    cluster = rados.Rados(conffile="")
    cluster.connect(timeout=30)
    io = cluster.open_ioctx(sys.argv[1])
    call = Calls(io)
    parts = [hello, lock, refcount, version, log, timeindex, numops, cas]
    parts += [image, children, directory, data_objects, object_map, several]
    parts += [cmpomap, queue, two_phase_queue]
    wanted = sys.argv[2:]
    for part in parts:
        if not wanted or part.__name__ in wanted:
            print(f"-- {part.__name__}")
            part(call, io)


main()
