//! The reasons why texts are not understood, with their places.

use sqlparser::tokenizer::Location;

/// Characters of a text that an error shows from a place on.
pub(super) const MOST_SHOWN: usize = 24;

/// Characters of a reason, which may have a name or a literal in it.
const MOST_WORDS: usize = 600;

/// The text, or its beginning.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// What a text has from a place on.
pub(super) fn rest_at(text: &str, place: Location) -> &str {
    let lines = usize::try_from(place.line).map_or(usize::MAX, |line| line.saturating_sub(1));
    let signs = usize::try_from(place.column).map_or(usize::MAX, |column| column.saturating_sub(1));
    let start: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let line = &text[start..];
    line.char_indices()
        .nth(signs)
        .map_or("", |(sign, _)| &line[sign..])
}

/// The reason why a text is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SqlFault {
    /// Where it is; none where the whole text is meant.
    at: Option<Location>,
    pub why: String,
}

impl SqlFault {
    /// A fault at a place of the text, which is its end if it is empty.
    pub fn at(at: Location, why: impl Into<String>) -> Self {
        Self {
            at: Some(at),
            why: why.into(),
        }
    }

    /// A fault of the whole text.
    pub fn of_all(why: impl Into<String>) -> Self {
        Self {
            at: None,
            why: why.into(),
        }
    }

    /// Returns true if the reason says what to write instead.
    pub fn has_advice(&self) -> bool {
        let words = ["did you mean ", ": give ", ": write ", ": there are "];
        words.iter().any(|advice| self.why.contains(advice))
    }

    /// The place in the text, and the reason.
    pub fn words(&self, text: &str) -> String {
        let why = cut(&self.why, MOST_WORDS);
        let Some(at) = self.at else {
            return why;
        };
        let rest = if at == Location::empty() {
            ""
        } else {
            rest_at(text, at)
        };
        let before = &text[..text.len() - rest.len()];
        let rest = rest.trim_end();
        if rest.is_empty() {
            return format!("at its end, {why}");
        }
        let place = before.chars().count() + 1;
        format!("at character {place}, {:?}: {why}", cut(rest, MOST_SHOWN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_in_characters() {
        let words = |line, column| SqlFault::at(Location::new(line, column), "no").words("`ü` =\n x + 1 ");
        assert_eq!(words(1, 1), "at character 1, \"`ü` =\\n x + 1\": no");
        assert_eq!(words(2, 4), "at character 10, \"+ 1\": no");
        assert_eq!(words(2, 7), "at its end, no");
        assert_eq!(words(0, 0), "at its end, no");
        assert_eq!(words(9, 9), "at its end, no");
        assert_eq!(SqlFault::of_all("no").words("x"), "no");
        let long = "x".repeat(40);
        let shown = "x".repeat(24);
        assert_eq!(
            SqlFault::at(Location::new(1, 1), "no").words(&long),
            format!("at character 1, \"{shown}...\": no")
        );
    }
}
