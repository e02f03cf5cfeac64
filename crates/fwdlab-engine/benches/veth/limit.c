// The kernel's limit: the shortest loops that send one constant frame, for the benchmark that compares engines with them.
//
//     limit packet|xdp|live|live-written INTERFACE CPU
//
// `live` sends pages as they are, which cannot be done where a DUT changes them; `live-written` writes every head anew and counts
// frames, and that is all it does.
// Sends until killed. Nothing of fwdlab is in here, so that both can be wrong only independently.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <arpa/inet.h>

enum { LEN = 60, BATCH = 64, SLOTS = 2048, CHUNK = 2048 };

static const uint8_t frame[LEN] = {
	2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1,
	0, 9, 0, 9, 0, 26,
};

static void check(long result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

static void packet(int ifindex)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
	check(fd, "socket");
	check(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)), "PACKET_QDISC_BYPASS");
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = ifindex, .sll_halen = 6 };
	check(bind(fd, (void *)&to, sizeof(to)), "bind");
	struct iovec iov = { (void *)frame, LEN };
	struct mmsghdr messages[BATCH] = { 0 };
	for (int i = 0; i < BATCH; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	for (;;)
		sendmmsg(fd, messages, BATCH, 0);
}

static void *ring(int fd, uint64_t offset, size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
	check(at == MAP_FAILED ? -1 : 0, "mmap");
	return at;
}

static void xdp(int ifindex)
{
	int fd = socket(AF_XDP, SOCK_RAW, 0), slots = SLOTS, fill = 1;
	check(fd, "socket");
	uint8_t *memory = mmap(NULL, SLOTS * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	for (int i = 0; i < SLOTS; i++)
		memcpy(memory + i * CHUNK, frame, LEN);
	struct xdp_umem_reg reg = { .addr = (uintptr_t)memory, .len = SLOTS * CHUNK, .chunk_size = CHUNK };
	check(setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)), "XDP_UMEM_REG");
	check(setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &fill, sizeof(fill)), "XDP_UMEM_FILL_RING");
	check(setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &slots, sizeof(slots)), "XDP_UMEM_COMPLETION_RING");
	check(setsockopt(fd, SOL_XDP, XDP_TX_RING, &slots, sizeof(slots)), "XDP_TX_RING");
	int budget = 256, buffer = 1 << 24; // the budget where the kernel knows it, the buffer so that it never ends
	setsockopt(fd, SOL_XDP, 9 /* XDP_MAX_TX_SKB_BUDGET */, &budget, sizeof(budget));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	struct xdp_mmap_offsets at;
	socklen_t len = sizeof(at);
	check(getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len), "XDP_MMAP_OFFSETS");
	uint8_t *tx = ring(fd, XDP_PGOFF_TX_RING, at.tx.desc + SLOTS * sizeof(struct xdp_desc));
	uint8_t *cr = ring(fd, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr.desc + SLOTS * sizeof(uint64_t));
	struct sockaddr_xdp to = {
		.sxdp_family = AF_XDP, .sxdp_ifindex = ifindex, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP,
	};
	check(bind(fd, (void *)&to, sizeof(to)), "bind");
	uint32_t *tx_to = (void *)(tx + at.tx.producer), *tx_from = (void *)(tx + at.tx.consumer);
	uint32_t *cr_to = (void *)(cr + at.cr.producer), *cr_from = (void *)(cr + at.cr.consumer);
	struct xdp_desc *desc = (void *)(tx + at.tx.desc);
	uint32_t made = 0;
	for (;;) {
		uint32_t done = __atomic_load_n(cr_to, __ATOMIC_ACQUIRE);
		__atomic_store_n(cr_from, done, __ATOMIC_RELEASE);
		// frames complete in order, so there is room for as many as are complete
		uint32_t room = SLOTS - (made - done);
		uint32_t count = room < BATCH ? room : BATCH;
		for (uint32_t i = 0; i < count; i++, made++)
			desc[made % SLOTS] = (struct xdp_desc){ .addr = (uint64_t)(made % SLOTS) * CHUNK, .len = LEN };
		__atomic_store_n(tx_to, made, __ATOMIC_RELEASE);
		while (__atomic_load_n(tx_from, __ATOMIC_ACQUIRE) != made)
			if (sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
				check(-1, "sendto");
	}
}

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

// The shortest program: redirects. Returns how many instructions it has.
static int redirect(struct bpf_insn *to, int ifindex)
{
	struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = ifindex },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	memcpy(to, program, sizeof(program));
	return sizeof(program) / sizeof(program[0]);
}

// Before that: writes the head from constants, 8 bytes at a time, and a count into it and into a map.
static int write_head(struct bpf_insn *to)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1,
	};
	int fd = bpf(BPF_MAP_CREATE, &map), count = 0;
	check(fd, "BPF_MAP_CREATE");
	struct bpf_insn begin[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, data) },
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = offsetof(struct xdp_md, data_end) },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 4, .src_reg = 2 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = LEN },
		{ .code = BPF_JMP | BPF_JLE | BPF_X, .dst_reg = 4, .src_reg = 3, .off = 2 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 }, // XDP_ABORTED
		{ .code = BPF_JMP | BPF_EXIT },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 4, .src_reg = BPF_PSEUDO_MAP_VALUE, .imm = fd },
		{ 0 },
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = 5, .src_reg = 4 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 5, .imm = 1 },
		{ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 4, .src_reg = 5 },
	};
	memcpy(to, begin, sizeof(begin));
	count = sizeof(begin) / sizeof(begin[0]);
	for (int at = 0; at < 48; at += 8) {
		uint32_t halves[2];
		memcpy(halves, frame + at, 8);
		to[count++] = (struct bpf_insn){ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 3, .imm = halves[0] };
		to[count++] = (struct bpf_insn){ .imm = halves[1] };
		to[count++] = (struct bpf_insn){ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 2, .src_reg = 3, .off = at };
	}
	to[count++] = (struct bpf_insn){ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 2, .src_reg = 5, .off = 48 };
	to[count++] = (struct bpf_insn){ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 2, .off = 56 };
	return count;
}

static void live(int ifindex, int written)
{
	struct bpf_insn program[64];
	int count = written ? write_head(program) : 0;
	count += redirect(program + count, ifindex);
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)program,
		.insn_cnt = count,
		.license = (uintptr_t)"GPL",
	};
	int fd = bpf(BPF_PROG_LOAD, &load);
	check(fd, "BPF_PROG_LOAD");
	struct xdp_md context = { .data_end = LEN, .ingress_ifindex = ifindex };
	for (;;) {
		union bpf_attr run = { .test = {
			.prog_fd = fd,
			.repeat = 1 << 30,
			.data_in = (uintptr_t)frame,
			.data_size_in = LEN,
			.ctx_in = (uintptr_t)&context,
			.ctx_size_in = sizeof(context),
			.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
			.batch_size = 256,
		} };
		if (bpf(BPF_PROG_TEST_RUN, &run) < 0 && errno != EINTR)
			check(-1, "BPF_PROG_TEST_RUN");
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int ifindex = if_nametoindex(argv[2]);
	check(ifindex > 0 ? 0 : -1, argv[2]);
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	check(sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
	if (!strcmp(argv[1], "packet"))
		packet(ifindex);
	else if (!strcmp(argv[1], "xdp"))
		xdp(ifindex);
	else if (!strcmp(argv[1], "live"))
		live(ifindex, 0);
	else if (!strcmp(argv[1], "live-written"))
		live(ifindex, 1);
	return 2;
}
