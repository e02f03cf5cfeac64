//! fwdlab: measure
