//! Runs a program, passes its output through, and parses test counts from it.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::{Failure, Lack, Outcome, setup_error};
use crate::tally::Tally;

/// The stream on which a program prints its counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Channel {
    Output,
    Error,
}

/// Whether a program is in a folder of the path.
pub(super) fn is_on_path(name: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).is_file())
}

/// True if a program can be started and succeeds. Its output is discarded.
pub(super) fn works(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs the program and judges it by its exit status.
pub(super) fn judge(mut command: Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed(Tally::PASSED),
        Ok(status) => Outcome::Failed(Tally::FAILED, Failure::Exit(status)),
        Err(error) => lacking(&command, &error),
    }
}

/// Runs a program that runs tests, and judges it by its exit status and by the counts in the lines
/// of `channel`.
pub(super) fn judge_tests(command: Command, channel: Channel, read: fn(&mut Tally, &str)) -> Outcome {
    match channel {
        Channel::Output => judge_tests_onto(command, channel, read, io::stdout()),
        Channel::Error => judge_tests_onto(command, channel, read, io::stderr()),
    }
}

fn judge_tests_onto(mut command: Command, channel: Channel, read: fn(&mut Tally, &str), screen: impl Write) -> Outcome {
    let mut tally = Tally::default();
    match channel {
        Channel::Output => command.stdout(Stdio::piped()),
        Channel::Error => command.stderr(Stdio::piped()),
    };
    let child = match command.stdin(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => return lacking(&command, &error),
    };
    match pass_through(child, channel, screen, |line| read(&mut tally, line)) {
        Ok(status) => verdict(status, tally),
        Err(error) => setup_error(format!("can't copy the output of {}: {error}", command.get_program().to_string_lossy())),
    }
}

fn verdict(status: ExitStatus, mut tally: Tally) -> Outcome {
    if status.success() && tally.failed == 0 {
        return if tally.is_empty() { Outcome::Failed(Tally::FAILED, Failure::NoTestRan) } else { Outcome::Passed(tally) };
    }
    // A test program that doesn't compile, or crashes, prints no failed test but counts as one.
    tally.failed = tally.failed.max(1);
    Outcome::Failed(tally, Failure::Exit(status))
}

fn lacking(command: &Command, error: &io::Error) -> Outcome {
    Outcome::Skipped(Lack::Program { name: command.get_program().to_string_lossy().into_owned(), why: error.to_string() })
}

/// Waits for the end of the program. Copies `channel` unchanged to `screen`, and line by line to
/// `observe`.
///
/// The screen isn't flushed in between: standard output is line-buffered, so cargo's own messages
/// on standard error never land in the middle of a line.
fn pass_through(mut child: Child, channel: Channel, screen: impl Write, observe: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let copied = match channel {
        Channel::Output => child.stdout.take().map_or(Ok(()), |pipe| copy(pipe, screen, observe)),
        Channel::Error => child.stderr.take().map_or(Ok(()), |pipe| copy(pipe, screen, observe)),
    };
    let status = child.wait();
    copied.and(status)
}

fn copy(mut from: impl Read, mut to: impl Write, mut observe: impl FnMut(&str)) -> io::Result<()> {
    let mut buffer = [0; 8192];
    let mut pending = Vec::new();
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count])?;
        pending.extend_from_slice(&buffer[..count]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            observe(String::from_utf8_lossy(&line).trim_end());
        }
    }
    observe(&String::from_utf8_lossy(&pending));
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_copied_unchanged_and_observed_by_line() {
        let text = "first\r\nsecond \u{e9}\n\nno end";
        let (mut copied, mut lines) = (Vec::new(), Vec::new());
        copy(text.as_bytes(), &mut copied, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(copied, text.as_bytes());
        assert_eq!(lines, ["first", "second \u{e9}", "", "no end"]);
    }

    #[cfg(unix)]
    fn shell(script: &str) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        // Not to the real screen: a parser of closing lines there would count these.
        judge_tests_onto(command, Channel::Output, Tally::read_cargo_test, io::sink())
    }

    #[cfg(unix)]
    #[test]
    fn tests_pass_when_the_program_and_its_counts_say_so() {
        let tally = Tally { passed: 2, failed: 0, skipped: 0 };
        assert_eq!(shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"), Outcome::Passed(tally));
        assert_eq!(shell("true"), Outcome::Failed(Tally::FAILED, Failure::NoTestRan));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_counts_at_least_one_failure() {
        let counts = |script: &str| shell(script).tally();
        assert_eq!(counts("echo 'test result: ok. 2 passed; 0 failed'; exit 101"), Tally { passed: 2, failed: 1, skipped: 0 });
        assert_eq!(counts("echo 'test result: FAILED. 2 passed; 3 failed'; exit 101"), Tally { passed: 2, failed: 3, skipped: 0 });
        assert_eq!(counts("exit 101"), Tally::FAILED);
    }

    #[cfg(unix)]
    #[test]
    fn output_that_cannot_be_copied_is_a_failure_and_no_reason_to_skip() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"]);
        let outcome = judge_tests_onto(command, Channel::Output, Tally::read_cargo_test, Full);
        let Outcome::Failed(Tally::FAILED, Failure::Setup { why }) = outcome else { panic!("{outcome:?}") };
        assert!(why.starts_with("can't copy the output of sh: "), "{why}");
    }

    #[test]
    fn the_reason_for_skipping_a_missing_program_names_it() {
        let Outcome::Skipped(lack) = judge(Command::new("no-such-program-anywhere")) else { panic!("the program exists") };
        assert!(lack.to_string().contains("no-such-program-anywhere"), "{lack}");
    }
}
