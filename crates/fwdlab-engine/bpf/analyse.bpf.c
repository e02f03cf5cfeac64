// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The analysing receiver: does at the driver, for every frame of a trial, what src/analysis/ does
 * in user space (which explains the terms), and drops the frame. A test compares the two.
 *
 * Several CPUs may receive frames of one stream: the state of a stream changes under its lock, and
 * the order of arrival is the order in which frames take the lock. Their times are read before, so
 * two CPUs may differ by the wait for it. Flows are counted atomically; each CPU has its own
 * counters of the port. The maps are as large as the plan of the trial.
 */
#include "find.h"
#include "histogram.h"

#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_ICMPV6 58

#define WINDOW 65536            /* frames that are remembered individually */
#define WORD_BITS 64
#define WORDS (2 * WINDOW / WORD_BITS)  /* twice the window, so that nothing in the window is overwritten */
#define PAIRS 256               /* latencies that are remembered */
#define FLOWS_PER_ENTRY 1024

/* One entry for each stream id up to the highest of the plan. */
struct plan {
	__u32 stream;           /* its index in the other maps plus one; 0: not in the plan */
	__u32 flows;            /* 0: not counted */
	__u32 flow_entry;       /* index of its first flow */
	__u16 shortest;         /* lengths without FCS and tags; */
	__u16 longest;          /* 0: any length is valid */
};

struct stream {
	struct bpf_spin_lock lock;
	__u32 timed;            /* 1: last_latency is valid */
	__u64 received;
	__u64 bytes;
	__u64 duplicates;
	__u64 reordered;
	__u64 extent;
	__u64 older;
	__u64 corrupt;
	__u64 wrong_length;
	__u64 early;
	__u64 next;             /* one more than the highest number */
	__u64 arrived;          /* without duplicates, older and corrupt ones */
	__u64 first_ns;
	__u64 last_ns;
	__u64 latency_min;
	__u64 latency_max;
	__u64 latency_sum;
	__u64 last_latency;
	__u64 jitter_16ths;
};

/* The numbers from 64 times `number` on. */
struct word {
	__u64 number;
	__u64 seen;
	__u64 gap_ends;
};

struct pair {
	__u64 number_plus_1;
	__u64 latency;
};

/* The state of individual frames; all zero when a trial begins. */
struct window {
	struct word words[WORDS];
	struct pair pairs[PAIRS];
};

/* For a number that ended a gap, its position in the order of arrival. Valid only if its bit is
 * set. */
struct places {
	__u32 places[WINDOW];
};

struct times {
	struct histogram latency;
	struct histogram variation;
};

struct flows {
	__u32 arrived[FLOWS_PER_ENTRY];
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct plan);
} plan SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct places);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct times);
} times SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flows);
} flows SEC(".maps");

static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

/* The Internet sum of some bytes of the frame, in this machine's byte order; -1: the frame is too
 * short. */
__noinline int sum(struct xdp_md *ctx, __u32 at, __u32 bytes)
{
	void *end = (void *)(long)ctx->data_end, *p = (void *)(long)ctx->data;
	__u64 sum = 0;

	if (at > 0xff || bytes > MAX_FRAME_BYTES)
		return -1;
	p += at;
	for (int i = 0; i < (MAX_FRAME_BYTES + 1) / 512 && bytes >= 512; i++) {
		if (p + 512 > end)
			return -1;
		sum += (__u32)bpf_csum_diff(0, 0, p, 512, 0);
		p += 512;
		bytes -= 512;
	}
#define PIECE(n)							\
	if (bytes & n) {						\
		if (p + n > end)					\
			return -1;					\
		sum += (__u32)bpf_csum_diff(0, 0, p, n, 0);		\
		p += n;							\
	}
	PIECE(256)
	PIECE(128)
	PIECE(64)
	PIECE(32)
	PIECE(16)
	PIECE(8)
	PIECE(4)
	if (bytes & 2) {
		if (p + 2 > end)
			return -1;
		sum += *(__u16 *)p;
		p += 2;
	}
	if (bytes & 1) {
		if (p + 1 > end)
			return -1;
		sum += bpf_htons(*(__u8 *)p << 8);
	}
	return fold(sum);
}

/* Returns 1 if a check of the packet that begins here fails. The twin of src/analysis/integrity.rs.
 * Returns 1 if a check of the packet that begins here fails. The twin of src/analysis/integrity.rs. */
