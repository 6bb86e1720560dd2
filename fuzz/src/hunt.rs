//! Finding inputs: those that are kept, then made-up ones. An input that showed something new is changed further; one
//! that fails is made smaller and kept.

use crate::targets::{Seen, Target};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};
use tidegate_workload::Random;

/// How many inputs are kept in memory to be changed further.
const POOL_MAX: usize = 4096;

/// How often a failing input is tried in a smaller form.
const SMALLER_MAX: u32 = 3000;

/// How long an input may take. The slowest that are known take a second; what takes this long would hold up whoever looks
/// at it.
const SLOW: Duration = Duration::from_secs(20);

/// An input that broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The input, made small.
    pub input: Vec<u8>,
    /// What the panic said, and where.
    pub message: String,
}

/// A hunt for inputs of one target. The same seed tries the same inputs.
#[derive(Debug)]
pub struct Hunt {
    target: Target,
    random: Random,
    known: BTreeSet<u64>,
    pool: Vec<Vec<u8>>,
    /// How many inputs were tried.
    pub tried: u64,
}

impl Hunt {
    /// A hunt that has tried nothing.
    #[must_use]
    pub fn new(target: Target, seed: u64) -> Self {
        Hunt { target, random: Random::new(seed), known: BTreeSet::new(), pool: Vec::new(), tried: 0 }
    }

    /// How many shapes were seen so far.
    #[must_use]
    pub fn shapes(&self) -> usize {
        self.known.len()
    }

    /// Tries one input; whether it showed something new.
    ///
    /// # Errors
    ///
    /// It failed; in its smallest form.
    pub fn try_input(&mut self, input: Vec<u8>) -> Result<bool, Failure> {
        self.tried += 1;
        let seen = attempt(self.target, &input).map_err(|message| smallest(self.target, input.clone(), message))?;
        let before = self.known.len();
        self.known.extend(seen.shapes());
        let new = self.known.len() > before;
        if new {
            if self.pool.len() == POOL_MAX {
                let victim = self.random.below(POOL_MAX);
                self.pool.swap_remove(victim);
            }
            self.pool.push(input);
        }
        Ok(new)
    }

    /// Makes up an input and tries it; the input if it showed something new.
    ///
    /// # Errors
    ///
    /// As [`Hunt::try_input`].
    pub fn step(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let input = self.make_up();
        Ok(self.try_input(input.clone())?.then_some(input))
    }

    fn make_up(&mut self) -> Vec<u8> {
        let max = self.target.max_len;
        let random = &mut self.random;
        if self.pool.is_empty() || random.chance(30) {
            let length = random.below(max + 1) >> random.below(4);
            return (0..length).map(|_| byte(random)).collect();
        }
        let mut input = random.pick(&self.pool).clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(input.len() + 1);
            let length = random.below(9).min(input.len() - at);
            match random.below(6) {
                0 => drop(input.drain(at..at + length)),
                1 => input.insert(at, byte(random)),
                2 => {
                    let piece: Vec<u8> = (0..length).map(|_| byte(random)).collect();
                    drop(input.splice(at..at + length, piece));
                }
                3 => {
                    let other = random.pick(&self.pool);
                    let from = random.below(other.len() + 1);
                    input.truncate(at);
                    input.extend_from_slice(&other[from..]);
                }
                4 => {
                    let piece = input[at..at + length].to_vec();
                    let to = random.below(input.len() + 1);
                    drop(input.splice(to..to, piece));
                }
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = byte.wrapping_add(if random.chance(50) { 1 } else { 255 });
                    }
                }
            }
        }
        input.truncate(max);
        input
    }
}

fn byte(random: &mut Random) -> u8 {
    (random.bits() >> 32) as u8
}

