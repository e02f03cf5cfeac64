/* DPDK for Rust: its functions are static inline, and its structures differ from release to
 * release, so Rust sees only this file, with opaque pointers and calls for whole bursts.
 *
 * Knows ports, queues, pools and buffers, and nothing of frames. Functions that can fail return a
 * negative error number. Start with fwd_start, then fwd_probe and fwd_configure; the frame path is
 * fwd_take, fwd_send, fwd_receive and fwd_release. `sys.rs` has the declarations. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Buffers that a thread keeps to itself, and the most that a thread may then hold. */
#define CACHE 256
/* The longest frame that fits a buffer. */
#define ROOM RTE_MBUF_DEFAULT_DATAROOM
/* What tells an index that we wrote from one that a driver has overwritten. */
#define MARK 0x5ad70000u
#define INDEX_MASK 0xffffu

struct fwd_info {
	char driver[64];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	int32_t numa_node;
};

struct fwd_stats {
	uint64_t ipackets, opackets, missed;
};

struct fwd_counter {
	char name[RTE_ETH_XSTATS_NAME_SIZE];
	uint64_t value;
};

/* The newest lines that DPDK has logged: the reason of a failure is often only there. */
static struct {
	pthread_mutex_t guard;
	size_t bytes;
	char text[2048];
} logged = {.guard = PTHREAD_MUTEX_INITIALIZER};

static ssize_t keep(void *cookie, const char *text, size_t bytes)
{
	size_t most = sizeof(logged.text) - 1, take = RTE_MIN(bytes, most);

	(void)cookie;
	/* the words of a panic would be lost with the process */
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT)
		fwrite(text, 1, bytes, stderr);
	pthread_mutex_lock(&logged.guard);
	if (logged.bytes + take > most) {
		size_t drop = logged.bytes + take - most;

		memmove(logged.text, logged.text + drop, logged.bytes - drop);
		logged.bytes -= drop;
	}
	memcpy(logged.text + logged.bytes, text + bytes - take, take);
	logged.bytes += take;
	pthread_mutex_unlock(&logged.guard);
	return (ssize_t)bytes;
}

/* Moves what was logged since the last call to `to`, which has room for `room` bytes with the 0. */
void fwd_logged(char *to, size_t room)
{
	pthread_mutex_lock(&logged.guard);
	size_t bytes = RTE_MIN(logged.bytes, room - 1);

	memcpy(to, logged.text + logged.bytes - bytes, bytes);
	to[bytes] = 0;
	logged.bytes = 0;
	pthread_mutex_unlock(&logged.guard);
}

const char *fwd_version(void)
{
	return rte_version();
}

/* Starts the environment of this process, once. */
int fwd_start(int count, char **arguments)
{
	cookie_io_functions_t functions = {.write = keep};
	FILE *stream = fopencookie(NULL, "w", functions);

	if (stream != NULL)
		rte_openlog_stream(stream);
	return rte_eal_init(count, arguments) < 0 ? -rte_errno : 0;
}

/* Gives the calling thread caches of buffers; 1: it has them. */
int fwd_enter(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 1;
	return rte_thread_register() < 0 ? -rte_errno : 0;
}

static void flush(struct rte_mempool *pool, void *unused)
{
	(void)unused;
	rte_mempool_cache_flush(rte_mempool_default_cache(pool, rte_lcore_id()), pool);
}

/* Returns what is in the caches of the calling thread, which later threads may never see. */
void fwd_leave(void)
{
	if (rte_lcore_id() == LCORE_ID_ANY)
		return;
	rte_mempool_walk(flush, NULL);
	rte_thread_unregister();
}

/* Finds the ports of a device, which appear with it; returns their number. */
int fwd_probe(const char *device, uint16_t *first)
{
	struct rte_dev_iterator iterator;
	uint16_t port;
	int found = 0, result = rte_dev_probe(device);

	if (result < 0)
		return result;
	RTE_ETH_FOREACH_MATCHING_DEV(port, device, &iterator) {
		if (found++ == 0)
			*first = port;
	}
	return found;
}

