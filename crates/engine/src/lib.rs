//! fwdlab: engine
