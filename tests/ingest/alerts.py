"""Alerts of sky surveys as they lie in Kafka: ZTF's, each with its schema, and the Rubin Observatory's, whose schemas a registry has.

Field names and types are the surveys'; values are made up, and the same number makes the same alert. Both schemas have fewer
fields than the surveys', so an alert with a history is about as large as a real one by its history.
"""

from __future__ import annotations

import gzip
import io
import struct
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np

Alert = dict[str, Any]
Schema = dict[str, Any]
SIDE = 63
FITS_BLOCK = 2880
CUTOUTS = ("cutoutScience", "cutoutTemplate", "cutoutDifference")


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


def record(name: str, **fields: Any) -> Schema:
    """A list is a union, and its first kind says the default as Avro wants it: null, if that is first."""
    made = [{"name": key, "type": kind} | ({"default": None} if isinstance(kind, list) and kind[0] == "null" else {}) for key, kind in fields.items()]
    return {"type": "record", "name": name, "fields": made}


def ztf_schema() -> Schema:
    seen: dict[str, Any] = {
        "jd": "double",
        "fid": "int",
        "pid": "long",
        "diffmaglim": nullable("float"),
        "pdiffimfilename": nullable("string"),
        "programpi": nullable("string"),
        "programid": "int",
    }
    found: dict[str, Any] = {"isdiffpos": "string", "ra": "double", "dec": "double", "magpsf": "float", "sigmapsf": "float"}
    floats = "chipsf magap sigmagap distnr magnr sigmagnr chinr sharpnr sky magdiff fwhm classtar mindtoedge magfromlim seeratio aimage bimage"
    measured = {name: nullable("float") for name in f"{floats} aimagerat bimagerat elong rb ssdistnr ssmagnr sumrat magapbig sigmagapbig".split()}
    measured |= {name: nullable("int") for name in ("nneg", "nbad")} | {"ssnamenr": nullable("string"), "rbversion": "string"}
    field = {name: nullable("int") for name in ("nid", "rcid", "field")} | {"tblid": nullable("long"), "xpos": nullable("float"), "ypos": nullable("float")}
    stars = {f"{name}{number}": nullable("float") for number in (1, 2, 3) for name in ("sgmag", "srmag", "simag", "szmag", "sgscore", "distpsnr")}
    stars |= {f"objectidps{number}": nullable("long") for number in (1, 2, 3)}
    history = {"ndethist": "int", "ncovhist": "int", "jdstarthist": nullable("double"), "jdendhist": nullable("double"), "scorr": nullable("double")}
    candidate = seen | {"candid": "long"} | found | field | measured | stars | history | {"drb": nullable("float"), "drbversion": "string"}
    # What was not found in an earlier image is there too, as a limit without a candid.
    earlier = seen | {"candid": nullable("long")} | {name: nullable(kind) for name, kind in found.items()} | field | measured | {"rbversion": nullable("string")}
    cutout = record("cutout", fileName="string", stampData="bytes")
    return record(
        "alert",
        schemavsn="string",
        publisher="string",
        objectId="string",
        candid="long",
        candidate=record("candidate", **candidate),
        prv_candidates=nullable({"type": "array", "items": record("prv_candidate", **earlier)}),
        cutoutScience=nullable(cutout),
        # The record is named from here on.
        cutoutTemplate=nullable("ztf.alert.cutout"),
        cutoutDifference=nullable("ztf.alert.cutout"),
    ) | {"namespace": "ztf.alert", "doc": "An alert as ZTF sends it"}


