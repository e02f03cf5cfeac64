//! The catalogue: every entry is checked and planned, one is copied and measured, and the manual lists what there is.

use serde_json::Value;

use crate::support::{Lab, list, root};

fn entries(lab: &Lab) -> Vec<Value> {
    let ended = lab.run(&["run", "--list", "--json"]);
    let all: Value = serde_json::from_str(&ended.code(0).out).unwrap();
    list(&all).to_vec()
}

#[test]
fn every_entry_is_checked_planned_and_in_the_manual() {
    let lab = Lab::new();
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/catalogue.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let entries = entries(&lab);
    assert!(entries.len() > 15);
    let names: Vec<&str> = entries
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    lab.run(&[&["check"], &names[..]].concat()).code(0);
    for entry in &entries {
        let name = entry["name"].as_str().unwrap();
        let needs: Vec<&str> = list(&entry["needs"])
            .iter()
            .map(|need| need.as_str().unwrap())
            .collect();
        let row = format!(
            "| `{name}` | {} | {} |",
            entry["question"].as_str().unwrap(),
            needs.join(", ")
        );
        assert!(manual.contains(&row), "docs/catalogue.md lacks: {row}");
        // what is not here is said before anything is done, and what is here has a plan
        let missing =
            list(&entry["missing"]).len() > usize::from(!rustix::process::geteuid().is_root());
        if !missing {
            lab.run(&["plan", name]).code(0).prints(&["test case"]);
        }
    }
    lab.run(&["run", "firewall/rule"])
        .code(2)
        .says(&["did you mean `firewall/rules`?"]);
    lab.run(&["new", "campaign", "mine", "--from", "trafic/flows"])
        .code(2)
        .says(&["did you mean `traffic/flows`?"]);
}

#[test]
fn an_entry_is_copied_and_measured() {
    if !root("an_entry_is_copied_and_measured") {
        return;
    }
    let lab = Lab::new();
    let mut copy = lab.program(&["new", "campaign", "mine", "--from", "traffic/directions"]);
    let copied = copy.current_dir(lab.path()).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let file = lab.path().join("campaigns/mine.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# Does it forward twice as much"),
        "{text}"
    );
    std::fs::write(&file, text.replace("iterations = 5", "iterations = 1")).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--json"]);
    ended.measured();
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let cases = list(&document["test_cases"]);
    let names: Vec<&str> = cases
        .iter()
        .map(|case| case["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(cases.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name.contains("both")), "{names:?}");
}
