//! The baseline of `open-loop` between two processes: a sender, a connection, a receiver.
//!
//! What events pay for going from process to process, they pay with and without an engine. So where the
//! engine has two nodes, the program written by hand has two processes as well. This process sends; the
//! other one, started by it, says where it listens and, when the connection has ended, what it found.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use bench::by_hand::{receive_from, send_over};
use bench::{Model, Outcome, Spec, Workload};
use clap::Args;
use starling::cli::{Exit, Failure, output};

use super::child::{from_json, this};

/// The command of the receiver.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// The run, as JSON
    #[arg(value_parser = from_json::<Spec>)]
    spec: Spec,
}

impl ReceiveArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
        output::json(&listener.local_addr().map_err(broken)?);
        let (stream, _) = listener.accept().map_err(broken)?;
        output::json(&receive_from(&self.spec, stream).map_err(broken)?);
        Ok(())
    }
}

/// Whether a run is one of these.
pub(super) fn is_pair(spec: &Spec) -> bool {
    let Spec { model, workload, processes, .. } = *spec;
    model == Model::Baseline && workload == Workload::OpenLoop && processes == 2
}

/// Sends the events of a run to a process started for it, and puts together what both say.
pub(super) fn run(spec: &Spec) -> Result<Outcome, Failure> {
    let mut command = this("compare-receive", spec)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(broken)?;
    let mut child = Receiver(child);
    let said = child.0.stdout.take().expect("it was piped");
    let mut lines = BufReader::new(said).lines();
    // The end of what it says, in place of a line, is the end of the process.
    let mut line = || {
        let ended = || Failure::new(Exit::Failure, "the receiver ended without a word");
        lines.next().ok_or_else(ended)?.map_err(broken)
    };
    let address: SocketAddr = parse(&line()?)?;
    let stream = TcpStream::connect(address).map_err(broken)?;
    let sent = send_over(spec, stream).map_err(broken)?;
    let received: Outcome = parse(&line()?)?;
    Ok(Outcome {
        seconds: sent.seconds,
        cpu_seconds: sent.cpu_seconds + received.cpu_seconds,
        peak_rss_bytes: sent.peak_rss_bytes + received.peak_rss_bytes,
        start_rss_bytes: sent.start_rss_bytes + received.start_rss_bytes,
        ..received
    })
}

/// The process that receives; it does not outlive this one's interest in it.
#[derive(Debug)]
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, Failure> {
    serde_json::from_str(line).map_err(broken)
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("between sender and receiver: {error}"))
}
