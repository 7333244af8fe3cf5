//! Access control lists: who may do what with a bucket or an object.
//!
//! * `draft`: a list as a request brings it, in XML or headers. It becomes an [`Acl`] once its names are looked up.
//! * `canned`: lists that have a name.

mod canned;
mod draft;
#[cfg(test)]
mod tests;

pub use canned::CannedAcl;
pub use draft::{AclDraft, AclHeaders, GRANTS_MAX, GranteeName};

use crate::policy::Identity;
use crate::xml::Element;
use serde::{Deserialize, Serialize};

const GROUP_URI: &str = "http://acs.amazonaws.com/groups/";
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Access control list of a bucket or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    pub owner: AclUser,
    /// Grants to groups come first, as in the answers of Ceph's gateway; otherwise in the order of the request.
    pub grants: Vec<Grant>,
}

/// User in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AclUser {
    /// Id of the account.
    pub id: String,
    pub display_name: String,
}

/// Permission of somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub grantee: Grantee,
    pub permission: Permission,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grantee {
    User(AclUser),
    Group(Group),
}

/// Group that S3 defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// Everybody, anonymous requests included.
    AllUsers,
    /// Everybody with a key.
    AuthenticatedUsers,
    /// The writers of access logs: no user is one of them.
    LogDelivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permission {
    Read,
    Write,
    ReadAcp,
    WriteAcp,
    FullControl,
}

impl Group {
    const ALL: [(Group, &str); 3] = [
        (Group::AllUsers, "global/AllUsers"),
        (Group::AuthenticatedUsers, "global/AuthenticatedUsers"),
        (Group::LogDelivery, "s3/LogDelivery"),
    ];

    /// Reads the URI of a group.
    pub fn parse(uri: &str) -> Option<Group> {
        let name = uri.strip_prefix(GROUP_URI)?;
        Group::ALL.iter().find(|(_, known)| *known == name).map(|(group, _)| *group)
    }

    pub fn uri(self) -> String {
        let name = Group::ALL.iter().find(|(group, _)| *group == self).map_or("", |(_, name)| name);
        format!("{GROUP_URI}{name}")
    }

    /// True if somebody belongs to the group.
    pub fn has(self, identity: &Identity) -> bool {
        match self {
            Group::AllUsers => true,
            Group::AuthenticatedUsers => *identity != Identity::Anonymous,
            Group::LogDelivery => false,
        }
    }

    /// True for a group that anybody can join.
    pub fn is_public(self) -> bool {
        self != Group::LogDelivery
    }
}

impl Permission {
    const ALL: [(Permission, &str); 5] = [
        (Permission::Read, "READ"),
        (Permission::Write, "WRITE"),
        (Permission::ReadAcp, "READ_ACP"),
        (Permission::WriteAcp, "WRITE_ACP"),
        (Permission::FullControl, "FULL_CONTROL"),
    ];

    /// Reads a name such as `READ_ACP`.
    pub fn parse(name: &str) -> Option<Permission> {
        Permission::ALL.iter().find(|(_, known)| *known == name).map(|(permission, _)| *permission)
    }

    pub fn name(self) -> &'static str {
        Permission::ALL.iter().find(|(permission, _)| *permission == self).map_or("", |(_, name)| name)
    }

    /// True if one who has this permission has `other`.
    pub fn covers(self, other: Permission) -> bool {
        self == other || self == Permission::FullControl
    }
}

impl Grant {
    pub fn to_user(user: AclUser, permission: Permission) -> Grant {
        Grant { grantee: Grantee::User(user), permission }
    }

    pub fn to_group(group: Group, permission: Permission) -> Grant {
        Grant { grantee: Grantee::Group(group), permission }
    }

    /// True if anybody can have the grant.
    pub fn is_public(&self) -> bool {
        matches!(self.grantee, Grantee::Group(group) if group.is_public())
    }
}

impl Acl {
    /// A list with these grants, those to groups first.
    pub fn new(owner: AclUser, mut grants: Vec<Grant>) -> Acl {
        grants.sort_by_key(|grant| matches!(grant.grantee, Grantee::User(_)));
        Acl { owner, grants }
    }

    /// A list that gives all to the owner.
    pub fn private(owner: AclUser) -> Acl {
        let grants = vec![Grant::to_user(owner.clone(), Permission::FullControl)];
        Acl { owner, grants }
    }

    /// True if somebody has a permission. The owner always may read and write the list itself, so that nobody is
    /// locked out. `ignore_public`: grants that anybody can have do not count.
    pub fn grants(&self, identity: &Identity, permission: Permission, ignore_public: bool) -> bool {
        let account = identity.account();
        let owns = account == Some(&self.owner.id);
        if owns && matches!(permission, Permission::ReadAcp | Permission::WriteAcp) {
            return true;
        }
        self.grants.iter().any(|grant| {
            let meant = match &grant.grantee {
                Grantee::User(user) => account == Some(&user.id),
                Grantee::Group(group) => group.has(identity),
            };
            meant && grant.permission.covers(permission) && !(ignore_public && grant.is_public())
        })
    }

    /// True if the list gives anybody anything.
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(Grant::is_public)
    }

    /// True if only the owner has anything.
    pub fn is_owners_only(&self) -> bool {
        self.grants.iter().all(|grant| matches!(&grant.grantee, Grantee::User(user) if user.id == self.owner.id))
    }

    /// `AccessControlPolicy` of an answer.
    pub fn to_xml(&self) -> String {
        let user = |element: Element, user: &AclUser| {
            element.with_text("ID", &user.id).with_text("DisplayName", &user.display_name)
        };
        let mut list = Element::new("AccessControlList");
        for grant in &self.grants {
            let mut grantee = Element::new("Grantee");
            grantee.attributes.push(("xmlns:xsi".into(), XSI.into()));
            let grantee = match &grant.grantee {
                Grantee::User(who) => {
                    grantee.attributes.push(("xsi:type".into(), "CanonicalUser".into()));
                    user(grantee, who)
                }
                Grantee::Group(group) => {
                    grantee.attributes.push(("xsi:type".into(), "Group".into()));
                    grantee.with_text("URI", group.uri())
                }
            };
            list = list.with(Element::new("Grant").with(grantee).with_text("Permission", grant.permission.name()));
        }
        Element::root("AccessControlPolicy").with(user(Element::new("Owner"), &self.owner)).with(list).write()
    }
}