def lsst_schema() -> Schema:
    floats = "apFlux apFluxErr snr psfFlux psfFluxErr psfChi2 trailFlux trailRa trailDec trailLength trailAngle dipoleMeanFlux dipoleFluxDiff scienceFlux"
    source: dict[str, Any] = {
        "diaSourceId": "long",
        "visit": "long",
        "detector": "int",
        "diaObjectId": nullable("long"),
        "ssObjectId": nullable("long"),
        "midpointMjdTai": "double",
        "ra": "double",
        "dec": "double",
        "x": "float",
        "y": "float",
        **{name: nullable("float") for name in f"{floats} scienceFluxErr ixx iyy ixy ixxPSF iyyPSF ixyPSF extendedness reliability".split()},
        **{name: nullable("boolean") for name in "isDipole isNegative shape_flag pixelFlags_bad pixelFlags_cr pixelFlags_edge".split()},
        "band": nullable("string"),
    }
    forced: dict[str, Any] = {
        "diaForcedSourceId": "long",
        "diaObjectId": "long",
        "ra": "double",
        "dec": "double",
        "visit": "long",
        "detector": "int",
        "psfFlux": nullable("float"),
        "psfFluxErr": nullable("float"),
        "midpointMjdTai": "double",
        "band": nullable("string"),
    }
    object_: dict[str, Any] = {"diaObjectId": "long", "ra": "double", "dec": "double", "nDiaSources": "int", "validityStartMjdTai": "double"}
    for band in "ugrizy":
        object_ |= {f"{band}_{name}": nullable("float") for name in ("psfFluxMean", "psfFluxMeanErr", "psfFluxSigma", "psfFluxMax", "psfFluxMin")}
        object_ |= {f"{band}_psfFluxNdata": nullable("int")}
    return record(
        "alert",
        diaSourceId="long",
        observation_reason=nullable("string"),
        target_name=nullable("string"),
        diaSource=record("diaSource", **source),
        prvDiaSources=nullable({"type": "array", "items": "lsst.v9_0.diaSource"}),
        prvDiaForcedSources=nullable({"type": "array", "items": record("diaForcedSource", **forced)}),
        diaObject=nullable(record("diaObject", **object_)),
        ssSource=nullable(record("ssSource", ssObjectId="long", diaSourceId="long", eclipticLambda=nullable("double"), eclipticBeta=nullable("double"))),
        **{name: nullable("bytes") for name in ("cutoutDifference", "cutoutScience", "cutoutTemplate")},
    ) | {"namespace": "lsst.v9_0", "doc": "An alert as the Rubin Observatory sends it"}


ZTF = ztf_schema()
LSST = lsst_schema()


@lru_cache
def parsed(survey: str) -> Schema:
    return fastavro.parse_schema({"ztf": ZTF, "lsst": LSST}[survey])


@lru_cache(maxsize=1024)
def fits(number: int, which: str, side: int = SIDE) -> bytes:
    """An image of a star on noise, as a FITS file."""
    chance = np.random.default_rng([number, *which.encode()])
    y, x = np.mgrid[:side, :side] - side // 2
    star = 0 if which == "cutoutTemplate" else 2000 * np.exp(-(x * x + y * y) / (2 * 1.7**2))
    pixels = (chance.normal(150, 9, (side, side)) + star).astype(">f4")
    cards = [("SIMPLE", "T"), ("BITPIX", "-32"), ("NAXIS", "2"), ("NAXIS1", str(side)), ("NAXIS2", str(side)), ("MAGZP", "26.275")]
    header = "".join(f"{key:8}= {value:>20}".ljust(80) for key, value in cards) + "END".ljust(80)
    return padded(header.encode(), b" ") + padded(pixels.tobytes(), b"\0")


@lru_cache(maxsize=1024)
def zipped(number: int, which: str) -> bytes:
    # Without the time of day, so that the same number makes the same bytes.
    return gzip.compress(fits(number, which), compresslevel=6, mtime=0)


def padded(data: bytes, fill: bytes) -> bytes:
    return data + fill * (-len(data) % FITS_BLOCK)


def made_up(schema: Schema, chance: np.random.Generator, **known: Any) -> Alert:
    """A record with some value in each field. Of those that may be null, a few are."""
    return {field["name"]: known[field["name"]] if field["name"] in known else value(field["type"], chance) for field in schema["fields"]}


def value(kind: Any, chance: np.random.Generator) -> Any:
    if isinstance(kind, list):
        return None if chance.random() < 0.1 else value(kind[1], chance)
    if kind in ("int", "long"):
        return int(chance.integers(2**30))
    if kind in ("float", "double"):
        # What a float can hold, so that it comes back as it went.
        return float(np.float32(chance.normal(20, 5)))
    return {"string": "t17_f5_q3", "boolean": bool(chance.random() < 0.5)}[kind]


