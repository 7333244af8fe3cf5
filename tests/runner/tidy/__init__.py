"""The rules of this repository that neither the compiler nor clippy holds; `docs/testing.md` lists them.

* `check`: start here. All rules over all tracked files, and the comparison with the baseline.
* `baseline`: `tests/tidy.toml`, how many violations each rule still allows, by file or crate.
* `rust`: a scanner of Rust source: comments, literals, braces, parts that only tests compile.
* `tree`: the tracked files, and which of them belong to a crate's production code.
* `lines`, `sizes`, `flow`, `casts`, `modules`, `names`, `packages`: the rules.
* `own_tests`: tests of the rules, which each run of the step begins with.
"""
