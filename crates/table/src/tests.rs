use super::*;
use parquet::file::reader::ChunkReader;
use std::fs::File;
use std::io::{Read, Seek};

fn sample() -> Table {
    let mut table = Table::new([
        Column::text("policy", "Who decides."),
        Column::f64("tail_s", "s", "The 99.9th percentile of completion times."),
        Column::i64("requests", "", "How many ended."),
        Column::bool("met", "Whether the service level was kept."),
    ])
    .note("scenario", "iops \"quoted\"\nsecond line")
    .note("seed", 42)
    .note("version", "0.1.0");
    let texts = ["partitioned", "a,b", "say \"x\"", "two\r\nlines", "héllo, Welt – 玻璃 🪩", "", " padded "];
    let numbers = [0.1 + 0.2, -0.0, 1e300, 5e-324, f64::INFINITY, 54_000.0, f64::NEG_INFINITY];
    let counts = [0, 1, -1, i64::MAX, i64::MIN, 7, 8];
    for ((text, number), count) in texts.into_iter().zip(numbers).zip(counts) {
        table.push([text.into(), number.into(), count.into(), (count > 0).into()]).unwrap();
    }
    table.push([Value::Missing, Value::Missing, Value::Missing, Value::Missing]).unwrap();
    table
}

fn csv(table: &Table) -> String {
    let mut bytes = Vec::new();
    table.write_csv(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn parquet(table: &Table) -> File {
    let mut file = tempfile::tempfile().unwrap();
    table.write_parquet(&mut file).unwrap();
    file
}

/// A plain reader for RFC 4180: fields, and whether each was quoted.
fn read_csv(text: &str) -> Vec<Vec<(String, bool)>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if field.is_empty() && !quoted => {
                quoted = true;
                loop {
                    match chars.next().expect("a quote is closed") {
                        '"' if chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
                        '"' => break,
                        c => field.push(c),
                    }
                }
            }
            ',' => row.push((std::mem::take(&mut field), std::mem::take(&mut quoted))),
            '\r' => {
                assert_eq!(chars.next(), Some('\n'));
                row.push((std::mem::take(&mut field), std::mem::take(&mut quoted)));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty(), "the last line is ended");
    rows
}

#[test]
fn csv_reads_back_the_same() {
    let table = sample();
    let rows = read_csv(&csv(&table));
    assert_eq!(rows[0].iter().map(|field| field.0.as_str()).collect::<Vec<_>>(), ["policy", "tail_s", "requests", "met"]);
    for (fields, row) in rows[1..].iter().zip(table.rows()) {
        for ((text, quoted), (value, column)) in fields.iter().zip(row.iter().zip(table.columns())) {
            let read = match column.kind() {
                _ if text.is_empty() && !quoted => Value::Missing,
                Kind::F64 => Value::F64(text.parse().unwrap()),
                Kind::I64 => Value::I64(text.parse().unwrap()),
                Kind::Text => Value::Text(text.clone()),
                Kind::Bool => Value::Bool(text.parse().unwrap()),
            };
            assert_eq!(&read, value);
        }
    }
    assert_eq!(rows.len(), 1 + table.rows().len());
}

#[test]
fn csv_has_the_expected_bytes() {
    let mut table = Table::new([Column::text("a \"b\"", ""), Column::f64("x", "", ""), Column::bool("c", "")]);
    table.push(["".into(), 0.1.into(), true.into()]).unwrap();
    table.push(["q\"q".into(), 1e21.into(), Value::Missing]).unwrap();
    table.push(["plain".into(), 15.0.into(), false.into()]).unwrap();
    assert_eq!(csv(&table), "\"a \"\"b\"\"\",x,c\r\n\"\",0.1,true\r\n\"q\"\"q\",1e21,\r\nplain,15.0,false\r\n");
}

#[test]
fn the_dictionary_describes_the_columns() {
    let dictionary = sample().dictionary();
    assert_eq!(dictionary.rows().len(), 4);
    assert_eq!(dictionary.value(1, "unit"), Some(&Value::from("s")));
    assert_eq!(dictionary.value(3, "description"), Some(&Value::from("Whether the service level was kept.")));
}

fn all_wanted(table: &Table) -> Vec<Wanted> {
    table.columns().iter().map(|column| Wanted::required(column.name(), column.kind())).collect()
}

fn rows<R: ChunkReader + 'static>(source: R, wanted: Vec<Wanted>) -> Vec<Row> {
    ParquetRows::new(source, wanted).unwrap().map(Result::unwrap).collect()
}

