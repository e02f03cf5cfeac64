// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin of QEMU's emulator that counts the instructions of an x86 guest exactly, by call path.
 *
 * It is not linked with fwdlab: src/vm/plugin.rs compiles it where it is needed, and QEMU loads it. It measures between two
 * instructions of the guest and knows nothing of frames. Start with on_block(), on_call() and on_ret().
 *
 * Arguments: out=DIR           section n goes to DIR/section-n.total and then DIR/section-n.folded, each by rename: where
 *                              there is the second, both are complete
 *            symbols=FILE      lines like those of /proc/kallsyms (`ffffffff81000000 T name [module]`), or `address name`;
 *                              read when the first section begins, and again when one begins and the file has changed
 *            kernel=ADDRESS    code from here on is the kernel's. Code below it is told apart by the symbols that are below it,
 *                              without what it calls, and is [user] where there are none.
 *                              ff00000000000000 unless told: the upper half of x86-64, with four or five levels of pages.
 * All addresses are hexadecimal.
 *
 * A section lasts from `nopl 0x66776c01(%rax)` (0f 1f 80 01 6c 77 66) to `nopl 0x66776c02(%rax)`, or to an instruction of the
 * kernel that moves 0x66776c02 into a register; these do not count, and neither does what is between `nopl 0x66776c04(%rax)` and
 * `nopl 0x66776c05(%rax)`. A second begin without an end begins again, with the same number. Before the first, some blocks before it, comes
 * `nopl 0x66776c03(%rax)`: until then only calls are followed, so that a boot takes little longer than without the plugin.
 *
 * How it counts: every instruction adds one when it starts, and what was added goes to the node of the tree of call paths
 * that is current, whenever another becomes it. That is what `-icount shift=0` counts as well, to the instruction: a repeated
 * string instruction once for every time it repeats, and once for finding out that it is at its end. An instruction that is
 * repeated because of a fault of the kernel's counts once, when it succeeds; one of [user] counts every time.
 *
 * How it follows: a call notes the current node under the address of the return address that it pushes, and a return looks
 * under the address that it pops. So every stack of the guest has its own notes, task switches need no knowledge of tasks, and
 * what is never returned to is forgotten as soon as something deeper is. Code of another function that was not called was jumped
 * to: a tail call, which takes the place of the function that jumped. Interrupts, exceptions and system calls are paths of
 * their own from the root, known by the names of their entries; what they interrupted goes on where it was. Before the first
 * section there are no symbols: calls are noted with where they came from, and the nodes are made then.
 *
 * It needs version 1 of the plugin interface, and one virtual CPU. QEMU 7.2 is tested; QEMU 9 asks for version 2, where what
 * counts in line is registered in another way.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What is used of the plugin interface, which Debian packages without its header. */
#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
/* Reads and writes: 7.2 takes the one for the other, so that a callback for one of them looks which it was. */
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*simple_cb)(qemu_plugin_id_t id);
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*mem_cb)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

void qemu_plugin_reset(qemu_plugin_id_t id, simple_cb cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb, enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb cb, enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op, void *where, uint64_t add);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb, enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

EXPORT int qemu_plugin_version = 1;

#define MAGIC 0x66776c00u	/* "fwl" and what to do */
#define BEGIN 1
#define END 2
#define READY 3
#define PAUSE 4
#define RESUME 5

/* A larger distance from the symbol before is no function of the kernel (bytes). */
#define LARGEST_FUNCTION 0x40000
/* Notes are kept by parts of the address space of this size: kernel stacks have it and lie at its multiples. */
#define STACK_BITS 14

/* A function by its name; functions of the same name are one, as in every profile. */
struct function {
	struct function *next;	/* in its bucket */
	bool user;
	bool entry;		/* the hardware enters it */
	bool fault;		/* the hardware enters it, and executes the instruction again that it interrupted */
	char name[];
};

struct symbol {
	uint64_t address;
	struct function *function;	/* NULL: data, which ends the function before */
};

/* A path of calls: the function and who called it. */
struct node {
	struct function *function;
	struct node *caller;
	struct node *callees;	/* the one that was called last comes first */
	struct node *sibling;
	struct node *all;	/* the one made before */
	uint64_t self;		/* instructions in this section */
};