__noinline int is_damaged(struct xdp_md *ctx, __u32 at, __u32 type)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *segment;
	__u32 header, bytes, fragment = 0, protocol, icmp;
	__u64 frame_bytes = end - data, whole;

	if (at > 64)
		return 1;
	ip = data + at;
	if (type == ETHERTYPE_IPV4) {
		if (ip + 20 > end)
			return 1;
		header = (*(__u8 *)ip & 15) * 4;
		bytes = bpf_ntohs(*(__u16 *)(ip + 2));
		if (*(__u8 *)ip >> 4 != 4 || header < 20 || bytes < header || at + bytes > frame_bytes)
			return 1;
		bytes -= header;
		fragment = bpf_ntohs(*(__u16 *)(ip + 6)) & 0x3fff;
		protocol = *(__u8 *)(ip + 9);
		icmp = PROTOCOL_ICMP;
		whole = (__u32)bpf_csum_diff(0, 0, ip + 12, 8, 0);
		if (sum(ctx, at, header) != 0xffff)
			return 1;
	} else if (type == ETHERTYPE_IPV6) {
		if (ip + IPV6_BYTES > end)
			return 1;
		header = IPV6_BYTES;
		bytes = bpf_ntohs(*(__u16 *)(ip + 4));
		if (*(__u8 *)ip >> 4 != 6 || at + header + bytes > frame_bytes)
			return 1;
		protocol = *(__u8 *)(ip + 6);
		icmp = PROTOCOL_ICMPV6;
		whole = (__u32)bpf_csum_diff(0, 0, ip + 8, 32, 0);
	} else {
		return 0;
	}
	if (fragment)
		return 0;
	at += header;
	if (protocol == PROTOCOL_UDP) {
		__u32 length;

		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		if (at > 0xff)
			return 1;
		segment = data + at;
		if (bytes < 8 || segment + 8 > end)
			return 1;
		length = bpf_ntohs(*(__u16 *)(segment + 4));
		if (length < 8 || length > bytes)
			return 1;
		if (!*(__u16 *)(segment + 6))
			return 0;
		bytes = length;
	} else if (protocol == PROTOCOL_TCP) {
		if (bytes < 20)
			return 1;
	} else if (protocol == icmp) {
		if (bytes < 8)
			return 1;
	} else {
		return 0;
	}
	if (protocol == PROTOCOL_ICMP && icmp == PROTOCOL_ICMP)
		whole = 0;      /* no pseudo header */
	else
		whole += bpf_htons(protocol) + bpf_htons(bytes);
	return fold(whole + (__u32)sum(ctx, at, bytes)) != 0xffff;
}

static __always_inline struct word *word_of(struct window *w, __u64 number)
{
	struct word *word = &w->words[number / WORD_BITS % WORDS];

	if (word->number != number / WORD_BITS) {
		word->number = number / WORD_BITS;
		word->seen = 0;
		word->gap_ends = 0;
	}
	return word;
}

static __always_inline __u32 trailing_zeros(__u64 value)
{
	__u32 zeros = 0;

	if (!(value & 0xffffffff)) {
		value >>= 32;
		zeros += 32;
	}
	if (!(value & 0xffff)) {
		value >>= 16;
		zeros += 16;
	}
	if (!(value & 0xff)) {
		value >>= 8;
		zeros += 8;
	}
	if (!(value & 0xf)) {
		value >>= 4;
		zeros += 4;
	}
	if (!(value & 0x3)) {
		value >>= 2;
		zeros += 2;
	}
	return zeros + !(value & 1);
}

/* Returns how many frames arrived since the first one with a higher number: the one that ended the
 * gap of `number`. */
static __always_inline __u32 extent(const struct window *w, const struct places *p, __u32 arrived, __u64 number)
{
	__u64 n = number / WORD_BITS, ends = 0;
	__u64 mask = ~1ull << number % WORD_BITS;
	const struct word *word = &w->words[0];

	for (int i = 0; i <= WINDOW / WORD_BITS; i++) {
		word = &w->words[n % WORDS];
		if (word->number == n) {
			ends = word->gap_ends & mask;
			if (ends)
				break;
		}
		mask = ~0ull;
		n++;
	}
	if (!ends)
		return 0;
	/* reload n: the verifier's knowledge of n differs after each round, and it would explore
	 * every case */
	n = *(const volatile __u64 *)&word->number;
	return arrived - p->places[(n * WORD_BITS + trailing_zeros(ends)) % WINDOW];
}

