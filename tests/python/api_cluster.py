"""Pools, numbers and commands through librados."""
import errno
import json
import time

import rados
from checks import check, fails_with, main, same


def command(cluster, **fields):
    result, out, text = cluster.mon_command(json.dumps(fields), b"")
    same(result, 0)
    return out


@check
def pools_come_and_go(io):
    cluster = io.cluster
    for name in ["api-made", "api with blank", "api-ü"]:
        if cluster.pool_exists(name):
            cluster.delete_pool(name)
        cluster.create_pool(name)
        assert cluster.pool_exists(name) and name in cluster.list_pools()
        number = cluster.pool_lookup(name)
        same(cluster.pool_reverse_lookup(number), name)
        new = cluster.open_ioctx(name)
        new.write_full("o", b"x")
        same(new.read("o"), b"x")
        new.close()
        cluster.delete_pool(name)
        assert not cluster.pool_exists(name)
        fails_with(errno.ENOENT, cluster.open_ioctx, name)
        fails_with(errno.ENOENT, cluster.delete_pool, name)
    fails_with(errno.EEXIST, cluster.create_pool, io.get_pool_name())


@check
def a_pool_made_again_is_empty(io):
    cluster = io.cluster
    numbers = set()
    for _ in range(3):
        cluster.create_pool("api-again")
        again = cluster.open_ioctx("api-again")
        same([o.key for o in again.list_objects()], [])
        again.write_full("o", b"x")
        numbers.add(again.get_pool_id())
        again.close()
        cluster.delete_pool("api-again")
    same(len(numbers), 3)


@check
def io_to_a_removed_pool_fails(io):
    cluster = io.cluster
    cluster.create_pool("api-doomed")
    doomed = cluster.open_ioctx("api-doomed")
    doomed.write_full("o", b"x")
    cluster.delete_pool("api-doomed")
    cluster.wait_for_latest_osdmap()
    fails_with(errno.ENOENT, doomed.write_full, "o", b"y")
    fails_with(errno.ENOENT, doomed.read, "o")


@check
def the_cluster_has_an_identity(io):
    fsid = io.cluster.get_fsid()
    same(len(fsid), 36)
    same(json.loads(command(io.cluster, prefix="fsid", format="json"))["fsid"], fsid)
    assert io.cluster.get_instance_id() > 0
    assert io.cluster.get_addrs()


@check
def clients_have_their_own_numbers(io):
    other = rados.Rados(conffile="")
    other.connect()
    assert other.get_instance_id() != io.cluster.get_instance_id()
    other.shutdown()


@check
def statistics_follow(io):
    """Within a few report intervals."""
    before = io.cluster.get_cluster_stats()
    same(set(before), {"kb", "kb_used", "kb_avail", "num_objects"})
    assert 0 < before["kb_avail"] <= before["kb"], before
    objects = sum(1 for _ in io.list_objects())
    for i in range(10):
        io.write_full(f"stats-{i}", b"x" * 100_000)
    end = time.monotonic() + 120
    while io.get_stats()["num_objects"] != objects + 10:
        assert time.monotonic() < end, (objects, io.get_stats())
        time.sleep(0.5)
    assert io.get_stats()["num_bytes"] >= 1_000_000
    for i in range(10):
        io.remove_object(f"stats-{i}")


@check
def monitors_answer_commands(io):
    status = json.loads(command(io.cluster, prefix="status", format="json"))
    same(status["fsid"], io.cluster.get_fsid())
    assert status["osdmap"]["num_up_osds"] >= 3
    dump = json.loads(command(io.cluster, prefix="osd dump", format="json"))
    assert any(pool["pool_name"] == io.get_pool_name() for pool in dump["pools"])
    where = json.loads(command(io.cluster, prefix="osd map", pool=io.get_pool_name(), object="o", format="json"))
    assert where["acting_primary"] in where["acting"] and len(where["acting"]) >= 2, where


@check
def bad_commands_are_refused_with_a_sentence(io):
    for text in ['{"prefix": "no such command"}', '{"prefix": "osd pool get", "pool": "no-such-pool", "var": "size"}']:
        result, out, sentence = io.cluster.mon_command(text, b"")
        assert result in (-errno.EINVAL, -errno.ENOENT), (text, result)
        assert sentence, text


@check
def osds_answer_commands(io):
    for osd in range(3):
        result, out, _ = io.cluster.osd_command(osd, json.dumps({"prefix": "version", "format": "json"}), b"", timeout=60)
        same(result, 0)
        assert json.loads(out)["version"], out
    result, _, sentence = io.cluster.osd_command(0, json.dumps({"prefix": "no such command"}), b"", timeout=60)
    assert result < 0, (result, sentence)


@check
def applications_of_a_pool(io):
    io.application_metadata_set("test", "key", "value")
    assert "test" in io.application_list()
    io.cluster.wait_for_latest_osdmap()
    same(io.application_metadata_get("test", "key"), "value")
    same(dict(io.application_metadata_list("test")).get("key"), "value")
    io.application_metadata_remove("test", "key")
    io.cluster.wait_for_latest_osdmap()
    same(dict(io.application_metadata_list("test")).get("key"), None)


@check
def configuration_keys(io):
    command(io.cluster, prefix="config-key set", key="api/test", val="a value")
    same(command(io.cluster, prefix="config-key get", key="api/test"), b"a value")
    command(io.cluster, prefix="config-key rm", key="api/test")
    result, _, _ = io.cluster.mon_command(json.dumps({"prefix": "config-key get", "key": "api/test"}), b"")
    same(result, -errno.ENOENT)


if __name__ == "__main__":
    main()
