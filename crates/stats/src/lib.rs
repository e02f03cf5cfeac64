//! fwdlab: stats
