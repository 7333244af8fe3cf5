//! Patterns with wildcards and variables.

use crate::policy::context::Context;

/// Text with wildcards (`*`, `?`) and variables (`${key}`, `${key, 'default'}`).
///
/// The value of a variable stands for itself: a `*` in it is no wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `?`: one character.
    One,
    /// `*`: any number of characters.
    Many,
    Variable {
        key: String,
        default: Option<String>,
    },
}

/// Element of a pattern whose variables have been replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Character(char),
    One,
    Many,
}

/// Syntax that a text may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syntax {
    pub wildcards: bool,
    /// Variables exist since version 2012-10-17 of the language; before, their text stands for itself.
    pub variables: bool,
}

impl Pattern {
    /// Reads a pattern. Errors: the text of a variable that is not written as one.
    pub fn parse(text: &str, syntax: Syntax) -> Result<Pattern, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let special = match character {
                '*' if syntax.wildcards => Some((Part::Many, 1)),
                '?' if syntax.wildcards => Some((Part::One, 1)),
                '$' if syntax.variables && rest.starts_with("${") => {
                    let end = rest.find('}').ok_or_else(|| rest.to_owned())?;
                    Some((variable(&rest[2..end]).ok_or_else(|| rest[..=end].to_owned())?, end + 1))
                }
                _ => None,
            };
            let length = match special {
                Some((Part::Text(text), length)) => {
                    literal.push_str(&text);
                    length
                }
                Some((part, length)) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(part);
                    length
                }
                None => {
                    literal.push(character);
                    character.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Pattern { parts })
    }

    /// True if the pattern fits all of `text`. One with a variable that has neither value nor default fits nothing.
    pub fn fits(&self, text: &str, context: &Context) -> bool {
        self.tokens(context).is_some_and(|tokens| glob(&tokens, text, false))
    }

    /// As [`Pattern::fits`]; letters in either case are equal.
    pub fn fits_ignoring_case(&self, text: &str, context: &Context) -> bool {
        self.tokens(context).is_some_and(|tokens| glob(&tokens, text, true))
    }

    /// True if every variable has a value or a default.
    pub fn is_resolved(&self, context: &Context) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Variable { key, default } => default.is_some() || context.single(key).is_some(),
            Part::Text(_) | Part::One | Part::Many => true,
        })
    }

    /// True without wildcards and variables: the pattern fits one text only.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The one text that a fixed pattern fits.
    pub fn fixed(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn tokens(&self, context: &Context) -> Option<Vec<Token>> {
        let mut tokens = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => tokens.extend(text.chars().map(Token::Character)),
                Part::One => tokens.push(Token::One),
                Part::Many => tokens.push(Token::Many),
                Part::Variable { key, default } => {
                    let value = context.single(key).or(default.as_deref())?;
                    tokens.extend(value.chars().map(Token::Character));
                }
            }
        }
        Some(tokens)
    }
}

/// Reads what stands between the braces of a variable.
fn variable(inside: &str) -> Option<Part> {
    if let "*" | "?" | "$" = inside {
        return Some(Part::Text(inside.to_owned()));
    }
    let (key, default) = match inside.split_once(',') {
        None => (inside, None),
        Some((key, default)) => {
            let default = default.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            (key, Some(default.to_owned()))
        }
    };
    let key = key.trim();
    let well_formed = key.contains(':') && !key.contains(|c: char| c.is_whitespace() || "${}'*?".contains(c));
    well_formed.then(|| Part::Variable { key: Context::canonical_key(key), default })
}

/// True if `pattern` with wildcards and no variables fits all of `text`; letters in either case are equal.
pub fn fits_name(pattern: &str, text: &str) -> bool {
    let tokens: Vec<Token> = pattern
        .chars()
        .map(|character| match character {
            '*' => Token::Many,
            '?' => Token::One,
            other => Token::Character(other),
        })
        .collect();
    glob(&tokens, text, true)
}

/// Matches by going back to the last `*` only: time is at most the product of both lengths.
fn glob(tokens: &[Token], text: &str, ignore_case: bool) -> bool {
    let equal = |a: char, b: char| a == b || (ignore_case && a.to_lowercase().eq(b.to_lowercase()));
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut token) = (0, 0);
    let mut last_many: Option<(usize, usize)> = None;
    while at < text.len() {
        match tokens.get(token) {
            Some(Token::Many) => {
                last_many = Some((token, at));
                token += 1;
            }
            Some(Token::One) => {
                at += 1;
                token += 1;
            }
            Some(&Token::Character(character)) if equal(character, text[at]) => {
                at += 1;
                token += 1;
            }
            _ => match &mut last_many {
                None => return false,
                Some((many, taken_to)) => {
                    *taken_to += 1;
                    (token, at) = (*many + 1, *taken_to);
                }
            },
        }
    }
    tokens[token..].iter().all(|rest| *rest == Token::Many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Syntax = Syntax { wildcards: true, variables: true };

    fn context() -> Context {
        let mut context = Context::default();
        context.set("aws:username", "ann*");
        context.add("s3:multi", "a");
        context.add("s3:multi", "b");
        context
    }

    #[test]
    fn patterns_fit() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("?", "", false),
            ("?", "漢", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*a*b*", "xxaxxbxx", true),
            ("a?c", "abc", true),
            ("${aws:username}", "ann*", true),
            ("${aws:username}", "anna", false),
            ("${AWS:UserName}/*", "ann*/x", true),
            ("${aws:other}", "", false),
            ("${aws:other, 'd'}x", "dx", true),
            ("${aws:other,''}", "", true),
            ("${s3:multi}", "a", false),
            ("${*}${?}${$}{x}", "*?${x}", true),
            ("${*}", "a", false),
            ("$x{", "$x{", true),
            ("A", "a", false),
        ] {
            let answer = Pattern::parse(pattern, ALL).unwrap().fits(text, &context());
            assert_eq!(answer, fits, "{pattern} {text}");
        }
        let literal = Pattern::parse("a*${b", Syntax { wildcards: false, variables: false }).unwrap();
        assert!(literal.fits("a*${b", &context()) && !literal.fits("ab", &context()));
        assert!(Pattern::parse("Ä*", ALL).unwrap().fits_ignoring_case("äX", &context()));
        assert_eq!(literal.fixed(), Some("a*${b"));
        assert!(!Pattern::parse("${aws:username}", ALL).unwrap().is_fixed());
    }

    #[test]
    fn variables_that_are_none_are_refused() {
        for text in ["${", "${}", "${a}", "${a:b, c}", "${a: b}", "${${a:b}}", "${a:b,'c}", "${a:*}"] {
            assert!(Pattern::parse(text, ALL).is_err(), "{text}");
        }
    }

    /// The definition of a match, in time that grows exponentially.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((&'*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            Some((&'?', rest)) => !text.is_empty() && naive(rest, &text[1..]),
            Some((character, rest)) => text.first() == Some(character) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matches_are_those_of_the_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&characters(&pattern), &characters(&text));
            prop_assert_eq!(Pattern::parse(&pattern, ALL).unwrap().fits(&text, &Context::default()), expected);
        }

        #[test]
        fn no_text_ends_the_reader(text in "\\PC{0,20}|[${}':,a*?]{0,20}") {
            let _ = Pattern::parse(&text, ALL);
        }
    }
}
