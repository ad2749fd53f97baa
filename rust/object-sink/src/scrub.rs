//! Messages without secrets.

use url::Url;

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
    /// The values of those options that hold secrets, and the passwords in URLs.
    pub fn of<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            SECRET.iter().any(|part| name.contains(part))
        };
        let mut values = Vec::new();
        for (name, value) in options {
            if secret(name) {
                values.push(value.to_owned());
            }
            values.extend(passwords(value));
            // As an HTTP client shows it.
            let url = Url::parse(value).ok();
            values.extend(url.as_ref().and_then(Url::password).map(ToOwned::to_owned));
        }
        values.retain(|value| value.len() >= LEAST);
        // A secret that is a part of another must not leave the rest of it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Puts `message` on one line, without secrets, and URLs without passwords and without queries, which hold
    /// signatures.
    pub fn scrub(&self, message: &str) -> String {
        let mut clean = message.to_owned();
        // First, as a password may hold the characters by which the end of a URL is told.
        for value in &self.0 {
            clean = clean.replace(value, MARK);
        }
        let clean = plain_urls(&clean);
        let mut clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = clean.char_indices().nth(MOST) {
            clean.truncate(cut);
            clean.push_str(MARK);
        }
        clean
    }
}

/// What may be the password in a URL, as it was written. The URL need not be valid: a password that was not escaped may
/// hold the characters that end the authority, and even then the URL can be valid, with the password's start as a port.
fn passwords(url: &str) -> impl Iterator<Item = String> {
    let users = url.split_once("://").map(|(_, rest)| {
        let parts = [authority(rest), rest];
        parts.map(|part| part.rsplit_once('@').map(|(user, _)| user))
    });
    let users = users.into_iter().flatten().flatten();
    users.filter_map(|user| Some(user.split_once(':')?.1.to_owned()))
}

/// The user and the password of a URL, given what precedes `://` (its scheme, at the end) and what follows it. If the
/// URL is not valid, its password may hold the characters that end the authority: all before the last `@` counts then.
pub(crate) fn user<'a>(before: &str, rest: &'a str) -> Option<&'a str> {
    let scheme = before
        .rsplit(|character: char| !character.is_ascii_alphanumeric())
        .next()?;
    let is_valid = Url::parse(&format!("{scheme}://{rest}")).is_ok();
    let (user, _) = if is_valid { authority(rest) } else { rest }.rsplit_once('@')?;
    Some(user)
}

/// Returns true if the user of a URL has a password. The container of `abfss://container@account` has none.
pub(crate) fn has_password(user: &str) -> bool {
    authority(user).contains(':')
}

/// The part of a URL before its path, given what follows `://`.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// The message with each URL cut to scheme, host and path.
fn plain_urls(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find("://") {
        let end = rest[start..]
            .find([' ', '\n', '"', '\'', ')', '<', '>'])
            .map_or(rest.len(), |length| start + length);
        let (scheme, url) = rest[..end].split_at(start + "://".len());
        clean.push_str(scheme);
        // A token before the host of an HTTP URL is a secret, too.
        let is_http = ["http://", "https://"].iter().any(|http| scheme.ends_with(http));
        let user = user(&rest[..start], url).filter(|user| is_http || has_password(user));
        let url = user.map_or(url, |user| {
            clean.push_str(MARK);
            &url[user.len()..]
        });
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
    fn the_container_of_an_azure_url_is_shown() {
        let url = "abfss://container@account.dfs.core.windows.net/a@b";
        assert_eq!(Secrets::default().scrub(url), url);
    }

    #[test]
    fn long_answers_are_cut() {
        assert!(Secrets::default().scrub(&"ż".repeat(5_000)).chars().count() <= MOST + 1);
    }

    proptest! {
        #[test]
        fn no_password_of_a_url_is_left(
            user in "[a-z]{0,9}",
            password in "[A-Z0-9!$&'()*+,;=@ \"<>%._~/?#-]{4,40}",
            is_known in any::<bool>(),
        ) {
            prop_assume!(!"@host:9000/bucket/a.parquet".contains(&password));
            let url = format!("http://{user}:{password}@host:9000");
            let parsed = Url::parse(&url).ok();
            // Such as `http://user:1/2@host:9000`, a path of the host `user`: no client shows it as a password.
            let is_path = parsed.is_some() && password.contains(['/', '?', '#']);
            // Of an endpoint that Spillway was not given, it knows only what has no character that ends a URL.
            let is_known = is_known || is_path || password.contains([' ', '"', '\'', ')', '<', '>']);
            let options = [("AWS_ENDPOINT_URL", url.as_str())];
            let secrets = Secrets::of(options.into_iter().filter(|_| is_known));
            let mut all = vec![(url.clone(), password.clone())];
            if let Some(parsed) = parsed.filter(|_| !is_path) {
                let encoded = parsed.password().unwrap_or(&password).to_owned();
                all.push((parsed.as_str().trim_end_matches('/').to_owned(), encoded));
            }
            for (shown, secret) in all {
                let clean = secrets.scrub(&format!("error for {shown}/bucket/a.parquet?X-Sig=1: refused"));
                prop_assert!(!clean.contains(&password), "{clean}");
                prop_assert!(!clean.contains(&secret), "{clean}");
                prop_assert!(clean.contains("@host:9000/bucket/a.parquet"), "{clean}");
            }
        }

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
