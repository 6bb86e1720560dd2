//! The pages. Each is a function of a [`View`]; what walks a whole snapshot runs off the event loop, a few at a time.

use crate::view::View;
use crate::{metrics, snapshot};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::NamespacedName;
use tokio::sync::Semaphore;

/// Dumps (`/status`, `/snapshot`, `/clients`, `/debug/dataflow`) that are made at a time; a further request is answered 503 at once. A
/// dump of a big fleet costs a core for a while, and proxies come before readers.
pub const MAX_DUMPS: usize = 4;

#[derive(Clone)]
struct Shared {
    view: Arc<dyn View>,
    dumps: Arc<Semaphore>,
}

/// Every page.
pub(crate) fn router(view: Arc<dyn View>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_page))
        .route("/status", get(status))
        .route("/snapshot", get(snapshot_page))
        .route("/clients", get(clients))
        .route("/debug/dataflow", get(dataflow))
        .fallback(unknown)
        .layer(middleware::from_fn(only_get))
        .with_state(Shared { view, dumps: Arc::new(Semaphore::new(MAX_DUMPS)) })
}

/// Refuses every method but GET, whatever the path, and closes the connection after the answer: an idle scraper shall
/// not hold a place.
async fn only_get(request: Request, next: Next) -> Response {
    let mut response = if request.method() == Method::GET {
        next.run(request).await
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")], "this port is read-only: use GET\n").into_response()
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn index(State(shared): State<Shared>) -> Html<String> {
    let rows = [
        ("/healthz", "200 while the process answers"),
        ("/readyz", "200 once the first seal is out; says what is missing or degraded"),
        ("/metrics", "OpenMetrics"),
        ("/status", "every object with its conditions, and problems of files; ?kind= &amp;namespace= &amp;name="),
        ("/snapshot?gateway=NS/NAME", "what the clients of a Gateway get, as canonical JSON"),
        ("/clients", "connected clients: sent, accepted and rejected versions; and the Envoys that run here"),
        (
            "/debug/dataflow?form=html",
            "what the operators of the dataflow do, with --profile; as JSON without form=html",
        ),
    ];
    let rows: String = rows
        .iter()
        .map(|(path, what)| {
            format!(
                "<tr><td><a href=\"{}\">{path}</a></td><td>{what}</td></tr>\n",
                if path.contains("NS/NAME") { path.split('?').next().unwrap_or(path) } else { path }
            )
        })
        .collect();
    let build = shared.view.build();
    let epoch = shared.view.sealed().map_or_else(|| "nothing sealed yet".to_owned(), |s| format!("epoch {}", s.epoch));
    Html(format!(
        "<!doctype html><title>tidegate</title><h1>tidegate {}</h1><p>{epoch}</p>\n<table>\n{rows}</table>\n",
        build.version
    ))
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let readiness = shared.view.readiness();
    let sealed = shared.view.sealed();
    let degraded = !readiness.unreadable.is_empty() || !readiness.degraded.is_empty();
    let state = match (&sealed, degraded) {
        (None, _) => "not ready",
        (Some(_), true) => "degraded",
        (Some(_), false) => "ready",
    };
    let code = if sealed.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "state": state,
        "epoch": sealed.map(|s| s.epoch),
        "missing": readiness.missing,
        "unreadable": readiness.unreadable,
        "degraded": readiness.degraded,
        "problems": shared.view.problems(),
    });
    (code, Json(body)).into_response()
}

async fn metrics_page(State(shared): State<Shared>) -> Response {
    match metrics::render(shared.view.as_ref()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write metrics: {error}\n")).into_response(),
    }
}

/// The filters of `/status`; all given ones must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusQuery {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl StatusQuery {
    fn takes(&self, object: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        self.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(text("/kind")))
            && self.namespace.as_ref().is_none_or(|namespace| namespace == text("/metadata/namespace"))
            && self.name.as_ref().is_none_or(|name| name == text("/metadata/name"))
    }
}

