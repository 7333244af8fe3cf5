//! The one who asks, and the one whom a statement is about.

/// Somebody who asks. The gateway has proven who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Anonymous,
    User(UserIdentity),
}

/// A user who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserIdentity {
    /// Id of the account, which owns buckets and objects and stands in grants. A user without an account is his own.
    pub account: String,
    /// Tenant, or the number of an account; empty without one. It is the account in a user's resource name.
    pub tenant: String,
    /// Name within the tenant.
    pub name: String,
    /// True for one who has all rights of his account: a user without an account, or an account's root user.
    /// Others have only what policies of theirs, or of a bucket, give them.
    pub root: bool,
    /// True for an operator of the cluster, whom no rule stops.
    pub operator: bool,
}

impl UserIdentity {
    /// `arn:aws:iam::tenant:user/name`.
    pub fn arn(&self) -> String {
        format!("arn:aws:iam::{}:user/{}", self.tenant, self.name)
    }
}

impl Identity {
    /// Id of the account; `None` for an anonymous request.
    pub fn account(&self) -> Option<&str> {
        match self {
            Identity::Anonymous => None,
            Identity::User(user) => Some(&user.account),
        }
    }
}

/// One entry of `Principal` or `NotPrincipal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// `*`: everybody, anonymous requests included.
    Everyone,
    /// All users of a tenant or account: its number, or `arn:aws:iam::tenant:root`.
    Tenant(String),
    /// A user or role by its resource name.
    Arn(String),
    /// A user by the id of his account.
    CanonicalUser(String),
    /// A service or an identity provider. There are none here, so nobody is meant.
    Foreign(String),
}

impl Principal {
    /// Reads an entry of `AWS`. `None` if it names nobody.
    pub fn parse_aws(text: &str) -> Option<Principal> {
        if text == "*" {
            return Some(Principal::Everyone);
        }
        if is_account_number(text) {
            return Some(Principal::Tenant(text.to_owned()));
        }
        if text.contains(['*', '?']) {
            return None;
        }
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let [arn, partition, service, region, tenant, resource] = parts[..] else { return None };
        if arn != "arn" || partition.is_empty() || !region.is_empty() {
            return None;
        }
        let named = |kind: &str| resource.strip_prefix(kind).is_some_and(|name| !name.is_empty());
        match service {
            "iam" if resource == "root" => Some(Principal::Tenant(tenant.to_owned())),
            "iam" if named("user/") || named("role/") => Some(Principal::Arn(text.to_owned())),
            "sts" if named("assumed-role/") || named("federated-user/") => Some(Principal::Arn(text.to_owned())),
            _ => None,
        }
    }

    /// True if the entry is about `identity`.
    pub fn is(&self, identity: &Identity) -> bool {
        match (self, identity) {
            (Principal::Everyone, _) => true,
            (_, Identity::Anonymous) => false,
            (Principal::Tenant(tenant), Identity::User(user)) => *tenant == user.tenant,
            (Principal::Arn(arn), Identity::User(user)) => *arn == user.arn(),
            (Principal::CanonicalUser(id), Identity::User(user)) => *id == user.account,
            (Principal::Foreign(_), Identity::User(_)) => false,
        }
    }
}

/// True for the number of an account: twelve digits, or `RGW` and 17 digits.
fn is_account_number(text: &str) -> bool {
    let (digits, length) = text.strip_prefix("RGW").map_or((text, 12), |digits| (digits, 17));
    digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_people() {
        let user = |tenant: &str, name: &str| {
            Identity::User(UserIdentity {
                account: format!("{tenant}${name}"),
                tenant: tenant.into(),
                name: name.into(),
                root: true,
                operator: false,
            })
        };
        for (text, identity, is) in [
            ("*", Identity::Anonymous, true),
            ("*", user("t", "ann"), true),
            ("arn:aws:iam::t:root", user("t", "ann"), true),
            ("arn:aws:iam::t:root", user("", "ann"), false),
            ("arn:aws:iam:::root", user("", "ann"), true),
            ("arn:aws:iam:::root", Identity::Anonymous, false),
            ("arn:aws:iam::t:user/ann", user("t", "ann"), true),
            ("arn:aws:iam::t:user/ann", user("t", "anna"), false),
            ("arn:aws:iam::t:user/ann", user("", "ann"), false),
            ("arn:aws:iam::t:role/ann", user("t", "ann"), false),
            ("123456789012", user("123456789012", "ann"), true),
            ("123456789012", user("t", "ann"), false),
            ("RGW12345678901234567", user("RGW12345678901234567", "ann"), true),
        ] {
            assert_eq!(Principal::parse_aws(text).unwrap().is(&identity), is, "{text} {identity:?}");
        }
        for text in [
            "",
            "ann",
            "12345678901",
            "12345678901234567",
            "RGW123456789012",
            "arn:aws:iam::t:user/",
            "arn:aws:iam::t:*",
            "arn:aws:iam::t:group/g",
            "arn:aws:s3:::b",
            "arn:aws:iam::*:root",
            "arn:aws:iam:x:t:root",
        ] {
            assert_eq!(Principal::parse_aws(text), None, "{text}");
        }
    }
}
