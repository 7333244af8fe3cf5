//! Users and their access keys.

use crate::buckets::absent_is_fine;
use crate::error::{Code, Error};
use crate::names;
use crate::rados::{Rados, RadosError, Step};
use crate::records::{AccessKey, User, attr, to_bytes};
use crate::store::Store;
use crate::tenants::{checked, user_parts};
use bytes::Bytes;
use s3rules::policy::{POLICY_BYTES_MAX, Policy, PolicyKind};

/// The owner of what anonymous requests write; no user has this name.
pub const ANONYMOUS: &str = "anonymous";

fn no_such_user(uid: &str) -> Error {
    Code::InvalidArgument.because(format!("there is no user '{uid}'"))
}

impl<R: Rados> Store<R> {
    /// Names of all users, in order.
    pub async fn users(&self) -> Result<Vec<String>, Error> {
        let found = self.whole_omap(names::USERS, Bytes::new()).await?;
        Ok(found.into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect())
    }

    /// A user. Errors: `InvalidArgument` if there is none.
    pub async fn user(&self, uid: &str) -> Result<User, Error> {
        Ok(self.user_and_tag(uid).await?.0)
    }

    /// A user, if there is one.
    pub async fn user_if_any(&self, uid: &str) -> Result<Option<User>, Error> {
        Ok(self.record::<User>(&names::user_object(uid), attr::TAG).await?.map(|(user, _)| user))
    }

    async fn user_and_tag(&self, uid: &str) -> Result<(User, Bytes), Error> {
        let found = self.record::<User>(&names::user_object(uid), attr::TAG).await?;
        found.ok_or_else(|| no_such_user(uid))
    }

