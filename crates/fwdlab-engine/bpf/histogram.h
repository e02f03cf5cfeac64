/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A histogram of times: the twin of src/histogram.rs, which explains the buckets. Each value below
 * 128 ns has its own bucket; above, every power of two is divided into 64. A test runs both over
 * the same values.
 */
#ifndef FWDLAB_HISTOGRAM_H
#define FWDLAB_HISTOGRAM_H

#include "wire.h"

#define HISTOGRAM_PER_OCTAVE_BITS 6
#define HISTOGRAM_LARGEST_NS ((1ull << 40) - 1)
#define HISTOGRAM_BUCKETS 2240

/* The value of a map. Only one writer at a time: each CPU or thread has its own map. */
struct histogram {
	__u64 counts[HISTOGRAM_BUCKETS];
};

/* Returns the index of a value's bucket; below HISTOGRAM_BUCKETS, which the verifier can prove. */
static __always_inline __u32 histogram_index(__u64 value)
{
	__u32 shift = 0, index;
	__u64 high;

	if (value < 2 << HISTOGRAM_PER_OCTAVE_BITS)
		return value;
	if (value > HISTOGRAM_LARGEST_NS)
		value = HISTOGRAM_LARGEST_NS;
	/* find the position of the highest bit above the seven that are kept, by halving; BPF has
	 * no instruction for it */
	high = value >> (HISTOGRAM_PER_OCTAVE_BITS + 1);
	if (high >> 32) {
		high >>= 32;
		shift += 32;
	}
	if (high >> 16) {
		high >>= 16;
		shift += 16;
	}
	if (high >> 8) {
		high >>= 8;
		shift += 8;
	}
	if (high >> 4) {
		high >>= 4;
		shift += 4;
	}
	if (high >> 2) {
		high >>= 2;
		shift += 2;
	}
	shift += (high >> 1) + 1;
	index = (shift << HISTOGRAM_PER_OCTAVE_BITS) + (__u32)(value >> shift);
	return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

static __always_inline void histogram_record(struct histogram *histogram, __u64 value)
{
	histogram->counts[histogram_index(value)]++;
}

#endif
