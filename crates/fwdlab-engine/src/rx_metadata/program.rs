//! The program that requests arrival times, instruction by instruction: one call, and a counter for
//! each answer.
//!
//! Written by hand because a compiled object would need a relocation that our loader does not
//! support, and the program is shorter than a loader. Start with [`assemble`].

use std::os::fd::{AsRawFd, OwnedFd};

/// Index of the counter of frames with a time; 0 counts those with a time of zero, and the counters
/// between are indexed by error number.
pub(super) const STAMPED: u32 = 256;
/// Number of counters.
pub(super) const COUNTERS: u32 = STAMPED + 1;

/// `struct bpf_insn`: code, registers, offset, number.
pub(super) type Instruction = [u8; 8];

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
/// The end of the stack.
const R10: u8 = 10;
/// Stack offsets of the time, and of the counter's index.
const TIME: i16 = -8;
const SLOT: i16 = -16;

/// Assembles the program for a kernel function with this number in its BTF, and an array of
/// counters.
pub(super) fn assemble(function: u32, counters: &OwnedFd) -> Vec<Instruction> {
    let map = counters.as_raw_fd();
    vec![
        // *(u64 *)(r10 + TIME) = 0
        instruction(0x7a, R10, 0, TIME, 0),
        instruction(0xbf, R2, R10, 0, 0),
        instruction(0x07, R2, 0, 0, TIME.into()),
        // r0 = function(context, r2): BPF_PSEUDO_KFUNC_CALL
        instruction(0x85, 0, 2, 0, function as i32),
        // without an error, skip the next three
        instruction(0x15, R0, 0, 3, 0),
        instruction(0x87, R0, 0, 0, 0),
        instruction(0x57, R0, 0, 0, 255),
        instruction(0x05, 0, 0, 3, 0),
        // r0 is 0: keep it as the index if the time is zero, too
        instruction(0x79, R1, R10, TIME, 0),
        instruction(0x15, R1, 0, 1, 0),
        instruction(0xb7, R0, 0, 0, STAMPED as i32),
        // *(u32 *)(r10 + SLOT) = r0
        instruction(0x63, R10, R0, SLOT, 0),
        // r1 = the map, in two instructions: BPF_PSEUDO_MAP_FD
        instruction(0x18, R1, 1, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(0xbf, R2, R10, 0, 0),
        instruction(0x07, R2, 0, 0, SLOT.into()),
        // r0 = bpf_map_lookup_elem(r1, r2)
        instruction(0x85, 0, 0, 0, 1),
        instruction(0x15, R0, 0, 2, 0),
        // lock *(u64 *)r0 += 1
        instruction(0xb7, R1, 0, 0, 1),
        instruction(0xdb, R0, R1, 0, 0),
        // return XDP_PASS
        instruction(0xb7, R0, 0, 0, 2),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> Instruction {
    let registers = match cfg!(target_endian = "little") {
        true => from << 4 | to,
        false => to << 4 | from,
    };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    [code, registers, o0, o1, n0, n1, n2, n3]
}