    /// Makes a user with one access key.
    pub async fn create_user(&self, user: User, key: (&str, &str)) -> Result<User, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        let (_, name) = checked(&user.uid, user_parts(&user.uid))?;
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let rule =
                "a user's name has 1 to 64 letters, digits, '-', '_', '.' and '@', behind TENANT$ if it is in one";
            return Err(Code::InvalidArgument.because(rule));
        }
        if user.uid == ANONYMOUS {
            return Err(Code::InvalidArgument.because("'anonymous' owns what requests without a key have written"));
        }
        if let Some(email) = &user.email {
            self.check_email(&user.uid, email).await?;
        }
        if self.user_if_any(&user.uid).await?.is_some() {
            return Err(Code::InvalidArgument.because(format!("there is a user '{}' already", user.uid)));
        }
        let entry = (Bytes::from(user.uid.clone()), Bytes::new());
        self.meta(names::USERS.into(), vec![Step::Set(vec![entry])]).await?;
        let user = User { access_keys: Vec::new(), ..user };
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::TAG, Bytes::from(self.fresh())),
            Step::SetAttr(attr::RECORD, to_bytes(&user)),
        ];
        match self.meta(names::user_object(&user.uid), steps).await {
            Ok(_) => {
                if let Some(email) = &user.email {
                    let entry = (Bytes::from(email.clone()), Bytes::from(user.uid.clone()));
                    self.meta(names::EMAILS.into(), vec![Step::Set(vec![entry])]).await?;
                }
                self.add_key(&user.uid, key).await
            }
            Err(RadosError::Exists) => {
                Err(Code::InvalidArgument.because(format!("there is a user '{}' already", user.uid)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Errors: `InvalidArgument` for what is no address, and one that another user has.
    async fn check_email(&self, uid: &str, email: &str) -> Result<(), Error> {
        if email.len() > 255 || !email.contains('@') || email.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Code::InvalidArgument.because(format!("'{email}' is no address of e-mail")));
        }
        match self.user_of_email(email).await? {
            Some(other) if other.uid != uid => {
                Err(Code::InvalidArgument.because(format!("user '{}' has the address {email}", other.uid)))
            }
            _ => Ok(()),
        }
    }

    /// The user of an address.
    pub async fn user_of_email(&self, email: &str) -> Result<Option<User>, Error> {
        let get = Step::Get(vec![Bytes::copy_from_slice(email.as_bytes())]);
        let found = match self.meta(names::EMAILS.into(), vec![get]).await {
            Ok(mut replies) => replies.remove(0).entries().0,
            Err(RadosError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some((_, uid)) = found.into_iter().next() else { return Ok(None) };
        // The entry of a user whose making was interrupted, or who was removed, means nobody.
        let user = self.user_if_any(&String::from_utf8_lossy(&uid)).await?;
        Ok(user.filter(|user| user.email.as_deref() == Some(email)))
    }

    /// Changes a user's record.
    pub async fn change_user(&self, uid: &str, change: impl Fn(&mut User)) -> Result<User, Error> {
        loop {
            let (mut user, tag) = self.user_and_tag(uid).await?;
            change(&mut user);
            let steps = vec![
                Step::AttrIs(attr::TAG, tag),
                Step::SetAttr(attr::TAG, Bytes::from(self.fresh())),
                Step::SetAttr(attr::RECORD, to_bytes(&user)),
            ];
            match self.meta(names::user_object(uid), steps).await {
                Ok(_) => return Ok(user),
                Err(RadosError::Guard | RadosError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets a policy of a user, in the place of one of the same name. Errors: `InvalidArgument` for a name that cannot
    /// be one, and where all policies of the user would be too long together; `MalformedPolicy`.
    pub async fn put_user_policy(&self, uid: &str, name: &str, text: &str) -> Result<(), Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "+=,.@-_".contains(c);
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_plain) {
            let rule = "a policy's name has 1 to 128 letters, digits and '+', '=', ',', '.', '@', '-', '_'";
            return Err(Code::InvalidArgument.because(rule));
        }
        Policy::parse(text, PolicyKind::User, user_parts(uid).0)?;
        let user = self.user(uid).await?;
        let others = user.policies.iter().filter(|(other, _)| *other != name).map(|(_, text)| text.len());
        if others.sum::<usize>() + text.len() > POLICY_BYTES_MAX {
            let rule = format!("the policies of a user have at most {POLICY_BYTES_MAX} bytes together");
            return Err(Code::InvalidArgument.because(rule));
        }
        self.change_user(uid, |user| drop(user.policies.insert(name.to_owned(), text.to_owned()))).await?;
        Ok(())
    }

    /// Removes a policy of a user. Errors: `InvalidArgument` if there is none of this name.
    pub async fn remove_user_policy(&self, uid: &str, name: &str) -> Result<(), Error> {
        if !self.user(uid).await?.policies.contains_key(name) {
            return Err(Code::InvalidArgument.because(format!("user '{uid}' has no policy '{name}'")));
        }
        self.change_user(uid, |user| drop(user.policies.remove(name))).await?;
        Ok(())
    }

    /// Gives a user one more access key, as a pair of key and secret.
    pub async fn add_key(&self, uid: &str, (access, secret): (&str, &str)) -> Result<User, Error> {
        if access.is_empty() || secret.len() < 8 || !access.bytes().all(|c| c.is_ascii_alphanumeric()) {
            return Err(Code::InvalidArgument.because("an access key is of letters and digits; a secret has 8 or more"));
        }
        self.user(uid).await?;
        let key = AccessKey { uid: uid.to_owned(), secret: secret.to_owned() };
        let steps = vec![Step::CreateNew, Step::SetAttr(attr::RECORD, to_bytes(&key))];
        match self.meta(names::key_object(access), steps).await {
            Ok(_) => {}
            Err(RadosError::Exists) => {
                return Err(Code::InvalidArgument.because(format!("there is an access key {access} already")));
            }
            Err(error) => return Err(error.into()),
        }
        self.change_user(uid, |user| {
            if !user.access_keys.iter().any(|key| key == access) {
                user.access_keys.push(access.to_owned());
            }
        })
        .await
    }

    /// Removes an access key of a user.
    pub async fn remove_key(&self, uid: &str, access: &str) -> Result<User, Error> {
        if !self.user(uid).await?.access_keys.iter().any(|key| key == access) {
            return Err(Code::InvalidArgument.because(format!("user '{uid}' has no access key {access}")));
        }
        absent_is_fine(self.meta(names::key_object(access), vec![Step::Remove]).await)?;
        self.change_user(uid, |user| user.access_keys.retain(|key| key != access)).await
    }

    /// Removes a user without buckets, and the user's keys.
    pub async fn remove_user(&self, uid: &str) -> Result<(), Error> {
        let user = self.user(uid).await?;
        let buckets = self.buckets(uid).await?;
        if let Some(bucket) = buckets.first() {
            let message = format!("user '{uid}' has {} buckets, '{}' among them", buckets.len(), bucket.name);
            return Err(Code::InvalidArgument.because(message));
        }
        if let Some(email) = &user.email {
            let (email, uid) = (Bytes::from(email.clone()), Bytes::from(user.uid.clone()));
            let steps = vec![Step::ValueIs(email.clone(), uid), Step::Drop(vec![email])];
            absent_is_fine(self.meta(names::EMAILS.into(), steps).await)?;
        }
        for key in &user.access_keys {
            absent_is_fine(self.meta(names::key_object(key), vec![Step::Remove]).await)?;
        }
        absent_is_fine(self.meta(names::user_object(uid), vec![Step::Remove]).await)?;
        self.meta(names::USERS.into(), vec![Step::Drop(vec![Bytes::copy_from_slice(uid.as_bytes())])]).await?;
        Ok(())
    }

    /// An access key, and its user. Errors: `InvalidAccessKeyId`.
    pub async fn access_key(&self, access: &str) -> Result<(AccessKey, User), Error> {
        let unknown = || Code::InvalidAccessKeyId.because("there is no such access key");
        let object = names::key_object(access);
        let key: AccessKey = match self.meta(object.clone(), vec![Step::GetAttr(attr::RECORD)]).await {
            Ok(replies) => crate::records::from_bytes(&object, &replies[0].bytes())?,
            Err(RadosError::NotFound) => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let user = self.user_if_any(&key.uid).await?.ok_or_else(unknown)?;
        Ok((key, user))
    }
}
