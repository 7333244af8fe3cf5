"""`docs/testing.md`, parts of which the runner makes."""

from .programs import ROOT

PAGE = ROOT / "docs" / "testing.md"


def put(name, text):
    """Replaces what stands between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = PAGE.read_text()
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise SystemExit(f"{PAGE} lacks the lines '{begin}' and '{end}'")
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
