//! Answers to clients' operations.

use crate::ops::OpResult;
use wire::messages::{OpArgs, OsdOpReply};

/// Puts the steps' results into a reply.
pub(crate) fn fill_results(reply: &mut OsdOpReply, results: Vec<OpResult>) {
    for (slot, result) in reply.ops.iter_mut().zip(results) {
        if let OpArgs::Extent(extent) = &mut slot.args
            && slot.code.is_read()
        {
            extent.length = result.outdata.len() as u64;
        }
        (slot.result, slot.outdata) = (result.rval, result.outdata);
    }
}
