//! Classic BPF: checks the programs that filter expressions compile to, and runs them on frames.
//!
//! A program is in the format that `tcpdump -ddd` prints. It is checked once, so running it needs
//! no trust: jumps go forward and stay inside, memory accesses are in bounds, and the last
//! instruction returns. As in the kernel, a load beyond the frame ends the program with "no match".
//! Start with [`Program::parse`], then [`Program::accepts`].

/// Maximum number of instructions in a program: the kernel's limit.
pub const MOST: usize = 4096;

/// Words of memory of a program.
const MEMORY: usize = 16;

/// One instruction, laid out as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Why instructions cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BpfError {
    /// The program is empty, or has too many instructions.
    #[error("a filter has 1 to {MOST} instructions, not {0}")]
    Length(usize),
    /// The line is not in the format of `tcpdump -ddd`.
    #[error("line {0} of the filter is not four numbers")]
    Line(usize),
    /// The instruction is unknown.
    #[error("instruction {0} of the filter is unknown")]
    Unknown(usize),
    /// The jump leaves the program.
    #[error("instruction {0} of the filter jumps out of it, or back")]
    Jump(usize),
    /// It divides by zero, shifts by too much, or accesses memory out of bounds.
    #[error("instruction {0} of the filter has an invalid operand")]
    Number(usize),
    /// The last instruction does not return.
    #[error("the last instruction of the filter does not return")]
    Endless,
}

/// A program that was checked and can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

// linux/bpf_common.h
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;

const X: u16 = 0x08;

const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const MSH: u16 = 0xa0;

const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;

const DIV: u16 = 0x30;
const LSH: u16 = 0x60;
const RSH: u16 = 0x70;
const NEG: u16 = 0x80;
const MOD: u16 = 0x90;
const XOR: u16 = 0xa0;

const RET_A: u16 = 0x10;
const TXA: u16 = 0x80;

impl Program {
    /// Returns a program that accepts every frame.
    pub fn accept_all() -> Program {
        Program(vec![Instruction {
            code: RET,
            jt: 0,
            jf: 0,
            k: u32::MAX,
        }])
    }

    /// Parses the output of `tcpdump -ddd`: the number of instructions, then each as four decimal
    /// numbers on a line.
    ///
    /// # Errors
    /// If the text has another format, or the program cannot be run.
    pub fn parse(text: &str) -> Result<Program, BpfError> {
        let mut lines = text.lines();
        let count: usize = lines
            .next()
            .and_then(|line| line.trim().parse().ok())
            .ok_or(BpfError::Line(1))?;
        let instruction = |(at, line): (usize, &str)| {
            let mut numbers = line.split_whitespace();
            let mut next = || numbers.next()?.parse::<u32>().ok();
            let parsed = (|| {
                Some(Instruction {
                    code: next()?.try_into().ok()?,
                    jt: next()?.try_into().ok()?,
                    jf: next()?.try_into().ok()?,
                    k: next()?,
                })
            })();
            let parsed = parsed.ok_or(BpfError::Line(at + 2))?;
            match numbers.next() {
                None => Ok(parsed),
                Some(_) => Err(BpfError::Line(at + 2)),
            }
        };
        let all = lines.take(MOST + 1).enumerate().map(instruction);
        let all: Vec<Instruction> = all.collect::<Result<_, _>>()?;
        if all.len() != count {
            return Err(BpfError::Length(all.len()));
        }
        Program::new(all)
    }

