//! The cores of a host, which threads get by turns.

use std::collections::VecDeque;

use super::events::Moment;

/// The longest time for which a thread has a core while others wait for one: that of the scheduler of Linux.
const TURN: Moment = 3_000;

/// Cores, and the threads that wait for one. What a thread has to do is mostly shorter than a turn, so most of those
/// that come at once are done one after the other, and not all at the end.
///
/// A thread that has something more to do keeps its core, up to the end of its turn. A core that another process had
/// before has nothing of a thread in its caches: the thread takes longer.
#[derive(Debug)]
pub(crate) struct Cores<T> {
    /// Of each free core, the process that had it last.
    free: Vec<Option<usize>>,
    waiting: VecDeque<CoreWait<T>>,
    /// Processes of which a thread has ended just now, each with the time that its turn had taken.
    ended: Vec<(usize, Moment)>,
    /// The time that a turn takes longer after another process.
    cold: Moment,
}

/// A thread that waits for a core.
#[derive(Debug)]
struct CoreWait<T> {
    thread: T,
    process: usize,
    /// The time that it is yet to get.
    time: Moment,
    /// The time that its process has had the core already.
    had: Moment,
}

/// A turn of a thread on a core.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn<T> {
    pub(crate) thread: T,
    pub(crate) process: usize,
    pub(crate) time: Moment,
    /// The time that its process had the core before it.
    had: Moment,
    /// True if another process had the core before.
    pub(crate) is_cold: bool,
    /// The time that is left for the thread after it.
    pub(crate) left: Moment,
}

impl<T> Cores<T> {
    pub(crate) fn new(cores: u32, cold: Moment) -> Self {
        Self {
            free: vec![None; cores.max(1) as usize],
            waiting: VecDeque::new(),
            ended: Vec::new(),
            cold,
        }
    }

    /// Has a thread of a process wait for a core, for so much time.
    pub(crate) fn wait(&mut self, thread: T, process: usize, time: Moment) {
        let had = 0;
        self.waiting.push_back(CoreWait {
            thread,
            process,
            time,
            had,
        });
    }

    /// Has a thread that is awake go on, for so much time: on the core that its process has just now, if it has one.
    pub(crate) fn go_on(&mut self, thread: T, process: usize, time: Moment) {
        let Some(core) = self.ended.iter().position(|(ended, _)| *ended == process) else {
            return self.wait(thread, process, time);
        };
        let (_, had) = self.ended.swap_remove(core);
        self.waiting.push_front(CoreWait {
            thread,
            process,
            time,
            had,
        });
    }

    /// Forgets which threads have ended: whatever goes on at their moment has begun.
    pub(crate) fn pass(&mut self) {
        self.ended.clear();
    }

    /// Begins the turn of the next thread, if a core is free: the one that its process had last, if that is free.
    pub(crate) fn begin(&mut self) -> Option<Turn<T>> {
        let process = self.waiting.front()?.process;
        let warm = self.free.iter().position(|last| *last == Some(process));
        let core = warm.or(self.free.len().checked_sub(1))?;
        self.free.swap_remove(core);
        let CoreWait {
            thread, time, had, ..
        } = self.waiting.pop_front()?;
        let is_cold = warm.is_none();
        let time = time + if is_cold { self.cold } else { 0 };
        let turn = time.min(TURN - had);
        Some(Turn {
            thread,
            process,
            time: turn,
            had,
            is_cold,
            left: time - turn,
        })
    }

    /// Ends a turn. A thread that has something left waits again.
    pub(crate) fn end(&mut self, turn: Turn<T>) -> Option<T> {
        self.free.push(Some(turn.process));
        let had = turn.had + turn.time;
        if turn.left == 0 {
            if had < TURN {
                self.ended.push((turn.process, had));
            }
            return Some(turn.thread);
        }
        self.wait(turn.thread, turn.process, turn.left);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs threads that begin at once, each of a process of its own, and returns the moment at which each ends.
    fn ends(cores: u32, cold: Moment, times: &[Moment]) -> Vec<Moment> {
        let mut cores = Cores::new(cores, cold);
        for (thread, time) in times.iter().enumerate() {
            cores.wait(thread, thread, *time);
        }
        let (mut running, mut ends, mut now) = (Vec::new(), vec![0; times.len()], 0);
        loop {
            cores.pass();
            while let Some(turn) = cores.begin() {
                running.push((now + turn.time, turn));
            }
            running.sort_unstable_by_key(|(end, turn)| (*end, turn.thread));
            if running.is_empty() {
                return ends;
            }
            let (end, turn) = running.remove(0);
            now = end;
            if let Some(thread) = cores.end(turn) {
                ends[thread] = now;
            }
        }
    }

    #[test]
    fn threads_that_take_a_turn_each_are_done_one_after_the_other() {
        assert_eq!(ends(1, 0, &[1_000, 2_000, 500]), [1_000, 3_000, 3_500]);
        assert_eq!(ends(2, 0, &[1_000, 2_000, 500]), [1_000, 2_000, 1_500]);
    }

    #[test]
    fn a_long_thread_does_not_keep_others_waiting() {
        assert_eq!(ends(1, 0, &[30_000, 1_000]), [31_000, 4_000]);
        assert_eq!(ends(1, 0, &[6_000, 6_000]), [9_000, 12_000]);
    }

    #[test]
    fn a_core_that_another_process_had_takes_longer() {
        assert_eq!(ends(1, 100, &[1_000, 2_000]), [1_100, 3_200]);
        let mut cores = Cores::new(2, 100);
        let mut colds = |process| {
            cores.wait(process, process, 1_000);
            let turn = cores.begin().unwrap();
            let found = (turn.is_cold, turn.time);
            cores.end(turn);
            cores.pass();
            found
        };
        // Each finds the core that it had before.
        assert_eq!(colds(7), (true, 1_100));
        assert_eq!(colds(7), (false, 1_000));
    }

    #[test]
    fn a_process_goes_on_with_its_core_to_the_end_of_its_turn() {
        let mut cores = Cores::new(1, 0);
        cores.wait("one", 1, 2_000);
        cores.wait("other", 2, 500);
        let turn = cores.begin().unwrap();
        assert_eq!(cores.end(turn), Some("one"));
        cores.go_on("one", 1, 2_000);
        let turn = cores.begin().unwrap();
        assert_eq!((turn.thread, turn.time, turn.left), ("one", 1_000, 1_000));
        assert_eq!(cores.end(turn), None);
        assert_eq!(cores.begin().unwrap().thread, "other");
    }
}