def inner(schema: Schema, name: str) -> Schema:
    """The record of a field, or of the items of a field, that may be null."""
    kind = next(field["type"] for field in schema["fields"] if field["name"] == name)
    kind = kind[1] if isinstance(kind, list) else kind
    return kind["items"] if kind["type"] == "array" else kind


def ztf(number: int, *, history: int | None = 20, without: tuple[str, ...] = (), stamps: int = 64) -> Alert:
    """`history` None is no list at all. The cutouts named in `without` are null. So many as `stamps` are different images."""
    chance = np.random.default_rng(number)
    candid = 2_000_000_000_000_000_000 + number
    name = f"ZTF26a{letters(number // 3)}"
    place = {"ra": float(chance.uniform(0, 360)), "dec": float(chance.uniform(-30, 90)), "isdiffpos": "t"}
    prv = None if history is None else [made_up(inner(ZTF, "prv_candidates"), chance, jd=2461000.5 - day, **place) for day in range(history)]
    alert = {
        "schemavsn": "4.02",
        "publisher": "ZTF (www.ztf.caltech.edu)",
        "objectId": name,
        "candid": candid,
        "candidate": made_up(inner(ZTF, "candidate"), chance, candid=candid, jd=2461000.5 + number / 86400, **place),
        "prv_candidates": prv,
    }
    for cutout in CUTOUTS:
        data = {"fileName": f"candid{candid}_{cutout}.fits.gz", "stampData": zipped(number % stamps, cutout)}
        alert[cutout] = None if cutout in without else data
    return alert


def lsst(number: int, *, history: int | None = 10, without: tuple[str, ...] = (), stamps: int = 64, compressed: bool = False) -> Alert:
    """As ztf(); `without` may name diaObject too. The observatory's cutouts are not compressed."""
    chance = np.random.default_rng(number)
    source, of = inner(LSST, "diaSource"), 170_000_000_000_000_000 + number // 3
    ids = {"diaSourceId": 170_000_000_100_000_000 + number, "diaObjectId": of}
    place = {"ra": float(chance.uniform(0, 360)), "dec": float(chance.uniform(-70, 10)), "band": "ugrizy"[number % 6]}
    at = 61000.0 + number / 86400
    before = range(1, 1 + (history or 0))
    alert = {
        "diaSourceId": ids["diaSourceId"],
        "observation_reason": "science",
        "target_name": None,
        "diaSource": made_up(source, chance, **ids, midpointMjdTai=at, **place),
        "prvDiaSources": None if history is None else [made_up(source, chance, **ids, midpointMjdTai=at - day, **place) for day in before],
        "prvDiaForcedSources": None if history is None else [made_up(inner(LSST, "prvDiaForcedSources"), chance, diaObjectId=of, **place) for _ in before],
        "diaObject": None if "diaObject" in without else made_up(inner(LSST, "diaObject"), chance, diaObjectId=of, ra=place["ra"], dec=place["dec"]),
        "ssSource": None,
    }
    make = zipped if compressed else fits
    return alert | {name: None if name in without else make(number % stamps, name) for name in CUTOUTS}


def letters(number: int) -> str:
    return "".join(chr(ord("a") + number // 26**place % 26) for place in reversed(range(6)))


def container(survey: str, *alerts: Alert, codec: str = "null") -> bytes:
    """A file of Avro's, with the schema in it. ZTF puts one alert in each, and doesn't compress it."""
    file = io.BytesIO()
    # Else each has a marker of its own by chance.
    fastavro.writer(file, parsed(survey), alerts, codec=codec, sync_marker=b"fulgurite tests\n")
    return file.getvalue()


def schemaless(survey: str, alert: Alert) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, parsed(survey), alert)
    return body.getvalue()


def confluent(survey: str, alert: Alert, schema_id: int) -> bytes:
    """As Confluent's serializers frame it, for who asks a registry for the schema."""
    return struct.pack(">bI", 0, schema_id) + schemaless(survey, alert)
