//! The AF_XDP sender: frames patched in place in the shared memory, one socket on queue 0 of each path's port.
//!
//! In copy mode the kernel works only inside of the wake-up call, on at most 32 frames each. It stops early when the
//! driver drops a frame (EBUSY; the frame is used up and is a `tx_dropped` of the port) or cannot take it (EAGAIN; it
//! stays in the ring). So every frame that has left the ring was given to the driver: `sent = tx_packets + tx_dropped`,
//! and frames still in the ring at the end are not sent.

use std::os::fd::OwnedFd;
use std::time::Duration;
use std::{io, thread};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with};

use super::sys::{self, Completions, FRAME_BYTES, Producer};
use crate::af_packet::sender::{Counters, FrameSource, SocketSender, Transmit, write_any};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Sender, TestFrames};
use crate::port::{PathSpec, PortSpec, interface_index, within};

const CAPABILITIES: Capabilities = Capabilities {
    mode: Mode::AfXdp,
    summary: "AF_XDP in copy mode, one queue, one thread",
    needs_privileges: false,
    counts_at_driver: true,
};

/// Frames and ring entries of one path, a power of two. A frame is ours again when the DUT has fetched it, so there must
/// be clearly more than a veth queue holds (256): with fewer, the sender waits for the DUT, and overload shows no loss.
/// Frames are reused last in, first out, so that what is written stays in the cache.
const SLOTS: u32 = 512;

/// The same frames are charged to the socket. The kernel grants less where `net.core.wmem_max` says so.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The kernel releases a queue some time after its socket is closed, and says EBUSY until then.
const RELEASE_TRIES: u32 = 50;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// How long the end of a trial waits for frames that the driver would not take at once.
const END_TRIES: u32 = 20;
const END_PAUSE: Duration = Duration::from_millis(1);

/// Opens the sender on queue 0 of the sending ports of all paths.
///
/// # Errors
/// An interface that does not exist, a kernel without AF_XDP, a queue that another AF_XDP socket has, or no CAP_NET_RAW.
pub fn sender(paths: &[PathSpec], cpus: &[usize]) -> Result<impl Sender + use<>, EngineError> {
    let ports = paths
        .iter()
        .map(|path| Port::open(&path.tx))
        .collect::<Result<_, _>>()?;
    let transmit = XdpTransmit { ports, current: 0 };
    Ok(SocketSender::new(CAPABILITIES, paths.len(), cpus, transmit))
}

struct XdpTransmit {
    ports: Vec<Port>,
    /// Index of the path that was used last.
    current: usize,
}

/// One path's port: memory, and a socket.
struct Port {
    spec: PortSpec,
    frame_bytes: usize,
    frames: sys::Frames,
    /// Closed after a trial that left frames in its ring: they must not leave with the next.
    socket: Option<Socket>,
    /// Frames of this trial that were put into the ring.
    produced: u64,
}

struct Socket {
    socket: OwnedFd,
    ring: Producer,
    completions: Completions,
    /// Frames that are ours to write.
    free: Vec<usize>,
}

impl Port {
    fn open(spec: &PortSpec) -> Result<Port, EngineError> {
        let frames = sys::Frames::new(SLOTS as usize)
            .map_err(|e| EngineError::system("map memory for frames", e))?;
        Ok(Port {
            spec: spec.clone(),
            frame_bytes: 0,
            socket: Some(Socket::open(spec, frames.region())?),
            frames,
            produced: 0,
        })
    }

    /// Opens the socket if it was closed.
    fn reopen(&mut self) -> Result<(), EngineError> {
        if self.socket.is_none() {
            self.socket = Some(Socket::open(&self.spec, self.frames.region())?);
        }
        Ok(())
    }

    /// Frames of this trial that have not been given to the driver.
    fn unsent(&mut self) -> u64 {
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        while let Some(frame) = socket.completions.pop() {
            socket.free.push(frame);
        }
        // The kernel may publish what it consumed late, but a frame that is complete has left the ring.
        let incomplete = SLOTS as usize - socket.free.len();
        u64::from(socket.ring.pending()).min(incomplete as u64)
    }

    fn fill(&mut self, count: usize, frames: &mut FrameSource) -> usize {
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        let count = count
            .min(socket.free.len())
            .min(socket.ring.room() as usize);
        for frame in socket.free.drain(socket.free.len() - count..) {
            frames.write_next(self.frames.frame(frame));
            socket.ring.push(frame, self.frame_bytes);
        }
        socket.ring.publish();
        self.produced += count as u64;
        count
    }

