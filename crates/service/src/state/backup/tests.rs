use rusqlite::Connection;
use rusqlite::types::Value;

use super::*;

const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);
const COPIED: [&str; 4] = ["account", "quota", "bucket", "version_state"];
/// Each with the reason why it isn't copied.
const LEFT_OUT: [(&str, &str); 9] = [
    ("archive", "the head contains it"),
    ("access_key", "it is a secret; new keys are created"),
    ("upload", "its parts are files outside the archive"),
    ("part", "a file outside the archive"),
    ("restore", "it can be requested again"),
    ("restored", "it is reset every day"),
    ("copy", "it describes backups"),
    ("library", "it is set up anew, with every platter in its slot"),
    ("library_set", "the library numbers sets again"),
];

/// Lifecycle rules that are disabled, as all are when they are read back.
const RULES: &str = r#"[{"id":"a","enabled":false,"filter":{"prefix":"","old_form":true},"expiration":{"date_ms":0},"noncurrent":{"days":1}},{"id":"b","enabled":false,"filter":{"tags":[["k","v"]],"larger_than":7,"smaller_than":9},"expiration":{"days":3}},{"id":"c","enabled":false,"filter":{},"expiration":"markers","noncurrent":{"newer":2},"abort_uploads_after_days":4}]"#;

/// Values of columns in a first and a second row. Other columns get a value that fits their type,
/// so that a new column that isn't copied is noticed.
fn known(table: &str, column: &str) -> Option<[Value; 2]> {
    let text = |a: &str, b: &str| Some([Value::Text(a.into()), Value::Text(b.into())]);
    match (table, column) {
        ("bucket", "owner") => text("ada", "bo"),
        ("account", "name") | ("quota", "account") => text("ada", "bo"),
        ("bucket", "public_access") => Some([Value::Integer(5), Value::Integer(10)]),
        ("bucket", "versioning") => Some([Value::Integer(1), Value::Integer(2)]),
        ("bucket" | "version_state", "retention_mode") => text("GOVERNANCE", "COMPLIANCE"),
        ("account", "admin") | ("bucket", "object_lock" | "retention_in_years") | ("version_state", "legal_hold") => {
            Some([Value::Integer(1), Value::Integer(0)])
        }
        ("bucket", "lifecycle") => text(RULES, "[]"),
        ("bucket", "policy") => text("{\"Statement\": \"\\\"é\n\"}", "{}"),
        ("version_state", "id") => Some([Value::Blob(vec![1; 16]), Value::Blob(vec![0xfe; 16])]),
        _ => None,
    }
}

struct Column {
    name: String,
    kind: String,
    required: bool,
}

fn columns(connection: &Connection, table: &str) -> Vec<Column> {
    let mut statement = connection.prepare(&format!("PRAGMA table_info({table})")).expect("a table");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Column { name: row.get(1)?, kind: row.get(2)?, required: row.get::<_, bool>(3)? || row.get::<_, bool>(5)? })
    };
    statement.query_map([], read).expect("columns").map(|column| column.expect("a column")).collect()
}

/// Two rows with a value in every column, and two with NULL in nullable columns.
fn fill(connection: &Connection, table: &str) {
    let columns = columns(connection, table);
    for row in 0..4 {
        let value = |(index, column): (usize, &Column)| match known(table, &column.name) {
            _ if row >= 2 && !column.required => Value::Null,
            Some(values) if row < 2 => values[row].clone(),
            known => match (known, column.kind.as_str()) {
                (Some([Value::Blob(_), _]), _) => Value::Blob(vec![row as u8 + 10; 16]),
                (Some([Value::Integer(_), _]), _) => Value::Integer(0),
                // The owner must exist.
                (Some(_), _) if table == "bucket" => Value::Text("ada".into()),
                (Some(_), _) if table == "quota" => Value::Text(format!("name-{row}")),
                (_, "TEXT") => Value::Text(format!("{}-{row}", column.name)),
                (_, "INTEGER") => Value::Integer(1_000 * (row + 1) as i64 + index as i64),
                _ => Value::Blob(vec![row as u8; 16]),
            },
        };
        let values: Vec<Value> = columns.iter().enumerate().map(value).collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let marks = vec!["?"; names.len()].join(", ");
        let statement = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(", "));
        connection.execute(&statement, rusqlite::params_from_iter(values)).expect("a row");
    }
}

fn rows(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).expect("a table");
    let count = statement.column_count();
    let rows = statement.query_map([], |row| (0..count).map(|index| row.get(index)).collect());
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

fn tables(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").expect("a schema");
    statement.query_map([], |row| row.get(0)).expect("tables").map(|name| name.expect("a name")).collect()
}

