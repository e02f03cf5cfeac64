//! Samples of a real machine from `perf script`: converts them to the same call paths as the counts
//! of an emulator.
//!
//! ```text
//! ksoftirqd/0    14 [000]  7532.101:     250000 cycles:
//!         ffffffff9a1 ip_forward+0x91 ([kernel.kallsyms])
//!         ffffffff9a0 ip_rcv+0x4c ([kernel.kallsyms])
//! ```
//!
//! Every sample counts once, regardless of its period. Functions of programs that are not the DUT
//! have the name of the program after [`PROGRAM`]; threads of the kernel are not told apart: the
//! cost of a function includes all of them. Start with [`read`].

use super::{SEPARATOR, Stacks, StacksError};

/// perf's name for an unknown function.
const UNKNOWN: &str = "[unknown]";

/// Stands between a function and the program that it belongs to: `poll @sshd`.
pub const PROGRAM: &str = " @";

/// Beginning of the names of VPP's threads. As a DUT it is a program, too.
const VPP: &str = "vpp";

/// Returns true if this is the output of `perf script`. Lines of folded stacks begin with a
/// function.
pub fn is_perf(text: &str) -> bool {
    text.lines().any(|line| line.starts_with([' ', '\t']))
}

/// Parses the samples of `perf script`, one for each block of lines with a call path. Functions of
/// the kernel have the names of its `/proc/kallsyms`: those of a module include its name.
///
/// # Errors
/// If a line of a call path has no function.
pub fn read(text: &str) -> Result<Stacks, StacksError> {
    let mut stacks = Stacks::default();
    // from the executed function to its callers
    let mut path: Vec<String> = Vec::new();
    let mut program = String::new();
    // an empty line ends a sample, and so does the end of the text
    for (index, line) in text.lines().chain(std::iter::once("")).enumerate() {
        if line.trim().is_empty() {
            stacks.sample(&mut path);
        } else if line.starts_with([' ', '\t']) && !is_head(line) {
            let cause = "a line of a call path is `ADDRESS FUNCTION+OFFSET (OBJECT)`";
            let name = function(line, &program).ok_or(StacksError {
                line: index + 1,
                reason: cause,
            })?;
            path.push(name);
        } else if !line.starts_with('#') {
            // the header of the next sample, without an empty line before it
            stacks.sample(&mut path);
        }
        if is_head(line) {
            program = program_of(line);
        }
    }
    Ok(stacks)
}

impl Stacks {
    fn sample(&mut self, path: &mut Vec<String>) {
        if path.is_empty() {
            return;
        }
        path.reverse();
        let names = path.join(&SEPARATOR.to_string());
        *self.paths.entry(names).or_default() += 1;
        self.total += 1;
        path.clear();
    }
}

/// Names of programs are aligned to the right, so a header may begin with blanks, too. It ends with
/// the name of an event.
fn is_head(line: &str) -> bool {
    line.trim_end().ends_with(':')
}

/// Returns the name of the program in a header, which ends before the number of its thread.
fn program_of(head: &str) -> String {
    let words = head.split_whitespace();
    let name = words.take_while(|word| word.parse::<u32>().is_err());
    let name = name.collect::<Vec<_>>().join(" ");
    name.replace(SEPARATOR, ":")
}

/// `ffffffff9a1 nft_do_chain+0x6d ([nf_tables])` is `nft_do_chain [nf_tables]`.
fn function(line: &str, program: &str) -> Option<String> {
    let (address, rest) = line.trim().split_once(' ')?;
    let is_address = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit());
    let (name, object) = match rest.rsplit_once(" (") {
        Some((name, object)) => (name, object.strip_suffix(')')?),
        None => (rest, ""),
    };
    let name = match name.rsplit_once("+0x") {
        Some((name, _)) => name,
        None => name,
    };
    if !is_address || name.trim().is_empty() {
        return None;
    }
    let is_module = object.starts_with('[') && object.ends_with(']');
    let is_kernel = object.starts_with("[kernel") || object.starts_with("[guest.kernel");
    // `;` separates functions
    let name = name.replace(SEPARATOR, ":");
    let is_program = object.starts_with('/') && !program.starts_with(VPP);
    Some(match is_module && !is_kernel && name != UNKNOWN {
        true => format!("{name} {object}"),
        false if is_program => format!("{name}{PROGRAM}{program}"),
        false => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# ========\n# captured on: x\n\
        ksoftirqd/0    14 [000]  7532.101:     250000 cycles: \n\
        \tffffffffc05d nft_do_chain+0x6d ([nf_tables])\n\
        \tffffffff9a1b ip_forward+0x91 ([kernel.kallsyms])\n\
        \tffffffff9a00 ip_rcv+0x4c ([kernel.kallsyms])\n\
        \n\
            swapper     0 [001]  7532.102:     250000 cycles:\n\
        \tffffffff9a1b ip_forward+0x11 ([kernel.kallsyms])\n\
        \tffffffff9a00 ip_rcv+0x4c ([kernel.kallsyms])\n\
        \n\
        perf 9 7532.103: 1 cycles:\n\
        \n\
        perf 9 7532.104: 1 cycles:\n\
        \t    7f12 [unknown] (/usr/lib/libc.so.6)\n";

    #[test]
    fn samples_become_the_paths_of_a_flame_graph() {
        assert!(is_perf(TEXT) && !is_perf("ip_rcv;ip_forward 3\n"));
        let stacks = read(TEXT).unwrap();
        assert_eq!(stacks.total(), 3);
        assert_eq!(
            stacks.to_string(),
            "[unknown] @perf 1\nip_rcv;ip_forward 1\nip_rcv;ip_forward;nft_do_chain [nf_tables] 1\n"
        );
        assert_eq!(stacks.to_string().parse::<Stacks>().unwrap(), stacks);
    }

    #[test]
    fn functions_of_the_dut_have_no_program() {
        let of = |head: &str| {
            let text =
                format!("{head} 77 [001] 1.0: 1 cycles:\n\t7f poll+0x1 (/usr/lib/libc.so.6)\n");
            read(&text).unwrap().to_string()
        };
        assert_eq!(of("tmux: server"), "poll @tmux: server 1\n");
        assert_eq!(of("  vpp_wk_0"), "poll 1\n");
    }

    #[test]
    fn a_line_without_a_function_is_reported() {
        let reason = read("a 1 1.0: 1 cycles:\n\tno address here (x)\n").unwrap_err();
        assert_eq!(reason.line, 2);
        assert_eq!(read("").unwrap().total(), 0);
    }
}
