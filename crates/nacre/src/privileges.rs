//! A daemon's rights on its machine: as few as it needs.
//!
//! `--setuser` and `--setgroup` have a daemon go on as another user, before it opens or makes any file. A daemon never
//! gets privileges back, whatever it runs.

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Gid, Uid, getegid, geteuid};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::path::Path;

/// A user: number, and the number of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

/// Goes on as this user and this group; without a group with the user's own. Call it while the process has one thread.
///
/// Errors: they are not known, or this process may not become them. It is then what it was.
pub fn drop_to(user: Option<&str>, group: Option<&str>) -> Result<()> {
    let file = |path: &str| std::fs::read_to_string(Path::new(path)).with_context(|| format!("cannot read {path}"));
    let user = user.map(|name| find_user(name, &file("/etc/passwd")?)).transpose()?;
    let group = group.map(|name| find_group(name, &file("/etc/group")?)).transpose()?;
    if let Some(gid) = group.or(user.map(|user| user.gid)) {
        let gid = Gid::from_raw(gid);
        let context = || format!("cannot go on with group {}", gid.as_raw());
        // Groups of the user that began it would lead to files of theirs.
        set_thread_groups(&[gid]).with_context(context)?;
        set_thread_res_gid(gid, gid, gid).with_context(context)?;
    }
    if let Some(User { uid, .. }) = user {
        let uid = Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid).with_context(|| format!("cannot go on as user {}", uid.as_raw()))?;
    }
    if user.is_some() || group.is_some() {
        tracing::info!("goes on as user {} with group {}", geteuid().as_raw(), getegid().as_raw());
    }
    set_no_new_privs(true).context("cannot give up new privileges")
}

/// The fields of the line that begins with a name, or that has this number as its third field.
fn line<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let lines = || text.lines().map(|line| line.split(':').collect::<Vec<&str>>()).filter(|fields| fields.len() > 3);
    let by_name = lines().find(|fields| fields[0] == name);
    by_name.or_else(|| lines().find(|fields| fields[2] == name && name.parse::<u32>().is_ok()))
}

fn number(text: &str, what: &str) -> Result<u32> {
    // The largest number means none.
    text.parse().ok().filter(|number| *number != u32::MAX).ok_or_else(|| anyhow!("'{text}' is no number of a {what}"))
}

/// Finds a user by name or number in the text of `/etc/passwd`.
fn find_user(name: &str, passwd: &str) -> Result<User> {
    match line(passwd, name) {
        Some(fields) => Ok(User { uid: number(fields[2], "user")?, gid: number(fields[3], "group")? }),
        None if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            bail!("there is no user {name} in /etc/passwd, so its group is not known")
        }
        None => bail!("there is no user '{name}' in /etc/passwd"),
    }
}

/// Finds a group by name or number in the text of `/etc/group`. A number that is not there stands for itself.
fn find_group(name: &str, groups: &str) -> Result<u32> {
    match line(groups, name) {
        Some(fields) => number(fields[2], "group"),
        None => number(name, "group").map_err(|_| anyhow!("there is no group '{name}' in /etc/group")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\n7:x:70:71::/:/bin/sh\nceph:x:64045:64046:Ceph:/var:/bin/false\nbad\n";
    const GROUP: &str = "root:x:0:\nceph:x:64046:\ndisk:x:6:ceph\n";

    #[test]
    fn users_and_groups_are_found_by_name_or_number() {
        assert_eq!(find_user("ceph", PASSWD).unwrap(), User { uid: 64045, gid: 64046 });
        assert_eq!(find_user("64045", PASSWD).unwrap(), User { uid: 64045, gid: 64046 });
        assert_eq!(find_user("7", PASSWD).unwrap(), User { uid: 70, gid: 71 }, "a name goes before a number");
        assert_eq!((find_group("disk", GROUP).unwrap(), find_group("12", GROUP).unwrap()), (6, 12));
        for (name, part) in [("nobody", "no user 'nobody'"), ("5", "group is not known"), ("bad", "no user 'bad'")] {
            assert!(find_user(name, PASSWD).unwrap_err().to_string().contains(part));
        }
        assert!(find_group("wheel", GROUP).unwrap_err().to_string().contains("no group 'wheel'"));
        assert!(find_group("4294967295", GROUP).is_err(), "it would change nothing");
    }
}
