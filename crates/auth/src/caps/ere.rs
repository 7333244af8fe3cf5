//! Extended regular expressions of POSIX, matched against whole texts.
//!
//! The time of a match is at most the product of the lengths of text and expression.

/// Longest program. Counted repetitions multiply.
const INSTRUCTIONS_MAX: usize = 20_000;
/// Deepest nesting of groups.
const DEPTH_MAX: usize = 50;

/// A regular expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ere(Vec<Instruction>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Instruction {
    One(Set),
    /// Goes on at both places.
    Fork(usize, usize),
    Begin,
    End,
    Found,
}

/// A set of characters.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Set {
    except: bool,
    ranges: Vec<(char, char)>,
    classes: Vec<fn(&char) -> bool>,
}

impl Set {
    fn contains(&self, c: char) -> bool {
        let inside = self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
        (inside || self.classes.iter().any(|class| class(&c))) != self.except
    }
}

/// An expression, taken apart.
#[derive(Clone)]
enum Node {
    Empty,
    One(Set),
    Begin,
    End,
    All(Vec<Node>),
    Either(Box<Node>, Box<Node>),
    Times(Box<Node>, usize, Option<usize>),
}

impl Ere {
    /// Reads an expression; `None` if it is none, or too long.
    pub fn new(text: &str) -> Option<Ere> {
        let mut parser = Parser { rest: text.chars().peekable(), depth: 0 };
        let node = parser.either()?;
        if parser.rest.next().is_some() {
            return None;
        }
        let mut steps = Vec::new();
        emit(&node, &mut steps)?;
        steps.push(Instruction::Found);
        Some(Ere(steps))
    }

    /// True if the expression matches the whole of `text`.
    pub fn is_match(&self, text: &str) -> bool {
        let mut at = vec![0];
        let mut chars = text.chars();
        let mut begin = true;
        loop {
            let next = chars.next();
            let here = self.reached(&at, begin, next.is_none());
            let Some(c) = next else {
                return here.iter().any(|step| self.0[*step] == Instruction::Found);
            };
            at = here
                .into_iter()
                .filter(|step| matches!(&self.0[*step], Instruction::One(set) if set.contains(c)))
                .map(|step| step + 1)
                .collect();
            begin = false;
        }
    }

    /// All steps that are reached without reading a character.
    fn reached(&self, from: &[usize], begin: bool, end: bool) -> Vec<usize> {
        let mut seen = vec![false; self.0.len()];
        let (mut todo, mut out) = (from.to_vec(), Vec::new());
        while let Some(step) = todo.pop() {
            if std::mem::replace(&mut seen[step], true) {
                continue;
            }
            match &self.0[step] {
                Instruction::Fork(one, other) => todo.extend([*one, *other]),
                Instruction::Begin if begin => todo.push(step + 1),
                Instruction::End if end => todo.push(step + 1),
                Instruction::Begin | Instruction::End => {}
                Instruction::One(_) | Instruction::Found => out.push(step),
            }
        }
        out
    }
}

