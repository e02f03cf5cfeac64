// Two programs that let every frame through; with ROUNDS they waste time first.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#ifdef ROUNDS
#define WASTE(otherwise)                                                       \
	int left = ROUNDS;                                                     \
	for (int n = 0; n < ROUNDS; n++)                                       \
		asm volatile("%0 += -1" : "+r"(left));                         \
	if (left)                                                              \
		return otherwise;
#else
#define WASTE(otherwise)
#endif

__attribute__((section("xdp"), used)) int pass(struct xdp_md *frame)
{
	(void)frame;
	WASTE(XDP_ABORTED)
	return XDP_PASS;
}

__attribute__((section("tc/ingress"), used)) int look(struct __sk_buff *frame)
{
	(void)frame;
	WASTE(TC_ACT_SHOT)
	return TC_ACT_UNSPEC;
}
