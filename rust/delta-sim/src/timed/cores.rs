//! The cores of a host, which threads get by turns.

use std::collections::VecDeque;

use super::events::Moment;

/// The longest time for which a thread has a core while others wait for one: that of the scheduler of Linux.
const TURN: Moment = 3_000;

/// Cores, and the threads that wait for one. What a thread has to do is mostly shorter than a turn, so most of those
/// that come at once are done one after the other, and not all at the end.
#[derive(Debug)]
pub(crate) struct Cores<T> {
    free: u32,
    /// Threads, each with the time that it is yet to get.
    waiting: VecDeque<(T, Moment)>,
}

impl<T> Cores<T> {
    pub(crate) fn new(cores: u32) -> Self {
        Self {
            free: cores.max(1),
            waiting: VecDeque::new(),
        }
    }

    /// Has a thread wait for a core, for so much time.
    pub(crate) fn wait(&mut self, thread: T, time: Moment) {
        self.waiting.push_back((thread, time));
    }

    /// Begins the turn of the next thread, if a core is free. Returns the thread, the time of its turn, and what is
    /// left for it after that.
    pub(crate) fn begin(&mut self) -> Option<(T, Moment, Moment)> {
        if self.free == 0 {
            return None;
        }
        let (thread, time) = self.waiting.pop_front()?;
        self.free -= 1;
        let turn = time.min(TURN);
        Some((thread, turn, time - turn))
    }

    /// Ends a turn. A thread that has something left waits again.
    pub(crate) fn end(&mut self, thread: T, left: Moment) -> Option<T> {
        self.free += 1;
        if left == 0 {
            return Some(thread);
        }
        self.waiting.push_back((thread, left));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs threads that begin at once, and returns the moment at which each ends.
    fn ends(cores: u32, times: &[Moment]) -> Vec<Moment> {
        let mut cores = Cores::new(cores);
        for (thread, time) in times.iter().enumerate() {
            cores.wait(thread, *time);
        }
        let (mut running, mut ends, mut now) = (Vec::new(), vec![0; times.len()], 0);
        loop {
            while let Some((thread, turn, left)) = cores.begin() {
                running.push((now + turn, thread, left));
            }
            running.sort_unstable();
            if running.is_empty() {
                return ends;
            }
            let (end, thread, left) = running.remove(0);
            now = end;
            if let Some(thread) = cores.end(thread, left) {
                ends[thread] = now;
            }
        }
    }

    #[test]
    fn threads_that_take_a_turn_each_are_done_one_after_the_other() {
        assert_eq!(ends(1, &[1_000, 2_000, 500]), [1_000, 3_000, 3_500]);
        assert_eq!(ends(2, &[1_000, 2_000, 500]), [1_000, 2_000, 1_500]);
    }

    #[test]
    fn a_long_thread_does_not_keep_others_waiting() {
        assert_eq!(ends(1, &[30_000, 1_000]), [31_000, 4_000]);
        assert_eq!(ends(1, &[6_000, 6_000]), [9_000, 12_000]);
    }
}
