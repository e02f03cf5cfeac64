/* Replaces VPP in a test: its only thread forwards every frame from eth0 to eth1. It begins to poll
 * after SIGUSR2; after SIGUSR1 every frame takes longer, in the function `planted`. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t polls, does_more;

static void handle(int signal)
{
	if (signal == SIGUSR2)
		polls = 1;
	else
		does_more = 1;
}

__attribute__((noinline)) void planted(void)
{
	for (volatile int i = 0; i < 50; i++)
		;
}

#define FRAME 2048
#define FRAMES 19200

/* A ring of one block, as VPP has. */
static char *ring(int fd)
{
	int version = TPACKET_V2;
	struct tpacket_req size = { FRAME * FRAMES, 1, FRAME, FRAMES };

	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &size, sizeof(size)))
		perror("ring");
	return mmap(NULL, FRAME * FRAMES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_LOCKED, fd, 0);
}

static int port(const char *name)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(name),
	};

	if (bind(fd, (struct sockaddr *)&at, sizeof(at)))
		perror(name);
	return fd;
}

int main(int argc, char **argv)
{
	FILE *pid;

	if (argc < 2 || strcmp(argv[1], "unix"))
		return 1;
	signal(SIGUSR1, handle);
	signal(SIGUSR2, handle);
	int in = port("eth0"), out = port("eth1");
	char *first = ring(in);

	pid = fopen("/run/vpp/pid", "w");
	fprintf(pid, "%d\n", getpid());
	fclose(pid);
	while (!polls)
		pause();
	for (int i = 0;; i = (i + 1) % FRAMES) {
		volatile struct tpacket2_hdr *frame = (void *)(first + i * FRAME);

		while (!(frame->tp_status & TP_STATUS_USER))
			;
		if (does_more)
			planted();
		send(out, (char *)frame + frame->tp_mac, frame->tp_snaplen, 0);
		frame->tp_status = TP_STATUS_KERNEL;
	}
}
