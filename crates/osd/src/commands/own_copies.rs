//! `ceph tell osd.N getomap`: this OSD's own copy of an object, which need not be what clients read.

use control::Told;
use osdmap::OsdMap;
use pg::{OwnCopyError, Shard};
use types::{Errno, ObjectId, PgId, PoolId};
use wire::basic::Locator;
use wire::messages::CommandReply;

/// Tells whether a command is one about an object's own copy here.
pub(crate) fn is_about_one(told: &Told) -> bool {
    told.prefix == "getomap"
}

/// Returns the object that a command names, and its group. Error: the command's answer.
pub(crate) fn named(told: &Told, map: &OsdMap) -> Result<(PgId, ObjectId), CommandReply> {
    let name = told.args.word("pool");
    let by_number = || name.parse().ok().map(PoolId).filter(|id| map.pool(*id).is_some());
    let Some(pool) = map.pool_by_name(name).or_else(by_number) else {
        return Err(told.refused(Errno::ENOENT, format!("there is no pool '{name}'")));
    };
    if map.pool(pool).is_some_and(|pool| pool.is_erasure()) {
        let why = "OSDs of an erasure-coded pool have shards of objects, which are not shown";
        return Err(told.refused(Errno::EOPNOTSUPP, why));
    }
    let object = told.args.word("objname");
    let (nspace, object) = object.split_once('/').unwrap_or(("", object));
    let locator = Locator { nspace: nspace.as_bytes().to_vec().into(), ..Locator::pool(pool) };
    match map.object_to_pg(object.as_bytes(), &locator) {
        Ok((pgid, hash)) => Ok((pgid, ObjectId::head(pool, hash, nspace.as_bytes(), object.as_bytes()))),
        Err(why) => Err(told.refused(Errno::EINVAL, why.to_string())),
    }
}

/// Shows the omap of this OSD's copy, as a Ceph prints it.
pub(crate) fn answer(told: &Told, shard: &mut Shard) -> CommandReply {
    let (pgid, object) = match named(told, shard.map()) {
        Ok(named) => named,
        Err(refusal) => return refusal,
    };
    match shard.own_omap(pgid, &object) {
        Ok((header, entries)) => told.text(printed(&header, &entries)),
        Err(why) => told.refused(errno_of(why), why.to_string()),
    }
}

fn errno_of(why: OwnCopyError) -> Errno {
    match why {
        OwnCopyError::NoGroup(_) | OwnCopyError::NoObject => Errno::ENOENT,
        OwnCopyError::NotYet => Errno::EAGAIN,
        OwnCopyError::Damaged => Errno::EIO,
        OwnCopyError::TooLarge => Errno::E2BIG,
    }
}

fn printed(header: &[u8], entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries =
        entries.iter().map(|(key, value)| format!(" key={} val={}", text(key.as_ref()), text(value.as_ref())));
    format!("header={}{}", text(header), entries.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_omap_is_printed_on_one_line() {
        assert_eq!(printed(b"", &[] as &[(&[u8], &[u8])]), "header=");
        let entries = [(&b"a"[..], &b"1"[..]), (b"b", b"")];
        assert_eq!(printed(b"h", &entries), "header=h key=a val=1 key=b val=");
    }
}