#[test]
fn parquet_reads_back_the_same() {
    let table = sample();
    let read = rows(parquet(&table), all_wanted(&table));
    assert_eq!(read.iter().map(|row| row.values.clone()).collect::<Vec<_>>(), table.rows());
    assert_eq!(read.iter().map(|row| row.number).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    let Value::F64(zero) = read[1].values[1] else { panic!("a number") };
    assert!(zero == 0.0 && zero.is_sign_negative());
    let file = ParquetRows::new(parquet(&table), []).unwrap();
    assert_eq!(file.note("scenario"), Some("iops \"quoted\"\nsecond line"));
    assert_eq!((file.note("seed"), file.note("unit.tail_s")), (Some("42"), Some("s")));
    assert_eq!((file.note("description.met"), file.note("unit.met")), (Some("Whether the service level was kept."), None));
    assert_eq!(file.row_count(), 8);
}

#[test]
fn parquet_files_are_reproducible() {
    let bytes = || {
        let mut file = parquet(&sample());
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn an_empty_table_is_a_file_without_rows() {
    let table = Table::new([Column::i64("n", "", "")]);
    assert!(rows(parquet(&table), all_wanted(&table)).is_empty());
    assert_eq!(csv(&table), "n\r\n");
}

#[test]
fn rows_come_in_order_across_batches() {
    let mut table = Table::new([Column::i64("n", "", ""), Column::f64("x", "", ""), Column::text("t", "")]);
    for n in 0..10_000_i64 {
        let text: Value = if n % 3 == 0 { Value::Missing } else { format!("t{}", n % 17).into() };
        table.push([n.into(), (n as f64 / 7.0).into(), text]).unwrap();
    }
    let wanted = vec![Wanted::required("t", Kind::Text), Wanted::optional("not there", Kind::I64), Wanted::required("n", Kind::F64)];
    let read = rows(parquet(&table), wanted);
    assert_eq!(read.len(), 10_000);
    for (n, row) in read.iter().enumerate() {
        assert_eq!(row.number, n as u64);
        assert_eq!(row.values, [table.rows()[n][2].clone(), Value::Missing, Value::F64(n as f64)]);
    }
}

#[test]
fn errors_name_a_missing_column_and_a_wrong_kind() {
    let error = |wanted| ParquetRows::new(parquet(&sample()), [wanted]).unwrap_err().to_string();
    let missing = error(Wanted::required("arrival_us", Kind::I64));
    assert_eq!(missing, "the file has no column `arrival_us`; its columns are `policy`, `tail_s`, `requests`, `met`");
    assert_eq!(error(Wanted::required("tail_s", Kind::I64)), "column `tail_s` holds DOUBLE; expected whole number");
    assert_eq!(error(Wanted::optional("policy", Kind::F64)), "column `policy` holds BYTE_ARRAY as String; expected number");
}

#[test]
fn an_unsupported_compression_is_named() {
    let mut table = Table::new([Column::i64("n", "", "")]);
    table.push([1_i64.into()]).unwrap();
    let mut file = parquet(&table);
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    // In the footer, the codec is the field after the column's path (["n"]): 1 is Snappy, 6
    // Zstandard; Thrift doubles them.
    let path = bytes.windows(5).rposition(|window| window == [0x19, 0x18, 1, b'n', 0x15]).unwrap();
    assert_eq!(bytes[path + 5], 2);
    bytes[path + 5] = 12;
    let mut changed = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut changed, &bytes).unwrap();
    let error = ParquetRows::new(changed, [Wanted::required("n", Kind::I64)]).unwrap_err().to_string();
    assert_eq!(error, "column `n` is compressed with ZSTD(ZstdLevel(1)); only Snappy and uncompressed columns are supported");
}

#[test]
fn damaged_files_and_other_formats_are_errors() {
    let mut nonsense = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut nonsense, b"arrival,bytes\n1,2\n").unwrap();
    assert!(matches!(ParquetRows::new(nonsense, []), Err(RowsError::NotParquet(_))));

    let table = sample();
    let mut file = parquet(&table);
    file.seek(io::SeekFrom::Start(10)).unwrap();
    io::Write::write_all(&mut file, &[0xff; 40]).unwrap();
    let mut read = ParquetRows::new(file, all_wanted(&table)).unwrap();
    let damaged = read.next().unwrap().unwrap_err();
    assert!(matches!(damaged, RowsError::Damaged { row: 0, .. }));
    assert_eq!(damaged.to_string(), "the file is damaged and can't be read from row 1 on");
    assert!(read.next().is_none(), "there are no rows after an error");
}

#[test]
fn a_row_that_does_not_fit_the_columns_is_rejected() {
    let mut table = Table::new([Column::f64("x", "", ""), Column::text("t", "")]);
    assert_eq!(table.push([1.0.into()]).unwrap_err().to_string(), "row 0 has 1 values, but the table has 2 columns");
    let error = table.push([1_i64.into(), "a".into()]).unwrap_err().to_string();
    assert_eq!(error, "row 0 has a whole number in column `x`, which holds number");
    assert!(table.rows().is_empty());
}

#[test]
#[should_panic(expected = "two columns are called `x`")]
fn two_columns_of_the_same_name_are_rejected() {
    let _ = Table::new([Column::text("x", ""), Column::f64("x", "", "")]);
}

#[test]
fn terminal_output_has_aligned_columns_and_four_significant_digits() {
    let mut table = Table::new([
        Column::text("policy", ""),
        Column::f64("tail", "s", ""),
        Column::f64("share", "", ""),
        Column::i64("requests", "", ""),
        Column::bool("met", ""),
    ]);
    table.push(["partitioned".into(), 1_234.567_89.into(), 0.031_415_9.into(), 12.into(), true.into()]).unwrap();
    table.push(["NS\u{1b}[2J".into(), 12.3.into(), 1.0.into(), 123_456.into(), false.into()]).unwrap();
    table.push(["SP".into(), Value::Missing, 1.5e-7.into(), 3.into(), Value::Missing]).unwrap();
    let wanted = r"
policy          tail     share  requests  met
                   s
-----------  -------  --------  --------  ---
partitioned  1235     0.03142         12  yes
NS\u{1b}[2J    12.30  1.000       123456  no
SP              -     1.500e-7         3  -
";
    assert_eq!(format!("\n{table}"), wanted);
}

#[test]
fn time_columns_are_integers_of_their_unit() {
    use parquet::data_type::Int64Type;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let schema = "message m { required int64 ms (TIMESTAMP(MILLIS,true)); required int64 ns (TIMESTAMP(NANOS,false)); required int64 n; required binary odd; }";
    let schema = std::sync::Arc::new(parse_message_type(schema).unwrap());
    let mut file = tempfile::tempfile().unwrap();
    let properties = std::sync::Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for value in [1_500, 2_000_000_000, 7] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[value], None, None).unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::ByteArrayType>().write_batch(&["a".into()], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

    let columns = stored(file.try_clone().unwrap()).unwrap();
    let said: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.kind, column.nanoseconds)).collect();
    assert_eq!(
        said,
        [
            ("ms", Some(Kind::I64), Some(1_000_000)),
            ("ns", Some(Kind::I64), Some(1)),
            ("n", Some(Kind::I64), None),
            ("odd", Some(Kind::Text), None)
        ]
    );
    let read = rows(file.try_clone().unwrap(), columns.iter().map(|column| Wanted::required(&column.name, column.kind.unwrap())).collect());
    assert_eq!(read[0].values, [1_500_i64.into(), 2_000_000_000_i64.into(), 7_i64.into(), Value::from("a")]);
    // A time is rejected as a plain number, because its unit would be lost.
    let error = ParquetRows::new(file, [Wanted::required("ms", Kind::F64)]).unwrap_err().to_string();
    assert!(error.starts_with("column `ms` holds INT64 as Timestamp"), "{error}");
}

