//! Object URLs and their options, parsed and checked.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpConnector, ReqwestConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStoreScheme, RetryConfig};
use parquet_writer::WriteError;
use url::Url;

use crate::scrub::{self, Secrets};
use crate::upload::Client;

/// The time limit of one request: enough for a part of 8 MiB at one megabit per second.
pub(crate) const REQUEST_TIME: &str = "70s";
/// The limits for repeating a request: a time, and a number. A request that fails after this time is not retried, so it
/// is longer than two requests that time out.
const RETRY_TIME: Duration = Duration::from_secs(180);
const RETRIES: usize = 5;

/// Options of delta-rs that do not concern uploads.
const FOR_TABLES_ONLY: [&str; 9] = [
    "allow_unsafe_rename",
    "aws_s3_allow_unsafe_rename",
    "aws_s3_locking_provider",
    "aws_endpoint_url_dynamodb",
    "aws_region_dynamodb",
    "delta_dynamo_table_name",
    "dynamo_lock_table_name",
    "aws_s3_lock_table_name",
    "mount_allow_unsafe_rename",
];

/// Pairs of S3 settings of which the second takes precedence. Where the caller gives the first, a second one from the
/// environment is ignored.
const BEFORE_OTHERS: [(&str, &str); 2] = [
    ("aws_endpoint", "aws_endpoint_url_s3"),
    ("aws_default_region", "aws_region"),
];
/// A setting that is not a URL, although its name contains `endpoint`.
const NO_URL: &str = "azure_use_fabric_endpoint";

/// Names that are suggested in the place of unknown ones, as the documents of `object_store` and delta-rs have them.
const OF_S3: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ALLOW_HTTP",
    "AWS_SKIP_SIGNATURE",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_CONDITIONAL_PUT",
    "AWS_COPY_IF_NOT_EXISTS",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_S3_EXPRESS",
    "AWS_UNSIGNED_PAYLOAD",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_REQUEST_PAYER",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_KMS_KEY_ID",
];
const OF_GOOGLE: &[&str] = &[
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SKIP_SIGNATURE",
];
const OF_AZURE: &[&str] = &[
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_USE_EMULATOR",
];
const OF_CLIENTS: &[&str] = &[
    "timeout",
    "connect_timeout",
    "max_retries",
    "retry_timeout",
    "allow_http",
    "allow_invalid_certificates",
    "proxy_url",
    "user_agent",
];
/// Names that pyarrow, s3fs and boto have for settings of S3.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("key", "AWS_ACCESS_KEY_ID"),
    ("access_key", "AWS_ACCESS_KEY_ID"),
    ("secret", "AWS_SECRET_ACCESS_KEY"),
    ("secret_key", "AWS_SECRET_ACCESS_KEY"),
    ("endpoint_override", "AWS_ENDPOINT_URL"),
    ("region_name", "AWS_REGION"),
    ("anon", "AWS_SKIP_SIGNATURE"),
    ("anonymous", "AWS_SKIP_SIGNATURE"),
    ("request_timeout", "timeout"),
];

/// An object that can be written.
#[derive(Clone)]
pub struct Target {
    pub(crate) store: Arc<dyn Client>,
    pub(crate) path: Path,
    /// The URL as it may be shown.
    pub(crate) url: String,
    pub(crate) secrets: Secrets,
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Target").field(&self.url).finish()
    }
}

impl Target {
    /// The object that `url` names. `options` have the names that delta-rs and `object_store` give them, in upper or
    /// lower case; what they leave out comes from the environment.
    ///
    /// # Errors
    /// [`WriteError::Option`] when the URL names no object, or an option is unknown or invalid.
    pub fn new(url: &str, options: &[(String, String)]) -> Result<Self, WriteError> {
        Self::with_environment(url, options, environment())
    }

