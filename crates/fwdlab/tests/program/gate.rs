//! A regression that is planted in a pull request: `gate` names the function, and finds nothing
//! where nothing changed.
//!
//! Needs QEMU, compilers, and a kernel and its headers from the archive, but no privileges. Start
//! with [`in_guests`].

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::exact::{IMAGE, emulated, functions};
use crate::schedulers::{cannot_boot, documents, recipe, step, steps};
use crate::support::{Lab, number, read_json, runs_long, skipped, tool, try_tool};

/// Compiles a program for XDP and tc: `old.o`, and `new.o` with 50 rounds more. Returns false,
/// after a message, if that is not possible here.
pub fn compiled(lab: &Lab) -> bool {
    if try_tool(&["clang", "--version"]).is_err() {
        skipped("no clang");
        return false;
    }
    lab.write("pass.bpf.c", include_str!("gate.bpf.c"));
    for (object, flags) in [("old.o", ""), ("new.o", "-DROUNDS=50")] {
        let clang = format!(
            "cd {} && clang -O2 -g -target bpf -I/usr/include/{}-linux-gnu {flags} -c pass.bpf.c -o {object}",
            lab.path().display(),
            std::env::consts::ARCH
        );
        tool(&["sh", "-c", &clang]);
    }
    true
}

mod in_guests {
    use super::*;

    /// Runs `gate` with these arguments. Returns the document; `None`, after a message, if the
    /// archive does not answer.
    fn gated(lab: &Lab, arguments: &[&str], code: i32) -> Option<Value> {
        let common = ["gate", "--frames", "3200", "--by", "2%", "--json"];
        let command = lab.program(&[&common, arguments].concat());
        Some(emulated(lab, command)?.code(code).document())
    }

    /// Returns the proven difference of a test case in instructions per frame; `None` if none is
    /// proven.
    fn proven(document: &Value, case: usize) -> Option<f64> {
        let difference = &document["test_cases"][case]["outcomes"][0]["found"]["difference"];
        let is_proven = difference["proven"].as_bool().unwrap();
        is_proven.then(|| number(&difference["instructions_per_frame"]))
    }

    /// Returns the functions of the base and of the head, which are the first two test cases.
    fn both_functions(document: &Value) -> [BTreeMap<String, f64>; 2] {
        [0, 1].map(|at| functions(&document["test_cases"][at]))
    }

    /// The 50 rounds take as many instructions as the program's own code has more of; the function
    /// is in everything that a pull request shows. `exact` tests XDP, with `FWDLAB_LONG=1`.
    #[test]
    fn a_regression_in_an_ebpf_program_is_found_with_its_function() {
        let lab = Lab::new();
        if !compiled(&lab) {
            return;
        }
        let [old, new] = ["old", "new"].map(|object| format!("{object}.o:tc/ingress"));
        let arguments = ["--vm", IMAGE, "--base", &old, "--head", &new];
        let Some(document) = gated(&lab, &arguments, 6) else {
            return;
        };
        let more = proven(&document, 1).unwrap();
        assert!((100.0..1000.0).contains(&more), "{more}");
        let [before, after] = both_functions(&document);
        let function = "bpf_prog_look [bpf]";
        own_function(function, more, &before, &after);
        for format in ["github", "markdown", "junit"] {
            let shown = lab
                .run(&format!("report @1 --format {format}"))
                .code(0)
                .out
                .replace('\\', "");
            assert!(
                after.is_empty() || shown.contains(function),
                "{format}: {shown}"
            );
        }
        // a name that no file has is no command of the guest's
        lab.run("gate --vm debian:none --base plain --head none.o:xdp")
            .code(2)
            .says(&["none.o: No such file"]);
    }

    /// Twenty rules more, none of which matches, judged by the recipe for a pull request.
    #[test]
    fn a_longer_rule_set_is_found_by_the_recipe_for_github() {
        if !runs_long("the recipe for a pull request") {
            return;
        }
        let Some(workflow) = documents(&recipe("github-gate.yml")) else {
            return;
        };
        let [judge, show] = &steps(&workflow[0], "gate")[..] else {
            panic!("{workflow:?}");
        };
        let lab = Lab::new();
        for (side, rules) in [("base", 1), ("head", 21)] {
            let rules = (1..=rules).map(|n| format!("ip saddr 10.0.0.{n} drop; "));
            let rules: String = rules.collect();
            std::fs::create_dir(lab.path().join(side)).unwrap();
            lab.write(
                &format!("{side}/firewall.nft"),
                &format!(
                    "table ip t {{ chain f {{ type filter hook forward priority 0; {rules}}}; }}\n"
                ),
            );
        }
        let variables = [
            ("FWDLAB_RUNS", "runs"),
            ("IMAGE", IMAGE),
            ("GITHUB_STEP_SUMMARY", "summary.md"),
        ];
        let judged = step(&lab, lab.path(), judge, &variables);
        if cannot_boot(&judged.err) {
            return;
        }
        judged.code(6);
        step(&lab, lab.path(), show, &variables).code(0);
        let document = read_json(&lab.path().join("bencher.json"));
        assert_eq!(document.as_object().unwrap().len(), 2, "{document}");
        let text = |file: &str| std::fs::read_to_string(lab.path().join(file)).unwrap();
        if !text("report.html").contains("nft_do_chain") {
            return skipped("no C compiler for the plugin of the emulator");
        }
        for file in ["summary.md", "comment.md", "junit.xml"] {
            let shown = text(file).replace('\\', "");
            assert!(
                shown.contains("nft_do_chain [nf_tables]"),
                "{file}: {shown}"
            );
        }
    }

