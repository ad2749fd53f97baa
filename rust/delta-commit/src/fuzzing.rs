//! Openings for the fuzz targets in `fuzz/`, which are no part of the interface.

use crate::actions::Action;
use crate::error::Result;
use crate::intent::{self, Intent, World};
use crate::log::Version;

/// An announced bundle, and what its announcement would be.
#[derive(Debug, PartialEq)]
pub struct ReadIntent {
    /// The table that it is for.
    pub world: World,
    /// The first version that it may land in.
    pub first: Version,
    /// Its expiry, milliseconds since the epoch.
    pub expires: Option<i64>,
    /// Its members.
    pub members: Vec<BundleMember>,
    /// Its body when it is written again.
    pub written: Vec<u8>,
}

/// A transaction of a bundle.
#[derive(Debug, PartialEq)]
pub struct BundleMember {
    /// Its id.
    pub id: String,
    /// The version that it read.
    pub read_version: Version,
    /// Applications whose version it read.
    pub app_ids: Vec<String>,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// Reads a body.
///
/// # Errors
/// Those of a body that nobody carries.
pub fn read_intent(body: &[u8]) -> Result<ReadIntent> {
    let intent = Intent::decode(body)?;
    let members = intent.members.iter().map(|member| BundleMember {
        id: member.id().to_string(),
        read_version: member.transaction.read_version,
        app_ids: member.transaction.reads.app_ids.iter().cloned().collect(),
        actions: member.transaction.actions.clone(),
    });
    Ok(ReadIntent {
        members: members.collect(),
        written: intent.encode()?,
        world: intent.world,
        first: intent.first,
        expires: intent.expires,
    })
}

/// The files that clean-up leaves alone while there is a bundle of this body.
#[must_use]
pub fn added_by(body: &[u8]) -> Vec<String> {
    intent::added_by(body, &[])
}
