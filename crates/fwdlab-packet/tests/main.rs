//! Frames compared with independent programs: etherparse, tshark, scapy; and the fuzz targets on
//! their corpora.
//!
//! They are one program, so that it is linked only once.

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
