//! Lists as requests bring them: their names are not yet known to be users.

use crate::acl::{Acl, AclUser, CannedAcl, Grant, Grantee, Group, Permission};
use crate::error::{S3Code, S3Error};
use crate::xml::Element;

/// Most grants of a list.
pub const GRANTS_MAX: usize = 100;

/// Headers that bring grants, in the order in which their grants stand in the list.
const GRANT_HEADERS: [(&str, Permission); 5] = [
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
    ("x-amz-grant-full-control", Permission::FullControl),
];

/// Name of a grantee in a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GranteeName {
    Id(String),
    Email(String),
}

/// List whose names are to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclDraft {
    /// Owner as the request names him; `None` in headers.
    owner: Option<String>,
    grants: Vec<(Target, Permission)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Named(GranteeName),
    Group(Group),
}

/// List as the headers of a request name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclHeaders {
    /// Nothing.
    Absent,
    Canned(CannedAcl),
    Grants(AclDraft),
}

impl AclHeaders {
    /// Reads `x-amz-acl` and `x-amz-grant-*`. `headers`: names, in lower case, with their values.
    ///
    /// Errors: `InvalidRequest` for both kinds at once, `InvalidArgument` for a value that is not written as one.
    pub fn read<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Result<AclHeaders, S3Error> {
        let mut canned = None;
        let mut grants: Vec<(usize, Target)> = Vec::new();
        for (name, value) in headers {
            if name == "x-amz-acl" {
                canned = Some(CannedAcl::parse(value.trim())?);
            } else if let Some(order) = GRANT_HEADERS.iter().position(|(known, _)| *known == name) {
                for target in targets(value)? {
                    grants.push((order, target));
                }
            }
        }
        if grants.len() > GRANTS_MAX {
            return Err(too_many());
        }
        grants.sort_by_key(|(order, _)| *order);
        let grants: Vec<_> = grants.into_iter().map(|(order, target)| (target, GRANT_HEADERS[order].1)).collect();
        match (canned, grants.is_empty()) {
            (Some(_), false) => Err(S3Error::new(
                S3Code::InvalidRequest,
                "specifying both a canned ACL and grants in headers is not allowed",
            )),
            (Some(canned), true) => Ok(AclHeaders::Canned(canned)),
            (None, false) => Ok(AclHeaders::Grants(AclDraft { owner: None, grants })),
            (None, true) => Ok(AclHeaders::Absent),
        }
    }
}

impl AclDraft {
    /// Reads `AccessControlPolicy`.
    ///
    /// Errors: `MalformedXML` for what is no XML, `MalformedACLError` for what is no list.
    pub fn from_xml(document: &[u8]) -> Result<AclDraft, S3Error> {
        let root = Element::parse(document, "AccessControlPolicy")?;
        read_list(&root).map_err(|error| match error.code {
            S3Code::MalformedXML => S3Error::new(S3Code::MalformedACLError, error.message),
            _ => error,
        })
    }

    /// Names that are to be looked up before [`AclDraft::resolve`].
    pub fn names(&self) -> impl Iterator<Item = &GranteeName> {
        self.grants.iter().filter_map(|(target, _)| match target {
            Target::Named(name) => Some(name),
            Target::Group(_) => None,
        })
    }

    /// The list for something that `owner` owns; `user_of` tells the user of a name.
    ///
    /// Errors: `AccessDenied` if the request names another owner, `InvalidArgument` for an unknown id,
    /// `UnresolvableGrantByEmailAddress` for an unknown address.
    pub fn resolve(&self, owner: &AclUser, user_of: impl Fn(&GranteeName) -> Option<AclUser>) -> Result<Acl, S3Error> {
        if self.owner.as_ref().is_some_and(|named| *named != owner.id) {
            return Err(S3Error::new(S3Code::AccessDenied, "the owner cannot be changed"));
        }
        let mut grants = Vec::new();
        for (target, permission) in &self.grants {
            let grantee = match target {
                Target::Group(group) => Grantee::Group(*group),
                Target::Named(name) => Grantee::User(user_of(name).ok_or_else(|| unknown(name))?),
            };
            grants.push(Grant { grantee, permission: *permission });
        }
        Ok(Acl::new(owner.clone(), grants))
    }
}

fn unknown(name: &GranteeName) -> S3Error {
    match name {
        GranteeName::Id(id) => S3Error::invalid_argument(format!("there is no user with the id {id:?}")),
        GranteeName::Email(address) => S3Error::new(
            S3Code::UnresolvableGrantByEmailAddress,
            format!("there is no user with the address {address:?}"),
        ),
    }
}

fn too_many() -> S3Error {
    S3Error::new(S3Code::MalformedACLError, format!("a list has at most {GRANTS_MAX} grants"))
}

fn read_list(root: &Element) -> Result<AclDraft, S3Error> {
    root.only(&["Owner", "AccessControlList"])?;
    let owner = root.required("Owner")?.required("ID")?.leaf()?;
    let list = root.required("AccessControlList")?;
    list.only(&["Grant"])?;
    if list.children.len() > GRANTS_MAX {
        return Err(too_many());
    }
    let grants: Result<Vec<_>, S3Error> = list.all("Grant").map(read_grant).collect();
    Ok(AclDraft { owner: Some(owner), grants: grants? })
}

fn read_grant(grant: &Element) -> Result<(Target, Permission), S3Error> {
    grant.only(&["Grantee", "Permission"])?;
    let permission = grant.required("Permission")?.leaf()?;
    let permission = Permission::parse(permission.trim())
        .ok_or_else(|| S3Error::malformed_xml(format!("there is no permission {permission:?}")))?;
    let grantee = grant.required("Grantee")?;
    grantee.only(&["ID", "DisplayName", "EmailAddress", "URI"])?;
    let (id, email, uri) = (grantee.text_of("ID")?, grantee.text_of("EmailAddress")?, grantee.text_of("URI")?);
    let target = match (grantee.attribute("type"), id, email, uri) {
        (Some("CanonicalUser") | None, Some(id), None, None) => Target::Named(GranteeName::Id(id)),
        (Some("AmazonCustomerByEmail") | None, None, Some(email), None) => Target::Named(GranteeName::Email(email)),
        (Some("Group") | None, None, None, Some(uri)) => Target::Group(group(&uri)?),
        _ => return Err(S3Error::malformed_xml("a grantee has a type, and either ID, EmailAddress or URI")),
    };
    Ok((target, permission))
}

fn group(uri: &str) -> Result<Group, S3Error> {
    Group::parse(uri.trim()).ok_or_else(|| S3Error::invalid_argument(format!("there is no group {uri:?}")))
}

/// Reads `id="…", emailAddress="…", uri="…"`. The quotes may be left out.
fn targets(value: &str) -> Result<Vec<Target>, S3Error> {
    let malformed = || S3Error::invalid_argument(format!("no list of grantees: {value:?}"));
    let mut targets = Vec::new();
    for entry in value.split(',') {
        let (kind, name) = entry.split_once('=').ok_or_else(malformed)?;
        let name = name.trim();
        let name = match name.strip_prefix('"') {
            None => name,
            Some(rest) => rest.strip_suffix('"').ok_or_else(malformed)?,
        };
        if name.is_empty() || name.contains('"') {
            return Err(malformed());
        }
        targets.push(match kind.trim().to_ascii_lowercase().as_str() {
            "id" => Target::Named(GranteeName::Id(name.to_owned())),
            "emailaddress" => Target::Named(GranteeName::Email(name.to_owned())),
            "uri" => Target::Group(group(name)?),
            _ => return Err(malformed()),
        });
    }
    Ok(targets)
}
