//! The memory of the compressors that one writer uses.

use std::sync::Mutex;

use parquet::basic::Compression;

use super::lock;

/// Counts the compressors of each codec: as many as are busy at once. They stay in memory for further pages.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    compressors: Vec<CompressorMemory>,
    /// The most bytes of all at once.
    peak: usize,
}

#[derive(Debug)]
struct CompressorMemory {
    codec: Compression,
    is_busy: bool,
    /// The most bytes that it took since none was busy.
    bytes: usize,
    /// Bytes that it keeps for the next page.
    kept: usize,
}

/// The place of a compressor that is busy.
#[derive(Debug)]
pub(super) struct CompressorSlot(usize);

impl Tally {
    /// Notes that a compressor of this codec begins a page.
    pub fn begin(&self, codec: Compression) -> CompressorSlot {
        let compressors = &mut lock(&self.0).compressors;
        let is_idle = |compressor: &CompressorMemory| compressor.codec == codec && !compressor.is_busy;
        let place = compressors.iter().position(is_idle).unwrap_or_else(|| {
            compressors.push(CompressorMemory {
                codec,
                is_busy: false,
                bytes: 0,
                kept: 0,
            });
            compressors.len() - 1
        });
        compressors[place].is_busy = true;
        CompressorSlot(place)
    }

    /// Notes that it is done with the page, for which it took `used` bytes, and that it keeps `kept` of them. Until no
    /// other is busy, all of `used` counts: it was there beside what others take by now.
    pub fn end(&self, CompressorSlot(place): CompressorSlot, used: usize, kept: usize) {
        let counts = &mut *lock(&self.0);
        let done = &mut counts.compressors[place];
        done.bytes = done.bytes.max(used);
        done.kept = kept;
        done.is_busy = false;
        let all = counts.compressors.iter().map(|compressor| compressor.bytes).sum();
        counts.peak = counts.peak.max(all);
        if counts.compressors.iter().all(|compressor| !compressor.is_busy) {
            for compressor in &mut counts.compressors {
                compressor.bytes = compressor.kept;
            }
        }
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
        let [first, second] = [tally.begin(codecs[0]), tally.begin(codecs[0])];
        tally.end(first, 100, 60);
        assert_eq!(tally.peak(), 100);
        tally.end(second, 70, 50);
        assert_eq!(tally.peak(), 100 + 70);
        let other = tally.begin(codecs[1]);
        tally.end(other, 65, 9);
        assert_eq!(tally.peak(), 60 + 50 + 65);
        let again = tally.begin(codecs[0]);
        tally.end(again, 200, 60);
        assert_eq!(tally.peak(), 200 + 50 + 9);
    }
}
