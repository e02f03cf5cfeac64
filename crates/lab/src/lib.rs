//! fwdlab: lab
