//! Lines from a pipe or a socket.
//!
//! Such a source may say nothing for hours, so a thread waits for it and hands on what it reads in
//! pieces; few of them, so that a slow topology stops the thread, and the thread the source. What is
//! read cannot be read again from there: a partition that moves to another node goes on with a new
//! connection, and what the old one had read ahead is lost. Under at-least-once, what is not committed is
//! kept, and what was lost on the way is read again from that.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pe::{
    Ctx, Line, Next, Opening, Param, Params, PartitionName, Position, Spout, SpoutError, Waker,
};

use super::CHUNK;
use super::fault::Faults;
use super::line_decoder::LineDecoder;

/// The name of the partition that is the standard input.
const STDIN: &str = "stdin";

/// What may be read ahead: enough to have the next piece ready, and little to lose.
const PIECES_MAX: usize = 4;

/// The shortest and the longest time between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How long one address may take to answer.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The spout `lines`.
#[derive(Debug)]
pub(crate) struct Lines {
    name: String,
    pieces: Receiver<Piece>,
    decoder: LineDecoder,
    faults: Faults,
    plug: Plug,
    kept: Kept,
}

/// What was read and is not committed.
#[derive(Debug, Default)]
struct Kept {
    /// The offset of its first byte.
    from: u64,
    bytes: VecDeque<u8>,
}

impl Kept {
    /// Forgets what lies before an offset.
    fn forget(&mut self, before: u64) {
        let gone = usize::try_from(before.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let gone = gone.min(self.bytes.len());
        self.bytes.drain(..gone);
        self.from += gone as u64;
    }

    /// What lies behind an offset, if it is there.
    fn behind(&self, offset: u64) -> Option<Vec<u8>> {
        let skip = usize::try_from(offset.checked_sub(self.from)?).ok()?;
        (skip <= self.bytes.len()).then(|| self.bytes.iter().skip(skip).copied().collect())
    }
}

/// What the thread has to say.
enum Piece {
    Bytes(Vec<u8>),
    End,
    Failed(String),
}

impl Spout for Lines {
    type Out = Line;

    const PARAMS: &'static [Param] = &[
        Param::text("from", "`stdin` or `tcp:HOST:PORT`").default(STDIN),
        Param::integer("connect_seconds", "how long to try to connect")
            .between(0, 86_400)
            .default(30),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        let from = params.text("from");
        if from == STDIN {
            return Ok(vec![PartitionName::pinned(STDIN)]);
        }
        let address = from.strip_prefix("tcp:").and_then(|address| {
            let (host, port) = address.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(address)
        });
        let wrong =
            || SpoutError::new(format!("`from` must be `stdin` or `tcp:HOST:PORT`, not `{from}`"));
        address.map(|address| vec![PartitionName::new(address)]).ok_or_else(wrong)
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let name = opening.name.as_str().to_owned();
        let limit = opening.params.integer("connect_seconds").unsigned_abs();
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let feed = Feed { sender, waker: opening.waker };
        let plug = Plug::default();
        let (address, far_plug) = (name.clone(), plug.clone());
        // Dropping the spout ends this thread: its connection is shut down and its pieces are refused.
        // Only a read of the standard input cannot be ended; it lasts until there is a next line.
        let run = move || match &*address {
            STDIN => feed.copy(&mut io::stdin().lock()),
            address => feed.connect(address, Duration::from_secs(limit), &far_plug),
        };
        let spawned = thread::Builder::new().name("lines".to_owned()).spawn(run);
        spawned.map_err(|error| SpoutError::new(format!("{name}: no thread: {error}")))?;
        let offset = opening.position.offset;
        let (decoder, kept) =
            (LineDecoder::at(offset), Kept { from: offset, bytes: VecDeque::new() });
        Ok(Self { name, pieces, decoder, faults: Faults::default(), plug, kept })
    }

