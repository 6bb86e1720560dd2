//! Changes under load. Each edits files, asks until the effect is there, and lets the load run on; then every answer
//! of the load is judged.

use super::judge::{Allowed, Judge, Verdict};
use super::shop::{REVIEWS, Shop};
use super::stack::Stack;
use super::table::{TOLERANCE, share_of_v2};
use super::until;
use Allowed::{From, NoEndpoint};
use anyhow::{Result, bail};
use comfy_table::{Table, presets};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::http::Call;
use testkit::load::{Answer, Load, Outcome, Plan, Target};
use tokio::time::Instant;

/// Requests a second, and the least that counts as load.
const RATE: u32 = 600;
const LEAST_RATE: f64 = 500.0;

/// Answers of the load that each step waits for after its effect was seen: half a second of load.
const STEADY: u64 = 300;

/// The targets of the load that change, by index; 0 is the front page.
const CATALOG: usize = 1;
const PAY: usize = 2;
const INVOICES: usize = 3;
const REVIEW: usize = 4;
const SECURE: usize = 5;

const V1: Allowed = From("shop/store-v1");
const V2: Allowed = From("shop/store-v2");
const PAYMENTS: Allowed = From("payments/pay");

/// A change and how its effect shows.
struct Step {
    name: &'static str,
    change: fn(&Shop) -> Result<()>,
    /// The answers of the targets that change, once it has taken effect.
    after: Vec<(usize, Vec<Allowed>)>,
    /// The share of `store-v2` on the front page, in percent, once it has taken effect.
    share: Option<f64>,
    /// A cluster that Envoy has no more at the end.
    gone: Option<&'static str>,
    /// Whether new handshakes get the renewed certificate, once it has taken effect.
    renewed: bool,
}

fn steps() -> Vec<Step> {
    let step = |name, change, after| Step { name, change, after, share: None, gone: None, renewed: false };
    vec![
        Step {
            share: Some(80.0),
            ..step("shift the split from 90:10 to 20:80", |shop| split(shop, [90, 10], [20, 80]), vec![])
        },
        step(
            "retarget /catalog from store-v1 to store-v2",
            |shop| retarget(shop, "store-v1", "store-v2"),
            vec![(CATALOG, vec![V2]), (SECURE, vec![V2])],
        ),
        Step { renewed: true, ..step("rotate a certificate", Shop::renew_certificate, vec![]) },
        step(
            "add Service reviews with its route",
            |shop| shop.write("backends/reviews.yaml", REVIEWS),
            vec![(REVIEW, vec![From("shop/reviews")])],
        ),
        step(
            "scale pay to zero",
            |shop| shop.scale_to_zero("backends/pay.yaml").and_then(|before| shop.write("pay.before", &before)),
            vec![(PAY, vec![NoEndpoint]), (INVOICES, vec![NoEndpoint])],
        ),
        step(
            "scale pay back",
            |shop| shop.write("backends/pay.yaml", &shop.read("pay.before")?),
            vec![(PAY, vec![PAYMENTS]), (INVOICES, vec![PAYMENTS])],
        ),
        Step {
            gone: Some("shop/reviews/80"),
            ..step(
                "remove Service reviews with its route",
                |shop| shop.remove("backends/reviews.yaml"),
                vec![(REVIEW, vec![V1, V2])],
            )
        },
        Step {
            share: Some(10.0),
            ..step(
                "undo split and retarget at once",
                |shop| split(shop, [20, 80], [90, 10]).and_then(|()| retarget(shop, "store-v2", "store-v1")),
                vec![(CATALOG, vec![V1]), (SECURE, vec![V1])],
            )
        },
    ]
}

fn split(shop: &Shop, old: [u8; 2], new: [u8; 2]) -> Result<()> {
    let weight = |weights: [u8; 2]| weights.map(|weight| format!("weight: {weight} }}"));
    let (old, new) = (weight(old), weight(new));
    shop.edit("routes.yaml", &[(&old[0], &new[0]), (&old[1], &new[1])])
}

