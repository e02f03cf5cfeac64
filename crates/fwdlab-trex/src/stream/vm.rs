//! The program of a stream: converts TRex's instructions to ours, which are equivalent bit for bit.
//! Start with [`program`].

use fwdlab_packet::modifier::{
    Direction, Endian, Instruction, MIN_TRIM, Program, Source, Transport, Variable, Width,
};
use fwdlab_packet::permutation::mix;
use serde_json::Value;

use crate::limits;
use crate::rpc::{Fault, Params, short};

/// Lengths of frames without FCS.
pub struct Lengths {
    pub mean: f64,
    pub shortest: usize,
}

/// Converts the program of a client.
pub fn program(vm: &Params<'_>, seed: u64) -> Result<Program, Fault> {
    let instructions = vm.get("instructions")?.as_array();
    let instructions =
        instructions.ok_or_else(|| Fault::params("field 'instructions' must be an array"))?;
    if instructions.len() > limits::INSTRUCTIONS {
        return Err(Fault::params(format!(
            "{} instructions; a stream has at most {}",
            instructions.len(),
            limits::INSTRUCTIONS
        )));
    }
    let cache = match vm.some("cache") {
        Some(_) => Some(vm.number32("cache")?).filter(|cache| *cache > 0),
        None => None,
    };
    let mut program = Program {
        cache,
        ..Program::default()
    };
    for (at, instruction) in instructions.iter().enumerate() {
        let wrong = |fault: Fault| Fault {
            text: format!("instruction {at} of the field 'vm': {}", fault.text),
            ..fault
        };
        let object = instruction
            .as_object()
            .ok_or_else(|| wrong(Fault::params("it must be an object")))?;
        // two random variables of a stream must differ
        let seed = mix(seed, at as u64);
        add(&mut program, &Params(object), seed).map_err(wrong)?;
    }
    Ok(program)
}

fn add(program: &mut Program, of: &Params<'_>, seed: u64) -> Result<(), Fault> {
    let offset = |name: &str| -> Result<u16, Fault> {
        let number = of.number(name)?;
        u16::try_from(number)
            .map_err(|_| Fault::params(format!("field '{name}' is {number}, beyond any frame")))
    };
    let split = match of.some("split_to_cores") {
        Some(_) => of.boolean("split_to_cores")?,
        None => true,
    };
    let next = || -> Result<Option<String>, Fault> {
        match of.some("next_var") {
            Some(_) => Ok(Some(of.text("next_var")?.to_owned())),
            None => Ok(None),
        }
    };
    let variable = |width, source, split| -> Result<Variable, Fault> {
        Ok(Variable {
            name: of.text("name")?.to_owned(),
            width,
            source,
            split,
            next: next()?,
        })
    };
    let instruction = match of.text("type")? {
        "flow_var" => {
            let width = width(of, "size")?;
            let source = flow_var(of, seed)?;
            let variable = variable(width, source, split)?;
            program.variables.push(variable);
            return Ok(());
        }
        "flow_var_rand_limit" => {
            let source = Source::RandomLimit {
                min: of.number("min_value")?,
                max: of.number("max_value")?,
                limit: of.number("limit")?,
                seed: of.number("seed")? as u32,
            };
            let variable = variable(width(of, "size")?, source, split)?;
            program.variables.push(variable);
            return Ok(());
        }
        "tuple_flow_var" => {
            let port = |name: &str| offset(name);
            let unlimited = match of.some("flags") {
                Some(_) => of.number("flags")? & 1 != 0,
                None => false,
            };
            let source = Source::Tuple {
                ip_min: of.number32("ip_min")?,
                ip_max: of.number32("ip_max")?,
                port_min: port("port_min")?,
                port_max: port("port_max")?,
                limit: match unlimited {
                    true => 0,
                    false => of.number("limit_flows")?,
                },
            };
            let variable = variable(Width::Four, source, true)?;
            program.variables.push(variable);
            return Ok(());
        }
        "write_flow_var" => Instruction::Write {
            variable: of.text("name")?.to_owned(),
            offset: offset("pkt_offset")?,
            add: added(of)?,
            endian: endian(of)?,
        },
        "write_mask_flow_var" => Instruction::WriteMask {
            variable: of.text("name")?.to_owned(),
            offset: offset("pkt_offset")?,
            width: width(of, "pkt_cast_size")?,
            mask: of.number32("mask")?,
            shift: {
                let shift = of.get("shift")?.as_i64();
                let shift = shift.and_then(|shift| i8::try_from(shift).ok());
                shift.ok_or_else(|| Fault::params("field 'shift' must be from -31 to 31"))?
            },
            add: added(of)?,
            endian: endian(of)?,
        },
        "trim_pkt_size" => Instruction::Trim {
            variable: of.text("name")?.to_owned(),
        },
        "fix_checksum_ipv4" => Instruction::FixIpv4 {
            offset: offset("pkt_offset")?,
        },
        "fix_checksum_hw" => Instruction::FixTransport {
            l2_len: offset("l2_len")?,
            l3_len: offset("l3_len")?,
            transport: match of.number("l4_type")? {
                11 => Transport::Udp,
                13 => Transport::Tcp,
                17 => Transport::IpOnly,
                other => {
                    return Err(Fault::params(format!(
                        "field 'l4_type' is {other}; it is 11 (UDP), 13 (TCP) or 17 (IP alone)"
                    )));
                }
            },
        },
        "fix_checksum_icmpv6" => Instruction::FixIcmpv6 {
            l2_len: offset("l2_len")?,
            l3_len: offset("l3_len")?,
        },
        other => {
            return Err(Fault::params(format!(
                "there is no instruction '{}'",
                short(other)
            )));
        }
    };
    program.instructions.push(instruction);
    Ok(())
}

