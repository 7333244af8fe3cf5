//! Digests of an object are recorded, as a deep scrub has found them on all copies, or an operator wants them.

use super::Answers;
use super::execute::{Effects, OpStop, Request, Run};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::scrub::record::Record;
use mutant::Mutant;
use store::{Step, Store};
use types::Errno;

/// Records digests of an object. There are no steps if the object has changed since. Damage: EIO.
pub(crate) fn record(store: &mut Store, request: &Request<'_>, answers: &mut Answers, record: &Record) -> Run {
    answers.rewind(usize::MAX);
    let damaged = || Run::Done(Effects { result: Errno::EIO.as_result(), ..Effects::default() });
    let stat = match answers.stat(store, request.object).map_err(OpStop::from) {
        Ok(Some(stat)) => stat,
        Err(OpStop::Blocked(id)) => return Run::Blocked(id),
        Ok(None) => return Run::Done(Effects::default()),
        Err(_) => return damaged(),
    };
    let Ok(mut info) = ObjectInfo::of(&stat) else { return damaged() };
    if info.version != record.version && !mutant::is(Mutant::RecordedLate) || info.snap_set.is_whiteout {
        return Run::Done(Effects::default());
    }
    info.digests = record.digests.clone();
    let mut effects = Effects { prior_version: info.version, user_version: info.user_version, ..Effects::default() };
    (info.prior_version, info.version) = (info.version, request.next_version);
    let (object, name) = (request.object.clone(), OBJECT_INFO_ATTR.to_vec());
    effects.steps.push(Step::SetAttr { object, name, value: info.to_bytes() });
    Run::Done(effects)
}
