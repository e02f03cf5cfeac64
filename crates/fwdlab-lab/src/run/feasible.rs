//! Detects what cannot work on the DUT of a plan before anything is built; for `check`, `plan` and
//! `run` alike.
//!
//! Covers only what follows from the kind of the DUT and from its location. Limits of a card or a
//! driver show only on the DUT. Start with [`check`].

use fwdlab_measure::machine::needs_management;
use fwdlab_model::campaign::{Campaign, Case, Counting, On, Procedure};
use fwdlab_model::family::Generated;
use fwdlab_model::management::Request;
use fwdlab_model::test_bed::System;

use super::plan::Plan;
use crate::dut::set::Step;
use crate::dut::{Configuration, SweptParameter};
use crate::error::LabError;
use crate::placement::{self, Placement};

/// Advice if only a test bed of hosts can do it.
const BED: &str = "measure it on a test bed: bed = \"NAME\" in a copy";

/// Rejects a plan that its DUT cannot carry out.
///
/// # Errors
/// Fails with what is impossible and why, with the position in the file.
pub(super) fn check(plan: &Plan) -> Result<(), LabError> {
    let campaign = plan.campaign();
    let is_in_guest = campaign.procedure.counting() == Counting::Instructions;
    if plan.dut().is_some() || is_in_guest || campaign.cases.iter().any(|c| c.image.is_some()) {
        return Ok(());
    }
    let site = plan.site();
    let is_embedded = site.file().is_none();
    let wrong = |at: &[&str], reason: String| Err(campaign.error(at, reason).into());
    if let Err(reason) = have_cpus(&plan.host.placement, campaign.procedure.counting()) {
        return wrong(&["bed", "senders"], reason);
    }
    for need in &campaign.needs {
        if is_embedded && need.starts_with("a test bed ") {
            return wrong(
                &["needs"],
                format!("this is the embedded test bed, and it needs {need}"),
            );
        }
    }
    for case in &campaign.cases {
        let system = match is_embedded {
            true if case.dut.is_vpp() => System::Vpp,
            _ => site.kind(),
        };
        let requested = campaign.needs.iter().find_map(|need| runs(need));
        if let Some(requested) = requested.filter(|requested| *requested != system_name(system)) {
            let reason = format!(
                "its DUT has to run {requested}, and this one is {}",
                said(system)
            );
            return wrong(&["needs"], reason);
        }
        if let Some(applied) = plan.configuration(&case.configuration)
            && let Err(reason) = can_apply(
                system,
                applied,
                site.dut_cpus(),
                is_embedded,
                site.is_local(),
            )
        {
            return wrong(&["configuration", &case.configuration], reason);
        }
        if let Some(swept) = plan.swept_parameter()
            && let Err(reason) = can_set(system, swept)
        {
            return wrong(&["procedure", "sweep"], reason);
        }
        let perf = (campaign.telemetry.as_ref()).and_then(|telemetry| telemetry.perf.as_ref());
        if perf.is_some() && matches!(system, System::Freebsd | System::Bsdrp) {
            let reason = "flame graphs need Linux's perf, and its DUT is FreeBSD: omit perf";
            return wrong(&["telemetry", "perf"], reason.into());
        }
        if let Err(reason) = can_procedure(plan, case, system, is_embedded)? {
            return wrong(&["procedure"], reason);
        }
    }
    Ok(())
}

/// Returns the system in a requirement: `a DUT that runs Linux`, `a test bed whose DUT is FreeBSD
/// (...)`.
fn runs(need: &str) -> Option<&str> {
    let rest = need.strip_prefix("a DUT that runs ");
    let rest = rest.or_else(|| need.strip_prefix("a test bed whose DUT is "))?;
    let name = rest.split(' ').next()?;
    ["Linux", "FreeBSD"].contains(&name).then_some(name)
}

fn system_name(system: System) -> &'static str {
    match system {
        System::Linux => "Linux",
        System::Freebsd | System::Bsdrp => "FreeBSD",
        System::Vpp => "VPP",
        System::None => "",
    }
}

fn said(system: System) -> &'static str {
    match system {
        System::None => "a black box",
        other => system_name(other),
    }
}