fn flow_var(of: &Params<'_>, seed: u64) -> Result<Source, Fault> {
    let step = match of.some("step") {
        Some(_) => of.number("step")?,
        None => 1,
    };
    let direction = match of.text("op")? {
        "inc" => Some(Direction::Increment),
        "dec" => Some(Direction::Decrement),
        "random" => None,
        other => {
            return Err(Fault::params(format!(
                "field 'op' is '{}'; it is inc, dec or random",
                short(other)
            )));
        }
    };
    if let Some(list) = of.some("value_list") {
        let wrong = || Fault::params("field 'value_list' must be an array of whole numbers from 0");
        let values = list.as_array().ok_or_else(wrong)?;
        let values: Option<Vec<u64>> = values.iter().map(Value::as_u64).collect();
        let values = values.ok_or_else(wrong)?;
        return Ok(match direction {
            Some(direction) => Source::List {
                direction,
                values,
                step,
            },
            None => Source::RandomList { values, seed },
        });
    }
    let (min, max) = (of.number("min_value")?, of.number("max_value")?);
    let initial = match of.some("init_value") {
        Some(_) => of.number("init_value")?,
        None => min,
    };
    Ok(match direction {
        Some(direction) => Source::Counter {
            direction,
            initial,
            min,
            max,
            step,
        },
        None => Source::Random { min, max, seed },
    })
}

fn width(of: &Params<'_>, name: &str) -> Result<Width, Fault> {
    match of.number(name)? {
        1 => Ok(Width::One),
        2 => Ok(Width::Two),
        4 => Ok(Width::Four),
        8 => Ok(Width::Eight),
        other => Err(Fault::params(format!(
            "field '{name}' is {other}; it is 1, 2, 4 or 8"
        ))),
    }
}

fn added(of: &Params<'_>) -> Result<i64, Fault> {
    match of.some("add_value") {
        None => Ok(0),
        Some(value) => value
            .as_i64()
            .ok_or_else(|| Fault::params("field 'add_value' must be a whole number")),
    }
}

fn endian(of: &Params<'_>) -> Result<Endian, Fault> {
    match of.some("is_big_endian") {
        None => Ok(Endian::Big),
        Some(_) => Ok(match of.boolean("is_big_endian")? {
            true => Endian::Big,
            false => Endian::Little,
        }),
    }
}

/// Returns the lengths of a program's frames: as in TRex, the mean of the variable that trims them
/// is the middle of its range.
pub fn lengths(program: &Program, template: usize) -> Lengths {
    let mut trims = program.instructions.iter().rev().filter_map(|i| match i {
        Instruction::Trim { variable } => Some(variable),
        _ => None,
    });
    let clamp = |value: f64| value.clamp(f64::from(MIN_TRIM).min(template as f64), template as f64);
    let whole = Lengths {
        mean: template as f64,
        shortest: template,
    };
    trims.next().map_or(whole, |name| {
        let variable = program.variables.iter().find(|v| v.name == *name);
        let (mean, least) = match variable.map(|v| &v.source) {
            Some(
                Source::Counter { min, max, .. }
                | Source::Random { min, max, .. }
                | Source::RandomLimit { min, max, .. },
            ) => ((*min as f64 + *max as f64) / 2.0, *min as f64),
            Some(Source::List { values, .. } | Source::RandomList { values, .. })
                if !values.is_empty() =>
            {
                let sum: f64 = values.iter().map(|value| clamp(*value as f64)).sum();
                let least = values.iter().min().copied().unwrap_or_default();
                (sum / values.len() as f64, least as f64)
            }
            _ => (template as f64, template as f64),
        };
        Lengths {
            mean: clamp(mean),
            shortest: clamp(least) as usize,
        }
    })
}
