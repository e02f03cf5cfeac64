// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Passes every frame: see src/netdev/pass.rs. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