thread_local! {
    /// Whether a panic of this thread is a finding rather than a mistake of ours.
    static TRYING: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Plays an input.
///
/// # Errors
///
/// What the panic said, or that it took too long.
pub fn attempt(target: Target, input: &[u8]) -> Result<Seen, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if TRYING.get() {
                SAID.set(info.to_string());
            } else {
                other(info);
            }
        }));
    });
    let start = worked();
    TRYING.set(true);
    let seen = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    TRYING.set(false);
    let spent = worked().saturating_sub(start);
    match seen {
        Err(_) => Err(SAID.take()),
        Ok(_) if spent > SLOW => Err(format!("took {} s", spent.as_secs())),
        Ok(seen) => Ok(seen),
    }
}

/// How long this thread has worked, where the system says so, else none: a hunt gives way to everything, so the clock on
/// the wall says nothing about an input.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// The time, for bounds on tests; nothing that is tested sees it.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "a hunt ends by the clock, what it tries does not know of it")]
pub fn now() -> Instant {
    Instant::now()
}

/// The smallest form found of an input that fails at the same place.
fn smallest(target: Target, input: Vec<u8>, message: String) -> Failure {
    let place = |message: &str| message.lines().next().unwrap_or_default().to_owned();
    let mut best = Failure { input, message };
    if best.message.starts_with("took ") {
        return best;
    }
    let mut left = SMALLER_MAX;
    let mut length = best.input.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < best.input.len() && left > 0 {
            left -= 1;
            let end = (at + length).min(best.input.len());
            let without = [&best.input[..at], &best.input[end..]].concat();
            let mut zeroed = best.input.clone();
            zeroed[at..end].fill(0);
            let smaller = [without, zeroed].into_iter().find_map(|input| {
                let message = (input != best.input).then(|| attempt(target, &input).err()).flatten()?;
                (place(&message) == place(&best.message)).then_some(Failure { input, message })
            });
            match smaller {
                Some(smaller) if smaller.input.len() < best.input.len() => best = smaller,
                Some(smaller) => {
                    best = smaller;
                    at = end;
                }
                None => at = end,
            }
        }
        if length == 1 || left == 0 {
            return best;
        }
        length = length.div_ceil(2);
    }
}

/// Where the inputs of a target are kept.
#[must_use]
pub fn folder(target: Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// The inputs that are kept of a target, by name.
#[must_use]
pub fn kept(target: Target) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder(target)) else { return Vec::new() };
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((path.file_name()?.to_string_lossy().into_owned(), std::fs::read(&path).ok()?))
        })
        .collect();
    inputs.sort();
    inputs
}

/// Keeps an input under a name made of what it holds; returns its file.
///
/// # Errors
///
/// If the file cannot be written.
pub fn keep(target: Target, prefix: &str, input: &[u8]) -> std::io::Result<PathBuf> {
    let folder = folder(target);
    std::fs::create_dir_all(&folder)?;
    let hash = blake3::hash(input).to_hex();
    let path = folder.join(format!("{prefix}-{}", &hash[..12]));
    std::fs::write(&path, input)?;
    Ok(path)
}

/// What a test run does: the kept inputs, then so many made-up ones, and more until `at_least` has passed.
///
/// # Panics
///
/// An input fails; the text says which, where it was kept and what it broke.
pub fn check(target: Target, at_least: Duration) {
    let start = now();
    let mut hunt = Hunt::new(target, 0);
    let stop = |failure: Failure, name: &str| -> ! {
        let kept = keep(target, "crash", &failure.input)
            .map_or_else(|error| format!("not kept: {error}"), |path| path.display().to_string());
        panic!("{}, {name}: {}\nthe smallest input is in {kept}: {:02x?}", target.name, failure.message, failure.input);
    };
    for (name, input) in kept(target) {
        if let Err(failure) = hunt.try_input(input) {
            stop(failure, &name);
        }
    }
    for _ in 0..target.inputs {
        if let Err(failure) = hunt.step() {
            stop(failure, "made up");
        }
    }
    while now() - start < at_least {
        if let Err(failure) = hunt.step() {
            stop(failure, "made up");
        }
    }
    let spent = now() - start;
    eprintln!("{}: {} inputs, {} shapes, {:.1} s", target.name, hunt.tried, hunt.shapes(), spent.as_secs_f64());
}
