//! fwdlab: model
