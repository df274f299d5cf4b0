"""`fulgurite://` URLs, in an archive and at a server, with fsspec and the programs that use it."""

import io
import json
import pickle
from datetime import UTC, datetime, timedelta

import fsspec
import numpy as np
import pandas
import pytest
import xarray
import zarr
from conftest import Made, noise
from serving import Own, connect

import fulgurite
from fulgurite.filesystem import FulguriteFileSystem

FILES = {f"night/{number:02}/{name}.bin": noise(f"{number}{name}", 2_000 + number) for number in range(30) for name in "ab"}
FILES |= {"top.txt": b"top", "night.txt": b"beside", "night/é.txt": "é".encode()}


def dataset():
    values = np.arange(24.0).reshape(2, 3, 4)
    return xarray.Dataset({"flux": (("band", "y", "x"), values)}, {"band": [480.0, 620.0]})


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Files, tables and arrays, by name."""
    folder = tmp_path_factory.mktemp("stored")
    frame = pandas.DataFrame({"object": ["a", "b"], "flux": [1.5, 2.5]})
    frame.to_parquet(folder / "t.parquet")
    frame.to_csv(folder / "t.csv", index=False)
    dataset().to_zarr(folder / "d.zarr", zarr_format=3, consolidated=False)
    files = {f"data/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return FILES | files


@pytest.fixture(scope="module")
def local(tmp_path_factory, stored):
    made = Made(tmp_path_factory.mktemp("local"))
    made.put({f"objects/{name}": content for name, content in stored.items()})
    made.flush()
    return {"archive": str(made.home)}


@pytest.fixture(scope="module")
def remote(tmp_path_factory, stored):
    with Own(tmp_path_factory.mktemp("remote")) as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="objects")
        for name, content in stored.items():
            s3.put_object(Bucket="objects", Key=name, Body=content)
        yield {"endpoint": own.endpoint, "access_key": own.account.access_key, "secret_key": own.account.secret_key, "region": own.region}


@pytest.fixture(params=["local", "remote"])
def options(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def files(options):
    return fsspec.filesystem("fulgurite", **options)


def test_folders_are_listed(files, stored):
    assert isinstance(files, FulguriteFileSystem)
    assert files.ls("objects", detail=False) == ["objects/data", "objects/night", "objects/night.txt", "objects/top.txt"]
    assert files.ls("fulgurite://objects/night/", detail=False) == [*[f"objects/night/{number:02}" for number in range(30)], "objects/night/é.txt"]
    assert files.ls("objects/top.txt", detail=False) == ["objects/top.txt"]
    assert files.find("objects") == sorted(f"objects/{name}" for name in stored)
    assert files.find("objects/night/07") == ["objects/night/07/a.bin", "objects/night/07/b.bin"]
    assert files.find("objects/top.txt") == ["objects/top.txt"] and files.find("objects/absent") == []
    assert files.glob("objects/night/*7/b.*") == [f"objects/night/{number:02}/b.bin" for number in (7, 17, 27)]
    assert [name for name, _, _ in files.walk("objects/night", maxdepth=1)] == ["objects/night"]
    assert files.du("objects/night/07") == 2 * 2_007
    assert files.isfile("objects/night.txt") and files.isdir("objects/night") and not files.exists("objects/nigh")
    for absent in ["objects/absent", "objects/top.txt/x"]:
        with pytest.raises(FileNotFoundError):
            files.info(absent)
        with pytest.raises(FileNotFoundError):
            files.ls(absent)


def test_info_says_what_a_file_is(files):
    info = files.info("objects/top.txt")
    assert (info["name"], info["size"], info["type"]) == ("objects/top.txt", 3, "file")
    assert files.modified("objects/top.txt").tzinfo is not None
    assert files.checksum("objects/top.txt") != files.checksum("objects/night.txt")


def test_files_are_read(files, options, stored):
    with fsspec.open("fulgurite://objects/night/07/a.bin", **options) as file:
        assert file.read() == stored["night/07/a.bin"]
    with fsspec.open("fulgurite://objects/night/é.txt", "rt", encoding="utf-8", **options) as file:
        assert file.read() == "é"
    whole = stored["night/03/b.bin"]
    path = "objects/night/03/b.bin"
    for start, end in [(None, None), (5, 10), (-7, None), (3, -3), (-9, -2), (0, 99_999), (10, 5)]:
        assert files.cat_file(path, start, end) == whole[start:end]
    assert files.cat("objects/top.txt") == b"top"
    assert files.cat("objects/night/0*/a.bin") == {f"objects/{name}": content for name, content in stored.items() if name.startswith("night/0") and name.endswith("a.bin")}
    assert files.cat(["objects/top.txt", "objects/absent"], on_error="omit") == {"objects/top.txt": b"top"}
    assert isinstance(files.cat(["objects/top.txt", "objects/absent"], on_error="return")["objects/absent"], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        files.cat(["objects/top.txt", "objects/absent"])
    assert files.cat_ranges([path, path, "objects/top.txt"], [0, -4, 1], [3, None, 2]) == [whole[:3], whole[-4:], b"o"]
    assert files.cat("objects/night/07", recursive=True) == {f"objects/night/07/{name}.bin": stored[f"night/07/{name}.bin"] for name in "ab"}
    assert files.head(path, 10) == whole[:10] and files.tail(path, 10) == whole[-10:]


def test_files_are_downloaded(files, stored, tmp_path):
    files.get("objects/night/07/", f"{tmp_path}/", recursive=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.bin": stored["night/07/a.bin"], "b.bin": stored["night/07/b.bin"]}


def test_what_can_not_be_known_is_not_absent(remote, tmp_path):
    down = FulguriteFileSystem(**(remote | {"endpoint": "http://127.0.0.1:9"}))
    denied = FulguriteFileSystem(**(remote | {"secret_key": "wrong" * 8}))
    for files, error in [(down, fulgurite.Unavailable), (denied, fulgurite.Refused)]:
        uses = [files.exists, files.isfile, files.isdir, files.glob, lambda path: list(files.walk(path)), lambda path: files.find(path, withdirs=True), files.ls]
        for use in uses:
            with pytest.raises(error):
                use("objects/*.txt" if use == files.glob else "objects/top.txt")


def test_an_environment_that_changes_is_followed(tmp_path, monkeypatch):
    for name in ["one", "two"]:
        made = Made(tmp_path / name)
        made.put({"k": name.encode()})
    for name in ["one", "two"]:
        monkeypatch.setenv("FULGURITE_ARCHIVE", str(tmp_path / name / "archive"))
        files = fsspec.filesystem("fulgurite")
        assert files.cat("k") == name.encode()
        # A copy elsewhere is of the same archive.
        packed = pickle.dumps(files)
        monkeypatch.setenv("FULGURITE_ARCHIVE", "/nowhere")
        assert pickle.loads(packed).cat("k") == name.encode()
    monkeypatch.delenv("FULGURITE_ARCHIVE")
    for name in ["one", "two"]:
        monkeypatch.chdir(tmp_path / name)
        assert fsspec.filesystem("fulgurite", archive="archive").cat("k") == name.encode()


def test_names_of_files_and_folders_at_once(tmp_path):
    with Own(tmp_path) as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="odd")
        for key in ["a", "a/b", "dir/", "/x", "//y", "x[1].bin", "x1.bin", "d/[2]*"]:
            s3.put_object(Bucket="odd", Key=key, Body=key.encode())
        keys = {"access_key": own.account.access_key, "secret_key": own.account.secret_key}
        files = FulguriteFileSystem(endpoint=own.endpoint, region=own.region, **keys)
        assert files.ls("odd", detail=False) == ["odd/a", "odd/a", "odd/d", "odd/dir", "odd/x1.bin", "odd/x[1].bin"]
        assert [entry["type"] for entry in files.ls("odd")][:2] == ["directory", "file"]
        assert files.find("odd/a") == ["odd/a", "odd/a/b"] and files.isfile("odd/a") and files.isdir("odd/a")
        assert files.find("odd") == sorted(["odd/a", "odd/a/b", "odd//x", "odd///y", "odd/x[1].bin", "odd/x1.bin", "odd/d/[2]*"])
        assert files.find("odd", withdirs=True) == ["odd", "odd/a", "odd/a/b", "odd/d", "odd/d/[2]*", "odd/dir", "odd/x1.bin", "odd/x[1].bin"]
        assert files.find("odd", prefix="x") == ["odd/x1.bin", "odd/x[1].bin"]
        assert files.cat("odd/x[1].bin") == b"x[1].bin"
        assert files.cat(["odd/x[1].bin", "odd/d/[2]*"]) == {"odd/x[1].bin": b"x[1].bin", "odd/d/[2]*": b"d/[2]*"}
        assert files.cat("odd/x[0-9].bin") == {"odd/x1.bin": b"x1.bin"}
        mapper = files.get_mapper("odd/d")
        assert dict(mapper) == {"[2]*": b"d/[2]*"} and "absent" not in mapper


def test_open_files_have_what_those_of_fsspec_have(files, options, stored):
    whole = stored["night/03/b.bin"]
    with files.open("objects/night/03/b.bin") as file:
        assert file.size == len(whole) and file.read(5) == whole[:5]
        assert file.seek(-4, 2) == len(whole) - 4 and file.read() == whole[-4:]
    assert files.read_block("objects/night/03/b.bin", 10, 20) == whole[10:30]
    for cache in ["simplecache", "blockcache"]:
        with fsspec.open(f"{cache}::fulgurite://objects/night/03/b.bin", fulgurite=options) as file:
            assert file.read() == whole


def test_errors_of_ranges_are_in_their_places(files):
    found = files.cat_ranges(["objects/absent", "objects/top.txt"], [-5, 0], [None, 2])
    assert isinstance(found[0], FileNotFoundError) and found[1] == b"to"


def test_nothing_is_written(files):
    uses = [lambda: files.open("objects/new", "wb"), lambda: files.rm("objects/top.txt"), lambda: files.pipe_file("objects/new", b""), lambda: files.mkdir("objects/new")]
    uses += [lambda: use("objects/night", "objects/new") for use in [files.copy, files.cp, files.mv, files.rename]]
    uses += [lambda: files.pipe({}), lambda: files.put([], [])]
    for use in uses:
        with pytest.raises(PermissionError, match="read-only"):
            use()


def test_pandas_reads_tables(options):
    for frame in [pandas.read_parquet("fulgurite://objects/data/t.parquet", storage_options=options), pandas.read_csv("fulgurite://objects/data/t.csv", storage_options=options)]:
        assert frame.to_dict("list") == {"object": ["a", "b"], "flux": [1.5, 2.5]}


def test_xarray_and_zarr_read_arrays(options):
    opened = xarray.open_dataset("fulgurite://objects/data/d.zarr", engine="zarr", storage_options=options, consolidated=False)
    xarray.testing.assert_identical(opened.load(), dataset())
    lazy = xarray.open_dataset("fulgurite://objects/data/d.zarr", engine="zarr", storage_options=options, consolidated=False, chunks={})
    assert float(lazy["flux"].sum().compute()) == 276.0
    group = zarr.open_group("fulgurite://objects/data/d.zarr", mode="r", storage_options=options)
    assert group["flux"][1, 2, 3] == 23.0


def test_a_file_system_can_be_pickled(files):
    again = pickle.loads(pickle.dumps(files))
    assert again.cat("objects/top.txt") == b"top"
    assert again == files and hash(again) == hash(files) and again._fs_token == files._fs_token


def test_a_file_system_can_be_json(files):
    for again in [files.from_json(files.to_json()), files.from_dict(files.to_dict())]:
        assert again == files and again.cat("objects/top.txt") == b"top"


def test_json_has_secrets_only_if_they_were_given(remote, monkeypatch):
    given = FulguriteFileSystem(**remote)
    assert json.loads(given.to_json())["secret_key"] == remote["secret_key"]
    assert remote["secret_key"] not in given.to_json(include_password=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", remote["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", remote["secret_key"])
    of_environment = FulguriteFileSystem(endpoint=remote["endpoint"], region=remote["region"], connections=3)
    packed = of_environment.to_json()
    assert remote["secret_key"] not in packed and json.loads(packed)["connections"] == 3
    for again in [FulguriteFileSystem.from_json(packed), FulguriteFileSystem.from_json(given.to_json(include_password=False))]:
        assert again.cat("objects/top.txt") == b"top" and again != given


def test_the_environment_names_the_place(local, remote, monkeypatch):
    fsspec.config.conf.clear()
    monkeypatch.setenv("FULGURITE_ARCHIVE", local["archive"])
    assert FulguriteFileSystem(skip_instance_cache=True).cat("objects/top.txt") == b"top"
    monkeypatch.delenv("FULGURITE_ARCHIVE")
    monkeypatch.setenv("AWS_ENDPOINT_URL", remote["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", remote["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", remote["secret_key"])
    monkeypatch.setenv("AWS_REGION", remote["region"])
    assert FulguriteFileSystem(skip_instance_cache=True).cat("objects/top.txt") == b"top"
    for wrong, what in [({"archive": "/a", "endpoint": "http://h"}, "exclude"), ({"archive": "/a", "access_key": "x"}, "exclude"), ({"archiv": "/a"}, "unknown option 'archiv'"), ({"endpoint_url": "http://h"}, "unknown option 'endpoint_url'")]:
        with pytest.raises(ValueError, match=what):
            FulguriteFileSystem(**wrong)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with pytest.raises(ValueError, match="archive or endpoint"):
        fsspec.filesystem("fulgurite")


def test_astropy_opens_images(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    image = np.arange(63 * 63, dtype=">f4").reshape(63, 63)
    packed = io.BytesIO()
    fits.PrimaryHDU(image).writeto(packed)
    made = Made(tmp_path)
    made.put({"survey/cutout.fits": packed.getvalue()})
    with fits.open("fulgurite://survey/cutout.fits", use_fsspec=True, fsspec_kwargs={"archive": str(made.home)}) as hdus:
        assert (hdus[0].data == image).all()
    with fulgurite.open(made.home) as archive:
        parts = [fulgurite.Part("survey/cutout.fits", 2_880, 2_880 + 4 * 63 * 63)]
        assert (archive.get_array(parts, ">f4", (63, 63))[0] == image).all()


#: Of these, `A` and `dir/a` are files and folders.
ODD = {"A": b"file A", "A/x": b"below A", "dir/a": b"file a", "dir/a/b": b"below a", "dir/c": b"c", "plain/1": b"1", "plain/sub/2": b"2", "other/1": b"other"}


@pytest.fixture(scope="module")
def odd_local(tmp_path_factory):
    made = Made(tmp_path_factory.mktemp("odd-local"))
    for name, content in ODD.items():
        # Folders can't hold them all at once.
        made.root = tmp_path_factory.mktemp("one")
        made.put({f"survey/{name}": content})
    made.root = tmp_path_factory.mktemp("one")
    made.put({"T": b"file T"})
    made.root = tmp_path_factory.mktemp("one")
    made.put({"T/x": b"below T"})
    return {"archive": str(made.home)}


@pytest.fixture(scope="module")
def odd_remote(tmp_path_factory):
    with Own(tmp_path_factory.mktemp("odd-remote")) as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="survey")
        for name, content in ODD.items():
            s3.put_object(Bucket="survey", Key=name, Body=content)
        s3.create_bucket(Bucket="empty")
        yield {"endpoint": own.endpoint, "access_key": own.account.access_key, "secret_key": own.account.secret_key, "region": own.region}


@pytest.fixture(params=["odd_local", "odd_remote"])
def odd_options(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def odd(odd_options):
    return FulguriteFileSystem(**odd_options)


def tree(folder):
    """Files by name, and folders as None."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def test_a_file_that_is_also_a_folder_is_downloaded(odd, odd_options, tmp_path):
    odd.get("survey/A", str(tmp_path / "1"))
    odd.get("survey/A", f"{tmp_path}/2/")
    odd.get("fulgurite://survey/A", tmp_path / "2")
    odd.get(["survey/A", "survey/dir/a"], f"{tmp_path}/3")
    odd.get(["survey/A"], [f"{tmp_path}/4/local"])
    odd.get("survey/dir/*", f"{tmp_path}/5/")
    odd.get("survey/*/c", f"{tmp_path}/6/")
    odd.get_file("survey/A", f"{tmp_path}/7")
    expected = {"1": b"file A", "2": None, "2/A": b"file A", "3": None, "3/A": b"file A", "3/a": b"file a", "4": None, "4/local": b"file A"}
    expected |= {"5": None, "5/a": b"file a", "5/c": b"c", "6": None, "6/c": b"c", "7": b"file A"}
    assert tree(tmp_path) == expected
    for cache in ["simplecache", "filecache"]:
        with fsspec.open(f"{cache}::fulgurite://survey/A", fulgurite=odd_options) as file:
            assert file.read() == b"file A"
    with pytest.raises(fulgurite.NotFound):
        odd.get("survey/absent", str(tmp_path / "absent"))
    with pytest.raises(fulgurite.NotFound):
        odd.get("survey/absent", str(tmp_path / "absent"), recursive=True)
    assert not (tmp_path / "absent").exists()


