//! The commands `restores` and `library`: what a running server restores, and the robotic library
//! that brings the platters.

use anyhow::{Context, Result};
use fulgurite_service::control::{Connection, Question};
use fulgurite_service::library::Machine;
use serde_json::Value;

use crate::args::{self, Library};
use crate::text::{count, harmless, one_line};
use crate::{Outcome, Session};

pub(crate) fn restores(session: &Session) -> Result<Outcome> {
    let report = ask(session, Question::Restores)?;
    let listed = list(&report["restores"]);
    for restore in listed {
        session.say(&restore_line(restore));
    }
    let (open, shown) = (report["open"].as_u64().unwrap_or(0), listed.len() as u64);
    let more = if open > shown { format!(", {} of them not listed", open - shown) } else { String::new() };
    session.say(&format!("{}{more}", count(open, "open restore")));
    session.answer(|| report.clone());
    Ok(Outcome::Good)
}

pub(crate) fn library(session: &Session, asked: &Library) -> Result<Outcome> {
    match asked {
        Library::Status => {
            let report = ask(session, Question::Library)?;
            say_status(session, &report);
            session.answer(|| report.clone());
        }
        Library::Fault(machine) => {
            ask(session, Question::Fault(machine.into()))?;
            done(session, machine, "out of order");
        }
        Library::Repair(machine) => {
            ask(session, Question::Repair(machine.into()))?;
            done(session, machine, "repaired");
        }
    }
    Ok(Outcome::Good)
}

fn done(session: &Session, args::Machine { kind, number }: &args::Machine, state: &str) {
    session.say(&format!("{kind} {number}: {state}"));
    session.answer(|| serde_json::json!({ "machine": kind, "number": number, "state": state }));
}

fn ask(session: &Session, question: Question) -> Result<Value> {
    let home = session.home()?;
    let answer = Connection::ask(&home, question)?;
    answer.context("no server of this archive is running; restores and the library belong to `fulgurite serve`")
}

impl From<&args::Machine> for Machine {
    fn from(machine: &args::Machine) -> Self {
        if machine.kind == "drive" { Self::Drive(machine.number) } else { Self::Shuttle(machine.number) }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Text of the archive on one line: the names of objects may be hostile.
fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or("?"))
}

/// "photos/moon.tif  Standard, due 2026-…: in 90 s; waits for a shuttle; it is the next …"
fn restore_line(restore: &Value) -> String {
    let expected = match restore["expected_s"].as_f64() {
        Some(seconds) => format!("expected in {}", duration(seconds)),
        None => "no estimate".to_owned(),
    };
    format!(
        "{}/{}  {}, due {}, {expected}; waits for {}",
        text(&restore["bucket"]),
        text(&restore["key"]),
        text(&restore["tier"]),
        text(&restore["due"]),
        text(&restore["waits_for"]),
    )
}

/// "40 s", "12 min" or "3.5 h".
fn duration(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

fn say_status(session: &Session, report: &Value) {
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    session.say(&format!(
        "{}, room for {}; {} outside of it; {}",
        count(number("sets"), "set"),
        number("room_sets"),
        number("outside_sets"),
        match number("time_scale") {
            1 => "in real time".to_owned(),
            scale => format!("{scale} times as fast as real time"),
        }
    ));
    session.say(&format!(
        "{} open, {} to fetch, {} to verify, {} recovered from other platters",
        count(number("requests_open"), "request"),
        count(number("platters_queued"), "platter"),
        count(number("platters_unverified"), "platter"),
        count(number("reads_recovered"), "read"),
    ));
    let restores = |how: &str| report["restores"][how].as_u64().unwrap_or(0);
    if restores("next") + restores("set_back") > 0 {
        session.say(&format!("{} before the library, {} waiting for repairs", count(restores("next"), "restore"), restores("set_back")));
    }
    let scrub = &report["scrub"];
    let out_of_reach = match scrub["out_of_reach"].as_u64() {
        None | Some(0) => String::new(),
        Some(number) => format!(", {number} out of reach"),
    };
    session.say(&format!("scrub: {}, {} read{out_of_reach}", text(&scrub["state"]), count(scrub["read"].as_u64().unwrap_or(0), "platter")));
    let estimates = &report["estimates"];
    if let Some(error) = estimates["median_error"].as_f64() {
        session.say(&format!(
            "estimates: half of the last {} were within {:.0} %",
            count(estimates["compared"].as_u64().unwrap_or(0), "restore"),
            error * 100.0
        ));
    }
    for (number, shuttle) in list(&report["shuttles"]).iter().enumerate() {
        let carries = shuttle["carries"].as_u64().map_or_else(String::new, |platter| format!(", carries platter {platter}"));
        let (shelf, x_m) = (shuttle["shelf"].as_u64().unwrap_or(0), shuttle["x_m"].as_f64().unwrap_or(0.0));
        session.say(&format!("shuttle {number}: {}, shelf {shelf}, {x_m:.2} m{carries}", text(&shuttle["state"])));
    }
    for (number, drive) in list(&report["drives"]).iter().enumerate() {
        let platters: Vec<String> = list(&drive["platters"]).iter().filter_map(Value::as_u64).map(|platter| platter.to_string()).collect();
        let holds = if platters.is_empty() { String::new() } else { format!(", holds platters {}", platters.join(" and ")) };
        session.say(&format!("drive {number}: {}, {}{holds}", text(&drive["state"]), text(&drive["does"])));
    }
    if let Some(journal) = report["journal"].as_str() {
        session.say(&format!("journal: {}", harmless(journal)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_digits() {
        let shown = [0.4, 99.0, 100.0, 5_999.0, 6_000.0, 90_000.0].map(duration);
        assert_eq!(shown, ["0 s", "99 s", "2 min", "100 min", "1.7 h", "25.0 h"]);
    }
}
