"""The part of the workload that needs librados itself: operations that no command line tool sends."""
import ctypes
import sys
import rados

cluster = rados.Rados(conffile=sys.argv[1])
cluster.connect()
cluster.get_cluster_stats()
cluster.mon_command('{"prefix": "osd dump", "format": "json"}', b"")
cluster.osd_command(0, '{"prefix": "version"}', b"")
cluster.mgr_command('{"prefix": "pg stat"}', b"")
cluster.create_pool("made")
cluster.delete_pool("made")
cluster.get_fsid()
io = cluster.open_ioctx("rec")
io.write_full("o", b"0123456789" * 10)
io.write("o", b"abc", 5)
io.append("o", b"tail")
io.trunc("o", 50)
io.stat("o")
io.set_xattr("o", "a", b"1")
io.execute("o", "hello", "say_hello", b"me")
with rados.WriteOpCtx() as op:
    io.set_omap(op, ("k1", "k2", "k3"), (b"v1", b"v2", b"v3"))
    op.create()
    op.write_full(b"compound")
    op.set_xattr("x", b"y")
    io.operate_write_op(op, "compound")
with rados.WriteOpCtx() as op:
    op.new(1)  # exclusive
    try:
        io.operate_write_op(op, "compound")
    except rados.Error as error:
        print("expected:", error)
with rados.WriteOpCtx() as op:
    op.zero(1, 3)
    op.write(b"w", 2)
    op.append(b"e")
    op.truncate(6)
    op.rm_xattr("x")
    io.remove_omap_keys(op, ("k1",))
    io.remove_omap_range2(op, "k2", "k3")
    io.operate_write_op(op, "compound")
with rados.WriteOpCtx() as op:
    op.execute("hello", "record_hello", b"name")
    io.operate_write_op(op, f"recorded by {cluster.get_instance_id()}")
with rados.WriteOpCtx() as op:
    io.clear_omap(op)
    op.writesame(b"ab", 8, 0)
    op.remove()
    io.operate_write_op(op, "compound")
with rados.WriteOpCtx() as op:
    io.set_omap(op, ("k1", "k2"), (b"v1", b"v2"))
    io.operate_write_op(op, "o")
with rados.ReadOpCtx() as op:
    # The answers are written to these: they must outlive the operation.
    answers = [io.get_omap_vals(op, "", "k", 10), io.get_omap_keys(op, "", 10), io.get_omap_vals_by_keys(op, ("k2",))]
    io.operate_read_op(op, "o")
with rados.WriteOpCtx() as op:
    op.assert_version(io.get_last_version())
    op.write_full(b"asserted")
    try:
        io.operate_write_op(op, "o")
    except rados.Error as error:
        print("expected:", error)
with rados.WriteOpCtx() as op:
    op.omap_cmp("k1", "v1", 1)
    io.operate_write_op(op, "o")
print(io.cmpext("o", b"asserted", 0))
watch = io.watch("o", lambda *arguments: None)
io.notify("o", "hello")
watch.check()
watch.close()
io.aio_flush()

# Operations that python3-rados does not have.
lib = ctypes.CDLL("librados.so.2")
handle = ctypes.c_void_p()
lib.rados_create(ctypes.byref(handle), None)
lib.rados_conf_read_file(handle, sys.argv[1].encode())
lib.rados_connect(handle)
ctx = ctypes.c_void_p()
lib.rados_ioctx_create(handle, b"big", ctypes.byref(ctx))
lib.rados_write_full(ctx, b"o", b"0123456789abcdef" * 256, ctypes.c_size_t(4096))
out = ctypes.create_string_buffer(64)
seed = ctypes.c_uint32(0xffffffff)
print("checksum", lib.rados_checksum(ctx, b"o", 2, ctypes.byref(seed), ctypes.c_size_t(4), ctypes.c_size_t(4096), ctypes.c_uint64(0),
                                     ctypes.c_size_t(1024), out, ctypes.c_size_t(64)))
print("writesame", lib.rados_writesame(ctx, b"o", b"pattern!", ctypes.c_size_t(8), ctypes.c_size_t(64), ctypes.c_uint64(0)))
print("getxattrs", lib.rados_setxattr(ctx, b"o", b"n", b"v", ctypes.c_size_t(1)))
lib.rados_create_write_op.restype = ctypes.c_void_p
for op_code in (1, 3):
    op = ctypes.c_void_p(lib.rados_create_write_op())
    lib.rados_write_op_cmpxattr(op, b"n", ctypes.c_uint8(op_code), b"v", ctypes.c_size_t(1))
    lib.rados_write_op_assert_exists(op)
    lib.rados_write_op_set_alloc_hint2(op, ctypes.c_uint64(4096), ctypes.c_uint64(4096), ctypes.c_uint32(1))
    lib.rados_write_op_zero(op, ctypes.c_uint64(16), ctypes.c_uint64(16))
    print("cmpxattr", lib.rados_write_op_operate2(op, ctx, b"o", None, 0))
    lib.rados_release_write_op(op)
snap = ctypes.c_uint64()
print("snap", lib.rados_ioctx_selfmanaged_snap_create(ctx, ctypes.byref(snap)), snap.value)
snaps = (ctypes.c_uint64 * 1)(snap.value)
print(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(ctx, snap, snaps, 1))
lib.rados_write(ctx, b"o", b"after", ctypes.c_size_t(5), ctypes.c_uint64(0))
print("rollback", lib.rados_ioctx_selfmanaged_snap_rollback(ctx, b"o", snap))
print(lib.rados_ioctx_selfmanaged_snap_remove(ctx, snap))
lib.rados_shutdown(handle)
