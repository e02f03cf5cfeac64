//! fwdlab: report
