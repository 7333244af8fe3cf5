//! Public policies: those that give everybody something.

use crate::policy::condition::{Condition, Operand, Quantifier};
use crate::policy::document::{Effect, Policy, Statement};
use crate::policy::identity::Principal;

/// Keys whose fixed values keep strangers out, in canonical form.
const RESTRICTING_KEYS: &[&str] = &[
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:userid",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
];

impl Policy {
    /// True if a statement allows anything to everybody.
    ///
    /// A condition makes a statement non-public only if it compares a key that tells who or where somebody is
    /// (networks, accounts, organisations, and the like) with fixed values, and fails if the key is absent.
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(Statement::is_public)
    }
}

impl Statement {
    fn is_public(&self) -> bool {
        let everyone = match &self.principals {
            None => false,
            Some(principals) => principals.negated || principals.entries.contains(&Principal::Everyone),
        };
        self.effect == Effect::Allow && everyone && !self.conditions.iter().any(Condition::keeps_strangers_out)
    }
}

impl Condition {
    fn keeps_strangers_out(&self) -> bool {
        let operator = self.operator;
        if operator.negated || operator.if_exists || operator.quantifier == Some(Quantifier::AllValues) {
            return false;
        }
        let restricting = RESTRICTING_KEYS.contains(&self.key.as_str());
        self.operands.iter().all(|operand| match operand {
            Operand::Network(network) => self.key == "aws:sourceip" && !network.is_very_wide(),
            Operand::Text(pattern) => restricting && pattern.is_fixed(),
            Operand::Arn(pattern) if self.key == "s3:dataaccesspointarn" => {
                pattern.account().and_then(|account| account.fixed()).is_some_and(|account| !account.is_empty())
            }
            Operand::Arn(pattern) => restricting && pattern.is_fixed(),
            _ => false,
        })
    }
}