def test_a_name_without_folders_is_downloaded_into_a_folder(odd_local, tmp_path):
    FulguriteFileSystem(**odd_local).get("T", f"{tmp_path}/")
    FulguriteFileSystem(**odd_local).get("T*", f"{tmp_path}/dl/")
    assert tree(tmp_path) == {"T": b"file T", "dl": None, "dl/T": b"file T"}


def test_folders_are_downloaded_or_a_conflict_is_named(odd, tmp_path):
    for path, name in [("survey/dir", "survey/dir/a"), ("survey", "survey/A"), ("survey/A", "survey/A"), ("survey/d*", "survey/dir/a")]:
        with pytest.raises(fulgurite.FulguriteError, match=f"^{name} would be the local file .*nothing was written"):
            odd.get(path, str(tmp_path / "dl"), recursive=True)
    with pytest.raises(fulgurite.FulguriteError, match="also writes survey/plain/1 there"):
        odd.get(["survey/plain/1", "survey/other/1"], str(tmp_path / "dl"), recursive=True)
    assert tree(tmp_path) == {}
    odd.get("survey/A/", f"{tmp_path}/1", recursive=True)
    odd.get("survey/dir/", f"{tmp_path}/2", recursive=True, maxdepth=1)
    odd.get("survey/plain", f"{tmp_path}/3", recursive=True)
    odd.get("survey/plain", f"{tmp_path}/3", recursive=True)
    odd.get("survey/pl*", f"{tmp_path}/4", recursive=True)
    expected = {"1": None, "1/x": b"below A", "2": None, "2/a": b"file a", "2/c": b"c"}
    for folder in ["3", "3/plain", "4"]:
        expected |= {folder: None, f"{folder}/1": b"1", f"{folder}/sub": None, f"{folder}/sub/2": b"2"}
    assert tree(tmp_path) == expected
    # Without `recursive`, folders are left out, as fsspec does.
    odd.get("survey/plain", f"{tmp_path}/5")
    assert not (tmp_path / "5").exists()