int fwd_info(uint16_t port, struct fwd_info *to)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int result = rte_eth_dev_info_get(port, &info);

	if (result < 0)
		return result;
	snprintf(to->driver, sizeof(to->driver), "%s", info.driver_name);
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(to->mac, mac.addr_bytes, sizeof(to->mac));
	rte_eth_dev_get_mtu(port, &to->mtu);
	to->max_rx_queues = info.max_rx_queues;
	to->max_tx_queues = info.max_tx_queues;
	to->numa_node = rte_eth_dev_socket_id(port);
	return 0;
}

/* Sets a port up and starts it. The numbers of descriptors become those that it has. */
int fwd_configure(uint16_t port, const char *pool_name, uint16_t rx_queues, uint16_t tx_queues,
		  uint16_t *rx_descriptors, uint16_t *tx_descriptors, struct rte_mempool **pool)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	struct rte_eth_txconf txconf;
	int result, node = rte_eth_dev_socket_id(port);

	if ((result = rte_eth_dev_info_get(port, &info)) < 0)
		return result;
	/* other offloads take some drivers off their vector path */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if ((result = rte_eth_dev_configure(port, rx_queues, tx_queues, &conf)) < 0 ||
	    (result = rte_eth_dev_adjust_nb_rx_tx_desc(port, rx_descriptors, tx_descriptors)) < 0)
		return result;
	/* some drivers fill two rings of a queue, such as vmxnet3 */
	*pool = rte_pktmbuf_pool_create(pool_name, 2 * rx_queues * *rx_descriptors + 8 * CACHE - 1, CACHE, 0,
					RTE_PKTMBUF_HEADROOM + ROOM, node);
	if (*pool == NULL)
		return -rte_errno;
	for (uint16_t queue = 0; queue < rx_queues; queue++) {
		result = rte_eth_rx_queue_setup(port, queue, *rx_descriptors, node, NULL, *pool);
		if (result < 0)
			return result;
	}
	txconf = info.default_txconf;
	txconf.offloads = conf.txmode.offloads;
	for (uint16_t queue = 0; queue < tx_queues; queue++) {
		result = rte_eth_tx_queue_setup(port, queue, *tx_descriptors, node, &txconf);
		if (result < 0)
			return result;
	}
	if ((result = rte_eth_dev_start(port)) < 0)
		return result;
	/* a device without it receives everything anyway */
	rte_eth_promiscuous_enable(port);
	return 0;
}

/* Stops a port and gives its device back. Buffers that it holds return to their pools before. */
void fwd_close(uint16_t port)
{
	struct rte_eth_dev_info info = {0};

	if (rte_eth_dev_info_get(port, &info) < 0)
		return;
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	if (info.device != NULL)
		rte_dev_remove(info.device);
}

/* Returns the speed of a link in Mbit/s, UINT32_MAX if it is unknown, or 0 for no link. */
uint32_t fwd_link(uint16_t port)
{
	struct rte_eth_link link = {0};

	if (rte_eth_link_get_nowait(port, &link) < 0 || link.link_status != RTE_ETH_LINK_UP)
		return 0;
	return link.link_speed == 0 ? UINT32_MAX : link.link_speed;
}

int fwd_stats(uint16_t port, struct fwd_stats *to)
{
	struct rte_eth_stats stats;
	int result = rte_eth_stats_get(port, &stats);

	if (result < 0)
		return result;
	to->ipackets = stats.ipackets;
	to->opackets = stats.opackets;
	to->missed = stats.imissed + stats.rx_nombuf + stats.ierrors;
	return 0;
}

/* Reads the counters of a driver, no more than `room`; returns their number. */
int fwd_counters(uint16_t port, struct fwd_counter *to, unsigned int room)
{
	struct rte_eth_xstat values[room + 1];
	struct rte_eth_xstat_name names[room + 1];
	int found = rte_eth_xstats_get(port, values, room);
	int named = rte_eth_xstats_get_names(port, names, room);

	if (found < 0 || found != named || (unsigned int)found > room)
		return found < 0 ? found : named;
	for (int i = 0; i < found; i++) {
		memcpy(to[i].name, names[values[i].id].name, sizeof(to[i].name));
		to[i].name[sizeof(to[i].name) - 1] = 0;
		to[i].value = values[i].value;
	}
	return found;
}

