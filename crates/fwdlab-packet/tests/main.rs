//! Frames against programs that are not ours: etherparse, tshark, scapy; and the fuzz targets over their corpora.
//!
//! One program for all of them: it is linked once.

mod bounds;
mod bpf;
mod destinations;
mod fuzz;
mod header;
mod modifier;
mod pcap;
mod protocols;
mod stack;
mod template;
mod wire;
