//! Policies as they are written, in JSON.

use crate::error::{S3Code, S3Error};
use crate::policy::action::ActionPattern;
use crate::policy::arn::ArnPattern;
use crate::policy::condition::{Condition, Operator};
use crate::policy::context::Context;
use crate::policy::identity::Principal;
use crate::policy::json::Json;
use crate::policy::keys::is_condition_key;

/// Longest policy, in bytes.
pub const POLICY_BYTES_MAX: usize = 20 * 1024;

/// Kind of a policy: it decides on what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Of a bucket: each statement has a principal and is about S3.
    Bucket,
    /// Of a user: statements have no principal, and may be about other services.
    User,
}

/// Policy that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub id: Option<String>,
    pub statements: Vec<Statement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Allow,
    Deny,
}

/// Statement of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub sid: Option<String>,
    pub effect: Effect,
    /// `None` in the policy of a user.
    pub principals: Option<Listed<Principal>>,
    pub actions: Listed<ActionPattern>,
    pub resources: Listed<ArnPattern>,
    pub conditions: Vec<Condition>,
}

/// Entries of an element and of its `Not` form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// True for `NotAction`, `NotResource` and `NotPrincipal`: all are meant that are not listed.
    pub negated: bool,
    pub entries: Vec<T>,
}

impl<T> Listed<T> {
    /// True if a thing is meant for which `fits` says whether an entry fits it.
    pub fn means(&self, fits: impl Fn(&T) -> bool) -> bool {
        self.entries.iter().any(fits) != self.negated
    }
}

impl Policy {
    /// Reads a policy. `tenant` is the one of the bucket or the user: resources without an account are meant to be in
    /// it, and one of another account is refused.
    ///
    /// Errors: `MalformedPolicy` with a sentence that tells what is wrong.
    pub fn parse(text: &str, kind: PolicyKind, tenant: &str) -> Result<Policy, S3Error> {
        read_policy(text, kind, tenant).map_err(|sentence| S3Error::new(S3Code::MalformedPolicy, sentence))
    }
}

/// Reads a policy. Errors are sentences.
fn read_policy(text: &str, kind: PolicyKind, tenant: &str) -> Result<Policy, String> {
    if text.len() > POLICY_BYTES_MAX {
        return Err(format!("Policies must not be longer than {POLICY_BYTES_MAX} bytes"));
    }
    let json = Json::parse(text).filter(|_| text.starts_with('{'));
    let Some(Json::Object(members)) = &json else {
        return Err("Policies must be valid JSON and the first byte must be '{'".into());
    };
    if let Some(name) = json.as_ref().and_then(Json::repeated_name) {
        return Err(format!("Field {name} stands twice"));
    }
    let (mut id, mut version, mut statements) = (None, None, None);
    for (name, value) in members {
        match name.as_str() {
            "Version" => version = Some(string(value, "Version")?),
            "Id" => id = Some(string(value, "Id")?.to_owned()),
            "Statement" => statements = Some(value),
            _ => return Err(format!("Unknown field {name}")),
        }
    }
    let variables = match version {
        None | Some("2008-10-17") => false,
        Some("2012-10-17") => true,
        Some(_) => return Err("The policy must contain a valid version string".into()),
    };
    let reader = StatementReader { kind, tenant, variables };
    let statements: Result<Vec<Statement>, String> = match statements {
        None => return Err("Missing required field Statement".into()),
        Some(Json::List(list)) => list.iter().map(|statement| reader.read(statement)).collect(),
        Some(statement) => reader.read(statement).map(|statement| vec![statement]),
    };
    let statements = statements?;
    if statements.is_empty() {
        return Err("Could not parse the policy: Statement is empty".into());
    }
    let mut sids: Vec<&String> = statements.iter().filter_map(|statement| statement.sid.as_ref()).collect();
    sids.sort_unstable();
    if sids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("Statement IDs (SID) in a single policy must be unique".into());
    }
    Ok(Policy { id, statements })
}

struct StatementReader<'a> {
    kind: PolicyKind,
    tenant: &'a str,
    variables: bool,
}

