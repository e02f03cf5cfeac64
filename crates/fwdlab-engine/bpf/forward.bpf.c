// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A router in the driver, for a DUT: sends a packet directly to the next hop's port if the kernel's
 * tables have a route for it. All others continue up the stack: fragments, options, an expiring
 * TTL, unknown neighbours, MPLS routes. `forward` does this; `pass` passes all frames, and shows
 * the cost of an attached program.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FAMILY_IPV4 2
#define FAMILY_IPV6 10
#define FRAGMENT 0x3fff         /* more fragments follow, or this is not the first */
#define FLOW_INFO 0x0fffffff

/* RFC 1624, for a TTL decremented by one. */
static __always_inline void one_hop_less(struct iphdr *ip)
{
	__u32 check = ip->check + bpf_htons(0x0100);

	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

SEC("forward")
int forward_frame(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct ipv6hdr *ip6 = data + sizeof(*eth);
	struct bpf_fib_lookup way = {};

	if (data + sizeof(*eth) > end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->ttl <= 1 || (ip->frag_off & bpf_htons(FRAGMENT)))
			return XDP_PASS;
		way.family = FAMILY_IPV4;
		way.tos = ip->tos;
		way.l4_protocol = ip->protocol;
		way.tot_len = bpf_ntohs(ip->tot_len);
		way.ipv4_src = ip->saddr;
		way.ipv4_dst = ip->daddr;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(ip6 + 1) > end || ip6->hop_limit <= 1)
			return XDP_PASS;
		way.family = FAMILY_IPV6;
		way.flowinfo = *(__be32 *)ip6 & bpf_htonl(FLOW_INFO);
		way.l4_protocol = ip6->nexthdr;
		way.tot_len = bpf_ntohs(ip6->payload_len) + sizeof(*ip6);
		__builtin_memcpy(way.ipv6_src, &ip6->saddr, sizeof(ip6->saddr));
		__builtin_memcpy(way.ipv6_dst, &ip6->daddr, sizeof(ip6->daddr));
	} else {
		return XDP_PASS;
	}
	way.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	if (way.family == FAMILY_IPV4)
		one_hop_less(ip);
	else
		ip6->hop_limit--;
	__builtin_memcpy(eth->h_dest, way.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, way.smac, ETH_ALEN);
	return bpf_redirect(way.ifindex, 0);
}

SEC("pass")
int pass_frame(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
