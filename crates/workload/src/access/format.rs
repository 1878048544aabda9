//! Which formats there are, and how to tell them apart.

use std::str::FromStr;

use super::input::Input;
use super::{AccessError, Decode, UnknownFormat, oracle};

/// A format of access traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// libCacheSim's records of 24 bytes: time, object, size, next access. Name: `oracle-general`.
    OracleGeneral,
}

impl Format {
    /// The names that [`FromStr`] takes, for errors and help.
    pub const NAMES: &str = "`oracle-general`";

    pub(super) fn decoder(self, _input: &mut Input) -> Result<Box<dyn Decode>, AccessError> {
        Ok(match self {
            Format::OracleGeneral => Box::new(oracle::OracleGeneral::new()),
        })
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        match name {
            "oracle-general" => Ok(Format::OracleGeneral),
            _ => Err(UnknownFormat { name: name.to_string() }),
        }
    }
}

/// The format of a trace, by its contents and name.
pub(super) fn detect(input: &Input) -> Result<Format, AccessError> {
    let unrecognised =
        |found: &str| AccessError::Unrecognised { file: input.file.clone(), found: found.to_string() };
    if input.head().starts_with(b"PAR1") {
        return Err(unrecognised("is a Parquet file, not an access trace"));
    }
    if input.file.to_ascii_lowercase().contains("oraclegeneral") || oracle::plausible(input.head()) {
        return Ok(Format::OracleGeneral);
    }
    Err(unrecognised("is of no format that can be recognised"))
}
