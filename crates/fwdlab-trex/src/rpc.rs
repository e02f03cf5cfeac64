//! JSON-RPC 2.0 with TRex's codes: single requests or batches, and their answers. `methods`
//! implements the methods.
//!
//! Start with [`Message::read`] and [`Message::answer`]; a method reads its parameters through
//! [`Params`].

use std::collections::BTreeMap;

use fwdlab_packet::bpf::Program;
use serde_json::{Map, Value, json};

use crate::framing::{self, UnwrapError};
use crate::limits;
use crate::methods;
use crate::model::Model;

/// Why a call has no result: a TRex code, and a message for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The number.
    pub code: i64,
    /// For people.
    pub text: String,
}

impl Fault {
    /// Invalid JSON.
    pub const PARSE: i64 = -32700;
    /// Invalid request.
    pub const REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD: i64 = -32601;
    /// A parameter is missing, of another type or out of range.
    pub const PARAMS: i64 = -32602;
    /// The message is too large, or an internal error.
    pub const INTERNAL: i64 = -32603;
    /// Not possible now, or not for this client.
    pub const EXECUTE: i64 = -32000;

    /// Returns the fault that it is not possible now, or not for this client.
    pub fn execute(text: impl Into<String>) -> Fault {
        Fault {
            code: Fault::EXECUTE,
            text: text.into(),
        }
    }

    /// Returns the fault that a parameter is invalid.
    pub fn params(text: impl Into<String>) -> Fault {
        Fault {
            code: Fault::PARAMS,
            text: text.into(),
        }
    }

    fn name(&self) -> &'static str {
        match self.code {
            Fault::PARSE => "Parse error",
            Fault::REQUEST => "Invalid Request",
            Fault::METHOD => "Method not found",
            Fault::PARAMS => "Invalid params",
            Fault::INTERNAL => "Internal Server Error",
            _ => "Failed To Execute Method",
        }
    }
}

/// The parameters of a call.
pub struct Params<'a>(pub &'a Map<String, Value>);

impl<'a> Params<'a> {
    /// Returns an optional parameter; `null` counts as missing.
    pub fn some(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a required parameter.
    pub fn get(&self, name: &str) -> Result<&'a Value, Fault> {
        self.some(name)
            .ok_or_else(|| Fault::params(format!("field '{name}' is missing")))
    }

    /// Returns a non-negative integer.
    pub fn number(&self, name: &str) -> Result<u64, Fault> {
        let value = self.get(name)?;
        let wrong = || {
            Fault::params(format!(
                "field '{name}' must be a whole number from 0, not {}",
                shown(value)
            ))
        };
        value.as_u64().ok_or_else(wrong)
    }

    /// Returns an integer that fits 32 bits.
    pub fn number32(&self, name: &str) -> Result<u32, Fault> {
        let number = self.number(name)?;
        number
            .try_into()
            .map_err(|_| Fault::params(format!("field '{name}' is {number}, above {}", u32::MAX)))
    }

    /// Returns a text no longer than a name may be.
    pub fn text(&self, name: &str) -> Result<&'a str, Fault> {
        let value = self.get(name)?;
        match value.as_str() {
            Some(text) if text.len() <= limits::NAME => Ok(text),
            Some(_) => Err(Fault::params(format!(
                "field '{name}' is longer than {} bytes",
                limits::NAME
            ))),
            None => Err(Fault::params(format!(
                "field '{name}' must be a string, not {}",
                shown(value)
            ))),
        }
    }

    /// Returns a finite number.
    pub fn real(&self, name: &str) -> Result<f64, Fault> {
        let value = self.get(name)?;
        let wrong = || {
            Fault::params(format!(
                "field '{name}' must be a number, not {}",
                shown(value)
            ))
        };
        value.as_f64().filter(|n| n.is_finite()).ok_or_else(wrong)
    }

    /// Returns a time in microseconds: not negative, and within the range of clocks.
    pub fn time(&self, name: &str) -> Result<f64, Fault> {
        let time = self.real(name)?;
        match (0.0..=limits::LONGEST_US).contains(&time) {
            true => Ok(time),
            false => Err(Fault::params(format!(
                "field '{name}' is {time} us; it must be from 0 to {}",
                limits::LONGEST_US
            ))),
        }
    }

    /// Returns a boolean.
    pub fn boolean(&self, name: &str) -> Result<bool, Fault> {
        let value = self.get(name)?;
        let wrong = || {
            Fault::params(format!(
                "field '{name}' must be true or false, not {}",
                shown(value)
            ))
        };
        value.as_bool().ok_or_else(wrong)
    }

    /// Returns a parameter that is an object.
    pub fn object(&self, name: &str) -> Result<Params<'a>, Fault> {
        let value = self.get(name)?;
        let wrong = || {
            Fault::params(format!(
                "field '{name}' must be an object, not {}",
                shown(value)
            ))
        };
        value.as_object().map(Params).ok_or_else(wrong)
    }
}

