"""Runs the checks and tests of this repository; `tests/run` is its command line, `docs/testing.md` its page."""
