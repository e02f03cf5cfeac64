//! fwdlab: packet
