//! What campaigns with `order = "together"` may contain: what one procedure can measure in one turn
//! on one test bed.
//!
//! Start with [`Campaign::check_together`].

use super::{Campaign, Counting, Matrix, Order, Procedure};
use crate::file::FileError;

impl Campaign {
    /// Rejects what cannot be measured in one turn.
    pub(super) fn check_together(
        &self,
        matrix: &Matrix,
        configurations: &[String],
    ) -> Result<(), FileError> {
        fn is_list<T>(list: Option<&super::Several<T>>) -> bool {
            list.is_some_and(|list| list.0.len() > 1)
        }
        if self.order != Order::Together {
            return Ok(());
        }
        let has_perf = self.telemetry.as_ref().is_some_and(|t| t.perf.is_some());
        let one =
            "test cases that are measured together have one of these: give one, or omit order";
        let none =
            "test cases that are measured together have none of this: omit it, or omit order";
        for (is_wrong, key_path, reason) in [
            (
                self.procedure.counting() != Counting::Trials,
                &["procedure", "id"][..],
                "this procedure measures test cases in turns: omit order",
            ),
            (
                self.iterations != 1,
                &["iterations"],
                "test cases that are measured together are measured once: set iterations = 1",
            ),
            (
                is_list(matrix.size.as_ref()) && !self.procedure.has_many_sizes(),
                &["matrix", "size"],
                "this procedure measures one frame size: give one, or omit order",
            ),
            (configurations.len() > 1, &["matrix", "configuration"], one),
            (is_list(matrix.flows.as_ref()), &["matrix", "flows"], one),
            (is_list(matrix.ip.as_ref()), &["matrix", "ip"], one),
            (
                is_list(matrix.profile.as_ref()),
                &["matrix", "profile"],
                one,
            ),
            (
                is_list(matrix.directions.as_ref()),
                &["matrix", "directions"],
                one,
            ),
            (is_list(matrix.dut.as_ref()), &["matrix", "dut"], one),
            (!matrix.exclude.is_empty(), &["matrix", "exclude"], none),
            (self.until.is_some(), &["iterations"], none),
            (self.reboot.is_some(), &["reboot"], none),
            (self.sweep.is_some(), &["procedure", "sweep"], none),
            (has_perf, &["telemetry", "perf"], none),
            (!self.hooks.is_empty(), &["hooks"], none),
        ] {
            if is_wrong {
                return Err(self.error(key_path, reason));
            }
        }
        Ok(())
    }
}

impl Procedure {
    /// Returns true if it can go from one frame size to the next by itself: tests of RFC 2544.
    fn has_many_sizes(&self) -> bool {
        matches!(
            self,
            Procedure::Throughput(_)
                | Procedure::Latency(_)
                | Procedure::FrameLoss(_)
                | Procedure::BackToBack(_)
                | Procedure::Recovery(_)
                | Procedure::Reset(_)
                | Procedure::Bursts(_)
                | Procedure::Rfc2544(_)
        )
    }
}