def test_names_stay_below_the_local_folder(tmp_path):
    (tmp_path / "server").mkdir()
    with Own(tmp_path / "server") as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="upward")
        s3.put_object(Bucket="upward", Key="d/../../../x", Body=b"x")
        files = FulguriteFileSystem(endpoint=own.endpoint, region=own.region, access_key=own.account.access_key, secret_key=own.account.secret_key)
        with pytest.raises(ValueError, match="outside"):
            files.get("upward", f"{tmp_path}/a/b", recursive=True)
        s3.delete_object(Bucket="upward", Key="d/../../../x")
        s3.put_object(Bucket="upward", Key="d/../y", Body=b"y")
        files.get("upward", f"{tmp_path}/c", recursive=True)
    assert not (tmp_path / "x").exists() and not (tmp_path / "a").exists() and (tmp_path / "c" / "y").read_bytes() == b"y"


def test_a_bucket_that_is_absent_is_no_folder(odd_remote):
    files = FulguriteFileSystem(**odd_remote)
    assert not files.isdir("nobucket") and not files.exists("nobucket") and not files.isdir("nobucket/a")
    assert files.isdir("empty") and files.exists("empty") and files.ls("empty") == []
    with pytest.raises(fulgurite.NotFound):
        files.info("nobucket")


def test_the_root_has_the_buckets(odd_remote):
    files = FulguriteFileSystem(**odd_remote)
    for root in ["", "/", "fulgurite://"]:
        assert files.exists(root) and files.isdir(root) and not files.isfile(root)
        assert files.info(root)["type"] == "directory"
        assert files.ls(root) == [{"name": name, "size": 0, "type": "directory"} for name in ["empty", "survey"]]
    assert files.glob("*") == ["empty", "survey"] and files.glob("s*/pl*") == ["survey/plain"]
    assert files.find("") == [f"survey/{name}" for name in sorted(ODD)]
    assert files.find("", prefix="survey/p") == ["survey/plain/1", "survey/plain/sub/2"] and files.find("", prefix="x") == []
    assert next(files.walk("")) == ("", ["empty", "survey"], [])
    denied = FulguriteFileSystem(**(odd_remote | {"secret_key": "wrong" * 8}))
    for use in [lambda: denied.ls(""), lambda: denied.glob("*"), lambda: denied.find("")]:
        with pytest.raises(fulgurite.Refused, match="the buckets at"):
            use()
    with pytest.raises(fulgurite.NotFound, match="begins with a bucket"):
        files.cat_file("")