    fn reopen(&mut self, opening: Opening<'_>) -> Result<Self, SpoutError> {
        let (name, offset) = (self.name.clone(), opening.position.offset);
        let bytes = self.kept.behind(offset);
        let bytes = bytes.ok_or_else(|| SpoutError::new(format!("{name}: it is not kept")))?;
        let (sender, pieces) = sync_channel(2);
        for piece in [Piece::Bytes(bytes), Piece::End] {
            sender.send(piece).map_err(|_| SpoutError::new("nobody reads it"))?;
        }
        let (decoder, faults) = (LineDecoder::at(offset), Faults::default());
        let kept = Kept { from: offset, bytes: VecDeque::new() };
        Ok(Self { name, pieces, decoder, faults, plug: Plug::default(), kept })
    }

    fn committed(&mut self, position: Position) {
        self.kept.forget(position.offset);
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        let Self { name, pieces, decoder, faults, kept, .. } = self;
        for _ in 0..PIECES_MAX {
            match pieces.try_recv() {
                Ok(Piece::Bytes(bytes)) => {
                    if ctx.is_tracked() {
                        kept.bytes.extend(&bytes);
                    }
                    decoder.take(&bytes, |found| faults.pass(found, name, ctx));
                    if bytes.len() == CHUNK {
                        break;
                    }
                }
                Ok(Piece::End) => {
                    decoder.finish(|found| faults.pass(found, name, ctx));
                    return Ok(Next::Exhausted);
                }
                Ok(Piece::Failed(cause)) => {
                    return Err(SpoutError::new(format!("{name}: {cause}")));
                }
                Err(TryRecvError::Empty) => return Ok(Next::Idle),
                Err(TryRecvError::Disconnected) => {
                    return Err(SpoutError::new(format!("{name}: the reading thread is gone")));
                }
            }
        }
        Ok(Next::More)
    }

    /// What follows cannot be found by a number; it says how much was read.
    fn position(&self) -> Position {
        Position { offset: self.decoder.offset(), plays: 0 }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.plug.pull();
    }
}

/// The thread's side.
struct Feed {
    sender: SyncSender<Piece>,
    waker: Waker,
}

impl Feed {
    /// Hands on a piece, when there is room; `false` if nobody wants it.
    fn send(&self, piece: Piece) -> bool {
        let is_wanted = self.sender.send(piece).is_ok();
        if is_wanted {
            self.waker.wake();
        }
        is_wanted
    }

