//! Runs the commands of the README's section "Five minutes" as written.
//!
//! ```text
//! README.md, "## Five minutes": `sh` blocks
//!     -- line by line, with the exit status that the comment promises --> bash, in an empty folder
//! ```
//!
//! The only line that isn't run is the installation: the release build is put on the path instead.

use std::env;
use std::fs;
use std::process::Command;

use super::program::{self, Channel};
use super::s3::ReleaseBuild;
use super::{Outcome, Session, setup_error};
use crate::tally::Tally;

const SECTION: &str = "## Five minutes";
const INSTALLATION: &str = "cargo install ";
/// Marks a comment that promises an exit status other than 0.
const PROMISE: &str = "exit status ";

pub(super) fn tests(session: &Session) -> Outcome {
    let run = || {
        let built = ReleaseBuild::find(session)?;
        let text = fs::read_to_string(session.root.join("README.md")).map_err(|error| setup_error(format!("README.md: {error}")))?;
        let script = script(&commands(&text).map_err(setup_error)?);
        let folder = built.target.join("xtask-readme");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| setup_error(format!("{}: {error}", folder.display())))?;
        let file = folder.join("five-minutes.sh");
        fs::write(&file, script).map_err(|error| setup_error(format!("{}: {error}", file.display())))?;
        let mut command = Command::new("bash");
        let path = env::var_os("PATH").unwrap_or_default();
        let programs = built.program.parent().into_iter().map(Into::into).chain(env::split_paths(&path));
        let path = env::join_paths(programs).map_err(setup_error)?;
        // The script's `mktemp -d` creates the folder that the commands run in.
        command.arg(&file).current_dir(&session.root).env("PATH", path).env("TMPDIR", &folder);
        let outcome = program::judge_tests(command, Channel::Output, Tally::read_cargo_test);
        if matches!(outcome, Outcome::Passed(_)) {
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(outcome)
    };
    run().unwrap_or_else(|outcome| outcome)
}

/// A line of the README, with the exit status that it promises.
#[derive(Debug, PartialEq, Eq)]
struct ReadmeCommand<'a> {
    line: &'a str,
    expected_status: u8,
}

/// The lines of the section's shell blocks, without the installation.
fn commands(readme: &str) -> Result<Vec<ReadmeCommand<'_>>, String> {
    let mut lines = readme.lines().skip_while(|line| *line != SECTION).skip(1);
    let mut commands = Vec::new();
    let mut installations = 0;
    let mut in_block = false;
    for line in lines.by_ref().take_while(|line| !line.starts_with("## ")) {
        match (in_block, line) {
            (false, "```sh") => in_block = true,
            (true, "```") => in_block = false,
            (true, line) if line.starts_with(INSTALLATION) => installations += 1,
            (true, line) if !line.trim().is_empty() => commands.push(parse_command(line)?),
            _ => {}
        }
    }
    match (commands.len(), installations) {
        (0, _) => Err(format!("README.md has no commands under `{SECTION}`")),
        (_, 1) => Ok(commands),
        _ => Err(format!("README.md installs the program {installations} times under `{SECTION}` instead of once")),
    }
}

fn parse_command(line: &str) -> Result<ReadmeCommand<'_>, String> {
    let comment = line.split_once(" # ").map_or("", |(_, comment)| comment);
    let expected_status = match comment.split_once(PROMISE) {
        None => 0,
        Some((_, rest)) => {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
            digits.parse().map_err(|_| format!("README.md promises an invalid exit status: {line}"))?
        }
    };
    Ok(ReadmeCommand { line, expected_status })
}

/// A script that runs all lines in one shell, as if they were pasted, and counts those that exit as
/// promised.
fn script(commands: &[ReadmeCommand<'_>]) -> String {
    let mut script = String::from("passed=0 failed=0\n");
    for ReadmeCommand { line, expected_status } in commands {
        let shown = line.replace('\'', "'\\''");
        script += &format!(
            "echo '$ {shown}'\n{line}\nstatus=$?\n\
             if [ $status -eq {expected_status} ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo \"it ended with $status instead of {expected_status}\"; fi\n"
        );
    }
    // In the format that the tally parses.
    script += "if [ $failed -eq 0 ]; then verdict=ok; else verdict=FAILED; fi\n\
               echo \"test result: $verdict. $passed passed; $failed failed\"\n[ $failed -eq 0 ]\n";
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Title\n```sh\nnot this\n```\n## Five minutes\nText.\n\n```sh\ncargo install --path x\nmkdir a   # a folder\n\
        false   # fails, and ends with exit status 1\n```\n```text\nnor this\n```\n```sh\n\necho \"# no comment\"\n```\n## Next\n```sh\nnor that\n```\n";

    #[test]
    fn only_shell_blocks_of_the_section_are_run() {
        let commands = commands(README).unwrap();
        let lines: Vec<(&str, u8)> =
            commands.iter().map(|command| (command.line.split("   ").next().unwrap(), command.expected_status)).collect();
        assert_eq!(lines, [("mkdir a", 0), ("false", 1), ("echo \"# no comment\"", 0)]);
    }

    #[test]
    fn a_readme_without_commands_or_without_installation_is_an_error() {
        assert!(super::commands("# Title\n").unwrap_err().contains("no commands"));
        assert!(super::commands("## Five minutes\n```sh\nls\n```\n").unwrap_err().contains("0 times"));
        assert!(super::commands("## Five minutes\n```sh\nls # exit status one\n```\n").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_command_with_another_status_than_promised_counts_as_failed() {
        let run = |lines: &[(&'static str, u8)]| {
            let commands: Vec<ReadmeCommand<'_>> =
                lines.iter().map(|&(line, expected_status)| ReadmeCommand { line, expected_status }).collect();
            let output = Command::new("bash").args(["-c", &script(&commands)]).output().unwrap();
            let mut tally = Tally::default();
            String::from_utf8(output.stdout).unwrap().lines().for_each(|line| tally.read_cargo_test(line));
            (output.status.success(), tally)
        };
        assert_eq!(
            run(&[("cd /", 0), ("[ $PWD = / ]  # in one shell", 0), ("false", 1)]),
            (true, Tally { passed: 3, failed: 0, skipped: 0 })
        );
        assert_eq!(run(&[("echo 'it''s'", 0), ("true", 1), ("false", 0)]), (false, Tally { passed: 1, failed: 2, skipped: 0 }));
    }
}
