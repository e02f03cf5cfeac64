//! Compiles the shim in C and links DPDK, if the feature `driver` is on; otherwise does nothing.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    #[cfg(feature = "driver")]
    driver::build();
}

#[cfg(feature = "driver")]
mod driver {
    /// What the shim calls. Drivers are plug-ins, which DPDK loads from its own folder.
    const LIBRARIES: [&str; 4] = ["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool"];

    pub fn build() {
        let dpdk = pkg_config::Config::new()
            .atleast_version("22.11")
            // it would link all 50 libraries
            .cargo_metadata(false)
            .probe("libdpdk")
            .unwrap_or_else(|error| {
                panic!(
                    "the feature `driver` of fwdlab-dpdk needs the headers and libraries of DPDK 22.11 or newer. \
                     Install them with: apt-get install libdpdk-dev. {error}"
                )
            });
        let mut shim = cc::Build::new();
        shim.file("src/shim.c")
            .opt_level(3)
            .includes(&dpdk.include_paths)
            .flag("-include")
            .flag("rte_config.h")
            .warnings(true)
            .extra_warnings(false)
            .warnings_into_errors(true);
        // as DPDK's own flags: its headers need SSE 4.2 there
        if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            shim.flag("-march=corei7");
        }
        shim.compile("fwdlab_dpdk_shim");
        for path in &dpdk.link_paths {
            println!("cargo::rustc-link-search=native={}", path.display());
        }
        for library in LIBRARIES {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }
}
