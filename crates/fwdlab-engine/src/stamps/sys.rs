//! System calls for timestamps: socket options, the error queue, driver queries.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::Kind;
use super::card::Setting;
use super::control::{self, Stamp};
use crate::sys::set_option;

/// Stamps wait here until they are read; the kernel drops those that do not fit.
const QUEUE_BYTES: libc::c_int = 8 << 20;

/// Makes the kernel stamp arriving frames while the socket lives; and the card, if requested.
///
/// The kernel starts a moment later, for all frames of the host.
pub(crate) fn stamp_arrivals(socket: &OwnedFd, kind: Kind) -> io::Result<()> {
    let mut flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    if kind == Kind::Hardware {
        flags |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        /// `linux/if_packet.h`
        const PACKET_TIMESTAMP: libc::c_int = 17;
        let raw = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        set_option(socket, libc::SOL_PACKET, PACKET_TIMESTAMP, &raw)?;
    }
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// The error queue of a packet socket, to which the stamps of sent frames return.
pub(super) struct TxStamps {
    socket: OwnedFd,
}

/// Why there is no stamp.
pub(super) enum Failure {
    /// The entry is not a timestamp.
    NotAStamp,
    /// The call failed.
    System(io::Error),
}

impl TxStamps {
    /// Opens the error queue of this socket.
    pub(super) fn new(socket: &OwnedFd) -> io::Result<TxStamps> {
        let socket = socket.try_clone()?;
        // more than rmem_max needs CAP_NET_ADMIN
        set_option(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            &QUEUE_BYTES,
        )
        .or_else(|_| set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE_BYTES))?;
        Ok(TxStamps { socket })
    }

    /// Empties the queue, and numbers frames from 0 again.
    pub(super) fn restart(&mut self, kind: Kind) -> io::Result<()> {
        set_option(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            &0_u32,
        )?;
        while !matches!(self.next(), Ok(None)) {}
        let flags = match kind {
            Kind::Hardware => {
                libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE
            }
            _ => libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
        };
        // numbered, and without a copy of the frame
        let flags = flags | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set_option(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            &flags,
        )
    }

    /// Returns the next stamp; `None` if there is none now.
    pub(super) fn next(&mut self) -> Result<Option<Stamp>, Failure> {
        #[repr(align(8))]
        struct Control([u8; 256]);
        let mut control = Control([0; 256]);
        // SAFETY: an msghdr is integers and pointers, for which zero is a value: no name, no data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: the message leads to the control buffer, which outlives the call and has the
        // length given.
        let received = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut message,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(Failure::System(error)),
            };
        }
        let length = (message.msg_controllen as usize).min(control.0.len());
        control::stamp(&control.0[..length])
            .map(Some)
            .ok_or(Failure::NotAStamp)
    }
}

/// `struct ethtool_ts_info`
#[repr(C)]
#[derive(Default)]
pub(super) struct TsInfo {
    command: u32,
    pub so_timestamping: u32,
    pub phc_index: i32,
    pub tx_types: u32,
    tx_reserved: [u32; 3],
    pub rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// Returns what the driver of an interface of the calling thread's namespace can stamp.
pub(super) fn ts_info(interface: &str) -> io::Result<TsInfo> {
    const ETHTOOL_GET_TS_INFO: u32 = 0x41;
    let mut info = TsInfo {
        command: ETHTOOL_GET_TS_INFO,
        ..TsInfo::default()
    };
    ask(interface, SIOCETHTOOL, &mut info)?;
    Ok(info)
}

/// Returns the name of an interface's driver.
pub(crate) fn driver(interface: &str) -> io::Result<String> {
    /// `struct ethtool_drvinfo`: the command, then names and numbers, 196 bytes in total.
    #[repr(C)]
    struct DriverInfo {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    const ETHTOOL_GDRVINFO: u32 = 0x03;
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    ask(interface, SIOCETHTOOL, &mut info)?;
    let name = info.driver.split(|&byte| byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

/// Reads the setting of the card.
pub(super) fn read_card(interface: &str) -> io::Result<Setting> {
    const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
    let mut config = [0_i32; 3];
    ask(interface, SIOCGHWTSTAMP, &mut config)?;
    Ok(setting(config))
}

/// Changes the setting of the card.
pub(super) fn set_card(interface: &str, to: Setting) -> io::Result<Setting> {
    const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
    let mut config = [to.flags, to.tx_type, to.rx_filter];
    ask(interface, SIOCSHWTSTAMP, &mut config)?;
    Ok(setting(config))
}

fn setting([flags, tx_type, rx_filter]: [i32; 3]) -> Setting {
    Setting {
        flags,
        tx_type,
        rx_filter,
    }
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Makes an ioctl on an interface whose answer goes into `data`, plain old data that matches the
/// request.
fn ask<T>(interface: &str, question: libc::c_ulong, data: &mut T) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an ifreq is integers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(data).cast();
    // SAFETY: the request names the interface and leads to the data; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), question as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