static __always_inline __u64 difference(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

static __always_inline void compare(struct window *w, struct times *t, __u64 neighbour, __u64 latency)
{
	const struct pair *pair = &w->pairs[neighbour % PAIRS];

	if (pair->number_plus_1 == neighbour + 1)
		histogram_record(&t->variation, difference(latency, pair->latency));
}

static __always_inline void take_time(struct stream *s, struct window *w, struct times *t, __u64 number, __u64 latency)
{
	struct pair *pair = &w->pairs[number % PAIRS];

	if (latency > s->latency_max)
		s->latency_max = latency;
	if (!s->timed || latency < s->latency_min)
		s->latency_min = latency;
	s->latency_sum += latency;
	histogram_record(&t->latency, latency);
	if (s->timed)           /* RFC 3550, appendix A.8 */
		s->jitter_16ths += difference(latency, s->last_latency) - ((s->jitter_16ths + 8) >> 4);
	s->timed = 1;
	s->last_latency = latency;
	/* frame 0 has no predecessor; numbers are stored plus one, and all are below 2^48, so 0
	 * matches none */
	if (number)
		compare(w, t, number - 1, latency);
	compare(w, t, number + 1, latency);
	if (pair->number_plus_1 < number + 1) {
		pair->number_plus_1 = number + 1;
		pair->latency = latency;
	}
}

/* An intact frame, under the stream's lock. Returns whether its flow has one more. */
static __always_inline int arrive(struct stream *s, struct window *w, struct places *p, struct times *t, __u64 number,
				  __u64 departure, __u64 now)
{
	__u64 bit = 1ull << number % WORD_BITS;
	struct word *word;

	if (number < s->next) {
		__u32 late;

		if (s->next - number > WINDOW) {
			s->older++;
			return 1;
		}
		word = word_of(w, number);
		if (word->seen & bit) {
			s->duplicates++;
			return 0;
		}
		word->seen |= bit;
		late = extent(w, p, s->arrived, number);
		s->reordered++;
		if (late > s->extent)
			s->extent = late;
	} else {
		word = word_of(w, number);
		word->seen |= bit;
		if (number > s->next) {
			word->gap_ends |= bit;
			p->places[number % WINDOW] = s->arrived;
		}
		s->next = number + 1;
	}
	s->arrived++;
	if (departure) {
		if (departure > now)
			s->early++;
		else
			take_time(s, w, t, number, now - departure);
	}
	return 1;
}

static __always_inline int receive(struct xdp_md *ctx, __u64 now)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *signature;
	__u32 zero = 0, network, key, frame_bytes = end - data, bytes, corrupt, wrong_length, counted = 0;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);
	const struct expect *e = bpf_map_lookup_elem(&expect, &zero);
	const struct plan *plan_of;
	__u64 number, departure;
	__u16 type = 0, nonce;

	if (!n || !e)
		return XDP_ABORTED;
	network = network_header(data, end, &type);
	if (!network)
		goto foreign;
	signature = e->tail ? at_the_end(data, end) : behind_udp(data, end, network, type);
	if (!signature)
		goto foreign;
	nonce = bpf_ntohs(*(__u16 *)signature) ^ MAGIC;
	if (nonce != (__u16)e->nonce) {
		if (age(e, nonce) > LATE_TRIALS)
			goto foreign;
		n->late++;
		return XDP_DROP;
	}
	key = bpf_ntohs(*(__u16 *)(signature + 2));
	plan_of = bpf_map_lookup_elem(&plan, &key);
	if (!plan_of || !plan_of->stream)
		goto foreign;
	number = (__u64)bpf_ntohs(*(__u16 *)(signature + 4)) << 32 | bpf_ntohl(*(__u32 *)(signature + 6));
	departure = bpf_be64_to_cpu(*(__u64 *)(signature + 10));
	bytes = frame_bytes - (network - ETHERNET_BYTES);
	n->received++;
	wrong_length = plan_of->longest && (bytes < plan_of->shortest || bytes > plan_of->longest);
	if (wrong_length)
		n->wrong_length++;

	key = plan_of->stream - 1;
	struct stream *s = bpf_map_lookup_elem(&streams, &key);
	struct window *w = bpf_map_lookup_elem(&windows, &key);
	struct places *p = bpf_map_lookup_elem(&places, &key);
	struct times *t = bpf_map_lookup_elem(&times, &key);

	if (!s || !w || !p || !t)
		return XDP_ABORTED;
	corrupt = wrong_length || is_damaged(ctx, network, type);

	bpf_spin_lock(&s->lock);
	s->received++;
	s->bytes += frame_bytes;
	if (!s->first_ns)
		s->first_ns = now;
	s->last_ns = now;
	if (corrupt) {
		s->corrupt++;
		s->wrong_length += wrong_length;
	} else {
		counted = arrive(s, w, p, t, number, departure, now);
	}
	bpf_spin_unlock(&s->lock);

	if (counted && plan_of->flows) {
		__u32 flow = number % plan_of->flows;
		struct flows *f;

		key = plan_of->flow_entry + flow / FLOWS_PER_ENTRY;
		f = bpf_map_lookup_elem(&flows, &key);
		if (f)
			__sync_fetch_and_add(&f->arrived[flow % FLOWS_PER_ENTRY], 1);
	}
	return XDP_DROP;

foreign:
	n->foreign++;
	return XDP_PASS;
}

SEC("xdp")
int analyse(struct xdp_md *ctx)
{
	/* read the clock first: the time after this is not the DUT's */
	return receive(ctx, bpf_ktime_get_ns());
}

/* For tests: the eight bytes before the frame contain the time of arrival. */
SEC("xdp")
int analyse_at(struct xdp_md *ctx)
{
	void *before = (void *)(long)ctx->data_meta;

	if (before + 8 > (void *)(long)ctx->data)
		return XDP_ABORTED;
	return receive(ctx, *(__u64 *)before);
}

char _license[] SEC("license") = "Dual BSD/GPL";
