"""A scanner of Rust source: it knows comments, literals and braces, and no more of the language than that."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

# Comments and literals. Lifetimes ('a) are no characters: those end with a quote.
LEXEME = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*)
    |(?<![A-Za-z0-9_])(?:b|c)?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
    |"(?P<text>(?:\\.|[^"\\])*)"
    |'(?P<char>\\(?:u\{[0-9A-Fa-f_]+\}|x[0-9A-Fa-f]{2}|.)|[^\\'\n])'""",
    re.DOTALL | re.VERBOSE,
)
BLOCK_EDGE = re.compile(r"/\*|\*/")
ITEM_EDGE = re.compile(r"[{;()\[\],}]")
BRACKETS = {"{": re.compile(r"[{}]"), "(": re.compile(r"[()]"), "[": re.compile(r"[\[\]]")}
TEST_ATTRIBUTE = re.compile(r"#\[\s*(?:cfg\(\s*(?:all\(\s*|any\(\s*)?test\b[^\]]*|(?:\w+::)*test\b[^\]]*)\]")
MODULE_ITEM = re.compile(r"(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")
PATH_ATTRIBUTE = re.compile(r'#\[path\s*=\s*"([^"]+)"\]')


@dataclass(frozen=True)
class Comment:
    """Lines of one comment, without their marks. `line`: number of the first, from 1. `is_alone`: no code before it."""

    line: int
    mark: str
    lines: tuple
    is_alone: bool


class Rust:
    """One file. `code`: its text with spaces in place of comments and of what literals hold, position by position."""

    def __init__(self, text):
        self.text = text
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.single_comments, self.literals = [], []
        self.code = self._blanked()

    def _blanked(self):
        parts, at = [], 0
        while found := LEXEME.search(self.text, at):
            kind = found.lastgroup
            start, end = found.start(), found.end()
            if kind == "block":
                end = self._block_end(found.end())
            if kind in ("line", "block"):
                self.single_comments.append((start, end))
                hidden = (start, end)
            else:
                kind = next(name for name in ("raw", "text", "char") if found[name] is not None)
                hidden = found.span(kind)
                self.literals.append((kind, *hidden))
            parts.append(self.text[at : hidden[0]])
            parts.append(re.sub(r"[^\n]", " ", self.text[hidden[0] : hidden[1]]))
            parts.append(self.text[hidden[1] : end])
            at = end
        parts.append(self.text[at:])
        return "".join(parts)

    def _block_end(self, at):
        """The end of a block comment whose text begins at `at`; block comments nest."""
        depth = 1
        while depth and (edge := BLOCK_EDGE.search(self.text, at)):
            depth += 1 if edge[0] == "/*" else -1
            at = edge.end()
        return at if depth == 0 else len(self.text)

    def line_of(self, position):
        return bisect_right(self.starts, position)

    @cached_property
    def comments(self):
        """Comments in their order; lines with one mark that follow each other are one comment."""
        found = []
        for start, end in self.single_comments:
            text, line = self.text[start:end], self.line_of(start)
            mark = next(mark for mark in ("///", "//!", "//", "/*") if text.startswith(mark))
            body = text[len(mark) :].removesuffix("*/").split("\n")
            is_alone = not self.text[self.starts[line - 1] : start].strip()
            last = found[-1] if found else None
            follows = last and is_alone and last.is_alone and last.line + len(last.lines) == line
            if follows and mark == last.mark != "/*":
                found[-1] = Comment(last.line, mark, (*last.lines, *body), True)
            else:
                found.append(Comment(line, mark, tuple(body), is_alone))
        return found

    def closing(self, opening):
        """The position of the bracket that closes the one at `opening`, or the end of the text."""
        bracket, depth = self.code[opening], 0
        for edge in BRACKETS[bracket].finditer(self.code, opening):
            depth += 1 if edge[0] == bracket else -1
            if depth == 0:
                return edge.start()
        return len(self.code) - 1

    def item_end(self, at):
        """The end of the item that begins at `at`: its closing brace, or a semicolon before any brace."""
        depth = 0
        for edge in ITEM_EDGE.finditer(self.code, at):
            position, what = edge.start(), edge[0]
            if what in "([":
                depth += 1
            elif what in ")]":
                depth -= 1
                if depth < 0:
                    return position
            elif depth == 0 and what == "{":
                return self.closing(position) + 1
            elif depth == 0 and what in ";,}":
                return position + 1
        return len(self.code)

    @cached_property
    def test_parts(self):
        """Spans of what only tests compile: items behind `#[cfg(test)]` or `#[test]`."""
        if re.search(r"#!\[cfg\(test\)\]", self.code):
            return [(0, len(self.text))]
        spans = []
        for found in TEST_ATTRIBUTE.finditer(self.code):
            if not spans or found.start() >= spans[-1][1]:
                spans.append((found.start(), self.item_end(found.end())))
        return spans

    def is_test(self, position):
        return any(start <= position < end for start, end in self.test_parts)

    @cached_property
    def production(self):
        """`code` with spaces in place of what only tests compile."""
        code = self.code
        for start, end in self.test_parts:
            code = code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]
        return code

    @cached_property
    def module_files(self):
        """Modules with files of their own: name, the path that an attribute names if any, whether only for tests."""
        found = []
        for item in MODULE_ITEM.finditer(self.code):
            if item[2] == ";":
                path = PATH_ATTRIBUTE.search(self.text[item.start() : item.end()])
                found.append((item[1], path and path[1], self.is_test(item.start(1))))
        return found

    @cached_property
    def functions(self):
        """Functions with a body: name, first and last line."""
        found = []
        for head in re.finditer(r"\bfn\s+(\w+)", self.code):
            end = self._body(head.end())
            if end is not None:
                found.append((head[1], self.line_of(head.start()), self.line_of(end)))
        return found

    def _body(self, at):
        """The closing brace of the body of a function, or none if it has no body."""
        depth = 0
        for edge in ITEM_EDGE.finditer(self.code, at):
            position = edge.start()
            if edge[0] in "([":
                depth += 1
            elif edge[0] in ")]":
                depth -= 1
            elif depth == 0 and edge[0] in "{;":
                return self.closing(position) if edge[0] == "{" else None
        return None
