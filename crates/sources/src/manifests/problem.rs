//! What is wrong with the manifests, in words that say where and what to do.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use tidegate_model::{ObjectKey, plain};

/// One thing that is wrong with a manifest, for as long as it is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// The line, from 1; 0 if it concerns the file as a whole.
    pub line: u64,
    /// The column in characters, from 1; 0 if it concerns the file as a whole.
    pub column: u64,
    /// The object, as far as its key could be read.
    #[serde(serialize_with = "as_text")]
    pub object: Option<ObjectKey>,
    /// The field, empty if it is not about one.
    pub field: String,
    /// What is wrong, what follows from it, and what to do.
    pub message: String,
}

fn as_text<S: serde::Serializer>(key: &Option<ObjectKey>, serializer: S) -> Result<S::Ok, S::Error> {
    key.as_ref().map(ToString::to_string).serialize(serializer)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.path.display().to_string();
        if self.line > 0 {
            text.push_str(&format!(":{}:{}", self.line, self.column));
        }
        if let Some(object) = &self.object {
            text.push_str(&format!(": {object}"));
        }
        if !self.field.is_empty() && !self.message.contains(&self.field) {
            text.push_str(&format!(": {}", self.field));
        }
        // Files have names too.
        write!(f, "{}: {}", plain(&text), plain(&self.message))
    }
}
