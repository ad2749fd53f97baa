//! The times that effects took, by their kind.

use std::time::Duration;

use crate::log::Effect;

/// The kind of an [`Effect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectKind {
    /// [`Effect::FindTip`]
    FindTip,
    /// [`Effect::ReadVersion`]
    ReadVersion,
    /// [`Effect::PutVersion`]
    PutVersion,
    /// [`Effect::CheckVersion`]
    CheckVersion,
    /// [`Effect::RetractVersion`]
    RetractVersion,
    /// [`Effect::ListIntents`]
    ListIntents,
    /// [`Effect::ReadIntents`]
    ReadIntents,
    /// [`Effect::PutIntent`]
    PutIntent,
    /// [`Effect::DeleteIntents`]
    DeleteIntents,
    /// [`Effect::WithdrawIntents`]
    WithdrawIntents,
    /// [`Effect::SyncData`]
    SyncData,
    /// [`Effect::SyncLog`]
    SyncLog,
    /// [`Effect::Merge`]
    Merge,
    /// [`Effect::Pause`]
    Pause,
}

impl EffectKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::FindTip,
        Self::ReadVersion,
        Self::PutVersion,
        Self::CheckVersion,
        Self::RetractVersion,
        Self::ListIntents,
        Self::ReadIntents,
        Self::PutIntent,
        Self::DeleteIntents,
        Self::WithdrawIntents,
        Self::SyncData,
        Self::SyncLog,
        Self::Merge,
        Self::Pause,
    ];

    /// The kind of an effect.
    #[must_use]
    pub const fn of(effect: &Effect) -> Self {
        match effect {
            Effect::FindTip => Self::FindTip,
            Effect::ReadVersion(_) => Self::ReadVersion,
            Effect::PutVersion(..) => Self::PutVersion,
            Effect::CheckVersion(..) => Self::CheckVersion,
            Effect::RetractVersion(..) => Self::RetractVersion,
            Effect::ListIntents => Self::ListIntents,
            Effect::ReadIntents(..) => Self::ReadIntents,
            Effect::PutIntent(..) => Self::PutIntent,
            Effect::DeleteIntents(_) => Self::DeleteIntents,
            Effect::WithdrawIntents(_) => Self::WithdrawIntents,
            Effect::SyncData(_) => Self::SyncData,
            Effect::SyncLog(..) => Self::SyncLog,
            Effect::Merge(_) => Self::Merge,
            Effect::Pause(_) => Self::Pause,
        }
    }

    /// Its name, for people and programs: that of the operation of [`LogStore`](crate::LogStore) where it is one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FindTip => "find_tip",
            Self::ReadVersion => "read_version",
            Self::PutVersion => "put_version",
            Self::CheckVersion => "check_version",
            Self::RetractVersion => "retract_version",
            Self::ListIntents => "list_intents",
            Self::ReadIntents => "read_intents",
            Self::PutIntent => "put_intent",
            Self::DeleteIntents => "delete_intents",
            Self::WithdrawIntents => "withdraw_intents",
            Self::SyncData => "sync_data",
            Self::SyncLog => "sync_log",
            Self::Merge => "merge",
            Self::Pause => "pause",
        }
    }
}

/// The times of effects of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EffectTimes {
    /// The number of effects.
    pub count: u64,
    /// The time of all of them.
    pub total: Duration,
    /// The time of the longest one.
    pub longest: Duration,
}

/// The times of all effects of a committer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings([EffectTimes; EffectKind::ALL.len()]);

impl Timings {
    /// Counts an effect that took so long.
    pub fn note(&mut self, kind: EffectKind, took: Duration) {
        let times = &mut self.0[kind as usize];
        times.count += 1;
        times.total += took;
        times.longest = times.longest.max(took);
    }

    /// The times of a kind.
    #[must_use]
    pub const fn of(&self, kind: EffectKind) -> EffectTimes {
        self.0[kind as usize]
    }

    /// The kinds of which there were effects, and their times.
    pub fn iter(&self) -> impl Iterator<Item = (EffectKind, EffectTimes)> {
        let all = EffectKind::ALL.into_iter().zip(self.0);
        all.filter(|(_, times)| times.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_times_of_its_own() {
        let mut timings = Timings::default();
        for (number, kind) in (1..).zip(EffectKind::ALL) {
            timings.note(kind, Duration::from_millis(number));
            timings.note(kind, Duration::from_millis(1));
        }
        for (number, (kind, times)) in (1..).zip(timings.iter()) {
            assert_eq!(kind, EffectKind::ALL[number - 1]);
            let longest = Duration::from_millis(number as u64);
            assert_eq!((times.count, times.longest), (2, longest));
            assert_eq!(times.total, longest + Duration::from_millis(1));
        }
        assert_eq!(Timings::default().iter().count(), 0);
    }
}
