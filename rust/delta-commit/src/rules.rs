//! The committer's rules. A test may switch off each of them to show that it is needed.

/// The rules in force. Only the simulator's mutants switch any off.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch a mechanism")]
pub struct ProtocolRules {
    /// An intent is carried only inside its window, and only after every body since its first version was read.
    pub r1_window: bool,
    /// Old intents are left alone; a doubt is settled by deletion and the version after the tip read after it.
    pub r2_no_zombies: bool,
    /// An intent that was deleted to settle a doubt does not come back after a crash.
    pub r2_withdrawn_for_good: bool,
    /// An intent is left alone after the expiry in its body, however young its object is.
    pub r2_expiry: bool,
    /// A doubt about an announcement is settled only some time after the expiry: the store's servers may differ in
    /// time.
    pub r2_clock_margin: bool,
    /// An intent is looked up again before each attempt: it may be deleted, and the listing out of date.
    pub r2_read_anew: bool,
    /// An announcement whose answer was lost is in doubt until a listing shows it, or it has expired.
    pub r2_doubt_until_seen: bool,
    /// A lost answer to an announcement does not say that there is none.
    pub r3_unheard_is_doubt: bool,
    /// A transaction that was announced or tried is never given up as certainly not committed.
    pub r3_no_lone_abort: bool,
    /// Members land once: by id and by path, in a batch and against the log.
    pub r4_no_doubles: bool,
    /// A version holds blind appends only, or exactly one other transaction.
    pub r5_alone_or_blind: bool,
    /// Intents are carried only by processes that know the same table, metadata and protocol.
    pub r6_same_world: bool,
    /// The intents are listed anew before every attempt.
    pub r7_always_list: bool,
    /// An intent is deleted only when all of its members are in versions.
    pub r7_deleted_last: bool,
    /// Data survives a crash before the intent, and the intent before the log. No version is built upon or acknowledged
    /// before it survives a crash.
    pub r8_durable_first: bool,
    /// A data file whose sync failed is never synced again.
    pub r8_data_once: bool,
    /// A log whose sync failed is never synced again.
    pub r8_log_once: bool,
    /// After a lost reply the same version is tried until it is seen.
    pub r9_no_gap: bool,
    /// Marks of rows are merged with those of the versions that came first.
    pub r10_merged_rows: bool,
    /// Members are announced at once where others commit too, and left to them for a while. This is about speed alone:
    /// every promise holds without it.
    pub leaves_to_others: bool,
    /// Intents say when they expire: format 2. A process of the former version has this switched off.
    pub expiring_intents: bool,
    /// A transaction does not follow a version that follows an append which counts as later than the transaction.
    pub r11_one_order: bool,
    /// Row ids come after those that were given in the version before, whoever wrote it.
    pub r12_new_row_ids: bool,
    /// The last version that this process knows is looked up before the next one is created.
    pub r13_checked_before: bool,
    /// The version before one that was created, or read, is looked up before anything is acknowledged from it.
    pub r13_checked_after: bool,
    /// A version that was created in the log of another table is removed.
    pub r13_retracted: bool,
    /// An announcement has a name that no other one has, also where a process was cloned.
    pub r2_own_names: bool,
}

impl Default for ProtocolRules {
    fn default() -> Self {
        Self {
            r1_window: true,
            r2_no_zombies: true,
            r2_withdrawn_for_good: true,
            r2_expiry: true,
            r2_clock_margin: true,
            r2_read_anew: true,
            r2_doubt_until_seen: true,
            r3_unheard_is_doubt: true,
            r3_no_lone_abort: true,
            r4_no_doubles: true,
            r5_alone_or_blind: true,
            r6_same_world: true,
            r7_always_list: true,
            r7_deleted_last: true,
            r8_durable_first: true,
            r8_data_once: true,
            r8_log_once: true,
            r9_no_gap: true,
            r10_merged_rows: true,
            leaves_to_others: true,
            expiring_intents: true,
            r11_one_order: true,
            r12_new_row_ids: true,
            r13_checked_before: true,
            r13_checked_after: true,
            r13_retracted: true,
            r2_own_names: true,
        }
    }
}
