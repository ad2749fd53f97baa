//! The decision by a chunk's first page how the chunk goes on.
//!
//! All candidates are tried on a few bytes of it. Those that come close are tried on more, since repeats from further
//! away show there only.

use parquet::basic::{Encoding, Type};
use parquet_encode::page_header::Encoding as PageEncoding;

use super::contest::{Contest, DictionaryWeight, Neighbours, Repeats};
use super::dictionary::DictionaryEncoder;
use super::values::ValueEncoder;
use super::{FlatEncoder, PageEnd, ROWS_BEFORE_DECISION, page_encoding};
use crate::choose::{FEWEST_VALUES, Growth, Reason, Trial};
use crate::error::Result;

/// Values of a full page below which each is large.
const FEW_VALUES: usize = 8;
/// Values of which none is the same as another where a dictionary is left at once.
const VALUES_WITHOUT_REPEAT: usize = 1024;
/// Bytes of a value in PLAIN below which text is short.
const SHORT_TEXT: usize = 64;
/// The share of different values among those of the first page above which a dictionary of short text is left at once.
const MOSTLY_DIFFERENT: f64 = 0.6;
/// Bytes of a page, before compression, that all candidates are tried on.
const GLANCE_BYTES: usize = 16 << 10;
/// Bytes of a page, before compression, that candidates which come close are tried on. In far fewer, repeats from
/// further away are missed, and wrong encodings are taken.
const TRIAL_BYTES: usize = 128 << 10;
/// The costs with a dictionary, as shares of those without, between which a glance may not decide. It shows too
/// much for the encodings without one: it is too short for the distant repeats that their compression gains by.
const CLOSE: std::ops::Range<f64> = 0.5..1.1;
/// The weight of a direct encoding, as a multiple of the lightest, above which a glance rules it out. Repeats from far
/// away make one of them lighter than a glance shows, mostly the plain one.
const CLOSE_DIRECT: usize = 2;
/// The cost of integers with a dictionary, as a share of that without, up to which they get one where more of them
/// follow: looked up they take a third of the time in which a codec compresses them.
const SHARE_OF_INTEGERS: f64 = 1.03;
/// The shares at which text is tried on more bytes though no value hints at it: parts of values may repeat.
const CLOSE_OF_TEXT: std::ops::Range<f64> = 0.8..1.0;
/// Bytes of a page of text, before compression, that is tried whole: it costs little, and is mostly written so.
const SMALL_PAGE: usize = 64 << 10;
/// Values among which sequences are looked for.
const NEIGHBOURS: usize = 8192;
/// Values of a glance that are few.
const VALUES_OF_A_GLANCE: usize = 256;
/// Different values in a sequence that is long: their indices have more than a byte.
const LONG_SEQUENCE: usize = 256;
/// The number of values of which one that follows the same value as the time before makes sequences.
const SEQUENTIAL: usize = 8;

/// The weights of a page in its candidates.
struct PageWeights {
    /// The encodings without a dictionary, with the weight in each; the lightest first.
    direct: Vec<(Encoding, usize)>,
    /// The weights with a dictionary, where values repeat.
    with: Option<DictionaryWeight>,
    /// The cost with a dictionary as a share of that without.
    share: f64,
}

impl PageWeights {
    fn lightest(&self) -> (Encoding, usize) {
        self.direct.first().copied().unwrap_or((Encoding::PLAIN, 0))
    }

    /// The direct encodings that come close to the lightest.
    fn close(&self) -> Vec<Encoding> {
        let most = self.lightest().1 * CLOSE_DIRECT;
        let close = self.direct.iter().filter(|(_, weight)| *weight <= most);
        close.map(|(encoding, _)| *encoding).collect()
    }
}

impl<V: ValueEncoder> FlatEncoder<V> {
    /// Leaves the dictionary if the first values show no repeat, else ranks its entries. Integers keep it: long
    /// sequences of them may come again, which only it shows, and which decide between deltas and plain values.
    pub(super) fn look_at_first_piece(&mut self) {
        let values = self.page.entries - self.page.nulls;
        let open = self.choice.trial.is_some() && values >= VALUES_WITHOUT_REPEAT;
        let never_repeats = |indexed: &DictionaryEncoder<_>| indexed.never_repeats();
        let leaves =
            || self.dictionary.as_ref().is_some_and(never_repeats) || self.will_seldom_repeat(values);
        if open && !self.is_integer() && leaves() {
            self.undo_dictionary();
        } else if let Some(indexed) = &mut self.dictionary {
            indexed.rank();
        }
    }

