//! CPU time and memory of the server's process, if it runs on this machine.

use std::fs;
use std::path::Path;

/// CPU time and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// CPU time, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes: in [`Run::server`](crate::Run::server) the maximum over the run,
    /// in [`Run::own`](crate::Run::own) the value at its end.
    pub memory: u64,
}

/// A process on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// This process.
    pub(crate) fn own() -> Self {
        Self(std::process::id())
    }

    /// The process that listens at a port of this machine; `None` if it can't be found.
    pub(crate) fn of_port(port: u16) -> Option<Self> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let socket = tables.iter().find_map(|table| listener(table, port))?;
        let mut processes = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let name = format!("socket:[{socket}]");
        let has_it = |process: &u32| {
            let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(&name)))
        };
        processes.find(has_it).map(Self)
    }

    /// CPU time so far, and current memory; `None` if the process has ended or can't be read.
    pub(crate) fn usage(self) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let cpu_s = ticks(&stat)? as f64 / rustix::param::clock_ticks_per_second() as f64;
        let pages: u64 = fs::read_to_string(format!("/proc/{}/statm", self.0)).ok()?.split(' ').nth(1)?.parse().ok()?;
        Some(Usage { cpu_s, memory: pages * rustix::param::page_size() as u64 })
    }
}

/// The inode of the socket that listens at a port, from a table of sockets.
fn listener(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let at = words.nth(1)?.rsplit_once(':')?.1;
        let is_listening = words.nth(1)? == "0A";
        (is_listening && u16::from_str_radix(at, 16) == Ok(port)).then(|| words.nth(5)?.parse().ok()).flatten()
    })
}

/// User and system time in clock ticks. The name of the process, in parentheses, can have spaces.
fn ticks(stat: &str) -> Option<u64> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some(words.nth(11)?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_behind_a_port_is_found_with_its_use() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        let found = Process::of_port(port).expect("a process that listens");
        assert_eq!(found.0, std::process::id());
        let usage = found.usage().expect("it runs");
        assert!(usage.memory > 1 << 20);
        drop(socket);
        assert!(Process::of_port(port).is_none());
    }

    #[test]
    fn names_of_processes_may_have_anything_in_them() {
        let stat = "77 (a ) b) S 1 2 3 4 5 6 7 8 9 10 41 1 0 0 20";
        assert_eq!(ticks(stat), Some(42));
    }
}
