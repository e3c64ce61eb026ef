//! A stretch of network between two nodes that a test can break.

#![expect(clippy::unwrap_used, reason = "tests panic")]
#![expect(clippy::disallowed_methods, reason = "a thread per direction of a connection")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes on what comes at an address to another one.
pub(crate) struct Proxy {
    address: SocketAddr,
    road: Arc<Road>,
}

#[derive(Default)]
struct Road {
    target: Mutex<Option<SocketAddr>>,
    open: Mutex<Vec<Passage>>,
    bytes: AtomicU64,
}

/// A connection that passes through.
struct Passage {
    ends: [TcpStream; 2],
    is_stalled: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens; who connects before [`Proxy::lead_to`] is turned away.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, road) = (listener.local_addr().unwrap(), Arc::<Road>::default());
        let shared = Arc::clone(&road);
        thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                shared.pass(from);
            }
        });
        Self { address, road }
    }

    /// Where others are told to connect.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Where that leads from now on.
    pub(crate) fn lead_to(&self, address: &str) {
        *self.road.target.lock().unwrap() = Some(address.parse().unwrap());
    }

    /// How many bytes have passed, both ways.
    pub(crate) fn bytes(&self) -> u64 {
        self.road.bytes.load(Ordering::Relaxed)
    }

    /// Closes all connections, with what is on its way; how many there were.
    pub(crate) fn cut(&self) -> usize {
        let open = std::mem::take(&mut *self.road.open.lock().unwrap());
        for end in open.iter().flat_map(|passage| &passage.ends) {
            // It may be closed already.
            let _ = end.shutdown(Shutdown::Both);
        }
        open.len()
    }

    /// From now on nothing passes on the connections that there are, and nothing closes them; how many.
    pub(crate) fn stall(&self) -> usize {
        let open = self.road.open.lock().unwrap();
        open.iter().for_each(|passage| passage.is_stalled.store(true, Ordering::Relaxed));
        open.len()
    }
}

impl Road {
    fn pass(self: &Arc<Self>, from: TcpStream) {
        let target = *self.target.lock().unwrap();
        let Some(to) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
        for end in [&from, &to] {
            end.set_nodelay(true).unwrap();
        }
        let is_stalled = Arc::new(AtomicBool::new(false));
        for (source, sink) in [(&from, &to), (&to, &from)] {
            let (source, sink) = (source.try_clone().unwrap(), sink.try_clone().unwrap());
            let (road, is_stalled) = (Arc::clone(self), Arc::clone(&is_stalled));
            thread::spawn(move || road.pump(source, sink, &is_stalled));
        }
        self.open.lock().unwrap().push(Passage { ends: [from, to], is_stalled });
    }

    fn pump(&self, mut source: TcpStream, mut sink: TcpStream, is_stalled: &AtomicBool) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(len @ 1..) = source.read(&mut chunk) {
            if is_stalled.load(Ordering::Relaxed) {
                // It is neither passed on nor is the connection closed.
                continue;
            }
            if sink.write_all(&chunk[..len]).is_err() {
                break;
            }
            self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        let _ = sink.shutdown(Shutdown::Both);
        let _ = source.shutdown(Shutdown::Both);
    }
}
