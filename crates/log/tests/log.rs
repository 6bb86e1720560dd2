//! Logs are read back as they were written, and whatever happens to a file is told, never guessed.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is the message")]

use proptest::prelude::*;
use serde_json::json;
use std::io::Cursor;
use std::path::Path;
use tidegate_log::{Epoch, Error, Event, Header, Object, Reader, Seal, Writer};
use tidegate_model::{ClientId, Kind, NamespacedName, ObjectKey, ResourceType};

fn header() -> Header {
    Header::new("0.1.0", 1_700_000_000_000, "tidegate.dev/gateway-controller")
}

fn service(name: &str, port: u16) -> Event {
    let body = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "labels": {"text": "ü \"quoted\" \n"}},
        "spec": {"ports": [{"port": port}]},
    });
    Event::Apply(Object::new(body).unwrap())
}

fn epoch(number: u64, events: Vec<Event>) -> Epoch {
    let seal = Seal {
        epoch: number,
        millis: 1_700_000_000_000 + number,
        events: events.len() as u64,
        digest: format!("{number:064x}"),
    };
    Epoch { events, seal: Some(seal) }
}

fn sample() -> Vec<Epoch> {
    vec![
        epoch(0, vec![service("cart", 80), Event::Synced(Kind::Service), Event::Synced(Kind::Gateway)]),
        epoch(1, vec![Event::Delete(ObjectKey::new(Kind::HttpRoute, "shop", "cart"))]),
        epoch(2, vec![]),
        epoch(3, vec![service("cart", 81), service("pay", 80)]),
    ]
}

fn write(path: &Path, epochs: &[Epoch]) {
    let mut writer = Writer::create(path, &header()).unwrap();
    for epoch in epochs {
        append(&mut writer, epoch);
    }
    writer.finish().unwrap();
}

fn append(writer: &mut Writer, epoch: &Epoch) {
    for event in &epoch.events {
        writer.append(event).unwrap();
    }
    if let Some(seal) = &epoch.seal {
        writer.seal(seal).unwrap();
    }
}

fn bytes(name: &str, epochs: &[Epoch]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join(name), epochs);
    std::fs::read(dir.path().join(name)).unwrap()
}

fn reader(bytes: &[u8]) -> Result<Reader, Error> {
    Reader::new("test", Cursor::new(bytes.to_vec()))
}

fn read(bytes: &[u8]) -> Result<(Vec<Epoch>, tidegate_log::Tail), Error> {
    let mut reader = reader(bytes)?;
    let epochs = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    let tail = reader.tail().expect("the tail is known once all epochs are read").clone();
    Ok((epochs, tail))
}

#[test]
fn what_was_written_is_read_back_plain_and_compressed() {
    for name in ["log.jsonl", "log.jsonl.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        write(&path, &sample());
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.header(), &header());
        let epochs: Vec<Epoch> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(epochs, sample(), "{name}");
        assert!(reader.tail().unwrap().is_clean(), "{name}");
        let compressed = std::fs::read(&path).unwrap().starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
        assert_eq!(compressed, name.ends_with(".zst"));
    }
}

#[test]
fn a_log_reads_as_its_documentation_says() {
    let text = String::from_utf8(bytes("log", &sample()[1..2])).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"tidegate":{"format":1,"version":"0.1.0","created":1700000000000,"#,
            r#""controller":"tidegate.dev/gateway-controller"}}"#,
            "\n",
            r#"{"delete":{"kind":"HTTPRoute","name":"shop/cart"}}"#,
            "\n",
            r#"{"seal":{"epoch":1,"millis":1700000000001,"events":1,"#,
            r#""digest":"0000000000000000000000000000000000000000000000000000000000000001"}}"#,
            "\n",
        )
    );
}

