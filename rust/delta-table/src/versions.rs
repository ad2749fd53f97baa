//! The reader of versions: in their order, and requested ahead of their parsing where each takes a request.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::Bytes;
use delta_commit::Version;
use delta_commit::log::version_file;

use crate::error::Result;
use crate::log_dir::LogDir;
use crate::storage::Bodies;

/// The most versions that are requested where nobody knows whether they are there.
const MOST_UNLISTED: Version = 32;

/// The most bytes of versions that are kept to be read again.
const MOST_KEPT: usize = 4 << 20;

/// The newest versions that were read and will be read again, within [`MOST_KEPT`].
#[derive(Default)]
pub(crate) struct VersionCache {
    bodies: BTreeMap<Version, Bytes>,
    bytes: usize,
}

impl VersionCache {
    /// Adds a version that comes after all others.
    pub fn add(&mut self, version: Version, body: Bytes) {
        self.bytes += body.len();
        self.bodies.insert(version, body);
        while self.bytes > MOST_KEPT
            && let Some((_, oldest)) = self.bodies.pop_first()
        {
            self.bytes -= oldest.len();
        }
    }
}

/// The bodies of successive versions, up to the first one that is not there.
pub(crate) struct Versions<'a> {
    log: &'a LogDir,
    next: Version,
    last: Version,
    kept: BTreeMap<Version, Bytes>,
    /// Those up to `requested_to` that are not kept.
    requested: Bodies<'a>,
    requested_to: Version,
    /// The number of versions to request next.
    ahead: Version,
}

impl LogDir {
    /// Reads the versions of a range, up to the first one that is not there. Those up to `listed` are known to be
    /// there. After it a single one is requested, then twice as many each time, so that at most half of the requests
    /// miss. What was kept of an earlier reading of the same table is not requested.
    pub fn versions(
        &self,
        range: RangeInclusive<Version>,
        listed: Version,
        cache: VersionCache,
    ) -> Versions<'_> {
        let (next, last) = range.into_inner();
        let mut versions = Versions {
            log: self,
            next,
            last,
            kept: cache.bodies,
            requested: Box::new(std::iter::empty()),
            requested_to: next - 1,
            ahead: 1,
        };
        versions.request(listed);
        versions
    }

    /// The bodies of these versions in this order; none for one that is not there.
    pub fn bodies<'a>(
        &'a self,
        versions: impl Iterator<Item = Version> + Clone + 'a,
    ) -> impl Iterator<Item = Result<(Version, Option<Bytes>)>> + 'a {
        let names = versions
            .clone()
            .map(|version| Self::named(&version_file(version)));
        let bodies = self.0.read_ahead(Box::new(names));
        versions.zip(bodies).map(|(version, body)| Ok((version, body?)))
    }
}

impl Versions<'_> {
    /// Requests the next versions, up to this one.
    fn request(&mut self, to: Version) {
        let range = self.next..=to.min(self.last);
        self.requested_to = *range.end();
        let kept: BTreeSet<Version> = self.kept.keys().copied().collect();
        let versions = range.filter(move |version| !kept.contains(version));
        self.requested = Box::new(self.log.bodies(versions).map(|body| Ok(body?.1)));
    }

    fn body(&mut self) -> Result<Option<Bytes>> {
        if let Some(body) = self.kept.remove(&self.next) {
            return Ok(Some(body));
        }
        if self.next > self.requested_to {
            self.request(self.next + self.ahead - 1);
            self.ahead = (self.ahead * 2).min(MOST_UNLISTED);
        }
        self.requested.next().unwrap_or(Ok(None))
    }
}

impl Iterator for Versions<'_> {
    type Item = Result<(Version, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next > self.last {
            return None;
        }
        let version = self.next;
        match self.body() {
            Ok(Some(body)) => {
                self.next += 1;
                Some(Ok((version, body)))
            }
            end => {
                // Nothing after a gap is of the table, as far as its reader can tell.
                self.last = version - 1;
                end.err().map(Err)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;
    use crate::log_dir::FOLDER;
    use crate::tests::process::Process;

    const VERSIONS: Version = 50;

    fn bytes_of(version: Version) -> Bytes {
        Bytes::from(version.to_string())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn versions_come_in_order_up_to_the_first_gap_and_are_requested_once(
            missing in btree_set(0..VERSIONS, 0..3),
            kept in btree_set(0..VERSIONS, 0..20),
            first in 0..VERSIONS,
            listed in 0..VERSIONS,
            last in prop_oneof![0..VERSIONS, Just(Version::MAX)],
            ahead in 0..40_usize,
        ) {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join(FOLDER)).unwrap();
            let is_there = |version: &Version| (0..VERSIONS).contains(version) && !missing.contains(version);
            for version in (0..VERSIONS).filter(is_there) {
                fs::write(folder.path().join(FOLDER).join(version_file(version)), bytes_of(version)).unwrap();
            }
            let (storage, reads) = Process::counted_ahead(folder.path(), ahead);
            let log = LogDir(storage);
            let mut held = VersionCache::default();
            for version in &kept {
                held.add(*version, bytes_of(*version));
            }
            let found: Vec<_> = log.versions(first..=last, listed, held).map(Result::unwrap).collect();
            let expected = (first..=last).take_while(|version| is_there(version) || kept.contains(version));
            let expected: Vec<_> = expected.map(|version| (version, bytes_of(version))).collect();
            let requested: Vec<_> = reads.lock().unwrap().iter().map(|(name, _)| name.clone()).collect();
            let once: BTreeSet<_> = requested.iter().collect();
            prop_assert_eq!(once.len(), requested.len());
            let of_kept = kept.iter().map(|version| LogDir::named(&version_file(*version)));
            prop_assert!(of_kept.clone().all(|name| !requested.contains(&name)));
            let in_vain = if first + i64::try_from(found.len()).unwrap() <= listed { ahead } else { found.len().min(32) };
            prop_assert!(requested.len() <= found.len() + 1 + in_vain);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut cache = VersionCache::default();
        for version in 0..100 {
            cache.add(version, Bytes::from(vec![0; 100_000]));
        }
        let held: Vec<_> = cache.bodies.keys().copied().collect();
        assert_eq!(held, (100 - 41..100).collect::<Vec<_>>());
        cache.add(100, Bytes::from(vec![0; MOST_KEPT + 1]));
        assert!(cache.bodies.is_empty() && cache.bytes == 0);
    }
}
