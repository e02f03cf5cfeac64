// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The counting receiver: counts the frames of one trial at the driver and drops them there. A frame
 * is ours if it carries our signature; it belongs to this trial if the nonce matches, otherwise it
 * is late. All other frames are foreign and continue up the stack. There is one program for each
 * place of the signature, so that the usual frame passes no test that it does not need.
 */
#include "find.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct expect);
} expect SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* Notes when the last frame of a burst arrived, and tells a profiler below an emulated machine, which looks for instructions
 * that load this number (plugin/stacks.c of fwdlab-lab). */
static __always_inline void end_burst(struct counters *n)
{
	__u64 mark;

	n->last_ns = bpf_ktime_get_ns();
	asm volatile("%0 = 0x66776c02" : "=r"(mark));
}

/* Counts a frame with this nonce; `bytes` is its length without tags. */
static __always_inline int ours(struct counters *n, const struct expect *e, __u16 nonce, __u64 bytes)
{
	if (nonce != (__u16)e->nonce) {
		if (age(e, nonce) > LATE_TRIALS) {
			n->foreign++;
			return XDP_PASS;
		}
		n->late++;
		return XDP_DROP;
	}
	n->received++;
	if (e->buffer_bytes && bytes != e->buffer_bytes)
		n->wrong_length++;
	if ((__u32)n->received == e->last)
		end_burst(n);
	return XDP_DROP;
}

static __always_inline __u16 nonce_of(void *signature)
{
	return bpf_ntohs(*(__u16 *)signature) ^ MAGIC;
}

SEC("xdp")
int count(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, network;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);
	const struct expect *e = bpf_map_lookup_elem(&expect, &zero);

	if (!n || !e)
		return XDP_ABORTED;
	if (data + HEAD_BYTES_V4 > end)
		goto foreign;

	__u16 type = bpf_ntohs(*(__u16 *)(data + 12));
	void *signature;

	if (type == ETHERTYPE_IPV4) {
		/* version 4, no options: our usual frames */
		if (*(__u8 *)(data + 14) != 0x45)
			goto unusual;
		if (*(__u8 *)(data + 23) != PROTOCOL_UDP)
			goto foreign;
		signature = data + SIGNATURE_OFFSET_V4;
	} else if (type == ETHERTYPE_IPV6) {
		if (data + HEAD_BYTES_V6 > end || *(__u8 *)(data + 20) != PROTOCOL_UDP)
			goto foreign;
		signature = data + SIGNATURE_OFFSET_V6;
	} else {
		goto unusual;
	}
	return ours(n, e, nonce_of(signature), end - data);

unusual:
	network = network_header(data, end, &type);
	if (network) {
		signature = behind_udp(data, end, network, type);
		if (signature)
			return ours(n, e, nonce_of(signature), end - data - (network - ETHERNET_BYTES));
	}
foreign:
	n->foreign++;
	return XDP_PASS;
}

SEC("xdp")
int count_tail(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *signature = at_the_end(data, end);
	__u32 zero = 0, network;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);
	const struct expect *e = bpf_map_lookup_elem(&expect, &zero);
	__u16 type;

	if (!n || !e)
		return XDP_ABORTED;
	network = network_header(data, end, &type);
	if (signature && network)
		return ours(n, e, nonce_of(signature), end - data - (network - ETHERNET_BYTES));
	n->foreign++;
	return XDP_PASS;
}

/* Only the nonce, in the flow label of IPv6. */
SEC("xdp")
int count_label(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, network;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);
	const struct expect *e = bpf_map_lookup_elem(&expect, &zero);
	__u16 type;

	if (!n || !e)
		return XDP_ABORTED;
	network = network_header(data, end, &type);
	if (network && type == ETHERTYPE_IPV6 && data + network + IPV6_BYTES <= end &&
	    (*(__u8 *)(data + network + 1) & 15) == FLOW_LABEL_MAGIC)
		return ours(n, e, bpf_ntohs(*(__u16 *)(data + network + 2)),
			    end - data - (network - ETHERNET_BYTES));
	n->foreign++;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
