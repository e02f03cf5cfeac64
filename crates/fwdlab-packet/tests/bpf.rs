//! Classic BPF: any instructions are either refused or terminate. `fwdlab-trex` compares the
//! results of filters with `tcpdump`.

use fwdlab_packet::bpf::{BpfError, Instruction, Program};
use proptest::prelude::*;

fn one(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

const RETURN: Instruction = Instruction {
    code: 6,
    jt: 0,
    jf: 0,
    k: 1,
};
const RETURN_A: Instruction = Instruction {
    code: 0x16,
    jt: 0,
    jf: 0,
    k: 0,
};

#[test]
fn programs_that_cannot_be_run_are_refused() {
    let refused = |all: &[Instruction]| Program::new(all.to_vec()).unwrap_err();
    assert_eq!(refused(&[]), BpfError::Length(0));
    assert_eq!(refused(&[RETURN; 4097]), BpfError::Length(4097));
    assert_eq!(refused(&[RETURN, one(0, 0, 0, 5)]), BpfError::Endless);
    // a jump beyond the end, a jump backwards
    assert_eq!(refused(&[one(0x15, 1, 0, 0), RETURN]), BpfError::Jump(0));
    assert_eq!(refused(&[one(0x05, 0, 0, 1), RETURN]), BpfError::Jump(0));
    assert_eq!(
        refused(&[one(0x05, 0, 0, u32::MAX), RETURN]),
        BpfError::Jump(0)
    );
    // memory index 16, division by zero, a shift by 32
    assert_eq!(refused(&[one(0x02, 0, 0, 16), RETURN]), BpfError::Number(0));
    assert_eq!(refused(&[one(0x34, 0, 0, 0), RETURN]), BpfError::Number(0));
    assert_eq!(refused(&[one(0x94, 0, 0, 0), RETURN]), BpfError::Number(0));
    assert_eq!(refused(&[one(0x64, 0, 0, 32), RETURN]), BpfError::Number(0));
    assert_eq!(refused(&[one(0x18, 0, 0, 0), RETURN]), BpfError::Unknown(0));
    assert_eq!(
        refused(&[one(0x106, 0, 0, 0), RETURN]),
        BpfError::Unknown(0)
    );
    for text in [
        "",
        "x",
        "1\n",
        "1\n6 0 0",
        "1\n6 0 0 1 9",
        "1\n6 0 0 1\n6 0 0 1",
        "1\n6 256 0 1",
        "1\n6 0 0 -1",
    ] {
        assert!(Program::parse(text).is_err(), "{text:?}");
    }
    assert!(Program::parse("1\n6 0 0 1\n").unwrap().accepts(&[], 0));
}

#[test]
fn arithmetic_is_the_kernels() {
    // A, then an operation with a number, then the result
    for (a, code, k, requested) in [
        (7, 0x04, 5, 12),
        (7, 0x14, 9, 0xffff_fffe),
        (1 << 31, 0x24, 2, 0),
        (7, 0x34, 2, 3),
        (7, 0x44, 8, 15),
        (7, 0x54, 5, 5),
        (1, 0x64, 31, 1 << 31),
        (1 << 31, 0x74, 31, 1),
        (7, 0x84, 0, 0xffff_fff9),
        (7, 0x94, 4, 3),
        (7, 0xa4, 5, 2),
    ] {
        let all = vec![one(0x00, 0, 0, a), one(code, 0, 0, k), RETURN_A];
        assert_eq!(
            Program::new(all).unwrap().run(&[], 0),
            Some(requested),
            "{code:#x}"
        );
        // the same with the number in X, loaded from memory
        let all = [
            one(0x01, 0, 0, k),
            one(0x03, 0, 0, 15),
            one(0x01, 0, 0, 0),
            one(0x61, 0, 0, 15),
            one(0x00, 0, 0, a),
            one(code | 8, 0, 0, 0),
            RETURN_A,
        ];
        if code != 0x84 {
            assert_eq!(
                Program::new(all.to_vec()).unwrap().run(&[], 0),
                Some(requested),
                "{code:#x} X"
            );
        }
    }
    let with_x = |x, code| {
        let all = vec![
            one(0x01, 0, 0, x),
            one(0x00, 0, 0, 7),
            one(code, 0, 0, 0),
            one(0x04, 0, 0, 100),
            RETURN_A,
        ];
        Program::new(all).unwrap().run(&[1; 4], 4)
    };
    // division by zero ends the program; bits shifted out are lost
    assert_eq!([with_x(0, 0x3c), with_x(0, 0x9c)], [Some(0); 2]);
    assert_eq!([with_x(32, 0x6c), with_x(40, 0x7c)], [Some(100); 2]);
    // a load at X + k beyond the frame, or beyond the range of numbers
    assert_eq!([with_x(1, 0x40), with_x(u32::MAX, 0x50)], [Some(0); 2]);
    assert_eq!(with_x(3, 0x50), Some(101));
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let k = prop_oneof![0u32..40, any::<u32>()];
    (prop_oneof![0u16..256, any::<u16>()], 0u8..6, 0u8..6, k)
        .prop_map(|(code, jt, jf, k)| one(code, jt, jf, k))
}

proptest! {
    #[test]
    fn accepted_filters_terminate(all in proptest::collection::vec(instruction(), 1..12), frame in proptest::collection::vec(any::<u8>(), 0..80)) {
        let kept: Vec<Instruction> = all.into_iter().chain([RETURN_A]).collect();
        // leave out instructions that are refused on their own, so that enough programs run
        let runs = |i: &Instruction| Program::new([&[*i][..], &[RETURN; 8]].concat()).is_ok();
        let kept: Vec<Instruction> = kept.into_iter().filter(runs).chain([RETURN; 6]).collect();
        if let Ok(program) = Program::new(kept) {
            prop_assert!(program.run(&frame, frame.len()).is_some());
        }
    }

    #[test]
    fn any_text_is_read(text in "[0-9 \n]{0,80}") {
        let _ = Program::parse(&text);
    }
}
