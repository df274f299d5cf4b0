"""Reads Fulgurite archives.

`open` reads an archive where it is, without a server:

>>> import fulgurite
>>> with fulgurite.open("/srv/archive") as archive:
...     fits = archive.get("survey/night/000001.fits")
...     table = archive.get_many(["survey/a", "survey/b"])

`fulgurite.filesystem` lets pandas, xarray, zarr, dask and astropy open `fulgurite://` URLs.
"""

from __future__ import annotations

import os

from ._archive import Archive, Entry
from ._errors import (
    FulguriteError,
    IncompleteWarning,
    NotFound,
    Refused,
    Unavailable,
    Unreadable,
)
from ._objects import Item, Key, Objects, Part


def open(folder: str | os.PathLike[str]) -> Archive:
    """Opens the archive in a folder, for reading."""
    return Archive(folder)


__all__ = [
    "Archive",
    "Entry",
    "FulguriteError",
    "IncompleteWarning",
    "Item",
    "Key",
    "NotFound",
    "Objects",
    "Part",
    "Refused",
    "Unavailable",
    "Unreadable",
    "open",
]
