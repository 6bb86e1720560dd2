//! Generates the Envoy types from the .proto files that the `envoy-types` package carries. Nothing of that package is
//! compiled for it and no third-party file is kept here: the package is a dev-dependency, so it is in the lock file.
//!
//! Its own structs would not do: they keep maps in `HashMap`, whose order (and so the encoding) varies from process to
//! process, and `Any` values in `Vec<u8>`, which cannot be shared.

use prost::Message;
use prost_types::FileDescriptorSet;
use std::path::{Path, PathBuf};

/// The package that carries the .proto files. Its version stands here too, so that a change of it runs this again.
const PACKAGE: &str = "envoy-types";
const VERSION: &str = "0.7.7";

/// Folders of the package that imports are relative to.
const INCLUDES: [&str; 7] = [
    "data-plane-api",
    "xds",
    "googleapis",
    "protoc-gen-validate",
    "cel-spec/proto",
    "client_model",
    "opentelemetry-proto",
];

fn main() {
    let package = find_package();
    // Packages of a registry never change in place, so one file stands for all of them.
    for path in ["build.rs", "roots.txt"].map(PathBuf::from).into_iter().chain([package.join("Cargo.toml")]) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let roots = std::fs::read_to_string("roots.txt").expect("roots.txt is beside build.rs");
    let descriptors = compile(&package.join("proto"), &roots);
    std::fs::write(out.join("descriptors.bin"), &descriptors).expect("OUT_DIR is writable");
    generate(&out, &descriptors);
}

/// The folder of the package, as cargo resolved it. Asks without network first: a build that has everything needs
/// none. The platform filter keeps packages for other systems out, which nobody has downloaded.
fn find_package() -> PathBuf {
    let platform = std::env::var("TARGET").expect("cargo sets TARGET");
    let query = |network: &[&str]| {
        let flags = ["--filter-platform", &platform].into_iter().chain(network.iter().copied());
        let flags: Vec<String> = flags.map(str::to_owned).collect();
        cargo_metadata::MetadataCommand::new().other_options(flags).exec()
    };
    let metadata = query(&["--offline"])
        .or_else(|_| query(&[]))
        .unwrap_or_else(|error| panic!("cannot ask cargo where {PACKAGE} {VERSION} is: {error}"));
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == PACKAGE && package.version.to_string() == VERSION)
        .unwrap_or_else(|| panic!("{PACKAGE} {VERSION} is not in Cargo.lock: give build.rs the version that is"));
    package.manifest_path.parent().expect("a manifest stands in a folder").into()
}

/// The encoded descriptors of the roots and all they import, with extension options (field rules), without comments.
fn compile(protos: &Path, roots: &str) -> Vec<u8> {
    let includes = INCLUDES.map(|folder| protos.join(folder));
    let mut compiler = protox::Compiler::new(includes).expect("include folders are readable");
    compiler.include_imports(true).include_source_info(false);
    for root in roots.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        compiler.open_file(root).unwrap_or_else(|error| panic!("cannot compile {root}: {error}"));
    }
    compiler.encode_file_descriptor_set()
}

/// One Rust module tree, `mod.rs`, in `out`.
fn generate(out: &Path, descriptors: &[u8]) {
    let mut files = FileDescriptorSet::decode(descriptors).expect("protox encodes what it compiled");
    for file in &mut files.file {
        file.service.clear();
    }
    prost_build::Config::new()
        .out_dir(out)
        .include_file("mod.rs")
        .btree_map(["."])
        .bytes([".google.protobuf.Any"])
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .compile_well_known_types()
        .disable_comments(["."])
        .compile_fds(files)
        .expect("compiled descriptors can be generated from");
}