/* Where a translation block begins; all blocks that begin there share it. */
struct block {
	uint64_t pc;
	struct function *function;	/* NULL before the first section */
	bool at_start;		/* of its function */
	struct block *next;	/* in its bucket */
};

/* What goes on when this call returns. */
struct note {
	uint64_t address;	/* of the return address on the stack; of an interrupt something between it and what is above */
	uint64_t site;		/* where it called from */
	struct node *node;	/* NULL before the first section */
	bool interrupt;
	bool calling;		/* interrupted between a call and the first instruction called */
};

struct stack {
	uint64_t part;		/* of the address space */
	struct note *notes;	/* addresses fall */
	size_t used, room;
	struct stack *next;	/* in its bucket */
};

#define BUCKETS 65536
static struct function *functions[BUCKETS];
static struct block *blocks[BUCKETS];
static struct stack *stacks[BUCKETS];

static const char *out_folder, *symbols_file;
static uint64_t kernel = 0xff00000000000000;

static struct symbol *symbols;
static size_t symbols_used;
static struct timespec symbols_time;
static off_t symbols_size;

static struct function *user, *unknown;
/* Stand in for the current function where the next block must be looked at whatever it is. */
static struct function called, resumed;

static struct node root;
static struct node *last_node;

static uint64_t total;		/* instructions since the guest began */
static uint64_t marked;		/* of them, those that some node has, or that belong to no section */
static qemu_plugin_id_t own;	/* what the emulator calls this plugin */
static bool counting;		/* blocks and instructions, and not only calls */
static bool following;		/* symbols were read, and there are nodes */
static bool inside;		/* a section */
static bool paused;		/* it */
static uint64_t began;		/* total when it began, and what was added while it paused */
static unsigned int section;

/* Where the guest is. */
static struct {
	struct function *function;	/* of the node; or `called` or `resumed`; or NULL before the first section */
	struct node *node;
	struct block *block;
	struct stack *stack;	/* used last */
	struct node *interrupted;	/* by an entry that has not called anything yet */
	bool interrupted_calling;
	uint64_t interrupted_site;
} here;

/*
 * One while an instruction that moves the stack has not done so yet. QEMU 7.2 goes on telling a callback for memory about what
 * helpers access after its instruction (of translated code, only what the instruction itself accesses).
 */
static uint64_t moving;

