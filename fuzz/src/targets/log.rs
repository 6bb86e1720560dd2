//! Logs that broke, were cut or were made by somebody else. No crash; a cut loses at most the epoch that was not sealed;
//! what a plain log sealed before the first damage is
//! read as it was written, and of a compressed one what can be decoded is; and what can be read can be applied.

use super::Seen;
use crate::choices::Choices;
use crate::{mutate, render, seeds};
use serde_json::Value;
use std::io::Cursor;
use std::sync::OnceLock;
use tidegate_engine::{Config, Core, replay};
use tidegate_log::{Epoch, Header, Reader, Seal, Writer};
use tidegate_model::CONTROLLER_NAME;
use tidegate_workload::World;

/// A log that was written well.
struct Written {
    bytes: Vec<u8>,
    epochs: Vec<Epoch>,
    /// How long the file was when each epoch was sealed.
    ends: Vec<usize>,
    compressed: bool,
}

/// Plain and compressed, each closed and not; the last epoch has no seal.
fn written() -> &'static [Written] {
    static WRITTEN: OnceLock<Vec<Written>> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        (0..4)
            .map(|number| write(number, number % 2 == 1, number >= 2).expect("a temporary folder can be written"))
            .collect()
    })
}

fn write(seed: u64, compressed: bool, closed: bool) -> Result<Written, anyhow::Error> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(if compressed { "log.zst" } else { "log" });
    let mut writer = Writer::create(&path, &Header::new("0", 0, CONTROLLER_NAME))?;
    let mut core = Core::new(&Config::default());
    let mut world = World::new(seed);
    let (mut epochs, mut ends) = (Vec::new(), Vec::new());
    for number in 0..8 {
        let events = if number == 0 { world.list() } else { world.step() };
        events.iter().try_for_each(|event| writer.append(event))?;
        if number == 7 {
            writer.flush()?;
            epochs.push(Epoch { events, seal: None });
            break;
        }
        let digest = match core.apply(&events, number) {
            tidegate_engine::Applied::Sealed(sealed) => sealed.digest.to_string(),
            tidegate_engine::Applied::Pending { .. } => unreachable!("every kind is synced by the first batch"),
        };
        let seal = Seal { epoch: number, millis: number, events: events.len() as u64, digest };
        writer.seal(&seal)?;
        ends.push(usize::try_from(std::fs::metadata(&path)?.len())?);
        epochs.push(Epoch { events, seal: Some(seal) });
    }
    if closed {
        writer.finish()?;
    }
    Ok(Written { bytes: std::fs::read(&path)?, epochs, ends, compressed })
}

/// Any bytes as a log, plain or behind the mark of a compressed one.
pub(super) fn text(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let head = match choices.below(4) {
        0 => Vec::new(),
        1 => vec![0x28, 0xb5, 0x2f, 0xfd],
        _ => b"{\"tidegate\":{\"format\":1,\"version\":\"0\",\"created\":0,\"controller\":\"c\"}}\n".to_vec(),
    };
    read(&[&head, choices.rest()].concat(), &mut seen);
    seen
}

/// A log that was written well, and then damaged.
pub(super) fn damaged(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let log = choices.pick(written());
    let mut bytes = log.bytes.clone();
    match choices.below(4) {
        0 => {
            bytes.truncate(choices.below(bytes.len() + 1));
            check_cut(log, &bytes, &mut seen);
        }
        1 if !log.compressed => edit_line(&mut bytes, &mut choices),
        2 if !log.compressed => move_lines(&mut bytes, &mut choices),
        _ => {
            for _ in 0..1 + choices.below(4) {
                render::damage_once(&mut bytes, &mut choices);
            }
        }
    }
    let (epochs, ended) = read(&bytes, &mut seen);
    let intact = bytes.iter().zip(&log.bytes).take_while(|(found, wrote)| found == wrote).count();
    // A compressed log is decoded in pieces of many epochs: the piece with the damage is lost whole.
    let sealed = log.ends.iter().filter(|end| **end <= intact).count();
    let sealed = if log.compressed { sealed.min(epochs.len()) } else { sealed };
    assert!(
        epochs.len() >= sealed && epochs[..sealed] == log.epochs[..sealed],
        "{sealed} epochs were sealed before the damage at byte {intact}, {} were read ({ended})",
        epochs.len()
    );
    if choices.chance(3) {
        apply(&bytes, &mut seen);
    }
    seen
}

