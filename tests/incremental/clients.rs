//! What clients at random places are told, against an oracle that translates for each of them alone.

use super::{STEPS, histories_of, sealed, settings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_engine::Core;
use tidegate_model::Name;
use tidegate_translate::reference::seen_from;
use tidegate_workload::{Random, World, world};
use tidegate_xds::{Sealed, Version};

/// Clients at each epoch, each at a place of its own.
const CLIENTS: usize = 6;

/// What the histories were worth.
#[derive(Default)]
struct Seen {
    /// Assignments that were compared.
    compared: AtomicUsize,
    /// Those of them that are not the form for everybody.
    located: AtomicUsize,
}

#[test]
fn every_client_of_random_histories_is_told_what_is_for_its_place() {
    let seen = Seen::default();
    let count = histories_of(2, |seed| play(seed, &seen));
    let (compared, located) = (seen.compared.into_inner(), seen.located.into_inner());
    eprintln!("{count} histories, {compared} assignments of clients, {located} of them for their places");
    assert!(located * 50 > compared, "hardly any client is told something of its own: {located} of {compared}");
}

fn play(seed: u64, seen: &Seen) {
    let mut core = Core::new(&settings().config());
    let (mut world, mut random) = (World::new(seed), Random::new(seed ^ 0xC11E));
    let mut batch = world.list();
    for step in 0..STEPS {
        let next = sealed(core.apply(&batch, 1 + step as u64));
        check(seed, step, &core, &next, &mut random, seen);
        batch = world.step();
    }
}

fn check(seed: u64, step: usize, core: &Core, sealed: &Sealed, random: &mut Random, seen: &Seen) {
    let facts = core.facts();
    for _ in 0..CLIENTS {
        let stated = world::client(random);
        let locality = sealed.locality(&stated);
        for (cluster, forms) in &sealed.endpoints {
            let found = forms.choose(&locality);
            let expected = seen_from(&facts, cluster, &stated);
            let at = || format!("seed {seed}, step {step}: {cluster} for a client that says {stated}");
            let version = expected.as_ref().map(|expected| expected.version);
            assert_eq!(version, Some(found.version), "{}: {expected:?} and not {found:?}", at());
            seen.compared.fetch_add(1, Ordering::Relaxed);
            seen.located.fetch_add(usize::from(found != forms.default_form()), Ordering::Relaxed);
        }
    }
    for (cluster, forms) in &sealed.endpoints {
        no_form_is_idle(seed, step, cluster, forms);
    }
}

/// A form that says what the next wider one says would be encoded, kept and compared for nothing.
fn no_form_is_idle(seed: u64, step: usize, cluster: &Name, forms: &tidegate_xds::Variants) {
    use tidegate_xds::When;
    for form in &forms.all()[1..] {
        let When::Locality(prefix) = &form.when else { panic!("{:?} is not the first", form.when) };
        let wider: Vec<_> = prefix.wider().map(When::Locality).chain([When::Any]).collect();
        let next = wider.iter().find_map(|when| forms.all().iter().find(|other| other.when == *when));
        let next: Option<Version> = next.map(|next| next.resource.version);
        assert_ne!(next, Some(form.resource.version), "seed {seed}, step {step}: {cluster} {prefix}");
    }
    let places: BTreeSet<&When> = forms.all().iter().map(|form| &form.when).collect();
    assert_eq!(places.len(), forms.all().len());
}
