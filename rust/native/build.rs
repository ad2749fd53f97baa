//! Passes on what `build_info()` tells about this build.

use std::process::Command;

fn main() {
    for (name, variable) in [
        ("PROFILE", "PROFILE"),
        ("TARGET", "TARGET"),
        ("OPT_LEVEL", "OPT_LEVEL"),
    ] {
        println!(
            "cargo:rustc-env=SPILLWAY_{name}={}",
            std::env::var(variable).unwrap_or_default()
        );
    }
    println!(
        "cargo:rustc-env=SPILLWAY_TARGET_FEATURES={}",
        std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default()
    );
    println!("cargo:rustc-env=SPILLWAY_RUSTC={}", rustc_version());
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    println!("cargo:rerun-if-changed={lock}");
    println!("cargo:rerun-if-changed=build.rs");
    let packages = std::fs::read_to_string(lock)
        .map(|text| locked(&text))
        .unwrap_or_default();
    for name in ["arrow-array", "parquet", "pyo3", "zstd"] {
        let version = packages
            .iter()
            .find(|(package, _)| package == name)
            .map_or("unknown", |(_, version)| version);
        println!(
            "cargo:rustc-env=SPILLWAY_VERSION_{}={version}",
            name.replace('-', "_")
        );
    }
}

fn rustc_version() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .unwrap_or_default()
}

/// Names and versions in a lock file: `version` is the line after `name`.
fn locked(text: &str) -> Vec<(String, String)> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim().trim_matches('"').to_string());
    let lines: Vec<_> = text.lines().collect();
    lines
        .windows(2)
        .filter_map(|pair| Some((value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .collect()
}
