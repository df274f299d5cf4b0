//! Does one thing with a place, for tests against real servers and for trying out settings.
//!
//! ```text
//! place length|stated|read|write|remove|url URL LOCATION [OPTION=VALUE ...]
//! place list URL [OPTION=VALUE ...]
//! place bench URL LOCATION TIMES [OPTION=VALUE ...]
//! ```
//!
//! Content is written from standard input and read to standard output. Exit status 1 comes with the
//! name of the cause and the detail on standard error.

use std::io::{Read, Write, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fulgurite_places::{Address, Cause, Connection, Refusal};

const USAGE: &str =
    "usage: place length|stated|read|write|remove|url|bench URL LOCATION [TIMES] [OPTION=VALUE ...], or place list URL [...]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}: {refusal}", refusal.cause.name());
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Refusal> {
    let wrong = |detail: &dyn std::fmt::Display| Refusal::new(Cause::Unsupported, detail.to_string());
    let (command, rest) = words.split_first().ok_or_else(|| wrong(&USAGE))?;
    let positional = match command.as_str() {
        "list" => 1,
        "bench" => 3,
        _ => 2,
    };
    let (positional, options) = rest.split_at_checked(positional).ok_or_else(|| wrong(&USAGE))?;
    let options = options.iter().map(|option| option.split_once('=').ok_or_else(|| wrong(&USAGE)));
    let address = Address::parse(&positional[0], options.collect::<Result<Vec<_>, _>>()?).map_err(|error| wrong(&error))?;
    let mut connection = address.place()?.connect()?;
    let location = positional.get(1).map_or("", String::as_str);
    let failed = |error: std::io::Error| Refusal::new(Cause::Fault, error.to_string());
    match command.as_str() {
        "length" => println!("{}", connection.length(location)?),
        "stated" => {
            let statement = connection.stated(location)?;
            println!("{}", statement.bytes);
            for stated in statement.digests {
                println!("{:?}{}", stated.digest, if stated.is_certain { "" } else { " perhaps" });
            }
        }
        "read" => {
            let mut written = Ok(());
            let read = connection.read(location, &mut |piece| {
                written = stdout().write_all(piece);
                written.is_ok()
            });
            written.map_err(failed)?;
            read?;
        }
        "list" => connection.list(&mut |listed| {
            println!("{}\t{}", listed.bytes.map_or_else(String::new, |bytes| bytes.to_string()), listed.location);
            true
        })?,
        "write" => {
            let mut content = Vec::new();
            stdin().read_to_end(&mut content).map_err(failed)?;
            connection.write(location, content.len() as u64, &mut &content[..])?;
        }
        "remove" => connection.remove(location)?,
        "url" => println!("{}", connection.presigned_url(location, Duration::from_secs(600))?.unwrap_or_default()),
        "bench" => bench(&mut *connection, location, positional[2].parse().map_err(|error| wrong(&error))?)?,
        _ => return Err(wrong(&USAGE)),
    }
    Ok(())
}

/// Reads a file several times, and prints the rate of each.
fn bench(connection: &mut dyn Connection, location: &str, times: usize) -> Result<(), Refusal> {
    for _ in 0..times {
        let start = Instant::now();
        let bytes = connection.read(location, &mut |piece| {
            std::hint::black_box(piece);
            true
        })?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{bytes} bytes in {seconds:.3} s, {:.0} MB/s", bytes as f64 / seconds / 1e6);
    }
    Ok(())
}
