//! The names of a folder's files.

/// The suffix of every template. Readers and `mode="overwrite"` know data files by it.
pub(crate) const SUFFIX: &str = ".parquet";

/// The most bytes of a name in Linux's file systems (`NAME_MAX`).
pub(crate) const LONGEST_NAME: usize = 255;

/// Digits that a number can be padded to.
const MOST_WIDTH: usize = 20;

/// A file's name but for its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    prefix: String,
    width: usize,
    suffix: String,
}

impl Template {
    /// # Errors
    /// A message that names the template and what is wrong with it.
    pub fn parse(template: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("basename_template={template:?} is not accepted: {why}"));
        let parts = template
            .split_once('{')
            .and_then(|(prefix, rest)| Some((prefix, rest.split_once('}')?)));
        let Some((prefix, (field, suffix))) = parts else {
            return refuse("it has to hold {i} or {i:05d}, the place of the file's number");
        };
        let Some(width) = width(field) else {
            return refuse("the braces take {i} or a width such as {i:05d}");
        };
        if [prefix, suffix]
            .iter()
            .any(|part| part.contains(['{', '}', '/', '\0']))
        {
            return refuse("it is one file name with one pair of braces, without \"/\"");
        }
        if prefix.starts_with(['.', '_']) {
            return refuse("readers pass over names that begin with \".\" or \"_\"");
        }
        if !suffix.ends_with(SUFFIX) {
            return refuse("it has to end in \".parquet\", by which data files are known");
        }
        let template = Self {
            prefix: prefix.into(),
            width,
            suffix: suffix.into(),
        };
        let bytes = template.name(u64::MAX).len();
        if bytes > LONGEST_NAME {
            return refuse(&format!(
                "names of files have at most {LONGEST_NAME} bytes, and these up to {bytes}"
            ));
        }
        Ok(template)
    }

    pub fn name(&self, number: u64) -> String {
        let Self {
            prefix,
            width,
            suffix,
        } = self;
        format!("{prefix}{number:0width$}{suffix}")
    }

    /// The name with a mark behind its number.
    pub fn marked(&self, number: u64, mark: &str) -> String {
        let Self {
            prefix,
            width,
            suffix,
        } = self;
        format!("{prefix}{number:0width$}-{mark}{suffix}")
    }

    /// The number in a file name, if the name may come from this template.
    pub fn number(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.prefix)?.strip_suffix(&self.suffix)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    }
}

/// Parses the width in `i`, `i:5`, `i:05` or `i:05d`.
fn width(field: &str) -> Option<usize> {
    let Some(format) = field.strip_prefix("i:") else {
        return (field == "i").then_some(0);
    };
    let digits = format.strip_suffix('d').unwrap_or(format);
    let width = digits.strip_prefix('0')?;
    let width = width.parse().ok()?;
    (width <= MOST_WIDTH).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_padded_and_sort_as_their_numbers() {
        let template = Template::parse("part-{i:05d}.parquet").unwrap();
        assert_eq!(template.name(7), "part-00007.parquet");
        assert_eq!(template.name(1_234_567), "part-1234567.parquet");
        assert_eq!(
            Template::parse("{i}.snappy.parquet").unwrap().name(7),
            "7.snappy.parquet"
        );
    }

    #[test]
    fn a_mark_is_behind_the_number_and_before_the_suffix() {
        let template = Template::parse("day-{i:03d}.snappy.parquet").unwrap();
        assert_eq!(template.marked(7, "ab-c"), "day-007-ab-c.snappy.parquet");
        assert_eq!(template.number(&template.marked(7, "ab-c")), None);
    }

    #[test]
    fn what_readers_would_not_find_is_refused() {
        for bad in [
            "",
            "part.parquet",
            "part-{}.parquet",
            "part-{n}.parquet",
            "part-{i:5x}.parquet",
            "part-{i:5d}.parquet",
            "{i}-{i}.parquet",
            "_part-{i}.parquet",
            ".{i}.parquet",
            "a/{i}.parquet",
            "part-{i}.pq",
            "part-{i:099d}.parquet",
            &format!("{}{{i}}.parquet", "x".repeat(240)),
            "}{i}.parquet",
        ] {
            let message = Template::parse(bad).unwrap_err();
            assert!(message.contains("is not accepted: "), "{message}");
        }
    }

    proptest! {
        #[test]
        fn a_name_gives_its_number_back(number: u64, width in 0..=MOST_WIDTH) {
            let template = Template::parse(&format!("a-{{i:0{width}d}}-b.parquet")).unwrap();
            prop_assert_eq!(template.number(&template.name(number)), Some(number));
        }
    }
}
