//! Scenarios: who appends what, where, and what it takes there.

use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// A scenario of the timed mode. What is not given is as in its default: one writer that appends once to a table on an
/// object store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Its name, for the report.
    pub name: String,
    /// All that is drawn follows from it.
    pub seed: u64,
    /// Hosts, over which the processes are spread.
    pub hosts: usize,
    /// Cores of each host.
    pub cores: u32,
    /// Processes, over which the writers are spread.
    pub processes: usize,
    /// Writers in all.
    pub writers: usize,
    /// Tables, over which the writers of each process are spread.
    pub tables: usize,
    /// Files of an append.
    pub files: usize,
    /// True if the appends of a process that meet share a file and a transaction.
    pub coalesce: bool,
    /// The milliseconds for which an idle process waits for further appends before it begins a round.
    pub company_ms: u64,
    /// The most milliseconds by which the clock of a host is early or late.
    pub skew_ms: u32,
    /// The pauses of each process, if there are any.
    pub pauses: Option<Pauses>,
    /// The arrival of appends.
    pub load: Load,
    /// The processor time of what processes do.
    pub work: ProcessorTimes,
    /// The store.
    pub store: StoreModel,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            seed: 1,
            hosts: 1,
            cores: 8,
            processes: 1,
            writers: 1,
            tables: 1,
            files: 1,
            coalesce: false,
            company_ms: 0,
            skew_ms: 0,
            pauses: None,
            load: Load::Burst { appends: 1 },
            work: ProcessorTimes::default(),
            store: StoreModel::ObjectStore(ObjectStore::default()),
        }
    }
}

impl Scenario {
    /// Checks that it can be run.
    ///
    /// # Errors
    /// A count that is 0, or too small for what is spread over it, in words.
    pub fn check(&self) -> Result<(), String> {
        let spread = [
            ("hosts", self.hosts, "processes", self.processes),
            ("processes", self.processes, "writers", self.writers),
        ];
        for (over, few, what, many) in spread {
            if few == 0 || many < few {
                return Err(format!("{many} {what} cannot be spread over {few} {over}"));
            }
        }
        if self.tables == 0 || self.files == 0 {
            return Err("there must be a table, and an append must have a file".to_owned());
        }
        Ok(())
    }
}

/// The arrival of appends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Load {
    /// All writers begin at once.
    Burst {
        /// Appends of each writer, one after the other.
        appends: u64,
    },
    /// Writers append without end.
    Endless {
        /// The seconds before those that count.
        warm_up_seconds: f64,
        /// The seconds that count.
        seconds: f64,
        /// The appends that each writer begins a second, on average. Without it, each begins the next one as soon as it
        /// has its answer. A writer never has two under way.
        each_per_second: Option<f64>,
    },
}

/// Pauses of a process, as by a collector of garbage or a hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// Pauses of each process an hour, on average.
    pub an_hour: f64,
    /// The time of a pause.
    pub time: Latency,
}

/// Processor time. What is not in here takes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessorTimes {
    /// Microseconds from an answer to the moment from which the wait for the next one counts. One thread of a process
    /// has them at a time, with Python's lock.
    pub prepare_us: u64,
    /// Microseconds of writing the file of an append, and of handing it in, likewise.
    pub write_us: u64,
    /// Microseconds of a request.
    pub request_us: u64,
    /// Nanoseconds of reading an action of a version or of an intent.
    pub parse_ns: u64,
    /// Nanoseconds of an action of an attempt.
    pub seal_ns: u64,
    /// Microseconds that a version costs its process beside its commits: checkpoints.
    pub version_us: u64,
    /// Microseconds that a thread takes longer on a core which another process had before it.
    pub cold_us: u64,
}

/// The store that tables are on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum StoreModel {
    /// An object store.
    ObjectStore(ObjectStore),
    /// A local disk.
    Disk(Disk),
}

/// An object store. The default is S3 Standard, as `docs/design/scale.md` says with its sources.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectStore {
    /// A GET or a HEAD, to the first byte.
    pub get: Latency,
    /// A PUT or a DELETE of a small object.
    pub put: Latency,
    /// A PUT that creates an object or fails.
    pub conditional_put: Latency,
    /// A page of a listing.
    pub list: Latency,
    /// Megabytes a second of one request.
    pub megabytes_per_second: f64,
    /// GET, HEAD and LIST that a prefix takes a second; 0 for any number. The log of a table and its intents count as
    /// one prefix, its data files as others.
    pub reads_per_second: f64,
    /// PUT and DELETE that a prefix takes a second; 0 for any number.
    pub writes_per_second: f64,
    /// Prefixes of the data files.
    pub data_prefixes: u32,
    /// Conditional PUT that are answered a second for one key; 0 for any number.
    pub puts_per_key: f64,
    /// Seconds after which the answer to an attempt counts as lost.
    pub patience_seconds: f64,
    /// US dollars of 1,000 PUT or LIST.
    pub write_usd: f64,
    /// US dollars of 1,000 GET or HEAD.
    pub read_usd: f64,
}

impl Default for ObjectStore {
    fn default() -> Self {
        Self {
            get: Latency::new(30.0, 200.0),
            put: Latency::new(60.0, 200.0),
            conditional_put: Latency::new(63.0, 200.0),
            list: Latency::new(50.0, 200.0),
            megabytes_per_second: 50.0,
            reads_per_second: 5_500.0,
            writes_per_second: 3_500.0,
            data_prefixes: 1,
            puts_per_key: 15.0,
            patience_seconds: 30.0,
            write_usd: 0.005,
            read_usd: 0.0004,
        }
    }
}

/// An effect that waits for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synced {
    /// Microseconds of processor time.
    pub cpu_us: u64,
    /// Microseconds of a disk that does nothing else.
    pub disk_us: u64,
    /// The waits for the disk that this is in all. After each, the thread has to get a core again.
    pub waits: u64,
}

/// A local disk: the time of each effect on a machine that does nothing else, in microseconds. Where nothing is synced,
/// it is processor time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Looking for the newest version.
    pub find_tip_us: u64,
    /// Reading a version, or finding that it is not there.
    pub read_version_us: u64,
    /// Creating a version.
    pub put_version: Synced,
    /// Listing no intent.
    pub list_intents_us: u64,
    /// An intent in a listing.
    pub list_intent_us: u64,
    /// Reading an intent.
    pub read_intent_us: u64,
    /// Announcing a bundle.
    pub put_intent_us: u64,
    /// Deleting an intent.
    pub delete_intent_us: u64,
    /// Syncing a data file and its folders.
    pub sync_data: Synced,
    /// Syncing a version that nobody has synced.
    pub sync_log: Synced,
    /// Syncing a version that somebody has.
    pub sync_again: Synced,
    /// Syncs that the disk does side by side in the time of one.
    pub side_by_side: u32,
}
