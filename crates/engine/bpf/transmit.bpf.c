// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The live-frames sender. The kernel runs this program once for every frame of a BPF_PROG_TEST_RUN in live mode; the
 * program writes the whole head of the frame (the page is recycled, and the DUT has changed it), and redirects it to
 * the port of the current path. A frame that is not due yet is dropped back into the page pool: the sender spins.
 */
#include "wire.h"

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
	__u32 timestamps;       /* 1: write the departure time into the signature */
};

/* Changed while traffic flows; every field is read once per frame. */
struct control {
	__u64 start_ns;         /* nothing leaves before; when it changes, the schedule begins anew */
	__u64 end_ns;           /* nothing leaves after: a load is bounded even if user space has died */
	__u64 gap;              /* time between frames in 1/65536 ns; 0 = flat out */
	__u64 frames;           /* send so many and no more; 0 = no limit */
	__u32 path;             /* index into ports */
	__u32 catch_up_us;      /* a sender that was held up longer than this forgives the rest */
};

/* Written by this program alone. */
struct progress {
	__u64 sent[MAX_PATHS];  /* frames handed to the driver of each path's port */
	__u64 not_sent;         /* frames due but forgiven: we were too slow */
	__u64 spins;            /* calls in which no frame was due */
	__u64 next;             /* departure of the next frame, 1/65536 ns after start */
	__u64 now;              /* last reading of the clock, the same unit */
	__u64 sequence;
	__u64 last_ns;          /* when the last clock reading was taken */
	__u64 start_ns;         /* the start that `next` and `now` count from */
	__u32 source;           /* where the flow counter stands */
	__u32 destination;
	__u32 source_port;
	__u32 destination_port;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} stream SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PATHS);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} ports SEC(".maps");

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

/* Is a frame due? Keeps the mean rate exact: the schedule advances by the gap, not by the time of sending. */
static __always_inline int due(const volatile struct control *c, struct progress *p)
{
	__u64 gap = c->gap;
	__u64 start = c->start_ns;      /* once: it may change between two readings */
	__u64 now;

	if (p->start_ns != start) {
		p->start_ns = start;
		p->next = gap;
		p->now = 0;
	}
	if (gap && p->next <= p->now) {
		p->next += gap;
		return 1;
	}
	now = bpf_ktime_get_ns();
	if (now < start || now >= c->end_ns)
		return 0;
	p->last_ns = now;
	if (!gap)
		return 1;
	now = (now - start) << 16;
	p->now = now;
	if (p->next > now)
		return 0;
	__u64 behind = now - p->next;
	if (behind > ((__u64)c->catch_up_us * 1000) << 16) {
		__u64 missed = behind / gap;

		p->not_sent += missed;
		p->next += missed * gap;
	}
	p->next += gap;
	return 1;
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
	if ((c->frames && p->sequence >= c->frames) || !due(c, p)) {
		p->spins++;
		return XDP_DROP;
	}

	__u32 *to = data;
	const __u32 *from = (const void *)s->head;
#pragma clang loop unroll(full)
	for (int i = 0; i < head / 4; i++)
		to[i] = from[i];

	struct tuple t = next_flow(s, p);
	__u64 sequence = p->sequence++;
	__u64 stamp = s->timestamps ? bpf_ktime_get_ns() : 0;
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

	__u32 path = c->path;

	if (path >= MAX_PATHS)
		return XDP_ABORTED;
	p->sent[path]++;
	return bpf_redirect_map(&ports, path, 0);
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
