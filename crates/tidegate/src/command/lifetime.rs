//! How long reports of health are believed, as flags.

use super::Failure;
use crate::args::values;
use clap::Args;
use std::time::Duration;

/// What reports of health are believed.
#[derive(Clone, Debug, Args)]
pub struct LifetimeArgs {
    /// How often reporters renew their EndpointReports, as in 15s
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration)]
    pub report_renew: Duration,

    /// How long an entry of an EndpointReport is believed after its renewal: at least twice --report-renew, so that one
    /// renewal may be lost
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    pub report_lifetime: Duration,
}

impl LifetimeArgs {
    /// The lifetime.
    ///
    /// # Errors
    ///
    /// When it makes no sense.
    pub fn validate(&self) -> Result<Duration, Failure> {
        let (renew, lifetime) = (self.report_renew, self.report_lifetime);
        if renew.is_zero() {
            return Err(Failure::Usage("--report-renew is 0: write how often reporters renew, as in 15s".to_owned()));
        }
        if lifetime < renew * 2 {
            return Err(Failure::Usage(format!(
                "--report-lifetime {lifetime:?} is shorter than twice --report-renew {renew:?}, so that one renewal that is \
                 late would end what is reported: make it {:?} or longer",
                renew * 2
            )));
        }
        Ok(lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_renewal_may_be_lost() {
        let args = |renew, lifetime| LifetimeArgs {
            report_renew: Duration::from_millis(renew),
            report_lifetime: Duration::from_millis(lifetime),
        };
        assert_eq!(args(15_000, 30_000).validate().unwrap(), Duration::from_secs(30));
        let short = args(15_000, 29_999).validate().unwrap_err();
        assert!(short.to_string().contains("twice --report-renew 15s"), "{short}");
        assert!(short.to_string().contains("make it 30s or longer"), "{short}");
        assert_eq!(short.code(), 2);
        assert!(args(0, 60_000).validate().is_err());
    }
}