/* The fields of a prepared buffer that a driver may change: data_off, refcnt, nb_segs and port. */
static uint64_t prepared;

static inline uint64_t fields(const struct rte_mbuf *buffer)
{
	uint64_t fields;

	memcpy(&fields, &buffer->rearm_data, sizeof(fields));
	return fields;
}

static void prepare(struct rte_mbuf *buffer, uint32_t index)
{
	rte_pktmbuf_reset(buffer);
	rte_mbuf_refcnt_set(buffer, 1);
	/* no driver writes it when it sends */
	buffer->hash.usr = MARK | index;
	prepared = fields(buffer);
}

static void prepare_each(struct rte_mempool *pool, void *unused, void *buffer, unsigned int index)
{
	(void)pool, (void)unused;
	prepare(buffer, index);
}

/* Creates a pool for one queue to send from: buffers keep their frames, so it has no other user. */
int fwd_pool(const char *name, uint16_t buffers, int node, struct rte_mempool **to)
{
	*to = rte_pktmbuf_pool_create(name, buffers, CACHE, 0, RTE_PKTMBUF_HEADROOM + ROOM, node);
	if (*to == NULL)
		return -rte_errno;
	rte_mempool_obj_iter(*to, prepare_each, NULL);
	return 0;
}

void fwd_free_pool(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

uint16_t fwd_room(void)
{
	return ROOM;
}

struct search {
	const void *buffer;
	uint32_t index;
};

static void compare(struct rte_mempool *pool, void *search, void *buffer, unsigned int index)
{
	struct search *wanted = search;

	(void)pool;
	if (wanted->buffer == buffer)
		wanted->index = index;
}

/* Repairs a buffer that a driver has changed; returns its index. */
static __rte_noinline uint32_t repair(struct rte_mempool *pool, struct rte_mbuf *buffer)
{
	struct search search = {.buffer = buffer, .index = buffer->hash.usr & INDEX_MASK};

	if ((buffer->hash.usr & ~INDEX_MASK) != MARK)
		rte_mempool_obj_iter(pool, compare, &search);
	prepare(buffer, search.index);
	return search.index;
}

/* Takes `count` buffers; returns 0 if there are fewer. `changed` has a bit for each buffer that was
 * not as it was prepared: its contents are unknown. */
uint16_t fwd_take(struct rte_mempool *pool, struct rte_mbuf **buffers, uint8_t **data,
		  uint32_t *indices, uint16_t count, uint64_t *changed)
{
	*changed = 0;
	if (rte_mempool_get_bulk(pool, (void **)buffers, count) != 0)
		return 0;
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *buffer = buffers[i];

		data[i] = (uint8_t *)buffer->buf_addr + RTE_PKTMBUF_HEADROOM;
		indices[i] = buffer->hash.usr & INDEX_MASK;
		if (unlikely(fields(buffer) != prepared || buffer->ol_flags != 0 ||
			     (buffer->hash.usr & ~INDEX_MASK) != MARK)) {
			indices[i] = repair(pool, buffer);
			*changed |= 1ull << i;
		}
	}
	return count;
}

/* Sends frames of these lengths; returns how many the driver took, from the first on. */
uint16_t fwd_send(uint16_t port, uint16_t queue, struct rte_mbuf **buffers, const uint16_t *lengths,
		  uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		buffers[i]->data_len = lengths[i];
		buffers[i]->pkt_len = lengths[i];
	}
	return rte_eth_tx_burst(port, queue, buffers, count);
}

/* Receives frames, no more than `room`. The length of a frame in several buffers is 0. */
uint16_t fwd_receive(uint16_t port, uint16_t queue, struct rte_mbuf **buffers, uint8_t **data,
		     uint16_t *lengths, uint16_t room)
{
	uint16_t count = rte_eth_rx_burst(port, queue, buffers, room);

	for (uint16_t i = 0; i < count; i++) {
		data[i] = rte_pktmbuf_mtod(buffers[i], uint8_t *);
		rte_prefetch0(data[i]);
		lengths[i] = buffers[i]->nb_segs == 1 ? buffers[i]->data_len : 0;
	}
	return count;
}

void fwd_release(struct rte_mbuf **buffers, uint16_t count)
{
	rte_pktmbuf_free_bulk(buffers, count);
}
