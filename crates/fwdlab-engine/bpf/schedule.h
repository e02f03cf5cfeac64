/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * When the next frame of a live-frames sender leaves: the schedule that both senders follow, and
 * the state that user space sees. Follows the same rule as src/pacer/mod.rs, which explains it;
 * tests/schedule.rs compares the two.
 *
 * The kernel calls a sender repeatedly, in batches; it hands redirected frames to the port at the
 * end of a batch at the latest. A call in which no frame is due drops its page back into the pool:
 * the sender spins.
 */
#ifndef FWDLAB_SCHEDULE_H
#define FWDLAB_SCHEDULE_H

#include "histogram.h"

/* Times in this file are 1/65536 ns after the start. */
#define FRACTION 16
#define NEVER (~0ull)

/* Gaps between two frames are counted in 1/65536: with several rates, frames are not evenly spaced.
 * Gaps between two frames are counted in 1/65536: with several rates, frames are not evenly spaced. */
#define ONE_GAP 65536

/* At full speed, the clock is read for every 16th frame: reading it is a third of the cost of a
 * small frame. */
#define CLOCK_MASK 15

/* At most a second's load of missed frames is owed; owed frames leave at most this long after the
 * end. */
#define MOST_OWED (1000000000ull << FRACTION)
#define OVERTIME (100000000ull << FRACTION)

/* Maximum number of stalls that are tracked separately until all their frames have left, a power of
 * two. */
#define STALLS 16

/* schedule_test.bpf.c has a clock that the test sets. */
#ifndef NOW
#define NOW() bpf_ktime_get_ns()
#endif

/* Changed while traffic flows; every field is read once per call. */
struct control {
	__u64 start_ns;         /* nothing leaves before; a change restarts the schedule */
	__u64 end_ns;           /* nothing leaves long after: bounds the load even if user space has died */
	__u64 gap;              /* mean time between frames in 1/65536 ns; 0 = full speed, from start to end */
	__u64 frames;           /* maximum number of frames; 0 = no limit */
	__u32 path;             /* index into ports */
	__u32 catch_up_us;      /* a sender that stalls for longer than this has missed frames */
	__u32 batch_mask;       /* calls in a batch, a power of two, minus one */
	__u32 relief;           /* missed frames are made up: gaps are this many 65536ths shorter; 0 = they are dropped */
	__u64 end_position;     /* a load over time: frames from this position on are planned for the end or later */
	__u64 pieces;           /* its number of pieces; read when the schedule begins */
	__u64 phase;            /* when the first frame is planned, 1/65536 ns after the start; read then, too */
};

/*
 * A load over time consists of pieces in each of which frames are evenly spaced. User space uses
 * enough pieces that the error of a frame's planned time is smaller than the jitter of the kernel's
 * batches; the first frame of each is exact.
 */
struct piece {
	__u64 at;               /* when its first frame is planned, 1/65536 ns after the start */
	__u64 gap;
	__u64 from;             /* position of that frame: number of frames planned before it, in 1/65536; NEVER behind the last piece */
};

/* The wait of one stall: frames planned between `from` and `to` were due in it, and waited until
 * `until`. */
struct waited {
	__u64 from;
	__u64 to;
	__u64 until;
};