fn empty() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = file::open(&folder.path().join("service.db"), ARCHIVE).expect("a file");
    (folder, connection)
}

fn full() -> (tempfile::TempDir, Connection) {
    let (folder, connection) = empty();
    for table in COPIED {
        fill(&connection, table);
    }
    // Removed, which differs from never set.
    connection.execute("UPDATE version_state SET retention_mode = '', retention_until = 0 WHERE id = ?1", [[0xfe; 16]]).expect("a row");
    (folder, connection)
}

fn text_of(connection: &Connection) -> Vec<u8> {
    let mut text = Vec::new();
    let mut gather = |piece: Vec<u8>| {
        text.extend(piece);
        Ok(())
    };
    let counts = write(connection, ARCHIVE, &mut gather).expect("a copy");
    assert_eq!(counts, Counts { accounts: 4, buckets: 4, versions: 4 });
    text
}

fn read_back(text: &[u8], piece: usize) -> Result<(Connection, Counts), BackupError> {
    let (_folder, connection) = empty();
    let mut reader = Reader::new(&connection, ARCHIVE);
    text.chunks(piece).try_for_each(|piece| reader.read(piece))?;
    let counts = reader.end()?;
    Ok((connection, counts))
}

#[test]
fn every_table_is_copied_or_left_out_on_purpose() {
    let (_folder, connection) = empty();
    let mut known: Vec<&str> = COPIED.into_iter().chain(LEFT_OUT.map(|(table, _)| table)).collect();
    known.sort_unstable();
    assert_eq!(tables(&connection), known);
}

#[test]
fn every_column_of_copied_tables_is_recovered() {
    let (_folder, connection) = full();
    let text = text_of(&connection);
    for piece in [1, 7, 1_000, text.len()] {
        let (back, counts) = read_back(&text, piece).expect("a copy");
        for table in COPIED {
            assert_eq!(rows(&back, table), rows(&connection, table), "{table}");
        }
        assert_eq!(counts, Counts { accounts: 4, buckets: 4, versions: 4 });
    }
}

#[test]
fn a_backup_is_text_without_secrets() {
    let (_folder, connection) = full();
    let insert = "INSERT INTO access_key (id, account, wrapped, created) VALUES ('FUKEY0123456789', 'ada', ?1, 77)";
    connection.execute(insert, [b"wrappedsecretwrappedsecret"]).expect("a key");
    let text = String::from_utf8(text_of(&connection)).expect("text");
    for line in text.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value.is_object()), "{line}");
    }
    for secret in ["FUKEY", "wrappedsecret", "77777261707065", "d3JhcHBlZHNlY3JldA"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn only_changes_of_copied_tables_are_counted() {
    let (_folder, connection) = full();
    let changes = || connection.query_row("SELECT changes FROM copy", [], |row| row.get::<_, i64>(0)).expect("a count");
    let does = |statement: &str| {
        let before = changes();
        let rows = connection.execute(statement, []).expect(statement);
        assert!(rows > 0, "{statement} changes something");
        changes() > before
    };
    for table in COPIED {
        let columns = columns(&connection, table);
        let free = columns.iter().find(|column| !column.required).unwrap_or(&columns[columns.len() - 1]);
        assert!(does(&format!("UPDATE {table} SET {0} = {0}", free.name)), "{table}");
    }
    // Buckets first: they reference their owners.
    for table in ["version_state", "bucket", "quota", "account"] {
        assert!(does(&format!("DELETE FROM {table}")), "{table}");
    }
    let before = changes();
    for table in COPIED {
        fill(&connection, table);
        assert!(changes() > before, "{table}");
    }
    assert!(!does("INSERT INTO access_key (id, account, wrapped, created) VALUES ('k', 'ada', x'00', 1)"));
    assert!(!does("UPDATE copy SET copied = changes"));
}

#[test]
fn incomplete_and_foreign_backups_are_refused() {
    let (_folder, connection) = full();
    let text = String::from_utf8(text_of(&connection)).expect("text");
    let read = |text: &str| read_back(text.as_bytes(), text.len().max(1)).map(|(_, counts)| counts);
    let lines: Vec<&str> = text.lines().collect();
    let without = |left_out: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, line)| format!("{line}\n"));
        kept.collect::<String>()
    };
    assert!(read(&text).is_ok());
    assert!(matches!(read(""), Err(BackupError::Counts { expected: None, .. })));
    assert!(matches!(read(&text[..text.len() - 1]), Err(BackupError::Counts { expected: None, .. })), "the last line is cut short");
    assert!(matches!(read(&without(lines.len() - 1)), Err(BackupError::Counts { expected: None, .. })));
    assert!(matches!(read(&without(lines.len() - 2)), Err(BackupError::Counts { expected: Some(_), .. })));
    assert!(matches!(read(&without(0)), Err(BackupError::Line { line: 1, .. })), "the head is missing");
    assert!(matches!(read(&format!("{text}{}\n", lines[1])), Err(BackupError::Line { .. })), "a line follows the end");
    let newer = text.replacen("\"format\":2", "\"format\":3,\"more\":true", 1);
    assert!(matches!(read(&newer), Err(BackupError::Newer { found: 3 })));
    let other = text.replacen("a5a5", "a5a6", 1);
    assert!(matches!(read(&other), Err(BackupError::OtherArchive { .. })));
    let unknown = text.replacen("\"admin\":", "\"colour\":1,\"admin\":", 1);
    assert!(matches!(read(&unknown), Err(BackupError::Line { line: 2, .. })), "unknown fields are not ignored");
    let endless = format!("{}\n{}", lines[0], "x".repeat(LINE_BYTES_MAX + 1));
    assert!(matches!(read(&endless), Err(BackupError::Line { line: 2, .. })));
}

