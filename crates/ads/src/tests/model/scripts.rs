//! What is sealed, one after the other.

use crate::tests::world::World;
use std::sync::Arc;
use tidegate_xds::Sealed;

/// A script: its name and its seals.
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) seals: Vec<Arc<Sealed>>,
}

fn script(name: &'static str, edits: &[fn(&mut World)]) -> Script {
    let mut world = World::new();
    let seals = edits.iter().map(|edit| {
        edit(&mut world);
        world.seal()
    });
    Script { name, seals: seals.collect() }
}

/// All of them.
pub(super) fn all() -> [Script; 7] {
    [flap(), rewarm(), shop(), listeners(), churn(), secrets(), streams()]
}

/// A second listener with a table of its own.
fn other(world: &mut World, table: &str, cluster: &str) {
    world.tables.retain(|name, _| name == "http");
    world.listeners.insert("other".to_owned(), table.to_owned());
    world.route_in(table, "o.example", &[cluster]);
}

/// Two tables, three clusters: a route changes its target, a Service comes with its route, another goes with its own.
fn shop() -> Script {
    script(
        "shop",
        &[
            |world| {
                world.route("x.example", &["a"]);
                other(world, "other", "b");
            },
            |world| {
                world.route("x.example", &["b"]);
            },
            |world| {
                world.route("y.example", &["c"]);
            },
            |world| {
                world.unroute("y.example");
            },
        ],
    )
}

/// A route comes and goes and comes back within the grace.
fn flap() -> Script {
    script(
        "flap",
        &[
            |world| {
                world.route("x.example", &["a"]);
            },
            |world| {
                world.route("x.example", &["b"]);
            },
            |world| {
                world.route("x.example", &["a"]);
            },
        ],
    )
}

/// A cluster changes its form, once with its endpoints and once alone, while another comes.
fn rewarm() -> Script {
    script(
        "rewarm",
        &[
            |world| {
                world.route("x.example", &["a"]);
            },
            |world| {
                world.h2.insert("a".to_owned());
            },
            |world| {
                world.h2.clear();
                world.endpoints("a", &["10.0.0.2"]).route("y.example", &["b"]);
            },
        ],
    )
}

/// A listener moves to another table with other clusters, and goes.
fn listeners() -> Script {
    script(
        "listeners",
        &[
            |world| {
                world.route("x.example", &["a"]);
                other(world, "one", "b");
            },
            |world| other(world, "two", "c"),
            |world| {
                world.tables.retain(|name, _| name == "http");
                world.listeners.remove("other");
            },
        ],
    )
}

/// Every seal brings a Service and moves the route to it.
fn churn() -> Script {
    script(
        "churn",
        &[
            |world| {
                world.route("x.example", &["a"]);
            },
            |world| {
                world.route("x.example", &["b"]);
            },
            |world| {
                world.route("x.example", &["c"]);
            },
            |world| {
                world.route("x.example", &["d"]);
            },
        ],
    )
}

/// A certificate is rotated, and its listener goes.
fn secrets() -> Script {
    script(
        "secrets",
        &[
            |world| {
                world.route("x.example", &["a"]);
                world.secrets.insert("shop/one".to_owned(), "digest 1".to_owned());
            },
            |world| drop(world.secrets.insert("shop/one".to_owned(), "digest 2".to_owned())),
            |world| drop(world.secrets.insert("shop/one".to_owned(), "digest 3".to_owned())),
        ],
    )
}

/// Connections of a listener move to another cluster, which a route has besides, and then to one that comes with them.
fn streams() -> Script {
    script(
        "streams",
        &[
            |world| {
                world.route("x.example", &["b"]).stream("http", "a");
            },
            |world| {
                world.stream("http", "b");
            },
            |world| {
                world.stream("http", "c").route("x.example", &["c"]);
            },
        ],
    )
}
