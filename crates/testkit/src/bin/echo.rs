//! An echo backend as a program: `echo --bind 127.0.10.1:9001 --namespace shop --service store --pod store-0`.

use clap::Parser;
use std::net::SocketAddr;
use testkit::{Echo, Identity};

/// Answers every HTTP request with what it saw and who it is.
#[derive(Debug, Parser)]
struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    bind: SocketAddr,
    /// Namespace to say.
    #[arg(long, env = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Service to say.
    #[arg(long, env = "SERVICE_NAME", default_value = "echo")]
    service: String,
    /// Pod to say.
    #[arg(long, env = "POD_NAME", default_value = "echo-0")]
    pod: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let echo = Echo::start(args.bind, Identity::new(&args.namespace, &args.service, &args.pod)).await?;
    println!("{}/{} answers on {}", args.namespace, args.pod, echo.address());
    tokio::signal::ctrl_c().await?;
    println!("{} requests", echo.requests());
    Ok(())
}