/// Checks that senders do not wait for each other while windows are judged by whether they wait.
fn have_cpus(placement: &Placement, counting: Counting) -> Result<(), String> {
    let (cpus, senders) = (placement.generator_cpus.len(), placement.senders);
    match counting {
        Counting::Windows | Counting::Slices if cpus > 0 && cpus < senders as usize => {
            Err(format!(
                "{senders} senders would share {}, which is all that {} of the DUT leaves to them on this machine, and would wait \
                 for each other; say senders = {cpus}, or give the DUT fewer CPUs",
                placement::words(&placement.generator_cpus),
                placement::words(&placement.dut_cpus)
            ))
        }
        _ => Ok(()),
    }
}

fn can_apply(
    system: System,
    configuration: &Configuration,
    cpus: Option<usize>,
    is_embedded: bool,
    is_here: bool,
) -> Result<(), String> {
    let mut steps = configuration.steps().iter();
    match system {
        System::None => Err(
            "fwdlab cannot log in to its DUT to apply a configuration: apply it by hand, and measure without it".into(),
        ),
        System::Vpp => match steps.find(|step| !matches!(step, Step::Shell(_) | Step::Vpp(_))) {
            None => Ok(()),
            Some(_) => Err(
                "a VPP takes lines of its command line: a text, or a file whose name ends with .vpp".into(),
            ),
        },
        System::Freebsd | System::Bsdrp => Ok(()),
        System::Linux => steps.try_for_each(|step| match step {
            Step::Generated(one) => can_generate(one, cpus, is_embedded, is_here),
            _ => Ok(()),
        }),
    }
}

