//! Replaces `schemars` in a build without the feature `schemas` of `fwdlab-model`: `derive(JsonSchema)` generates nothing.
//!
//! The program contains the schemas as text, which `xtask` writes. Without the code that generates them it is 1.1 MB smaller.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Derives nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars, serde))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
