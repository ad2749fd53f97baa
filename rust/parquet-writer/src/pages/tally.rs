//! The memory of the compressors that one writer uses.

use std::sync::Mutex;

use parquet::basic::Compression;

use super::lock;

/// Counts the compressors of each codec: as many as are busy at once. They stay in memory for further pages.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    compressors: Vec<Compressor>,
    /// The most bytes of all at once.
    peak: usize,
}

#[derive(Debug)]
struct Compressor {
    codec: Compression,
    is_busy: bool,
    bytes: usize,
}

/// The place of a compressor that is busy.
#[derive(Debug)]
pub(super) struct Place(usize);

impl Tally {
    /// Notes that a compressor of this codec begins a page.
    pub fn begin(&self, codec: Compression) -> Place {
        let compressors = &mut lock(&self.0).compressors;
        let is_idle = |compressor: &Compressor| compressor.codec == codec && !compressor.is_busy;
        let place = compressors.iter().position(is_idle).unwrap_or_else(|| {
            compressors.push(Compressor {
                codec,
                is_busy: false,
                bytes: 0,
            });
            compressors.len() - 1
        });
        compressors[place].is_busy = true;
        Place(place)
    }

    /// Notes that it is done with the page, for which it took `used` bytes, and that it keeps `kept` of them.
    pub fn end(&self, Place(place): Place, used: usize, kept: usize) {
        let mut counts = lock(&self.0);
        counts.compressors[place].bytes = used;
        let all = counts.compressors.iter().map(|compressor| compressor.bytes).sum();
        counts.peak = counts.peak.max(all);
        counts.compressors[place].bytes = kept;
        counts.compressors[place].is_busy = false;
    }

    /// The most bytes of all at once.
    pub fn peak(&self) -> usize {
        lock(&self.0).peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_compressors_count_as_were_busy_at_once() {
        let (tally, codecs) = (Tally::default(), [Compression::SNAPPY, Compression::LZ4_RAW]);
        let two = [tally.begin(codecs[0]), tally.begin(codecs[0])];
        let [first, second] = two;
        tally.end(first, 100, 60);
        tally.end(second, 70, 70);
        assert_eq!(tally.peak(), 60 + 70);
        let other = tally.begin(codecs[1]);
        tally.end(other, 9, 9);
        assert_eq!(tally.peak(), 60 + 70 + 9);
        let again = tally.begin(codecs[0]);
        tally.end(again, 200, 60);
        assert_eq!(tally.peak(), 200 + 70 + 9);
    }
}