/// Checks whether the DUT can have a generated configuration. A namespace of this machine has no
/// CPUs and no kernel of its own, and on the embedded test bed no cards either. `cpus`: the number
/// of CPUs that the file of a bed of hosts gives the DUT.
fn can_generate(
    one: &Generated,
    cpus: Option<usize>,
    is_embedded: bool,
    is_here: bool,
) -> Result<(), String> {
    let name = one.family.name;
    let of_machine = match name {
        "governor" | "idle-states" | "smt" | "napi-affinity" => true,
        "sysctl" => {
            let setting = one.value("name");
            !setting.starts_with("net.") && !setting.starts_with("net/")
        }
        _ => false,
    };
    let of_cards = match name {
        "irq-affinity" | "ring" | "coalescing" | "rss" | "flow-hash" => true,
        "queues" => one.count("n") > 1,
        // the budget of the poll loop belongs to the whole kernel
        "sysctl" => one
            .value("name")
            .replace('/', ".")
            .starts_with("net.core.netdev_budget"),
        _ => false,
    };
    match name {
        _ if is_here && of_machine => Err(format!(
            "{one} changes the whole machine, but its DUT is a part of this one; {BED}, with a separate DUT host"
        )),
        _ if is_embedded && of_cards => Err(format!(
            "{one} changes network cards and their queues, or the whole kernel, but the embedded test bed has ports of veth; {BED}"
        )),
        "packet-steering" => match cpus {
            Some(known) if (known as u64) < one.count("n") => Err(format!(
                "{one} spreads flows over more CPUs than the {known} that the test bed gives the DUT: list them with cpus in [dut] of its file"
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn can_set(system: System, swept: &SweptParameter) -> Result<(), String> {
    match (system, swept) {
        (_, SweptParameter::Stream | SweptParameter::Units) => Ok(()),
        (System::None, _) => Err(
            "fwdlab cannot log in to its DUT to set what is swept: sweep flows or size, which are the tester's".into(),
        ),
        (System::Vpp | System::Freebsd | System::Bsdrp, SweptParameter::Cores) => Err(format!(
            "the number of CPUs of {} is set when it starts: measure each number in a separate campaign",
            system_name(system)
        )),
        _ => Ok(()),
    }
}

/// Checks the requirements of the procedure and its traffic.
fn can_procedure(
    plan: &Plan,
    case: &Case,
    system: System,
    is_embedded: bool,
) -> Result<Result<(), String>, LabError> {
    let campaign = plan.campaign();
    if !is_embedded && needs_management(&campaign.procedure) {
        return Ok(Err(
            "it queries the DUT over a management port, which a test bed of hosts does not have: set address to the DUT's management address".into(),
        ));
    }
    // a VPP that we start has no namespace but its own
    let has_shell = match system {
        System::None => false,
        System::Vpp => !is_embedded,
        System::Linux | System::Freebsd | System::Bsdrp => true,
    };
    if !has_shell && let Some(requested) = by_shell(campaign, system) {
        return Ok(Err(format!(
            "its DUT is {}, which cannot {requested}",
            said(system)
        )));
    }
    if system != System::None {
        return Ok(Ok(()));
    }
    let streams = campaign.streams(case)?;
    Ok(match plan.traffic(case).routes(&streams)?.len() {
        0 => Ok(()),
        n => Err(format!(
            "its frames need {n} routes of the DUT, which has no login: offer frames that need none"
        )),
    })
}

/// Returns what in a campaign needs the DUT's own shell.
fn by_shell(campaign: &Campaign, system: System) -> Option<&'static str> {
    let prompts = |typed: &String| Request::parse(typed).is_ok_and(|one| !one.is_remote());
    match &campaign.procedure {
        Procedure::Churn(_) => Some("carry out the event"),
        Procedure::Management(p) if p.requests.iter().any(prompts) => Some("be asked by commands"),
        // the meters belong to the DUT's host
        Procedure::Energy(_) if system == System::None => Some("be asked for its power"),
        _ => {
            let mut hooks = campaign.hooks.all();
            let on_dut = hooks.any(|(_, hook)| hook.on == On::Dut);
            on_dut.then_some("run hooks: set on = \"generator\" or \"controller\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Configuration {
        Configuration::parse(text).unwrap()
    }

    #[test]
    fn unsupported_requests_of_a_dut_are_refused_early() {
        let nft = one("nft add table ip t");
        let rules = one("generate:nft-rules,n=3");
        let governor = one("generate:governor,name=performance");
        let two = one("generate:queues,n=2");
        let budget = one("generate:sysctl,name=net.core.netdev_budget,value=64");
        let steering = one("generate:packet-steering,n=2");
        // embedded, a namespace of this machine, a machine of its own
        let places = [(true, true), (false, true), (false, false)];
        // a namespace of this machine has CPUs if its bed gives it some
        let given =
            |is_embedded: bool, is_here: bool| (!is_embedded).then_some(usize::from(is_here) * 2);
        for (configuration, system, expected) in [
            (&nft, System::None, [false; 3]),
            (&nft, System::Vpp, [true; 3]),
            (&rules, System::Vpp, [false; 3]),
            (&rules, System::Linux, [true; 3]),
            (&governor, System::Linux, [false, false, true]),
            (&two, System::Linux, [false, true, true]),
            (&budget, System::Linux, [false, true, true]),
            (&steering, System::Linux, [true, true, false]),
            (&one("generate:queues,n=1"), System::Linux, [true; 3]),
        ] {
            for ((is_embedded, is_here), expected) in places.into_iter().zip(expected) {
                let cpus = given(is_embedded, is_here);
                let can = can_apply(system, configuration, cpus, is_embedded, is_here);
                let name = &configuration.name;
                assert_eq!(
                    can.is_ok(),
                    expected,
                    "{name} {system:?} {is_embedded} {is_here}: {can:?}"
                );
            }
        }
        for (system, swept, expected) in [
            (System::None, SweptParameter::Stream, true),
            (System::None, SweptParameter::Rules, false),
            (System::Vpp, SweptParameter::Rules, true),
            (System::Vpp, SweptParameter::Cores, false),
            (System::Linux, SweptParameter::Cores, true),
        ] {
            assert_eq!(
                can_set(system, &swept).is_ok(),
                expected,
                "{system:?} {swept:?}"
            );
        }
        assert_eq!(runs("a DUT that runs Linux"), Some("Linux"));
        assert_eq!(
            runs("a test bed whose DUT is FreeBSD (bed = \"NAME\" in a copy)"),
            Some("FreeBSD")
        );
        assert_eq!(runs("a test bed with a separate DUT host"), None);
    }
}