/* Written only by the sender. */
struct progress {
	__u64 sent[MAX_PATHS];  /* frames handed to the driver of each path's port */
	__u64 not_sent;         /* frames that were due and will never leave: the sender was too slow */
	__u64 made_up;          /* frames that were missed and have left since, in 1/65536: one of four in the time of three */
	__u64 calls;            /* calls of the program; no frame was due in all but `sequence` of them */
	__u64 next;             /* when the next frame is planned, 1/65536 ns after start; NEVER at full speed */
	__u64 lag;              /* how much later it leaves */
	__u64 until;            /* frames that depart earlier are due, same unit; at full speed: the time in ns, 0 = read the clock */
	__u64 gap;              /* the gap before `next` */
	__u64 start_ns;         /* the start that `next` and `until` count from */
	__u64 oldest;           /* departure of the first frame of this batch plus 1; 0 = there is none yet */
	__u64 sequence;         /* frames sent on all paths, including those refused by a port that is gone */
	__u32 steps;            /* gaps between the last frame and `next`, in 1/65536 */
	__u32 spare;            /* at full speed: number of frames until the clock is read again */
	__u32 slot;             /* cached frames: index of the next one */
	__u32 left;             /* test frames: flows left in the row of stream.row */
	__u32 destination;      /* the next destination */
	__u32 source;           /* and the counter of rows */
	__u32 source_port;
	__u32 destination_port;
	__u32 first;            /* stalls whose frames have not all left: index of the oldest, and their number */
	__u32 kept;
	struct waited stalls[STALLS];
	__u64 position;         /* a load over time: position of the next frame */
	__u64 piece_end;        /* and the end of its piece */
	__u32 piece;            /* index of that piece */
	__u32 pieces;           /* number of pieces */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

#define MAX_PIECES 65536

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PIECES + 2);
	__type(key, __u32);
	__type(value, struct piece);
} pieces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

/* How late the first frame of a batch was when the port had the whole batch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} lateness SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PATHS);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} ports SEC(".maps");

static __always_inline __u64 interval(__u64 gap, __u32 steps)
{
	if (steps == ONE_GAP)
		return gap;
	return (gap >> 16) * steps + (((gap & 0xffff) * steps) >> 16);
}

/* Drops the next `frames` frames; the others are not delayed by them. */
static __always_inline void forgive(struct progress *p, __u64 frames)
{
	__u64 time = frames * p->gap;

	p->not_sent += frames;
	p->next += time;
	p->lag -= time < p->lag ? time : p->lag;
}

/* Records a stall: the frame that should have left at `from` leaves at `to`, and the others after
 * it. */
static __always_inline void held_up(struct progress *p, __u64 from, __u64 to)
{
	struct waited *newest;

	if (from >= to)
		return;
	if (p->kept < STALLS) {
		newest = &p->stalls[(p->first + p->kept++) & (STALLS - 1)];
		newest->from = from;
	} else {
		newest = &p->stalls[(p->first + p->kept - 1) & (STALLS - 1)];
	}
	newest->to = newest->until = to;
}

/*
 * Returns how long the next frame, which is due, waited for the end of the stall in which it was
 * due. A separate function, like the next one: the verifier checks it once, and not once for every
 * path to it, which takes half a minute.
 */
__attribute__((noinline)) __u64 hold_up_wait(struct progress *p)
{
	if (!p)
		return 0;
	for (int i = 0; i < STALLS && p->kept; i++) {
		const struct waited *oldest = &p->stalls[p->first & (STALLS - 1)];

		if (p->next < oldest->from)
			break;
		if (p->next < oldest->to)
			return oldest->until > p->next ? oldest->until - p->next : 0;
		p->first++;
		p->kept--;
	}
	return 0;
}

/* Adjusts the waits after the planned time of the next frame has changed. The longest wait is kept:
 * all owed frames count as due in one stall. */
__attribute__((noinline)) int hold_up_replan(struct progress *p, __u64 before)
{
	__u64 longest = 0;

	if (!p)
		return 0;
	for (int i = 0; i < STALLS && i < p->kept; i++) {
		const struct waited *w = &p->stalls[(p->first + i) & (STALLS - 1)];
		__u64 from = w->from > before ? w->from : before;

		if (w->until > from && w->until - from > longest)
			longest = w->until - from;
	}
	p->first = 0;
	p->kept = longest > 0;
	p->stalls[0].from = p->next;
	p->stalls[0].to = p->next + p->lag;
	p->stalls[0].until = p->next + longest;
	return 0;
}

/* Returns the duration of `steps` steps of a gap, for any number. */
static __always_inline __u64 span(__u64 gap, __u64 steps)
{
	__u64 part = gap & 0xffff;

	return (gap >> 16) * steps + part * (steps >> 16) + ((part * (steps & 0xffff)) >> 16);
}

