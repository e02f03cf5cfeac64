//! Replaces `schemars` in builds without the feature `schemas` of `fwdlab-model`:
//! `derive(JsonSchema)` generates nothing.
//!
//! The program embeds the schemas as text that `xtask` writes. Without the code that generates them
//! it is 1.1 MB smaller.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Derives nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars, serde))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