    /// Lets the kernel send what is in the ring, until it is empty or nothing moves.
    fn drain(&mut self) -> Result<(), EngineError> {
        let mut unsent = self.unsent();
        while unsent > 0 {
            self.wake().map_err(|e| {
                EngineError::system(format!("send into {}", self.spec.interface), e)
            })?;
            let before = std::mem::replace(&mut unsent, self.unsent());
            if unsent == before {
                break;
            }
        }
        Ok(())
    }

    /// Tells the kernel to look at the ring. That it got nowhere is no error.
    fn wake(&self) -> io::Result<()> {
        let Some(socket) = self.socket.as_ref().filter(|s| s.ring.needs_wakeup()) else {
            return Ok(());
        };
        match send(&socket.socket, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts what was sent, and returns how many frames are still in the ring.
    fn publish(&mut self, path: usize, counters: &Counters) -> u64 {
        let unsent = self.unsent();
        counters.set_sent(path, self.produced - unsent);
        unsent
    }
}

impl Socket {
    fn open(port: &PortSpec, region: (u64, u64)) -> Result<Socket, EngineError> {
        let what = || format!("open an AF_XDP socket on {}", port.interface);
        within(&port.netns, || {
            let interface = interface_index(&port.interface)?;
            let mut tries = RELEASE_TRIES;
            loop {
                match Socket::try_open(interface, region) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => {
                        tries -= 1;
                        thread::sleep(RELEASE_PAUSE);
                    }
                    result => return result.map_err(|e| EngineError::system(what(), e)),
                }
            }
        })
    }

    fn try_open(interface: u32, (addr, len): (u64, u64)) -> io::Result<Socket> {
        let socket = socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        set_xdp_umem_reg(
            &socket,
            XdpUmemReg {
                addr,
                len,
                chunk_size: FRAME_BYTES as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        // bind insists on a fill ring, though we never receive
        set_xdp_umem_fill_ring_size(&socket, 1)?;
        set_xdp_umem_completion_ring_size(&socket, SLOTS)?;
        set_xdp_tx_ring_size(&socket, SLOTS)?;
        let offsets = xdp_mmap_offsets(&socket)?;
        let ring = Producer::new(&socket, &offsets.tx, SLOTS)?;
        let completions = Completions::new(&socket, &offsets.cr, SLOTS)?;
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(flags, interface, 0))?;
        Ok(Socket {
            socket,
            ring,
            completions,
            free: (0..SLOTS as usize).collect(),
        })
    }
}

impl Transmit for XdpTransmit {
    fn arm(&mut self, frames: &TestFrames) -> Result<(), EngineError> {
        let frame_bytes = frames.template.buffer_len();
        if frame_bytes > FRAME_BYTES {
            return Err(EngineError::Frames(format!(
                "AF_XDP takes frames of up to {FRAME_BYTES} bytes without FCS, not {frame_bytes}"
            )));
        }
        for port in &mut self.ports {
            port.reopen()?;
            port.frame_bytes = frame_bytes;
            // those that are still under way have been copied already
            for index in 0..SLOTS as usize {
                write_any(frames, port.frames.frame(index));
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        for port in &mut self.ports {
            port.reopen()?;
            port.produced = 0;
        }
        Ok(())
    }

    fn send(
        &mut self,
        path: usize,
        count: usize,
        frames: &mut FrameSource,
        counters: &Counters,
    ) -> Result<usize, EngineError> {
        if path != self.current {
            let last = &mut self.ports[self.current];
            last.drain()?;
            last.publish(self.current, counters);
            self.current = path;
        }
        let port = &mut self.ports[path];
        // learns which buffers are free again
        port.drain()?;
        let taken = port.fill(count, frames);
        port.drain()?;
        port.publish(path, counters);
        Ok(taken)
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        for (path, port) in self.ports.iter_mut().enumerate() {
            port.drain()?;
            // a dropped frame may show only when the DUT has finished with those before it
            let mut patience = END_TRIES;
            while port.unsent() > 0 && patience > 0 {
                patience -= 1;
                thread::sleep(END_PAUSE);
                port.drain()?;
            }
            let unsent = port.publish(path, counters);
            counters.set_refused(path, unsent);
            if unsent > 0 {
                port.socket = None;
            }
        }
        Ok(())
    }
}
