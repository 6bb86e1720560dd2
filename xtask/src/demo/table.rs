//! What `examples/shop` answers at rest: requests, and what each must show.

use super::stack::Stack;
use anyhow::{Result, bail};
use comfy_table::{Table, presets};
use std::net::SocketAddr;
use testkit::http::{Call, Response};

/// The tolerance of a measured share, in percent. Of 400 requests with a true share of 10 %, one in 10^5 measurements
/// is off by more.
pub(super) const TOLERANCE: f64 = 7.0;

/// One thing to see in an answer.
enum Sign {
    /// The status.
    Status(u16),
    /// The backend is one of these, `namespace/service`.
    From(&'static [&'static str]),
    /// The path that the backend saw.
    Path(&'static str),
    /// A header that the backend saw; `None`: it did not.
    Saw(&'static str, Option<&'static str>),
    /// A header of the answer.
    Has(&'static str, String),
}

impl Sign {
    fn expected(&self) -> String {
        match self {
            Sign::Status(status) => status.to_string(),
            Sign::From(services) => services.join(" or "),
            Sign::Path(path) => format!("sees {path}"),
            Sign::Saw(name, value) => format!("sees {name}: {}", value.unwrap_or("-")),
            Sign::Has(name, value) => format!("{name}: {value}"),
        }
    }

    fn got(&self, answer: &Response) -> String {
        let echoed = answer.echoed();
        let none = || "-".to_owned();
        match self {
            Sign::Status(_) => answer.status.as_u16().to_string(),
            Sign::From(_) => {
                echoed.map_or_else(none, |seen| format!("{}/{}", seen.identity.namespace, seen.identity.service))
            }
            Sign::Path(_) => format!("sees {}", echoed.map_or_else(none, |seen| seen.path)),
            Sign::Saw(name, _) => {
                format!("sees {name}: {}", echoed.and_then(|seen| seen.header(name)).unwrap_or_else(none))
            }
            Sign::Has(name, _) => format!("{name}: {}", answer.header(name).unwrap_or_else(none)),
        }
    }

    fn is_in(&self, answer: &Response) -> bool {
        match self {
            Sign::From(services) => services.contains(&self.got(answer).as_str()),
            Sign::Status(_) | Sign::Path(_) | Sign::Saw(..) | Sign::Has(..) => self.got(answer) == self.expected(),
        }
    }
}

use Sign::{From, Has, Path, Saw, Status};

const STORE: Sign = From(&["shop/store-v1", "shop/store-v2"]);
const V1: Sign = From(&["shop/store-v1"]);
const PAY: Sign = From(&["payments/pay"]);

/// The requests and their answers.
fn cases(web: SocketAddr, partners: SocketAddr, secure: SocketAddr) -> Vec<(Call, Vec<Sign>)> {
    let shop = |path| Call::get(web, "shop.example", path);
    let over_tls = |host: &str, path| Call { tls: Some(host.to_owned()), ..Call::get(secure, host, path) };
    let moved = format!("http://shop.example:{}/catalog/shoes", web.port());
    vec![
        (shop("/"), vec![Status(200), STORE, Has("x-served-by", "tidegate".to_owned())]),
        (Call { http2: true, ..shop("/") }, vec![Status(200), STORE]),
        (Call::get(web, "Shop.Example:1234", "/"), vec![Status(200), STORE]),
        (shop("/catalog/shoes?size=9"), vec![Status(200), V1, Path("/v1/items/shoes?size=9")]),
        (
            shop("/catalog").with_header("x-debug", "1"),
            vec![Status(200), V1, Path("/v1/items"), Saw("x-shop", Some("catalog")), Saw("x-debug", None)],
        ),
        (over_tls("shop.example", "/catalog"), vec![Status(200), V1, Path("/v1/items")]),
        (Call { http2: true, ..over_tls("shop.example", "/") }, vec![Status(200), STORE]),
        (over_tls("other.shop.example", "/"), vec![Status(404)]),
        (shop("/catalogue"), vec![Status(200), STORE, Path("/catalogue"), Saw("x-shop", None)]),
        (shop("/old/shoes"), vec![Status(301), Has("location", moved)]),
        (shop("/pay/1"), vec![Status(200), PAY, Path("/pay/1")]),
        (
            Call::get(partners, "partners.shop.example", "/invoices/1"),
            vec![Status(200), PAY, Saw("x-channel", Some("partner"))],
        ),
        (Call::get(partners, "partners.shop.example", "/"), vec![Status(404)]),
        (Call::get(partners, "shop.example", "/"), vec![Status(404)]),
        (Call::get(web, "partners.shop.example", "/invoices/1"), vec![Status(404)]),
        (Call::get(web, "other.example", "/"), vec![Status(404)]),
    ]
}

/// Asks everything, prints the table, and measures the split.
///
/// # Errors
///
/// An answer is not as it should be.
pub(super) async fn check(stack: &Stack) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(["request", "expected", "got", ""]);
    let mut wrong = 0;
    let cases = cases(stack.web(), stack.partners(), stack.secure());
    let count = cases.len();
    for (call, signs) in cases {
        let expected: Vec<String> = signs.iter().map(Sign::expected).collect();
        let (got, right) = match call.send().await {
            Ok(answer) => (signs.iter().map(|s| s.got(&answer)).collect(), signs.iter().all(|s| s.is_in(&answer))),
            Err(error) => (vec![error.to_string()], false),
        };
        wrong += usize::from(!right);
        let version = if call.http2 { " by HTTP/2" } else { "" };
        let tls = if call.tls.is_some() { " over TLS" } else { "" };
        let request = format!("{}{} at :{}{tls}{version}", call.host, call.path, call.address.port());
        table.add_row([request, expected.join("\n"), got.join("\n"), if right { "ok" } else { "WRONG" }.to_owned()]);
    }
    let share = share_of_v2(stack.web()).await?;
    let right = (share - 10.0).abs() <= TOLERANCE;
    wrong += usize::from(!right);
    let verdict = if right { "ok" } else { "WRONG" };
    table.add_row(["400 times /", "store-v2: 10 %", &format!("store-v2: {share:.1} %"), verdict]);
    println!("{table}");
    if wrong > 0 {
        bail!("{wrong} of {} answers are wrong", count + 1);
    }
    Ok(())
}

/// The share of `store-v2` among 400 answers of the front page, in percent.
pub(super) async fn share_of_v2(web: SocketAddr) -> Result<f64> {
    let call = Call::get(web, "shop.example", "/");
    let mut of_v2 = 0_u32;
    for _ in 0..400 {
        let answer = call.send().await?;
        of_v2 += u32::from(answer.echoed().is_some_and(|seen| seen.identity.service == "store-v2"));
    }
    Ok(f64::from(of_v2) / 4.0)
}