#[test]
fn a_log_cut_anywhere_yields_its_whole_epochs_and_no_other() {
    for name in ["log", "log.zst"] {
        let whole = bytes(name, &sample());
        let mut most = 0;
        for cut in 0..whole.len() {
            let (epochs, tail) = match read(&whole[..cut]) {
                Ok(read) => read,
                Err(Error::NotALog { .. }) => {
                    assert_eq!(most, 0, "{name} cut at {cut}: an epoch was lost");
                    continue;
                }
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            };
            let sealed: Vec<&Epoch> = epochs.iter().filter(|epoch| epoch.seal.is_some()).collect();
            assert!(sealed.iter().zip(sample().iter()).all(|(read, wrote)| *read == wrote), "{name} cut at {cut}");
            assert!(sealed.len() >= most, "{name} cut at {cut}: fewer epochs than a shorter cut gave");
            most = sealed.len();
            let rest = epochs.iter().find(|epoch| epoch.seal.is_none());
            assert_eq!(tail.unsealed, rest.map_or(0, |epoch| epoch.events.len() as u64));
            if let Some(rest) = rest {
                assert!(sample()[sealed.len()].events.starts_with(&rest.events), "{name} cut at {cut}");
            }
        }
        assert!(most >= sample().len() - 1, "{name}: only {most} epochs survived the last cut");
    }
}

#[test]
fn a_crash_after_a_seal_loses_nothing() {
    for name in ["log", "log.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut writer = Writer::create(&path, &header()).unwrap();
        for number in 0..3 {
            append(&mut writer, &sample()[number]);
            // Read while the writer is still open: what a process that is killed here leaves behind.
            let (epochs, tail) = read(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(epochs, sample()[..=number], "{name}");
            assert_eq!(tail.unsealed, 0, "{name}");
        }
        writer.append(&service("late", 80)).unwrap();
        assert_eq!(writer.events(), 1);
        writer.flush().unwrap();
        let (epochs, tail) = read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(epochs[3], Epoch { events: vec![service("late", 80)], seal: None }, "{name}");
        assert_eq!(tail.unsealed, 1, "{name}");
    }
}

#[test]
fn a_torn_tail_says_where_it_breaks_off() {
    let whole = bytes("log", &sample());
    let (_, tail) = read(&whole[..whole.len() - 5]).unwrap();
    let text = tail.to_string();
    assert!(text.contains("breaks off at line 11"), "{text}");
    assert!(text.contains("2 events after the last seal were read"), "{text}");
}

#[test]
fn damage_before_the_end_names_line_byte_and_reason() {
    let text = String::from_utf8(bytes("log", &sample())).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let edited = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        edit(&mut lines);
        read(lines.concat().as_bytes()).unwrap_err().to_string()
    };
    let offset = lines[0].len() + 1;
    for (error, expected) in [
        (edited(&|l| l[1] = "{\"apply\":{\"kind\n".into()), format!("damaged at line 2 (byte {offset})")),
        (edited(&|l| l[1] = "garbage\n".into()), "line 2".into()),
        (edited(&|l| l[1] = "\n".into()), "line 2".into()),
        (edited(&|l| l[1] = "{\"invented\":1}\n".into()), "unknown variant `invented`".into()),
        (
            edited(&|l| l[1] = "{\"apply\":{\"apiVersion\":\"v1\",\"kind\":\"Service\"}}\n".into()),
            "metadata.name".into(),
        ),
        (edited(&|l| l[1] = "{\"synced\":\"Gateway\",\"x\":1}\n".into()), "line 2".into()),
        (edited(&|l| drop(l.remove(2))), "the seal of epoch 0 counts 3 events, 2 are there".into()),
        (edited(&|l| l[6] = l[4].replace("\"events\":3", "\"events\":1")), "epoch 0 follows epoch 0".into()),
        (edited(&|l| l[6] = l[0].clone()), "a second header".into()),
        (edited(&|l| l[6] = "{\"seal\":{\"epoch\":1}}\n".into()), "missing field `millis` (column".into()),
    ] {
        assert!(error.contains(&expected), "{error:?} should contain {expected:?}");
    }
}