    fn with_environment(
        url: &str,
        options: &[(String, String)],
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, WriteError> {
        let address = Address::with_environment(url, options, environment)?;
        if address.path.as_ref().is_empty() || address.url.path().ends_with('/') {
            return Err(WriteError::option(
                "destination",
                format!(
                    "{} is not accepted: it names no object: put the file's name behind the bucket",
                    address.shown
                ),
            ));
        }
        let store = address.connect(address.retry.clone(), REQUEST_TIME, ReqwestConnector::default())?;
        Ok(Self {
            store,
            path: address.path,
            url: address.shown,
            secrets: address.secrets,
        })
    }
}

/// A parsed URL with its options: the store, the way to reach it, and the path in it. No client is made of it yet.
#[derive(Clone)]
pub(crate) struct Address {
    pub path: Path,
    /// The URL as it may be shown.
    pub shown: String,
    pub secrets: Secrets,
    pub retry: RetryConfig,
    url: Url,
    scheme: ObjectStoreScheme,
    /// By the names that `object_store` writes.
    settings: BTreeMap<String, String>,
}

impl Address {
    pub fn new(url: &str, options: &[(String, String)]) -> Result<Self, WriteError> {
        Self::with_environment(url, options, environment())
    }

    fn with_environment(
        url: &str,
        options: &[(String, String)],
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, WriteError> {
        let shown = shown(url);
        let (url, scheme, path) = parsed(url, &shown)?;
        let given = StoreOptions::sort(options, &scheme)?;
        let environment: Vec<_> = environment
            .filter(|(name, value)| has_prefix(&scheme, name) && !value.is_empty())
            .filter_map(|(name, value)| Some((canonical(&scheme, &name)?, value)))
            .collect();
        let all = environment.iter().chain(options);
        let secrets = Secrets::of(all.map(|(name, value)| (name.as_str(), value.as_str())));
        let mut settings: BTreeMap<_, _> = environment.into_iter().collect();
        for (name, before) in BEFORE_OTHERS {
            if given.settings.contains_key(name) {
                settings.remove(before);
            }
        }
        settings.extend(given.settings);
        check_endpoints(&settings)?;
        Ok(Self {
            path,
            shown,
            secrets,
            retry: given.retry,
            settings,
            url,
            scheme,
        })
    }

    /// The URL of an object below the location, from its key there. Characters that mean something else in a URL are
    /// escaped, so that [`Target::new`] finds the object by it.
    pub fn url_of(&self, relative: &str) -> String {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(relative.split('/'));
        }
        url.into()
    }

    /// Returns true if the store may answer a request for a copy before the copy is complete.
    pub fn copies_later(&self) -> bool {
        matches!(self.scheme, ObjectStoreScheme::MicrosoftAzure)
    }

    /// A key that differs between locations, and between users of one location with other rights. It holds secrets.
    pub fn key(&self) -> String {
        format!("{}\0{:?}\0{:?}", self.shown, self.settings, self.retry)
    }

    /// Makes a client whose requests have this time limit.
    pub fn connect(
        &self,
        retry: RetryConfig,
        time: &str,
        connector: impl HttpConnector,
    ) -> Result<Arc<dyn Client>, WriteError> {
        store(&self.scheme, &self.url, &self.settings, retry, time, connector).map_err(|error| {
            let message = format!("storage_options do not open {}: {error}", self.shown);
            WriteError::option("storage_options", self.secrets.scrub(&message))
        })
    }
}

fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The URL without parts that may be secret.
fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // `abfss://container@account` has no secret before its "@", `user:password@host` has.
    let user = scrub::user(scheme, rest).filter(|user| scrub::has_password(user));
    let rest = user.map_or(rest, |user| &rest[user.len() + "@".len()..]);
    let plain = rest.split(['?', '#']).next().unwrap_or(rest);
    match scheme {
        "" => plain.to_owned(),
        scheme => format!("{scheme}://{plain}"),
    }
}

