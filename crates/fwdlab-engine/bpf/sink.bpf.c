// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The sink: counts and drops every frame of a port. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct counters {
	__u64 frames;
	__u64 bytes;            /* without FCS */
	__u64 pad[6];           /* one cache line per CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

SEC("xdp.frags")
int sink(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);

	if (!n)
		return XDP_ABORTED;
	n->frames++;
	n->bytes += bpf_xdp_get_buff_len(ctx);
	return XDP_DROP;
}

/* For kernels before 5.18: a frame is in one buffer. */
SEC("xdp")
int sink_linear(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct counters *n = bpf_map_lookup_elem(&counters, &zero);

	if (!n)
		return XDP_ABORTED;
	n->frames++;
	n->bytes += ctx->data_end - ctx->data;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
