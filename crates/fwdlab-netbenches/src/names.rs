//! Parses the names of files: the run that a log belongs to, and the kinds of other files.
//!
//! `bench[.IMAGE][.CONFIGURATION][.TRAFFIC].ITERATION.receiver` is ambiguous, because each part may
//! contain dots: the `.info` file resolves it, otherwise the whole name becomes one label. Start
//! with [`Name::parse`].

use std::collections::BTreeMap;

use super::info::Info;

/// The kind of a file, from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A receiver's log.
    Receiver,
    /// A sender's log, the first or a further one.
    Sender,
    /// Facts of a series of runs.
    Info,
    /// One number per run.
    Pps,
    /// One number per run, by the equilibrium method.
    Equilibrium,
    /// The largest values seen by the equilibrium method.
    EquilibriumMax,
    /// Median, minimum, maximum per test case.
    Plotted,
    /// Prose, possibly with ministat blocks.
    Readme,
    /// A profile recorded during a run.
    Profile,
    /// Output of a command before, during or after a run.
    Hook,
    /// A configuration of the lab.
    LabConfiguration,
    /// Pictures, plot scripts, other files without figures.
    Picture,
    /// An unknown kind.
    Other,
}

/// A parsed file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Its kind.
    pub kind: Kind,
    /// The test case it belongs to; empty if it belongs to none.
    pub case: String,
    /// The run, if the name contains a number.
    pub iteration: Option<u32>,
    /// The digits of that number, which determine the order by name.
    pub digits: String,
}

/// Suffixes of names; the first match counts.
const ENDINGS: [(&str, Kind); 34] = [
    (".receiver", Kind::Receiver),
    (".sender", Kind::Sender),
    (".sender_2", Kind::Sender),
    (".sender_gen2", Kind::Sender),
    (".sender_gen2_2", Kind::Sender),
    (".sender2", Kind::Sender),
    (".info", Kind::Info),
    (".pps", Kind::Pps),
    (".equilibrium.max", Kind::EquilibriumMax),
    (".equilibrium", Kind::Equilibrium),
    (".pmc.out", Kind::Profile),
    (".pmc.graph", Kind::Profile),
    (".pmc.stack", Kind::Profile),
    (".pmc.log", Kind::Profile),
    (".stats.data", Kind::Profile),
    (".stats.log", Kind::Profile),
    (".graph", Kind::Profile),
    (".stack", Kind::Profile),
    (".before", Kind::Hook),
    (".during", Kind::Hook),
    (".after", Kind::Hook),
    (".data", Kind::Plotted),
    (".data.max", Kind::Plotted),
    (".md", Kind::Readme),
    (".txt", Kind::Readme),
    (".ministat", Kind::Readme),
    (".config", Kind::LabConfiguration),
    (".svg", Kind::Picture),
    (".png", Kind::Picture),
    (".jpg", Kind::Picture),
    (".plt", Kind::Picture),
    (".plot", Kind::Picture),
    (".gif", Kind::Picture),
    (".pdf", Kind::Picture),
];