fn parsed(url: &str, shown: &str) -> Result<(Url, ObjectStoreScheme, Path), WriteError> {
    let refuse = |why: &str| {
        Err(WriteError::option(
            "destination",
            format!("{shown} is not accepted: {why}"),
        ))
    };
    // The parser drops or resolves these, so that another object would be written.
    if url.contains(|letter: char| letter.is_ascii_control()) || url.trim() != url {
        return refuse("it has a line break, a tab or spaces around it: write them as %0A, %09 and %20");
    }
    let is_dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if url.split('/').any(is_dots) {
        return refuse("a part of its path is \".\" or \"..\", which no object's name has");
    }
    let Ok(url) = Url::parse(url) else {
        return refuse("it is not a URL such as s3://bucket/data.parquet");
    };
    if url.query().is_some() || url.fragment().is_some() || url.password().is_some() {
        return refuse(
            "it has a query, a fragment or a password. Credentials belong in storage_options; write \"?\" and \"#\" in \
             an object's name as %3F and %23",
        );
    }
    match ObjectStoreScheme::parse(&url) {
        Ok((ObjectStoreScheme::AmazonS3 | ObjectStoreScheme::GoogleCloudStorage, _))
            if url.port().is_some() || !url.username().is_empty() =>
        {
            refuse(
                "it has a port or a user, and a bucket is expected: an endpoint belongs in storage_options",
            )
        }
        Ok((
            scheme @ (ObjectStoreScheme::AmazonS3
            | ObjectStoreScheme::GoogleCloudStorage
            | ObjectStoreScheme::MicrosoftAzure),
            path,
        )) => Ok((url, scheme, path)),
        Err(_) if is_of_stores(&url) && shown.contains(":///") => refuse("it names no bucket or container"),
        Err(error) if is_of_stores(&url) && url.has_host() => refuse(&error.to_string()),
        _ => refuse("choose s3://, gs://, az://, abfss:// or a path"),
    }
}

fn is_of_stores(url: &Url) -> bool {
    let schemes = ["s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"];
    schemes.contains(&url.scheme())
}

/// A caller's options, sorted by their subject.
struct StoreOptions {
    settings: BTreeMap<String, String>,
    retry: RetryConfig,
}

impl StoreOptions {
    fn sort(options: &[(String, String)], scheme: &ObjectStoreScheme) -> Result<Self, WriteError> {
        let mut given = Self {
            settings: BTreeMap::new(),
            retry: RetryConfig {
                max_retries: RETRIES,
                retry_timeout: RETRY_TIME,
                ..RetryConfig::default()
            },
        };
        for (name, value) in options {
            let lower = name.to_ascii_lowercase();
            let seconds = || value.trim_end_matches('s').trim().parse::<u64>().ok();
            match lower.as_str() {
                "max_retries" => match value.parse() {
                    Ok(retries) => given.retry.max_retries = retries,
                    Err(_) => return Err(not_a_number(name, value)),
                },
                "retry_timeout" => match seconds() {
                    Some(seconds) => given.retry.retry_timeout = Duration::from_secs(seconds),
                    None => return Err(not_a_number(name, value)),
                },
                table if FOR_TABLES_ONLY.contains(&table) => {}
                _ => {
                    if let Some(known) = canonical(scheme, name) {
                        // The last spelling of a name counts.
                        given.settings.insert(known, value.clone());
                        continue;
                    }
                    return Err(WriteError::option(
                        "storage_options",
                        format!(
                            "storage_options has {name:?}, which {} does not know: {}",
                            service(scheme),
                            nearest(scheme, &lower).map_or_else(
                                || format!(
                                    "names are those of delta-rs and object_store, such as {}",
                                    examples(scheme)
                                ),
                                |near| format!("{near} is the nearest"),
                            ),
                        ),
                    ));
                }
            }
        }
        Ok(given)
    }
}

/// The name that an unknown one, in lower case, most likely stands for.
fn nearest(scheme: &ObjectStoreScheme, name: &str) -> Option<&'static str> {
    let (of_service, prefix) = match scheme {
        ObjectStoreScheme::AmazonS3 => (OF_S3, "aws_"),
        ObjectStoreScheme::GoogleCloudStorage => (OF_GOOGLE, "google_"),
        _ => (OF_AZURE, "azure_"),
    };
    let is_s3 = matches!(scheme, ObjectStoreScheme::AmazonS3);
    if let Some((_, known)) = OTHER_NAMES.iter().find(|(other, _)| is_s3 && *other == name) {
        return Some(known);
    }
    let plain = |name: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    let name = plain(name);
    let ranked = of_service.iter().chain(OF_CLIENTS).map(|known| {
        let distance = strsim::damerau_levenshtein(&plain(&known.to_ascii_lowercase()), &name);
        (distance, *known)
    });
    // One letter of three may be another.
    ranked
        .min()
        .filter(|(distance, _)| *distance <= name.len() / 3)
        .map(|(_, known)| known)
}

fn not_a_number(name: &str, value: &str) -> WriteError {
    WriteError::option(
        "storage_options",
        format!("storage_options has {name}={value:?}: give a whole number (of seconds, for a time)"),
    )
}

