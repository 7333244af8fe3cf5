"""Several steps as one operation: all of them happen or none."""
import errno

import rados
from checks import check, fails_with, main, same


def operate(io, name, *steps):
    op = io.create_write_op()
    for step in steps:
        step(op)
    try:
        io.operate_write_op(op, name)
    finally:
        op.release()


@check
def steps_see_those_before(io):
    operate(io, "op-steps", lambda op: op.write_full(b"0123456789"), lambda op: op.append(b"abc"),
            lambda op: op.truncate(12), lambda op: op.write(b"X", 11), lambda op: op.set_xattr("k", b"v"),
            lambda op: io.set_omap(op, ("a", "b"), (b"1", b"2")), lambda op: io.remove_omap_keys(op, ("a",)))
    same(io.read("op-steps"), b"0123456789aX")
    same(io.get_xattr("op-steps", "k"), b"v")
    read = io.create_read_op()
    keys, _ = io.get_omap_vals(read, "", "", 10)
    io.operate_read_op(read, "op-steps")
    same(list(keys), [("b", b"2")])


@check
def failure_undoes_all_steps(io):
    io.write_full("op-undo", b"before")
    fails_with(errno.EEXIST, operate, io, "op-undo", lambda op: op.write_full(b"after"), lambda op: op.set_xattr("k", b"v"),
               lambda op: op.new(rados.LIBRADOS_CREATE_EXCLUSIVE))
    same(io.read("op-undo"), b"before")
    fails_with(errno.ENODATA, io.get_xattr, "op-undo", "k")


@check
def failure_makes_no_object(io):
    fails_with(errno.ENOENT, operate, io, "op-no-object", lambda op: op.remove(), lambda op: op.write_full(b"x"))
    fails_with(errno.ENOENT, io.stat, "op-no-object")


@check
def version_guard(io):
    io.write_full("op-version", b"1")
    version = io.get_last_version()
    fails_with(errno.ERANGE, operate, io, "op-version", lambda op: op.assert_version(version - 1), lambda op: op.write_full(b"2"))
    fails_with(errno.EOVERFLOW, operate, io, "op-version", lambda op: op.assert_version(version + 1), lambda op: op.write_full(b"2"))
    same(io.read("op-version"), b"1")
    operate(io, "op-version", lambda op: op.assert_version(version), lambda op: op.write_full(b"2"))
    same(io.read("op-version"), b"2")


@check
def extent_guard(io):
    io.write_full("op-cmpext", b"lock: free")
    try:
        operate(io, "op-cmpext", lambda op: op.cmpext(b"held", 6), lambda op: op.write(b"mine", 6))
    except Exception as error:
        # 4095 and the place of the first difference.
        assert "4095" in str(error) or getattr(error, "errno", 0) == 4095, error
    else:
        raise AssertionError("a failing guard lets the write through")
    same(io.read("op-cmpext"), b"lock: free")
    operate(io, "op-cmpext", lambda op: op.cmpext(b"free", 6), lambda op: op.write(b"held", 6))
    same(io.read("op-cmpext"), b"lock: held")


@check
def omap_guard(io):
    operate(io, "op-omapcmp", lambda op: io.set_omap(op, ("owner", "count"), (b"me", b"5")))
    equal, greater, less = rados.LIBRADOS_CMPXATTR_OP_EQ, rados.LIBRADOS_CMPXATTR_OP_GT, rados.LIBRADOS_CMPXATTR_OP_LT
    fails_with(errno.ECANCELED, operate, io, "op-omapcmp", lambda op: op.omap_cmp("owner", "you", equal), lambda op: op.write_full(b"x"))
    same(io.stat("op-omapcmp")[0], 0)
    operate(io, "op-omapcmp", lambda op: op.omap_cmp("owner", "me", equal), lambda op: op.write_full(b"x"))
    operate(io, "op-omapcmp", lambda op: op.omap_cmp("count", "4", greater), lambda op: op.write_full(b"xx"))
    operate(io, "op-omapcmp", lambda op: op.omap_cmp("count", "6", less), lambda op: op.write_full(b"xxx"))
    fails_with(errno.ECANCELED, operate, io, "op-omapcmp", lambda op: op.omap_cmp("count", "5", greater), lambda op: op.remove())
    fails_with(errno.ECANCELED, operate, io, "op-omapcmp", lambda op: op.omap_cmp("missing", "x", equal), lambda op: op.remove())
    same(io.read("op-omapcmp"), b"xxx")


@check
def remove_and_write_in_one(io):
    io.write_full("op-replace", b"long content")
    io.set_xattr("op-replace", "k", b"v")
    operate(io, "op-replace", lambda op: op.remove(), lambda op: op.write(b"new", 0))
    same(io.read("op-replace"), b"new")


@check
def writesame_and_zero_in_one(io):
    # python3-rados 16.2 hands over zero's two arguments in the wrong order: this is an offset of 4 and a length of 8.
    operate(io, "op-zero", lambda op: op.writesame(b"abcd", 16, 0), lambda op: op.zero(8, 4))
    same(io.read("op-zero"), b"abcd" + bytes(8) + b"abcd")


@check
def read_with_a_guard(io):
    io.write_full("op-read", b"abcdef")
    op = io.create_read_op()
    op.cmpext(b"cd", 2)
    io.operate_read_op(op, "op-read")


@check
def many_steps(io):
    operate(io, "op-many", *[lambda op, i=i: op.write(bytes([i]), i * 100) for i in range(100)])
    content = io.read("op-many", 20_000)
    same(len(content), 99 * 100 + 1)
    same([content[i * 100] for i in range(100)], list(range(100)))


if __name__ == "__main__":
    main()
