"""Tests of the rules: each finds what it is for, and passes over what looks like it."""

import unittest

from . import baseline, casts, flow, lines, modules, names, packages, sizes
from .exceptions import Exceptions
from .rust import Rust
from .tree import File, Tree

SOURCE = "crates/a/src/b.rs"


def found(look, text, path=SOURCE):
    """Lines on which a rule finds something in a file."""
    return [violation.line for violation in look(Tree([File(path, text)]))]


def in_files(look, files):
    return [(violation.path, violation.line) for violation in look(Tree([File(*file) for file in files.items()]))]


class Scanner(unittest.TestCase):
    def test_comments_and_literals_are_told_from_code(self):
        rust = Rust("let a = \"// no { comment\"; // one {\nlet b = r#\"a \" }\"#; /* two /* in { two */ } */ let c = '\"';")
        self.assertEqual([comment.lines for comment in rust.comments], [(" one {",), (" two /* in { two */ } ",)])
        self.assertNotIn("{", rust.code)
        self.assertIn("let c = ' ';", rust.code)

    def test_lifetimes_are_no_characters(self):
        rust = Rust("fn f<'a>(x: &'a str) -> &'a str { x } // end\n")
        self.assertEqual(rust.literals, [])
        self.assertEqual(len(rust.comments), 1)

    def test_lines_of_one_mark_are_one_comment(self):
        rust = Rust("//! a\n//! b\n\n/// c\n// d\nlet x; // e\n// f\n")
        self.assertEqual([comment.line for comment in rust.comments], [1, 4, 5, 6, 7])

    def test_parts_for_tests_are_left_out_of_production(self):
        text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c(\"}\") } }\nfn d() {}\n#[test]\nfn e() {}\n"
        self.assertEqual(Rust(text).production.split(), "fn a() {} fn d() {}".split())

    def test_files_for_tests_are_not_production(self):
        files = {
            "crates/a/src/lib.rs": "mod b;\n#[cfg(test)]\nmod c;\n",
            "crates/a/src/b.rs": "",
            "crates/a/src/c.rs": "mod d;\n",
            "crates/a/src/c/d.rs": "",
            "crates/a/tests/e.rs": "",
            "tests/src/f.rs": "",
        }
        tree = Tree([File(*file) for file in files.items()])
        self.assertEqual([file.path for file in tree.production], ["crates/a/src/lib.rs", "crates/a/src/b.rs"])


class Lines(unittest.TestCase):
    def test_code_and_comments_of_rust(self):
        text = f"{'a' * 80} + {'a' * 38};\n// {'b ' * 60}\n{'a ' * 59};\n"
        self.assertEqual(found(lines.long_lines, text), [1, 2])

    def test_long_literals_and_tables_in_comments_are_excused(self):
        self.assertEqual(found(lines.long_lines, f'say("{"b " * 90}");\n/// | {"b | " * 60}\n'), [])

    def test_code_beside_a_literal_counts(self):
        self.assertEqual(found(lines.long_lines, f'say("b", {"a, " * 60});\n'), [1])

    def test_docstrings_and_comments_of_python(self):
        text = f'def f():\n    """{"a " * 60}"""\n    say("{"b " * 90}")  # c\n    # {"d " * 60}\n'
        self.assertEqual(found(lines.long_lines, text, "a.py"), [2, 4])

    def test_prose_of_markdown(self):
        text = f"{'a ' * 61}\n| {'a ' * 61}\n```\n{'a ' * 61}\n```\n{'a ' * 61}\n{'a ' * 60}\n"
        self.assertEqual(found(lines.long_lines, text, "a.md"), [1, 6])

    def test_openers_of_comments(self):
        for opener in lines.OPENERS:
            self.assertEqual(found(lines.openers, f"/// {opener} it is.\nfn f() {{}}\n"), [1])
        text = "/// It is\n/// What it is.\nfn f() {} // Sorts\n//! Whoever\nlet a = \"// What\";\n    // Who\n"
        self.assertEqual(found(lines.openers, text), [6])

    def test_openers_in_python(self):
        text = '"""What"""\n\n# It\n# So\nx = 1  # Who\n# Those\n\n\ndef f():\n    """Whether"""\n    return "# So"\n'
        self.assertEqual(sorted(found(lines.openers, text, "a.py")), [1, 5, 6, 10])


class Sizes(unittest.TestCase):
    def test_files(self):
        self.assertEqual(found(sizes.files, "\n" * 800), [])
        self.assertEqual(found(sizes.files, "\n" * 801), [0])

    def test_functions_of_rust(self):
        body = "    f(\"}\");\n" * 98
        signature = "fn f<'a>(x: [u8; 4], y: &'a str) -> [u8; 2]\nwhere\n    A: B,\n{\n"
        self.assertEqual(found(sizes.functions, f"fn f() {{\n{body}}}\n"), [])
        self.assertEqual(found(sizes.functions, f"trait T {{\n    fn g();\n}}\n{signature}{body}}}\n"), [4])

    def test_functions_of_python(self):
        body = "    f()\n" * 99
        self.assertEqual(found(sizes.functions, f"def f():\n{body}", "a.py"), [])
        self.assertEqual(found(sizes.functions, f"async def f():\n{body}    f()\n", "a.py"), [1])


class Flow(unittest.TestCase):
    def test_texts_of_messages(self):
        for code in (
            'reason.contains("refused")',
            'error.to_string().starts_with("broken")',
            'x.read()?.contains("No such file")',
            'reason == "refused"',
        ):
            self.assertEqual(found(flow.by_message, f"fn f() {{ if {code} {{}} }}"), [1], code)

    def test_names_that_are_searched_are_no_messages(self):
        for code in ('name.starts_with("osd.")', 'text.strip_prefix("--")', 'list.contains("a")', 'state == "clean"'):
            self.assertEqual(found(flow.by_message, f"fn f() {{ if {code} {{}} }}"), [], code)

    def test_assertions_and_tests_are_passed_over(self):
        text = 'fn f() { assert!(reason.contains("refused")); }\n#[test]\nfn g() { if reason.contains("refused") {} }\n'
        self.assertEqual(found(flow.by_message, text), [])

    def test_questions_for_a_test(self):
        text = 'fn f() { cfg!(test) }\nfn g() { cfg!(any(unix, test)) }\nfn h() { cfg!(unix) } // cfg!(test)\n'
        self.assertEqual(found(flow.by_test, f"{text}#[cfg(test)]\nmod tests {{ fn i() {{ cfg!(test) }} }}\n"), [1, 2])


class Casts(unittest.TestCase):
    def check(self, expression, count):
        text = f"fn encode(&self) {{ w.put({expression}); }}\n"
        self.assertEqual(len(found(casts.casts, text)), count, expression)

    def test_operands_that_may_not_fit(self):
        for expression in ("a.len() as u32", "a as u8", "(a & b) as u8", "(x >> 8) as u16", "r.u64()? as usize"):
            self.check(expression, 1)

    def test_operands_that_fit(self):
        for expression in (
            "5 as u8",
            "0xff as u8",
            "WIDTH as u32",
            "Kind::Small as u8",
            "(x & 0xff) as u8",
            "x.min(WIDTH_MAX) as u16",
            "r.u32()? as usize",
            "x.count_ones() as u8",
            "b'a' as u32",
            "x as u64",
        ):
            self.check(expression, 0)

    def test_a_comment_can_argue(self):
        self.assertEqual(found(casts.casts, "fn decode() {\n    // A count fits: it is below 9.\n    n as u8\n}\n"), [])
        self.assertEqual(found(casts.casts, "fn decode() {\n    // A count.\n    n as u8\n}\n"), [3])

    def test_only_formats_are_looked_at(self):
        self.assertEqual(found(casts.casts, "fn f() { n as u8 }\n"), [])


class Modules(unittest.TestCase):
    def crate(self, **imports):
        """A crate of eight modules, with what each imports."""
        files = {f"crates/a/src/{name}.rs": "" for name in "bcdefgh"}
        files["crates/a/src/lib.rs"] = "use b::X;\n"
        files.update({f"crates/a/src/{name.replace('__', '/')}.rs": text for name, text in imports.items()})
        return [path.split("/src/")[1] for path, _ in in_files(modules.modules_in_circles, files)]

    def test_trees_of_imports(self):
        found = [path for _, path in modules.imports("use a::{b, c as d, e::{self, f}, g::*};\nuse h;\n")]
        self.assertEqual(found, [["a", "b"], ["a", "c"], ["a", "e"], ["a", "e", "f"], ["a", "g"], ["h"]])

    def test_circles_are_found(self):
        circle = self.crate(b="use crate::c::X;\n", c="use super::{d::Y, e};\n", d="use crate::b;\n")
        self.assertEqual(circle, ["b.rs", "c.rs", "d.rs"])

    def test_chains_faces_and_tests_are_no_circles(self):
        self.assertEqual(self.crate(b="use crate::c::X;\n", c="use super::d;\nuse crate::Y;\n"), [])
        self.assertEqual(self.crate(b="use self::c::X;\nuse c::X;\n", b__c="use super::Y;\n"), [])
        self.assertEqual(self.crate(b="use crate::c::X;\n", c="#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}\n"), [])

    def test_small_crates_are_left_alone(self):
        files = {"crates/a/src/b.rs": "use crate::c::X;", "crates/a/src/c.rs": "use crate::b::X;"}
        self.assertEqual(in_files(modules.modules_in_circles, files), [])


class Names(unittest.TestCase):
    def test_second_types_of_a_name_are_found(self):
        files = {
            "crates/a/src/b.rs": "pub struct One;\nenum Two { One }\nmod inner {\n    trait Two {}\n}\n",
            "crates/a/src/c.rs": "type One = u8;\n",
            "crates/d/src/b.rs": "struct One;\n",
        }
        self.assertEqual(in_files(names.repeated, files), [("crates/a/src/c.rs", 1), ("crates/a/src/b.rs", 4)])

    def test_types_inside_items_are_left_out(self):
        text = "impl A for B {\n    type One = u8;\n}\nfn f() {\n    struct One;\n}\nstruct One;\n#[test]\nfn g() { struct One; }\n"
        self.assertEqual(found(names.repeated, text), [])


POLICY = {"licenses": {"allow": ["MIT", "Zlib", "A WITH e"]}, "bans": {"skip": [{"crate": "old@2", "reason": "r"}]}}
REGISTRY = f"registry+x{packages.REGISTRY}"


class Packages(unittest.TestCase):
    def check(self, *packages_, **fields):
        """Sentences on a package with these fields, or on packages with these names and versions."""
        usual = {"license": "MIT", "source": REGISTRY, "manifest_path": "/away/a/Cargo.toml", "dependencies": []}
        all_ = [{**usual, "name": name, "version": version} for name, version in packages_ or [("a", "1.0.0")]]
        all_[0].update(fields)
        return [violation.says for violation in packages.wrong(all_, POLICY, "/here")]

    def test_expressions_of_licences(self):
        for expression in ("MIT", "GPL OR MIT", "GPL/MIT", "(GPL OR MIT) AND Zlib", "A WITH e", "GPL AND x OR Zlib"):
            self.assertEqual(self.check(license=expression), [], expression)
        for expression in (None, "", "GPL", "MIT AND GPL", "(MIT OR x) AND GPL", "A", "A WITH f", "MIT OR", "(MIT", "MIT)"):
            self.assertEqual(len(self.check(license=expression)), 1, expression)

    def test_sources(self):
        self.assertEqual(self.check(source=None, manifest_path="/here/crates/a/Cargo.toml"), [])
        self.assertEqual(len(self.check(source=None)), 1)
        self.assertEqual(len(self.check(source="registry+other")), 1)
        self.assertEqual(len(self.check(source=f"git+x{packages.REGISTRY}")), 1)

    def test_versions(self):
        self.assertEqual(self.check(("a", "1.0.0"), ("b", "2.0.0"), ("old", "2.1.0"), ("old", "3.0.0")), [])
        self.assertEqual(self.check(("a", "1.0.0"), ("a", "1.1.0")), ["a has the versions 1.0.0 and 1.1.0"])
        self.assertEqual(len(self.check(("old", "20.1.0"), ("old", "3.0.0"))), 1)
        any_ = [{"name": "b", "req": "*", "source": REGISTRY}]
        self.assertEqual(len(self.check(source=None, manifest_path="/here/Cargo.toml", dependencies=any_)), 1)


class Ratchet(unittest.TestCase):
    def test_counts_that_grow_and_fall_are_told(self):
        allowed = {"crates/a/src/b.rs": 2, "crates/a/src/c.rs": 1}
        today = {"crates/a/src/b.rs": 3, "crates/a/src/d.rs": 1}
        self.assertEqual(baseline.grown(today, allowed), {"crates/a/src/b.rs": 3, "crates/a/src/d.rs": 1})
        self.assertEqual(baseline.fallen(today, allowed), {"crates/a/src/c.rs": 1})

    def test_lowering_never_raises(self):
        allowed = {"crates/a/src/b.rs": 2, "crates/b/src/c.rs": 5}
        kept, refused = baseline.lowered({"crates/a/src/b.rs": 3, "crates/b/src/c.rs": 1}, allowed)
        self.assertEqual((kept, refused), ({"crates/a/src/b.rs": 2, "crates/b/src/c.rs": 1}, {"crates/a/src/b.rs": 3}))

    def test_a_file_may_be_divided_within_its_crate(self):
        allowed = {"crates/a/src/b.rs": 2}
        kept, refused = baseline.lowered({"crates/a/src/c.rs": 1, "crates/a/src/d.rs": 1}, allowed)
        self.assertEqual((kept, refused), ({"crates/a/src/c.rs": 1, "crates/a/src/d.rs": 1}, {}))
        self.assertTrue(baseline.lowered({"crates/b/src/c.rs": 1}, allowed)[1])

    def test_a_new_rule_takes_what_there_is(self):
        self.assertEqual(baseline.lowered({"a.rs": 3}, None), ({"a.rs": 3}, {}))
        self.assertTrue(baseline.lowered({"a.rs": 3}, {})[1])

    def test_exceptions_excuse_and_are_named_if_they_do_not(self):
        entry = {"rule": "openers", "path": SOURCE, "says": "'Who'", "reason": "a name"}
        exceptions = Exceptions([entry])
        violation = next(lines.openers(Tree([File(SOURCE, "// Who\n")])))
        self.assertFalse(exceptions.excuse("columns", violation))
        self.assertEqual(len(list(exceptions.unused())), 1)
        self.assertTrue(exceptions.excuse("openers", violation))
        self.assertEqual(list(exceptions.unused()), [])
