//! Queries of SNMPv2c and their answers (RFC 1901, RFC 3416): the uptime of an agent, and the
//! counters of a switch's ports.
//!
//! Only what [`crate::run`] queries from a DUT's management, and a test bed from its switch:
//! encodes queries, and parses answers, whatever bytes they contain. No traffic here. Start with
//! [`get_up_time`] and [`parse`], or with [`get`] and [`values`].

pub(crate) mod agent;

/// The encoded object identifier of sysUpTime.0, 1.3.6.1.2.1.1.3.0 (RFC 3418).
const SYS_UP_TIME: [u8; 8] = [0x2b, 6, 1, 2, 1, 1, 3, 0];

/// Tags of BER, SMIv2 and the PDUs (RFC 2578, RFC 3416 §3).
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TIME_TICKS: u8 = 0x43;
const GET_REQUEST: u8 = 0xa0;
const GET_NEXT_REQUEST: u8 = 0xa1;
const RESPONSE: u8 = 0xa2;

/// The version number in messages of SNMPv2c.
const VERSION_2C: i32 = 1;

/// An answer, as far as it can be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The id of the query.
    pub request_id: i32,
    /// The agent's uptime, in hundredths of a second; or why this contains none.
    pub up_time: Result<u32, AnswerError>,
}

/// Why a message is not the expected answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    /// Not a message, or not one of this version and community.
    #[error("it is not an SNMPv2c message: {0}")]
    Malformed(&'static str),
    /// The agent reports an error.
    #[error("its error-status is {0}")]
    Status(i32),
    /// Another object, or more than one.
    #[error("it contains more than sysUpTime.0")]
    OtherObject,
    /// Another type; those from 0x80 are exceptions: noSuchObject, noSuchInstance, endOfMibView.
    #[error("its value is of type {0:#04x}, not TimeTicks (0x43)")]
    OtherType(u8),
}

/// Encodes the query for sysUpTime.0. Communities are shorter than 64 octets.
pub(crate) fn get_up_time(community: &str, request_id: i32) -> Vec<u8> {
    let binding = [field(OBJECT_IDENTIFIER, &SYS_UP_TIME), field(NULL, &[])].concat();
    let pdu = [
        integer(request_id),
        integer(0),
        integer(0),
        field(SEQUENCE, &field(SEQUENCE, &binding)),
    ]
    .concat();
    let message = [
        integer(VERSION_2C),
        field(OCTET_STRING, community.as_bytes()),
        field(GET_REQUEST, &pdu),
    ]
    .concat();
    field(SEQUENCE, &message)
}

/// Encodes the query for some objects, or for the next object after each of them.
pub(crate) fn get(
    community: &str,
    request_id: i32,
    objects: &[Vec<u32>],
    is_next: bool,
) -> Vec<u8> {
    let bindings: Vec<u8> = objects
        .iter()
        .flat_map(|object| {
            let binding = [
                field(OBJECT_IDENTIFIER, &identifier(object)),
                field(NULL, &[]),
            ]
            .concat();
            field(SEQUENCE, &binding)
        })
        .collect();
    let pdu = [
        integer(request_id),
        integer(0),
        integer(0),
        field(SEQUENCE, &bindings),
    ]
    .concat();
    let tag = if is_next {
        GET_NEXT_REQUEST
    } else {
        GET_REQUEST
    };
    let message = [
        integer(VERSION_2C),
        field(OCTET_STRING, community.as_bytes()),
        field(tag, &pdu),
    ]
    .concat();
    field(SEQUENCE, &message)
}

/// Encodes an identifier: the first two numbers in one octet, the others in groups of seven bits.
fn identifier(object: &[u32]) -> Vec<u8> {
    let (first, rest) = object.split_at(2.min(object.len()));
    let first = first.iter().fold(0, |n, part| n * 40 + part);
    let mut bytes = vec![first as u8];
    for part in rest {
        let groups = (32 - part.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let more = if group > 0 { 0x80 } else { 0 };
            bytes.push((part >> (7 * group)) as u8 & 0x7f | more);
        }
    }
    bytes
}

/// A value in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A counter, or any other unsigned number.
    Number(u64),
    /// A text.
    Text(String),
    /// Any other type, including exceptions: noSuchObject, noSuchInstance, endOfMibView.
    Other(u8),
}

/// An object and its value.
pub(crate) type Binding = (Vec<u32>, Value);

