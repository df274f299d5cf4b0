"""Reads Fulgurite archives.

`open` reads an archive where it is, without a server:

>>> import fulgurite
>>> with fulgurite.open("/srv/archive") as archive:
...     fits = archive.get("survey/night/000001.fits")
...     table = archive.get_many(["survey/a", "survey/b"])

`connect` reads a bucket of a server. `fulgurite.filesystem` lets pandas, xarray, zarr, dask and
astropy open `fulgurite://` URLs.
"""

from __future__ import annotations

import importlib.metadata
import os

from ._archive import Archive, Entry
from ._bucket import Bucket, Object
from ._errors import (
    FulguriteError,
    IncompleteWarning,
    NotFound,
    Refused,
    Unavailable,
    Unreadable,
)
from ._objects import Item, Key, ObjectFile, Objects, Part

__version__ = importlib.metadata.version("fulgurite")


def open(folder: str | os.PathLike[str]) -> Archive:
    """Opens the archive in a folder, for reading."""
    return Archive(folder)


def connect(
    endpoint: str | None = None,
    bucket: str = "",
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    connections: int = 2,
) -> Bucket:
    """A bucket of a Fulgurite server, for reading. Nothing is sent yet.

    Without `endpoint`, the server is the one that `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`
    names. Keys that aren't given are taken from where AWS's programs find them: those of `profile`
    in the files in `~/.aws` if it is given, or else the environment or the default profile.
    `ca_file` has the certificate authorities to trust instead of the system's, in PEM form.
    `connections` is the number of connections for lists, at most 1,000.
    """
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        raise ValueError("no endpoint: give one, such as http://127.0.0.1:9000, or set AWS_ENDPOINT_URL")
    if not bucket:
        raise ValueError("no bucket: the second argument names it")
    if (access_key is None) != (secret_key is None):
        raise ValueError("access_key and secret_key belong together")
    if access_key == "" or secret_key == "":
        raise ValueError("access_key or secret_key is empty; leave out both to use those of the environment")
    if not 1 <= connections <= 1_000:
        raise ValueError("connections is from 1 to 1,000")
    keys = None if access_key is None or secret_key is None else (access_key, secret_key)
    authorities = None if ca_file is None else os.fspath(ca_file)
    return Bucket((endpoint, bucket, region, keys, profile, authorities, connections))


__all__ = [
    "Archive",
    "Bucket",
    "Entry",
    "FulguriteError",
    "IncompleteWarning",
    "Item",
    "Key",
    "NotFound",
    "Object",
    "ObjectFile",
    "Objects",
    "Part",
    "Refused",
    "Unavailable",
    "Unreadable",
    "connect",
    "open",
]
