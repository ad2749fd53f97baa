//! State of one process, which a forked child makes anew.

use std::sync::OnceLock;

/// One value per process that uses it. A forked child makes its own and never touches its parent's: a thread that the
/// child does not have may have held a lock of it.
pub struct PerProcess<T> {
    here: OnceLock<(u32, T)>,
    next: OnceLock<Box<Self>>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            here: OnceLock::new(),
            next: OnceLock::new(),
        }
    }

    /// This process' value, if it was made.
    pub fn get(&self) -> Option<&T> {
        let process = std::process::id();
        let mut node = self;
        loop {
            match node.here.get() {
                Some((owner, value)) if *owner == process => return Some(value),
                Some(_) => node = node.next.get()?,
                None => return None,
            }
        }
    }

    /// This process' value.
    pub fn get_or_init(&self, mut make: impl FnMut() -> T) -> &T {
        let process = std::process::id();
        let mut node = self;
        loop {
            let (owner, value) = node.here.get_or_init(|| (process, make()));
            if *owner == process {
                return value;
            }
            node = node.next.get_or_init(|| Box::new(Self::new()));
        }
    }
}