/// Returns the objects and values in an answer to the query with this id; `None` if it answers
/// another one.
///
/// # Errors
/// Fails if it is not an answer, or reports that the agent failed.
pub(crate) fn values(
    message: &[u8],
    community: &str,
    request_id: i32,
) -> Result<Option<Vec<Binding>>, AnswerError> {
    let mut pdu = response(message, community)?;
    if take_integer(&mut pdu)? != request_id {
        return Ok(None);
    }
    match (take_integer(&mut pdu)?, take_integer(&mut pdu)?) {
        (0, _) => {}
        (status, _) => return Err(AnswerError::Status(status)),
    }
    let mut bindings = take(&mut pdu, SEQUENCE)?;
    let mut all = Vec::new();
    while !bindings.is_empty() {
        let mut binding = take(&mut bindings, SEQUENCE)?;
        let object = numbers(take(&mut binding, OBJECT_IDENTIFIER)?);
        let value = match take_any(&mut binding)? {
            // Counter32, Gauge32, TimeTicks, Counter64 (RFC 2578)
            (INTEGER | 0x41..=0x43 | 0x46, contents) if contents.len() <= 9 => {
                Value::Number(contents.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
            }
            (OCTET_STRING, contents) => Value::Text(String::from_utf8_lossy(contents).into_owned()),
            (other, _) => Value::Other(other),
        };
        all.push((object, value));
    }
    Ok(Some(all))
}

fn numbers(contents: &[u8]) -> Vec<u32> {
    let Some((first, rest)) = contents.split_first() else {
        return Vec::new();
    };
    let first = u32::from(*first);
    let mut all = vec![(first / 40).min(2), first - 40 * (first / 40).min(2)];
    let mut part: u32 = 0;
    for byte in rest {
        part = part << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            all.push(part);
            part = 0;
        }
    }
    all
}

/// Encodes a field in BER.
fn field(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = match contents.len() {
        short @ 0..=0x7f => vec![short as u8],
        middle @ 0x80..=0xff => vec![0x81, middle as u8],
        // datagrams have less than 64 KiB
        long => vec![0x82, (long >> 8) as u8, long as u8],
    };
    [&[tag], &length[..], contents].concat()
}

/// Encodes the shortest two's complement, as BER requires.
fn integer(value: i32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let spare = |k: &usize| {
        let sign = if value < 0 { 0xff } else { 0 };
        bytes[*k] == sign && (bytes[*k + 1] ^ sign) & 0x80 == 0
    };
    let from = (0..3).take_while(spare).count();
    field(INTEGER, &bytes[from..])
}

/// Parses an answer.
///
/// # Errors
/// Fails without a readable request id: it answers nothing.
pub(crate) fn parse(message: &[u8], community: &str) -> Result<Response, AnswerError> {
    let mut pdu = response(message, community)?;
    Ok(Response {
        request_id: take_integer(&mut pdu)?,
        up_time: up_time(pdu),
    })
}

/// Returns the contents of an answer.
fn response<'a>(message: &'a [u8], community: &str) -> Result<&'a [u8], AnswerError> {
    let mut rest = message;
    let mut message = take(&mut rest, SEQUENCE)?;
    if !rest.is_empty() {
        return Err(AnswerError::Malformed("octets follow after its end"));
    }
    if take_integer(&mut message)? != VERSION_2C {
        return Err(AnswerError::Malformed("another version"));
    }
    if take(&mut message, OCTET_STRING)? != community.as_bytes() {
        return Err(AnswerError::Malformed("another community"));
    }
    take(&mut message, RESPONSE)
}

/// Parses the value after the request id.
fn up_time(mut pdu: &[u8]) -> Result<u32, AnswerError> {
    match (take_integer(&mut pdu)?, take_integer(&mut pdu)?) {
        (0, _) => {}
        (status, _) => return Err(AnswerError::Status(status)),
    }
    let mut bindings = take(&mut pdu, SEQUENCE)?;
    let mut binding = take(&mut bindings, SEQUENCE)?;
    if take(&mut binding, OBJECT_IDENTIFIER)? != SYS_UP_TIME || !bindings.is_empty() {
        return Err(AnswerError::OtherObject);
    }
    match take_any(&mut binding)? {
        (TIME_TICKS, value) => unsigned(value),
        (other, _) => Err(AnswerError::OtherType(other)),
    }
}

/// Takes the next field, which must be of this type. Returns its contents.
fn take<'a>(bytes: &mut &'a [u8], tag: u8) -> Result<&'a [u8], AnswerError> {
    match take_any(bytes)? {
        (found, contents) if found == tag => Ok(contents),
        _ => Err(AnswerError::Malformed("a field of an unexpected type")),
    }
}

