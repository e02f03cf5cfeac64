//! Defines the terms of a report, with the sections of the RFCs they come from.
//!
//! Tooltips and the glossary of the page share this list; it defines terms, not columns. Start with
//! [`meaning`].

/// Terms and their meanings, in alphabetical order.
pub(crate) const TERMS: &[(&str, &str)] = &[
    (
        "A/A control",
        "The same DUT measured twice as if it were two. Any difference is an error of the instrument or of the machine.",
    ),
    (
        "apart",
        "Round trip of a cache line between the generator's CPU and the DUT's: where a hypervisor has placed them. Together \
         with the speed of the DUT's CPU it is the state of the machine; figures are for one state, and windows in another \
         state are a separate stratum.",
    ),
    (
        "contended",
        "Windows before or after which the DUT's CPU did not have its full speed, because something outside the test bed used \
         the machine.",
    ),
    (
        "CV",
        "Coefficient of variation: standard deviation over mean, between iterations.",
    ),
    (
        "detectable",
        "The smallest difference that this run would have shown with a probability of 80 %.",
    ),
    (
        "DUT",
        "Device under test: the router or firewall that is measured (RFC 2285 section 3.1.1).",
    ),
    (
        "flows",
        "Distinct pairs of source and destination address; RFC 2544 section 12 requires one and many.",
    ),
    (
        "forwarding rate",
        "Frames per second that came back from the DUT (RFC 2285 section 3.6.1). At the maximum offered load it is FRMOL \
         (section 3.6.2). It is not throughput, which is the highest load without any loss (RFC 1242 section 3.17).",
    ),
    (
        "intended load",
        "Frames per second that the generator tries to send (RFC 2285 section 3.5.1).",
    ),
    (
        "iteration",
        "One repetition of a test case, for statistics.",
    ),
    (
        "loss",
        "Frame loss ratio: frames sent and not received, over frames sent (RFC 1242 section 3.6, RFC 2544 section 26.3).",
    ),
    (
        "not offered",
        "Windows in which the sender stalled and did not send the intended load; they are not used in any result.",
    ),
    (
        "offered load",
        "Frames per second that the generator really sent (RFC 2285 section 3.5.2).",
    ),
    (
        "p",
        "Probability of a difference at least as large as this one if there were none (two-sided Student test).",
    ),
    (
        "plain DUT",
        "The DUT that forwards and does nothing else; the configurations are compared with it.",
    ),
    (
        "quiet",
        "Windows before and after which the DUT's CPU had its full speed and its most common distance from the generator's, by \
         probes that never look at the result.",
    ),
    (
        "rebuild",
        "One build of the whole test bed: all namespaces, links and threads are new, with the configurations in other places. \
         Each rebuild gives a slightly different result.",
    ),
    (
        "size",
        "Frame size in bytes from destination address to FCS, inclusive (RFC 1242 section 3.5, RFC 2544 section 9.1).",
    ),
    (
        "trial",
        "One period of load and the counts after it (RFC 2544 section 23).",
    ),
    (
        "unexplained",
        "Frames that no counter accounts for. Anything but 0 makes the trial invalid.",
    ),
    (
        "ungated",
        "The median over all windows, whatever the state of the machine was.",
    ),
    (
        "used",
        "Iterations with a valid result, of all that were run.",
    ),
    (
        "validity",
        "Whether the trial may be used, and if not, why not. Invalid trials are kept and shown, and left out of statistics.",
    ),
    (
        "95 % interval",
        "Confidence interval of the mean by Student's distribution: 95 of 100 such intervals contain the true value.",
    ),
];

/// Returns the meaning of a term; `None` if it needs no explanation. Plurals are looked up as
/// singulars.
pub(crate) fn meaning(term: &str) -> Option<&'static str> {
    let of = |requested: &str| {
        TERMS
            .iter()
            .find(|(term, _)| *term == requested)
            .map(|(_, meaning)| *meaning)
    };
    of(term).or_else(|| of(term.strip_suffix('s')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_in_order_and_found() {
        let names: Vec<String> = TERMS.iter().map(|(term, _)| term.to_lowercase()).collect();
        let mut sorted = names[..names.len() - 1].to_vec();
        sorted.sort();
        assert_eq!(
            names[..names.len() - 1],
            sorted,
            "all but the number at the end"
        );
        assert!(
            meaning("rebuilds")
                .unwrap()
                .starts_with("One build of the whole test bed")
        );
        assert_eq!(meaning("started"), None);
    }
}
