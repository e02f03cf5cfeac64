//! JSON-RPC 2.0 with TRex's codes: requests alone or in a batch, and what is answered. Which method does what is in `methods`.
//!
//! Start with [`answer`]; a method reads its parameters through [`Params`].

use serde_json::{Map, Value, json};

use crate::framing::{self, Wrong};
use crate::limits;
use crate::methods;
use crate::model::Model;

/// Why a call has no result: a code of TRex's, and what a user reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The number.
    pub code: i64,
    /// For people.
    pub text: String,
}

impl Fault {
    /// Bad JSON.
    pub const PARSE: i64 = -32700;
    /// No request.
    pub const REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD: i64 = -32601;
    /// A parameter is missing, of another type or out of range.
    pub const PARAMS: i64 = -32602;
    /// The message is too large, or we failed.
    pub const INTERNAL: i64 = -32603;
    /// It cannot be done now, or not by this client.
    pub const EXECUTE: i64 = -32000;

    /// It cannot be done now, or not by this client.
    pub fn execute(text: impl Into<String>) -> Fault {
        Fault {
            code: Fault::EXECUTE,
            text: text.into(),
        }
    }

    /// A parameter is not what it should be.
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
    /// What was said, unless that is `null`.
    pub fn some(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// What must be said.
    pub fn get(&self, name: &str) -> Result<&'a Value, Fault> {
        self.some(name)
            .ok_or_else(|| Fault::params(format!("field '{name}' is missing")))
    }

    /// A whole number that is not negative.
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

    /// A whole number that fits 32 bits.
    pub fn number32(&self, name: &str) -> Result<u32, Fault> {
        let number = self.number(name)?;
        number
            .try_into()
            .map_err(|_| Fault::params(format!("field '{name}' is {number}, above {}", u32::MAX)))
    }

    /// A text that is no longer than names are.
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

    /// A number that is finite.
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

    /// A time in microseconds: not negative, and not so long that clocks end.
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

    /// Yes or no.
    pub fn truth(&self, name: &str) -> Result<bool, Fault> {
        let value = self.get(name)?;
        let wrong = || {
            Fault::params(format!(
                "field '{name}' must be true or false, not {}",
                shown(value)
            ))
        };
        value.as_bool().ok_or_else(wrong)
    }

    /// Parameters within a parameter.
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

/// Words of a client in an error, not all of them if they are many.
pub fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A value in an error, not all of it if it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The answer to a message, as it is sent.
pub fn answer(model: &mut Model, message: &[u8]) -> Vec<u8> {
    let unwrapped = match framing::unwrap(message) {
        Ok(unwrapped) => unwrapped,
        Err(Wrong::TooLarge) => return too_large(),
        Err(Wrong::Damaged) => {
            let fault = Fault {
                code: Fault::PARSE,
                text: "the message is said to be compressed, and cannot be decompressed".into(),
            };
            return bytes(&failed(&Value::Null, &fault));
        }
    };
    let answer = match serde_json::from_slice(&unwrapped.text) {
        Ok(Value::Array(batch)) if !batch.is_empty() => {
            let mut answers: Vec<Value> = batch.iter().map(|one| call(model, one)).collect();
            // TRex answers a batch of one like a request alone
            match answers.len() {
                1 => answers.remove(0),
                _ => Value::Array(answers),
            }
        }
        Ok(one) => call(model, &one),
        Err(error) => {
            let fault = Fault {
                code: Fault::PARSE,
                text: format!("this is no JSON: {error}"),
            };
            failed(&Value::Null, &fault)
        }
    };
    framing::wrap(bytes(&answer), unwrapped.compressed)
}

/// The answer to a message that is too large to be looked at.
pub fn too_large() -> Vec<u8> {
    let fault = Fault {
        code: Fault::INTERNAL,
        text: format!(
            "the message is larger than {} bytes; send it in smaller chunks",
            limits::MESSAGE
        ),
    };
    bytes(&failed(&Value::Null, &fault))
}

/// The answer to one request.
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