impl StatementReader<'_> {
    fn read(&self, statement: &Json) -> Result<Statement, String> {
        let Json::Object(members) = statement else { return Err("A statement must be an object".into()) };
        let (mut sid, mut effect) = (None, None);
        let (mut principals, mut actions, mut resources) = (None, None, None);
        let mut conditions = Vec::new();
        for (name, value) in members {
            match name.as_str() {
                "Sid" => sid = Some(string(value, "Sid")?.to_owned()).filter(|sid| !sid.is_empty()),
                "Effect" => effect = Some(read_effect(value)?),
                "Principal" => set(&mut principals, self.principals(value, false)?, "Principal")?,
                "NotPrincipal" => set(&mut principals, self.principals(value, true)?, "Principal")?,
                "Action" => set(&mut actions, self.actions(value, false)?, "Action")?,
                "NotAction" => set(&mut actions, self.actions(value, true)?, "Action")?,
                "Resource" => set(&mut resources, self.resources(value, false)?, "Resource")?,
                "NotResource" => set(&mut resources, self.resources(value, true)?, "Resource")?,
                "Condition" => conditions = self.conditions(value)?,
                _ => return Err(format!("Unknown field {name}")),
            }
        }
        let effect = effect.ok_or("Missing required field Effect")?;
        match (self.kind, &principals) {
            (PolicyKind::Bucket, None) => return Err("Missing required field Principal".into()),
            (PolicyKind::User, Some(_)) => return Err("Policy of a user must not name a Principal".into()),
            (_, Some(Listed { negated: true, .. })) if effect == Effect::Allow => {
                return Err("Allow with NotPrincipal is not allowed".into());
            }
            _ => {}
        }
        let actions = actions.ok_or("Missing required field Action")?;
        let resources = resources.ok_or("Missing required field Resource")?;
        Ok(Statement { sid, effect, principals, actions, resources, conditions })
    }

    fn principals(&self, value: &Json, negated: bool) -> Result<Listed<Principal>, String> {
        let invalid = || "Invalid principal in policy".to_owned();
        let entries = match value {
            Json::String(text) if text == "*" => vec![Principal::Everyone],
            Json::Object(kinds) if !kinds.is_empty() => {
                let mut entries = Vec::new();
                for (kind, value) in kinds {
                    for text in strings(value).ok_or_else(invalid)? {
                        entries.push(match kind.as_str() {
                            "AWS" => Principal::parse_aws(text).ok_or_else(invalid)?,
                            "CanonicalUser" if !text.is_empty() && text != "*" => {
                                Principal::CanonicalUser(text.to_owned())
                            }
                            "Federated" | "Service" if !text.is_empty() => Principal::Foreign(text.to_owned()),
                            _ => return Err(invalid()),
                        });
                    }
                }
                entries
            }
            _ => return Err(invalid()),
        };
        Ok(Listed { negated, entries })
    }

    fn actions(&self, value: &Json, negated: bool) -> Result<Listed<ActionPattern>, String> {
        let other_services = self.kind == PolicyKind::User;
        let entries: Option<Vec<ActionPattern>> = strings(value)
            .and_then(|texts| texts.into_iter().map(|text| ActionPattern::parse(text, other_services)).collect());
        match entries {
            Some(entries) => Ok(Listed { negated, entries }),
            None => Err("Policy has invalid action".into()),
        }
    }

    fn resources(&self, value: &Json, negated: bool) -> Result<Listed<ArnPattern>, String> {
        let entries: Option<Vec<ArnPattern>> =
            strings(value).and_then(|texts| texts.into_iter().map(|text| self.resource(text)).collect());
        match entries {
            Some(entries) => Ok(Listed { negated, entries }),
            None => Err("Policy has invalid resource".into()),
        }
    }

    fn resource(&self, text: &str) -> Option<ArnPattern> {
        let mut pattern = ArnPattern::parse(text, self.variables)?;
        let (Some(service), Some(account)) = (pattern.service(), pattern.account()) else { return Some(pattern) };
        let of_s3 = service.fits("s3", &Context::default());
        let account = account.fixed();
        if !of_s3 {
            return (self.kind == PolicyKind::User).then_some(pattern);
        }
        match account {
            Some("") => pattern.set_account(self.tenant),
            Some(account) if account != self.tenant && self.kind == PolicyKind::Bucket => return None,
            _ => {}
        }
        Some(pattern)
    }

    fn conditions(&self, value: &Json) -> Result<Vec<Condition>, String> {
        let Json::Object(operators) = value else { return Err("Condition must be an object".into()) };
        let mut conditions = Vec::new();
        for (name, keys) in operators {
            let operator = Operator::parse(name).ok_or_else(|| format!("Invalid Condition type : {name}"))?;
            let Json::Object(keys) = keys else { return Err(format!("Condition {name} must be an object")) };
            for (key, value) in keys {
                if !is_condition_key(key) {
                    return Err(format!("Policy has an invalid condition key: {key}"));
                }
                let mut operands = Vec::new();
                for text in scalars(value).ok_or_else(|| format!("Invalid value of condition key {key}"))? {
                    let operand = operator.operand(&text, self.variables);
                    operands.push(operand.ok_or_else(|| format!("Invalid value of condition key {key}: {text}"))?);
                }
                conditions.push(Condition { key: Context::canonical_key(key), operator, operands });
            }
        }
        Ok(conditions)
    }
}

/// Sets an element that may stand once, in one of its two forms.
fn set<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} and Not{name} exclude each other")),
    }
}

fn read_effect(value: &Json) -> Result<Effect, String> {
    match value {
        Json::String(text) if text == "Allow" => Ok(Effect::Allow),
        Json::String(text) if text == "Deny" => Ok(Effect::Deny),
        Json::String(text) => Err(format!("Invalid effect: {text}")),
        _ => Err("Invalid effect".into()),
    }
}

fn string<'a>(value: &'a Json, name: &str) -> Result<&'a str, String> {
    match value {
        Json::String(text) => Ok(text),
        _ => Err(format!("{name} must be a string")),
    }
}

/// A string, or a list of at least one. `None` for anything else.
fn strings(value: &Json) -> Option<Vec<&str>> {
    fn string(value: &Json) -> Option<&str> {
        match value {
            Json::String(text) => Some(text),
            _ => None,
        }
    }
    match value {
        Json::List(items) if !items.is_empty() => items.iter().map(string).collect(),
        other => string(other).map(|text| vec![text]),
    }
}

/// Text of a string, a number or a truth value, or of those in a list of at least one. `None` for anything else.
fn scalars(value: &Json) -> Option<Vec<String>> {
    let scalar = |value: &Json| match value {
        Json::String(text) | Json::Number(text) => Some(text.clone()),
        Json::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    match value {
        Json::List(items) if !items.is_empty() => items.iter().map(scalar).collect(),
        other => scalar(other).map(|text| vec![text]),
    }
}
