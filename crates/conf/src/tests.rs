//! Texts, and what Ceph's own parser makes of them.

use crate::{Line, Wrong, lines, quoted, sections};
use proptest::prelude::*;
use std::process::Command;

/// Program of Ceph that looks an option up in a file.
const TOOL: &str = "ceph-conf";

/// Outcome of looking a name up in a text as `client.admin`, whose sections are `client.admin`, `client` and `global`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Value(&'static str),
    Nothing,
    /// The text cannot be read.
    Refused,
}

use Found::{Nothing, Refused, Value};

/// Texts behind a line `[global]`, the name that is looked up, and what `ceph-conf` of Ceph 16.2.15 finds.
const IN_GLOBAL: &[(&str, &str, Found)] = &[
    // Comments.
    ("k = 1\n", "k", Value("1")),
    ("k=1\n", "k", Value("1")),
    ("k =1 # c\n", "k", Value("1")),
    ("k = 1 ; c\n", "k", Value("1")),
    ("k=1;2\n", "k", Value("1")),
    ("k = a#b\n", "k", Value("a")),
    ("  # c\n ; k = 1\nk = 2\n", "k", Value("2")),
    ("k = # c\n", "k", Value("")),
    ("k = [x] # [y]\n", "k", Value("[x]")),
    ("# c \\\nk = 1\n", "k", Value("1")),
    ("k = 1 # c \\\nj = 2\n", "j", Value("2")),
    // Blanks.
    ("k =\n", "k", Value("")),
    ("k = \n j=1\n", "k", Value("")),
    ("k\t=\t1\n", "k", Value("1")),
    ("\tk = 1 2\t\t3  \n", "k", Value("1 2\t\t3")),
    ("k = 1\r\nj = 2\r\n", "k", Value("1")),
    ("\x0ck = a\x0c\n", "k", Value("a")),
    // Quotes.
    ("k = \"a b\"\n", "k", Value("a b")),
    ("k = 'a b'\n", "k", Value("a b")),
    ("k = \" a \"\n", "k", Value("a")),
    ("k = \"\"\n", "k", Value("")),
    ("k = \"\" # c\n", "k", Value("")),
    ("k = \"a\"#c\n", "k", Value("a")),
    ("k=\"a\" \t;c\n", "k", Value("a")),
    ("k = 'a\" b'\n", "k", Value("a\" b")),
    ("k = '\"'\n", "k", Value("\"")),
    ("k = a\"b\n", "k", Value("a\"b")),
    ("k = a'b'c\n", "k", Value("a'b'c")),
    ("k = it's # 'x'\n", "k", Value("it's")),
    ("k = \"a\tb\"\n", "k", Value("a\tb")),
    ("k = \"a\n", "k", Refused),
    ("k = \"\n", "k", Refused),
    ("k = \"a' \n", "k", Refused),
    ("k = \"a\" b\n", "k", Refused),
    ("k = \"a\"b\n", "k", Refused),
    ("k = 'a' 'b'\n", "k", Refused),
    ("k = \"a # b\" # c\n", "k", Refused),
    ("k = \"a;b\"\n", "k", Refused),
    ("k = 'a#b'\n", "k", Refused),
    // Backslashes.
    ("k = \"a \\# b\"\n", "k", Value("a # b")),
    ("k = \"a\\;b\"\n", "k", Value("a;b")),
    ("k = \"a\\\"b\"\n", "k", Value("a\"b")),
    ("k = \"a\\'b\"\n", "k", Value("a'b")),
    ("k = 'a\\'b'\n", "k", Value("a'b")),
    ("k = \"a\\\\\"\n", "k", Value("a\\")),
    ("k = \"a\\\\;b\"\n", "k", Refused),
    ("k = \"\\n\"\n", "k", Value("n")),
    ("k = a\\;b\n", "k", Value("a;b")),
    ("k = a\\#b ; c\n", "k", Value("a#b")),
    ("k=1\\;2;3\n", "k", Value("1;2")),
    ("k = \\# 1\n", "k", Value("# 1")),
    ("k = \\\"a\n", "k", Value("\"a")),
    ("k = a\\\\b\n", "k", Value("a\\b")),
    ("k = a\\nb\n", "k", Value("anb")),
    ("k = a\\x41\n", "k", Value("ax41")),
    ("k = a\\ \n", "k", Value("a")),
    ("k = \\ 1\\  x\n", "k", Value("1  x")),
    // Lines that go on.
    ("k = a \\\n b\n", "k", Value("a  b")),
    ("k = a \\\r\n b\n", "k", Value("a  b")),
    ("k = a\\\n  \\\n  b\n", "k", Value("a    b")),
    ("k = a\\\\\nj = 2\n", "k", Value("a\\")),
    ("k = a\\\\\nj = 2\n", "j", Value("2")),
    ("k = a\\\\\\\nj = 2\n", "k", Value("a\\j = 2")),
    ("k = 1 \\\n\n j = 2\n", "k", Value("1")),
    ("k = 1 \\\n\n j = 2\n", "j", Value("2")),
    ("k = a \\\n# b\nj=2\n", "k", Value("a")),
    ("k = 1 \\\n ; c\n", "k", Value("1")),
    ("k = a \\\n[client]\nj = 2\n", "k", Value("a [client]")),
    ("k = a \\ \n j = 3\n", "j", Value("3")),
    ("k = a \\ \n b\n", "k", Refused),
    ("k = \"a\"\\\n\n", "k", Value("a")),
    ("k\\\n = 1\n", "k", Value("1")),
    ("k =\\\n 1\n", "k", Value("1")),
    ("\\\nk = 1\n", "k", Value("1")),
    // Names.
    ("my key = 1\n", "my_key", Value("1")),
    ("my_key = 1\n", "my_key", Value("1")),
    ("my \t key = 1\n", "my_key", Value("1")),
    ("my__key = 1\n", "my_key", Nothing),
    ("my__key = 1\n", "my__key", Value("1")),
    ("my _ key = 1\n", "my_key", Nothing),
    ("my-key = 1\n", "my_key", Nothing),
    ("my-key = 1\n", "my-key", Value("1")),
    ("MY KEY = 1\n", "my_key", Nothing),
    ("MY KEY = 1\n", "MY_KEY", Value("1")),
    ("k.a = 1\n", "k.a", Value("1")),
    ("\"k\" = 1\n", "k", Nothing),
    ("k\\ a = 1\n", "k_a", Nothing),
    ("k[0] = 1\n", "k[0]", Refused),
    ("k;a = 1\n", "k", Refused),
    ("k#a = 1\n", "k", Refused),
    ("= 1\n", "k", Refused),
    ("word\n", "k", Refused),
    ("k : 1\n", "k", Refused),
    // Values of several lines.
    ("k = x = y\n", "k", Value("x = y")),
    ("k==1\n", "k", Value("=1")),
    ("k = 1\nk = 2\n", "k", Value("2")),
    ("my key=1\nmy_key=2\nmy key=3\n", "my_key", Value("3")),
    // Sections.
    ("k = 1\n[client]\nk = 2\n", "k", Value("2")),
    ("k = 1\n[global]\nk = 2\n", "k", Value("2")),
    ("k = 1\n[other section]\nk = 2\n", "k", Value("1")),
    ("[client.admin]\nk = 3\n[client]\nk = 4\n[client.admin]\nj = 1\n", "k", Value("3")),
    ("[client.admin]\nmy key = 7\n[global]\nmy_key = 8\n", "my_key", Value("7")),
    ("[osd]\nk = 3\n", "k", Nothing),
    ("[Client]\nk = 3\n", "k", Nothing),
    ("[client] # c\nk = 1\n", "k", Value("1")),
    ("[client] # c \\\nk = 1\n", "k", Value("1")),
    ("[client];c\nk = 1\n", "k", Value("1")),
    ("[client] \r\nk = 1\n", "k", Value("1")),
    ("[cli\\\nent]\nk = 1\n", "k", Value("1")),
    ("[client] x\nk = 1\n", "k", Refused),
    ("[client]]\nk = 1\n", "k", Refused),
    ("[[client]]\nk = 1\n", "k", Refused),
    ("[client\nk = 1\n", "k", Refused),
    ("[cli#ent]\nk = 1\n", "k", Refused),
    ("[cli;ent]\nk = 1\n", "k", Refused),
    ("[]\nk = 1\n", "k", Refused),
];

