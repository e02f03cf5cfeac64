// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The receiver: counts the frames of one trial at the driver and drops them there. A frame is ours when it carries our
 * signature; of this trial when the nonce agrees, else late. Everything else is foreign and goes on up the stack.
 */
#include "wire.h"

/* Set when a trial begins. */
struct expect {
	__u32 nonce;
	__u32 buffer_bytes;     /* length without FCS; 0 = any */
};

struct counters {
	__u64 received;         /* this trial's frames, whatever their length */
	__u64 wrong_length;     /* of these: not as long as sent */
	__u64 late;             /* ours, of another trial */
	__u64 foreign;          /* not ours */
	__u64 pad[4];           /* one cache line per CPU */
};

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

SEC("xdp")
int count(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);
	const struct expect *e = bpf_map_lookup_elem(&expect, &zero);

	if (!n || !e)
		return XDP_ABORTED;
	if (data + HEAD_BYTES_V4 > end)
		goto foreign;

	__u16 type = bpf_ntohs(*(__u16 *)(data + 12));
	void *signature;

	if (type == ETHERTYPE_IPV4) {
		/* version 4, no options: what we send */
		if (*(__u8 *)(data + 14) != 0x45 || *(__u8 *)(data + 23) != PROTOCOL_UDP)
			goto foreign;
		signature = data + SIGNATURE_OFFSET_V4;
	} else if (type == ETHERTYPE_IPV6) {
		if (data + HEAD_BYTES_V6 > end || *(__u8 *)(data + 20) != PROTOCOL_UDP)
			goto foreign;
		signature = data + SIGNATURE_OFFSET_V6;
	} else {
		goto foreign;
	}

	__u16 nonce = bpf_ntohs(*(__u16 *)signature) ^ MAGIC;

	if (nonce != (__u16)e->nonce) {
		__u16 age = (__u16)e->nonce - nonce;

		if (age > LATE_TRIALS)
			goto foreign;
		n->late++;
		return XDP_DROP;
	}
	n->received++;
	if (e->buffer_bytes && end - data != e->buffer_bytes)
		n->wrong_length++;
	return XDP_DROP;

foreign:
	n->foreign++;
	return XDP_PASS;
}

/* Makes a DUT's NAPI thread take every frame, those of socket senders too (veth hands those past NAPI otherwise). */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
