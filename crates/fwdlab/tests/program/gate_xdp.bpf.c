// Lets every frame through; with ROUNDS it wastes time first.
#include <linux/bpf.h>

__attribute__((section("xdp"), used)) int pass(struct xdp_md *frame)
{
	(void)frame;
#ifdef ROUNDS
	int left = ROUNDS;

	for (int n = 0; n < ROUNDS; n++)
		asm volatile("%0 += -1" : "+r"(left));
	if (left)
		return XDP_ABORTED;
#endif
	return XDP_PASS;
}