/// Shortens a client's text for an error.
pub fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Shortens a value for an error.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A parsed message, before it takes its turn.
pub struct Message {
    said: Result<Value, Fault>,
    compressed: bool,
    filters: BTreeMap<String, Result<Program, Fault>>,
}

impl Message {
    /// Parses a message. Slow work is done here, in parallel with other clients: JSON, and
    /// compiling the filters of captures.
    pub fn read(bytes: &[u8]) -> Message {
        let wrong = |code, text: String| Message {
            said: Err(Fault { code, text }),
            compressed: false,
            filters: BTreeMap::new(),
        };
        let unwrapped = match framing::unwrap(bytes) {
            Ok(unwrapped) => unwrapped,
            Err(UnwrapError::TooLarge) => return wrong(Fault::INTERNAL, too_large_text()),
            Err(UnwrapError::Damaged) => {
                let text = "the message claims to be compressed, but cannot be decompressed";
                return wrong(Fault::PARSE, text.into());
            }
        };
        let output = serde_json::from_slice(&unwrapped.text).map_err(|error| Fault {
            code: Fault::PARSE,
            text: format!("this is not JSON: {error}"),
        });
        let mut filters = BTreeMap::new();
        let requests = match &output {
            Ok(Value::Array(batch)) => &batch[..],
            Ok(one) => std::slice::from_ref(one),
            Err(_) => &[],
        };
        for words in requests.iter().filter_map(methods::filter_of) {
            if filters.len() < limits::FILTERS && !filters.contains_key(words) {
                filters.insert(words.to_owned(), methods::compile(words));
            }
        }
        Message {
            said: output,
            compressed: unwrapped.compressed,
            filters,
        }
    }

    /// Returns the answer, as it is sent.
    pub fn answer(mut self, model: &mut Model) -> Vec<u8> {
        model.filters = std::mem::take(&mut self.filters);
        let answer = match &self.said {
            Ok(Value::Array(batch)) if !batch.is_empty() => batched(model, batch),
            Ok(one) => bytes(&call(model, one)),
            Err(fault) => bytes(&failed(&Value::Null, fault)),
        };
        model.filters.clear();
        framing::wrap(answer, self.compressed)
    }
}

/// Returns the answers to several requests, in order.
fn batched(model: &mut Model, batch: &[Value]) -> Vec<u8> {
    // TRex answers a batch of one like a single request
    if let [one] = batch {
        return bytes(&call(model, one));
    }
    let mut answers = vec![b'['];
    for request in batch {
        if answers.len() > 1 {
            answers.push(b',');
        }
        let answer = match answers.len() < limits::ANSWER {
            true => call(model, request),
            false => {
                let fault = Fault {
                    code: Fault::INTERNAL,
                    text: format!(
                        "the answers of this batch are larger than {} bytes; send a smaller batch",
                        limits::ANSWER
                    ),
                };
                failed(request.get("id").unwrap_or(&Value::Null), &fault)
            }
        };
        answers.extend(bytes(&answer));
    }
    answers.push(b']');
    answers
}

/// Returns the answer to a message that is too large.
pub fn too_large() -> Vec<u8> {
    let fault = Fault {
        code: Fault::INTERNAL,
        text: too_large_text(),
    };
    bytes(&failed(&Value::Null, &fault))
}

fn too_large_text() -> String {
    format!(
        "the message is larger than {} bytes; send it in smaller chunks",
        limits::MESSAGE
    )
}

/// Returns the answer to one request.
fn call(model: &mut Model, request: &Value) -> Value {
    let id = request.get("id").unwrap_or(&Value::Null);
    let invalid = |text: &str| Fault {
        code: Fault::REQUEST,
        text: text.into(),
    };
    let no_params = Map::new();
    let done = (|| {
        let request = request
            .as_object()
            .ok_or_else(|| invalid("a request is an object"))?;
        if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid("field 'jsonrpc' must be \"2.0\""));
        }
        if !request.contains_key("id") {
            return Err(invalid("field 'id' is missing"));
        }
        let Some(method) = request.get("method").and_then(Value::as_str) else {
            return Err(invalid("field 'method' must be a string"));
        };
        let params = match request.get("params") {
            None | Some(Value::Null) => &no_params,
            Some(Value::Object(params)) => params,
            Some(_) => return Err(Fault::params("field 'params' must be an object")),
        };
        methods::call(model, method, &Params(params))
    })();
    match done {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(fault) => failed(id, &fault),
    }
}

fn failed(id: &Value, fault: &Fault) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": fault.code, "message": fault.name(), "specific_err": fault.text},
    })
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