/// The name that `object_store` writes for a setting, which it reads in several spellings; `None` for an unknown one.
fn canonical(scheme: &ObjectStoreScheme, name: &str) -> Option<String> {
    fn written<K: FromStr + AsRef<str>>(name: &str) -> Option<String> {
        Some(name.parse::<K>().ok()?.as_ref().to_owned())
    }
    let name = name.to_ascii_lowercase();
    match scheme {
        ObjectStoreScheme::AmazonS3 => written::<AmazonS3ConfigKey>(&name),
        ObjectStoreScheme::GoogleCloudStorage => written::<GoogleConfigKey>(&name),
        _ => written::<AzureConfigKey>(&name),
    }
}

/// Refuses endpoints that no request can be made of: `object_store` panics at the first one.
fn check_endpoints(settings: &BTreeMap<String, String>) -> Result<(), WriteError> {
    let is_endpoint = |name: &str| (name.contains("endpoint") || name.contains("base_url")) && name != NO_URL;
    for (name, value) in settings.iter().filter(|(name, _)| is_endpoint(name)) {
        let refuse = |what: &str| {
            let message = format!("{}={value:?} is not accepted: {what}", name.to_ascii_uppercase());
            Err(WriteError::option("storage_options", message))
        };
        let url = value.parse::<Url>().ok();
        match url.filter(|url| url.has_host() && !value.contains(char::is_whitespace)) {
            Some(url) if url.scheme() == "https" => {}
            Some(url) if url.scheme() == "http" => {
                if ["aws_endpoint", "aws_endpoint_url_s3"].contains(&name.as_str())
                    && !settings.contains_key("allow_http")
                {
                    return refuse("requests to http:// need AWS_ALLOW_HTTP=\"true\" beside it");
                }
            }
            _ => return refuse("give a URL such as \"http://127.0.0.1:9000\", with http:// or https://"),
        }
    }
    Ok(())
}

fn has_prefix(scheme: &ObjectStoreScheme, name: &str) -> bool {
    match scheme {
        ObjectStoreScheme::AmazonS3 => name.starts_with("AWS_"),
        ObjectStoreScheme::GoogleCloudStorage => name.starts_with("GOOGLE_"),
        _ => name.starts_with("AZURE_"),
    }
}

fn service(scheme: &ObjectStoreScheme) -> &'static str {
    match scheme {
        ObjectStoreScheme::AmazonS3 => "S3",
        ObjectStoreScheme::GoogleCloudStorage => "Google Cloud Storage",
        _ => "Azure",
    }
}

fn examples(scheme: &ObjectStoreScheme) -> &'static str {
    match scheme {
        ObjectStoreScheme::AmazonS3 => {
            "AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL"
        }
        ObjectStoreScheme::GoogleCloudStorage => "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY",
        _ => "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
    }
}

