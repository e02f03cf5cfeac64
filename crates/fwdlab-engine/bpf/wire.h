/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What all programs must agree on with the Rust side: offsets in the frame and the layout of the
 * maps. The Rust twins are the structs of xdp_live/sys.rs and the constants of packet::signature.
 */
#ifndef FWDLAB_WIRE_H
#define FWDLAB_WIRE_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP 17

#define IP_OFFSET 14
#define UDP_OFFSET_V4 34
#define UDP_OFFSET_V6 54
#define SIGNATURE_OFFSET_V4 42
#define SIGNATURE_OFFSET_V6 62
#define SIGNATURE_BYTES 18

/* Headers and signature: the part that is written for every frame. IPv4 60 bytes, IPv6 80 bytes,
 * both a multiple of 4. */
#define HEAD_BYTES_V4 (SIGNATURE_OFFSET_V4 + SIGNATURE_BYTES)
#define HEAD_BYTES_V6 (SIGNATURE_OFFSET_V6 + SIGNATURE_BYTES)

#define MAX_PATHS 16

/* The first two bytes of the signature: this constant XOR the trial's nonce, which increases by one
 * per trial. */
#define MAGIC 0xb39d
#define LATE_TRIALS 255

#endif