/* Returns the last piece, from the current one on, that begins at or before a position or a time.
 * Returns the last piece, from the current one on, that begins at or before a position or a time. */
static __always_inline __u32 search_piece(const struct progress *p, __u64 until, const int by_time)
{
	__u32 low = p->piece, high = p->pieces;

	for (int i = 0; i < 17; i++) {
		__u32 middle = (low + high) / 2;
		const struct piece *piece;

		if (high - low < 2 || high > MAX_PIECES)
			break;
		piece = bpf_map_lookup_elem(&pieces, &middle);
		if (!piece)
			break;
		if ((by_time ? piece->at : piece->from) <= until)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Updates the piece and the planned time after the position of the next frame has changed; searches
 * from the current piece on. */
__attribute__((noinline)) int find_piece(struct progress *p)
{
	const struct piece *piece, *next;
	__u32 at, behind;

	if (!p)
		return 0;
	at = search_piece(p, p->position, 0);
	behind = at + 1;
	piece = bpf_map_lookup_elem(&pieces, &at);
	next = bpf_map_lookup_elem(&pieces, &behind);
	if (!piece || !next)
		return 0;
	p->piece = at;
	p->piece_end = next->from;
	p->gap = piece->gap;
	p->next = piece->at + span(piece->gap, p->position - piece->from);
	return 0;
}

/* Returns the position that is planned for a time, which is not before the next frame: the number
 * of frames planned until then, in 1/65536. */
__attribute__((noinline)) __u64 position_at(const struct progress *p, __u64 time)
{
	const struct piece *piece, *next;
	__u64 frames, rest, position;
	__u32 at, behind;

	if (!p)
		return 0;
	at = search_piece(p, time, 1);
	behind = at + 1;
	piece = bpf_map_lookup_elem(&pieces, &at);
	next = bpf_map_lookup_elem(&pieces, &behind);
	if (!piece || !next || !piece->gap || time < piece->at)
		return p->position;
	frames = (time - piece->at) / piece->gap;
	rest = (time - piece->at) % piece->gap;
	rest = piece->gap >> 48 ? rest / (piece->gap >> 16) : (rest << 16) / piece->gap;
	position = piece->from + (frames << 16) + (rest & 0xffff);
	if (position >= next->from)
		position = next->from - 1;
	return position > p->position ? position : p->position;
}

/* Skips `frames` frames. */
static __always_inline void skip_over_time(struct progress *p, __u64 frames)
{
	p->position += frames << 16;
	find_piece(p);
}

/* Like forgive(), for a load over time. */
static __always_inline void forgive_over_time(struct progress *p, __u64 frames)
{
	__u64 before = p->next, time;

	skip_over_time(p, frames);
	time = p->next > before ? p->next - before : 0;
	p->not_sent += frames;
	p->lag -= time < p->lag ? time : p->lag;
}

/* Like miss(), for a load over time: handles missed frames, all those planned until now but the
 * newest. */
__attribute__((noinline)) int miss_over_time(struct progress *p, __u64 now, __u32 relief)
{
	__u64 before, position, frames, slot;
	__u32 piece;

	if (!p)
		return 0;
	frames = (position_at(p, now) - p->position) >> 16;
	if (!relief) {
		forgive_over_time(p, frames);
		return 0;
	}
	before = p->next;
	position = p->position;
	piece = p->piece;
	slot = before + p->lag;
	skip_over_time(p, frames);
	/* nothing is planned behind the end, and the next frame leaves at once */
	if (p->piece_end == NEVER)
		p->lag += now - before;
	else if (p->next > before)
		p->lag += p->next - before;
	p->position = position;
	p->piece = piece;
	find_piece(p);
	held_up(p, slot, p->next + p->lag);
	/* limit what is owed */
	if (p->lag > MOST_OWED) {
		position = position_at(p, p->next + p->lag - MOST_OWED);
		forgive_over_time(p, (position - p->position + 0xffff) >> 16);
	}
	return 0;
}

/* Drops frames that were planned before the end of a load over time. */
__attribute__((noinline)) int end_over_time(struct progress *p, __u64 end_position)
{
	if (p)
		forgive_over_time(p, (end_position - p->position + 0xffff) >> 16);
	return 0;
}

/* Handles missed frames: all due frames but the newest. */
static __always_inline void miss(const volatile struct control *c, struct progress *p, __u64 behind)
{
	__u64 frames = behind / p->gap, slot = p->next + p->lag;

	if (!c->relief) {
		forgive(p, frames);
		return;
	}
	p->lag += frames * p->gap;
	held_up(p, slot, p->next + p->lag);
	/* limit what is owed */
	if (p->lag > MOST_OWED)
		forgive(p, (p->lag - MOST_OWED + p->gap - 1) / p->gap);
}

/* Changes the gap: the number of owed frames stays the same, up to a second's load, and the next
 * frame leaves at the same time as before. */
static __always_inline void change_gap(struct progress *p, __u64 elapsed, __u64 gap)
{
	__u64 slot = p->next + p->lag, before = p->next, most = MOST_OWED, frames, rest;

	/* the current gap becomes as long as the others, but does not end in the past: nothing is
	 * owed for it */
	if (slot > elapsed) {
		slot = slot - interval(p->gap, p->steps) + interval(gap, p->steps);
		if (slot < elapsed)
			slot = elapsed;
	}
	if (p->lag) {
		frames = p->lag / p->gap;
		rest = p->lag % p->gap;
		if (most > slot)
			most = slot;
		if (frames > most / gap) {
			p->not_sent += frames - most / gap;
			frames = most / gap;
			rest = 0;
		}
		/* 2^46 is a second, and nothing is owed with longer gaps */
		p->lag = frames * gap + ((rest >> 16) * (gap >> 16) / ((p->gap >> 16) + 1) << 16);
		if (p->lag > most)
			p->lag = frames * gap;
	}
	p->next = slot - p->lag;
	p->gap = gap;
	if (p->kept)
		hold_up_replan(p, before);
}

/* Reads the clock. Returns it if a frame is due, else 0. `flushed`: the port has all frames of
 * earlier calls. */
static __always_inline __u64 look(const volatile struct control *c, struct progress *p, int flushed, int finished,
				  const int over_time)
{
	__u64 now = NOW();
	__u64 start = c->start_ns, end = c->end_ns, gap = c->gap;       /* read only once: they may change between two reads */
	__u64 elapsed, behind, left;

	if (p->start_ns != start) {
		if (p->lag)
			forgive(p, (p->lag + p->gap - 1) / p->gap);
		p->start_ns = start;
		p->next = gap ? c->phase : NEVER;
		p->lag = 0;
		p->until = 0;
		p->gap = gap;
		p->steps = 0;
		p->oldest = 0;
		p->kept = 0;
		if (over_time) {
			p->position = 0;
			p->piece = 0;
			p->pieces = c->pieces;
			find_piece(p);
		}
	}
	if (flushed && p->oldest) {
		__u32 zero = 0;
		struct histogram *late = bpf_map_lookup_elem(&lateness, &zero);

		if (late)
			histogram_record(late, now - start - ((p->oldest - 1) >> FRACTION));
		p->oldest = 0;
	}
	if (finished || now < start)
		return 0;
	if (now >= end) {
		p->until = 0;
		/* a sender that is stopped early does not reach its end */
		elapsed = end > start ? (end - start) << FRACTION : 0;
		if (over_time ? !elapsed || p->position >= c->end_position : p->next >= elapsed) {
			if (elapsed)
				p->lag = 0;
			return 0;
		}
		left = elapsed > p->next ? elapsed - p->next : 0;
		behind = (now - end) << FRACTION;
		if (!c->relief || behind + left - interval(left, c->relief) > OVERTIME) {
			if (over_time)
				end_over_time(p, c->end_position);
			else
				forgive(p, (left - 1) / p->gap + 1);
			p->lag = 0;
			return 0;
		}
	}
	if (!gap) {
		p->until = now;
		return now;
	}
	elapsed = (now - start) << FRACTION;
	if (!over_time && p->gap != gap)
		change_gap(p, elapsed, gap);
	/* after the end, frames planned for later must not leave: read the clock every time */
	if (now < end)
		p->until = elapsed + 1;
	if (p->next + p->lag > elapsed)
		return 0;
	behind = elapsed - p->next - p->lag;
	if (behind > ((__u64)c->catch_up_us * 1000) << FRACTION) {
		/* the stall itself is part of the lateness */
		if (!p->oldest)
			p->oldest = p->next + p->lag + 1;
		if (over_time)
			miss_over_time(p, elapsed - p->lag, c->relief);
		else
			miss(c, p, behind);
	}
	return now;
}

/*
 * Returns the intended departure of the frame that is due now, in ns of CLOCK_MONOTONIC: its
 * departure minus its wait because the sender stalled; at full speed, that is now or at most 15
 * frames ago. 0: none is due. Keeps the mean rate exact: the plan advances by the gap, not by the
 * time of sending.
 */
static __always_inline __u64 due(const volatile struct control *c, struct progress *p, const int over_time)
{
	__u64 calls, frames, departure;
	int flushed, finished;

	if (p->spare) {
		p->spare--;
		return p->until;
	}
	calls = p->calls++;
	frames = c->frames;
	flushed = !(calls & c->batch_mask);
	finished = frames && p->sequence >= frames;
	if (flushed || finished || p->next + p->lag >= p->until) {
		__u64 now = look(c, p, flushed, finished, over_time);

		if (now && !p->gap) {
			__u32 spare = ~calls & CLOCK_MASK;

			if (frames && frames - p->sequence <= spare)
				spare = frames - p->sequence - 1;
			p->spare = spare;
			p->calls += spare;
		}
		if (!now || !p->gap)
			return now;
	}
	departure = p->next + p->lag;
	if (!p->oldest)
		p->oldest = departure + 1;
	if (p->kept)
		departure -= hold_up_wait(p);
	return p->start_ns + (departure >> FRACTION);
}

/* Advances before a frame leaves; the next one is planned `steps` later, and leaves earlier than
 * that if frames are owed. */
static __always_inline void advance(const volatile struct control *c, struct progress *p, __u32 steps, const int over_time)
{
	__u64 step, relief;

	p->sequence++;
	if (!p->gap)
		return;
	step = interval(p->gap, steps);
	if (over_time) {
		__u64 before = p->next;

		p->position += steps;
		if (p->position < p->piece_end)
			p->next += step;
		else
			find_piece(p);
		step = p->next > before ? p->next - before : 0;
	} else {
		p->next += step;
	}
	p->steps = steps;
	/* after the end, when the clock is read for every frame, each of them was missed */
	if (!p->until)
		p->made_up += ONE_GAP;
	else if (p->lag)
		p->made_up += c->relief;
	if (p->lag) {
		relief = interval(step, c->relief);
		p->lag -= relief < p->lag ? relief : p->lag;
	}
}

/* Counts the frame and sends it into the selected path, or one behind it; the next one is due
 * `steps` later. */
static __always_inline int leave(const volatile struct control *c, struct progress *p, __u32 behind, __u32 steps,
				 const int over_time)
{
	__u32 path = c->path + behind;

	if (path >= MAX_PATHS)
		return XDP_ABORTED;
	advance(c, p, steps, over_time);
	if (bpf_redirect_map(&ports, path, XDP_DROP) != XDP_REDIRECT) {
		/* the port is gone */
		p->not_sent++;
		return XDP_DROP;
	}
	p->sent[path]++;
	return XDP_REDIRECT;
}

#endif