def test_objects_of_a_server_have_a_time_in_the_archive(tmp_path):
    with Own(tmp_path) as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="times")
        s3.put_object(Bucket="times", Key="k", Body=b"k")
        files = FulguriteFileSystem(archive=own.archive)
        assert files.modified("times/k") == files.created("times/k") is not None
        assert datetime.now(UTC) - files.modified("times/k") < timedelta(minutes=10)


def test_another_archive_in_the_folder_is_another_file_system(tmp_path):
    one, two = Made(tmp_path / "one"), Made(tmp_path / "two")
    one.put({"k": b"one"})
    two.put({"k": b"two"})
    before = FulguriteFileSystem(archive=one.home)
    assert before.cat("k") == b"one"
    one.home.rename(tmp_path / "away")
    two.home.rename(one.home)
    with pytest.raises(fulgurite.FulguriteError, match="another archive is now in"):
        before.cat("k")
    assert FulguriteFileSystem(archive=one.home).cat("k") == b"two"


def test_an_empty_archive_option_is_wrong(monkeypatch):
    with pytest.raises(ValueError, match="empty"):
        FulguriteFileSystem(archive="")
    monkeypatch.setenv("FULGURITE_ARCHIVE", "")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(ValueError, match="archive or endpoint"):
        FulguriteFileSystem()


