// A guest without a kernel for the test of plugin/stacks.c: calls, tail calls, interrupts, a fault,
// two stacks and two tasks; src/vm/plugin.rs knows every instruction. Not an example of anything
// else. Start with main.
//
// 32-bit code that QEMU loads with the multiboot protocol. The difference of the time-stamp counter,
// which counts instructions, is written to port 0xe9 in four bytes, least significant first; writing
// to port 0xf4 ends the machine.

	.set BEGIN, 1
	.set END, 2
	.set READY, 3
	.set PAUSE, 4
	.set RESUME, 5
	.macro magic what
	.byte 0x0f, 0x1f, 0x80
	.long 0x66776c00 + \what
	.endm

	.section .text
	.align 4
	.long 0x1badb002, 0, -0x1badb002	// multiboot

	// before `kernel`: reported by its own name, without its callers
	.globl outside
outside:
	nop
	ret

	.globl start
start:	mov $stack, %esp
	lgdt gdt_register
	ljmp $8, $1f
1:	mov $16, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov $asm_exc_divide_error, %eax
	mov $idt, %edi
	call gate
	mov $asm_sysvec_test, %eax
	mov $idt + 8 * 0x40, %edi
	call gate
	lidt idt_register
	magic READY
	jmp 1f	// the next block is counted
1:	call main
	mov $4, %ecx
1:	out %al, $0xe9
	shr $8, %eax
	loop 1b
	out %al, $0xf4
1:	hlt
	jmp 1b

gate:	mov %ax, (%edi)
	movw $8, 2(%edi)
	movw $0x8e00, 4(%edi)
	shr $16, %eax
	mov %ax, 6(%edi)
	ret

	// returns the number of instructions between the two readings
main:	rdtsc
	mov %eax, %esi
	magic BEGIN
	call nested
	mov $3, %ecx
1:	call leaf
	dec %ecx
	jnz 1b
	call tail
	int $0x40
	call *pointer
	call fill
	call divide
	call elsewhere
	call yield
	magic END
	rdtsc
	sub %esi, %eax
	magic BEGIN
	nop
	magic PAUSE
	call leaf
	magic RESUME
	nop
	call outside
	mov $0x66776c00 + END, %ecx	// as a program of eBPF ends it
	nop
	magic END
	ret

leaf:	nop
	ret

nested:	call middle
	ret

middle:	nop
	call leaf
	nop
	ret

tail:	nop
	jmp target

target:	nop
	nop
	ret

asm_sysvec_test:
	push %eax
	call handler
	pop %eax
	iret

handler:
	nop
	call leaf
	ret

fill:	mov $buffer, %edi
	mov $5, %ecx
	rep stosb
	ret

divide:	xor %edx, %edx
	xor %ecx, %ecx
	div %ecx
	ret

	// continues after the division, which is two bytes long
asm_exc_divide_error:
	addl $2, (%esp)
	iret

	// calls on another stack, as the kernel does for interrupts
elsewhere:
	mov %esp, %ebx
	mov $other_stack, %esp
	call leaf
	mov %ebx, %esp
	ret

	// switches to the task, and the task back
yield:	mov %esp, first
	mov second, %esp
	ret

task:	call leaf
	call back
	hlt

back:	mov %esp, second
	mov first, %esp
	ret

	.section .data
	.align 8
gdt:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_register:
	.word 23
	.long gdt
idt_register:
	.word 8 * 0x41 - 1
	.long idt
pointer:
	.long leaf
first:	.long 0
second:	.long task_stack
	.align 16384
	.space 1024
task_stack:
	.long task
	.align 16384
	.space 1024
other_stack:
	.align 16384
idt:	.space 8 * 0x41
buffer:	.space 8
	.align 16384
	.space 1024
stack:
