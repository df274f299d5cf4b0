//! `twin plan`: plans how many libraries, drives and shuttles the coming years need.
//!
//! The exit status is 1 if no allowed configuration meets the service level in some year.

use std::fs;

use anyhow::{Context, Result};
use fulgurite_twin::plan;
use fulgurite_twin::settings::{Override, SettingErrors};
use fulgurite_twin::table::Table;
use serde_json::{Map, Value, json};

use super::{Plan, VERSION, misused, write};
use crate::{Outcome, Session};

pub(super) fn plan(session: &Session, asked: &Plan) -> Result<Outcome> {
    let plan = match read(asked) {
        Ok(plan) => plan,
        Err(errors) => return Ok(misused(&errors)),
    };
    let outcome = plan::plan(&plan)?;
    if session.json {
        session.answer(&json_of(&outcome));
    } else {
        session.say(&format!("{}, {} seeds from {}, fulgurite {VERSION}", plan.name, plan.seeds, plan.seed));
        session.say(&format!("{}\n\n{}\n{}", plan.title, outcome.sizes(), outcome.loads()));
        session.say(&format!("{}\n\nAssumed:", outcome.statement()));
        outcome.assumptions().iter().for_each(|assumption| session.say(&format!("- {assumption}")));
    }
    if let Some(folder) = &asked.out {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, table) in [("years", outcome.table()), ("failures", outcome.failures_table())] {
            write::write_csv(&folder.join(format!("{name}.csv")), &table)?;
            write::write_csv(&folder.join(format!("{name}.columns.csv")), &table.dictionary())?;
            write::write_parquet(&folder.join(format!("{name}.parquet")), &table)?;
        }
        let path = folder.join("plan.txt");
        let text = format!("{}\n\nAssumed:\n- {}\n", outcome.statement(), outcome.assumptions().join("\n- "));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        if let Some(figure) = outcome.figure() {
            figure.write(folder, "years")?;
        }
        session.say(&format!("\nWritten to {}.", crate::text::path(folder)));
    }
    Ok(Outcome::troubled_if(outcome.unmet.is_some()))
}

fn read(asked: &Plan) -> Result<plan::Plan, SettingErrors> {
    let settings = asked.set.iter().map(|text| Override::parse("--set", text)).collect::<Result<Vec<_>, _>>()?;
    plan::Plan::read(&asked.plan, &settings)
}

/// A plan as JSON.
fn json_of(outcome: &plan::Outcome) -> Value {
    json!({
        "plan": outcome.plan.name,
        "title": outcome.plan.title,
        "version": VERSION,
        "years": rows(&outcome.table()),
        "failures": rows(&outcome.failures_table()),
        "met": outcome.unmet.is_none(),
        "statement": outcome.statement(),
        "assumptions": outcome.assumptions(),
    })
}

/// Each row as an object, with column names as keys.
fn rows(table: &Table) -> Value {
    let object = |row: &Vec<fulgurite_twin::table::Value>| {
        let named = table.columns().iter().zip(row).map(|(column, value)| (column.name().to_owned(), write::json_value(value)));
        Value::Object(named.collect::<Map<_, _>>())
    };
    table.rows().iter().map(object).collect()
}
