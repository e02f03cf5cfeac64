//! Compiles the BPF programs with clang; the objects are embedded in the library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=FWDLAB_CLANG");
    for program in [
        "transmit",
        "cycle",
        "count",
        "analyse",
        "drops",
        "forward",
        "groups",
        "histogram_test",
        "pass",
        "schedule_test",
        "sink",
    ] {
        compile(
            Path::new(&format!("bpf/{program}.bpf.c")),
            &out.join(format!("{program}.o")),
        );
    }
}

fn compile(source: &Path, object: &Path) {
    let clang = std::env::var("FWDLAB_CLANG").unwrap_or_else(|_| "clang".into());
    // <asm/types.h> lives in the multiarch directory, which clang does not search for the bpf
    // target. It is the same for all our targets: when the program is built for another machine,
    // this one's does
    let of = |name: &str| {
        let triple = std::env::var(name).expect("cargo sets the target and the host");
        let machine = triple.split('-').next().unwrap_or_default().to_owned();
        format!("/usr/include/{machine}-linux-gnu")
    };
    let (target, host) = (of("TARGET"), of("HOST"));
    let include = if Path::new(&target).is_dir() {
        target
    } else {
        host
    };
    let status = Command::new(&clang)
        .args([
            "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
        ])
        .arg(format!("-I{include}"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {}: {status}", source.display()),
        Err(error) => panic!(
            "cannot run {clang} to compile {}: {error}. Install it with: apt-get install clang libbpf-dev",
            source.display()
        ),
    }
}