fn retarget(shop: &Shop, old: &str, new: &str) -> Result<()> {
    let backend = |name| format!("{{ name: {name}, port: 80 }}");
    shop.edit("routes.yaml", &[(&backend(old), &backend(new))])
}

/// What the load asks, by index, and what may answer at the start.
fn targets(stack: &Stack) -> (Vec<Target>, Vec<Vec<Allowed>>) {
    let target =
        |address, host: &str, path: &str| Target { address, host: host.to_owned(), path: path.to_owned(), tls: false };
    let (web, partners) = (stack.web(), stack.partners());
    let secure = |host: &str| Target { tls: true, ..target(stack.secure(), host, "/catalog/1") };
    let shop = |path| target(web, "shop.example", path);
    let targets = [
        (shop("/"), vec![V1, V2]),
        (shop("/catalog/1"), vec![V1]),
        (shop("/pay/1"), vec![PAYMENTS]),
        (target(partners, "partners.shop.example", "/invoices/1"), vec![PAYMENTS]),
        // Until there is a route for it, the front page's rule serves it.
        (shop("/reviews/1"), vec![V1, V2]),
        (secure("shop.example"), vec![V1]),
    ];
    targets.into_iter().unzip()
}

/// Runs all steps under load and prints what was sent and what failed.
///
/// # Errors
///
/// An effect does not show, an answer is wrong, or the load was less than 500 requests a second.
pub(super) async fn run(stack: &Stack) -> Result<()> {
    let (targets, allowed) = targets(stack);
    println!("\nchanging things under {RATE} requests a second on {} targets:", targets.len());
    let load = Load::start(Plan { rate: RATE, targets: targets.clone(), workers: 16, fresh_every: 4, note: None });
    let mut tally = Tally::new(targets, Judge::new(allowed));
    steady(&load).await?;
    tally.count("nothing changes", "", load.take());
    for step in steps() {
        let effect = apply(stack, &load, &mut tally.judge, &step).await;
        // Answers first, reasons after: what failed says more than that something did.
        tally.count(step.name, effect.as_deref().unwrap_or("NOT SEEN"), load.take());
        if let Err(error) = effect {
            println!("{}\n{}", tally.table, tally.first_wrong());
            return Err(error);
        }
    }
    let lasted = load.now();
    let report = load.stop().await;
    tally.count("the last ones", "", report.answers);
    tally.finish(lasted, report.late)
}

/// Makes one change and waits for its effect; says how long that took.
async fn apply(stack: &Stack, load: &Load, judge: &mut Judge, step: &Step) -> Result<String> {
    judge.begin_change(load.now(), &step.after);
    let began = Instant::now();
    (step.change)(&stack.shop)?;
    for (target, wanted) in &step.after {
        until(step.name, async || shows(stack, *target, wanted).await).await?;
    }
    let mut effect = format!("{} ms", began.elapsed().as_millis());
    if let Some(wanted) = step.share {
        let share = until(step.name, async || share_near(stack.web(), wanted).await).await?;
        effect = format!("store-v2: {share:.1} %");
    }
    if step.renewed {
        until(step.name, async || shows_renewed(stack).await).await?;
        effect = format!("served after {} ms", began.elapsed().as_millis());
    }
    judge.end_change(load.now(), &step.after);
    if let Some(cluster) = step.gone {
        until(step.name, async || match stack.has_cluster(cluster).await? {
            true => bail!("envoy still has cluster {cluster}"),
            false => Ok(()),
        })
        .await?;
        effect = format!("{effect}, cluster gone after {:.1} s", began.elapsed().as_secs_f64());
    }
    steady(load).await?;
    Ok(effect)
}

/// Shakes hands once and looks at the certificate.
async fn shows_renewed(stack: &Stack) -> Result<()> {
    let call = Call { tls: Some("shop.example".to_owned()), ..Call::get(stack.secure(), "shop.example", "/") };
    if call.send().await?.certificate != Some(stack.shop.renewed.der.clone()) {
        bail!("the old certificate is still shown");
    }
    Ok(())
}