static void *must(void *memory)
{
	if (!memory) {
		fputs("fwdlab stacks: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

static size_t bucket(uint64_t key)
{
	return (key * 0x9e3779b97f4a7c15) >> 48;
}

/* ---- functions ---- */

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with)
{
	size_t length = strlen(name), end = strlen(with);

	return length >= end && strcmp(name + length - end, with) == 0;
}

static struct function *function_of(const char *name)
{
	uint64_t hash = 0;
	struct function *function;
	size_t at;

	for (at = 0; name[at]; at++)
		hash = hash * 31 + (unsigned char)name[at];
	for (function = functions[bucket(hash)]; function; function = function->next)
		if (strcmp(function->name, name) == 0)
			return function;
	function = must(calloc(1, sizeof(*function) + at + 1));
	memcpy(function->name, name, at + 1);
	function->fault = strcmp(name, "asm_exc_page_fault") == 0 || strcmp(name, "asm_exc_general_protection") == 0 ||
			  strcmp(name, "asm_exc_divide_error") == 0;
	function->entry = begins(name, "asm_exc_") || begins(name, "asm_sysvec_") || begins(name, "entry_SYSCALL_") ||
			  begins(name, "entry_SYSENTER_") || begins(name, "entry_INT80_") ||
			  strcmp(name, "asm_common_interrupt") == 0 || strcmp(name, "asm_spurious_interrupt") == 0 ||
			  strcmp(name, "irq_entries_start") == 0 || strcmp(name, "spurious_entries_start") == 0;
	function->next = functions[bucket(hash)];
	functions[bucket(hash)] = function;
	return function;
}

/* Of several names of one address, which one says most? Marks of where sections begin and end say least. */
static int dullness(const char *name)
{
	int dull = 0;

	while (name[dull] == '_')
		dull++;
	if (ends(name, "_start") || ends(name, "_end") || ends(name, "_begin") || ends(name, "text"))
		dull += 100;
	return dull;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *one = a, *other = b;

	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	if (!one->function || !other->function)
		return !one->function - !other->function;
	int dull = dullness(one->function->name) - dullness(other->function->name);
	return dull ? dull : strcmp(one->function->name, other->function->name);
}

/* The symbol at or before an address: its place, or -1. */
static ptrdiff_t symbol_at(uint64_t pc)
{
	size_t low = 0, high = symbols_used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symbols[middle].address <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return (ptrdiff_t)low - 1;
}

static struct function *resolve(uint64_t pc, bool *at_start)
{
	ptrdiff_t at = pc < kernel ? -1 : symbol_at(pc);

	*at_start = true;
	if (pc < kernel) {
		at = symbol_at(pc);
		return at >= 0 && symbols[at].address < kernel && symbols[at].function ? symbols[at].function : user;
	}
	if (at < 0 || !symbols[at].function || pc - symbols[at].address > LARGEST_FUNCTION)
		return unknown;
	*at_start = pc == symbols[at].address;
	return symbols[at].function;
}

/* One line: `address type name`, `address type name [module]` or `address name`. */
static void add_symbol(char *line, size_t *room)
{
	char *rest, *name, type = 'T';
	uint64_t address = strtoull(line, &rest, 16);

	if (rest == line)
		return;
	name = rest + strspn(rest, " \t");
	if (name[0] && (name[1] == ' ' || name[1] == '\t')) {
		type = name[0];
		name += 1 + strspn(name + 1, " \t");
	}
	for (char *c = name; *c; c++) {
		if (*c == '\t')
			*c = ' ';
		if (*c == ';')
			*c = ':';
	}
	name[strcspn(name, "\r\n")] = 0;
	if (!*name)
		return;
	if (symbols_used == *room) {
		*room = *room ? 2 * *room : 65536;
		symbols = must(realloc(symbols, *room * sizeof(*symbols)));
	}
	symbols[symbols_used].address = address;
	symbols[symbols_used].function = strchr("tTwW", type) ? function_of(name) : NULL;
	if (address < kernel && symbols[symbols_used].function)
		symbols[symbols_used].function->user = true;
	symbols_used++;
}

/* Reads the symbols, unless nothing changed. Were there new ones? */
static bool read_symbols(void)
{
	struct stat status;
	char line[1024];
	size_t room = 0, kept = 0;
	FILE *file;

	if (!symbols_file)
		return false;
	file = fopen(symbols_file, "r");
	if (!file || fstat(fileno(file), &status)) {
		fprintf(stderr, "fwdlab stacks: cannot read symbols from %s: %m\n", symbols_file);
		if (file)
			fclose(file);
		return false;
	}
	if (symbols && status.st_mtim.tv_sec == symbols_time.tv_sec && status.st_mtim.tv_nsec == symbols_time.tv_nsec &&
	    status.st_size == symbols_size) {
		fclose(file);
		return false;
	}
	symbols_time = status.st_mtim;
	symbols_size = status.st_size;
	free(symbols);
	symbols = NULL;
	symbols_used = 0;
	while (fgets(line, sizeof(line), file))
		add_symbol(line, &room);
	fclose(file);
	if (symbols_used)
		qsort(symbols, symbols_used, sizeof(*symbols), by_address);
	for (size_t at = 0; at < symbols_used; at++)
		if (!kept || symbols[at].address != symbols[kept - 1].address)
			symbols[kept++] = symbols[at];
	symbols_used = kept;
	return true;
}

/* ---- call paths ---- */

static struct node *callee(struct node *caller, struct function *function)
{
	struct node **link, *node;

	for (link = &caller->callees; (node = *link); link = &node->sibling)
		if (node->function == function)
			break;
	if (node && link == &caller->callees)
		return node;
	if (node) {
		*link = node->sibling;
	} else {
		node = must(calloc(1, sizeof(*node)));
		node->function = function;
		node->caller = caller;
		node->all = last_node;
		last_node = node;
	}
	node->sibling = caller->callees;
	caller->callees = node;
	return node;
}

/* What was counted until now belongs to the current node. */
static inline void settle(void)
{
	if (here.node && !paused)
		here.node->self += total - marked;
	marked = total;
}

static struct stack *stack_of(uint64_t address)
{
	uint64_t part = address >> STACK_BITS;
	struct stack *stack = here.stack;

	if (stack && stack->part == part)
		return stack;
	for (stack = stacks[bucket(part)]; stack; stack = stack->next)
		if (stack->part == part)
			return here.stack = stack;
	stack = must(calloc(1, sizeof(*stack)));
	stack->part = part;
	stack->next = stacks[bucket(part)];
	stacks[bucket(part)] = stack;
	return here.stack = stack;
}

static void push(struct stack *stack, struct note note)
{
	if (stack->used == stack->room) {
		stack->room = stack->room ? 2 * stack->room : 32;
		stack->notes = must(realloc(stack->notes, stack->room * sizeof(*stack->notes)));
	}
	stack->notes[stack->used++] = note;
}

static void on_call(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	struct stack *stack;

	(void)cpu;
	if (!moving || !qemu_plugin_mem_is_store(info))
		return;
	moving = 0;
	stack = stack_of(address);
	while (stack->used && stack->notes[stack->used - 1].address <= address)
		stack->used--;
	if (here.interrupted) {
		push(stack, (struct note){ .address = address + 1, .site = here.interrupted_site, .node = here.interrupted,
					   .interrupt = true, .calling = here.interrupted_calling });
		here.interrupted = NULL;
	}
	push(stack, (struct note){ .address = address, .site = (uintptr_t)site, .node = here.node });
	if (following)
		here.function = &called;
}

static void on_ret(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct stack *stack;

	(void)cpu, (void)data;
	if (!moving || qemu_plugin_mem_is_store(info))
		return;
	moving = 0;
	stack = stack_of(address);
	while (stack->used && stack->notes[stack->used - 1].address < address)
		stack->used--;
	settle();
	here.node = NULL;
	if (stack->used && stack->notes[stack->used - 1].address == address)
		here.node = stack->notes[--stack->used].node;
	if (following)
		here.function = here.node ? here.node->function : &resumed;
}

static void resume(struct node *node, bool calling)
{
	settle();
	here.node = node;
	if (following)
		here.function = calling ? &called : &resumed;
}

static void on_iret(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct stack *stack;
	struct note *found = NULL;

	(void)cpu, (void)data;
	if (!moving || qemu_plugin_mem_is_store(info))
		return;
	/* of all that it reads, the first is where the stack is */
	moving = 0;
	if (!following)
		return;
	here.function = &resumed;
	if (here.interrupted) {
		resume(here.interrupted, here.interrupted_calling);
		here.interrupted = NULL;
		return;
	}
	stack = stack_of(address);
	while (stack->used && stack->notes[stack->used - 1].address < address) {
		struct note *note = &stack->notes[--stack->used];

		if (note->interrupt)
			found = note;
	}
	/* Without a note it is one of the kernel's ways to serialise: it goes on in the same function. */
	if (found)
		resume(found->node, found->calling);
}

static void enter(struct block *block)
{
	struct function *function = block->function;

	settle();
	if (function->user) {
		here.interrupted = NULL;
		here.node = callee(&root, function);
	} else if (function->entry && (!here.node || here.node->function != function)) {
		bool in_kernel = here.node && !here.node->function->user;

		if (in_kernel && function->fault && here.node->self) {
			/* The instruction did not happen, and starts again. */
			here.node->self--;
			total--;
			marked--;
		}
		if (in_kernel && !here.node->function->entry) {
			here.interrupted = here.node;
			here.interrupted_calling = here.function == &called;
			here.interrupted_site = here.block ? here.block->pc : 0;
		}
		here.node = callee(&root, function);
	} else if (!here.node) {
		here.node = callee(&root, function);
	} else if (here.function == &called) {
		/* A call into the middle of the same function only fills the processor's return buffer. */
		if (block->at_start || here.node->function != function)
			here.node = callee(here.node, function);
	} else if (here.node->function != function) {
		here.node = callee(here.node->caller, function);
	}
	here.function = function;
}

static void on_block(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	if (block->function != here.function)
		enter(block);
	here.block = block;
}

/* ---- sections ---- */

static void resolve_all(void)
{
	for (size_t at = 0; at < BUCKETS; at++)
		for (struct block *block = blocks[at]; block; block = block->next)
			block->function = resolve(block->pc, &block->at_start);
}

/* Makes the nodes of all calls that have not returned, from where they called. */
static void follow(void)
{
	bool at_start;

	following = true;
	user = function_of("[user]");
	user->user = true;
	unknown = function_of("[unknown]");
	resolve_all();
	for (size_t at = 0; at < BUCKETS; at++) {
		for (struct stack *stack = stacks[at]; stack; stack = stack->next) {
			struct node *node = &root;

			for (size_t place = 0; place < stack->used; place++) {
				struct note *note = &stack->notes[place];

				node = note->node = callee(node, resolve(note->site, &at_start));
			}
		}
	}
	if (!here.block)
		return;
	here.node = &root;
	if (!here.block->function->user && here.stack && here.stack->used)
		here.node = here.stack->notes[here.stack->used - 1].node;
	here.node = callee(here.node, here.block->function);
	here.function = here.block->function;
}

static void begin(void)
{
	bool changed = read_symbols();

	if (!following) {
		follow();
	} else if (changed) {
		resolve_all();
		here.function = &resumed;
	}
	for (struct node *node = last_node; node; node = node->all)
		node->self = 0;
	inside = true;
	paused = false;
	marked = began = total;
}

struct line {
	char *path;
	uint64_t self;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->path, ((const struct line *)b)->path);
}

static char *path_of(const struct node *node)
{
	size_t end = 0;
	char *path;

	for (const struct node *at = node; at != &root; at = at->caller)
		end += strlen(at->function->name) + (at->caller != &root);
	path = must(malloc(end + 1));
	path[end] = 0;
	for (const struct node *at = node; at != &root; at = at->caller) {
		size_t own = strlen(at->function->name);

		memcpy(path + end - own, at->function->name, own);
		end -= own;
		if (end)
			path[--end] = ';';
	}
	return path;
}

static void write_folded(FILE *file)
{
	size_t used = 0;
	struct line *lines;

	for (struct node *node = last_node; node; node = node->all)
		used += node->self != 0;
	lines = must(calloc(used + 1, sizeof(*lines)));
	used = 0;
	for (struct node *node = last_node; node; node = node->all)
		if (node->self)
			lines[used++] = (struct line){ path_of(node), node->self };
	qsort(lines, used, sizeof(*lines), by_path);
	for (size_t at = 0; at < used; at++) {
		fprintf(file, "%s %" PRIu64 "\n", lines[at].path, lines[at].self);
		free(lines[at].path);
	}
	free(lines);
}

static void write_total(FILE *file)
{
	fprintf(file, "%" PRIu64 "\n", total - began);
}

static void write_file(const char *kind, void (*write)(FILE *))
{
	char name[4096], temporary[sizeof(name) + 4];
	FILE *file;

	snprintf(name, sizeof(name), "%s/section-%u.%s", out_folder, section, kind);
	snprintf(temporary, sizeof(temporary), "%s.new", name);
	file = fopen(temporary, "w");
	if (file) {
		write(file);
		bool failed = ferror(file);

		failed |= fclose(file) != 0;
		if (!failed && rename(temporary, name) == 0)
			return;
	}
	fprintf(stderr, "fwdlab stacks: cannot write %s: %m\n", name);
}

static void end(void)
{
	if (!inside)
		return;
	settle();
	inside = paused = false;
	write_file("total", write_total);
	write_file("folded", write_folded);
	section++;
}

static void pause_or_resume(bool pause)
{
	static uint64_t since;

	if (!inside || paused == pause)
		return;
	settle();
	if (pause)
		since = total;
	else
		began += total - since;
	paused = pause;
}

static void ready(void);

static void on_magic(unsigned int cpu, void *what)
{
	(void)cpu;
	if ((uintptr_t)what == READY)
		ready();
	else if (!counting)
		fputs("fwdlab stacks: a section begins or ends before nopl 0x66776c03(%rax)\n", stderr);
	else if ((uintptr_t)what == BEGIN)
		begin();
	else if ((uintptr_t)what == END)
		end();
	else
		pause_or_resume((uintptr_t)what == PAUSE);
}

/* ---- translation ---- */

static struct block *block_of(uint64_t pc)
{
	struct block *block;

	for (block = blocks[bucket(pc)]; block; block = block->next)
		if (block->pc == pc)
			return block;
	block = must(calloc(1, sizeof(*block)));
	block->pc = pc;
	if (following)
		block->function = resolve(pc, &block->at_start);
	block->next = blocks[bucket(pc)];
	blocks[bucket(pc)] = block;
	return block;
}

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: case 0x66: case 0x67: case 0xf2: case 0xf3:
		return true;
	default:
		return (byte & 0xf0) == 0x40;	/* in 32-bit code an instruction, but nothing follows it then */
	}
}

