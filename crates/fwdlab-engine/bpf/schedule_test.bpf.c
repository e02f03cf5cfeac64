// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * For tests/schedule.rs: runs the schedule of the live-frames senders with a clock that the test
 * sets, without frames. The first eight bytes of the frame are the time; if a frame is due, they
 * become its intended departure, and the next eight the time at which it leaves, in 1/65536 ns
 * after the start.
 */
static unsigned long long set_clock;
#define NOW() set_clock

#include "schedule.h"

static __always_inline int look_once(struct xdp_md *ctx, const int over_time)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	const volatile struct control *c = bpf_map_lookup_elem(&control, &zero);
	struct progress *p = bpf_map_lookup_elem(&progress, &zero);
	__u64 departure;

	if (!c || !p || data + 16 > end)
		return XDP_ABORTED;
	set_clock = *(__u64 *)data;
	departure = due(c, p, over_time);
	if (!departure)
		return XDP_DROP;
	*(__u64 *)data = departure;
	*(__u64 *)(data + 8) = p->next + p->lag;
	advance(c, p, ONE_GAP, over_time);
	return XDP_PASS;
}

SEC("xdp")
int tick(struct xdp_md *ctx)
{
	return look_once(ctx, 0);
}

SEC("xdp")
int tick_over_time(struct xdp_md *ctx)
{
	return look_once(ctx, 1);
}

char _license[] SEC("license") = "Dual BSD/GPL";
