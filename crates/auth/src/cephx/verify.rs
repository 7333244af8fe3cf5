//! Reading of tickets and authorizers.

use super::envelope::open;
use super::protocol::{Authorize, Authorizer, TicketBlob, TicketInfo};
use super::rotating::RotatingSecrets;
use crate::clock::ClockSkew;
use crate::key::Usage;
use crate::refusal::Refusal;
use std::time::Duration;
use types::{EntityType, Utime};

/// The view of somebody who reads tickets.
#[derive(Clone, Copy)]
pub(super) struct TicketReader<'a> {
    /// The service that the tickets must be for.
    pub service: EntityType,
    pub secrets: &'a RotatingSecrets,
    pub now: Utime,
    pub tolerance: Duration,
}

impl TicketReader<'_> {
    /// Opens a ticket and checks the times in it.
    pub fn ticket(&self, blob: &TicketBlob) -> Result<TicketInfo, Refusal> {
        if self.secrets.is_empty() {
            return Err(Refusal::NoSecrets(self.service));
        }
        let (oldest, newest) = self.secrets.range();
        let id = blob.secret_id;
        let secret = self.secrets.find(id).ok_or(Refusal::SecretNotAtHand { id, oldest, newest })?;
        let info: TicketInfo =
            open(&secret.key, Usage::TicketInfo, &blob.sealed).map_err(|_| Refusal::TicketUnreadable)?;
        ClockSkew::check_past(self.now, info.ticket.created, self.tolerance).map_err(Refusal::ClockSkew)?;
        let late = self.now.to_unix().saturating_sub(info.ticket.expires.to_unix());
        if late > self.tolerance {
            return Err(self.of_late_ticket(late));
        }
        Ok(info)
    }

    /// A ticket whose secret is still at hand may be late because this clock is wrong: the newest secret would then be
    /// late, too.
    fn of_late_ticket(&self, late: Duration) -> Refusal {
        let newest = self.secrets.find(self.secrets.range().1).map_or(self.now, |secret| secret.expires);
        let by = self.now.to_unix().saturating_sub(newest.to_unix());
        if by > self.tolerance {
            return Refusal::ClockSkew(ClockSkew { by, behind: false, now: self.now });
        }
        Refusal::TicketExpired(late)
    }

    /// Checks a ticket and the proof that its sender owns it; returns the proof.
    pub fn authorizer(&self, authorizer: &Authorizer) -> Result<(TicketInfo, Authorize), Refusal> {
        if authorizer.service != self.service {
            return Err(Refusal::OtherService { wanted: authorizer.service, own: self.service });
        }
        let info = self.ticket(&authorizer.ticket)?;
        let (ticket, authorizer_id) = (info.ticket.global_id, authorizer.global_id);
        if ticket != authorizer_id {
            return Err(Refusal::TicketOfOther { ticket, authorizer: authorizer_id });
        }
        let authorize =
            open(&info.session_key, Usage::Authorize, &authorizer.sealed).map_err(|_| Refusal::AuthorizerUnreadable)?;
        Ok((info, authorize))
    }
}