def test_folders_are_visible_although_the_catalogue_has_gaps(tmp_path):
    made = Made(tmp_path)
    (made.root / "files" / "d" / "nothing").mkdir(parents=True)
    made.put({"d/a": b"a", "d/e/b": b"b", "file": b"c"})
    made.flush()
    # A rebuild that doesn't see a store: more may exist than is listed.
    made.stores[0].rename(made.root / "away")
    for path in made.home.glob("catalogue.db*"):
        path.unlink()
    made.command("catalogue", "rebuild", "--without-unseen", status=None)
    files = fsspec.filesystem("fulgurite", archive=str(made.home))
    with pytest.warns(fulgurite.IncompleteWarning):
        assert files.info("d") == {"name": "d", "size": 0, "type": "directory"}
        assert files.exists("d") and files.isdir("d") and not files.isfile("d") and files.isfile("file")
        assert files.find("d") == ["d/a", "d/e/b"] and files.find("d", maxdepth=1) == ["d/a"]
        assert files.find("d", withdirs=True) == ["d", "d/a", "d/e", "d/e/b", "d/nothing"]
        assert files.cat("d", recursive=True) == {"d/a": b"a", "d/e/b": b"b"}
        assert files.glob("d/*") == ["d/a", "d/e", "d/nothing"] and files.du("d") == 2
        assert files.isdir("d/nothing") and files.info("d/nothing")["type"] == "directory"
        assert list(files.walk("d")) == [("d", ["e", "nothing"], ["a"]), ("d/e", [], ["b"]), ("d/nothing", [], [])]
        for use in [files.info, files.exists, files.isfile, files.isdir, files.find, files.cat_file, lambda path: list(files.walk(path))]:
            with pytest.raises(fulgurite.Unavailable, match="catalogue is incomplete"):
                use("nowhere")


