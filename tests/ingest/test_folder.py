"""`fulgurite ingest folder`: alerts and FITS files, loose and in archives."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from pathlib import Path

import pytest

import alerts
from conftest import Bucket, written
from test_kafka import cutouts


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_a_night_of_alerts_in_an_archive(bucket: Bucket, tmp_path):
    """As ZTF publishes its nights: a compressed archive with a file for each alert."""
    made = [alerts.ztf(number) for number in range(40)]
    tar(tmp_path / "night.tar.gz", {f"./{alert['candid']}.avro": alerts.container("ztf", alert) for alert in made})
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 0, ended
    assert bucket.contents() == cutouts(*made)
    again = bucket.ingest("folder", str(tmp_path / "night.tar.gz"))
    assert again.status == 0 and again.answer["stored"] == 0 and again.answer["already_stored"] == 120
    assert bucket.contents() == cutouts(*made)


def test_small_objects_are_put_together(bucket: Bucket, tmp_path):
    def requests(method: str) -> int:
        figures = bucket.server.get("/-/metrics")[1].splitlines()
        return sum(int(line.split()[1]) for line in figures if line.startswith(f'fulgurite_requests_total{{method="{method}"'))

    made = [alerts.ztf(number) for number in range(400)]
    written(tmp_path / "many.avro", alerts.container("ztf", *made))
    before = requests("POST"), requests("PUT")
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 0 and ended.answer["stored"] == 1_200, ended
    bulk_puts, puts = requests("POST") - before[0], requests("PUT") - before[1]
    assert 5 <= bulk_puts <= 60 and puts <= 60, (bulk_puts, puts)
    assert bucket.contents() == cutouts(*made)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_file_with_many_alerts(bucket: Bucket, tmp_path, codec: str):
    made = [alerts.ztf(number, history=2) for number in range(30)]
    written(tmp_path / "many.avro", alerts.container("ztf", *made, codec=codec))
    assert bucket.ingest("folder", str(tmp_path / "many.avro")).answer["alerts"] == 30
    assert bucket.contents() == cutouts(*made)


def test_fits_files_are_stored_as_they_are(bucket: Bucket, tmp_path):
    image = alerts.fits(1, "x")
    files = {"a/one.fits": image, "a/two.FITS.GZ": gzip.compress(image), "three.fit": b"", "a/b/four.fits.fz": image[:2880]}
    for name, content in files.items():
        written(tmp_path / "folder" / name, content)
    tar(tmp_path / "folder/stack.tar", {"x/five.fits": image, "six.fts": image[:10]}, "w")
    ended = bucket.ingest("folder", str(tmp_path / "folder"), "--file-key", "images/{path}")
    assert ended.status == 0 and ended.answer["files"] == 6, ended
    kept = files | {"x/five.fits": image, "six.fts": image[:10]}
    assert bucket.contents() == {f"images/{name}": content for name, content in kept.items()}


def test_what_can_not_be_read_is_named_and_stops_nothing(bucket: Bucket, tmp_path):
    good = alerts.container("ztf", alerts.ztf(1))
    written(tmp_path / "a.avro", good[:-20])
    written(tmp_path / "b.avro", good)
    written(tmp_path / "notes.txt", b"not for the bucket")
    whole = tar(tmp_path / "c.tar.gz", {"d.avro": alerts.container("ztf", alerts.ztf(2)), "e.avro": alerts.container("ztf", alerts.ztf(3))})
    whole.write_bytes(whole.read_bytes()[:-20_000])
    tar(tmp_path / "f.tar", {"g.avro": b"Obj?", "h.txt": b"", "i.tar": b""}, "w")
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and ended.answer["dead_letters"] == 2 and ended.answer["failed"] == 4
    for named in ("a.avro: the Avro file is damaged", "notes.txt: it is neither", "c.tar.gz: the archive", "f.tar: g.avro: ", "f.tar: h.txt: it is neither", "f.tar: i.tar: "):
        assert f"{tmp_path}/{named}" in ended.text, named
    assert bucket.contents() == cutouts(alerts.ztf(1), alerts.ztf(2))
    letters = bucket.dead_letters()
    assert letters["a.avro"][0] == good[:-20] and letters["f.tar/g.avro"][0] == b"Obj?"


def test_arguments_that_are_wrong(bucket: Bucket, tmp_path):
    for wrong, why in (([str(tmp_path / "absent")], "no such file"), ([str(tmp_path), "--file-key", "{candid}"], "expected {path} or {name}")):
        ended = bucket.ingest("folder", *wrong)
        assert ended.status == 2 and why in ended.text


def test_nothing_is_stored_of_a_file_with_one_bad_alert(bucket: Bucket, tmp_path):
    """Its cutouts would be there, and its packet be taken for stored."""
    made = [alerts.ztf(1), alerts.ztf(2) | {"objectId": ""}]
    written(tmp_path / "two.avro", alerts.container("ztf", *made))
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and "`objectId` is empty" in ended.text
    assert bucket.contents() == {} and list(bucket.dead_letters()) == ["two.avro"]




def test_links_are_named(bucket: Bucket, tmp_path):
    """What they lead to isn't stored, or is stored under its own name."""
    written(tmp_path / "there/a.fits", b"1")
    (tmp_path / "named").symlink_to(tmp_path / "here")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/file.fits").symlink_to(tmp_path / "there/a.fits")
    (tmp_path / "here/folder").symlink_to(tmp_path / "there")
    (tmp_path / "here/nothing.fits").symlink_to(tmp_path / "nowhere")
    with tarfile.open(tmp_path / "here/links.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        link = tarfile.TarInfo("b.avro")
        link.type, link.linkname = tarfile.SYMTYPE, "a.avro"
        archive.addfile(link)
        sparse = tarfile.TarInfo("c.fits")
        sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "c.fits"}
        archive.addfile(sparse)
    ended = bucket.ingest("folder", str(tmp_path / "named"))
    assert ended.status == 1 and ended.answer["failed"] == 4, ended
    for name in ("links.tar: c.fits: it is a sparse file", "folder: it is a link", "nothing.fits: it is a link", "links.tar: b.avro: it is a link"):
        assert f"{tmp_path}/named/{name}" in ended.text, name
    assert bucket.contents() == {"file.fits": b"1"}


