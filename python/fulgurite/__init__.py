"""Reads Fulgurite archives.

`open` reads an archive where it is, without a server:

>>> import fulgurite
>>> with fulgurite.open("/srv/archive") as archive:
...     fits = archive.get("survey/night/000001.fits")
...     table = archive.get_many(["survey/a", "survey/b"])

`connect` reads a bucket of a server. `fulgurite.filesystem` lets pandas, xarray, zarr, dask and astropy open `fulgurite://` URLs.
"""

from __future__ import annotations

import os

from . import _native
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
    names. Without keys, they are found where AWS's programs find them: in the environment, or in
    the files in `~/.aws`, there in `profile`. `ca_file` has the certificate authorities to trust
    instead of the system's, in PEM form. Lists are read over so many `connections` at once.
    """
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        raise ValueError("no endpoint: give one, or set AWS_ENDPOINT_URL")
    if not bucket:
        raise ValueError("no bucket")
    if (access_key is None) != (secret_key is None):
        raise ValueError("access_key and secret_key belong together")
    if connections < 1:
        raise ValueError("connections is at least 1")
    keys = None if access_key is None or secret_key is None else (access_key, secret_key)
    authorities = None if ca_file is None else os.fspath(ca_file)
    return Bucket(_native.Server(endpoint, bucket, region, keys, profile, authorities, connections))


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
