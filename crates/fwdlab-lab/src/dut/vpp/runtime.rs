//! VPP's report of its own work: parses `show runtime`.
//!
//! Returns every node of every thread with its calls, frames and clocks, and the rates above them.
//! Runs no commands, and derives no figures. Start with [`parse`].

use fwdlab_model::efficiency::Node;

/// One thread of VPP.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// Its name; `vpp_main` if it is the only thread, which has no heading.
    pub name: String,
    /// Seconds since the counters were cleared.
    pub time_s: f64,
    /// Frames per call of nodes behind the input, over the last seconds.
    pub internal_vector_rate: f64,
    /// Rounds of its loop per second.
    pub loops_per_s: f64,
    /// Frames per second received, sent, dropped and punted.
    pub rates: Rates,
    /// Its nodes that did anything, in VPP's order, sorted by name.
    pub nodes: Vec<Counts>,
}

/// Rates of a thread in frames per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Received.
    pub input: f64,
    /// Sent.
    pub output: f64,
    /// Dropped.
    pub drop: f64,
    /// Passed to another program.
    pub punt: f64,
}

/// A row: a node or a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Its name, of which VPP prints 30 characters.
    pub node: String,
    /// `active`, `polling`, `interrupt wa`, `event wait` and others.
    pub state: String,
    /// Number of calls.
    pub calls: u64,
    /// Frames that passed through it.
    pub vectors: u64,
    /// Number of suspensions.
    pub suspends: u64,
    /// Clocks per frame; per call if there was no frame, and per suspension for a process.
    pub clocks: f64,
    /// Frames per call.
    pub vectors_per_call: f64,
}

impl Counts {
    /// Returns true if frames enter VPP at this node.
    fn is_input(&self) -> bool {
        self.state == "polling" || self.state.starts_with("interrupt")
    }
}

/// Parses the output. `Err` has the line that is not understood.
pub fn parse(text: &str) -> Result<Vec<Thread>, String> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut name = None;
    for line in text.lines().map(str::trim_end) {
        let wrong = || line.to_owned();
        if line.is_empty() || line.starts_with("---") {
            continue;
        }
        if let Some(heading) = line.strip_prefix("Thread ") {
            // `Thread 1 vpp_wk_0 (lcore 1)`
            name = heading.split_whitespace().nth(1).map(str::to_owned);
        } else if line.starts_with("Time ") {
            let numbers = numbers(line);
            let [time_s, _, internal_vector_rate, loops_per_s] = numbers[..] else {
                return Err(wrong());
            };
            threads.push(Thread {
                name: name.take().unwrap_or_else(|| "vpp_main".into()),
                time_s,
                internal_vector_rate,
                loops_per_s,
                ..Thread::default()
            });
        } else if line.trim_start().starts_with("vector rates ") {
            let (Some(thread), [input, output, drop, punt]) =
                (threads.last_mut(), &numbers(line)[..])
            else {
                return Err(wrong());
            };
            thread.rates = Rates {
                input: *input,
                output: *output,
                drop: *drop,
                punt: *punt,
            };
        } else if line.trim_start().starts_with("Name ") {
            // the column heads
        } else {
            let thread = threads.last_mut().ok_or_else(wrong)?;
            thread.nodes.push(row(line).ok_or_else(wrong)?);
        }
    }
    match threads.is_empty() {
        true => Err(text.lines().next().unwrap_or("nothing").to_owned()),
        false => Ok(threads),
    }
}

/// Returns the numbers in a line of words and commas: `.7,` is one.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split_whitespace();
    words
        .filter_map(|word| word.trim_end_matches(',').parse().ok())
        .collect()
}