static void moves(struct qemu_plugin_insn *insn, mem_cb cb, uint64_t pc)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &moving, 1);
	qemu_plugin_register_vcpu_mem_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)pc);
}

static void instrument(struct qemu_plugin_insn *insn)
{
	const uint8_t *code = qemu_plugin_insn_data(insn);
	size_t size = qemu_plugin_insn_size(insn), at = 0;
	uint64_t pc = qemu_plugin_insn_vaddr(insn);
	uint32_t word;

	if (size == 7 && code[0] == 0x0f && code[1] == 0x1f && code[2] == 0x80) {
		memcpy(&word, code + 3, sizeof(word));
		if (word >= MAGIC + BEGIN && word <= MAGIC + RESUME) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_magic, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)(word - MAGIC));
			return;
		}
	}
	/* What an eBPF program has for it: mov $0x66776c02,%r32, after a prefix for some registers. */
	if (pc >= kernel && size - (code[0] == 0x41) == 5 && (code[size - 5] & 0xf8) == 0xb8) {
		memcpy(&word, code + size - 4, sizeof(word));
		if (word == MAGIC + END) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_magic, QEMU_PLUGIN_CB_NO_REGS, (void *)END);
			return;
		}
	}
	if (counting)
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &total, 1);
	if (pc < kernel)
		return;
	while (at < size && is_prefix(code[at]))
		at++;
	if (at == size)
		return;
	if (code[at] == 0xe8 || (code[at] == 0xff && at + 1 < size && (code[at + 1] >> 3 & 7) == 2))
		moves(insn, on_call, pc);
	else if (code[at] == 0xc3 || code[at] == 0xc2)
		moves(insn, on_ret, pc);
	else if (code[at] == 0xcf && counting)
		moves(insn, on_iret, pc);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t used = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (counting)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
						     block_of(qemu_plugin_tb_vaddr(tb)));
	for (size_t at = 0; at < used; at++)
		instrument(qemu_plugin_tb_get_insn(tb, at));
}

/* Everything that was translated is forgotten, and translated again. */
static void on_reset(qemu_plugin_id_t id)
{
	counting = true;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
}

static void ready(void)
{
	if (!counting)
		qemu_plugin_reset(own, on_reset);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int at = 0; at < argc; at++) {
		if (begins(argv[at], "out="))
			out_folder = argv[at] + 4;
		else if (begins(argv[at], "symbols="))
			symbols_file = argv[at] + 8;
		else if (begins(argv[at], "kernel="))
			kernel = strtoull(argv[at] + 7, NULL, 16);
		else {
			fprintf(stderr, "fwdlab stacks: no such argument: %s; there are out=, symbols= and kernel=\n", argv[at]);
			return 1;
		}
	}
	if (!out_folder) {
		fputs("fwdlab stacks: out= says where sections go\n", stderr);
		return 1;
	}
	if (!strstr(info->target_name, "x86_64") && !strstr(info->target_name, "i386")) {
		fprintf(stderr, "fwdlab stacks: follows calls of x86, not of %s\n", info->target_name);
		return 1;
	}
	if (info->system_emulation && info->system.max_vcpus > 1) {
		fputs("fwdlab stacks: counts one virtual CPU: -smp 1\n", stderr);
		return 1;
	}
	own = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
