//! The HTTP layer below the clients: it records the store's clock and the status of each answer.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use chrono::DateTime;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

tokio::task_local! {
    /// The status of the last answer to the request at hand; 0 without an answer.
    static STATUS: Cell<u16>;
}

/// Runs a request, and returns the status of its last answer, if there was one.
pub(crate) async fn with_status<T>(request: impl Future<Output = T>) -> (T, Option<u16>) {
    STATUS
        .scope(Cell::new(0), async {
            let done = request.await;
            let status = STATUS.with(Cell::get);
            (done, (status != 0).then_some(status))
        })
        .await
}

/// The store's clock at its newest answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Milliseconds since the epoch; none before the first answer that had a date.
    pub fn now(&self) -> Option<i64> {
        let now = self.0.load(Ordering::Acquire);
        (now != 0).then_some(now)
    }

    fn note(&self, response: &HttpResponse) {
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|text| DateTime::parse_from_rfc2822(text).ok()) {
            self.0.store(date.timestamp_millis(), Ordering::Release);
        }
    }
}

/// Makes clients that note both.
#[derive(Debug, Clone)]
pub(crate) struct Watcher(pub Clock);

impl HttpConnector for Watcher {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watched {
            client: ReqwestConnector::default().connect(options)?,
            clock: self.0.clone(),
        }))
    }
}

#[derive(Debug)]
struct Watched {
    client: HttpClient,
    clock: Clock,
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // A request that is sent again has no answer until that one is there.
        let _ = STATUS.try_with(|status| status.set(0));
        let response = self.client.execute(request).await?;
        let _ = STATUS.try_with(|status| status.set(response.status().as_u16()));
        self.clock.note(&response);
        Ok(response)
    }
}