    /// Checks these instructions.
    ///
    /// # Errors
    /// If they cannot be run.
    pub fn new(all: Vec<Instruction>) -> Result<Program, BpfError> {
        if all.is_empty() || all.len() > MOST {
            return Err(BpfError::Length(all.len()));
        }
        for (at, one) in all.iter().enumerate() {
            check(at, one, all.len())?;
        }
        match all.last() {
            Some(last) if last.code & 7 == RET => Ok(Program(all)),
            _ => Err(BpfError::Endless),
        }
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Returns true if the program accepts this frame. `length` is the length on the wire; `bytes`
    /// may be only its beginning.
    pub fn accepts(&self, bytes: &[u8], length: usize) -> bool {
        self.run(bytes, length) != Some(0)
    }

    /// Runs the program and returns its result; 0 if a load is beyond the frame. A checked program
    /// never returns `None`.
    pub fn run(&self, bytes: &[u8], length: usize) -> Option<u32> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let (mut a, mut x) = (0u32, 0u32);
        let mut memory = [0u32; MEMORY];
        let mut at = 0;
        loop {
            let Instruction { code, jt, jf, k } = *self.0.get(at)?;
            at += 1;
            match code & 7 {
                LD => {
                    let loaded = match code & 0xe0 {
                        IMM => Some(k),
                        LEN => Some(length),
                        MEM => memory.get(k as usize).copied(),
                        ABS => load(bytes, k, code),
                        _ => x.checked_add(k).and_then(|from| load(bytes, from, code)),
                    };
                    match loaded {
                        Some(loaded) => a = loaded,
                        None => return Some(0),
                    }
                }
                LDX => {
                    let loaded = match code & 0xe0 {
                        IMM => Some(k),
                        LEN => Some(length),
                        MEM => memory.get(k as usize).copied(),
                        // four times the low half of a byte: the length of an IPv4 header
                        _ => load(bytes, k, BYTE).map(|byte| (byte & 15) << 2),
                    };
                    match loaded {
                        Some(loaded) => x = loaded,
                        None => return Some(0),
                    }
                }
                ST => *memory.get_mut(k as usize)? = a,
                STX => *memory.get_mut(k as usize)? = x,
                ALU => {
                    let by = if code & X == 0 { k } else { x };
                    a = match code & 0xf0 {
                        0x00 => a.wrapping_add(by),
                        0x10 => a.wrapping_sub(by),
                        0x20 => a.wrapping_mul(by),
                        DIV => match a.checked_div(by) {
                            Some(a) => a,
                            None => return Some(0),
                        },
                        0x40 => a | by,
                        0x50 => a & by,
                        LSH => a.checked_shl(by).unwrap_or(0),
                        RSH => a.checked_shr(by).unwrap_or(0),
                        NEG => a.wrapping_neg(),
                        MOD => match a.checked_rem(by) {
                            Some(a) => a,
                            None => return Some(0),
                        },
                        _ => a ^ by,
                    };
                }
                JMP => {
                    let with = if code & X == 0 { k } else { x };
                    let holds = match code & 0xf0 {
                        0x00 => {
                            at += k as usize;
                            continue;
                        }
                        0x10 => a == with,
                        0x20 => a > with,
                        0x30 => a >= with,
                        _ => a & with != 0,
                    };
                    at += usize::from(if holds { jt } else { jf });
                }
                RET => return Some(if code & 0x18 == RET_A { a } else { k }),
                _ if code & 0xf8 == TXA => a = x,
                _ => x = a,
            }
        }
    }
}

/// Loads bytes of a frame, big endian.
fn load(bytes: &[u8], from: u32, code: u16) -> Option<u32> {
    let rest = bytes.get(from as usize..)?;
    Some(match code & 0x18 {
        HALF => u16::from_be_bytes(*rest.first_chunk()?).into(),
        BYTE => (*rest.first()?).into(),
        _ => u32::from_be_bytes(*rest.first_chunk()?),
    })
}

fn check(at: usize, one: &Instruction, count: usize) -> Result<(), BpfError> {
    let &Instruction { code, jt, jf, k } = one;
    let unknown = Err(BpfError::Unknown(at));
    let fits = |number: bool| match number {
        true => Ok(()),
        false => Err(BpfError::Number(at)),
    };
    if code > 0xff {
        return unknown;
    }
    match code & 7 {
        LD => match (code & 0xe0, code & 0x18) {
            (ABS | IND, 0 | HALF | BYTE) | (IMM | LEN, 0) => Ok(()),
            (MEM, 0) => fits((k as usize) < MEMORY),
            _ => unknown,
        },
        LDX => match (code & 0xe0, code & 0x18) {
            (IMM | LEN, 0) | (MSH, BYTE) => Ok(()),
            (MEM, 0) => fits((k as usize) < MEMORY),
            _ => unknown,
        },
        ST | STX if code > 7 => unknown,
        ST | STX => fits((k as usize) < MEMORY),
        ALU => match code & 0xf0 {
            operation if operation > XOR => unknown,
            NEG if code & X != 0 => unknown,
            DIV | MOD if code & X == 0 => fits(k != 0),
            LSH | RSH if code & X == 0 => fits(k < 32),
            _ => Ok(()),
        },
        JMP => {
            let inside = |by: usize| match at.checked_add(1 + by) {
                Some(to) if to < count => Ok(()),
                _ => Err(BpfError::Jump(at)),
            };
            match code & 0xf0 {
                0x00 if code & X == 0 => inside(k as usize),
                0x10 | 0x20 | 0x30 | 0x40 => inside(jt.into()).and(inside(jf.into())),
                _ => unknown,
            }
        }
        RET if matches!(code & 0xf8, 0 | RET_A) => Ok(()),
        MISC if matches!(code & 0xf8, 0 | TXA) => Ok(()),
        _ => unknown,
    }
}
