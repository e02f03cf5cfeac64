// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The live-frames sender of profiles: sends precomputed frames over and over, in their order. Every
 * page begins as the longest of them. This program copies the differing bytes into it, truncates it
 * to the frame's length, and writes sequence, time and checksum. schedule.h decides when.
 *
 * A frame is a slot of one or more lines. Behind the copied bytes, all frames and so all pages are
 * equal.
 */
#include "schedule.h"

#define LINE_BYTES 128

/* Bytes of a frame in the first line of its slot: the headers of nearly all frames. */
#define FIRST_BYTES (LINE_BYTES - 16)

/* 4 KiB of head: the size of a page. */
#define MAX_LINES 32

#define CHECKSUM_SHIFTED 1      /* the signature begins at an odd byte of what the checksum covers */
#define CHECKSUM_NEVER_ZERO 2   /* UDP, where 0 means "no checksum" */
#define PATH_SHIFT 8            /* in the upper bits: the path, counted from the selected one */

/* The first line of a slot. */
struct slot {
	__u16 bytes;            /* length of the frame without FCS */
	__u16 signature;        /* its offset; 0 = the frame has none and is sent unchanged */
	__u16 checksum;         /* offset of the checksum over it; 0 = there is none */
	__u16 sum;              /* sum of what that covers, without itself, sequence and time */
	__u16 flags;
	__u16 stream;           /* index into streams */
	__u32 steps;            /* until the next frame: see schedule.h */
	__u64 head[FIRST_BYTES / 8];
};

struct line {
	__u8 bytes[LINE_BYTES];
};

/* Constant while frames are armed. */
struct cycle {
	__u32 slots;
	__u32 lines;            /* in each slot */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cycle);
} cycle SEC(".maps");

/* The number of entries is set when this is loaded; the same for streams. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

/* Frames sent of each stream, which is the sequence number of its next frame. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} streams SEC(".maps");

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

/* Copies `bytes` bytes into the page, at most `most`. In steps that the compiler does not merge and
 * the verifier can follow. */
static __always_inline void store(struct xdp_md *ctx, __u32 at, void *from, __u64 bytes, const __u32 most)
{
	if (bytes > most)
		bytes = most;
	asm volatile("" : "+r"(bytes));
	if (bytes)
		bpf_xdp_store_bytes(ctx, at, from, bytes);
}

/* Copies the slot over the start of the page. */
static __always_inline void copy(struct xdp_md *ctx, struct slot *slot, __u32 first, __u32 lines_per_slot)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 page = end - data, at = FIRST_BYTES;
	__u64 *to = data;

	if (data + 60 > end) {
		store(ctx, 0, slot->head, page, 60);
		return;
	}
	if (data + FIRST_BYTES > end) {
		/* usually the smallest frame, with nothing behind it */
#pragma clang loop unroll(full)
		for (int i = 0; i < 7; i++)
			to[i] = slot->head[i];
		*(__u32 *)(to + 7) = slot->head[7];
		store(ctx, 60, (void *)slot->head + 60, page - 60, FIRST_BYTES - 60);
		return;
	}
#pragma clang loop unroll(full)
	for (int i = 0; i < FIRST_BYTES / 8; i++)
		to[i] = slot->head[i];
	for (__u32 i = 1; i < MAX_LINES; i++) {
		__u32 key = first + i;
		struct line *line;

		if (i >= lines_per_slot || at >= page)
			return;
		line = bpf_map_lookup_elem(&lines, &key);
		if (!line)
			return;
		store(ctx, at, line->bytes, page - at, LINE_BYTES);
		at += LINE_BYTES;
	}
}

/* Writes sequence, time and checksum. Magic and stream are already there. Returns 0 if the slot is
 * invalid, which user space rules out. */
static __always_inline int sign(struct xdp_md *ctx, const struct slot *slot, __u64 sequence, __u64 stamp)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *signature = data + (slot->signature & 0xfff), *checksum = data + (slot->checksum & 0xfff);
	__u32 sum;
	__u16 check;

	if (signature + SIGNATURE_BYTES > end)
		return 0;
	*(__u16 *)(signature + 4) = bpf_htons((__u16)(sequence >> 32));
	*(__u32 *)(signature + 6) = bpf_htonl((__u32)sequence);
	*(__u64 *)(signature + 10) = bpf_cpu_to_be64(stamp);
	if (!slot->checksum)
		return 1;
	if (checksum + 2 > end)
		return 0;
	sum = fold((__u16)(sequence >> 32) + words((__u32)sequence) + words(stamp >> 32) + words((__u32)stamp));
	/* swapping the bytes of each word swaps the bytes of their sum (RFC 1071) */
	if (slot->flags & CHECKSUM_SHIFTED)
		sum = (sum >> 8) | (sum & 0xff) << 8;
	check = ~fold(slot->sum + sum);
	if (!check && slot->flags & CHECKSUM_NEVER_ZERO)
		check = 0xffff;
	*(__u16 *)checksum = bpf_htons(check);
	return 1;
}

static __always_inline int transmit(struct xdp_md *ctx, const int over_time)
{
	__u32 zero = 0;
	const struct cycle *all = bpf_map_lookup_elem(&cycle, &zero);
	const volatile struct control *c = bpf_map_lookup_elem(&control, &zero);
	struct progress *p = bpf_map_lookup_elem(&progress, &zero);

	if (!all || !c || !p)
		return XDP_ABORTED;

	__u64 stamp = due(c, p, over_time);

	if (!stamp)
		return XDP_DROP;

	__u32 number = p->slot, lines_per_slot = all->lines, first = number * lines_per_slot;
	struct slot *slot = bpf_map_lookup_elem(&lines, &first);

	if (!slot)
		return XDP_ABORTED;
	copy(ctx, slot, first, lines_per_slot);

	int shorter = slot->bytes - (int)(ctx->data_end - ctx->data);

	if (shorter && bpf_xdp_adjust_tail(ctx, shorter))
		return XDP_ABORTED;

	__u32 stream = slot->stream;
	__u64 *sequence = bpf_map_lookup_elem(&streams, &stream);

	if (!sequence || (slot->signature && !sign(ctx, slot, *sequence, stamp)))
		return XDP_ABORTED;
	++*sequence;
	p->slot = number + 1 < all->slots ? number + 1 : 0;
	return leave(c, p, slot->flags >> PATH_SHIFT, slot->steps, over_time);
}

SEC("xdp")
int transmit_cycle(struct xdp_md *ctx)
{
	return transmit(ctx, 0);
}

SEC("xdp")
int over_time_cycle(struct xdp_md *ctx)
{
	return transmit(ctx, 1);
}

char _license[] SEC("license") = "Dual BSD/GPL";