    /// Takes the page's values out of the dictionary and goes on without it. It is dropped if no page refers to it.
    fn undo_dictionary(&mut self) {
        if let Some(indexed) = &mut self.dictionary {
            self.values.take_out(indexed);
            indexed.indices.clear();
        }
        let before = self.dictionary.take().or_else(|| self.ended.take());
        self.ended = before.filter(DictionaryEncoder::serves_earlier_pages);
    }

    /// The repeats among the values of the page, while there is a dictionary.
    fn repeats(&self) -> Option<Repeats> {
        self.dictionary.as_ref().map(DictionaryEncoder::repeats)
    }

    /// The neighbours of the page's last values, as far as a dictionary shows.
    fn neighbours(&self, last: usize) -> Neighbours {
        let indexed = self.dictionary.as_ref();
        indexed.map_or_else(Neighbours::default, |indexed| indexed.neighbours(last))
    }

    /// An estimate of the bytes of the page's values in PLAIN, before compression.
    fn plain_bytes(&self) -> usize {
        self.values
            .direct_bytes(PageEncoding::Plain, self.dictionary.as_ref())
    }

    /// Returns true for short text of which most values will be different by the end of the first page: a dictionary of
    /// them saves next to nothing, and takes longer than all else.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn will_seldom_repeat(&self, values: usize) -> bool {
        let is_short = || self.plain_bytes() <= values * SHORT_TEXT;
        let few_repeats = |repeats: Repeats| {
            let [sampled, distinct, in_half] =
                [repeats.values, repeats.distinct, repeats.distinct_in_half].map(|count| count as f64);
            let page = ROWS_BEFORE_DECISION as f64;
            Growth::new(sampled, distinct, in_half).distinct(page) > page * MOSTLY_DIFFERENT
        };
        self.is_text() && is_short() && self.repeats().is_some_and(few_repeats)
    }

    /// Decides by the first page how the chunk goes on, where that is open. Returns true if it decided.
    pub(super) fn decide(&mut self, end: PageEnd) -> Result<bool> {
        let Some(trial) = self.choice.trial else {
            return Ok(false);
        };
        let values = self.page.entries - self.page.nulls;
        // A page of nulls says little, and another one follows.
        let sparse = values < FEWEST_VALUES && values < self.page.entries / 2;
        if values == 0 || (end == PageEnd::Page && sparse) {
            return Ok(false);
        }
        // A page that ends by its content or by its rows, and not by its bytes, may be of few values.
        let ends_early = self.cuts.is_some() || self.page.rows >= self.budget.page_rows;
        let is_short = end == PageEnd::Page && values < FEWEST_VALUES && ends_early;
        let known = is_short.then(|| self.repeats_of_pages(values));
        if known == Some(None) {
            return Ok(false);
        }
        self.choice.trial = None;
        let repeats = match known.flatten() {
            Some(false) => None,
            _ => self.repeats(),
        };
        // A dictionary that was full before the decision is left, however much the values repeat.
        let repeats_show = known.flatten() == Some(true) && self.dictionary.is_some();
        if repeats_show || repeats.is_some_and(|repeats| self.is_plain_to_see(repeats, end)) {
            self.values.set_encoding(PageEncoding::Plain);
            self.choice.reason = Some(Reason::Repeats);
            return Ok(true);
        }
        let repeats = repeats.filter(|repeats| repeats.distinct < repeats.values);
        let weights = self.weigh(trial, repeats, end)?;
        self.settle(&weights, end);
        Ok(true)
    }

    /// Returns true if values repeat, by all pages so far, of which the last has `values` values. Pages of so few rows
    /// show nothing one by one; `None` if all of them have too few, too.
    fn repeats_of_pages(&self, values: usize) -> Option<bool> {
        let before = self.account.count.entries - self.account.count.nulls;
        let entries = self.dictionary_page().map_or(usize::MAX, |(_, entries)| entries);
        let all = before + values;
        (all >= VALUES_WITHOUT_REPEAT).then_some(entries <= all / 2)
    }

    /// Returns true if a dictionary is the best without being weighed.
    fn is_plain_to_see(&self, repeats: Repeats, end: PageEnd) -> bool {
        // Values so large that a page has a few of them are looked up until the dictionary is full: none of them may
        // repeat in one page, and each that does saves much.
        if end == PageEnd::Page && repeats.values < FEW_VALUES {
            return true;
        }
        // A codec finds sequences that come again among values better than among packed indices.
        let in_sequence = |window| {
            let Neighbours { runs, sequences } = self.neighbours(window);
            (runs + sequences) * 4 > window * 3
        };
        repeats.are_many(self.is_integer()) && !repeats.window().is_some_and(in_sequence)
    }

    /// Returns true if values repeat so often that neither the dictionary page nor look-ups matter. Long repeated
    /// sequences are the exception: as plain values they compress to almost nothing, too.
    fn are_many(&self, repeats: Repeats) -> bool {
        let in_long_sequences = |window| self.neighbours(window).sequences * 4 > window * 3;
        let are_long = repeats.distinct > LONG_SEQUENCE && repeats.window().is_some_and(in_long_sequences);
        repeats.are_many(self.is_integer()) && !are_long
    }

    /// Returns true if a codec may find more in the page than in a glance of it: parts of text, sequences of values
    /// that come again from far away, or values so large that the glance has few.
    fn hides_repeats(&self, repeats: Option<Repeats>, page: usize, share: f64) -> bool {
        if share < CLOSE.start {
            return false;
        }
        if self.is_text() && CLOSE_OF_TEXT.contains(&share) {
            return true;
        }
        repeats.is_some_and(|repeats| {
            let last = repeats.values.min(NEIGHBOURS);
            repeats.values * GLANCE_BYTES < page * VALUES_OF_A_GLANCE
                || self.neighbours(last).sequences * SEQUENTIAL > last
        })
    }

    fn settle(&mut self, weights: &PageWeights, end: PageEnd) {
        let (lightest, weight) = weights.lightest();
        let encoding = page_encoding(lightest);
        let most = if self.is_integer() && end == PageEnd::Page {
            SHARE_OF_INTEGERS
        } else {
            1.0
        };
        let with = weights.with.filter(|_| weights.share < most);
        self.choice.dictionary = with.is_some();
        self.choice.reason = Some(Reason::Lightest);
        self.choice.encoding = lightest;
        self.values.set_encoding(encoding);
        if let Some(with) = with {
            // Where values repeat much, so little is at stake that look-ups would decide.
            let many = with.repeats.are_many(self.is_integer());
            self.contest = (!many).then(|| Contest::new(weight, &with));
        } else {
            self.undo_dictionary();
        }
    }

    /// Returns true if parts of values may repeat.
    fn is_text(&self) -> bool {
        self.column.physical_type() == Type::BYTE_ARRAY
    }

    fn is_integer(&self) -> bool {
        matches!(self.column.physical_type(), Type::INT32 | Type::INT64)
    }

    /// Weighs the page in all candidates.
    fn weigh(&mut self, trial: Trial, repeats: Option<Repeats>, end: PageEnd) -> Result<PageWeights> {
        if let ([only], None) = (trial.direct, repeats) {
            return Ok(PageWeights {
                direct: vec![(*only, 0)],
                with: None,
                share: f64::INFINITY,
            });
        }
        let page = self.plain_bytes();
        if self.is_text() && page <= SMALL_PAGE {
            return self.weigh_part(trial.direct, (trial.rows, repeats, end), SMALL_PAGE);
        }
        let weights = self.weigh_part(trial.direct, (trial.rows, repeats, end), GLANCE_BYTES)?;
        if page <= GLANCE_BYTES || !self.hides_repeats(repeats, page, weights.share) {
            return Ok(weights);
        }
        let repeats = repeats.filter(|_| weights.share < CLOSE.end);
        let close = weights.close();
        if repeats.is_none() && close.len() < 2 {
            return Ok(weights);
        }
        self.weigh_part(&close, (trial.rows, repeats, end), TRIAL_BYTES)
    }

    /// Weighs the page by so many bytes of it.
    fn weigh_part(
        &mut self,
        direct: &[Encoding],
        (rows, repeats, end): (usize, Option<Repeats>, PageEnd),
        bytes: usize,
    ) -> Result<PageWeights> {
        let direct = self.weigh_direct(direct, bytes)?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let expected = (end == PageEnd::Page).then(|| {
            let values = self.page.entries - self.page.nulls;
            rows.max(self.page.rows) as f64 * values as f64 / self.page.rows as f64
        });
        let lightest = direct.first().map_or(0, |(_, weight)| *weight);
        let are_many = repeats.is_some_and(|repeats| self.are_many(repeats));
        let share = |with: &DictionaryWeight| with.share_of(lightest, expected, are_many);
        let plain = direct.iter().find(|(encoding, _)| *encoding == Encoding::PLAIN);
        let plain = plain.map_or(0, |(_, weight)| *weight);
        let with = repeats
            .map(|repeats| self.weigh_indexed(repeats, (bytes, plain), |with| share(with) >= CLOSE.end))
            .transpose()?;
        Ok(PageWeights {
            direct,
            share: with.as_ref().map_or(f64::INFINITY, share),
            with,
        })
    }

    /// Weighs the page with its dictionary, where it weighs `plain` in PLAIN. The dictionary is only tried if the page
    /// is not lost with the least that it may weigh.
    fn weigh_indexed(
        &mut self,
        repeats: Repeats,
        (bytes, plain): (usize, usize),
        is_lost: impl Fn(&DictionaryWeight) -> bool,
    ) -> Result<DictionaryWeight> {
        let width = self.index_width()?;
        let tried = self.tried(repeats.values, bytes);
        let start = repeats.values - tried;
        let indices = self.pages.weight_of(&mut |out| {
            self.page.begin(start, &self.levels, out);
            if let Some(indexed) = &self.dictionary {
                indexed.encode_from(start, width, out);
            }
        })?;
        let page = self.dictionary_page().map_or(&[][..], |(page, _)| page);
        let mut weights = DictionaryWeight {
            repeats,
            indices: indices * repeats.values / tried,
            // Each entry weighs more than a value among others that are the same.
            dictionary: plain * repeats.distinct / repeats.values * 9 / 10,
            dictionary_bytes: page.len(),
            most_bytes: self.dictionary_bytes,
        };
        if !is_lost(&weights) {
            // No entry comes twice, so fewer bytes do than for values.
            let bytes = if page.len() > bytes { bytes / 2 } else { bytes };
            let last = &page[page.len().saturating_sub(bytes)..];
            let entries = self.pages.weight_of(&mut |out| out.extend_from_slice(last))?;
            weights.dictionary = entries * page.len() / last.len().max(1);
        }
        Ok(weights)
    }

    /// Weighs the page in some encodings without a dictionary; the lightest comes first.
    fn weigh_direct(&mut self, encodings: &[Encoding], bytes: usize) -> Result<Vec<(Encoding, usize)>> {
        let count = self.page.entries - self.page.nulls;
        let tried = self.tried(count, bytes);
        let mut weights = Vec::with_capacity(encodings.len());
        for &encoding in encodings {
            let (page, start) = (self.page, count - tried);
            let Self {
                values,
                dictionary,
                pages,
                levels,
                ..
            } = self;
            let weight = pages.weight_of(&mut |out| {
                page.begin(start, levels, out);
                values.encode_direct(page_encoding(encoding), start, dictionary.as_ref(), out);
            })?;
            weights.push((encoding, weight * count / tried));
        }
        weights.sort_by_key(|(_, weight)| *weight);
        Ok(weights)
    }

    /// The number of the page's last values that encodings are tried on; at least one.
    fn tried(&self, count: usize, bytes: usize) -> usize {
        (count * bytes / self.plain_bytes().max(1)).clamp(1, count.max(1))
    }
}
