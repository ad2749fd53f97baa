//! Intents that were read before. A body never changes under its name, so none is read twice while it is kept here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::intent::Intent;

/// The most bytes of bodies of which the intents are kept. What was read beyond them is read again: it is more than one
/// version can carry.
pub(super) const MOST_KEPT: u64 = 8 << 20;

/// Intents by their names.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownIntents {
    /// Each with the bytes of its body; none for what is malformed or of a later format.
    intents: HashMap<String, Option<(Arc<Intent>, u64)>>,
    bytes: u64,
}

impl KnownIntents {
    /// The intent of this name, if it is kept.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Intent>> {
        self.intents.get(name)?.as_ref().map(|(intent, _)| intent)
    }

    /// Returns true if the body of this name was no intent.
    pub(super) fn is_unreadable(&self, name: &str) -> bool {
        matches!(self.intents.get(name), Some(None))
    }

    /// Keeps an intent with a body of so many bytes, if there is room for it.
    pub(super) fn keep(&mut self, name: &str, intent: &Arc<Intent>, bytes: u64) {
        if self.bytes + bytes <= MOST_KEPT && !self.intents.contains_key(name) {
            self.bytes += bytes;
            let kept = Some((Arc::clone(intent), bytes));
            self.intents.insert(name.to_owned(), kept);
        }
    }

    /// Notes that the body of this name is no intent, or too long for one.
    pub(super) fn note_unreadable(&mut self, name: &str) {
        self.forget(name);
        self.intents.insert(name.to_owned(), None);
    }

    pub(super) fn forget(&mut self, name: &str) {
        if let Some(Some((_, bytes))) = self.intents.remove(name) {
            self.bytes -= bytes;
        }
    }

    /// Forgets intents that are gone.
    pub(super) fn retain(&mut self, listed: &HashSet<&str>) {
        self.intents.retain(|name, kept| {
            let is_listed = listed.contains(name.as_str());
            if let Some((_, bytes)) = kept.as_ref().filter(|_| !is_listed) {
                self.bytes -= bytes;
            }
            is_listed
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::intent::World;

    fn intent() -> Arc<Intent> {
        Arc::new(Intent {
            world: World {
                table_id: "t".to_owned(),
                changed_in: 0,
            },
            first: 1,
            expires: None,
            members: Vec::new(),
        })
    }

    proptest! {
        #[test]
        fn no_more_is_kept_than_the_bound_and_nothing_is_forgotten_but_what_is_gone(
            steps in prop::collection::vec((0..40_u8, 0..4_u8, 0..MOST_KEPT), 0..200)
        ) {
            let mut known = KnownIntents::default();
            let mut model = HashMap::new();
            for (number, step, bytes) in steps {
                let name = number.to_string();
                match step {
                    0 => {
                        known.forget(&name);
                        model.remove(&name);
                    }
                    1 => {
                        let listed: Vec<String> = model.keys().filter(|other| **other < name).cloned().collect();
                        known.retain(&listed.iter().map(String::as_str).collect());
                        model.retain(|other, _| *other < name);
                    }
                    _ => {
                        known.keep(&name, &intent(), bytes);
                        let kept: u64 = model.values().sum();
                        if kept + bytes <= MOST_KEPT {
                            model.entry(name).or_insert(bytes);
                        }
                    }
                }
                let kept: u64 = model.values().sum();
                prop_assert_eq!(known.bytes, kept);
                prop_assert!(kept <= MOST_KEPT);
                prop_assert!((0..40_u8).all(|n| known.get(&n.to_string()).is_some() == model.contains_key(&n.to_string())));
            }
        }
    }
}