/// Makes the store with the settings.
fn store(
    scheme: &ObjectStoreScheme,
    url: &Url,
    settings: &BTreeMap<String, String>,
    retry: RetryConfig,
    time: &str,
    connector: impl HttpConnector,
) -> object_store::Result<Arc<dyn Client>> {
    crate::runtime::choose_cryptography();
    let url = url.as_str();
    // First, so that a caller's own counts.
    let limit = ClientConfigKey::Timeout;
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let start = AmazonS3Builder::new()
                .with_url(url)
                .with_retry(retry)
                .with_http_connector(connector)
                .with_config(AmazonS3ConfigKey::Client(limit), time);
            let set = |builder: AmazonS3Builder, (name, value): (&String, &String)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            };
            Arc::new(settings.iter().fold(start, set).build()?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let start = GoogleCloudStorageBuilder::new()
                .with_url(url)
                .with_retry(retry)
                .with_http_connector(connector)
                .with_config(GoogleConfigKey::Client(limit), time);
            let set =
                |builder: GoogleCloudStorageBuilder, (name, value): (&String, &String)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                };
            Arc::new(settings.iter().fold(start, set).build()?)
        }
        _ => {
            let start = MicrosoftAzureBuilder::new()
                .with_url(url)
                .with_retry(retry)
                .with_http_connector(connector)
                .with_config(AzureConfigKey::Client(limit), time);
            let set = |builder: MicrosoftAzureBuilder, (name, value): (&String, &String)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            };
            Arc::new(settings.iter().fold(start, set).build()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
            .collect()
    }

    fn opened(url: &str, pairs: &[(&str, &str)]) -> Result<Target, WriteError> {
        Target::with_environment(url, &options(pairs), std::iter::empty())
    }

    #[test]
    fn every_scheme_names_its_object() {
        let azure = [
            ("azure_storage_account_name", "me"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
        ];
        let google = [("google_skip_signature", "true")];
        for (url, pairs, path) in [
            ("s3://bucket/a/b.parquet", &[][..], "a/b.parquet"),
            ("s3a://bucket/a%20b%3F.parquet", &[], "a b?.parquet"),
            ("gs://bucket/b.parquet", &google, "b.parquet"),
            ("az://container/b.parquet", &azure, "b.parquet"),
            (
                "abfss://container@me.dfs.core.windows.net/b.parquet",
                &azure[1..],
                "b.parquet",
            ),
        ] {
            let target = opened(url, pairs).unwrap();
            assert_eq!(target.path.as_ref(), path);
            assert_eq!(format!("{target:?}"), format!("Target({url:?})"));
        }
    }

    #[test]
    fn the_url_of_a_key_names_that_key() {
        let key = "day=2026-01-31 12%3A30/żółć #1?/100%.parquet";
        for (url, prefix) in [
            ("s3://bucket", ""),
            ("s3://bucket/", ""),
            ("s3://bucket/a%20b/c", "a b/c/"),
            ("s3://bucket/a b/c/", "a b/c/"),
        ] {
            let address = Address::with_environment(url, &[], std::iter::empty()).unwrap();
            let target = opened(&address.url_of(key), &[]).unwrap();
            assert_eq!(target.path.as_ref(), format!("{prefix}{key}"));
        }
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for (url, says) in [
            ("s3://bucket", "no object"),
            ("s3://bucket/folder/", "no object"),
            ("s3://bucket/a?versionId=1", "%3F"),
            ("s3://me:hidden@bucket/a", "password"),
            ("s3://me:hid/hidden@bucket/a", "s3://bucket/a is not"),
            ("s3://me:hid?hidden@bucket/a", "s3://bucket/a is not"),
            ("s3://me:hid#hidden@bucket/a", "s3://bucket/a is not"),
            ("s3://buc ket/a:b@c", "s3://buc ket/a:b@c is not"),
            ("ftp://host/a", "choose s3://"),
            ("memory:///a", "choose s3://"),
            ("s3:/bucket/a", "choose s3://"),
            ("s3:///a", "no bucket"),
            ("s3://bucket/x//y", "empty path segment"),
            ("s3://bucket/a%00z", "s3://bucket/a%00z is not accepted: Error"),
            ("s3://bucket/impor\ntant", "%0A"),
            ("s3://buc\nket/a", "%0A"),
            ("s3://bucket/a\tb", "%09"),
            ("s3://bucket/a ", "%20"),
            ("s3://bucket/a/../b", "\"..\""),
            ("s3://bucket/a/%2E./b", "\"..\""),
            ("s3://bucket:99/a", "a port or a user"),
            ("gs://me@bucket/a", "a port or a user"),
        ] {
            let message = opened(url, &[]).unwrap_err().to_string();
            assert!(message.contains(says), "{url}: {message}");
            assert!(!message.contains("hid"), "{message}");
        }
    }

    #[test]
    fn names_that_are_suggested_are_known() {
        for (scheme, names) in [
            (ObjectStoreScheme::AmazonS3, OF_S3),
            (ObjectStoreScheme::GoogleCloudStorage, OF_GOOGLE),
            (ObjectStoreScheme::MicrosoftAzure, OF_AZURE),
        ] {
            for name in names.iter().chain(OF_CLIENTS) {
                let value = if name.contains("retr") { "5" } else { "5s" };
                assert!(
                    StoreOptions::sort(&options(&[(name, value)]), &scheme).is_ok(),
                    "{name}"
                );
            }
        }
        for (_, name) in OTHER_NAMES {
            assert!(canonical(&ObjectStoreScheme::AmazonS3, name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_last_spelling_of_an_option_counts_and_all_come_before_the_environment() {
        let environment = [
            ("AWS_ENDPOINT_URL_S3", "http://environment:1"),
            ("AWS_REGION", "there"),
            ("AWS_SESSION_TOKEN", ""),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let settings = |pairs: &[(&str, &str)]| {
            Address::with_environment(
                "s3://bucket/a",
                &options(pairs),
                options(&environment).into_iter(),
            )
            .unwrap()
            .settings
        };
        for (first, last) in [
            ("AWS_ENDPOINT_URL", "endpoint_url"),
            ("endpoint_url", "AWS_ENDPOINT_URL"),
        ] {
            let pairs = [
                (first, "http://first:1"),
                (last, "http://last:1"),
                ("default_region", "here"),
            ];
            let found = settings(&pairs);
            let named = |name: &str| found.get(name).map(String::as_str);
            assert_eq!(named("aws_endpoint"), Some("http://last:1"));
            assert_eq!(named("aws_endpoint_url_s3"), None);
            assert_eq!(named("aws_default_region"), Some("here"));
            assert_eq!(named("aws_region"), None);
            assert_eq!(named("aws_session_token"), None);
        }
        assert_eq!(settings(&[])["aws_endpoint_url_s3"], "http://environment:1");
    }

    #[test]
    fn an_endpoint_that_no_request_can_be_made_of_is_refused() {
        for endpoint in [
            "127.0.0.1:9000",
            "",
            "localhost:9000",
            "minio",
            "/x",
            "http://",
            "http://a b",
            "ftp://a",
        ] {
            let pairs = [("AWS_ENDPOINT_URL", endpoint), ("allow_http", "true")];
            let message = opened("s3://bucket/a", &pairs).unwrap_err().to_string();
            assert!(message.contains("give a URL such as"), "{endpoint}: {message}");
        }
        let endpoint = ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000");
        let message = opened("s3://bucket/a", &[endpoint]).unwrap_err().to_string();
        assert!(message.contains("AWS_ALLOW_HTTP"), "{message}");
        assert!(opened("s3://bucket/a", &[endpoint, ("AWS_ALLOW_HTTP", "true")]).is_ok());
    }

    #[test]
    fn options_are_known_by_their_names_in_either_case() {
        let pairs = [
            ("AWS_REGION", "eu-west-1"),
            ("aws_access_key_id", "id"),
            ("aws_secret_access_key", "hidden"),
        ];
        assert!(opened("s3://bucket/a", &pairs).is_ok());
        assert!(opened("s3://bucket/a", &[("AWS_ALLOW_HTTP", "true"), ("timeout", "5s")]).is_ok());
        assert!(opened("s3://bucket/a", &[("AWS_S3_LOCKING_PROVIDER", "dynamodb")]).is_ok());
        assert!(opened("s3://bucket/a", &[("max_retries", "2"), ("retry_timeout", "5s")]).is_ok());
        let message = opened("s3://bucket/a", &[("aws_reigon", "x")])
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("aws_reigon") && message.contains("AWS_REGION"),
            "{message}"
        );
        for (url, unknown, near) in [
            ("s3://bucket/a", "aws_reigon", "AWS_REGION"),
            ("s3://bucket/a", "secret_acess_key", "AWS_SECRET_ACCESS_KEY"),
            ("s3://bucket/a", "endpoint_override", "AWS_ENDPOINT_URL"),
            ("s3://bucket/a", "time_out", "timeout"),
            ("gs://bucket/a", "GOOGLE_SERVICE_ACOUNT", "GOOGLE_SERVICE_ACCOUNT"),
            (
                "az://container/a",
                "azure_storage_acount_key",
                "AZURE_STORAGE_ACCOUNT_KEY",
            ),
        ] {
            let message = opened(url, &[(unknown, "x")]).unwrap_err().to_string();
            assert!(message.ends_with(&format!("{near} is the nearest")), "{message}");
        }
        let message = opened("s3://bucket/a", &[("colour", "x")])
            .unwrap_err()
            .to_string();
        assert!(message.contains("such as AWS_REGION"), "{message}");
        let message = opened("s3://bucket/a", &[("retry_timeout", "soon")])
            .unwrap_err()
            .to_string();
        assert!(message.contains("soon"), "{message}");
    }
}