#[test]
fn lifecycle_rules_are_disabled_when_they_are_read_back() {
    let (_folder, connection) = empty();
    connection.execute("INSERT INTO account (name, id, admin, created) VALUES ('ada', '1', 0, 0)", []).expect("an account");
    let enabled = RULES.replace("\"enabled\":false", "\"enabled\":true");
    let line = format!(r#"{{"name":"b","owner":"ada","created_ms":0,"versioning":"enabled","object_lock":false,"lifecycle":{enabled}}}"#);
    buckets::insert(&connection, &serde_json::from_str(&line).expect("a bucket")).expect("a bucket");
    let mut text = Vec::new();
    let mut gather = |piece: Vec<u8>| {
        text.extend(piece);
        Ok(())
    };
    write(&connection, ARCHIVE, &mut gather).expect("a backup");
    assert!(String::from_utf8_lossy(&text).contains(&enabled), "the backup says which were enabled");
    let (recovered, _) = read_back(&text, 1 << 20).expect("readable");
    let found: String = recovered.query_row("SELECT lifecycle FROM bucket", [], |row| row.get(0)).expect("rules");
    assert_eq!(found, RULES);
}

#[test]
fn many_rows_are_written_piece_by_piece() {
    let (_folder, connection) = empty();
    let fill = "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 60000) \
                INSERT INTO version_state (id, tags) SELECT randomblob(16), 'colour=ultramarine' FROM counted";
    connection.execute(fill, []).expect("rows");
    let mut pieces = Vec::new();
    let mut count = |piece: Vec<u8>| {
        pieces.push(piece.len());
        Ok(())
    };
    write(&connection, ARCHIVE, &mut count).expect("a copy");
    assert!(pieces.len() > 3, "{pieces:?}");
    assert!(pieces.iter().all(|&bytes| bytes <= PIECE_BYTES + LINE_BYTES_MAX), "{pieces:?}");
}

/// A bucket with CORS rules of this length.
fn with_rules(bytes: usize) -> (tempfile::TempDir, Connection) {
    let (folder, connection) = empty();
    connection.execute("INSERT INTO account (name, id, admin, created) VALUES ('ada', '1', 0, 0)", []).expect("an account");
    let plain = r#"{"name":"b","owner":"ada","created_ms":0,"versioning":"never","object_lock":false}"#;
    let plain: Bucket = serde_json::from_str(plain).expect("a bucket");
    let rules = Bucket { name: "long".into(), owner: "ada".into(), cors: Some("x".repeat(bytes)), ..plain };
    buckets::insert(&connection, &rules).expect("a bucket");
    (folder, connection)
}

#[test]
fn a_line_longer_than_readers_accept_makes_no_backup() {
    let text = |connection: &Connection| {
        let mut text = Vec::new();
        write(connection, ARCHIVE, &mut |piece| {
            text.extend(piece);
            Ok(())
        })
        .map(|_| text)
    };
    let (_folder, connection) = with_rules(LINE_BYTES_MAX - 1_000);
    let copy = text(&connection).expect("a copy");
    assert_eq!(read_back(&copy, 1 << 20).expect("it is readable").1.buckets, 1);
    let (_folder, connection) = with_rules(LINE_BYTES_MAX);
    let error = text(&connection).expect_err("too long");
    assert!(matches!(&error, BackupError::TooLong { what, .. } if what == "bucket \"long\""), "{error}");
}
