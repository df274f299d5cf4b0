"""s3fs, and what opens s3:// URLs through it: pandas, xarray with zarr, astropy."""

from __future__ import annotations

import io
import random
import urllib.request

import numpy as np
import pandas
import pytest
import s3fs
import xarray
from astropy.io import fits


@pytest.fixture
def files() -> s3fs.S3FileSystem:
    """Endpoint, region and keys come from the environment."""
    return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


def test_files_are_written_in_parts_appended_copied_moved_and_removed(files, s3, bucket, stored):
    content = random.Random(1).randbytes(12_000_001)
    with files.open(f"{bucket}/a/100% é+", "wb", block_size=5 * 2**20) as out:
        out.write(content)
    assert "-" in s3.head_object(Bucket=bucket, Key="a/100% é+")["ETag"]
    with files.open(f"{bucket}/a/100% é+", "ab") as out:
        out.write(b"more")
    assert stored(bucket) == {"a/100% é+": content + b"more"}
    assert files.cat_file(f"{bucket}/a/100% é+", start=6_000_000, end=6_000_100) == content[6_000_000:6_000_100]
    files.copy(f"{bucket}/a/100% é+", f"{bucket}/b/copy")
    files.mv(f"{bucket}/b/copy", f"{bucket}/b/moved")
    files.rm(f"{bucket}/a", recursive=True)
    assert stored(bucket) == {"b/moved": content + b"more"}


def test_many_objects_are_put_listed_and_fetched_at_once(files, bucket, stored):
    contents = {f"night/{number:04}": b"%d" % number for number in range(1_200)}
    files.pipe({f"{bucket}/{key}": content for key, content in contents.items()})
    assert stored(bucket) == contents
    assert files.glob(f"{bucket}/night/000*") == [f"{bucket}/night/{number:04}" for number in range(10)]
    assert files.cat(files.find(bucket)) == {f"{bucket}/{key}": content for key, content in contents.items()}


def test_an_older_version_is_read(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    files = s3fs.S3FileSystem(version_aware=True, skip_instance_cache=True)
    old = s3.put_object(Bucket=bucket, Key="key", Body=b"old")["VersionId"]
    files.pipe(f"{bucket}/key", b"new")
    assert files.cat_file(f"{bucket}/key") == b"new"
    assert files.cat_file(f"{bucket}/key", version_id=old) == b"old"
    assert len(files.object_version_info(f"{bucket}/key")) == 2


def test_a_signed_url_needs_version_4_of_the_signature(bucket):
    files = s3fs.S3FileSystem(config_kwargs={"signature_version": "s3v4"}, skip_instance_cache=True)
    files.pipe(f"{bucket}/key", b"content")
    with urllib.request.urlopen(files.url(f"{bucket}/key")) as answer:
        assert answer.read() == b"content"


def test_an_archived_object_is_refused_until_it_is_restored(files, s3, bucket, restore):
    s3.put_object(Bucket=bucket, Key="key", Body=b"archived", StorageClass="GLACIER")
    with pytest.raises(PermissionError, match="storage class"):
        files.cat_file(f"{bucket}/key")
    restore(bucket, "key")
    assert files.cat_file(f"{bucket}/key") == b"archived"


def test_pandas_writes_and_reads_parquet_and_csv(bucket, stored):
    frame = pandas.DataFrame({"id": range(1_000), "text": [f"{number} é" for number in range(1_000)]})
    frame.to_parquet(f"s3://{bucket}/t.parquet")
    frame.to_csv(f"s3://{bucket}/t.csv.gz", index=False)
    pandas.testing.assert_frame_equal(pandas.read_parquet(io.BytesIO(stored(bucket)["t.parquet"])), frame)
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"s3://{bucket}/t.parquet"), frame)
    pandas.testing.assert_frame_equal(pandas.read_csv(f"s3://{bucket}/t.csv.gz"), frame)


def test_a_cube_is_written_appended_to_and_read_in_chunks(bucket, stored):
    cube = np.random.default_rng(1).random((20, 60, 40))
    frames = xarray.Dataset({"flux": (("time", "y", "x"), cube)})
    frames.to_zarr(f"s3://{bucket}/cube.zarr", mode="w", encoding={"flux": {"chunks": (10, 30, 20)}})
    assert len([key for key in stored(bucket) if key.startswith("cube.zarr/flux/c/")]) == 8
    frames.isel(time=slice(0, 10)).to_zarr(f"s3://{bucket}/cube.zarr", append_dim="time")
    back = xarray.open_zarr(f"s3://{bucket}/cube.zarr")["flux"]
    assert np.array_equal(back.values, np.concatenate([cube, cube[:10]]))


def test_astropy_reads_a_section_of_an_image(bucket, s3):
    image = np.arange(2_000 * 1_500, dtype=np.float32).reshape(2_000, 1_500)
    file = io.BytesIO()
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(image, name="SCI")]).writeto(file)
    s3.put_object(Bucket=bucket, Key="image.fits", Body=file.getvalue())
    with fits.open(f"s3://{bucket}/image.fits", use_fsspec=True) as opened:
        assert np.array_equal(opened["SCI"].section[1_990:, 20:50], image[1_990:, 20:50])
