//! The layout of the maps of `bpf/transmit.bpf.c`, `bpf/cycle.bpf.c` and `bpf/schedule.h`.
#![allow(unsafe_code, reason = "plain old data shared with BPF programs")]

/// Maximum number of paths of one sender (`MAX_PATHS` in `bpf/wire.h`).
pub(super) const MAX_PATHS: usize = 16;

/// `struct stream`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub head: [u8; 80],
    pub source_base: u32,
    pub source_count: u32,
    pub destination_base: u32,
    pub row: u32,
    pub destination_step: u32,
    pub source_port_base: u16,
    pub source_port_count: u16,
    pub destination_port_base: u16,
    pub destination_port_count: u16,
    pub ip_sum: u32,
    pub udp_sum: u32,
    /// Used only by the BPF program.
    pub row_ip_sum: u16,
    pub row_udp_sum: u16,
    pub stream_id: u64,
}

/// `struct control`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Control {
    pub start_ns: u64,
    pub end_ns: u64,
    pub gap: u64,
    pub frames: u64,
    pub path: u32,
    pub catch_up_us: u32,
    pub batch_mask: u32,
    pub relief: u32,
    pub end_position: u64,
    pub pieces: u64,
    pub phase: u64,
}

/// `struct piece`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub at: u64,
    pub gap: u64,
    pub from: u64,
}

/// `MAX_PIECES` of `bpf/schedule.h`; there is room for two more.
pub(super) const MAX_PIECES: usize = 65_536;

/// `struct progress`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    pub sent: [u64; MAX_PATHS],
    pub not_sent: u64,
    pub made_up: u64,
    pub calls: u64,
    pub next: u64,
    pub lag: u64,
    pub until: u64,
    pub gap: u64,
    pub start_ns: u64,
    pub oldest: u64,
    pub sequence: u64,
    pub steps: u32,
    pub spare: u32,
    pub slot: u32,
    pub left: u32,
    pub destination: u32,
    pub source: u32,
    pub source_port: u32,
    pub destination_port: u32,
    pub first: u32,
    pub kept: u32,
    /// `struct waited`, in rows of eight: longer arrays do not implement `Default`.
    pub stalls: [[u64; 3 * 8]; STALLS / 8],
    pub position: u64,
    pub piece_end: u64,
    pub piece: u32,
    pub pieces: u32,
}

/// `STALLS` of `bpf/schedule.h`.
const STALLS: usize = 16;

/// `LINE_BYTES`, `FIRST_BYTES` and `MAX_LINES` of `bpf/cycle.bpf.c`.
pub(super) const LINE_BYTES: usize = 128;
pub(super) const FIRST_BYTES: usize = LINE_BYTES - 16;
pub(super) const MAX_LINES: u32 = 32;

/// `struct line`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Line(pub [u8; LINE_BYTES]);

/// `struct slot`: the first line of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub bytes: u16,
    pub signature: u16,
    pub checksum: u16,
    pub sum: u16,
    pub flags: u16,
    pub stream: u16,
    pub steps: u32,
    pub head: [u8; FIRST_BYTES],
}

impl Slot {
    /// Returns the slot in the format of the map.
    pub(super) fn line(&self) -> Line {
        let mut line = Line([0; LINE_BYTES]);
        let halves = [
            self.bytes,
            self.signature,
            self.checksum,
            self.sum,
            self.flags,
            self.stream,
        ];
        for (to, half) in line.0.chunks_mut(2).zip(halves) {
            to.copy_from_slice(&half.to_ne_bytes());
        }
        line.0[12..16].copy_from_slice(&self.steps.to_ne_bytes());
        line.0[16..].copy_from_slice(&self.head);
        line
    }
}

/// `struct cycle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CycleSize {
    pub slots: u32,
    pub lines: u32,
}

// SAFETY: repr(C), integers only, and no padding: the sizes below are the sums of the fields.
unsafe impl aya::Pod for Stream {}
// SAFETY: as above.
unsafe impl aya::Pod for Control {}
// SAFETY: as above.
unsafe impl aya::Pod for Piece {}
// SAFETY: as above.
unsafe impl aya::Pod for Progress {}

// SAFETY: as above.
unsafe impl aya::Pod for Line {}
// SAFETY: as above.
unsafe impl aya::Pod for CycleSize {}

const _: () = assert!(size_of::<Stream>() == 80 + 7 * 4 + 6 * 2 + 8);
const _: () = assert!(size_of::<Control>() == 8 * 7 + 4 * 4);
const _: () = assert!(size_of::<Progress>() == 8 * (MAX_PATHS + 12 + 3 * STALLS) + 4 * 12);
