//! `twin plan`: plans how many libraries, drives and shuttles the coming years need.
//!
//! The exit status is 1 if no allowed configuration meets the service level in some year, or if
//! that is not known.

use std::fs;

use anyhow::{Context, Result};
use fulgurite_twin::plan;
use serde_json::{Value, json};

use super::{Plan, VERSION, overrides};
use crate::{Outcome, Session, tables};

pub(super) fn plan(session: &Session, asked: &Plan) -> Result<Outcome> {
    let plan = plan::Plan::read(&asked.plan, &overrides(&asked.set)?)?;
    let outcome = plan::plan(&plan)?;
    session.answer(|| json_of(&outcome));
    session.say(&format!("{}, {} seeds from {}, fulgurite {VERSION}", plan.name, plan.seeds, plan.seed));
    session.say(&format!("{}\n\n{}\n{}", plan.title, outcome.sizes(), outcome.loads()));
    session.say(&format!("{}\n\nAssumed:", outcome.statement()));
    outcome.assumptions().iter().for_each(|assumption| session.say(&format!("- {assumption}")));
    if let Some(folder) = &asked.out {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, table) in [("years", outcome.table()), ("failures", outcome.failures_table())] {
            tables::write_table(folder, name, &table)?;
            tables::write_csv(&folder.join(format!("{name}.columns.csv")), &table.dictionary())?;
        }
        let path = folder.join("plan.txt");
        let text = format!("{}\n\nAssumed:\n- {}\n", outcome.statement(), outcome.assumptions().join("\n- "));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        if let Some(figure) = outcome.figure() {
            figure.write(folder, "years")?;
        }
        session.say(&format!("\nWritten to {}.", crate::text::path(folder)));
    }
    Ok(Outcome::troubled_if(!outcome.is_met()))
}

fn json_of(outcome: &plan::Outcome) -> Value {
    json!({
        "plan": outcome.plan.name,
        "title": outcome.plan.title,
        "version": VERSION,
        "years": tables::rows_json(&outcome.table()),
        "failures": tables::rows_json(&outcome.failures_table()),
        "met": outcome.is_met(),
        "statement": outcome.statement(),
        "assumptions": outcome.assumptions(),
    })
}
