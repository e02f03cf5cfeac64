// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The live-frames sender of test frames. The kernel runs this program once for every frame of a
 * BPF_PROG_TEST_RUN in live mode; the program writes the whole head of the frame (the page is
 * recycled, and the DUT has changed it), and redirects it to the port of the current path.
 * schedule.h decides when.
 *
 * The flows of a row differ only in the destination address: the rest of the head and of the sums
 * is kept from frame to frame.
 */
#include "schedule.h"

/* Constant while a stream is armed, except for the row. */
struct stream {
	__u64 head[10];         /* headers and signature of this row, checksums zero */
	__u32 source_base;      /* low 32 bits of the first source address, host order */
	__u32 source_count;
	__u32 destination_base;
	__u32 row;              /* frames in a row, and how far the destination moves after each */
	__u32 destination_step;
	__u16 source_port_base;
	__u16 source_port_count;
	__u16 destination_port_base;
	__u16 destination_port_count;
	__u32 ip_sum;           /* IPv4 header sum without the addresses, folded to 16 bits */
	__u32 udp_sum;          /* UDP sum without addresses, ports, sequence and time, folded to 16 bits */
	__u16 row_ip_sum;       /* the same with the source address of the row */
	__u16 row_udp_sum;      /* and its ports */
	__u64 stream_id;        /* in the upper 16 bits: before the sequence number in signatures */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} stream SEC(".maps");

/*
 * Sums are of numbers in host order, of any width: 2^16 = 1 modulo 0xffff, so the position of a
 * word does not matter (RFC 1071 section 2 (B), (C)).
 */
static __always_inline __u64 fold(__u64 sum)
{
	return (sum >> 16) + (sum & 0xffff);
}

/* Returns the checksum of a sum of at most 2^32 + 2^16 - 2. */
static __always_inline __u16 checksum(__u64 sum)
{
	sum = fold(sum);
	return ~(sum + (sum >> 16));
}

/* Starts the next row: a mixed-radix counter as in packet::FlowSet, so that every flow is sent
 * equally often. */
static __always_inline void begin_row(struct stream *s, struct progress *p, const int source, const int udp)
{
	__u32 from = s->source_base + p->source;
	__u32 ports = (__u32)(s->source_port_base + p->source_port) << 16 |
		      (__u16)(s->destination_port_base + p->destination_port);

	*(__u32 *)((void *)s->head + source) = bpf_htonl(from);
	*(__u32 *)((void *)s->head + udp) = bpf_htonl(ports);
	s->row_ip_sum = fold(fold((__u64)s->ip_sum + from));
	s->row_udp_sum = fold(fold(fold((__u64)s->udp_sum + from + ports)));
	p->left = s->row;
	p->destination = s->destination_base;
	if (++p->source >= s->source_count) {
		p->source = 0;
		if (++p->source_port >= s->source_port_count) {
			p->source_port = 0;
			if (++p->destination_port >= s->destination_port_count)
				p->destination_port = 0;
		}
	}
}

static __always_inline int transmit(struct xdp_md *ctx, const int ip4, const int over_time)
{
	const int udp = ip4 ? UDP_OFFSET_V4 : UDP_OFFSET_V6, signature = udp + 8;
	const int source = ip4 ? 26 : 34, destination = ip4 ? 30 : 50;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct stream *s = bpf_map_lookup_elem(&stream, &zero);
	const volatile struct control *c = bpf_map_lookup_elem(&control, &zero);
	struct progress *p = bpf_map_lookup_elem(&progress, &zero);

	if (!s || !c || !p || data + signature + SIGNATURE_BYTES > end)
		return XDP_ABORTED;

	__u64 stamp = due(c, p, over_time);

	if (!stamp)
		return XDP_DROP;
	if (!p->left)
		begin_row(s, p, source, udp);
	p->left--;

	__u32 to = p->destination;
	__u64 sequence = p->sequence, sum = sequence + stamp + to + s->row_udp_sum;
	__u16 check = checksum(fold((sum >> 32) + (__u32)sum));
	__u64 *words = data;

	p->destination = to + s->destination_step;

	/* Alignment: the frame starts at a page boundary plus headroom, so +2 offsets are fine on every CPU that has BPF JIT. */
#pragma clang loop unroll(full)
	for (int i = 0; i < (signature + 2) / 8; i++)
		words[i] = s->head[i];
	if (ip4) {
		/* the remaining half words: UDP checksum and magic */
		*(__u32 *)(data + 40) = *(__u32 *)((void *)s->head + 40);
		*(__u16 *)(data + 24) = bpf_htons(checksum((__u64)s->row_ip_sum + to));
	}
	*(__u32 *)(data + destination) = bpf_htonl(to);
	*(__u16 *)(data + udp + 6) = check ? bpf_htons(check) : 0xffff;
	/* magic 2 is in the head; stream 2, whose sum is in udp_sum, and sequence 6; time 8 */
	*(__u64 *)(data + signature + 2) = bpf_cpu_to_be64(s->stream_id | sequence);
	*(__u64 *)(data + signature + 10) = bpf_cpu_to_be64(stamp);
	return leave(c, p, 0, ONE_GAP, over_time);
}

SEC("xdp")
int transmit_v4(struct xdp_md *ctx)
{
	return transmit(ctx, 1, 0);
}

SEC("xdp")
int transmit_v6(struct xdp_md *ctx)
{
	return transmit(ctx, 0, 0);
}

SEC("xdp")
int over_time_v4(struct xdp_md *ctx)
{
	return transmit(ctx, 1, 1);
}

SEC("xdp")
int over_time_v6(struct xdp_md *ctx)
{
	return transmit(ctx, 0, 1);
}

char _license[] SEC("license") = "Dual BSD/GPL";