    /// One image has the module as it was, the other one with the regression; both boot without it,
    /// too, and take the same then.
    #[test]
    fn a_regression_in_a_module_is_found_with_its_function() {
        if !runs_long("a regression in a module") {
            return;
        }
        for program in ["qemu-system-x86_64", "make", "gcc", "apt-get", "depmod"] {
            if try_tool(&[program, "--version"]).is_err() {
                return skipped(&format!("no {program}"));
            }
        }
        let lab = Lab::new();
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bisect/module-image");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("module-image");
        let mut images = Vec::new();
        for (version, flags) in [("old", ""), ("new", "-DROUNDS=50")] {
            let folder = lab.path().join(version);
            std::fs::create_dir(&folder).unwrap();
            lab.write(&format!("{version}/step.c"), include_str!("gate_step.c"));
            let makefile = format!("obj-m := step.o\nccflags-y := {flags}\n");
            lab.write(&format!("{version}/Makefile"), &makefile);
            let mut build = Command::new(&script);
            let build = build
                .env("KEPT", &kept)
                .current_dir(&folder)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&build.stderr);
            // what it fetches is kept as a whole or not at all
            if !std::fs::read_dir(&kept)
                .is_ok_and(|mut all| all.any(|one| is_kernel(&one.unwrap())))
            {
                return skipped(&format!("the archive does not answer: {}", said.trim()));
            }
            assert!(build.status.success(), "{said}");
            images.push(format!(
                "{version}/image/boot/vmlinuz,modules={version}/image"
            ));
        }
        let arguments = [
            "--base",
            &images[0],
            "--head",
            &images[1],
            "--with",
            "modprobe step",
        ];
        let Some(document) = gated(&lab, &arguments, 6) else {
            return;
        };
        let cases = document["test_cases"].as_array().unwrap();
        let of = |image: &str, with: &str| {
            let labels = |case: &Value| [case["image"].clone(), case["configuration"].clone()];
            let found = cases.iter().position(|case| labels(case) == [image, with]);
            found.unwrap_or_else(|| panic!("{image} {with}: {cases:#?}"))
        };
        assert_eq!(proven(&document, of(&images[1], "plain")), None);
        let [base, head] = [0, 1].map(|at| of(&images[at], "modprobe step"));
        // two instructions in each round
        let more = proven(&document, head).unwrap();
        assert!((95.0..120.0).contains(&more), "{more}");
        let [before, after] = [base, head].map(|at| functions(&cases[at]));
        own_function("planted_loop [step]", more, &before, &after);

        // the same head against that base in a file
        let mut baseline = document.clone();
        let kept = baseline["test_cases"].as_array_mut().unwrap();
        kept.retain(|case| case["image"] == images[0]);
        lab.write("baseline.json", &baseline.to_string());
        let again = [&["--base-run", "baseline.json"], &arguments[2..]].concat();
        let document = gated(&lab, &again, 6).unwrap();
        // what tools that track benchmarks read
        let cases = document["test_cases"].as_array().unwrap();
        let slower = cases
            .iter()
            .find(|case| case["image"] == images[1] && case["configuration"] == "modprobe step")
            .unwrap();
        let figure = number(&slower["figures"][0]["median"]);
        let name = slower["test_case"].as_str().unwrap();
        let bencher = lab.run("report @1 --format bencher").code(0).document();
        let measure = &bencher[name]["instructions-per-frame"];
        assert_eq!(number(&measure["value"]), figure, "{bencher}");
        assert!(
            number(&measure["lower_value"]) < figure && figure < number(&measure["upper_value"])
        );
        let entries = lab.run("report @1 --format benchmark").code(0).document();
        let mut entries = entries.as_array().unwrap().iter();
        let entry = entries
            .find(|one| one["name"].as_str().unwrap().contains(name))
            .unwrap();
        assert_eq!(
            (number(&entry["value"]), &entry["unit"]),
            (figure, &Value::from("instructions/frame"))
        );
    }

    fn is_kernel(kept: &std::fs::DirEntry) -> bool {
        kept.path().join("boot").exists()
    }

    /// Checks that the difference is that of one function, where there are profiles.
    fn own_function(
        name: &str,
        more: f64,
        before: &BTreeMap<String, f64>,
        after: &BTreeMap<String, f64>,
    ) {
        if before.is_empty() {
            return skipped("no C compiler for the plugin of the emulator");
        }
        let own = after[name] - before.get(name).unwrap_or(&0.0);
        assert!((own - more).abs() < 12.0, "{own} of {more}");
    }
}