/// What is left of a log that was cut is a beginning of it, with every epoch whose seal is there.
fn check_cut(log: &Written, bytes: &[u8], seen: &mut Seen) {
    let mut reader = match Reader::new("cut", Cursor::new(bytes.to_vec())) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(log.ends[0] > bytes.len(), "cut at {}: {error}", bytes.len());
            return;
        }
    };
    let epochs: Result<Vec<Epoch>, _> = reader.by_ref().collect();
    let mut epochs = epochs.unwrap_or_else(|error| panic!("cut at byte {}: {error}", bytes.len()));
    let tail = reader.tail().expect("a log that was read has an end").clone();
    seen.note(&format!("cut: {tail:?}"));
    if let Some(unsealed) = epochs.pop_if(|epoch| epoch.seal.is_none()) {
        let wrote = &log.epochs[epochs.len()].events;
        assert_eq!(tail.unsealed, unsealed.events.len() as u64);
        assert!(wrote.starts_with(&unsealed.events), "the unsealed epoch is not a beginning of what was written");
    }
    let sealed = log.ends.iter().filter(|end| **end <= bytes.len()).count();
    assert!(epochs.len() >= sealed, "cut at byte {}: {} of {sealed} epochs", bytes.len(), epochs.len());
    assert_eq!(epochs[..], log.epochs[..epochs.len()], "cut at byte {}", bytes.len());
}

/// Reads to the end, twice; the epochs and how it ended.
fn read(bytes: &[u8], seen: &mut Seen) -> (Vec<Epoch>, String) {
    let (first, second) = (read_once(bytes), read_once(bytes));
    assert_eq!(first, second, "read twice, the same bytes say two things");
    seen.note(&first.1);
    for event in first.0.iter().flat_map(|epoch| &epoch.events) {
        let line = serde_json::to_string(event).expect("an event can be written");
        seen.note(&line.chars().take_while(|c| !c.is_ascii_digit()).take(12).collect::<String>());
    }
    first
}

fn read_once(bytes: &[u8]) -> (Vec<Epoch>, String) {
    let mut reader = match Reader::new("log", Cursor::new(bytes.to_vec())) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), error.to_string()),
    };
    let mut epochs = Vec::new();
    while let Some(epoch) = reader.next() {
        match epoch {
            Ok(epoch) => epochs.push(epoch),
            Err(error) => {
                assert!(reader.next().is_none(), "the reader goes on after {error}");
                return (epochs, error.to_string());
            }
        }
    }
    let tail = reader.tail().expect("a log that was read has an end");
    (epochs, format!("{tail:?}"))
}

/// What can be read can be replayed: to a report or an error.
fn apply(bytes: &[u8], seen: &mut Seen) {
    let Ok(reader) = Reader::new("log", Cursor::new(bytes.to_vec())) else { return };
    match replay(reader, &Config::default(), |_| {}) {
        Ok(report) => seen.note(&format!("replayed, equal: {}", report.is_equal())),
        Err(error) => seen.note(&error.to_string()),
    }
}

/// A line whose value is another one.
fn edit_line(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = choices.below(lines.len());
    let Ok(mut value) = serde_json::from_slice::<Value>(&lines[at]) else { return };
    let objects = seeds::objects();
    let other = choices.pick(objects);
    for _ in 0..1 + choices.below(3) {
        mutate::mutate(&mut value, &other.body, choices);
    }
    lines[at] = value.to_string().into_bytes();
    *bytes = lines.join(&b'\n');
}

/// Lines lost, doubled and exchanged.
fn move_lines(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let (one, two) = (choices.below(lines.len()), choices.below(lines.len()));
    match choices.below(4) {
        0 => lines.swap(one, two),
        1 => drop(lines.remove(one)),
        2 => lines.insert(two, lines[one]),
        _ => lines[one] = [&b"{}"[..], b"", b"null", b"{\"seal\":1}", b"{\"synced\":\"Nothing\"}"][choices.below(5)],
    }
    *bytes = lines.join(&b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_log::Event;

    #[test]
    fn the_logs_are_whole() {
        for log in written() {
            let (epochs, ended) = read_once(&log.bytes);
            assert_eq!(epochs, log.epochs, "{ended}");
            assert!(log.ends.windows(2).all(|pair| pair[0] < pair[1]) && epochs.len() == 8);
            let events: Vec<&Event> = epochs.iter().flat_map(|epoch| &epoch.events).collect();
            assert!(events.len() > 30, "{}", events.len());
        }
    }
}