    /// Reads to the end.
    fn copy(&self, input: &mut impl Read) {
        let mut buffer = vec![0; CHUNK];
        loop {
            let piece = match input.read(&mut buffer) {
                Ok(0) => Piece::End,
                Ok(len) => Piece::Bytes(buffer[..len].to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Piece::Failed(error.to_string()),
            };
            let is_last = !matches!(piece, Piece::Bytes(_));
            if !self.send(piece) || is_last {
                return;
            }
        }
    }

    /// Connects, and reads to the end.
    #[expect(clippy::disallowed_methods, reason = "the threads of the runtime have real time")]
    fn connect(&self, address: &str, limit: Duration, plug: &Plug) {
        let began = Instant::now();
        let mut pause = BACK_OFF.0;
        loop {
            let left = limit.saturating_sub(began.elapsed());
            match connect(address, left.clamp(BACK_OFF.1, ATTEMPT)) {
                Ok(mut stream) => {
                    match plug.plug_in(&stream) {
                        Ok(true) => self.copy(&mut stream),
                        Ok(false) => {}
                        Err(error) => drop(self.send(Piece::Failed(error.to_string()))),
                    }
                    return;
                }
                Err(error) if began.elapsed() >= limit => {
                    let cause = format!("no connection in {} s: {error}", limit.as_secs());
                    self.send(Piece::Failed(cause));
                    return;
                }
                Err(_) => {}
            }
            if !plug.wait(pause.min(limit.saturating_sub(began.elapsed()))) {
                return;
            }
            pause = (pause * 2).min(BACK_OFF.1);
        }
    }
}

fn connect(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What ends the connection when the spout is gone, wherever the thread is.
#[derive(Clone, Debug, Default)]
struct Plug(Arc<(Mutex<Connection>, Condvar)>);

#[derive(Debug, Default)]
enum Connection {
    /// Not yet.
    #[default]
    None,
    /// There is one.
    Open(TcpStream),
    /// There must be none any more.
    Over,
}

impl Plug {
    /// Notes the connection; `false` if nobody wants it.
    fn plug_in(&self, stream: &TcpStream) -> io::Result<bool> {
        let stream = stream.try_clone()?;
        let mut connection = self.lock();
        if matches!(*connection, Connection::Over) {
            return Ok(false);
        }
        *connection = Connection::Open(stream);
        Ok(true)
    }

    /// Ends the connection, and whoever waits.
    fn pull(&self) {
        let before = std::mem::replace(&mut *self.lock(), Connection::Over);
        if let Connection::Open(stream) = before {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.0.1.notify_all();
    }

    /// Waits; `false` as soon as nobody wants a connection.
    fn wait(&self, pause: Duration) -> bool {
        let is_wanted = |connection: &mut Connection| !matches!(connection, Connection::Over);
        let waited = self.0.1.wait_timeout_while(self.lock(), pause, is_wanted);
        let (mut connection, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_wanted(&mut connection)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc::RecvTimeoutError;

    use super::super::probe::{self, Probe};
    use super::*;

    fn partitions(from: &str) -> Result<Vec<PartitionName>, String> {
        let params = probe::params::<Lines>(&format!("from = \"{from}\"")).unwrap();
        Lines::partitions(&params).map_err(|error| error.to_string())
    }

    fn connect(address: SocketAddr, params: &str, offset: u64) -> Probe {
        let params = format!("from = \"tcp:{address}\", {params}");
        let position = Position { offset, plays: 0 };
        Probe::open::<Lines>(&params, PartitionName::new(address.to_string()), position)
    }

    fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn the_standard_input_stays_where_it_is_and_a_socket_does_not() {
        let default = probe::params::<Lines>("").unwrap();
        assert_eq!(Lines::partitions(&default), Ok(vec![PartitionName::pinned("stdin")]));
        assert_eq!(partitions("stdin"), Ok(vec![PartitionName::pinned("stdin")]));
        for address in ["localhost:99", "[::1]:99", "10.0.0.1:65535"] {
            let expected = Ok(vec![PartitionName::new(address)]);
            assert_eq!(partitions(&format!("tcp:{address}")), expected);
        }
    }

    #[test]
    fn what_is_not_committed_can_be_read_again() {
        let mut kept = Kept { from: 100, bytes: b"one\ntwo\nthr".iter().copied().collect() };
        assert_eq!(kept.behind(104).as_deref(), Some(&b"two\nthr"[..]));
        assert_eq!(kept.behind(111).as_deref(), Some(&b""[..]));
        assert_eq!((kept.behind(99), kept.behind(112)), (None, None));
        kept.forget(90);
        kept.forget(104);
        assert_eq!((kept.from, kept.behind(100)), (104, None));
        assert_eq!(kept.behind(104).as_deref(), Some(&b"two\nthr"[..]));
        kept.forget(1_000);
        assert_eq!((kept.from, kept.bytes.len()), (111, 0));
    }

    #[test]
    fn any_other_source_is_refused() {
        for from in ["", "tcp:", "tcp:host", "tcp::99", "tcp:host:0", "tcp:host:99999", "udp:h:1"] {
            let expected = format!("`from` must be `stdin` or `tcp:HOST:PORT`, not `{from}`");
            assert_eq!(partitions(from), Err(expected));
        }
        for seconds in ["-1", "100000", "1.5"] {
            let refused = probe::params::<Lines>(&format!("connect_seconds = {seconds}"));
            assert!(refused.unwrap_err().contains("an integer from 0 to 86400"));
        }
    }

    #[test]
    fn a_socket_is_read_to_its_end() {
        let (listener, address) = listen();
        let mut probe = connect(address, "", 100);
        let (mut stream, _) = listener.accept().unwrap();
        probe.run(0.0);
        assert!(!probe.partition().is_exhausted);
        stream.write_all(b"one\r\ntw").unwrap();
        while probe.partition().position.offset < 105 {
            probe.wait();
            probe.run(0.0);
        }
        assert_eq!(probe.lines(), ["one"], "a line comes as soon as it is there");
        stream.write_all(b"o\nbr\xffoken\nlast").unwrap();
        drop(stream);
        probe.run_to_end();
        assert_eq!(probe.lines(), ["two", "last"]);
        assert_eq!(probe.dropped("not UTF-8"), 1);
        let partition = probe.partition();
        assert_eq!((partition.position.offset, partition.failure), (100 + 21, None));
    }

    #[test]
    fn nothing_is_lost_when_the_spout_is_slower_than_its_source() {
        let (listener, address) = listen();
        let mut probe = connect(address, "", 0);
        let (mut stream, _) = listener.accept().unwrap();
        let text: Vec<_> = (0..200_000).map(|number| format!("line {number}")).collect();
        let bytes = text.join("\n").into_bytes();
        let sending = thread::Builder::new().spawn(move || stream.write_all(&bytes)).unwrap();
        probe.run_to_end();
        sending.join().unwrap().unwrap();
        let lines = probe.lines();
        assert!(lines == text, "{} of {} lines", lines.len(), text.len());
    }

    #[test]
    fn a_source_that_comes_late_is_waited_for() {
        let (listener, address) = listen();
        drop(listener);
        let mut probe = connect(address, "", 0);
        probe.run(0.0);
        let listener = TcpListener::bind(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"late\n").unwrap();
        drop(stream);
        probe.run_to_end();
        assert_eq!(probe.lines(), ["late"]);
    }

    #[test]
    fn a_source_that_never_comes_is_named() {
        let (listener, address) = listen();
        drop(listener);
        let mut probe = connect(address, "connect_seconds = 0", 0);
        probe.run_to_end();
        let expected =
            format!("{address}: no connection in 0 s: Connection refused (os error 111)");
        assert_eq!(probe.partition().failure, Some(expected));
    }

    #[test]
    fn a_source_that_breaks_is_an_error_after_what_it_gave() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }
        let (sender, pieces) = sync_channel(9);
        let feed = Feed { sender, waker: Waker::new(|| {}) };
        feed.copy(&mut (&b"ab"[..]).chain(Broken));
        drop(feed);
        let pieces: Vec<_> = pieces.into_iter().collect();
        assert!(matches!(&pieces[..], [Piece::Bytes(bytes), Piece::Failed(cause)]
            if bytes == b"ab" && cause == "connection reset"));
    }

    #[test]
    fn the_thread_goes_with_the_spout() {
        let (listener, address) = listen();
        let is_over = |probe: &Probe| loop {
            match probe.woken.recv_timeout(Duration::from_secs(20)) {
                Ok(()) => {}
                Err(end) => break end == RecvTimeoutError::Disconnected,
            }
        };
        for is_full in [false, true] {
            let mut probe = connect(address, "", 0);
            let (mut stream, _) = listener.accept().unwrap();
            if is_full {
                // More than is read ahead: the thread waits for room.
                stream.write_all(&vec![b'\n'; PIECES_MAX * CHUNK + 1]).unwrap();
                (0..PIECES_MAX).for_each(|_| probe.woken.recv().unwrap());
            }
            probe.stop();
            assert!(is_over(&probe), "reading");
        }
        drop(listener);
        let mut probe = connect(address, "connect_seconds = 86400", 0);
        probe.stop();
        assert!(is_over(&probe), "connecting");
    }
}
