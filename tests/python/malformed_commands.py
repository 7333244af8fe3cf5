"""Commands that are no commands. Not for a real Ceph: some of these end its monitor (16.2.15)."""
import errno

from checks import check, main


@check
def malformed_commands_are_refused_with_a_sentence(io):
    for text in ["", "no json", "{}", "[]", "5", '{"prefix": 5}', '{"prefix": null}', '{"prefix": "osd pool create"}', '{"prefix": "osd out"}',
                 '{"prefix": ["osd", "out"]}', '{"prefix": "osd out", "ids": ["x"]}',
                 '{"prefix": "osd pool set", "pool": 1, "var": [], "val": {}}',
                 '{"prefix": "osd pool create", "pool": "x", "pg_num": "many"}', '{"prefix": "' + "x" * 100_000 + '"}', "[" * 100_000]:
        result, _, sentence = io.cluster.mon_command(text, b"")
        assert result == -errno.EINVAL, (text[:100], result)
        assert sentence, text[:100]


@check
def malformed_commands_to_an_osd(io):
    for text in ["", "no json", "[]", '{"prefix": 5}', "[" * 100_000]:
        result, _, sentence = io.cluster.osd_command(0, text, b"", timeout=60)
        assert result == -errno.EINVAL, (text[:100], result)
        assert sentence, text[:100]


if __name__ == "__main__":
    main()
