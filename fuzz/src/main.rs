//! Hunts for inputs that break a target: `tidegate-fuzz TARGET SECONDS [SEED]`, and `tidegate-fuzz show TARGET FILE`.

use anyhow::{Context, Result, bail};
use std::time::Duration;
use tidegate_fuzz::hunt::{self, Hunt, attempt, keep, kept, now};
use tidegate_fuzz::{TARGETS, Target};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["show", target, file] => show(named(target)?, file),
        ["gather", target, seconds] => gather(named(target)?, seconds.parse()?),
        [target, seconds] => run(named(target)?, seconds.parse()?, 1),
        [target, seconds, seed] => run(named(target)?, seconds.parse()?, seed.parse()?),
        _ => {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            bail!(
                "usage: tidegate-fuzz TARGET SECONDS [SEED] | show TARGET FILE | gather TARGET SECONDS; targets: {}",
                names.join(", ")
            )
        }
    }
}

fn named(name: &str) -> Result<Target> {
    Target::of(name).with_context(|| format!("there is no target {name}"))
}

/// Plays one input and says what it breaks.
fn show(target: Target, file: &str) -> Result<()> {
    let input = std::fs::read(file).with_context(|| format!("cannot read {file}"))?;
    match attempt(target, &input) {
        Ok(seen) => println!("holds; {} shapes", seen.shapes().len()),
        Err(message) => println!("{message}"),
    }
    Ok(())
}

/// Hunts until the time is over. Failures are kept and the hunt goes on, once for each place that fails.
fn run(target: Target, seconds: u64, seed: u64) -> Result<()> {
    let start = now();
    let (mut next, mut places) = (60, std::collections::BTreeSet::new());
    let mut hunt = Hunt::new(target, seed);
    let mut inputs: Vec<Vec<u8>> = kept(target).into_iter().map(|(_, input)| input).collect();
    while now() - start < Duration::from_secs(seconds) {
        let tried = match inputs.pop() {
            Some(input) => hunt.try_input(input).map(|_| ()),
            None => hunt.step().map(|_| ()),
        };
        if let Err(failure) = tried {
            let place = failure.message.lines().next().unwrap_or_default().to_owned();
            if places.insert(place) {
                let path = keep(target, "crash", &failure.input)?;
                println!("{}: {}\n{}", target.name, failure.message, path.display());
            }
        }
        if (now() - start).as_secs() >= next {
            next += 60;
            println!("{} {next} s: {} inputs, {} shapes", target.name, hunt.tried, hunt.shapes());
        }
    }
    println!("{}: {} inputs, {} shapes, {} places failed", target.name, hunt.tried, hunt.shapes(), places.len());
    Ok(())
}

/// Keeps the inputs of a hunt that showed most: a seed corpus.
fn gather(target: Target, seconds: u64) -> Result<()> {
    let start = now();
    let mut hunt = Hunt::new(target, 7);
    let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
    while now() - start < Duration::from_secs(seconds) {
        let before = hunt.shapes();
        if let Ok(Some(input)) = hunt.step() {
            found.push((hunt.shapes() - before, input));
        }
    }
    // Whatever showed most first; each must add something to those before it.
    found.sort_by_key(|(new, input)| (std::cmp::Reverse(*new), input.len()));
    let mut again = Hunt::new(target, 7);
    let mut count = 0;
    for (_, input) in found {
        if count < 24 && again.try_input(input.clone()).is_ok_and(|new| new) {
            keep(target, "seed", &input)?;
            count += 1;
        }
    }
    println!(
        "{}: {count} inputs with {} of {} shapes in {}",
        target.name,
        again.shapes(),
        hunt.shapes(),
        hunt::folder(target).display()
    );
    Ok(())
}
