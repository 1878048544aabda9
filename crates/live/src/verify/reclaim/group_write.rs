//! Writes to files of the memory cgroup while a sequence runs. On the command line of the reader a write is `ACCESS:FILE:BYTES`.

use std::fmt;
use std::str::FromStr;

use mm::memcontrol::MemcgFile;
use serde::{Deserialize, Serialize};

/// A write of a number of bytes to a file of the cgroup, just before an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupWrite {
    /// Number of the access, from 0.
    pub access: u32,
    #[serde(with = "file_name")]
    pub file: MemcgFile,
    pub bytes: u64,
}

impl fmt::Display for GroupWrite {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}", self.access, self.file.name(), self.bytes)
    }
}

impl FromStr for GroupWrite {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupWrite, String> {
        let wrong = || format!("`{text}` is not a write such as 0:memory.high:16777216");
        let [access, file, bytes] = text.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let number = |word: &str| word.parse().map_err(|_| wrong());
        Ok(GroupWrite {
            access: u32::try_from(number(access)?).map_err(|_| wrong())?,
            file: MemcgFile::find(file).ok_or_else(wrong)?,
            bytes: number(bytes)?,
        })
    }
}

/// A file by its name.
mod file_name {
    use super::MemcgFile;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(file: &MemcgFile, serializer: S) -> Result<S::Ok, S::Error> {
        file.name().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemcgFile, D::Error> {
        let name = String::deserialize(deserializer)?;
        let files = MemcgFile::ALL.map(|(name, _)| name).join(", ");
        MemcgFile::find(&name).ok_or_else(|| D::Error::custom(format!("no file `{name}`; there are {files}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_read_as_it_is_shown() {
        for text in ["0:memory.high:16777216", "20000:memory.reclaim:8388608"] {
            assert_eq!(text.parse::<GroupWrite>().unwrap().to_string(), text);
        }
        for wrong in ["", "1:memory.high", "1:memory.current:1", "-1:memory.high:1", "1:memory.high:1:1"] {
            assert!(wrong.parse::<GroupWrite>().is_err(), "{wrong}");
        }
    }
}
