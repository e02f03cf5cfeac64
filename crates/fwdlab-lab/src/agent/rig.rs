//! A rig at an agent: does what it is asked with the engine of this process, but runs no trials
//! itself.
//!
//! [`wire::rig`](crate::host::wire::rig) defines the questions and answers;
//! [`crate::tester::remote`] asks. Start with [`answer`].

use std::sync::Arc;

use fwdlab_engine::{PathSpec, Traffic};

use super::serve::{path, refused};
use crate::host::Failure;
use crate::host::wire::rig::{Answer, Question};
use crate::tester::{Frames, Rig, local};

/// An open rig.
pub(super) struct Open {
    rig: Box<dyn Rig>,
    /// The traffic that was armed last.
    known: Option<Arc<Traffic>>,
}

/// Answers a question with the engine of this process.
pub(super) fn answer(
    open: &mut Option<Open>,
    question: Question,
    bytes: &[u8],
) -> Result<Answer, Failure> {
    if let Question::Open {
        paths,
        addresses,
        choice,
    } = question
    {
        // an open rig keeps the ports busy
        *open = None;
        let paths: Vec<PathSpec> = paths.into_iter().map(path).collect();
        let (rig, chosen) = local::open(&paths, &addresses, &choice).map_err(refused)?;
        let (sender, receiver) = rig.names();
        *open = Some(Open { rig, known: None });
        return Ok(Answer::Opened {
            sender: sender.to_owned(),
            receiver: receiver.to_owned(),
            words: chosen.words,
            rejected: chosen.rejected,
        });
    }
    let Some(Open { rig, known }) = open else {
        return match question {
            Question::Close => Ok(Answer::Done),
            _ => Err(Failure::Refused("no rig is open".into())),
        };
    };
    let done = |()| Answer::Done;
    let answer = match question {
        Question::Open { .. } => return Err(Failure::Refused("it is open".into())),
        Question::Close => {
            *open = None;
            return Ok(Answer::Done);
        }
        Question::Prove {
            path,
            stream,
            frames,
        } => rig.prove(path, &stream, frames).map(Answer::Proof),
        Question::Arm { stream, analysis } => {
            let armed = rig.arm(Frames::Stream(&stream), analysis);
            armed.map(|()| Answer::Armed { nonce: rig.nonce() })
        }
        Question::ArmTraffic { analysis } => {
            if !bytes.is_empty() {
                let read = serde_json::from_slice(bytes);
                let traffic: Traffic =
                    read.map_err(|e| Failure::Refused(format!("invalid traffic: {e}")))?;
                *known = Some(Arc::new(traffic));
            }
            let Some(traffic) = known else {
                return Err(Failure::Refused("no traffic is known".into()));
            };
            let armed = rig.arm(Frames::Traffic(traffic), analysis);
            armed.map(|()| Answer::Armed { nonce: rig.nonce() })
        }
        Question::Start(schedule) => rig.start(schedule).map(done),
        Question::Select { path } => rig.select(path).map(done),
        Question::Renew => rig.renew().map(Answer::Paused),
        Question::IsDone => Ok(Answer::IsDone(rig.is_done())),
        Question::Read => rig.read().map(Answer::Reading),
        Question::Stop => rig.stop().map(Answer::Reading),
        Question::ReceiveCounts { path } => rig.receive_counts(path).map(Answer::ReceiveCounts),
        Question::Analysis { path } => rig.analysis(path).map(Answer::Analysis),
        Question::Lateness => rig.lateness().map(Answer::Lateness),
    };
    answer.map_err(refused)
}