/// Parses `af-packet-input               interrupt wa     12     3000     0     2.56e2     250.00`:
/// the name takes 30 characters and the state at least 16; there is no space between them if the
/// name fills its column.
fn row(line: &str) -> Option<Counts> {
    // the widths of numbers vary, but each is a word: parse from the end
    let mut words: Vec<&str> = Vec::new();
    let mut rest = line;
    while words.len() < 5 {
        let trimmed = rest.trim_end();
        let at = trimmed.rfind(' ')?;
        words.push(&trimmed[at + 1..]);
        rest = &trimmed[..at];
    }
    let [per_call, clocks, suspends, vectors, calls] = words[..] else {
        return None;
    };
    let rest = rest.trim_end();
    let at = (rest.len() > NAME && rest.is_char_boundary(NAME)).then_some(NAME)?;
    let (node, state) = rest.split_at(at);
    Some(Counts {
        node: node.trim().to_owned(),
        state: state.trim().trim_matches('"').to_owned(),
        calls: calls.parse().ok()?,
        vectors: vectors.parse().ok()?,
        suspends: suspends.parse().ok()?,
        clocks: clocks.parse().ok()?,
        vectors_per_call: per_call.parse().ok()?,
    })
}

/// Number of characters of a name that are printed.
const NAME: usize = 30;

/// Returns the nodes through which frames passed.
pub fn nodes(threads: &[Thread]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for thread in threads {
        let used = thread.nodes.iter().filter(|node| node.vectors > 0);
        nodes.extend(used.map(|node| Node {
            thread: thread.name.clone(),
            node: node.node.clone(),
            is_input: node.is_input(),
            calls: node.calls,
            vectors: node.vectors,
            clocks: node.clocks * node.vectors as f64,
        }));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of VPP 26.10 with a forwarding thread in addition to the main thread, after 3,000
    /// frames through an ACL.
    const WORKER: &str = include_str!("recorded/runtime-worker.txt");

    /// The same with the main thread alone, which dropped 24 frames in 110 s.
    const MAIN: &str = include_str!("recorded/runtime-main.txt");

    #[test]
    fn threads_and_nodes_are_parsed_from_vpp_output() {
        let threads = parse(WORKER).unwrap();
        let names: Vec<&str> = threads.iter().map(|thread| &*thread.name).collect();
        assert_eq!(names, ["vpp_main", "vpp_wk_0"]);
        let worker = &threads[1];
        assert_eq!((worker.time_s, worker.internal_vector_rate), (0.5, 166.67));
        assert_eq!(worker.loops_per_s, 19_893_420.13);
        assert_eq!((worker.rates.input, worker.rates.drop), (5555.5, 0.0));
        let of = |name: &str| worker.nodes.iter().find(|n| n.node == name).unwrap();
        let input = of("af-packet-input");
        assert_eq!((input.calls, input.vectors), (12, 3000));
        assert_eq!((input.clocks, input.vectors_per_call), (256.0, 250.0));
        // a name that fills its column
        let cleaner = of("acl-plugin-fa-worker-cleaner-p");
        assert_eq!(
            (&*cleaner.state, cleaner.calls, cleaner.clocks),
            ("interrupt wa", 1, 10_800.0)
        );

        let nodes = nodes(&threads);
        assert_eq!(nodes.len(), 8, "processes and idle nodes had no frame");
        let inputs: Vec<&str> = nodes
            .iter()
            .filter_map(|node| node.is_input.then_some(&*node.node))
            .collect();
        assert_eq!(inputs, ["af-packet-input"]);
        assert!(nodes.iter().all(|node| node.vectors == 3000));
        let lookup = nodes.iter().find(|n| n.node == "ip4-lookup").unwrap();
        assert_eq!((lookup.clocks_per_packet(), lookup.calls), (45.7, 18));
    }

    #[test]
    fn a_single_thread_has_no_heading() {
        let threads = parse(MAIN).unwrap();
        assert_eq!(threads.len(), 1);
        assert_eq!((&*threads[0].name, threads[0].time_s), ("vpp_main", 109.6));
        let process = &threads[0].nodes[0];
        assert_eq!(
            (&*process.node, &*process.state, process.suspends),
            ("acl-plugin-fa-cleaner-process", "event wait", 1)
        );
        let input = nodes(&threads).remove(0);
        assert!(input.is_input && input.clocks_per_packet() > 1e10);
    }

    #[test]
    fn malformed_runtime_output_is_reported() {
        let unknown = "unknown input `show runtim'";
        assert_eq!(parse(unknown).unwrap_err(), unknown);
        assert_eq!(parse("").unwrap_err(), "nothing");
        let torn = WORKER.replace("               18            3000", "   many");
        assert!(parse(&torn).unwrap_err().contains("many"));
    }
}
