//! The core: batches in, sealed epochs out.

use crate::objects::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_engine::{Applied, Core, Picture, Profiler};
use tidegate_log::Event;
use tidegate_model::{Fact, Kind, Name};
use tidegate_xds::Sealed;

fn sealed(applied: Applied) -> Arc<Sealed> {
    match applied {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("{missing:?} are awaited"),
    }
}

/// A core that has the shop.
fn open(workers: usize) -> Core {
    let mut core = Core::new(&config(workers));
    sealed(core.apply(&initial(), 1));
    assert_eq!(core.store().violations().len(), 0);
    core
}

/// What is sealed of exactly these objects.
fn fresh(objects: &[Event]) -> Arc<Sealed> {
    let mut core = Core::new(&config(1));
    let batch: Vec<Event> = objects.iter().cloned().chain(synced()).collect();
    sealed(core.apply(&batch, 1))
}

#[test]
fn nothing_is_sealed_before_every_kind_is_listed() {
    let mut core = Core::new(&config(1));
    let (last, first) = (Kind::Service, Kind::ALL.into_iter().filter(|kind| *kind != Kind::Service));
    assert!(matches!(core.apply(&shop(), 1), Applied::Pending { missing } if missing == Kind::ALL));
    for kind in first {
        assert!(matches!(core.apply(&[Event::Synced(kind)], 2), Applied::Pending { .. }));
    }
    assert_eq!((core.missing(), core.epoch()), (vec![last], None));
    let sealed = sealed(core.apply(&[Event::Synced(last)], 3));
    assert_eq!((sealed.epoch, sealed.millis), (0, 3));
    assert_eq!(sealed.digest, fresh(&shop()).digest);
    assert_eq!((core.missing(), core.epoch()), (vec![], Some(0)));
}

#[test]
fn an_unreadable_kind_holds_nobody_back() {
    let mut core = Core::new(&config(1));
    let batch: Vec<Event> = Kind::ALL
        .into_iter()
        .map(|kind| match kind {
            Kind::ReferenceGrant => Event::Unreadable { kind, reason: "forbidden".to_owned() },
            kind => Event::Synced(kind),
        })
        .collect();
    sealed(core.apply(&batch, 1));
    assert_eq!(core.gate().unreadable_kinds().keys().collect::<Vec<_>>(), [&Kind::ReferenceGrant]);
    sealed(core.apply(&[Event::Synced(Kind::ReferenceGrant)], 2));
    assert_eq!(core.gate().unreadable_kinds().len(), 0);
}

#[test]
fn the_shop_is_sealed_whole() {
    let sealed = fresh(&shop());
    let view = &sealed.gateways[&gateway_key().name];
    let members: Vec<&str> = view.members.iter().map(Name::as_str).collect();
    assert_eq!(members, ["shop/cart/80", "shop/web/80"]);
    assert_eq!(sealed.endpoints.keys().map(Name::as_str).collect::<Vec<_>>(), members);
    assert_eq!((view.listeners.len(), view.tables.len()), (1, 1));
    assert!(sealed.status.contains_key(&gateway_key()));
}

#[test]
fn a_relist_of_what_is_known_changes_nothing() {
    let mut core = open(1);
    let (before, facts) = (fresh(&shop()).digest, core.facts());
    let again = sealed(core.apply(&initial(), 2));
    assert_eq!((again.epoch, again.millis, again.digest), (1, 2, before));
    assert_eq!((core.changed_facts(), core.changed_rows(), core.facts()), (0, 0, facts));
}

#[test]
fn an_epoch_that_changes_after_idle_ones_is_complete() {
    let mut core = open(1);
    for millis in 2..5 {
        sealed(core.apply(&[], millis));
    }
    let change = sealed(core.apply(&[slice("web", &["10.9.9.9"])], 5));
    let mut objects = shop();
    objects.push(slice("web", &["10.9.9.9"]));
    assert_eq!((change.epoch, change.digest), (4, fresh(&objects).digest));
}

#[test]
fn an_endpoint_change_changes_one_fact_and_one_resource() {
    let mut core = open(1);
    sealed(core.apply(&[slice("cart", &["10.0.0.1"])], 2));
    assert_eq!((core.changed_facts(), core.changed_rows()), (2, 2));
}

#[test]
fn the_last_of_several_events_about_one_object_counts() {
    let mut core = open(1);
    let batch = [
        slice("web", &["10.7.7.7"]),
        delete(&slice("web", &[])),
        delete(&service("cart")),
        slice("web", &["10.0.1.1"]),
        service("cart"),
    ];
    sealed(core.apply(&batch, 2));
    assert_eq!(core.changed_facts(), 0);
    sealed(core.apply(&[service("web"), delete(&service("web"))], 3));
    assert_eq!(core.changed_facts(), 1);
}

