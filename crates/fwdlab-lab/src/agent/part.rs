//! What an agent opens when it is asked for a part of a tester: the engines of its own machine.
//!
//! The engine defines the questions, and answers them; [`crate::tester::distributed`] asks and
//! combines the parts. Start with [`Here`].

use fwdlab_engine::part::{OpenPart, PortFacts};
use fwdlab_engine::{
    Counting, EngineError, Mode, PathSpec, PortSpec, Receiver, Sender, open_receiver, open_sender,
};

/// This machine.
pub(super) struct Here;

impl OpenPart for Here {
    fn sender(
        &mut self,
        mode: Mode,
        ports: &[PortSpec],
        cpus: &[usize],
        senders: u32,
    ) -> Result<Box<dyn Sender>, EngineError> {
        let path = |port: &PortSpec| PathSpec {
            tx: port.clone(),
            rx: port.clone(),
        };
        let paths: Vec<PathSpec> = ports.iter().map(path).collect();
        open_sender(mode, &paths, cpus, senders)
    }

    fn receiver(
        &mut self,
        counting: Counting,
        port: &PortSpec,
        _: &[usize],
    ) -> Result<Box<dyn Receiver>, EngineError> {
        open_receiver(counting, port)
    }

    fn facts(&mut self, port: &PortSpec) -> Result<PortFacts, EngineError> {
        Err(EngineError::Unsupported {
            engine: "an agent",
            action: format!("describe {} in this way: ask its host", port.interface),
        })
    }

    fn close(&mut self, _: &PortSpec) {}
}
