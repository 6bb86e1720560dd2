//! An echo backend as a program: `echo --bind 127.0.10.1:9001 --namespace shop --service store --pod store-0`.

use clap::{Parser, ValueEnum};
use std::net::SocketAddr;
use testkit::tls::Pair;
use testkit::{Echo, Identity, StreamEcho};

/// Answers every HTTP request, or every line or datagram, with what it saw and who it is.
#[derive(Debug, Parser)]
struct Args {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    bind: SocketAddr,
    /// What to speak.
    #[arg(long, value_enum, default_value = "http")]
    speak: Speak,
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

/// What is spoken.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Speak {
    /// HTTP.
    Http,
    /// Lines over TCP.
    Tcp,
    /// Lines over TLS, with a certificate made on the spot.
    Tls,
    /// Datagrams.
    Udp,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let identity = Identity::new(&args.namespace, &args.service, &args.pod);
    let said = |address: SocketAddr| println!("{}/{} answers on {address}", args.namespace, args.pod);
    let stream = match args.speak {
        Speak::Http => {
            let echo = Echo::start(args.bind, identity).await?;
            said(echo.address());
            tokio::signal::ctrl_c().await?;
            println!("{} requests", echo.requests());
            return Ok(());
        }
        Speak::Tcp => StreamEcho::tcp(args.bind, identity, None).await?,
        Speak::Tls => StreamEcho::tcp(args.bind, identity, Some(&Pair::new(&["echo.example"]))).await?,
        Speak::Udp => StreamEcho::udp(args.bind, identity).await?,
    };
    said(stream.address());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