def test_a_folder_without_content_is_one(tmp_path):
    made = Made(tmp_path)
    (made.root / "files" / "d" / "nothing").mkdir(parents=True)
    made.put({"d/a": b"a"})
    files = fsspec.filesystem("fulgurite", archive=str(made.home))
    assert files.isdir("d/nothing") and files.exists("d/nothing") and not files.isfile("d/nothing")
    assert files.ls("d/nothing") == [] and files.find("d", withdirs=True) == ["d", "d/a", "d/nothing"]
    assert not files.isdir("d/a") and not files.isdir("nowhere") and not files.exists("nowhere")
    with pytest.raises(fulgurite.NotFound, match="it is a folder"):
        files.cat_file("d/nothing")


def test_a_folder_that_only_an_empty_object_marks_is_one(tmp_path):
    (tmp_path / "server").mkdir()
    with Own(tmp_path / "server") as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="bin")
        for key in ["d/", "d/sub/", "e/", "e/file"]:
            s3.put_object(Bucket="bin", Key=key, Body=b"file" if key.endswith("file") else b"")
        server = {"endpoint": own.endpoint, "access_key": own.account.access_key, "secret_key": own.account.secret_key}
        files = FulguriteFileSystem(**server, region=own.region)
        for folder, below in {"bin/d": ["bin/d/sub"], "bin/d/sub": [], "bin/e": ["bin/e/file"]}.items():
            for path in [folder, folder + "/"]:
                assert files.info(path) == {"name": folder, "size": 0, "type": "directory"}
                assert files.isdir(path) and files.exists(path) and not files.isfile(path)
                assert files.ls(path, detail=False) == below
        assert files.ls("bin", detail=False) == ["bin/d", "bin/e"] and files.find("bin") == ["bin/e/file"]
        assert files.find("bin", withdirs=True) == ["bin", "bin/d", "bin/d/sub", "bin/e", "bin/e/file"]
        assert files.glob("bin/*") == ["bin/d", "bin/e"] and files.du("bin") == 4
        assert [names for _, *names in files.walk("bin")] == [[["d", "e"], []], [["sub"], []], [[], []], [[], ["file"]]]
        files.get("bin/", f"{tmp_path}/got", recursive=True)
        assert tree(tmp_path / "got") == {"d": None, "d/sub": None, "e": None, "e/file": b"file"}
        assert not files.isdir("bin/absent") and not files.exists("bin/d/absent")