impl Name {
    /// Parses a name. The caller replaces bytes that are not UTF-8.
    pub fn parse(name: &str) -> Name {
        let plain = |kind, case: &str| Name {
            kind,
            case: case.to_owned(),
            iteration: None,
            digits: String::new(),
        };
        if name.to_ascii_lowercase().starts_with("readme") {
            return plain(Kind::Readme, "");
        }
        // 2015: pps.one-route
        if let Some(case) = name.strip_prefix("pps.").filter(|case| !case.is_empty()) {
            return plain(Kind::Pps, case);
        }
        let Some((stem, kind)) = ENDINGS
            .iter()
            .find_map(|(ending, kind)| Some((name.strip_suffix(ending)?, *kind)))
        else {
            return plain(Kind::Other, "");
        };
        let stem = stem.strip_prefix("bench.").unwrap_or(stem);
        match kind {
            Kind::Receiver | Kind::Sender | Kind::Profile | Kind::Hook => {
                let (case, last) = match stem.rsplit_once('.') {
                    Some((case, last)) => (case, last),
                    None => ("", stem),
                };
                let number = (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
                    .then(|| last.parse().ok())
                    .flatten();
                match number {
                    Some(iteration) => Name {
                        kind,
                        case: if case == "bench" { "" } else { case }.to_owned(),
                        iteration: Some(iteration),
                        digits: last.to_owned(),
                    },
                    None => plain(kind, stem),
                }
            }
            _ => plain(kind, stem),
        }
    }
}

/// Returns the labels of a test case, and doubts about them.
///
/// With an `.info` file that matches the name: its parts as labels. With one that does not, the end
/// of the name is still its traffic if it equals that of the file or an IP version: the series of a
/// set stay comparable. Otherwise the archive does not define the parts, and the whole name becomes
/// the label `name`.
pub fn labels(case: &str, info: Option<&Info>) -> (BTreeMap<String, String>, Option<String>) {
    let mut labels = BTreeMap::new();
    let mut label = |key: &str, value: &str| {
        if !value.is_empty() {
            labels.insert(key.to_owned(), value.to_owned());
        }
    };
    let mut doubt = None;
    let divided = info.map(|info| (split(case, info), by_suffix(case, info)));
    match divided {
        Some((Some([image, configuration, traffic]), _)) => {
            label("image", image);
            label("configuration", configuration);
            label("traffic", traffic);
        }
        Some((None, Some((configuration, traffic)))) => {
            label("configuration", configuration);
            label("traffic", traffic);
            doubt = Some(
                "its .info file does not match its name, which was divided at its suffix"
                    .to_owned(),
            );
        }
        _ => label("name", case),
    }
    (labels, doubt)
}

/// Splits off the last part of a name, if it can only be traffic.
fn by_suffix<'a>(case: &'a str, info: &Info) -> Option<(&'a str, &'a str)> {
    let known = info.traffic.as_deref().into_iter();
    let (before, traffic) = known
        .chain(["inet4", "inet6"])
        .find_map(|traffic| Some((ends_with_part(case, traffic)?, traffic.len())))?;
    (!before.is_empty()).then(|| (before, &case[case.len() - traffic..]))
}

/// Splits a name such as `295802.fast.forwarding.inet6` into image, configuration and traffic, as
/// far as the `.info` file determines them: its parts must appear in order.
fn split<'a>(case: &'a str, info: &Info) -> Option<[&'a str; 3]> {
    let mut rest = case;
    let mut traffic = "";
    if let Some(name) = &info.traffic {
        let before = ends_with_part(rest, name)?;
        traffic = &rest[rest.len() - name.len()..];
        rest = before;
    }
    match (&info.image, &info.configuration) {
        (None, None) if rest.is_empty() => Some(["", "", traffic]),
        (None, None) => None,
        (None, Some(name)) => (rest == name).then_some(["", rest, traffic]),
        // The name contains a short form of the image, such as its second part between `-`.
        (Some(_), None) => Some([rest, "", traffic]),
        (Some(_), Some(name)) => {
            let image = ends_with_part(rest, name)?;
            Some([image, &rest[rest.len() - name.len()..], traffic])
        }
    }
}

