// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * For tests/histogram.rs: returns the bucket of the value in the first eight bytes of the frame,
 * and counts it.
 */
#include "histogram.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} counted SEC(".maps");

SEC("xdp")
int bucket(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct histogram *histogram = bpf_map_lookup_elem(&counted, &zero);

	if (!histogram || data + 8 > end)
		return HISTOGRAM_BUCKETS;
	histogram_record(histogram, *(__u64 *)data);
	return histogram_index(*(__u64 *)data);
}

char _license[] SEC("license") = "Dual BSD/GPL";