/// Asks a target once.
async fn shows(stack: &Stack, target: usize, wanted: &[Allowed]) -> Result<()> {
    let (targets, _) = targets(stack);
    let Target { address, host, path, tls } = &targets[target];
    let call = Call { tls: tls.then(|| host.clone()), ..Call::get(*address, host, path) };
    let answer = call.send().await?;
    let outcome = testkit::load::classify(answer.status.as_u16(), &answer.body);
    if !wanted.iter().any(|wanted| wanted.permits(&outcome)) {
        bail!("{host}{path} answers {}, not {wanted:?}", shown(&outcome));
    }
    Ok(())
}

async fn share_near(web: SocketAddr, wanted: f64) -> Result<f64> {
    let share = share_of_v2(web).await?;
    if (share - wanted).abs() > TOLERANCE {
        bail!("the share of store-v2 is {share:.1} %, not {wanted} %");
    }
    Ok(share)
}

/// Waits for some more answers of the load.
async fn steady(load: &Load) -> Result<()> {
    let wanted = load.answered() + STEADY;
    until("the load to go on", async || match load.answered() {
        answered if answered >= wanted => Ok(()),
        answered => bail!("{answered} answers of {wanted}"),
    })
    .await
}

/// The counts of all steps.
struct Tally {
    targets: Vec<Target>,
    judge: Judge,
    table: Table,
    sent: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn new(targets: Vec<Target>, judge: Judge) -> Self {
        let mut table = Table::new();
        let header = ["step", "effect", "answers", "right", "503 as due", "wrong", "slowest"];
        table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header);
        Tally { targets, judge, table, sent: 0, wrong: Vec::new() }
    }

    /// Judges the answers of one step and adds its row.
    fn count(&mut self, step: &str, effect: &str, answers: Vec<Answer>) {
        let (mut right, mut no_endpoint, wrong_before) = (0, 0, self.wrong.len());
        let slowest = answers.iter().map(|answer| answer.took).max().unwrap_or_default();
        self.sent += answers.len();
        for answer in &answers {
            match self.judge.judge(answer) {
                Verdict::Right => right += 1,
                Verdict::NoEndpoint => no_endpoint += 1,
                Verdict::Wrong => self.wrong.push(self.complaint(step, answer)),
            }
        }
        let counts =
            [answers.len(), right, no_endpoint, self.wrong.len() - wrong_before].map(|count| count.to_string());
        let [all, right, no_endpoint, wrong] = counts;
        let slowest = format!("{} ms", slowest.as_millis());
        self.table.add_row([step, effect, &all, &right, &no_endpoint, &wrong, &slowest]);
    }

    fn complaint(&self, step: &str, answer: &Answer) -> String {
        let Target { host, path, .. } = &self.targets[answer.target];
        let connection = if answer.fresh { "new" } else { "kept" };
        let (sent, what) = (answer.sent.as_secs_f64(), shown(&answer.outcome));
        format!("{step}: {host}{path} at {sent:.3} s on a {connection} connection: {what}")
    }

    fn first_wrong(&self) -> String {
        let first = self.wrong[..self.wrong.len().min(20)].join("\n  ");
        format!("{} of {} answers under load are wrong, among them:\n  {first}", self.wrong.len(), self.sent)
    }

    fn finish(self, lasted: Duration, late: u64) -> Result<()> {
        println!("{}", self.table);
        #[allow(clippy::cast_precision_loss, reason = "fewer than 2^52 requests were sent")]
        let rate = self.sent as f64 / lasted.as_secs_f64();
        println!("{} requests in {:.1} s, {rate:.0} a second, {late} sent late", self.sent, lasted.as_secs_f64());
        if !self.wrong.is_empty() {
            bail!("{}", self.first_wrong());
        }
        if rate < LEAST_RATE {
            bail!("{rate:.0} requests a second are no load: this machine is too slow or too busy for the demo");
        }
        Ok(())
    }
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Backend { status, service, pod, .. } => format!("{status} from {service} (pod {pod})"),
        Outcome::Proxy { status, body } => format!("{status} from the proxy ({body})"),
        Outcome::Failed(reason) => format!("failed, {reason}"),
    }
}