/// Returns what is before `part`, if the name ends with it as a whole part.
fn ends_with_part<'a>(name: &'a str, part: &str) -> Option<&'a str> {
    let before = name.strip_suffix(part)?;
    if before.is_empty() {
        Some(before)
    } else {
        before.strip_suffix('.')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_all_years() {
        for (name, kind, case, iteration) in [
            ("bench.bridge.1.receiver", Kind::Receiver, "bridge", Some(1)),
            ("bench.4.1.receiver", Kind::Receiver, "4", Some(1)),
            ("bench.1.sender", Kind::Sender, "", Some(1)),
            (
                "bench.295802D5330.fastforwarding.10.sender_gen2_2",
                Kind::Sender,
                "295802D5330.fastforwarding",
                Some(10),
            ),
            (
                "bench.MAIN_n268154.forwarding.inet6.1.receiver",
                Kind::Receiver,
                "MAIN_n268154.forwarding.inet6",
                Some(1),
            ),
            (
                "bench.simple_tx_on.rate380k.during",
                Kind::Hook,
                "simple_tx_on.rate380k",
                None,
            ),
            ("bench.bridge.1.pmc.graph", Kind::Profile, "bridge", Some(1)),
            (
                "bench.a b\n.c.2.receiver",
                Kind::Receiver,
                "a b\n.c",
                Some(2),
            ),
            ("odd.receiver", Kind::Receiver, "odd", None),
            (
                "bench.x.99999999999.receiver",
                Kind::Receiver,
                "x.99999999999",
                None,
            ),
            ("bench.receiver", Kind::Receiver, "bench", None),
            (".receiver", Kind::Receiver, "", None),
        ] {
            let found = Name::parse(name);
            assert_eq!(
                (found.kind, &found.case[..], found.iteration),
                (kind, case, iteration),
                "{name}"
            );
        }
    }

    #[test]
    fn figures_and_others() {
        for (name, kind, case) in [
            ("pps.one-route", Kind::Pps, "one-route"),
            ("vlan.inet4.pps", Kind::Pps, "vlan.inet4"),
            ("x.equilibrium", Kind::Equilibrium, "x"),
            ("x.equilibrium.max", Kind::EquilibriumMax, "x"),
            ("gnuplot.data", Kind::Plotted, "gnuplot"),
            ("gnuplot.data.max", Kind::Plotted, "gnuplot"),
            ("bench.bridge.info", Kind::Info, "bridge"),
            ("README", Kind::Readme, ""),
            ("Readme.md", Kind::Readme, ""),
            ("notes.txt", Kind::Readme, "notes"),
            (
                "bench-lab-2nodes.config",
                Kind::LabConfiguration,
                "bench-lab-2nodes",
            ),
            ("rc.conf", Kind::Other, ""),
            ("", Kind::Other, ""),
        ] {
            let found = Name::parse(name);
            assert_eq!((found.kind, &found.case[..]), (kind, case), "{name}");
        }
    }

    #[test]
    fn parts_of_names_are_split_by_the_info_file() {
        let info = |image: &str, configuration: &str, traffic: &str| Info {
            image: (!image.is_empty()).then(|| image.to_owned()),
            configuration: (!configuration.is_empty()).then(|| configuration.to_owned()),
            traffic: (!traffic.is_empty()).then(|| traffic.to_owned()),
            ..Info::default()
        };
        let of = |case: &str, info: Option<Info>| -> String {
            let labels = labels(case, info.as_ref()).0;
            let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            pairs.join(" ")
        };
        assert_eq!(
            of("vlan.inet4", Some(info("", "vlan", "inet4"))),
            "configuration=vlan traffic=inet4"
        );
        assert_eq!(
            of("vlan.inet4", Some(info("", "vlan.inet4", ""))),
            "configuration=vlan.inet4"
        );
        assert_eq!(
            of(
                "r1.fast.fw.inet6",
                Some(info("BSDRP-r1-upgrade.img", "fast.fw", "inet6"))
            ),
            "configuration=fast.fw image=r1 traffic=inet6"
        );
        // without a file, nothing is assumed
        assert_eq!(of("vlan.inet4", None), "name=vlan.inet4");
        // with a wrong file, the end of the name still shows the traffic
        let wrong = Some(info("", "harvest_mask", "inet4"));
        for (case, expect) in [
            ("4479.inet4", "configuration=4479 traffic=inet4"),
            ("4479.inet6", "configuration=4479 traffic=inet6"),
            ("351.inet6", "configuration=351 traffic=inet6"),
            ("4479", "name=4479"),
            ("inet4", "name=inet4"),
        ] {
            assert_eq!(of(case, wrong.clone()), expect);
            let is_told = labels(case, wrong.as_ref()).1.is_some();
            assert_eq!(is_told, expect.contains("traffic"), "{case}");
        }
        assert_eq!(
            of("vlan.udp", Some(info("", "other", "udp"))),
            "configuration=vlan traffic=udp"
        );
        assert_eq!(of("", None), "");
    }
}
