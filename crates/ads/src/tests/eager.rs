//! No order at all: what the rules prevent must happen without them, or tests against it would show nothing.

use super::harness::{BOTH, Harness};
use super::world::World;
use crate::session::{Protocol, Sequencing};

#[test]
fn an_eager_session_sends_everything_at_once_and_takes_back_what_is_in_use() {
    for protocol in BOTH {
        let mut world = World::new();
        world.route("a.example", &["a"]).route("z.example", &["z"]);
        let mut harness = Harness::running(protocol, &mut world);
        harness.session = harness.session.clone().with_sequencing(Sequencing::Eager);
        world.route("a.example", &["b"]);
        harness.seal(&mut world);
        while harness.deliver_response() {}
        let clusters = match protocol {
            Protocol::Sotw => "cds b z",
            Protocol::Delta => "cds b -a",
        };
        assert_eq!(harness.take_log(), [clusters, "eds b", "rds http"], "before anything was acknowledged");
        assert_ne!(harness.envoy.violations(), [], "a table named a cluster that was gone");
        assert_eq!((harness.stats().overdue_pins, harness.stats().pinned, harness.stats().leaving), (0, 0, 0));
    }
}
