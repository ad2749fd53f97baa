//! The reasons why texts are not understood, with their places.

/// Characters of a text that an error shows from a place on.
const MOST_SHOWN: usize = 24;

/// Characters of a reason, which may have a name or a literal in it.
const MOST_WORDS: usize = 600;

/// The text, or its beginning.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The reason why a text is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The byte where it is; none where the whole text is meant.
    at: Option<usize>,
    pub why: String,
}

impl Fault {
    /// A fault at a byte of the text.
    pub fn at(at: usize, why: impl Into<String>) -> Self {
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

    /// The place in the text, and the reason.
    pub fn words(&self, text: &str) -> String {
        let why = cut(&self.why, MOST_WORDS);
        let Some((before, rest)) = self.at.and_then(|at| text.split_at_checked(at)) else {
            return why;
        };
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
        let words = |at| Fault::at(at, "no").words("`ü` = x + 1 ");
        assert_eq!(words(0), "at character 1, \"`ü` = x + 1\": no");
        assert_eq!(words(9), "at character 9, \"+ 1\": no");
        assert_eq!(words(13), "at its end, no");
        assert_eq!(Fault::of_all("no").words("x"), "no");
        let long = "x".repeat(40);
        let shown = "x".repeat(24);
        assert_eq!(
            Fault::at(0, "no").words(&long),
            format!("at character 1, \"{shown}...\": no")
        );
    }
}
