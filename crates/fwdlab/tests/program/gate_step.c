// A step of forwarding that accepts every frame; with ROUNDS it wastes time first.
#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <net/net_namespace.h>

#ifdef ROUNDS
static noinline void planted_loop(void)
{
	int left = ROUNDS;

	while (left--)
		barrier();
}
#endif

static unsigned int step(void *data, struct sk_buff *frame, const struct nf_hook_state *state)
{
#ifdef ROUNDS
	planted_loop();
#endif
	return NF_ACCEPT;
}

static const struct nf_hook_ops hook = {
	.hook = step, .pf = NFPROTO_IPV4, .hooknum = NF_INET_FORWARD,
};

static int __net_init add(struct net *net)
{
	return nf_register_net_hook(net, &hook);
}

static void __net_exit leave(struct net *net)
{
	nf_unregister_net_hook(net, &hook);
}

static struct pernet_operations everywhere = { .init = add, .exit = leave };

static int __init begin(void)
{
	return register_pernet_subsys(&everywhere);
}

static void __exit end(void)
{
	unregister_pernet_subsys(&everywhere);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
