//! A program that passes every frame of a port, because some ports do more with a program than
//! without.
//!
//! A veth's NAPI then also handles the frames of socket senders. Drivers such as ixgbe, i40e and
//! ice set up the queues through which AF_XDP sends in place, and through which XDP programs
//! redirect into the port, only while it has a program. Start with [`XdpPass::open`].

use aya::Ebpf;
use aya::programs::Xdp;
use aya::programs::xdp::{XdpLink, XdpMode};

use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};

static PASS: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pass.o"));

/// The program on a port. Detached when dropped.
pub struct XdpPass {
    _link: XdpLink,
}

impl XdpPass {
    /// Attaches the program.
    ///
    /// # Errors
    /// If there is no such interface or it has a program, its driver runs none, or privileges are
    /// missing.
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        let action = format!("attach XDP to {}", port.interface);
        within(&port.netns, || {
            let mut programs = Ebpf::load(PASS).map_err(|e| EngineError::bpf(&*action, &e))?;
            let pass: &mut Xdp = programs
                .program_mut("pass")
                .and_then(|program| program.try_into().ok())
                .ok_or_else(|| EngineError::Frames("the object has no XDP program pass".into()))?;
            pass.load().map_err(|e| EngineError::bpf(&*action, &e))?;
            Ok(XdpPass {
                _link: attach(pass, port, None, &action)?,
            })
        })
    }
}

/// Attaches a program to a port, or to the link of another program of ours.
pub(crate) fn attach(
    program: &mut Xdp,
    port: &PortSpec,
    before: Option<XdpLink>,
    action: &str,
) -> Result<XdpLink, EngineError> {
    let attached = match before {
        Some(link) => program.attach_to_link(link),
        None => program.attach_to_if_index(interface_index(&port.interface)?, XdpMode::Driver),
    };
    attached
        .and_then(|id| program.take_link(id))
        .map_err(|e| EngineError::bpf(action, &e))
}
