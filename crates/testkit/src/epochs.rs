//! The input of a scenario: YAML documents, batch by batch.
//!
//! ```yaml
//! kind: Service          # before the first mark: the first batch
//! ---
//! kind: EndpointSlice
//! --- # epoch 2
//! kind: Service          # replaces the object
//! --- # delete
//! kind: EndpointSlice    # only its identity is looked at
//! ```
//!
//! A line `--- # epoch N` begins batch N, `--- # delete` a document that names an object to delete, any other line
//! that begins with `---` a document.

use serde_json::Value;
use thiserror::Error;

/// An input that cannot be split.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// A document is not YAML.
    #[error("line {line}: the document that begins here is not YAML: {reason}")]
    Document {
        /// Line of the file, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A mark without a number, or whose number is not above the last one.
    #[error("line {line}: write `--- # epoch N` with N above {last}")]
    Mark {
        /// Line of the file, from 1.
        line: usize,
        /// The last number.
        last: u64,
    },
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is there, in this form.
    Apply(Value),
    /// The object is gone; the document holds at least its `apiVersion`, `kind` and `metadata`.
    Delete(Value),
}

/// What happens at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number, 1 for what stands before the first mark.
    pub epoch: u64,
    /// In the order of the file.
    pub changes: Vec<Change>,
}

/// Splits `text` into batches.
///
/// # Errors
///
/// A document is not YAML, or the numbers of the marks do not rise. Both name the line.
pub fn split(text: &str) -> Result<Vec<Batch>, Error> {
    let mut batches = vec![Batch { epoch: 1, changes: Vec::new() }];
    let mut document = Document { line: 1, delete: false, text: String::new() };
    for (number, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("---") else {
            document.text.push_str(line);
            document.text.push('\n');
            continue;
        };
        let last = batches.last_mut().expect("there is always one batch");
        document.add_to(last)?;
        let comment = rest.trim().strip_prefix('#').map_or("", str::trim);
        document = Document { line: number + 2, delete: comment == "delete", text: String::new() };
        if let Some(mark) = comment.strip_prefix("epoch") {
            let epoch = mark.trim().parse().ok().filter(|epoch| *epoch > last.epoch);
            // `epoch 1` may stand before anything else, for those who like to say it.
            let first = last.epoch == 1 && last.changes.is_empty() && mark.trim() == "1";
            let error = Error::Mark { line: number + 1, last: last.epoch };
            match epoch {
                Some(epoch) => batches.push(Batch { epoch, changes: Vec::new() }),
                None if first => {}
                None => return Err(error),
            }
        }
    }
    document.add_to(batches.last_mut().expect("there is always one batch"))?;
    Ok(batches)
}

struct Document {
    line: usize,
    delete: bool,
    text: String,
}

impl Document {
    /// Adds what the document says; an empty one, or one of comments, says nothing.
    fn add_to(&self, batch: &mut Batch) -> Result<(), Error> {
        let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if !self.text.lines().any(says) {
            return Ok(());
        }
        let value: Value = serde_saphyr::from_str(&self.text)
            .map_err(|error| Error::Document { line: self.line, reason: error.to_string() })?;
        batch.changes.push(if self.delete { Change::Delete(value) } else { Change::Apply(value) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_fall_into_the_batch_of_the_last_mark() {
        let text =
            "# about\n---\na: 1\n---\na: 2\n--- # epoch 2\n# nothing\n---\na: 3\n--- # delete\na: 1\n--- # epoch 5\n";
        let apply = |n| Change::Apply(json!({ "a": n }));
        let expected = [
            Batch { epoch: 1, changes: vec![apply(1), apply(2)] },
            Batch { epoch: 2, changes: vec![apply(3), Change::Delete(json!({ "a": 1 }))] },
            Batch { epoch: 5, changes: vec![] },
        ];
        assert_eq!(split(text).unwrap(), expected);
        assert_eq!(split("--- # epoch 1\na: 1\n").unwrap(), [Batch { epoch: 1, changes: vec![apply(1)] }]);
    }

    #[test]
    fn marks_that_do_not_rise_are_refused_by_line() {
        assert_eq!(split("a: 1\n--- # epoch 3\n--- # epoch 3\n"), Err(Error::Mark { line: 3, last: 3 }));
        assert_eq!(split("a: 1\n--- # epoch soon\n"), Err(Error::Mark { line: 2, last: 1 }));
    }

    #[test]
    fn a_document_that_is_not_yaml_is_named_by_line() {
        let error = split("a: 1\n---\nb: [\n").unwrap_err();
        assert!(matches!(error, Error::Document { line: 3, .. }), "{error}");
    }
}
