//! Verdict of a policy on a request.

use crate::policy::action::Action;
use crate::policy::arn::ResourceArn;
use crate::policy::context::Context;
use crate::policy::document::{Effect, Policy, Statement};
use crate::policy::identity::Identity;

/// Request as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    pub identity: &'a Identity,
    pub action: Action,
    pub resource: &'a ResourceArn,
    pub context: &'a Context,
}

/// Statement that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementRef {
    /// Place in the policy, from 0.
    pub index: usize,
    pub sid: Option<String>,
}

/// Answer of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A statement denies, whatever others allow.
    Deny(StatementRef),
    Allow(StatementRef),
    /// No statement is about the request.
    Default,
}

impl Policy {
    /// Judges a request. One statement that denies overrides all that allow; of several, the first is named.
    pub fn evaluate(&self, request: &PolicyRequest<'_>) -> Verdict {
        let found = |effect| {
            let about = |statement: &Statement| statement.effect == effect && statement.is_about(request);
            let index = self.statements.iter().position(about)?;
            Some(StatementRef { index, sid: self.statements[index].sid.clone() })
        };
        if let Some(statement) = found(Effect::Deny) {
            return Verdict::Deny(statement);
        }
        match found(Effect::Allow) {
            Some(statement) => Verdict::Allow(statement),
            None => Verdict::Default,
        }
    }
}

impl Statement {
    /// True if the resource of a request is meant.
    ///
    /// `NotResource` that allows, with a variable that has no value, means nothing: it would otherwise open all that it
    /// shall leave out.
    fn means_resource(&self, request: &PolicyRequest<'_>) -> bool {
        let PolicyRequest { resource, context, .. } = *request;
        let resolved = || self.resources.entries.iter().all(|pattern| pattern.is_resolved(context));
        (!self.resources.negated || self.effect == Effect::Deny || resolved())
            && self.resources.means(|pattern| pattern.fits(resource.as_str(), context))
    }

    /// True if all elements of the statement fit the request.
    fn is_about(&self, request: &PolicyRequest<'_>) -> bool {
        let principal = match &self.principals {
            None => true,
            Some(principals) => principals.means(|principal| principal.is(request.identity)),
        };
        principal
            && self.actions.means(|pattern| pattern.fits(request.action))
            && self.means_resource(request)
            && self.conditions.iter().all(|condition| condition.holds(request.context))
    }
}