async fn status(State(shared): State<Shared>, Query(query): Query<StatusQuery>) -> Response {
    dump(&shared, move |view| {
        let objects: Vec<Value> = view.objects().into_iter().filter(|object| query.takes(object)).collect();
        Ok(json!({ "epoch": view.sealed().map(|s| s.epoch), "objects": objects, "problems": view.problems() }))
    })
    .await
}

/// The argument of `/snapshot`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotQuery {
    gateway: Option<String>,
}

async fn snapshot_page(State(shared): State<Shared>, Query(query): Query<SnapshotQuery>) -> Response {
    dump(&shared, move |view| {
        let Some(sealed) = view.sealed() else {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "nothing is sealed yet: see /readyz\n".to_owned()));
        };
        let Some(gateway) = query.gateway else {
            let message = format!("which Gateway? ?gateway=NS/NAME with one of: {}\n", known(&sealed));
            return Err((StatusCode::BAD_REQUEST, message));
        };
        snapshot::of(&sealed, &NamespacedName::parse(&gateway)).ok_or_else(|| {
            let message =
                format!("Gateway {gateway} is not served (see /status?kind=Gateway); served: {}\n", known(&sealed));
            (StatusCode::NOT_FOUND, message)
        })
    })
    .await
}

/// The Gateways that are served, for a message; the first 100 are enough to see a mistyped name.
fn known(sealed: &tidegate_xds::Sealed) -> String {
    let total = sealed.gateways.len();
    let mut names: Vec<&str> = sealed.gateways.keys().take(100).map(NamespacedName::as_str).collect();
    if total == 0 {
        names.push("none");
    } else if total > names.len() {
        names.push("...");
    }
    names.join(", ")
}

async fn clients(State(shared): State<Shared>) -> Response {
    dump(&shared, |view| {
        let mut page = json!({ "clients": view.clients() });
        if let Some(proxies) = view.proxies() {
            page["proxies"] = proxies.into();
        }
        Ok(page)
    })
    .await
}

/// The form of `/debug/dataflow`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// For programs.
    #[default]
    Json,
    /// For people.
    Html,
}

/// The argument of `/debug/dataflow`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataflowQuery {
    #[serde(default)]
    form: Form,
}

async fn dataflow(State(shared): State<Shared>, Query(query): Query<DataflowQuery>) -> Response {
    let not_logged =
        || (StatusCode::NOT_FOUND, "what the dataflow does is not logged: start with --profile\n".to_owned());
    match query.form {
        Form::Json => dump(&shared, move |view| view.dataflow().ok_or_else(not_logged)).await,
        Form::Html => {
            made(&shared, "text/html; charset=utf-8", move |view| view.dataflow_page().ok_or_else(not_logged)).await
        }
    }
}

async fn unknown() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "no such page: / lists them\n")
}

/// Makes a dump as pretty JSON.
async fn dump<F>(shared: &Shared, make: F) -> Response
where
    F: FnOnce(&dyn View) -> Result<Value, (StatusCode, String)> + Send + 'static,
{
    made(shared, "application/json", move |view| make(view).map(|value| format!("{value:#}\n"))).await
}

/// Makes a dump off the event loop, unless too many are being made.
async fn made<F>(shared: &Shared, content_type: &'static str, make: F) -> Response
where
    F: FnOnce(&dyn View) -> Result<String, (StatusCode, String)> + Send + 'static,
{
    let Ok(permit) = Arc::clone(&shared.dumps).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many dumps at once: try again\n").into_response();
    };
    let view = Arc::clone(&shared.view);
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        make(view.as_ref())
    });
    match made.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Ok(Err(refused)) => refused.into_response(),
        Err(error) => {
            tracing::error!(%error, "a dump of the admin port panicked");
            (StatusCode::INTERNAL_SERVER_ERROR, "the dump failed: see the log\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests;
