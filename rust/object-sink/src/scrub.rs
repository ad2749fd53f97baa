//! Messages without secrets.

/// The most characters of a server's answer that are shown.
const MOST: usize = 600;
/// The replacement for a secret.
const MARK: &str = "…";
/// Words in the names of options whose values are secret.
const SECRET: [&str; 6] = ["secret", "token", "key", "sas", "password", "credential"];
/// The length of the shortest secret, in bytes. Shorter values could occur in any message by chance.
const LEAST: usize = 4;

/// Values that must not be shown.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// The values of those options that hold secrets.
    pub fn of<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            SECRET.iter().any(|part| name.contains(part))
        };
        let mut values: Vec<_> = options
            .into_iter()
            .filter(|(name, value)| secret(name) && value.len() >= LEAST)
            .map(|(_, value)| value.to_string())
            .collect();
        // A secret that is a part of another must not leave the rest of it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Puts `message` on one line, without secrets and without the queries of URLs, which hold signatures.
    pub fn scrub(&self, message: &str) -> String {
        let mut clean = without_queries(message);
        for value in &self.0 {
            clean = clean.replace(value, MARK);
        }
        let mut clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = clean.char_indices().nth(MOST) {
            clean.truncate(cut);
            clean.push_str(MARK);
        }
        clean
    }
}

fn without_queries(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find("://") {
        let end = rest[start..]
            .find([' ', '\n', '"', '\'', ')', '<', '>'])
            .map_or(rest.len(), |length| start + length);
        let url = &rest[..end];
        clean.push_str(url.split('?').next().unwrap_or(url));
        rest = &rest[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn queries_go_and_the_rest_stays() {
        let secrets = Secrets::default();
        assert_eq!(
            secrets.scrub("PUT https://a.blob/x?sig=abc&se=1 in 3s,\n  see http://b/c?d why?"),
            "PUT https://a.blob/x in 3s, see http://b/c why?"
        );
    }

    #[test]
    fn long_answers_are_cut() {
        assert!(Secrets::default().scrub(&"ż".repeat(5_000)).chars().count() <= MOST + 1);
    }

    proptest! {
        #[test]
        fn no_secret_is_left(secret in "[a-zA-Z0-9/+=]{4,40}", before in ".{0,40}", after in ".{0,40}") {
            let secrets = Secrets::of([("AWS_SECRET_ACCESS_KEY", secret.as_str())]);
            let clean = secrets.scrub(&format!("{before}{secret}{after}"));
            prop_assert!(!clean.contains(&secret));
        }

        #[test]
        fn what_is_no_secret_is_shown(region in "[a-z0-9-]{4,20}") {
            let secrets = Secrets::of([("aws_region", region.as_str())]);
            let shown = secrets.scrub(&format!("in {region}"));
            prop_assert!(shown.contains(&region));
        }
    }
}
