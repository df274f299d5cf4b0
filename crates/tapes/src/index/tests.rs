use super::*;

const LABEL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ltfslabel version="2.4.0">
  <creator>IBM LTFS 2.4.0.2</creator>
  <formattime>2019-03-01T10:15:00.000000000Z</formattime>
  <volumeuuid>30a91a08-daae-48d1-ae75-69804e61d2ea</volumeuuid>
  <location><partition>b</partition></location>
  <partitions><index>a</index><data>b</data></partitions>
  <blocksize>524288</blocksize>
  <compression>true</compression>
</ltfslabel>"#;

/// As an implementation of LTFS writes one: elements of times, links, attributes and encoded names.
const INDEX: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ltfsindex version="2.4.0">
  <creator>IBM LTFS 2.4.0.2 - Linux - ltfs</creator>
  <volumeuuid>30a91a08-daae-48d1-ae75-69804e61d2ea</volumeuuid>
  <generationnumber>3</generationnumber>
  <updatetime>2019-03-01T11:12:13.000000000Z</updatetime>
  <location><partition>a</partition><startblock>12</startblock></location>
  <previousgenerationlocation><partition>b</partition><startblock>40</startblock></previousgenerationlocation>
  <allowpolicyupdate>true</allowpolicyupdate>
  <highestfileuid>9</highestfileuid>
  <directory>
    <name>LTFS Volume Name</name>
    <readonly>false</readonly>
    <creationtime>2019-03-01T10:15:00.000000000Z</creationtime>
    <fileuid>1</fileuid>
    <contents>
      <directory>
        <name percentencoded="1">night%3A 1</name>
        <contents>
          <file>
            <name>a &amp; b.fits</name>
            <length>1000000</length>
            <readonly>false</readonly>
            <fileuid>3</fileuid>
            <extendedattributes>
              <xattr><key>ltfs.hash.md5sum</key><value>900150983cd24fb0d6963f7d28e17f72</value></xattr>
              <xattr><key>ltfs.hash.sha1sum</key><value>a9993e364706816aba3e25717850c26c9cd0d89d</value></xattr>
              <xattr><key>empty</key><value/></xattr>
            </extendedattributes>
            <extentinfo>
              <extent><fileoffset>600000</fileoffset><partition>b</partition><startblock>9</startblock><byteoffset>7</byteoffset><bytecount>400000</bytecount></extent>
              <extent><fileoffset>0</fileoffset><partition>a</partition><startblock>4</startblock><byteoffset>0</byteoffset><bytecount>500000</bytecount></extent>
            </extentinfo>
          </file>
          <directory><name>nothing</name><contents/></directory>
          <file><name>link</name><length>0</length><symlink>a.fits</symlink></file>
        </contents>
      </directory>
      <file><name>empty</name><length>0</length></file>
    </contents>
  </directory>
</ltfsindex>"#;

fn read(xml: &str) -> Result<(IndexHead, Vec<TapeFile>), IndexError> {
    let mut files = Vec::new();
    let head = read_index(xml.as_bytes(), &mut |file| {
        files.push(file);
        true
    })?;
    Ok((head, files))
}

#[test]
fn a_label_and_an_index_are_read() {
    let uuid = "30a91a08-daae-48d1-ae75-69804e61d2ea".to_owned();
    assert_eq!(read_label(LABEL.as_bytes()), Ok(Label { uuid: uuid.clone(), block_bytes: 524_288 }));
    let (head, files) = read(INDEX).expect("an index");
    assert_eq!(head, IndexHead { uuid, generation: 3 });
    assert_eq!(files.len(), 2);
    let file = &files[0];
    assert_eq!((file.path.as_str(), file.bytes), ("night: 1/a & b.fits", 1_000_000));
    assert_eq!(file.digest.as_ref().map(|digest| digest.algorithm().to_string()).as_deref(), Some("sha1"));
    assert_eq!(file.first_block(), (Partition::A, 4));
    assert_eq!(file.extents[1], Extent { partition: Partition::B, block: 9, offset: 7, bytes: 400_000, file_offset: 600_000 });
    assert_eq!((files[1].path.as_str(), files[1].bytes, files[1].extents.len()), ("empty", 0, 0));
}