#[test]
fn a_reader_yields_nothing_after_an_error() {
    let text = String::from_utf8(bytes("log", &sample())).unwrap().replacen("delete", "elete", 1);
    let mut reader = reader(text.as_bytes()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
    assert_eq!(reader.tail(), None);
}

#[test]
fn what_is_no_log_is_refused_at_its_first_line() {
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0];
    let zeros = vec![0; 2 << 20];
    for (bytes, expected) in [
        (&b""[..], "it is empty"),
        (&b"apiVersion: v1\n"[..], "its first line is not a header"),
        (&b"{\"apply\":{}}\n"[..], "its first line is not a header"),
        (&gzip[..], "its first line is not a header"),
        (&zeros[..], "a line of more than"),
        (&b"\x28\xb5\x2f\xfdnot really zstd"[..], "is not a tidegate log"),
        (&b"{\"tidegate\":{\"form"[..], "breaks off within its header"),
        (&b"{\"tidegate\":{}}\n"[..], "no format number"),
        (&b"{\"tidegate\":{\"format\":1}}\n"[..], "its header is damaged: missing field"),
        (&b"{\"tidegate\":{\"format\":9,\"version\":\"7.1\"}}\n"[..], "format 9, this version reads format 1"),
    ] {
        let error = reader(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
    }
}

#[test]
fn a_recording_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    write(&path, &sample());
    assert!(matches!(Writer::create(&path, &header()), Err(Error::Exists { .. })));
    assert_eq!(read(&std::fs::read(&path).unwrap()).unwrap().0, sample());
}

#[test]
fn a_seal_that_counts_wrongly_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path().join("log"), &header()).unwrap();
    writer.append(&service("cart", 80)).unwrap();
    let seal = Seal { epoch: 0, millis: 0, events: 2, digest: String::new() };
    assert!(matches!(writer.seal(&seal), Err(Error::SealMismatch { events: 1, sealed: 2, .. })));
}

#[test]
fn a_missing_file_is_named() {
    let error = Reader::open("/nowhere/log.zst").unwrap_err().to_string();
    assert!(error.starts_with("cannot open log /nowhere/log.zst: "), "{error}");
}

fn any_event() -> impl Strategy<Value = Event> {
    let key = ("[a-z]{1,5}", "[a-z]{1,5}").prop_map(|(ns, name)| ObjectKey::new(Kind::HttpRoute, &ns, &name));
    let client = (any::<u64>(), "\\PC{0,8}").prop_map(|(stream, node)| ClientId { stream, node: node.into() });
    let kind = prop::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        ("[a-z]{1,5}", any::<u16>()).prop_map(|(name, port)| service(&name, port)),
        key.clone().prop_map(Event::Delete),
        kind.clone().prop_map(Event::Synced),
        (kind, "\\PC*").prop_map(|(kind, reason)| Event::Unreadable { kind, reason }),
        (key, any::<u64>()).prop_map(|(key, renewed)| Event::Expired { key, renewed }),
        client.clone().prop_map(|client| Event::Connect { client, gateway: NamespacedName::parse("shop/public") }),
        client.clone().prop_map(|client| Event::Disconnect { client }),
        (client, ".*").prop_map(|(client, detail)| Event::Rejected {
            client,
            resource_type: ResourceType::Table,
            resources: vec![("a".into(), "b".into())],
            detail,
        }),
    ]
}

fn any_epochs() -> impl Strategy<Value = Vec<Epoch>> {
    prop::collection::vec(prop::collection::vec(any_event(), 0..6), 0..6).prop_map(|batches| {
        batches.into_iter().enumerate().map(|(number, events)| epoch(number as u64, events)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_log_is_read_back_as_written(epochs in any_epochs(), compressed in any::<bool>()) {
        let name = if compressed { "log.zst" } else { "log" };
        let (read, tail) = read(&bytes(name, &epochs)).unwrap();
        prop_assert_eq!(read, epochs);
        prop_assert!(tail.is_clean());
    }

    #[test]
    fn no_damage_makes_the_reader_panic(compressed in any::<bool>(), at in any::<prop::sample::Index>(), with: u8) {
        let mut bytes = bytes(if compressed { "log.zst" } else { "log" }, &sample());
        let at = at.index(bytes.len());
        bytes[at] = with;
        // Any outcome but a panic is right: a byte inside a text may change without breaking the format.
        if let Ok(reader) = reader(&bytes) {
            reader.for_each(drop);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        if let Ok(reader) = reader(&bytes) {
            reader.for_each(drop);
        }
    }
}