def test_a_file_that_grows_when_it_is_read_takes_little_memory(bucket: Bucket, tmp_path):
    """A block of 300 MB in 300 kB."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(bytes(300_000_000)) + packed.flush()
    length, count = bytearray(), len(data) << 1
    while count >= 0x80:
        length.append(count & 0x7F | 0x80)
        count >>= 7
    length.append(count)
    head = alerts.container("ztf", codec="deflate")
    sync = head[-16:]
    for number in range(20):
        written(tmp_path / f"{number}.avro", head + b"\x02" + bytes(length) + data + sync)
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and ended.answer["dead_letters"] == 20 and "can't be decompressed" in ended.text


def test_a_key_that_is_too_long_stops_no_other(bucket: Bucket, tmp_path):
    made = [alerts.ztf(1), alerts.ztf(2) | {"objectId": "x" * 1020}, alerts.ztf(3)]
    for number, alert in enumerate(made):
        written(tmp_path / f"{number}.avro", alerts.container("ztf", alert))
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and ended.answer["alerts"] == 2 and ended.answer["dead_letters"] == 1
    assert bucket.contents() == cutouts(made[0], made[2])


def test_names_that_can_be_no_keys_stop_no_other(bucket: Bucket, tmp_path):
    tar(tmp_path / "a.tar", {"one.fits": b"1", "../two.fits": b"2", "three.fits": b"3"}, "w")
    written(tmp_path / "b\nc.fits", b"4")
    written(tmp_path / " d  e .avro", b"5")
    written(tmp_path / "z.fits", b"6")
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and ended.answer["dead_letters"] == 3, ended
    assert bucket.contents() == {"one.fits": b"1", "three.fits": b"3", "z.fits": b"6"}
    letters = bucket.dead_letters()
    assert sorted(content for content, _ in letters.values()) == [b"2", b"4", b"5"] and " d  e .avro" in letters
    assert "segment `.` or `..`" in " ".join(reason for _, reason in letters.values())


def test_a_damaged_or_appended_archive_is_not_taken_for_whole(bucket: Bucket, tmp_path):
    plain = tar(tmp_path / "plain", {"one.fits": b"M" * 5000}, "w").read_bytes()
    (tmp_path / "plain").unlink()
    stored = bytearray(gzip.compress(plain, 0))
    stored[stored.find(b"M" * 50) + 100] ^= 1
    written(tmp_path / "damaged.tar.gz", bytes(stored))
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and "damaged.tar.gz: " in ended.text, ended

    (tmp_path / "damaged.tar.gz").unlink()
    parts = [tar(tmp_path / name, {f"{name}.fits": b"M" * 5000}).read_bytes() for name in ("two", "three")]
    for name in ("two", "three"):
        (tmp_path / name).unlink()
    written(tmp_path / "both.tgz", b"".join(parts))
    assert bucket.ingest("folder", str(tmp_path)).answer["files"] == 2
    assert {"two.fits", "three.fits"} <= set(bucket.contents())


def test_what_is_no_file_is_named(bucket: Bucket, tmp_path):
    os.mkfifo(tmp_path / "pipe.fits")
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 1 and "pipe.fits: it is neither a file nor a folder" in ended.text


def test_many_files_are_stored_with_a_small_buffer(bucket: Bucket, tmp_path):
    """Also one that is larger than the buffer."""
    files = {f"{number:03}.fits": bytes([number]) * 3000 for number in range(200)} | {"large.fits": bytes(500_000)}
    for name, content in files.items():
        written(tmp_path / name, content)
    ended = bucket.ingest("folder", str(tmp_path), "--buffer", "64 KiB")
    assert ended.status == 0 and bucket.contents() == files


def test_a_file_without_alerts_is_no_success(bucket: Bucket, tmp_path):
    """It was cut off after its header, maybe. A block with nothing at the end is harmless."""
    whole = alerts.container("ztf", alerts.ztf(1))
    head, empty_block = alerts.container("ztf"), b"\0\0" + whole[-16:]
    for name, content in {"a.avro": head, "b.avro": head + empty_block, "c.avro": whole + empty_block}.items():
        written(tmp_path / name, content)
    ended = bucket.ingest("folder", str(tmp_path), "--packet", "packets/{candid}.avro")
    assert ended.status == 1 and ended.answer["dead_letters"] == 2, ended
    letters = bucket.dead_letters()
    assert letters == {"a.avro": (head, "it has no alerts"), "b.avro": (head + empty_block, "it has no alerts")}
    assert bucket.contents() == cutouts(alerts.ztf(1)) | {f"packets/{alerts.ztf(1)['candid']}.avro": whole + empty_block}


def test_a_link_to_what_is_neither_file_nor_folder_is_named(bucket: Bucket, tmp_path):
    os.mkfifo(tmp_path / "pipe.fits")
    (tmp_path / "link.fits").symlink_to(tmp_path / "pipe.fits")
    ended = bucket.ingest("folder", str(tmp_path / "link.fits"))
    assert ended.status == 1 and "link.fits: it is neither a file nor a folder" in ended.text, ended


def test_the_label_of_an_archive_is_no_damage(bucket: Bucket, tmp_path):
    """GNU tar leaves its size empty."""
    label = tarfile.TarInfo("night of 2026-12-01")
    label.type = b"V"
    header = bytearray(label.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = bytes(12)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    plain = tar(tmp_path / "a.tar", {"a.fits": b"image"}, "w")
    plain.write_bytes(bytes(header) + plain.read_bytes())
    ended = bucket.ingest("folder", str(tmp_path))
    assert ended.status == 0 and bucket.contents() == {"a.fits": b"image"}, ended
