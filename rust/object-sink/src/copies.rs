//! Copies of objects to other names, which the store carries out itself: no byte of them comes here.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use object_store::ObjectStoreExt;
use tokio::time::{sleep, timeout};

use crate::folder::{FailureKind, RequestFailure, StoreFolder, until_failure};
use crate::upload::Client;
use crate::watch::with_status;

/// The time limit of a request: a store may be silent while it copies a large object.
const REQUEST_TIME: &str = "300s";
/// How long to wait for an asynchronous copy, or for pending copies after an interrupt.
const COPY_TIME: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl StoreFolder {
    /// Copies objects to other paths in the folder, many at a time; what is there is replaced. After a failure no other
    /// copy begins. It waits for copies under way, so that the caller may delete what was copied; a store that takes
    /// over five minutes for one may still complete it.
    ///
    /// # Errors
    /// The first [`RequestFailure`], which is [`FailureKind::Missing`] for an object that is not there; any of the
    /// copies may have been made. S3 refuses to copy objects of more than 5 GiB by one request.
    pub fn copy(&self, places: &[(String, String)]) -> Result<(), RequestFailure> {
        let store = self.client(REQUEST_TIME)?;
        let stop = Cell::new(false);
        let copies = until_failure(places, &stop, |(from, to)| self.copied(&*store, from, to));
        let mut copies = pin!(copies);
        self.wait(copies.as_mut()).unwrap_or_else(|ended| {
            stop.set(true);
            let _ = self.runtime.block_on(async { timeout(COPY_TIME, copies).await });
            Err(ended)
        })
    }

    async fn copied(&self, store: &dyn Client, from: &str, to: &str) -> Result<(), RequestFailure> {
        let (source, target) = (self.path_of(from)?, self.path_of(to)?);
        let (done, status) = with_status(store.copy(&source, &target)).await;
        done.map_err(|error| self.failure(from, &error, status))?;
        if self.address.copies_later() {
            let complete = async {
                // Until then, the object is empty.
                let whole = self.size_of(from).await?;
                while whole.is_none() || self.size_of(to).await? != whole {
                    sleep(LOOK_EVERY).await;
                }
                Ok(())
            };
            timeout(COPY_TIME, complete).await.unwrap_or_else(|_| {
                let message = format!("{}: the store has not completed the copy to it", self.url_of(to));
                Err(RequestFailure {
                    message,
                    kind: FailureKind::Lost,
                })
            })?;
        }
        Ok(())
    }
}
