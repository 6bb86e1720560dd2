//! Where a scenario is played: on addresses that no other one has at the same time, so that several are played at once
//! although their files name the same ports.

use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use tidegate_log::{Event, Object};
use tidegate_model::Kind;

/// How many scenarios are played at once. Most of the time of each is waiting.
pub(crate) const PLACES: u8 = 4;

/// One of the [`PLACES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(pub(crate) u8);

impl Place {
    /// Where every Gateway listens.
    pub(crate) fn listens(self) -> Ipv4Addr {
        Ipv4Addr::new(127, 30, self.0, 1)
    }

    /// Where an endpoint is that a scenario has at this address. Only 127.0.0.0/8 has room for several.
    pub(crate) fn moved(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) if v4.is_loopback() => {
                let [_, second, third, last] = v4.octets();
                // Scenarios have their endpoints below 127.32.
                Ipv4Addr::new(127, second + 32 * (self.0 + 1), third, last).into()
            }
            IpAddr::V4(_) | IpAddr::V6(_) => address,
        }
    }

    /// What happens, as it happens here.
    pub(crate) fn event(self, event: &Event) -> Event {
        match event {
            Event::Apply(object) if object.key.kind == Kind::Gateway => {
                let addresses = json!([{ "type": "IPAddress", "value": self.listens().to_string() }]);
                changed(object, |body| body["spec"]["addresses"] = addresses)
            }
            Event::Apply(object) if object.key.kind == Kind::EndpointSlice => changed(object, |body| {
                for endpoint in items(body, "/endpoints") {
                    items(endpoint, "/addresses").for_each(|address| self.move_text(address));
                }
            }),
            Event::Apply(object) if object.key.kind == Kind::EndpointReport => changed(object, |body| {
                for entry in items(body, "/status/endpoints") {
                    entry.get_mut("address").into_iter().for_each(|address| self.move_text(address));
                }
            }),
            other => other.clone(),
        }
    }

    fn move_text(self, address: &mut Value) {
        if let Some(Ok(parsed)) = address.as_str().map(str::parse) {
            *address = json!(self.moved(parsed).to_string());
        }
    }
}

/// The items of the list at `pointer`, if there is one.
fn items<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

fn changed(object: &Object, change: impl FnOnce(&mut Value)) -> Event {
    let mut body = Value::clone(&object.body);
    change(&mut body);
    Event::Apply(Object::new(body).expect("the object stays one"))
}
