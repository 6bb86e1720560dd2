//! The engine on its thread.

use crate::objects::*;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_engine::{Clock, Engine, EngineHandle, EngineState, Running};
use tidegate_log::Event;
use tidegate_model::{ClientId, Epoch, Kind, Millis};

/// Fails instead of hanging.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it happens soon")
}

/// A clock that goes on by a millisecond at each look.
pub(crate) fn ticking() -> Arc<dyn Clock> {
    let time = AtomicU64::new(1_000);
    Arc::new(move || time.fetch_add(1, Ordering::SeqCst))
}

/// A clock that holds the engine at each look until it is told the time.
struct Held {
    looked: mpsc::Sender<()>,
    times: Mutex<mpsc::Receiver<Millis>>,
}

impl Clock for Held {
    fn now(&self) -> Millis {
        self.looked.send(()).expect("the test listens");
        self.times.lock().expect("one thread looks").recv().expect("the test tells the time")
    }
}

fn start(clock: Arc<dyn Clock>) -> (EngineHandle, Running) {
    Engine::start(config(1), clock, None).expect("a thread can be started")
}

pub(crate) async fn sealed(handle: &EngineHandle, epoch: Epoch) -> EngineState {
    let mut state = handle.state();
    soon(state.wait_for(|state| state.epoch >= Some(epoch))).await.expect("the engine runs").clone()
}

pub(crate) async fn send(handle: &EngineHandle, events: Vec<Event>) {
    soon(handle.send(events)).await.expect("the engine runs");
}

#[tokio::test]
async fn what_is_queued_while_the_engine_works_is_one_epoch() {
    let ((looked, looks), (tell, times)) = (mpsc::channel(), mpsc::channel());
    let (handle, running) = start(Arc::new(Held { looked, times: Mutex::new(times) }));
    send(&handle, initial()).await;
    looks.recv().expect("the engine looks at the clock");
    for address in 1..=20 {
        send(&handle, vec![slice("cart", &[&format!("10.0.0.{address}")])]).await;
    }
    tell.send(500).expect("the engine waits");
    assert_eq!(sealed(&handle, 0).await.sealed_millis, 500);
    looks.recv().expect("the engine looks again");
    tell.send(400).expect("the engine waits");
    let state = sealed(&handle, 1).await;
    assert_eq!((state.epoch, state.events), (Some(1), 20 + initial().len() as u64));
    assert_eq!(state.sealed_millis, 500, "batches do not go back in time");
    handle.shutdown().await;
    looks.recv().expect("a shutdown is a command like others");
    tell.send(600).expect("the engine waits");
    soon(running.wait()).await.expect("a shutdown is no error");
}

#[tokio::test]
async fn nothing_is_published_and_the_missing_are_named_until_every_kind_is_listed() {
    let (handle, _running) = start(ticking());
    assert_eq!(handle.state().borrow().missing, Kind::ALL);
    send(&handle, shop()).await;
    send(&handle, synced().split_off(1)).await;
    let mut state = handle.state();
    soon(state.wait_for(|state| state.missing.len() == 1)).await.expect("the engine runs");
    assert_eq!(state.borrow().missing, [Kind::GatewayClass]);
    assert!(handle.sealed().borrow().is_none());
    send(&handle, vec![Event::Synced(Kind::GatewayClass)]).await;
    let mut values = handle.sealed();
    let value = soon(values.wait_for(Option::is_some)).await.expect("the engine runs").clone();
    assert_eq!(value.map(|sealed| sealed.gateways.len()), Some(1));
}

#[tokio::test]
async fn a_batch_that_changes_nothing_wakes_nobody() {
    let (handle, _running) = start(ticking());
    send(&handle, initial()).await;
    sealed(&handle, 0).await;
    let mut values = handle.sealed();
    values.mark_unchanged();
    send(&handle, shop()).await;
    sealed(&handle, 1).await;
    assert!(!values.has_changed().expect("the engine runs"));
    assert_eq!(values.borrow().as_ref().map(|sealed| sealed.epoch), Some(1));
    send(&handle, vec![slice("web", &[])]).await;
    sealed(&handle, 2).await;
    assert!(values.has_changed().expect("the engine runs"));
}

#[tokio::test]
async fn events_about_clients_make_no_epoch() {
    let (handle, _running) = start(ticking());
    send(&handle, initial()).await;
    sealed(&handle, 0).await;
    let client = ClientId { stream: 1, node: "envoy".into() };
    let events = initial().len() as u64 + 1;
    send(&handle, vec![Event::Disconnect { client }]).await;
    let mut state = handle.state();
    soon(state.wait_for(|state| state.events == events)).await.expect("the engine runs");
    assert_eq!(state.borrow().epoch, Some(0));
}

#[tokio::test]
async fn the_thread_takes_what_was_queued_before_a_shutdown_and_ends() {
    let (handle, running) = start(ticking());
    send(&handle, initial()).await;
    handle.shutdown().await;
    soon(running.wait()).await.expect("a shutdown is no error");
    assert_eq!(handle.state().borrow().epoch, Some(0));
    assert!(handle.send(shop()).await.is_err());
}

#[tokio::test]
async fn the_thread_ends_with_its_last_handle() {
    let (handle, running) = start(ticking());
    drop(handle);
    soon(running.wait()).await.expect("no error");
}
