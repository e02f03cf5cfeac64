/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds the signature in a frame that came out of a DUT: the twin of src/signature.rs. Included by
 * the programs that receive.
 */
#ifndef FWDLAB_FIND_H
#define FWDLAB_FIND_H

#include "wire.h"

#define ETHERNET_BYTES 14
#define VLAN_TAG_BYTES 4
#define UDP_BYTES 8
#define IPV6_BYTES 40
#define FLOW_LABEL_MAGIC 0x9

/* The verifier's limit on offsets of packet pointers. */
#define MAX_FRAME_BYTES 0x3fff

/* Set when a trial begins. */
struct expect {
	__u32 nonce;
	__u32 buffer_bytes;     /* length without FCS and tags; 0 = any */
	__u32 tail;             /* 1: the signature is in the last bytes, 0: behind UDP. Counting programs do not need it. */
	__u32 last;             /* the frame after which the section of a profile ends, counted as `received`; 0 = none */
};

struct counters {
	__u64 received;         /* this trial's frames, whatever their length */
	__u64 wrong_length;     /* of these: other lengths than sent */
	__u64 late;             /* ours, of an earlier trial */
	__u64 foreign;          /* not ours */
	__u64 last_ns;          /* when frame `last` arrived, by the monotonic clock */
	__u64 pad[3];           /* one cache line per CPU */
};

static __always_inline int is_tag(__u16 type)
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

/* Returns the offset of the header behind Ethernet and up to two tags, and its type; 0: the frame
 * ends before. */
static __always_inline __u32 network_header(void *data, void *end, __u16 *type)
{
	if (data + ETHERNET_BYTES > end)
		return 0;
	*type = bpf_ntohs(*(__u16 *)(data + 12));
	if (!is_tag(*type))
		return ETHERNET_BYTES;
	if (data + ETHERNET_BYTES + VLAN_TAG_BYTES > end)
		return 0;
	*type = bpf_ntohs(*(__u16 *)(data + 16));
	if (!is_tag(*type))
		return ETHERNET_BYTES + VLAN_TAG_BYTES;
	if (data + ETHERNET_BYTES + 2 * VLAN_TAG_BYTES > end)
		return 0;
	*type = bpf_ntohs(*(__u16 *)(data + 20));
	return ETHERNET_BYTES + 2 * VLAN_TAG_BYTES;
}

/* Returns the signature at the start of the UDP payload, if the frame is long enough for one. */
static __always_inline void *behind_udp(void *data, void *end, __u32 network, __u16 type)
{
	void *ip = data + network, *signature;

	if (type == ETHERTYPE_IPV4) {
		__u32 header;

		if (ip + 20 > end)
			return 0;
		header = (*(__u8 *)ip & 15) * 4;
		if (*(__u8 *)ip >> 4 != 4 || header < 20 || *(__u8 *)(ip + 9) != PROTOCOL_UDP)
			return 0;
		signature = ip + header + UDP_BYTES;
	} else if (type == ETHERTYPE_IPV6) {
		if (ip + IPV6_BYTES > end || *(__u8 *)(ip + 6) != PROTOCOL_UDP)
			return 0;
		signature = ip + IPV6_BYTES + UDP_BYTES;
	} else {
		return 0;
	}
	return signature + SIGNATURE_BYTES > end ? 0 : signature;
}

/* Returns the signature in the last bytes, if the frame has them behind Ethernet. */
static __always_inline void *at_the_end(void *data, void *end)
{
	__u64 at = end - data - SIGNATURE_BYTES;
	void *signature;

	/* hide from the compiler that the signature ends at the end of the frame: the verifier
	 * needs the check below */
	asm volatile("" : "+r"(at));
	if (at < ETHERNET_BYTES || at > MAX_FRAME_BYTES)
		return 0;
	signature = data + at;
	return signature + SIGNATURE_BYTES > end ? 0 : signature;
}

/* Returns how many trials ago this nonce was used; 0 is the current one, and more than LATE_TRIALS
 * is never. */
static __always_inline __u16 age(const struct expect *e, __u16 nonce)
{
	return (__u16)e->nonce - nonce;
}

#endif