#[test]
fn deleting_what_was_never_there_is_void() {
    let mut core = open(1);
    let before = core.facts();
    sealed(core.apply(&[delete(&service("never"))], 2));
    assert_eq!((core.changed_facts(), core.facts()), (0, before));
}

#[test]
fn a_name_can_be_used_again_for_something_else() {
    let mut core = open(1);
    sealed(core.apply(&[delete(&route("web", "/", "web"))], 2));
    let reused = sealed(core.apply(&[route("web", "/new", "cart")], 3));
    let mut objects = shop();
    objects.push(route("web", "/new", "cart"));
    assert_eq!(reused.digest, fresh(&objects).digest);
}

#[test]
fn equal_grants_of_two_objects_count_once_and_go_with_the_last() {
    let mut core = open(1);
    sealed(core.apply(&[grant("a"), grant("b")], 2));
    assert_eq!(core.changed_facts(), 1);
    sealed(core.apply(&[delete(&grant("a"))], 3));
    assert_eq!(core.changed_facts(), 0);
    assert!(core.facts().iter().any(|fact| matches!(fact, Fact::Grant(_))));
    sealed(core.apply(&[delete(&grant("b"))], 4));
    assert!(!core.facts().iter().any(|fact| matches!(fact, Fact::Grant(_))));
}

#[test]
fn everything_that_comes_goes() {
    let mut core = open(1);
    let gone: Vec<Event> = shop().iter().map(delete).collect();
    let empty = sealed(core.apply(&gone, 2));
    assert_eq!((empty.digest, core.facts(), core.fact_count()), (fresh(&[]).digest, BTreeSet::new(), 0));
    assert_eq!((empty.clusters.len(), empty.gateways.len(), empty.status.len()), (0, 0, 0));
}

#[test]
fn every_epoch_of_a_life_is_the_same_at_one_and_two_workers_and_from_nothing() {
    let (mut one, mut two) = (open(1), open(2));
    let mut live = Vec::from_iter(shop());
    for (index, batch) in life().into_iter().enumerate() {
        let millis = 2 + index as u64;
        let (a, b) = (sealed(one.apply(&batch, millis)), sealed(two.apply(&batch, millis)));
        live.extend(batch);
        assert_eq!(a.digest, b.digest, "batch {index}");
        assert_eq!(a.digest, fresh(&live).digest, "batch {index}");
        assert_eq!((one.facts(), one.fact_count()), (two.facts(), one.facts().len()));
        assert_eq!((one.store().violations().len(), two.store().violations().len()), (0, 0));
    }
}

#[test]
fn a_profiled_core_seals_the_same_and_says_what_its_operators_do() {
    #[allow(clippy::disallowed_methods, reason = "a profile measures real time")]
    let start = std::time::Instant::now();
    for workers in [1, 2] {
        let profiler = Profiler::new(start);
        let mut core = Core::profiled(&config(workers), &profiler);
        assert_eq!(sealed(core.apply(&initial(), 1)).digest, fresh(&shop()).digest);
        let picture = profiler.first();
        assert_eq!(picture.epochs, 1);
        let lowering = picture.operators.iter().find(|operator| operator.name == "lower routes").unwrap();
        assert!(lowering.calls > 0 && !lowering.busy.is_zero() && lowering.arranged > 0 && lowering.batches > 0);
        let into: Vec<_> = picture.channels.iter().filter(|channel| channel.target == lowering.address).collect();
        assert!(!into.is_empty() && into.iter().all(|channel| channel.data.starts_with("alloc::")), "{into:?}");
        assert!(picture.channels.iter().any(|channel| channel.messages > 0 && channel.records > 0));
        // The first epoch is apart; what is arranged stays.
        let after = profiler.look();
        assert_eq!((after.epochs, after.operators.len()), (0, picture.operators.len()));
        assert!(after.operators.iter().all(|operator| operator.calls == 0));
        assert!(after.channels.iter().all(|channel| channel.messages == 0));
        let arranged = |of: &Picture| of.operators.iter().map(|operator| operator.arranged).sum::<u64>();
        assert_eq!(arranged(&after), arranged(&picture));
        core.apply(&[route("cart", "/cart", "basket")], 2);
        let changed = profiler.take();
        assert_eq!((changed.epochs, profiler.take().epochs), (1, 0), "taken is taken");
        assert!(changed.channels.iter().any(|channel| channel.records > 0));
    }
}
