//! State of one process, which a forked child makes anew.

use std::convert::Infallible;
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

    /// This process' value, which is made if that succeeds. A failure is not kept: the next call tries again.
    ///
    /// # Errors
    /// That of `make`.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let mut new = match self.get() {
            Some(value) => return Ok(value),
            None => Some(make()?),
        };
        let process = std::process::id();
        let mut node = self;
        loop {
            match node.here.get() {
                // Another thread may have been quicker.
                Some((owner, value)) if *owner == process => return Ok(value),
                Some(_) => node = node.next.get_or_init(|| Box::new(Self::new())),
                None => {
                    if let Some(new) = new.take() {
                        let _ = node.here.set((process, new));
                    }
                }
            }
        }
    }

    /// This process' value.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let Ok(value) = self.get_or_try_init(|| Ok::<_, Infallible>(make()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_not_kept_and_a_value_is() {
        let value = PerProcess::new();
        assert_eq!(value.get_or_try_init(|| Err("no thread")), Err("no thread"));
        assert_eq!(value.get(), None);
        assert_eq!(value.get_or_try_init(|| Ok::<_, &str>(1)), Ok(&1));
        assert_eq!(value.get_or_try_init(|| Err("not asked")), Ok(&1));
        assert_eq!(value.get_or_init(|| 2), &1);
    }
}
