//! The limits of the ADS server, as flags.

use super::Failure;
use crate::app::ClientLimits;
use crate::args::values;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::time::Duration;

/// The shortest age at which a stream may be ended: younger ones would be busy with nothing but connecting.
const MIN_STREAM_AGE: Duration = Duration::from_secs(10);

/// The shortest interval of probes: more often they cost more than what they find.
const MIN_KEEPALIVE: Duration = Duration::from_secs(1);

/// The smallest bound of a request: the first one of an Envoy has the whole of its node in it.
const MIN_REQUEST_BYTES: usize = 64 << 10;

/// What clients may do.
#[derive(Clone, Debug, Args)]
pub struct LimitArgs {
    /// Clients that may be connected at a time; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_clients: usize,

    /// Names that a client may ask for, of one type; a client that asks for more is disconnected
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_names: usize,

    /// Largest request of a client, as in 512KiB or 64MiB. One that reconnects lists all it holds, about 130 bytes each
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = values::bytes)]
    pub max_request_bytes: usize,

    /// Age at which a client is made to connect anew, as in 30m, each up to a tenth earlier or later; 0 lets it stay
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    pub max_stream_age: Duration,

    /// How often a quiet connection is probed; it is closed if there is no answer for as long again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    pub keepalive: Duration,
}

impl LimitArgs {
    /// The limits.
    ///
    /// # Errors
    ///
    /// When one of them makes no sense.
    pub fn validate(&self) -> Result<ClientLimits, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        if self.max_request_bytes < MIN_REQUEST_BYTES {
            return usage("--max-request-bytes is less than 64KiB: a client must be able to say who it is");
        }
        if !self.max_stream_age.is_zero() && self.max_stream_age < MIN_STREAM_AGE {
            return usage(
                "--max-stream-age is shorter than 10s: clients would do little but connect; 0 lets them stay",
            );
        }
        if self.keepalive < MIN_KEEPALIVE {
            return usage("--keepalive is shorter than 1s: give a client the time to answer");
        }
        Ok(ClientLimits {
            clients: self.max_clients,
            names: self.max_names,
            request_bytes: self.max_request_bytes,
            stream_age: Some(self.max_stream_age).filter(|age| !age.is_zero()),
            keepalive: self.keepalive,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn validate(arguments: &[&str]) -> Result<ClientLimits, String> {
        let line = Line::try_parse_from([&["limits"], arguments].concat()).map_err(|error| error.to_string())?;
        line.limits.validate().map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn streams_may_stay_by_default() {
        let limits = validate(&[]).unwrap();
        assert_eq!((limits.clients, limits.names, limits.request_bytes), (10_000, 200_000, 64 << 20));
        assert_eq!((limits.stream_age, limits.keepalive), (None, Duration::from_secs(30)));
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_flag() {
        for [flag, value] in [
            ["--max-clients", "0"],
            ["--max-names", "0"],
            ["--max-request-bytes", "1KiB"],
            ["--max-request-bytes", "64"],
            ["--max-stream-age", "5s"],
            ["--keepalive", "0"],
        ] {
            let refused = validate(&[flag, value]).unwrap_err();
            assert!(refused.contains(flag), "{refused}");
        }
        assert_eq!(validate(&["--max-stream-age", "30m"]).unwrap().stream_age, Some(Duration::from_secs(1800)));
    }
}
