//! Conditions: an operator, a key, and the values that the request's are compared with.

use crate::policy::arn::ArnPattern;
use crate::policy::context::Context;
use crate::policy::operands::{Decimal, Network, base64_bytes};
use crate::policy::pattern::{Pattern, Syntax};
use crate::time::UnixMillis;
use std::cmp::Ordering;

/// One key of one operator in a statement's `Condition`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// In the form that [`Context::canonical_key`] makes.
    pub(crate) key: String,
    pub(crate) operator: Operator,
    pub(crate) operands: Vec<Operand>,
}

/// Operator with what stands before and behind its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub test: Test,
    /// True for the `Not` forms, which hold if no value of the condition is met.
    pub negated: bool,
    pub quantifier: Option<Quantifier>,
    /// `…IfExists`: a key that is absent meets the condition.
    pub if_exists: bool,
}

/// How a key with several values is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// `ForAllValues:`. It holds for an absent key.
    AllValues,
    /// `ForAnyValue:`. It does not hold for an absent key.
    AnyValue,
}

/// Comparison of one value of the request with one of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Text {
        ignore_case: bool,
        wildcards: bool,
    },
    Number(Relation),
    Date(Relation),
    Bool,
    Binary,
    Address,
    Arn,
    /// True if the key is absent.
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Value of a condition, in the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Text(Pattern),
    Number(Decimal),
    Date(UnixMillis),
    Flag(bool),
    Binary(Vec<u8>),
    Network(Network),
    Arn(ArnPattern),
}

impl Operator {
    /// Reads an operator's name, such as `ForAnyValue:StringNotLikeIfExists`. `None` if there is none of that name.
    pub fn parse(name: &str) -> Option<Operator> {
        let (quantifier, name) = match name.split_once(':') {
            None => (None, name),
            Some(("ForAllValues", name)) => (Some(Quantifier::AllValues), name),
            Some(("ForAnyValue", name)) => (Some(Quantifier::AnyValue), name),
            Some(_) => return None,
        };
        let (name, if_exists) = match name.strip_suffix("IfExists") {
            None => (name, false),
            Some(name) => (name, true),
        };
        let (test, negated) = test_of(name)?;
        if test == Test::Null && (if_exists || quantifier.is_some()) {
            return None;
        }
        Some(Operator { test, negated, quantifier, if_exists })
    }

    /// Reads a value of a condition. `None` if the operator compares with nothing like it.
    pub fn operand(&self, text: &str, variables: bool) -> Option<Operand> {
        Some(match self.test {
            Test::Text { wildcards, .. } => Operand::Text(Pattern::parse(text, Syntax { wildcards, variables }).ok()?),
            Test::Number(_) => Operand::Number(Decimal::parse(text)?),
            Test::Date(_) => Operand::Date(date(text)?),
            Test::Bool | Test::Null => Operand::Flag(flag(text)?),
            Test::Binary => Operand::Binary(base64_bytes(text)?),
            Test::Address => Operand::Network(Network::parse(text)?),
            Test::Arn => Operand::Arn(ArnPattern::parse(text, variables)?),
        })
    }
}

fn test_of(name: &str) -> Option<(Test, bool)> {
    let text = |ignore_case, wildcards| Test::Text { ignore_case, wildcards };
    Some(match name {
        "StringEquals" => (text(false, false), false),
        "StringNotEquals" => (text(false, false), true),
        "StringEqualsIgnoreCase" => (text(true, false), false),
        "StringNotEqualsIgnoreCase" => (text(true, false), true),
        "StringLike" => (text(false, true), false),
        "StringNotLike" => (text(false, true), true),
        "NumericEquals" => (Test::Number(Relation::Equal), false),
        "NumericNotEquals" => (Test::Number(Relation::Equal), true),
        "NumericLessThan" => (Test::Number(Relation::Less), false),
        "NumericLessThanEquals" => (Test::Number(Relation::LessOrEqual), false),
        "NumericGreaterThan" => (Test::Number(Relation::Greater), false),
        "NumericGreaterThanEquals" => (Test::Number(Relation::GreaterOrEqual), false),
        "DateEquals" => (Test::Date(Relation::Equal), false),
        "DateNotEquals" => (Test::Date(Relation::Equal), true),
        "DateLessThan" => (Test::Date(Relation::Less), false),
        "DateLessThanEquals" => (Test::Date(Relation::LessOrEqual), false),
        "DateGreaterThan" => (Test::Date(Relation::Greater), false),
        "DateGreaterThanEquals" => (Test::Date(Relation::GreaterOrEqual), false),
        "Bool" => (Test::Bool, false),
        "BinaryEquals" => (Test::Binary, false),
        "IpAddress" => (Test::Address, false),
        "NotIpAddress" => (Test::Address, true),
        "ArnEquals" | "ArnLike" => (Test::Arn, false),
        "ArnNotEquals" | "ArnNotLike" => (Test::Arn, true),
        "Null" => (Test::Null, false),
        _ => return None,
    })
}

/// Reads a date, or seconds since 1970. Four digits are refused: they may be meant as a year.
fn date(text: &str) -> Option<UnixMillis> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 12 && text.len() != 4 {
        return text.parse().ok().map(UnixMillis::from_seconds);
    }
    UnixMillis::parse(text)
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

impl Relation {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Condition {
    /// True if the request meets the condition.
    pub fn holds(&self, context: &Context) -> bool {
        let values = context.values(&self.key);
        if self.operator.test == Test::Null {
            return self.operands.contains(&Operand::Flag(values.is_empty()));
        }
        let Operator { negated, quantifier, if_exists, .. } = self.operator;
        if values.is_empty() {
            return if_exists
                || match quantifier {
                    None => negated,
                    Some(quantifier) => quantifier == Quantifier::AllValues,
                };
        }
        let met = |value: &String| self.operands.iter().any(|operand| self.meets(value, operand, context));
        match quantifier {
            None => values.iter().any(met) != negated,
            Some(Quantifier::AnyValue) => values.iter().any(|value| met(value) != negated),
            Some(Quantifier::AllValues) => values.iter().all(|value| met(value) != negated),
        }
    }

    /// True if one value of the request is met by one of the condition. A value that is no number, date or address
    /// where one is compared is met by none.
    fn meets(&self, value: &str, operand: &Operand, context: &Context) -> bool {
        match (self.operator.test, operand) {
            (Test::Text { ignore_case: true, .. }, Operand::Text(pattern)) => {
                pattern.fits_ignoring_case(value, context)
            }
            (Test::Text { .. }, Operand::Text(pattern)) => pattern.fits(value, context),
            (Test::Number(relation), Operand::Number(number)) => {
                Decimal::parse(value).is_some_and(|value| relation.holds(value.cmp(number)))
            }
            (Test::Date(relation), Operand::Date(point)) => {
                date(value).is_some_and(|value| relation.holds(value.cmp(point)))
            }
            (Test::Bool, Operand::Flag(expected)) => flag(value) == Some(*expected),
            (Test::Binary, Operand::Binary(bytes)) => base64_bytes(value).as_ref() == Some(bytes),
            (Test::Address, Operand::Network(network)) => value.parse().is_ok_and(|address| network.holds(address)),
            (Test::Arn, Operand::Arn(pattern)) => pattern.fits(value, context),
            _ => false,
        }
    }
}
