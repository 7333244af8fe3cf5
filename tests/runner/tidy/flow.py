"""Control flow that must not be: by the text of messages, and by whether a test runs."""

import re

from .rule import Rule, in_file

# Last names of values that hold text made for people.
MESSAGES = "reason|error|err|errors|why|said|says|message|msg|status|output|stdout|stderr|text|words|panic|cause|detail"
SEARCH = re.compile(r"\.(?:contains|starts_with|ends_with|strip_prefix|strip_suffix|find)\(\s*\"")
RECEIVER = re.compile(r"(\w+)(?:\.(?:to_string|as_str|to_lowercase|trim|as_ref)\(\))*\s*$")
EQUALITY = re.compile(r"\b(?:reason|error|err|why|said|says|message|msg|stdout|stderr|panic|cause)(?:\.as_str\(\))?\s*[=!]=\s*\"")
# Texts of several words, in which something is looked for, are sentences; a message may hold a single word.
SENTENCE = re.compile(r"[A-Za-z]{2,}[^\"]* [^\"]*[A-Za-z]{2,}|[A-Za-z]{3,}: ")
WORD = re.compile(r"[A-Za-z]{4,}")
QUESTION = re.compile(r"\bcfg!\s*\([^;{}]*?\btest\b")
ASSERTION = re.compile(r"\b(?:debug_)?assert(?:_eq|_ne)?!\s*\(")


def by_message(tree):
    for file in tree.production:
        rust = file.rust
        asserted = [(found.start(), rust.closing(found.end() - 1)) for found in ASSERTION.finditer(rust.production)]
        found = [(one, is_search_of_message) for one in SEARCH.finditer(rust.production)]
        found += [(one, lambda *_: True) for one in EQUALITY.finditer(rust.production)]
        for one, is_by_message in found:
            literal = rust.text[one.end() : rust.code.index('"', one.end())]
            is_asserted = any(start <= one.start() < end for start, end in asserted)
            if not is_asserted and is_by_message(rust.production[max(0, one.start() - 80) : one.start()], literal):
                yield in_file(file, rust.line_of(one.end()), f"a decision by the text `{literal}`")


def is_search_of_message(before, literal):
    """Tells by the name of what is searched and by what is looked for in it."""
    receiver = RECEIVER.search(before)
    is_message = receiver is not None and re.fullmatch(MESSAGES, receiver[1])
    return bool(SENTENCE.search(literal) or (is_message and WORD.search(literal)))


def by_test(tree):
    for file in tree.production:
        for found in QUESTION.finditer(file.rust.production):
            yield in_file(file, file.rust.line_of(found.start()), "production code asks whether a test runs")


RULES = [
    Rule("message-flow", by_message, "let the value that is decided by have a type: a variant of an enum, an errno"),
    Rule("cfg-test", by_test, "pass the difference in as a setting that the test chooses"),
]
