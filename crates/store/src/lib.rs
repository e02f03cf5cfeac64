//! fwdlab: store
