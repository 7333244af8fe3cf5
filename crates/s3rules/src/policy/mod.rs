//! Policies of buckets and users, in AWS's language.
//!
//! * `document` reads a policy, `evaluate` judges a request by it, `public` tells whether it is public.
//! * `condition` compares values of the request ([`Context`]) with those of a statement (`operands`, `pattern`, `arn`).
//! * `request` makes those values from facts of a request.
//! * `action`, `keys` and `identity` are the vocabulary.

mod action;
mod arn;
mod condition;
mod context;
mod document;
mod evaluate;
mod identity;
mod json;
mod keys;
mod operands;
mod pattern;
mod public;
mod request;
#[cfg(test)]
mod tests;

pub use action::{Action, ActionPattern, ActionTarget};
pub use arn::{ArnPattern, ResourceArn};
pub use condition::Condition;
pub use context::Context;
pub use document::{Effect, Listed, POLICY_BYTES_MAX, Policy, PolicyKind, Statement};
pub use evaluate::{PolicyRequest, StatementRef, Verdict};
pub use identity::{Identity, Principal, UserIdentity};
pub use request::{RequestFacts, SignatureKind};

pub(crate) use json::Json;
pub(crate) use operands::base64_bytes;
