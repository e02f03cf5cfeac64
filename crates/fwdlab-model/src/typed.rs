//! Deserialization of values that are text in files: any type that can be parsed, with a schema of
//! its form.
//!
//! The meaning of the values is up to their types. Start with [`typed!`] and [`Several`].

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

#[cfg(feature = "schemas")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// Whether a number may replace a text with its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// No: the text has a unit.
    No,
    /// Integers from 0 on.
    Whole,
    Any,
}

struct Typed<T> {
    what: &'static str,
    numbers: Numbers,
    of: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Typed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match self.numbers {
            Numbers::No => Err(E::invalid_type(de::Unexpected::Signed(number), &self)),
            Numbers::Whole if number < 0 => Err(E::custom(format!("{number} is below 0"))),
            Numbers::Whole | Numbers::Any => self.visit_str(&number.to_string()),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        match self.numbers {
            Numbers::Any => self.visit_str(&number.to_string()),
            _ => Err(E::invalid_type(de::Unexpected::Float(number), &self)),
        }
    }
}

/// Deserializes a value that can be parsed; `what` describes it in errors.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
    what: &'static str,
    numbers: Numbers,
) -> Result<T, D::Error> {
    let of = PhantomData;
    deserializer.deserialize_any(Typed { what, numbers, of })
}

/// A type that is read from text, with what it is in an error and its schema.
macro_rules! typed {
    ($type:ty, $numbers:expr, $what:literal, $schema:tt) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::typed::parsed(deserializer, $what, $numbers)
            }
        }

        #[cfg(feature = "schemas")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use typed;

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Several<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                T::deserialize(de::value::StrDeserializer::new(text)).map(|one| vec![one])
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vec<T>, E> {
                T::deserialize(de::value::I64Deserializer::new(number)).map(|one| vec![one])
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Vec<T>, E> {
                T::deserialize(de::value::F64Deserializer::new(number)).map(|one| vec![one])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(all)
            }
        }

        deserializer
            .deserialize_any(OneOrMany(PhantomData))
            .map(Several)
    }
}

#[cfg(feature = "schemas")]
impl<T: JsonSchema> JsonSchema for Several<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Several_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({
            "description": "One, or a list of them",
            "anyOf": [one, { "type": "array", "items": one }]
        })
    }
}

/// As [`Several`], without its name.
pub(crate) fn several<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Several::deserialize(deserializer).map(|several| several.0)
}
