//! Deserializes a value of a TOML file with serde.
//!
//! The `toml` crate can do that, too. But it also passes positions in the text and dates to serde,
//! each as a special table, so every type is compiled three times. We use neither: with this
//! deserializer every type is compiled once. Start with [`read`].

use std::fmt;
use std::ops::Range;

use serde::de::{self, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor, value};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeValue};

/// Why a value cannot be deserialized, and its position in the text.
#[derive(Debug)]
pub(crate) struct ValueError {
    pub(crate) reason: String,
    pub(crate) span: Option<Range<usize>>,
}

impl ValueError {
    /// Adds the position. Called for the innermost value first, whose position is kept.
    fn at(mut self, span: Range<usize>) -> ValueError {
        self.span.get_or_insert(span);
        self
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ValueError {}

impl de::Error for ValueError {
    fn custom<T: fmt::Display>(cause: T) -> ValueError {
        ValueError {
            reason: cause.to_string(),
            span: None,
        }
    }
}

#[derive(Clone, Copy)]
struct Value<'a, 'de>(&'a Spanned<DeValue<'de>>);

/// Deserializes a value. Errors have a position in the text.
pub(crate) fn read<'de, T: de::DeserializeSeed<'de>>(
    seed: T,
    value: &Spanned<DeValue<'de>>,
) -> Result<T::Value, ValueError> {
    seed.deserialize(Value(value))
        .map_err(|wrong| wrong.at(value.span()))
}

fn integer(number: &DeInteger<'_>) -> Result<i128, ValueError> {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| de::Error::custom("integer number overflowed"))
}

fn unexpected(what: &str, expected: &dyn Expected) -> ValueError {
    de::Error::invalid_type(Unexpected::Other(what), expected)
}

// errors here have no position yet: `read` adds it
impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.0.get_ref() {
            DeValue::String(DeString::Borrowed(text)) => visitor.visit_borrowed_str(text),
            DeValue::String(DeString::Owned(text)) => visitor.visit_str(text),
            DeValue::Integer(number) => {
                let number = integer(number)?;
                match (i64::try_from(number), u64::try_from(number)) {
                    (Ok(number), _) => visitor.visit_i64(number),
                    (_, Ok(number)) => visitor.visit_u64(number),
                    _ => Err(de::Error::custom("integer number overflowed")),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                // `inf` is allowed, but no other number may overflow to infinity
                Ok(value) if !value.is_infinite() || number.as_str().contains("inf") => {
                    visitor.visit_f64(value)
                }
                _ => Err(de::Error::custom("floating-point number overflowed")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(_) => Err(unexpected("a date", &visitor)),
            DeValue::Array(array) => visitor.visit_seq(Items(array.iter())),
            DeValue::Table(table) => visitor.visit_map(Entries {
                left: table.iter(),
                value: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.0.get_ref() {
            DeValue::String(name) => visitor.visit_enum(value::StrDeserializer::new(name)),
            DeValue::Table(table) if table.len() == 1 => {
                visitor.visit_enum(value::MapAccessDeserializer::new(Entries {
                    left: table.iter(),
                    value: None,
                }))
            }
            _ => Err(unexpected(self.0.get_ref().type_str(), &"a name")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

struct Items<'a, 'de>(std::slice::Iter<'a, Spanned<DeValue<'de>>>);

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = ValueError;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        let value = self.0.next();
        value.map(|value| read(seed, value)).transpose()
    }
}

struct Entries<'a, 'de, I> {
    left: I,
    value: Option<&'a Spanned<DeValue<'de>>>,
}

impl<'a, 'de: 'a, I> de::MapAccess<'de> for Entries<'a, 'de, I>
where
    I: Iterator<Item = (&'a Spanned<DeString<'de>>, &'a Spanned<DeValue<'de>>)>,
{
    type Error = ValueError;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        let Some((key, value)) = self.left.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let read = seed.deserialize(key.get_ref().as_ref().into_deserializer());
        read.map(Some)
            .map_err(|wrong: ValueError| wrong.at(key.span()))
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ValueError> {
        let value = self.value.take().expect("a value follows its key");
        read(seed, value)
    }
}