/// Whole texts that are read here, the value of `k`, and what `ceph-conf` finds.
const WIDER: &[(&str, &str, Found)] = &[
    ("k = 1\nj = 2\n[client]\n", "1", Refused),
    ("[global]\nk=1", "1", Refused),
    ("[global]\nk=1\\", "1", Refused),
    (" [global]\nk=1\n", "1", Refused),
    ("[ global ]\nk=1\n", "1", Nothing),
    ("[global]\nk = \"a\\\nb\"\n", "ab", Refused),
    ("[global]\nk = é\n", "é", Refused),
];

fn whole(text: &str) -> String {
    format!("[global]\n{text}")
}

fn found(text: &str, name: &str) -> Result<Option<String>, Wrong> {
    let sections = sections(text).map_err(|error| error.wrong)?;
    let of = |section: &str| sections.get(section)?.get(name).cloned();
    Ok(of("client.admin").or_else(|| of("client")).or_else(|| of("global")))
}

fn is(found: Result<Option<String>, Wrong>, expected: Found) -> bool {
    match expected {
        Value(value) => found == Ok(Some(value.to_owned())),
        Nothing => found == Ok(None),
        Refused => found.is_err(),
    }
}

#[test]
fn texts_are_read_as_by_ceph() {
    for (text, name, expected) in IN_GLOBAL {
        let found = found(&whole(text), name);
        assert!(is(found.clone(), *expected), "{text:?}, {name}: {found:?}, and not {expected:?}");
    }
    for (text, value, _) in WIDER {
        assert_eq!(found(text, "k"), Ok(Some((*value).to_owned())), "{text:?}");
    }
}

