//! Names of buckets and users within tenants.
//!
//! A tenant has names of its own: two tenants may each have a bucket `photos` and a user `ann`. In records, in access
//! logs and for operators these are `TENANT:BUCKET` and `TENANT$USER`, as Ceph's gateway writes them. What is in no
//! tenant has neither sign in its name.

use crate::error::{Code, Error};
use crate::records::{Bucket, User};

const OF_BUCKET: char = ':';
const OF_USER: char = '$';
const TENANT_MAX: usize = 64;

/// The tenant of a bucket, empty without one, and the bucket's name within it.
pub fn bucket_parts(name: &str) -> (&str, &str) {
    name.split_once(OF_BUCKET).unwrap_or(("", name))
}

/// The tenant of a user, empty without one, and the user's name within it.
pub fn user_parts(uid: &str) -> (&str, &str) {
    uid.split_once(OF_USER).unwrap_or(("", uid))
}

impl Bucket {
    /// The tenant, empty without one.
    pub fn tenant(&self) -> &str {
        bucket_parts(&self.name).0
    }

    /// The name within the tenant.
    pub fn bare_name(&self) -> &str {
        bucket_parts(&self.name).1
    }
}

impl User {
    /// The tenant, empty without one.
    pub fn tenant(&self) -> &str {
        user_parts(&self.uid).0
    }

    /// The name within the tenant.
    pub fn bare_name(&self) -> &str {
        user_parts(&self.uid).1
    }
}

/// The name of a bucket that somebody of `tenant` calls so: one without a tenant's name is in his own. A name that
/// begins with a colon is in none.
pub fn bucket_called(called: &str, tenant: &str) -> String {
    match called.split_once(OF_BUCKET) {
        Some(("", bare)) => bare.to_owned(),
        None if !tenant.is_empty() => format!("{tenant}{OF_BUCKET}{called}"),
        _ => called.to_owned(),
    }
}

/// The name of a user in a tenant.
pub fn user_of(tenant: &str, user: &str) -> String {
    format!("{tenant}{OF_USER}{user}")
}

/// True for what can be the name of a tenant: letters, digits and `_`.
pub fn is_tenant(name: &str) -> bool {
    (1..=TENANT_MAX).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// Checks the tenant's name in the name of a bucket or user, if there is one. Returns the parts.
pub(crate) fn checked<'a>(name: &'a str, parts: (&'a str, &'a str)) -> Result<(&'a str, &'a str), Error> {
    let (tenant, bare) = parts;
    if bare.len() < name.len() && !is_tenant(tenant) {
        let rule = "a tenant's name has 1 to 64 letters, digits and '_'";
        return Err(Code::InvalidArgument.because(format!("'{name}': {rule}")));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_tenant_or_none() {
        assert_eq!((bucket_parts("t:b"), bucket_parts("b")), (("t", "b"), ("", "b")));
        assert_eq!((user_parts("t$u"), user_parts("u")), (("t", "u"), ("", "u")));
        assert_eq!(user_of("t", "u"), "t$u");
        for (called, tenant, name) in [
            ("b", "", "b"),
            ("b", "t", "t:b"),
            (":b", "t", "b"),
            (":b", "", "b"),
            ("o:b", "t", "o:b"),
            ("o:b", "", "o:b"),
        ] {
            assert_eq!(bucket_called(called, tenant), name, "{called} {tenant}");
        }
    }

    #[test]
    fn names_of_tenants_are_plain() {
        for name in ["t", "T_9", &"t".repeat(64)] {
            assert!(is_tenant(name), "{name}");
        }
        for name in ["", "a-b", "a.b", "a:b", "a$b", "a/b", "ä", &"t".repeat(65)] {
            assert!(!is_tenant(name), "{name}");
        }
        for wrong in ["$u", "a-b$u", "a$b$c$", "$"] {
            let is_refused = checked(wrong, user_parts(wrong)).is_err();
            assert_eq!(is_refused, wrong != "a$b$c$", "{wrong}");
        }
    }
}
