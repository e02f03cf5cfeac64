//! The upper bounds of what a program writes, compared with what it writes.

use fwdlab_packet::Signature;
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, Program, Source, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;
use proptest::prelude::*;

const FIELD: std::ops::Range<usize> = 30..34;

fn variable(name: &str, width: Width, source: Source) -> Variable {
    Variable {
        name: name.into(),
        width,
        source,
        split: true,
        next: None,
    }
}

fn write(variable: &str, offset: u16, add: i64, endian: Endian) -> Instruction {
    Instruction::Write {
        variable: variable.into(),
        offset,
        add,
        endian,
    }
}

#[test]
fn a_range_of_addresses_is_known_exactly() {
    let grid = Source::Grid {
        dimensions: vec![Dimension {
            name: "to".into(),
            width: Width::Four,
            values: Values::Range {
                first: 0xc613_0a01,
                step: 1,
                count: 100,
            },
        }],
        visits: Visits::Sequential,
    };
    let program = Program {
        variables: vec![variable("flows", Width::Four, grid)],
        instructions: vec![write("flows.to", 30, 0, Endian::Big)],
        cache: None,
    };
    let (low, high) = program.bounds(&[0; 60], FIELD);
    assert_eq!((low, high), (vec![198, 19, 10, 1], vec![198, 19, 10, 100]));
}

#[test]
fn the_last_octet_alone_stays_in_its_network() {
    let random = Source::Random {
        min: 0,
        max: 255,
        seed: 1,
    };
    let program = Program {
        variables: vec![variable("octet", Width::One, random)],
        instructions: vec![write("octet", 33, 0, Endian::Big)],
        cache: None,
    };
    let mut template = [0; 60];
    template[FIELD].copy_from_slice(&[10, 1, 2, 3]);
    let (low, high) = program.bounds(&template, FIELD);
    assert_eq!((low, high), (vec![10, 1, 2, 0], vec![10, 1, 2, 255]));
}

fn any_width() -> impl Strategy<Value = Width> {
    prop::sample::select(&[Width::One, Width::Two, Width::Four, Width::Eight][..])
}

fn any_endian() -> impl Strategy<Value = Endian> {
    prop::sample::select(&[Endian::Big, Endian::Little][..])
}

/// A variable of any kind with values in any range.
fn any_source(width: Width) -> impl Strategy<Value = Source> {
    (any::<[u64; 3]>(), 0..5_u8, 1..9_u64, any::<bool>()).prop_map(
        move |(values, kind, step, up)| {
            let mut values = values.map(|value| value & width.max());
            values.sort_unstable();
            let [min, initial, max] = values;
            // a range that need not be extended
            let step = match (u128::from(max - min) + 1).is_multiple_of(step.into()) {
                true => step,
                false => 1,
            };
            let direction = if up {
                Direction::Increment
            } else {
                Direction::Decrement
            };
            match kind {
                0 => Source::Counter {
                    direction,
                    initial,
                    min,
                    max,
                    step,
                },
                1 => Source::List {
                    direction,
                    values: values.to_vec(),
                    step,
                },
                2 => Source::Random { min, max, seed: 3 },
                3 => Source::RandomList {
                    values: values.to_vec(),
                    seed: 4,
                },
                _ => Source::Counter {
                    direction,
                    initial,
                    min,
                    max,
                    step: 1,
                },
            }
        },
    )
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    let name = prop::sample::select(&["a", "b"][..]);
    let write_any = (name.clone(), 22..36_u16, any::<i64>(), any_endian())
        .prop_map(|(name, offset, add, endian)| write(name, offset, add % 1000, endian));
    let masked = (
        name,
        26..36_u16,
        any_width(),
        any::<u32>(),
        -31..=31_i8,
        any_endian(),
    )
        .prop_map(
            |(name, offset, width, mask, shift, endian)| Instruction::WriteMask {
                variable: name.into(),
                offset,
                width: match width {
                    Width::Eight => Width::Four,
                    width => width,
                },
                mask,
                shift,
                add: 0,
                endian,
            },
        );
    prop_oneof![2 => write_any, 1 => masked]
}

fn any_program() -> impl Strategy<Value = Program> {
    let named = |name: &'static str| {
        any_width().prop_flat_map(move |width| {
            any_source(width).prop_map(move |source| variable(name, width, source))
        })
    };
    (
        named("a"),
        named("b"),
        proptest::collection::vec(any_instruction(), 1..5),
    )
        .prop_map(|(a, b, instructions)| Program {
            variables: vec![a, b],
            instructions,
            cache: None,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_frame_is_outside(program in any_program(), template in any::<[u8; 32]>()) {
        let template = [template, template].concat();
        let (low, high) = program.bounds(&template, FIELD);
        let mut machine = program.machine(&template).unwrap();
        let mut buffer = template.clone();
        for _ in 0..50 {
            machine.render(&mut buffer, &Signature::default());
            let field = &buffer[FIELD];
            prop_assert!(&low[..] <= field && field <= &high[..], "{low:?} {field:?} {high:?}");
        }
    }
}
