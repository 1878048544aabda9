//! An object store that machines share, where they have no directory in common.
//!
//! ```text
//!   machine 1    results/  ◄─── get ───┐                 ┌─── get ───►  results/    machine 2
//!                   │ share            │   s3://bucket/  │             share │
//!                   └──────────────────┴──► mmtwin/...  ◄┴─────────────────────┘
//! ```
//!
//! Every run has a file of its own in the results directory, whose name is its identity. With a store, a file that the directory lacks is
//! looked for there and kept in the directory, and one that the store lacks is put there. Objects are written as a whole and all writers of
//! a name write the same result, so nothing has to be locked. What the directory has in packs is put there run by run.
//!
//! The store is Amazon's S3, or whatever speaks its protocol (MinIO, Ceph, R2): the address is `s3://BUCKET/PREFIX`, the rest comes from
//! the environment that other tools take (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`).
//! It takes the crates of an HTTP client, two minutes of CPU time to build, so it is there with the feature `object-store` only.

#[cfg(feature = "object-store")]
pub use shared::Store;

#[cfg(not(feature = "object-store"))]
pub use none::Store;

#[cfg(feature = "object-store")]
mod shared {
    use crate::results::ResultsError;
    use bytes::Bytes;
    use object_store::aws::{AmazonS3, AmazonS3Builder};
    use object_store::path::Path;
    use object_store::{Error, ObjectStoreExt, RetryConfig};
    use std::time::Duration;
    use tokio::runtime::Runtime;

    /// For how long a store that does not answer is asked again.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A store of results.
    #[derive(Debug)]
    pub struct Store {
        /// As it was given.
        address: String,
        store: AmazonS3,
        prefix: Path,
        /// Calls wait for it, each on the thread that makes it.
        runtime: Runtime,
    }

    impl Store {
        /// The store at an address such as `s3://bucket/prefix`; `environment` has the variables that say where it is and who asks.
        pub fn open(
            address: &str,
            environment: impl IntoIterator<Item = (String, String)>,
        ) -> Result<Store, ResultsError> {
            let wrong = |text: String| ResultsError::NoStore { address: address.into(), text };
            let place = address.strip_prefix("s3://").filter(|place| !place.is_empty());
            let place = place.ok_or_else(|| wrong("expected s3://BUCKET or s3://BUCKET/PREFIX".into()))?;
            let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
            // The only provider that is built in; whoever comes second finds it there.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let retry = RetryConfig { retry_timeout: PATIENCE, ..RetryConfig::default() };
            let mut builder = AmazonS3Builder::new();
            for (name, value) in environment {
                if let Ok(key) = name.to_ascii_lowercase().parse() {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_bucket_name(bucket).with_retry(retry);
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            Ok(Store {
                address: address.into(),
                store: builder.build().map_err(|error| wrong(error.to_string()))?,
                prefix: Path::parse(prefix).map_err(|error| wrong(error.to_string()))?,
                runtime: runtime.map_err(|error| wrong(error.to_string()))?,
            })
        }

        fn failed(&self, error: &Error) -> ResultsError {
            ResultsError::Store { address: self.address.clone(), text: error.to_string() }
        }

        /// The content of a file; none if the store lacks it.
        pub fn get(&self, name: &str) -> Result<Option<Bytes>, ResultsError> {
            let path = self.prefix.clone().join(name);
            let content = self.runtime.block_on(async { self.store.get(&path).await?.bytes().await });
            match content {
                Ok(content) => Ok(Some(content)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(self.failed(&error)),
            }
        }

        /// Whether the store has a file.
        pub fn has(&self, name: &str) -> Result<bool, ResultsError> {
            let path = self.prefix.clone().join(name);
            match self.runtime.block_on(self.store.head(&path)) {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(self.failed(&error)),
            }
        }

        /// Puts a file there, in the place of one of the same name.
        pub fn put(&self, name: &str, content: Bytes) -> Result<(), ResultsError> {
            let path = self.prefix.clone().join(name);
            let put = self.runtime.block_on(self.store.put(&path, content.into()));
            put.map(|_| ()).map_err(|error| self.failed(&error))
        }
    }
}

#[cfg(not(feature = "object-store"))]
mod none {
    use crate::results::ResultsError;
    use bytes::Bytes;

    /// A store of results; there are none in this build.
    #[derive(Debug)]
    pub enum Store {}

    impl Store {
        /// Says how to build a command that can open it.
        pub fn open(
            address: &str,
            _environment: impl IntoIterator<Item = (String, String)>,
        ) -> Result<Store, ResultsError> {
            let text = "this mmtwin was built without object stores; build it with \
                        cargo build --release --features object-store";
            Err(ResultsError::NoStore { address: address.into(), text: text.into() })
        }

        /// The content of a file.
        pub fn get(&self, _name: &str) -> Result<Option<Bytes>, ResultsError> {
            match *self {}
        }

        /// Whether the store has a file.
        pub fn has(&self, _name: &str) -> Result<bool, ResultsError> {
            match *self {}
        }

        /// Puts a file there.
        pub fn put(&self, _name: &str, _content: Bytes) -> Result<(), ResultsError> {
            match *self {}
        }
    }
}
