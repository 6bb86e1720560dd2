//! Recording a life, and deriving it again.

use crate::live::{sealed, send, soon, ticking};
use crate::objects::*;
use std::path::{Path, PathBuf};
use tidegate_engine::{Engine, Recording, ReplayError, ReplayReport, replay};
use tidegate_log::{Event, Header, Reader, Writer};
use tidegate_model::{ClientId, Kind};

/// Records the shop's life, one epoch a batch.
async fn record(path: &Path) -> u64 {
    let writer = Writer::create(path, &Header::new("test", 1, tidegate_model::CONTROLLER_NAME)).expect("a new file");
    let (handle, running) = Engine::start(config(1), ticking(), Some(writer)).expect("a thread can be started");
    send(&handle, shop()).await;
    send(&handle, synced()).await;
    assert_eq!(sealed(&handle, 0).await.recording, Recording::On);
    let client = ClientId { stream: 1, node: "envoy".into() };
    send(&handle, vec![Event::Connect { client, gateway: gateway_key().name }]).await;
    let mut epoch = 0;
    for batch in life() {
        send(&handle, batch).await;
        epoch += 1;
        sealed(&handle, epoch).await;
    }
    handle.shutdown().await;
    soon(running.wait()).await.expect("no error");
    epoch + 1
}

fn derive(path: &Path, workers: usize) -> Result<ReplayReport, ReplayError> {
    replay(Reader::open(path)?, &config(workers), |_| {})
}

/// The lines of the log at `path`, changed, in a file beside it.
fn edited(path: &Path, name: &str, edit: impl FnOnce(Vec<String>) -> Vec<String>) -> PathBuf {
    let text = std::fs::read_to_string(path).expect("the log is there");
    let lines = edit(text.lines().map(str::to_owned).collect());
    let path = path.with_file_name(name);
    std::fs::write(&path, lines.join("\n") + "\n").expect("the directory is ours");
    path
}

#[tokio::test]
async fn a_recording_derives_to_the_same_digests_at_any_number_of_workers() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for name in ["life.jsonl", "life.jsonl.zst"] {
        let path = folder.path().join(name);
        let epochs = record(&path).await;
        for workers in [1, 1, 2] {
            let report = derive(&path, workers).expect("the log is whole");
            assert!(report.is_equal(), "{report:?}");
            assert_eq!((report.epochs, report.equal), (epochs, epochs));
            assert_eq!(report.events, (initial().len() + 1 + life().concat().len()) as u64);
            assert!(report.tail.is_some_and(|tail| tail.is_clean()));
        }
    }
}

#[tokio::test]
async fn the_first_epoch_that_comes_out_otherwise_is_named() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("life.jsonl");
    let epochs = record(&path).await;
    // The first event after the seal of epoch 0 and the client is the slice of epoch 1.
    let path = edited(&path, "edited.jsonl", |mut lines| {
        let slice = lines.iter_mut().find(|line| line.contains("10.0.0.3"));
        let slice = slice.expect("epoch 1 holds this address");
        *slice = slice.replace("10.0.0.3", "10.0.0.4");
        lines
    });
    let report = derive(&path, 1).expect("the log can be read");
    assert_eq!(report.first_difference.map(|difference| difference.epoch), Some(1));
    // The next batch empties that slice again.
    assert_eq!((report.epochs, report.equal), (epochs, epochs - 1));
}

#[tokio::test]
async fn a_recording_without_an_epoch_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("life.jsonl");
    record(&path).await;
    let path = edited(&path, "edited.jsonl", |lines| {
        let mut seals = 0;
        let mut is_second = |line: &str| {
            let within = seals == 1;
            seals += usize::from(line.starts_with("{\"seal\""));
            within
        };
        lines.into_iter().filter(|line| !is_second(line)).collect()
    });
    let error = derive(&path, 1).expect_err("epoch 1 is missing");
    assert!(matches!(error, ReplayError::Epoch { expected: 1, found: 2 }), "{error}");
}

#[tokio::test]
async fn a_kind_that_the_recorder_did_not_know_is_taken_as_empty() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("life.jsonl");
    record(&path).await;
    let path = edited(&path, "edited.jsonl", |lines| {
        let (mut lines, mut is_first) = (lines, true);
        lines.retain(|line| line != "{\"synced\":\"Namespace\"}");
        for line in &mut lines {
            if line.starts_with("{\"seal\"") && std::mem::take(&mut is_first) {
                let events = initial().len();
                *line = line.replace(&format!("\"events\":{events}"), &format!("\"events\":{}", events - 1));
            }
        }
        lines
    });
    let report = derive(&path, 1).expect("the log can be read");
    assert!(report.is_equal());
    assert_eq!(report.assumed, [Kind::Namespace]);
}

#[tokio::test]
async fn a_torn_tail_costs_its_unsealed_epoch_alone() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("life.jsonl");
    let epochs = record(&path).await;
    let path = edited(&path, "edited.jsonl", |mut lines| {
        lines.pop();
        lines
    });
    let report = derive(&path, 1).expect("the log can be read");
    assert!(report.is_equal());
    assert_eq!(report.epochs, epochs - 1);
    assert_eq!((report.unsealed, report.tail.map(|tail| tail.unsealed)), (3, Some(3)));
}
