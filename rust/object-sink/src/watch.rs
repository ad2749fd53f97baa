//! The HTTP layer below the clients: it records the date and the status of each answer.

use std::cell::Cell;

use async_trait::async_trait;
use chrono::DateTime;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// The head of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answer {
    /// Its status; none without an answer.
    pub status: Option<u16>,
    /// The store's clock, as its `Date` says: milliseconds since the epoch.
    pub date: Option<i64>,
}

impl Answer {
    fn of(response: &HttpResponse) -> Self {
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        let date = date.and_then(|text| DateTime::parse_from_rfc2822(text).ok());
        Self {
            status: Some(response.status().as_u16()),
            date: date.map(|date| date.timestamp_millis()),
        }
    }
}

tokio::task_local! {
    /// The last answer to the request at hand.
    static ANSWER: Cell<Answer>;
}

/// Runs a request, and returns its last answer.
pub(crate) async fn with_answer<T>(request: impl Future<Output = T>) -> (T, Answer) {
    ANSWER
        .scope(Cell::default(), async {
            let done = request.await;
            (done, ANSWER.with(Cell::get))
        })
        .await
}

/// Runs a request, and returns the status of its last answer, if there was one.
pub(crate) async fn with_status<T>(request: impl Future<Output = T>) -> (T, Option<u16>) {
    let (done, answer) = with_answer(request).await;
    (done, answer.status)
}

/// Makes clients that note answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watcher;

impl HttpConnector for Watcher {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watched {
            client: ReqwestConnector::default().connect(options)?,
        }))
    }
}

#[derive(Debug)]
struct Watched {
    client: HttpClient,
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // A request that is sent again has no answer until that one is there.
        let _ = ANSWER.try_with(Cell::take);
        let response = self.client.execute(request).await?;
        let _ = ANSWER.try_with(|answer| answer.set(Answer::of(&response)));
        Ok(response)
    }
}