/// Appends the steps of an expression; `None` if they become too many.
fn emit(node: &Node, steps: &mut Vec<Instruction>) -> Option<()> {
    if steps.len() > INSTRUCTIONS_MAX {
        return None;
    }
    match node {
        Node::Empty => {}
        Node::One(set) => steps.push(Instruction::One(set.clone())),
        Node::Begin => steps.push(Instruction::Begin),
        Node::End => steps.push(Instruction::End),
        Node::All(nodes) => nodes.iter().try_for_each(|node| emit(node, steps))?,
        Node::Either(one, other) => {
            let fork = steps.len();
            steps.push(Instruction::Found);
            emit(one, steps)?;
            let jump = steps.len();
            steps.push(Instruction::Found);
            emit(other, steps)?;
            steps[fork] = Instruction::Fork(fork + 1, jump + 1);
            steps[jump] = Instruction::Fork(steps.len(), steps.len());
        }
        Node::Times(node, least, most) => {
            for _ in 0..*least {
                let before = steps.len();
                emit(node, steps)?;
                if steps.len() == before {
                    // An expression of no steps stays one, however often it is repeated.
                    return Some(());
                }
            }
            match most {
                None => {
                    let fork = steps.len();
                    steps.push(Instruction::Found);
                    emit(node, steps)?;
                    steps.push(Instruction::Fork(fork, fork));
                    steps[fork] = Instruction::Fork(fork + 1, steps.len());
                }
                Some(most) => {
                    let mut forks = Vec::new();
                    for _ in *least..*most {
                        forks.push(steps.len());
                        steps.push(Instruction::Found);
                        emit(node, steps)?;
                    }
                    let end = steps.len();
                    forks.into_iter().for_each(|fork| steps[fork] = Instruction::Fork(fork + 1, end));
                }
            }
        }
    }
    Some(())
}

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }

    fn either(&mut self) -> Option<Node> {
        let mut node = self.all()?;
        while self.eat('|') {
            node = Node::Either(Box::new(node), Box::new(self.all()?));
        }
        Some(node)
    }

    fn all(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while self.rest.peek().is_some_and(|c| !['|', ')'].contains(c)) {
            let atom = self.atom()?;
            nodes.push(self.repeated(atom)?);
        }
        Some(if nodes.is_empty() { Node::Empty } else { Node::All(nodes) })
    }

    fn atom(&mut self) -> Option<Node> {
        let literal = |c| Node::One(Set { except: false, ranges: vec![(c, c)], classes: Vec::new() });
        match self.rest.next()? {
            '(' => {
                self.depth += 1;
                let node = if self.depth > DEPTH_MAX { None } else { self.either() }?;
                self.depth -= 1;
                self.eat(')').then_some(node)
            }
            '[' => self.set().map(Node::One),
            '.' => Some(Node::One(Set { except: true, ranges: Vec::new(), classes: Vec::new() })),
            '^' => Some(Node::Begin),
            '$' => Some(Node::End),
            '\\' => self.rest.next().map(literal),
            '*' | '+' | '?' | '{' => None,
            c => Some(literal(c)),
        }
    }

    fn repeated(&mut self, mut node: Node) -> Option<Node> {
        loop {
            let (least, most) = match self.rest.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.rest.next();
                    let bounds = self.bounds()?;
                    if self.rest.peek() != Some(&'}') {
                        return None;
                    }
                    bounds
                }
                _ => return Some(node),
            };
            self.rest.next();
            node = Node::Times(Box::new(node), least, most);
        }
    }

    /// Reads `m`, `m,` or `m,n`.
    fn bounds(&mut self) -> Option<(usize, Option<usize>)> {
        let least = self.number()?;
        if !self.eat(',') {
            return Some((least, Some(least)));
        }
        if self.rest.peek() == Some(&'}') {
            return Some((least, None));
        }
        let most = self.number()?;
        (most >= least).then_some((least, Some(most)))
    }

    fn number(&mut self) -> Option<usize> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok().filter(|n| *n <= INSTRUCTIONS_MAX)
    }

    /// Reads a set, behind its `[`. A backslash is a character like others there.
    fn set(&mut self) -> Option<Set> {
        let mut set = Set { except: self.eat('^'), ranges: Vec::new(), classes: Vec::new() };
        let mut begun = false;
        loop {
            let first = match self.rest.next()? {
                ']' if begun => return Some(set),
                '[' if self.eat(':') => {
                    set.classes.push(self.class()?);
                    begun = true;
                    continue;
                }
                '[' if matches!(self.rest.peek(), Some('.' | '=')) => return None,
                c => c,
            };
            begun = true;
            let mut ahead = self.rest.clone();
            let last = match (ahead.next(), ahead.next()) {
                (Some('-'), Some(last)) if last != ']' => {
                    self.rest = ahead;
                    last
                }
                _ => first,
            };
            if first > last {
                return None;
            }
            set.ranges.push((first, last));
        }
    }

    /// Reads the name of a class, behind its `[:`.
    fn class(&mut self) -> Option<fn(&char) -> bool> {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(char::is_ascii_lowercase) {
            name.push(c);
        }
        if !(self.eat(':') && self.eat(']')) {
            return None;
        }
        Some(match name.as_str() {
            "alnum" => char::is_ascii_alphanumeric,
            "alpha" => char::is_ascii_alphabetic,
            "blank" => |c| [' ', '\t'].contains(c),
            "cntrl" => char::is_ascii_control,
            "digit" => char::is_ascii_digit,
            "graph" => char::is_ascii_graphic,
            "lower" => char::is_ascii_lowercase,
            "print" => |c| c.is_ascii_graphic() || *c == ' ',
            "punct" => char::is_ascii_punctuation,
            "space" => |c| c.is_ascii_whitespace() || *c == '\x0b',
            "upper" => char::is_ascii_uppercase,
            "xdigit" => char::is_ascii_hexdigit,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_texts_match() {
        let check = |ere: &str, text: &str, expect: bool| {
            assert_eq!(Ere::new(ere).unwrap().is_match(text), expect, "'{ere}' on '{text}'");
        };
        check("", "", true);
        check("", "a", false);
        check("abc", "abc", true);
        check("abc", "abcd", false);
        check("b", "abc", false);
        check("a|bc", "bc", true);
        check("a|", "", true);
        check("(ab)+", "abab", true);
        check("(ab)*c?", "", true);
        check("a{2}", "aa", true);
        check("a{2}", "aaa", false);
        check("a{1,3}", "aaa", true);
        check("a{2,}", "aaaaa", true);
        check("^a$", "a", true);
        check("(^a|b)$", "a", true);
        check("a^b", "ab", false);
        check("[^/]+/[0-9]+", "1.2.3.4:0/77", true);
        check("[^/]+/[0-9]+", "a/b/7", false);
        check("[]a]", "]", true);
        check("[a-]", "-", true);
        check("[\\.]", "\\", true);
        check("1\\.2", "1.2", true);
        check("1\\.2", "1x2", false);
        check("1.2", "1x2", true);
        check("[[:digit:].]{7}", "1.2.3.4", true);
        check("(a*)*", "aaaa", true);
        check("(a|a)*b", &"a".repeat(3000), false);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["(", ")", "a)", "*a", "a{", "a{2", "a{3,2}", "[", "[a", "[b-a]", "[[:word:]]", "\\", "+", "a|*"] {
            assert_eq!(Ere::new(text), None, "{text}");
        }
        assert_eq!(Ere::new("((a{999}){999}){999}"), None);
        assert!(Ere::new("((((){999}){999}){999}){999}").unwrap().is_match(""));
        assert_eq!(Ere::new(&"(".repeat(100_000)), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(ere in "[ab.*+?(){},0-9\\[\\]^$|\\\\:-]{0,16}", text in "[ab0]{0,8}") {
            if let Some(ere) = Ere::new(&ere) {
                let _ = ere.is_match(&text);
            }
        }
    }
}
