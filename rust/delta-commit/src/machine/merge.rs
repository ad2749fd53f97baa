//! The merge of a transaction that marks rows with the versions that marked rows of the same files first.

use super::{Asked, AskedEffect, Machine};
use crate::conflict;
use crate::error::CommitError;
use crate::intent::PreparedAppend;
use crate::log::Effect;
use crate::merge::{Marked, MergeRequest};
use crate::transaction::{MemberId, Transaction};
use crate::winner::Winner;

/// The marks of a version that a transaction is to be merged with.
pub(super) fn marked<'a>(
    transaction: &'a Transaction,
    winner: &'a Winner,
) -> impl Iterator<Item = Marked> + use<'a> {
    let adds = winner.adds.iter();
    adds.filter(|add| conflict::is_merged(transaction, winner, &add.normal_path()))
        .map(|add| Marked {
            version: winner.version,
            operation: winner.operation().to_owned(),
            add: add.clone(),
        })
}

impl Machine {
    /// R10: merges the transaction in flight with the marks that came before it. None of its attempts can succeed any
    /// more: each was at a version that others wrote.
    pub(super) fn merge(&mut self) -> Option<AskedEffect> {
        let other = self.other.as_mut()?;
        if !self.rules.r10_merged_rows {
            other.theirs.clear();
        }
        if other.theirs.is_empty() {
            return None;
        }
        let request = MergeRequest {
            transaction: other.prepared.transaction.clone(),
            theirs: other.theirs.clone(),
        };
        Some((Asked::Merge(other.id()), Effect::Merge(request)))
    }

    pub(super) fn on_merged(&mut self, id: MemberId, merged: Result<Box<Transaction>, CommitError>) {
        let Some(mut member) = self.other.take_if(|member| member.id() == id) else {
            return;
        };
        self.failures = 0;
        let prepared = merged.and_then(|merged| {
            merged.check()?;
            PreparedAppend::new(*merged)
        });
        match prepared {
            Ok(prepared) => {
                member.synced = prepared.transaction.unsynced.is_empty();
                member.prepared = prepared;
                member.theirs.clear();
                self.other = Some(member);
            }
            Err(error) => self.refuse(&mut member, error),
        }
    }
}