#[test]
fn what_is_written_reads_back_the_same() {
    let label = Label { uuid: "u".to_owned(), block_bytes: 4_096 };
    let mut xml = Vec::new();
    write_label(&mut xml, &label).expect("written");
    assert_eq!(read_label(&xml[..]), Ok(label));
    let digest = Digest::new(fulgurite_digest::Algorithm::Sha256, &[7; 32]);
    let file = |path: &str, block| TapeFile {
        path: path.to_owned(),
        bytes: 5,
        extents: vec![Extent { partition: Partition::B, block, offset: 0, bytes: 5, file_offset: 0 }],
        digest: digest.clone(),
    };
    let files = ["a", "b/ c ", "b/50%25", "b/d/ü<&>\"'", "b/e\u{1}\n", "日本:x"].map(|path| file(path, 9));
    let head = IndexHead { uuid: "u".to_owned(), generation: 2 };
    let mut xml = Vec::new();
    write_index(&mut xml, &head, "T<1>", &files).expect("written");
    let (found, mut read) = read(std::str::from_utf8(&xml).expect("UTF-8")).expect("an index");
    read.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(found, head);
    assert_eq!(read, files);
}

#[test]
fn damaged_indexes_are_refused() {
    for (from, to) in [
        ("<generationnumber>3</generationnumber>", ""),
        ("<volumeuuid>30a91a08-daae-48d1-ae75-69804e61d2ea</volumeuuid>", "<volumeuuid/>"),
        ("<name>empty</name>", ""),
        ("<name>empty</name>", "<name>..</name>"),
        ("<name>empty</name>", "<name>a/b</name>"),
        ("<name percentencoded=\"1\">night%3A 1</name>", ""),
        ("<name percentencoded=\"1\">night%3A 1</name>", "<name percentencoded=\"true\">%ff</name>"),
        ("<length>1000000</length>", "<length>-1</length>"),
        ("<length>1000000</length>", "<length>9007199254740993</length>"),
        ("<length>1000000</length>", "<length>999999</length>"),
        ("<bytecount>500000</bytecount>", "<bytecount>600001</bytecount>"),
        ("<bytecount>500000</bytecount>", "<bytecount>18446744073709551615</bytecount>"),
        ("<startblock>4</startblock>", ""),
        ("<partition>a</partition><startblock>4", "<partition>c</partition><startblock>4"),
        ("</ltfsindex>", ""),
        ("</contents>\n  </directory>\n</ltfsindex>", "</ltfsindex>"),
        ("ltfsindex", "ltfslabel"),
        ("&amp;", "&unknown;"),
    ] {
        let damaged = INDEX.replacen(from, to, if from == "ltfsindex" { 2 } else { 1 });
        assert_ne!(damaged, INDEX, "{from}");
        assert!(read(&damaged).is_err(), "{from} -> {to}");
    }
    let deep = "<directory><name>d</name><contents>".repeat(DEPTH_MAX + 1);
    assert_eq!(read(&format!("<ltfsindex>{deep}")), Err(IndexError::Depth));
    for cut in 0..INDEX.len() {
        if INDEX.is_char_boundary(cut) {
            assert!(read(&INDEX[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn no_index_makes_the_reader_panic_and_what_it_reads_is_consistent() {
    let mut chance = fulgurite_chance::Xorshift::new(11);
    let pieces =
        ["<", ">", "/", "&amp;", "<directory>", "</file>", "<extent>", "99999999999999999999", "\0", "<!--", "]]>", "<![CDATA[x]]>"];
    for _ in 0..5_000 {
        let mut xml = INDEX.as_bytes().to_vec();
        for _ in 0..=chance.below(4) {
            let at = chance.below(xml.len());
            match chance.below(4) {
                0 => xml[at] ^= 1 << chance.below(8),
                1 => drop(xml.drain(at..(at + chance.below(60)).min(xml.len()))),
                2 => drop(xml.splice(at..at, pieces[chance.below(pieces.len())].bytes())),
                _ => xml.truncate(at.max(1)),
            }
        }
        let _ = read_index(&xml[..], &mut |file| {
            assert!(!file.path.split('/').any(|part| part.is_empty() || part == "." || part == ".."), "{:?}", file.path);
            let ends = file.extents.iter().map(|extent| (extent.file_offset, extent.file_offset + extent.bytes)).collect::<Vec<_>>();
            assert!(ends.is_sorted_by(|before, after| before.1 <= after.0) && ends.iter().all(|(_, end)| *end <= file.bytes), "{file:?}");
            true
        });
        let _ = read_label(&xml[..]);
    }
}
