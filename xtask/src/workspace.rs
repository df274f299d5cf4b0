//! Cargo's metadata of the workspace: its crates and the dependencies between them.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

/// The crates of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    pub(crate) target_directory: PathBuf,
}

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// From the root: `crates/codec`.
    pub(crate) directory: String,
    pub(crate) rust_version: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency between two crates of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The directory of the crate depended on.
    pub(crate) to: String,
    /// True if only tests, examples and benchmarks depend on it.
    pub(crate) dev: bool,
}

/// Why cargo's metadata can't be read.
#[derive(Debug)]
pub(crate) enum WorkspaceError {
    NoCargo { source: io::Error },
    CargoRefused { status: ExitStatus },
    NotJson { source: serde_json::Error },
    Missing { field: &'static str },
}

impl fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCargo { source } => write!(f, "can't start cargo: {source}"),
            Self::CargoRefused { status } => write!(f, "`cargo metadata --locked` failed ({status}); see its output above"),
            Self::NotJson { source } => write!(f, "`cargo metadata` printed invalid JSON: {source}"),
            Self::Missing { field } => write!(f, "the output of `cargo metadata` lacks a required `{field}`"),
        }
    }
}

impl Error for WorkspaceError {}

/// The cargo that started this program, so that all steps use one toolchain.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    // Cargo sets these variables for xtask's package. Inherited, they would mislead every build
    // script below.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

impl Workspace {
    /// Runs `cargo metadata` for the crates alone, which needs no sources of dependencies.
    pub(crate) fn read(root: &Path) -> Result<Self, WorkspaceError> {
        let printed = cargo()
            .args(["metadata", "--format-version", "1", "--locked", "--no-deps"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|source| WorkspaceError::NoCargo { source })?;
        if !printed.status.success() {
            return Err(WorkspaceError::CargoRefused { status: printed.status });
        }
        Self::parse(&printed.stdout)
    }

    fn parse(json: &[u8]) -> Result<Self, WorkspaceError> {
        let metadata: Value = serde_json::from_slice(json).map_err(|source| WorkspaceError::NotJson { source })?;
        let root = text(&metadata, "workspace_root")?;
        let target_directory = PathBuf::from(text(&metadata, "target_directory")?);
        let ids = list(&metadata, "workspace_members")?;
        let mut workspace = Self { target_directory, ..Self::default() };
        for package in list(&metadata, "packages")? {
            if ids.contains(&package["id"]) {
                workspace.members.push(Member::parse(package, root)?);
            }
        }
        let directories: Vec<String> = workspace.members.iter().map(|member| member.directory.clone()).collect();
        for member in &mut workspace.members {
            member.dependencies.retain(|dependency| directories.contains(&dependency.to));
        }
        Ok(workspace)
    }
}

impl Member {
    /// Takes all dependencies with a path. Those outside the workspace are removed once all crates
    /// are read.
    fn parse(package: &Value, root: &str) -> Result<Self, WorkspaceError> {
        let manifest = Path::new(text(package, "manifest_path")?);
        let mut dependencies = Vec::new();
        for dependency in list(package, "dependencies")? {
            if let Some(path) = dependency["path"].as_str() {
                dependencies.push(Dependency { to: relative(Path::new(path), root), dev: dependency["kind"] == "dev" });
            }
        }
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            directory: relative(manifest.parent().unwrap_or(manifest), root),
            rust_version: package["rust_version"].as_str().map(String::from),
            dependencies,
        })
    }
}

fn relative(path: &Path, root: &str) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn text<'a>(value: &'a Value, field: &'static str) -> Result<&'a str, WorkspaceError> {
    value[field].as_str().ok_or(WorkspaceError::Missing { field })
}

fn list<'a>(value: &'a Value, field: &'static str) -> Result<&'a [Value], WorkspaceError> {
    value[field].as_array().map(Vec::as_slice).ok_or(WorkspaceError::Missing { field })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{
        "workspace_root": "/repo", "target_directory": "/repo/target", "workspace_members": ["a", "b"],
        "packages": [
            {"id": "a", "name": "fulgurite-glass", "version": "0.1.0", "license": "Apache-2.0", "rust_version": "1.95",
             "manifest_path": "/repo/crates/glass/Cargo.toml",
             "dependencies": [{"name": "fulgurite-domain", "kind": null, "path": "/repo/crates/domain"},
                              {"name": "fulgurite-domain", "kind": "dev", "path": "/repo/crates/domain"},
                              {"name": "elsewhere", "kind": null, "path": "/other"},
                              {"name": "libc", "kind": "build"}]},
            {"id": "b", "name": "fulgurite-domain", "version": "0.1.0", "license": "Apache-2.0", "rust_version": null,
             "manifest_path": "/repo/crates/domain/Cargo.toml", "dependencies": []},
            {"id": "c", "name": "libc", "version": "0.2.191", "license": "MIT/Apache-2.0",
             "manifest_path": "/elsewhere/libc/Cargo.toml", "dependencies": []},
            {"id": "d", "name": "bare", "version": "1.0.0", "license": null,
             "manifest_path": "/elsewhere/bare/Cargo.toml", "dependencies": []}
        ]}"#;

    #[test]
    fn packages_from_elsewhere_are_no_members() {
        let workspace = Workspace::parse(PRINTED.as_bytes()).unwrap();
        let directories: Vec<&str> = workspace.members.iter().map(|member| member.directory.as_str()).collect();
        assert_eq!(directories, ["crates/glass", "crates/domain"]);
    }

    #[test]
    fn arrows_stay_in_the_workspace_and_dev_dependencies_are_marked() {
        let workspace = Workspace::parse(PRINTED.as_bytes()).unwrap();
        let to = String::from("crates/domain");
        assert_eq!(workspace.members[0].dependencies, [Dependency { to: to.clone(), dev: false }, Dependency { to, dev: true }]);
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = Workspace::parse(br#"{"workspace_root": "/repo"}"#).unwrap_err();
        assert!(error.to_string().contains("target_directory"), "{error}");
        assert!(matches!(Workspace::parse(b"nothing"), Err(WorkspaceError::NotJson { .. })));
    }
}