#[test]
fn ceph_conf_finds_what_the_table_says() {
    let is_there = Command::new(TOOL).arg("--version").output().is_ok();
    assert!(is_there || std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "{TOOL} is not installed");
    if !is_there {
        eprintln!("SKIPPED: no {TOOL}");
        return;
    }
    let path = std::env::temp_dir().join(format!("nacre-conf-{}", std::process::id()));
    let value = "/it's a #1; \"b\\c\"";
    let written = (whole(&format!("k = {}\n", quoted(value))), "k", Value(value));
    let texts = IN_GLOBAL.iter().map(|(text, name, expected)| (whole(text), *name, *expected));
    let wider = WIDER.iter().map(|(text, _, expected)| ((*text).to_owned(), "k", *expected));
    for (text, name, expected) in texts.chain(wider).chain([written]) {
        std::fs::write(&path, &text).unwrap();
        let output = Command::new(TOOL).arg("-c").arg(&path).args(["-n", "client.admin", "--lookup", name]).output();
        let output = output.unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let agrees = match expected {
            Value(value) => output.status.success() && found == format!("{value}\n"),
            Nothing => output.status.code() == Some(1) && told.is_empty(),
            // Ceph ends by a signal at characters beyond ASCII.
            Refused => !output.status.success() && !told.is_empty(),
        };
        assert!(agrees, "{text:?}, {name}: {found:?}, {told:?}, and not {expected:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let check = |text: &str, line, wrong| {
        let error = sections(text).unwrap_err();
        assert_eq!((error.line, error.wrong), (line, wrong), "{text:?}");
    };
    check("[global", 1, Wrong::NoBracket);
    check("[global]\nx\n", 2, Wrong::Form);
    check("\n = 1\n", 2, Wrong::NoName);
    check("[]\n", 1, Wrong::NoSectionName);
    check("[a] b\n", 1, Wrong::AfterSection);
    check("[a]\n\nk = 'b\n", 3, Wrong::Unclosed);
    check("k = a \\\n b\n\nj = \\\n'a' \\\nb\nx\n", 4, Wrong::AfterQuote);
    check("k = 'a # b'\n", 1, Wrong::CommentInQuotes);
    assert_eq!(sections("x\n").unwrap_err().to_string(), "line 1: neither '[section]' nor 'name = value'");
}

#[test]
fn lines_have_their_numbers_up_to_the_first_that_is_wrong() {
    let read: Vec<_> = lines("# c\n[a]\n\nk = 1 \\\n 2\nj = 3\nx\nk = 4\n").collect();
    let value = |name: &str, value: &str| Line::Value { name: name.to_owned(), value: value.to_owned() };
    let good: Vec<_> = read.iter().filter_map(|line| line.clone().ok()).collect();
    assert_eq!(good, [(2, Line::Section("a".to_owned())), (4, value("k", "1  2")), (6, value("j", "3"))]);
    assert_eq!(read[3].clone().unwrap_err().line, 7);
    assert_eq!(read.len(), 4);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z_ =\"'\\\\#;\\[\\]\r\n]{0,60}", any in any::<String>()) {
        let _ = sections(&text);
        let _ = sections(&any);
    }

    #[test]
    fn quoted_values_come_back(value in "([!-~]([ -~]{0,20}[!-~])?)?") {
        let text = format!("[a]\nk = {} # c\n", quoted(&value));
        prop_assert_eq!(&sections(&text).unwrap()["a"]["k"], &value);
    }

    /// A value with a backslash before each of its characters comes back whatever stands in it.
    #[test]
    fn escaped_values_come_back(value in "[!-~]([ -~]{0,12}[!-~])?", quote in prop::sample::select(vec!["", "\"", "'"])) {
        let escaped: String = value.chars().flat_map(|c| ['\\', c]).collect();
        let text = format!("[a]\nk = {quote}{escaped}{quote} # c\n");
        prop_assert_eq!(&sections(&text).unwrap()["a"]["k"], &value);
    }
}
