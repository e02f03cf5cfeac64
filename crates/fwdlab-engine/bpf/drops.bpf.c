// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Why the kernel dropped frames: counts skb:kfree_skb by drop reason, for frames with our
 * signature. Listens only; changes nothing.
 */
#include "wire.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define MAX_REASONS 256

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

struct sk_buff {
	unsigned char *head;
	__u16 mac_header;
	__u16 protocol;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_REASONS);
	__type(key, __u32);
	__type(value, __u64);
} reasons SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} nonce SEC(".maps");

SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb, struct sk_buff *skb, void *location, unsigned int reason)
{
	__u32 zero = 0;
	__u32 *expected = bpf_map_lookup_elem(&nonce, &zero);
	__u16 magic = 0;
	int ipv6 = skb->protocol == bpf_htons(ETHERTYPE_IPV6);

	if (!expected)
		return 0;
	/* The position of the MAC header is constant, regardless of what was pulled since. */
	bpf_probe_read_kernel(&magic, sizeof(magic),
			      skb->head + skb->mac_header + (ipv6 ? SIGNATURE_OFFSET_V6 : SIGNATURE_OFFSET_V4));
	if ((bpf_ntohs(magic) ^ MAGIC) != (__u16)*expected)
		return 0;
	/* Modules number their own reasons from 1 << 16 on: all of them count as 0, which is not a
	 * reason to drop. */
	if (reason >= MAX_REASONS)
		reason = 0;

	__u64 *count = bpf_map_lookup_elem(&reasons, &reason);

	if (count)
		(*count)++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
