//! A quick evaluation: every figure and table is written, the number of threads doesn't change the
//! results, and the page in the docs is complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use fulgurite_table::Value;
use fulgurite_twin::paper::{self, NAMES, Paper, PaperError, Settings};

/// One quick run, shared by all tests.
fn quick() -> &'static Paper {
    static PAPER: OnceLock<Paper> = OnceLock::new();
    PAPER.get_or_init(|| paper::run(&Settings { threads: 2, ..Settings::quick() }, &|_| ()).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn every_figure_and_table_is_written_and_not_empty() {
    let paper = quick();
    assert_eq!(paper.chapters.iter().map(|chapter| chapter.name).collect::<Vec<_>>(), NAMES);
    let folder = tempfile::tempdir().unwrap();
    let written = paper.write(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    for path in &written {
        assert!(fs::metadata(path).unwrap().len() > 20, "{}", path.display());
    }
    let page = fs::read_to_string(folder.path().join("paper.md")).unwrap();
    for chapter in &paper.chapters {
        assert!(page.contains(&format!(". {}\n", chapter.title)), "{}", chapter.title);
        assert!(!chapter.drawings.is_empty() && !chapter.sheets.is_empty(), "{} shows nothing", chapter.name);
        for drawing in &chapter.drawings {
            assert!(page.contains(&format!("(paper/{}.svg)", drawing.name)), "the page lacks {}", drawing.name);
            for ending in ["svg", "png"] {
                assert!(folder.path().join(format!("paper/{}.{ending}", drawing.name)).is_file(), "{}.{ending}", drawing.name);
            }
        }
        for sheet in &chapter.sheets {
            assert!(!sheet.table.rows().is_empty(), "{} has no rows", sheet.name);
            let csv = fs::read_to_string(folder.path().join(format!("{}.csv", sheet.name))).unwrap();
            let names: Vec<&str> = sheet.table.columns().iter().map(|column| column.name()).collect();
            assert_eq!(csv.lines().next().unwrap(), names.join(","), "{}", sheet.name);
            assert_eq!(csv.lines().count(), sheet.table.rows().len() + 1, "{}", sheet.name);
            let parquet = fs::read(folder.path().join(format!("{}.parquet", sheet.name))).unwrap();
            assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{}", sheet.name);
        }
    }
    assert!(!page.contains("NaN") && !page.contains(" inf"), "{page}");
}

#[test]
fn the_page_in_the_docs_references_every_figure() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("paper.md")).expect("it is in the repository");
    let named: BTreeSet<String> = page.split("](paper/").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()).collect();
    let there = fs::read_dir(docs.join("paper")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(there.collect::<BTreeSet<_>>(), named);
    // The page must come from a complete run of this program: a new chapter requires a new page.
    for (index, name) in paper::NAMES.iter().enumerate() {
        assert!(page.contains(&format!("\n## {}. ", index + 1)), "no chapter {} for {name}", index + 1);
    }
    assert!(!page.contains(&format!("\n## {}. ", paper::NAMES.len() + 1)));
    assert!(!page.contains("NaN") && !page.contains(" inf") && !page.contains("a quick look"));
}

#[test]
fn one_thread_gives_the_same_bytes_as_two() {
    let only = ["throughput", "ablation", "decode"].map(str::to_owned).to_vec();
    let run = |threads| {
        let settings = Settings { threads, only: only.clone(), ..Settings::quick() };
        paper::run(&settings, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
    };
    let bytes = |paper: &Paper| {
        let folder = tempfile::tempdir().unwrap();
        let written = paper.write(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        written.iter().map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap())).collect::<Vec<_>>()
    };
    let (one, two) = (bytes(&run(1)), bytes(&run(2)));
    assert_eq!(one.len(), two.len());
    for ((name, one), (_, two)) in one.iter().zip(&two) {
        assert!(one == two, "{} differs", name.display());
    }
}

#[test]
fn a_part_of_the_evaluation_does_not_replace_the_page_in_the_docs() {
    let paper = paper::run(&Settings { only: vec!["overheads".into()], ..Settings::quick() }, &|_| ()).unwrap();
    let docs = tempfile::tempdir().unwrap();
    fs::create_dir(docs.path().join("paper")).unwrap();
    let other = docs.path().join("paper/other.svg");
    fs::write(&other, "a figure of another part").unwrap();
    let refused = paper.write_docs(docs.path()).unwrap_err().to_string();
    assert!(refused.starts_with("the docs need all parts of the evaluation, but only overheads was run"), "{refused}");
    assert!(other.is_file() && !docs.path().join("paper.md").exists());
    assert!(paper.page().contains("`fulgurite twin paper --seeds 2 --sweep-seeds 1 --quick --only overheads` generates this page"));
}

#[test]
fn table_1_matches_the_paper() {
    let settings = Settings { only: vec!["overheads".into()], ..Settings::quick() };
    let paper = paper::run(&settings, &|_| ()).unwrap_or_else(|error| panic!("{error}"));
    let table = &paper.chapters[0].sheets.iter().find(|sheet| sheet.name == "table-1").unwrap().table;
    let column = |name: &str| (0..3).map(|row| table.value(row, name).unwrap().clone()).collect::<Vec<_>>();
    assert_eq!(column("information"), [12_u32, 16, 24].map(Value::from));
    assert_eq!(column("racks"), [6_u32, 7, 10].map(Value::from));
    assert_eq!(column("overhead"), [0.25, 0.1875, 0.125].map(Value::from));
}

#[test]
fn unknown_parts_and_zero_seeds_are_rejected() {
    let run = |settings: Settings| paper::run(&settings, &|_| ()).unwrap_err();
    let unknown = run(Settings { only: vec!["figure 7".into()], ..Settings::quick() });
    assert!(unknown.to_string().starts_with("no chapter is named figure 7; choose from workload, throughput"), "{unknown}");
    assert!(matches!(run(Settings { seeds: 0, ..Settings::quick() }), PaperError::NoSeeds));
}