/// Takes the next field. Returns its type and contents.
fn take_any<'a>(bytes: &mut &'a [u8]) -> Result<(u8, &'a [u8]), AnswerError> {
    const SHORT: AnswerError = AnswerError::Malformed("it ends too early");
    let (&[tag, first], mut rest) = bytes.split_first_chunk().ok_or(SHORT)?;
    let length = match first {
        0..=0x7f => usize::from(first),
        // the long form: this number of octets contains the length; datagrams have less than 64 KiB
        0x81 | 0x82 => {
            let (octets, after) = rest
                .split_at_checked(usize::from(first & 0x7f))
                .ok_or(SHORT)?;
            rest = after;
            octets.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
        }
        _ => return Err(AnswerError::Malformed("a length that exceeds a datagram")),
    };
    let (contents, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
    *bytes = rest;
    Ok((tag, contents))
}

fn take_integer(bytes: &mut &[u8]) -> Result<i32, AnswerError> {
    let contents = take(bytes, INTEGER)?;
    let mut value = match contents.first() {
        Some(first) if contents.len() <= 4 => i32::from(*first as i8),
        _ => return Err(AnswerError::Malformed("a number that does not fit 32 bits")),
    };
    for byte in &contents[1..] {
        value = value << 8 | i32::from(*byte);
    }
    Ok(value)
}

/// Parses an unsigned number: one zero may precede its 32 bits.
fn unsigned(contents: &[u8]) -> Result<u32, AnswerError> {
    let digits = match contents {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    if digits.is_empty() || digits.len() > 4 {
        return Err(AnswerError::Malformed("a time that does not fit 32 bits"));
    }
    Ok(digits.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the answer of an agent with these values.
    pub(crate) fn answered(
        question: &[u8],
        value: &dyn Fn(&[u32], bool) -> Option<Binding>,
    ) -> Vec<u8> {
        let mut rest = question;
        let mut message = take(&mut rest, SEQUENCE).unwrap();
        take_integer(&mut message).unwrap();
        let community = take(&mut message, OCTET_STRING).unwrap().to_vec();
        let (tag, mut pdu) = take_any(&mut message).unwrap();
        let id = take_integer(&mut pdu).unwrap();
        take_integer(&mut pdu).unwrap();
        take_integer(&mut pdu).unwrap();
        let mut bindings = take(&mut pdu, SEQUENCE).unwrap();
        let mut output = Vec::new();
        while !bindings.is_empty() {
            let mut binding = take(&mut bindings, SEQUENCE).unwrap();
            let object = numbers(take(&mut binding, OBJECT_IDENTIFIER).unwrap());
            let (object, value) = match value(&object, tag == GET_NEXT_REQUEST) {
                Some((object, Value::Number(number))) => {
                    (object, field(0x46, &number.to_be_bytes()))
                }
                Some((object, Value::Text(text))) => (object, field(OCTET_STRING, text.as_bytes())),
                _ => (object, field(0x82, &[])),
            };
            output.extend(field(
                SEQUENCE,
                &[field(OBJECT_IDENTIFIER, &identifier(&object)), value].concat(),
            ));
        }
        let pdu = [
            integer(id),
            integer(0),
            integer(0),
            field(SEQUENCE, &output),
        ]
        .concat();
        let parts = [
            integer(VERSION_2C),
            field(OCTET_STRING, &community),
            field(RESPONSE, &pdu),
        ];
        field(SEQUENCE, &parts.concat())
    }

    #[test]
    fn port_counters_are_queried_and_parsed() {
        let high_in = vec![1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 7, 10101];
        assert_eq!(numbers(&identifier(&high_in)), high_in);
        assert_eq!(
            numbers(&identifier(&[2, 40, 300, u32::MAX])),
            [2, 40, 300, u32::MAX]
        );
        let requested = get("public", 7, &[high_in.clone(), vec![1, 3, 6, 1]], true);
        // an answer is the query with values, and another tag
        let binding = |object: &[u32], value: Vec<u8>| {
            field(
                SEQUENCE,
                &[field(OBJECT_IDENTIFIER, &identifier(object)), value].concat(),
            )
        };
        let answer = |status, bindings: Vec<u8>| {
            let pdu = [
                integer(7),
                integer(status),
                integer(0),
                field(SEQUENCE, &bindings),
            ]
            .concat();
            let parts = [
                integer(VERSION_2C),
                field(OCTET_STRING, b"public"),
                field(RESPONSE, &pdu),
            ];
            field(SEQUENCE, &parts.concat())
        };
        let all = [
            binding(&high_in, field(0x46, &[0, 0xff, 0, 0, 0, 0, 0, 0, 1])),
            binding(
                &[1, 3, 6],
                field(OCTET_STRING, "Gi1/0/1".repeat(40).as_bytes()),
            ),
            binding(&[1, 3, 7], field(0x81, &[])),
        ]
        .concat();
        let output = values(&answer(0, all.clone()), "public", 7)
            .unwrap()
            .unwrap();
        assert_eq!(output[0], (high_in, Value::Number(0xff00_0000_0000_0001)));
        assert_eq!(output[1].1, Value::Text("Gi1/0/1".repeat(40)));
        assert_eq!(output[2].1, Value::Other(0x81));
        assert_eq!(values(&answer(0, all.clone()), "public", 8), Ok(None));
        assert_eq!(
            values(&answer(5, all.clone()), "public", 7),
            Err(AnswerError::Status(5))
        );
        assert!(
            values(&requested, "public", 7).is_err(),
            "a question is no answer"
        );
        assert!(values(&answer(0, all), "other", 7).is_err());
        // no panic, wherever it is truncated
        for end in 0..requested.len() {
            let _ = values(&requested[..end], "public", 7);
        }
    }

    /// The query of Debian's snmpget 5.9.3 and the answer of snmpd 5.9.3, as captured by tshark.
    const QUESTION: &str =
        "302902010104067075626c6963a01c02047bf3e56b020100020100300e300c06082b060102010103000500";
    const ANSWER: &str = "302b02010104067075626c6963a21e02047bf3e56b0201000201003010300e06082b06010201010300430200f6";
    const NO_SUCH_OBJECT: &str =
        "302902010104067075626c6963a21c02041c3b0902020100020100300e300c06082b060102010101008000";
    const VERSION_1: &str =
        "302902010004067075626c6963a21c02042637f26f020102020101300e300c06082b060102010101000500";
    const REQUEST_ID: i32 = 0x7bf3_e56b;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().collect();
        let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
        pairs
            .map(|pair| u8::from_str_radix(&pair, 16).unwrap())
            .collect()
    }

    /// Returns the answer with some of its contents replaced.
    fn changed(from: &str, to: &str) -> Vec<u8> {
        assert_eq!(ANSWER.matches(from).count(), 1, "{from}");
        bytes(&ANSWER.replace(from, to))
    }

    #[test]
    fn the_request_equals_that_of_a_reference_program() {
        assert_eq!(get_up_time("public", REQUEST_ID), bytes(QUESTION));
    }

    #[test]
    fn responses_of_a_reference_program_are_parsed() {
        let of = |hex| parse(&bytes(hex), "public");
        assert_eq!(
            of(ANSWER),
            Ok(Response {
                request_id: REQUEST_ID,
                up_time: Ok(246)
            })
        );
        assert_eq!(
            of(NO_SUCH_OBJECT).unwrap().up_time,
            Err(AnswerError::OtherObject)
        );
        assert_eq!(
            of(VERSION_1),
            Err(AnswerError::Malformed("another version"))
        );
        // a query is not an answer
        assert!(of(QUESTION).is_err());
        assert!(parse(&bytes(ANSWER), "private").is_err());
    }

    #[test]
    fn unexpected_snmp_answers_are_reported() {
        let of = |message: Vec<u8>| parse(&message, "public").unwrap().up_time;
        // RFC 3416 §3: genErr is 5, noSuchInstance is the tag [1]
        assert_eq!(
            of(changed("020100020100", "020105020101")),
            Err(AnswerError::Status(5))
        );
        assert_eq!(
            of(changed("430200f6", "810200f6")),
            Err(AnswerError::OtherType(0x81))
        );
        assert_eq!(
            of(changed("0103004302", "0104004302")),
            Err(AnswerError::OtherObject)
        );
        assert_eq!(of(changed("430200f6", "4302ffff")), Ok(0xffff));
        assert!(parse(&[bytes(ANSWER), vec![0]].concat(), "public").is_err());
    }

    /// RFC 2578 §7.1.8: the largest TimeTicks is 2^32 - 1, which BER writes with a zero before.
    #[test]
    fn the_longest_time() {
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff]), Ok(u32::MAX));
        assert_eq!(unsigned(&[0]), Ok(0));
        assert!(unsigned(&[]).is_err());
        assert!(unsigned(&[1, 0, 0, 0, 0]).is_err());
    }

    /// X.690 §8.3: the shortest two's complement.
    #[test]
    fn numbers_are_as_short_as_ber_wants() {
        for (value, contents) in [
            (0, vec![2, 1, 0]),
            (127, vec![2, 1, 0x7f]),
            (128, vec![2, 2, 0, 0x80]),
            (-128, vec![2, 1, 0x80]),
            (-129, vec![2, 2, 0xff, 0x7f]),
            (256, vec![2, 2, 1, 0]),
        ] {
            assert_eq!(integer(value), contents, "{value}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes, "public").is_err());
        }

        /// One octet of a correct answer is changed: the result is an error, another id, or another
        /// time.
        #[test]
        fn damaged_messages_do_not_panic(at in 0usize..45, to in any::<u8>(), cut in 0usize..46) {
            let mut message = bytes(ANSWER);
            message[at] = to;
            let _ = parse(&message, "public");
            prop_assert!(parse(&message[..cut.min(44)], "public").is_err());
        }

        #[test]
        fn numbers_come_back(value in any::<i32>()) {
            prop_assert_eq!(take_integer(&mut &integer(value)[..]), Ok(value));
        }
    }
}