/// Older writers describe columns by converted types only.
#[test]
fn legacy_types_mean_what_their_successors_mean() {
    use parquet::data_type::{Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let schema = "message m { required int64 ms (TIMESTAMP_MILLIS); required int64 us (TIMESTAMP_MICROS); \
        required int64 n (UINT_64); required int32 day (DATE); }";
    let schema = std::sync::Arc::new(parse_message_type(schema).unwrap());
    let mut file = tempfile::tempfile().unwrap();
    let mut writer = SerializedFileWriter::new(&mut file, schema, std::sync::Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for value in [1_500, 2_500, -1] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[value], None, None).unwrap();
        column.close().unwrap();
    }
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&[20_000], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

    let columns = stored(file.try_clone().unwrap()).unwrap();
    let said: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.kind, column.nanoseconds)).collect();
    let whole = Some(Kind::I64);
    assert_eq!(said, [("ms", whole, Some(1_000_000)), ("us", whole, Some(1_000)), ("n", whole, None), ("day", None, None)]);
    let mut read = ParquetRows::new(file.try_clone().unwrap(), [Wanted::required("n", Kind::I64)]).unwrap();
    let unsuitable = read.next().unwrap().unwrap_err();
    assert!(matches!(unsuitable, RowsError::Unsuitable { row: 0, .. }), "2^64 - 1 is not -1");
    assert!(unsuitable.to_string().starts_with("row 1 of column `n` is not a valid whole number"), "{unsuitable}");
    let error = ParquetRows::new(file, [Wanted::required("day", Kind::I64)]).unwrap_err().to_string();
    assert!(error.starts_with("column `day` holds INT32 as Date"), "{error}");
}
