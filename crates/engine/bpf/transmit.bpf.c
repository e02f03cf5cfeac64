// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The live-frames sender of test frames. The kernel runs this program once for every frame of a BPF_PROG_TEST_RUN in live
 * mode; the program writes the whole head of the frame (the page is recycled, and the DUT has changed it), and redirects it
 * to the port of the current path. When is the business of schedule.h.
 */
#include "schedule.h"

/* Constant while a stream is armed. */
struct stream {
	__u8 head[80];          /* template of headers and signature, checksums zero */
	__u32 source_base;      /* low 32 bits of the first source address, host order */
	__u32 source_count;
	__u32 destination_base;
	__u32 destination_count;
	__u16 source_port_base;
	__u16 source_port_count;
	__u16 destination_port_base;
	__u16 destination_port_count;
	__u32 ip_sum;           /* IPv4 header sum without the addresses, folded to 16 bits */
	__u32 udp_sum;          /* UDP sum without addresses, ports and signature, folded to 16 bits */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} stream SEC(".maps");

static __always_inline __u32 words(__u32 value)
{
	return (value >> 16) + (value & 0xffff);
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

struct tuple {
	__u32 source;
	__u32 destination;
	__u16 source_port;
	__u16 destination_port;
};

/* The next flow: a mixed-radix counter as in packet::FlowSet, so that every flow is sent equally often. */
static __always_inline struct tuple next_flow(const struct stream *s, struct progress *p)
{
	struct tuple t = {
		.source = s->source_base + p->source,
		.destination = s->destination_base + p->destination,
		.source_port = s->source_port_base + p->source_port,
		.destination_port = s->destination_port_base + p->destination_port,
	};

	if (++p->destination >= s->destination_count) {
		p->destination = 0;
		if (++p->source >= s->source_count) {
			p->source = 0;
			if (++p->source_port >= s->source_port_count) {
				p->source_port = 0;
				if (++p->destination_port >= s->destination_port_count)
					p->destination_port = 0;
			}
		}
	}
	return t;
}

static __always_inline int transmit(struct xdp_md *ctx, const int head, const int ip4)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	const struct stream *s = bpf_map_lookup_elem(&stream, &zero);
	const volatile struct control *c = bpf_map_lookup_elem(&control, &zero);
	struct progress *p = bpf_map_lookup_elem(&progress, &zero);

	if (!s || !c || !p || data + head > end)
		return XDP_ABORTED;

	__u64 stamp = due(c, p);

	if (!stamp)
		return XDP_DROP;

	__u32 *to = data;
	const __u32 *from = (const void *)s->head;
#pragma clang loop unroll(full)
	for (int i = 0; i < head / 4; i++)
		to[i] = from[i];

	struct tuple t = next_flow(s, p);
	__u64 sequence = p->sequence;
	const int udp = ip4 ? UDP_OFFSET_V4 : UDP_OFFSET_V6;
	const int signature = udp + 8;
	const int source = ip4 ? 26 : 34, destination = ip4 ? 30 : 50;

	/* Alignment: the frame starts at a page boundary plus headroom, so +2 offsets are fine on every CPU that has BPF JIT. */
	*(__u32 *)(data + source) = bpf_htonl(t.source);
	*(__u32 *)(data + destination) = bpf_htonl(t.destination);
	*(__u16 *)(data + udp) = bpf_htons(t.source_port);
	*(__u16 *)(data + udp + 2) = bpf_htons(t.destination_port);
	/* magic 2, stream 2 stay from the template; sequence 6, time 8 */
	*(__u16 *)(data + signature + 4) = bpf_htons((__u16)(sequence >> 32));
	*(__u32 *)(data + signature + 6) = bpf_htonl((__u32)sequence);
	*(__u64 *)(data + signature + 10) = bpf_cpu_to_be64(stamp);

	__u32 addresses = words(t.source) + words(t.destination);

	if (ip4)
		*(__u16 *)(data + 24) = bpf_htons(~fold(s->ip_sum + addresses));

	__u32 sum = s->udp_sum + addresses + t.source_port + t.destination_port +
		    (__u16)(sequence >> 32) + words((__u32)sequence) +
		    words(stamp >> 32) + words((__u32)stamp);
	__u16 check = ~fold(sum);

	*(__u16 *)(data + udp + 6) = check ? bpf_htons(check) : 0xffff;

	return leave(c, p, 0, ONE_GAP);
}

SEC("xdp")
int transmit_v4(struct xdp_md *ctx)
{
	return transmit(ctx, HEAD_BYTES_V4, 1);
}

SEC("xdp")
int transmit_v6(struct xdp_md *ctx)
{
	return transmit(ctx, HEAD_BYTES_V6, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
