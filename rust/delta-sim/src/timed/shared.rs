//! A resource of a host that jobs share evenly: its disk.

use std::collections::BTreeMap;

use super::events::Moment;

/// Nanoseconds of a microsecond.
const NANOSECONDS: u64 = 1_000;

/// A resource with room for some lanes of work at full speed. Where there are more, all slow down alike.
///
/// A job keeps one lane or several busy, for the same time each.
#[derive(Debug)]
pub(crate) struct SharedResource<J> {
    room: u64,
    lanes: u64,
    /// The work that a lane would have got since the start: nanoseconds.
    given: u64,
    at: Moment,
    /// Jobs by the work that is given when they end.
    jobs: BTreeMap<(u64, u64), (J, u64)>,
    count: u64,
}

impl<J> SharedResource<J> {
    pub(crate) fn new(room: u32) -> Self {
        Self {
            room: u64::from(room.max(1)),
            lanes: 0,
            given: 0,
            at: 0,
            jobs: BTreeMap::new(),
            count: 0,
        }
    }

    /// Begins a job of so many lanes, each with so much work.
    pub(crate) fn begin(&mut self, now: Moment, work: Moment, lanes: u64, job: J) {
        self.advance(now);
        self.count += 1;
        self.lanes += lanes;
        let end = self.given + work * NANOSECONDS;
        self.jobs.insert((end, self.count), (job, lanes));
    }

    /// The moment at which the next job ends, if no other begins before it.
    pub(crate) fn next_end(&self) -> Option<Moment> {
        let (&(end, _), _) = self.jobs.first_key_value()?;
        let left = end.saturating_sub(self.given);
        let slowed = left * self.lanes.max(self.room);
        Some(self.at + slowed.div_ceil(self.room * NANOSECONDS))
    }

    /// Ends a job that has got all its work, if there is one.
    pub(crate) fn end(&mut self, now: Moment) -> Option<J> {
        self.advance(now);
        let first = self.jobs.first_entry()?;
        if first.key().0 > self.given {
            return None;
        }
        let (job, lanes) = first.remove();
        self.lanes -= lanes;
        Some(job)
    }

    /// The number of times that a job has begun. A moment of [`next_end`](Self::next_end) holds for one of them.
    pub(crate) fn begun(&self) -> u64 {
        self.count
    }

    /// Gives work up to now. It is rounded down, so each call may take a nanosecond of it away.
    fn advance(&mut self, now: Moment) {
        let passed = (now - self.at) * NANOSECONDS;
        self.given += passed * self.room / self.lanes.max(self.room);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs jobs that begin at once, and returns the moment at which each ends.
    fn ends(room: u32, jobs: &[(Moment, u64)]) -> Vec<Moment> {
        let mut shared = SharedResource::new(room);
        for (number, (work, lanes)) in jobs.iter().enumerate() {
            shared.begin(0, *work, *lanes, number);
        }
        let mut ends = vec![0; jobs.len()];
        while let Some(now) = shared.next_end() {
            while let Some(job) = shared.end(now) {
                ends[job] = now;
            }
        }
        ends
    }

    #[test]
    fn jobs_go_at_full_speed_while_there_is_room() {
        assert_eq!(ends(2, &[(10, 1), (30, 1)]), [10, 30]);
        assert_eq!(ends(8, &[(10, 4), (30, 4)]), [10, 30]);
    }

    #[test]
    fn jobs_share_what_there_is_evenly() {
        assert_eq!(ends(1, &[(10, 1), (10, 1)]), [20, 20]);
        // The longer one has the resource to itself once the shorter one is done.
        assert_eq!(ends(1, &[(10, 1), (30, 1)]), [20, 40]);
        assert_eq!(ends(2, &[(10, 1), (10, 1), (10, 1), (10, 1)]), [20; 4]);
        assert_eq!(ends(2, &[(10, 3), (10, 1)]), [20, 20]);
    }

    #[test]
    fn no_work_is_lost_and_none_is_given_twice() {
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..200 {
            let room = 1 + rng.below(4);
            let jobs: Vec<(Moment, u64)> = (0..=rng.below(20))
                .map(|_| (1 + rng.next() % 1_000, 1 + rng.next() % 3))
                .collect();
            let work: u64 = jobs.iter().map(|(work, lanes)| work * lanes).sum();
            let longest = jobs.iter().map(|(work, _)| *work).max().unwrap();
            let last = ends(u32::try_from(room).unwrap(), &jobs)
                .into_iter()
                .max()
                .unwrap();
            let bound = longest.max(work / room as u64);
            // Each end is rounded up to a microsecond.
            assert!((bound..=work + 20).contains(&last), "{room} {jobs:?}: {last}");
        }
    }
}
