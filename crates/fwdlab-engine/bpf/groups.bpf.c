// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Groups of frames marked by TRex, at the driver of the receiving port: src/groups/ explains the
 * terms.
 *
 * A frame of a group has bit 0 of its traffic class set, and the group's number in the
 * identification of IPv4 or the flow label of IPv6. Frames with a latency header have 16 additional
 * bytes at their end. The state of a latency group changes under its lock, because several CPUs may
 * receive its frames.
 */
#include "find.h"
#include "histogram.h"

#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_SLOW 0x8809
#define ETHERTYPE_LLDP 0x88cc
#define PROTOCOL_ICMP 1
#define PROTOCOL_ICMPV6 58

#define FIRST 0xfc00            /* the first number that is a group */
#define COUNTED 1023            /* groups that are only counted; the next number means: read the trailer */
#define TIMED 128               /* groups with a latency header */
#define TRAILER_BYTES 16
#define TRAILER_MAGIC 0xab
#define FCS_BYTES 4

struct config {
	__u32 pass;             /* 1: pass everything to the system */
	__u32 window;           /* the number of the current window of time */
};

struct count {
	__u64 frames;
	__u64 bytes;            /* with FCS */
};

struct timed {
	struct bpf_spin_lock lock;
	__u32 generation;       /* 0: not in use */
	__u32 expected;         /* the number of the next frame */
	__u32 is_timed;         /* 1: last is valid */
	__u64 frames;
	__u64 bytes;            /* with FCS */
	__u64 dropped;
	__u64 out_of_order;
	__u64 duplicates;
	__u64 too_high;
	__u64 too_low;
	__u64 other_generation;
	__u64 latencies;        /* number of latencies, and in ns: */
	__u64 sum;
	__u64 least;
	__u64 most;
	__u64 last;
	__u64 jitter_16ths;
	__u64 window;           /* the last one with a latency, and the largest in it and in the previous one */
	__u64 window_most;
	__u64 before_most;
};

/* The latency header, little endian. */
struct trailer {
	__u8 magic;
	__u8 generation;
	__u16 group;
	__u32 number;
	__u64 departure;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

/* One for each group, and the last one for all frames. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTED + 1);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMED);
	__type(key, __u32);
	__type(value, struct timed);
} timed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMED);
	__type(key, __u32);
	__type(value, struct histogram);
} times SEC(".maps");

static __always_inline void order(struct timed *t, __u32 number)
{
	__s32 ahead = number - t->expected;

	if (!ahead) {
		t->expected++;
	} else if (ahead > 0) {
		t->dropped += ahead;
		t->too_high++;
		t->expected = number + 1;
	} else {
		t->too_low++;
		if (ahead == -1) {
			t->duplicates++;
		} else {
			t->out_of_order++;
			if (t->dropped)
				t->dropped--;
		}
	}
}

static __always_inline void take_time(struct timed *t, struct histogram *h, __u32 window, __u64 latency)
{
	if (t->window != window) {
		t->before_most = t->window + 1 == window ? t->window_most : 0;
		t->window_most = 0;
		t->window = window;
	}
	if (t->is_timed) {      /* RFC 3550, appendix A.8 */
		__u64 change = latency > t->last ? latency - t->last : t->last - latency;

		t->jitter_16ths += change - ((t->jitter_16ths + 8) >> 4);
	}
	if (!t->latencies || latency < t->least)
		t->least = latency;
	if (latency > t->most)
		t->most = latency;
	if (latency > t->window_most)
		t->window_most = latency;
	t->is_timed = 1;
	t->last = latency;
	t->latencies++;
	t->sum += latency;
	histogram_record(h, latency);
}

/* A frame that ends with a latency header; 0: it has none of ours. */
static __always_inline int receive_timed(void *data, void *end, __u32 window, __u64 now)
{
	__u64 at = end - data - TRAILER_BYTES;
	struct trailer *trailer;
	struct histogram *h;
	struct timed *t;
	__u32 key;

	/* hide from the compiler that it ends at the end of the frame: the verifier needs the check
	 * below */
	asm volatile("" : "+r"(at));
	if (at < ETHERNET_BYTES || at > MAX_FRAME_BYTES)
		return 0;
	trailer = data + at;
	if ((void *)(trailer + 1) > end || trailer->magic != TRAILER_MAGIC)
		return 0;
	key = trailer->group;
	t = bpf_map_lookup_elem(&timed, &key);
	h = bpf_map_lookup_elem(&times, &key);
	if (!t || !h || !t->generation)
		return 0;

	__u32 number = trailer->number, generation = trailer->generation;
	__u64 departure = trailer->departure;

	bpf_spin_lock(&t->lock);
	if (t->generation == generation) {
		t->frames++;
		t->bytes += end - data + FCS_BYTES;
		order(t, number);
		if (departure <= now)
			take_time(t, h, window, now - departure);
	} else {
		t->other_generation++;
	}
	bpf_spin_unlock(&t->lock);
	return 1;
}

static __always_inline int receive(struct xdp_md *ctx, __u64 now)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip;
	__u32 zero = 0, network, mark = 0;
	const struct config *c = bpf_map_lookup_elem(&config, &zero);
	__u16 type = 0;
	int action = XDP_DROP;
	__u32 all = COUNTED;
	struct count *every = bpf_map_lookup_elem(&counts, &all);

	if (!c || !every)
		return XDP_ABORTED;
	every->frames++;
	every->bytes += end - data + FCS_BYTES;
	network = network_header(data, end, &type);
	ip = data + network;
	if (type == ETHERTYPE_IPV4) {
		if (!network || ip + 20 > end)
			return XDP_PASS;
		if (*(__u8 *)(ip + 1) & 1)
			mark = bpf_ntohs(*(__u16 *)(ip + 4));
		if (*(__u8 *)(ip + 9) == PROTOCOL_ICMP)
			action = XDP_PASS;
	} else if (type == ETHERTYPE_IPV6) {
		if (!network || ip + IPV6_BYTES > end)
			return XDP_PASS;
		if (bpf_ntohl(*(__u32 *)ip) >> 20 & 1)
			mark = bpf_ntohl(*(__u32 *)ip) & 0xffff;
		if (*(__u8 *)(ip + 6) == PROTOCOL_ICMPV6)
			action = XDP_PASS;
	} else {
		if (type == ETHERTYPE_ARP || type == ETHERTYPE_SLOW || type == ETHERTYPE_LLDP)
			action = XDP_PASS;
		else
			mark = FIRST + COUNTED;
	}
	if (mark == FIRST + COUNTED) {
		if (receive_timed(data, end, c->window, now))
			action = XDP_DROP;
	} else if (mark >= FIRST) {
		struct count *n;

		mark -= FIRST;
		n = bpf_map_lookup_elem(&counts, &mark);
		if (n) {
			n->frames++;
			n->bytes += end - data + FCS_BYTES;
			action = XDP_DROP;
		}
	}
	return c->pass ? XDP_PASS : action;
}

SEC("xdp")
int groups(struct xdp_md *ctx)
{
	/* read the clock first: the time after this is not the DUT's */
	return receive(ctx, bpf_ktime_get_ns());
}

/* For tests: the eight bytes before the frame contain the time of arrival. */
SEC("xdp")
int groups_at(struct xdp_md *ctx)
{
	void *before = (void *)(long)ctx->data_meta;

	if (before + 8 > (void *)(long)ctx->data)
		return XDP_ABORTED;
	return receive(ctx, *(__u64 *)before);
}

char _license[] SEC("license") = "Dual BSD/GPL";
