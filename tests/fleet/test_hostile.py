"""Bundles that should not be taken: each is refused for what it is, and nothing is written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.fleet import public, signed
from orchestrator.fleet.bundle import MANIFEST, MANIFEST_TYPE
from orchestrator.fleet.envelope import WARRANT_TYPE
from orchestrator.fleet.intake import Taken
from orchestrator.fleet.refusal import Kind, Refusal
from tests.fleet.forge import (
    END,
    MLP,
    NOW,
    SUM,
    Forge,
    agent,
    document,
    everything,
    gz,
    tar_header,
    tar_member,
)

RESULT = f"results/{MLP}.1.json"
ARTIFACT = f"artifacts/{MLP}/ir/01-ingress.mlir"

Payload = Callable[[Forge], bytes | Path]
"""Bends an honest bundle; gives what is sent."""
PAYLOADS: list[tuple[str, Kind, Payload]] = []


def payload(kind: Kind) -> Callable[[Payload], Payload]:
    """Adds a payload that is to be refused so."""

    def add(function: Payload) -> Payload:
        PAYLOADS.append((function.__name__, kind, function))
        return function

    return add


def variants(kind: Kind, *cases: tuple[str, Payload]) -> None:
    """Adds payloads that differ little."""
    PAYLOADS.extend((name, kind, function) for name, function in cases)


# --- names --------------------------------------------------------------------------------------


def named(name: str) -> Payload:
    """A file of that name, in archive and signed manifest alike."""

    def bend(forge: Forge) -> bytes:
        forge.files = {**forge.files, name: b"pwned"}
        return forge.bundle()

    return bend


def unlisted(**fields: Any) -> Payload:
    """A member that the manifest does not tell of, behind the others."""

    def bend(forge: Forge) -> bytes:
        values = {"name": f"artifacts/{MLP}/x", "data": b"", **fields}
        return gz([*forge.members(), tar_member(**values), END])

    return bend


variants(
    Kind.PATH,
    ("parent folder", named("../escaped.json")),
    ("parent folder deep inside", named(f"artifacts/{MLP}/../../../escaped")),
    ("absolute path", named("/tmp/lh-hostile-escaped")),
    ("home folder", named("~/.ssh/authorized_keys")),
    ("hidden file", named(f"artifacts/{MLP}/.bashrc")),
    ("backslashes", named("results\\..\\..\\escaped.json")),
    ("drive letter", named("C:/escaped.json")),
    ("alternate stream", named("log.txt:hidden")),
    ("dot as a name", named(f"artifacts/{MLP}/./x")),
    ("empty part", named(f"artifacts//{MLP}/x")),
    ("newline in a name", named(f"artifacts/{MLP}/a\nb")),
    ("name too long for ustar", named(f"artifacts/{MLP}/" + "x" * 90 + "/" + "y" * 101)),
    ("parent folder, unlisted", unlisted(name="../escaped")),
    ("absolute path by prefix, unlisted", unlisted(name="x", prefix=b"/tmp")),
)
variants(
    Kind.LAYOUT,
    ("file at the top", named("setup.py")),
    ("artifact without a cell", named("artifacts/x")),
    ("result that is no JSON file", named(f"results/{MLP}.1.html")),
    ("result in a folder", named(f"results/x/{MLP}.1.json")),
    ("attempt 0", named(f"results/{MLP}.0.json")),
    ("attempt with a leading zero", named(f"results/{MLP}.01.json")),
    ("attempt of twenty digits", named(f"results/{MLP}.{'9' * 20}.json")),
)


@payload(Kind.PATH)
def nul_in_a_name(forge: Forge) -> bytes:
    return gz([*forge.members(), tar_member("log.txt\0/../../x", b""), END])


@payload(Kind.PATH)
def name_that_is_not_ascii(forge: Forge) -> bytes:
    return gz([*forge.members(), tar_member(f"artifacts/{MLP}/\u00e9", b""), END])


variants(
    Kind.COLLISION,
    ("another spelling of a file", named(ARTIFACT.replace("ingress", "INGRESS"))),
    ("another spelling of a folder", named(ARTIFACT.replace("/ir/", "/IR/x/"))),
    ("a file as a folder", named(f"{ARTIFACT}/x")),
    ("a folder as a file", named(f"artifacts/{MLP}/ir")),
)


@payload(Kind.COLLISION)
def the_same_name_twice(forge: Forge) -> bytes:
    forge.manifest["files"] = [*forge.listed(), *forge.listed()[-1:]]
    return forge.bundle()


# --- kinds of files -----------------------------------------------------------------------------

variants(
    Kind.LINK,
    ("symbolic link", unlisted(kind=b"2", link=b"/etc/passwd")),
    ("symbolic link inside", unlisted(kind=b"2", link=b"ir")),
    ("hard link", unlisted(kind=b"1", link=b"/etc/passwd")),
    ("regular file with a link's name", unlisted(link=b"/etc/passwd")),
)
variants(
    Kind.SPECIAL,
    ("character device", unlisted(kind=b"3")),
    ("block device", unlisted(kind=b"4")),
    ("pipe", unlisted(kind=b"6")),
    ("folder", unlisted(kind=b"5", name="artifacts/")),
    ("contiguous file", unlisted(kind=b"7")),
    ("pax header", unlisted(kind=b"x", data=b"30 path=../../../../escaped.json\n")),
    ("global pax header", unlisted(kind=b"g", data=b"20 size=99999999999\n")),
    ("long name of GNU tar", unlisted(kind=b"L", data=b"../" * 60)),
    ("long link of GNU tar", unlisted(kind=b"K", data=b"../" * 60)),
    ("sparse file of GNU tar", unlisted(kind=b"S")),
)


@payload(Kind.LINK)
def symbolic_link_then_a_file_through_it(forge: Forge) -> bytes:
    """The classic: `artifacts/<cell>/ir` leads out, and a listed file goes through it."""
    link = tar_header(f"artifacts/{MLP}/ir".encode(), 0, kind=b"2", link=b"../../../..")
    manifest, *files = forge.members()
    return gz([manifest, link, *files, END])


@payload(Kind.CONTAINER)
def bundle_that_is_a_link(forge: Forge) -> Path:
    (forge.root / "real").write_bytes(forge.bundle())
    (forge.root / "link").symlink_to(forge.root / "real")
    return forge.root / "link"


@payload(Kind.CONTAINER)
def bundle_that_is_a_pipe(forge: Forge) -> Path:
    os.mkfifo(forge.root / "pipe")
    return forge.root / "pipe"


@payload(Kind.CONTAINER)
def bundle_that_is_a_folder(forge: Forge) -> Path:
    (forge.root / "folder").mkdir()
    return forge.root / "folder"


# --- the container ------------------------------------------------------------------------------


@payload(Kind.CONTAINER)
def text_instead_of_an_archive(forge: Forge) -> bytes:
    return b"<html>502 Bad Gateway</html>"


@payload(Kind.TRUNCATED)
def nothing(forge: Forge) -> bytes:
    return b""


@payload(Kind.CONTAINER)
def zip_archive(forge: Forge) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in forge.files.items():
            archive.writestr(name, data)
    return out.getvalue()


@payload(Kind.CONTAINER)
def tar_without_gzip(forge: Forge) -> bytes:
    return gzip.decompress(forge.bundle())


@payload(Kind.CONTAINER)
def archive_within_an_archive(forge: Forge) -> bytes:
    return gzip.compress(forge.bundle())


@payload(Kind.CONTAINER)
def archive_of_gnu_tar(forge: Forge) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo(MANIFEST), io.BytesIO())
    return out.getvalue()


@payload(Kind.TRUNCATED)
def cut_in_the_middle(forge: Forge) -> bytes:
    whole = forge.bundle()
    return whole[: len(whole) // 2]


@payload(Kind.TRUNCATED)
def cut_by_one_byte(forge: Forge) -> bytes:
    return forge.bundle()[:-1]


@payload(Kind.TRUNCATED)
def archive_without_its_end(forge: Forge) -> bytes:
    return gz(forge.members())


@payload(Kind.CONTAINER)
def archive_with_half_an_end(forge: Forge) -> bytes:
    return gz([*forge.members(), END[:512], forge.members()[1]])


@payload(Kind.CONTAINER)
def wrong_checksum_of_gzip(forge: Forge) -> bytes:
    whole = forge.bundle()
    return whole[:-8] + struct.pack("<I", zlib.crc32(b"other")) + whole[-4:]


@payload(Kind.CONTAINER)
def wrong_checksum_of_a_header(forge: Forge) -> bytes:
    return gz([*forge.members(), tar_member("log.txt", b"", spoil=True), END])


@payload(Kind.CONTAINER)
def second_archive_behind_the_first(forge: Forge) -> bytes:
    return gz([*forge.members(), END, tar_member("../escaped", b"x"), END])


@payload(Kind.CONTAINER)
def second_gzip_member(forge: Forge) -> bytes:
    return forge.bundle() + gz([tar_member("../escaped", b"x"), END])


@payload(Kind.CONTAINER)
def bytes_behind_the_archive(forge: Forge) -> bytes:
    return forge.bundle() + b"#!/bin/sh\n"


@payload(Kind.CONTAINER)
def bytes_behind_a_file(forge: Forge) -> bytes:
    manifest, first, *others = forge.members()
    return gz([manifest, first[:-1] + b"!", *others, END])


# --- too much -----------------------------------------------------------------------------------


@payload(Kind.DEPTH)
def gzip_bomb_before_any_signature(forge: Forge) -> bytes:
    """1 GiB in 1 MiB, of which the envelope's few are unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(tar_header(MANIFEST.encode(), 7 << 20))
    block = b"{" * (1 << 20)
    return head + b"".join(packer.compress(block) for _ in range(1024)) + packer.flush()


@payload(Kind.RATIO)
def gzip_bomb_in_an_artifact(forge: Forge) -> bytes:
    forge.files = {f"artifacts/{MLP}/bomb": b"\0" * (64 << 20), **forge.files}
    return forge.bundle()


@payload(Kind.CONTAINER)
def endless_padding(forge: Forge) -> bytes:
    return gz([*forge.members(), END, b"\0" * (8 << 20)])


@payload(Kind.TOO_LARGE)
def packed_size(forge: Forge) -> bytes:
    forge.limits = dataclasses.replace(forge.limits, packed=1000)
    forge.files[ARTIFACT] = os.urandom(4000)
    return forge.bundle()


@payload(Kind.TOO_LARGE)
def envelope_of_8_gib_declared(forge: Forge) -> bytes:
    return gz([tar_header(MANIFEST.encode(), b"7" * 11 + b"\0"), END])


@payload(Kind.CONTAINER)
def size_in_binary(forge: Forge) -> bytes:
    return gz([tar_header(MANIFEST.encode(), b"\x80" + b"\0" * 3 + b"\x7f" * 8), END])


@payload(Kind.CONTAINER)
def negative_size(forge: Forge) -> bytes:
    return gz([tar_header(MANIFEST.encode(), b"-0000000001\0"), END])


def declared(name: str, size: object) -> Payload:
    """A file of any size, in the signed manifest alone."""

    def bend(forge: Forge) -> bytes:
        entry = {"name": name, "size": size, "sha256": "0" * 64}
        others = [each for each in forge.listed() if each["name"] != name]
        forge.manifest["files"] = [*others, entry]
        return forge.bundle()

    return bend


variants(
    Kind.TOO_LARGE,
    ("artifact of an exbibyte declared", declared(ARTIFACT, 1 << 60)),
    ("artifact one byte too large", declared(ARTIFACT, (256 << 20) + 1)),
    ("result too large", declared(RESULT, (4 << 20) + 1)),
    ("log too large", declared("log.txt", (16 << 20) + 1)),
)
variants(
    Kind.NUMBER,
    ("artifact of a negative size", declared(ARTIFACT, -1)),
    ("artifact of 10^30 bytes", declared(ARTIFACT, 10**30)),
)
variants(
    Kind.SCHEMA,
    ("size that is no whole number", declared(ARTIFACT, 1.5)),
    ("size that is true", declared(ARTIFACT, True)),
    ("size that is text", declared(ARTIFACT, "10")),
)


def many(count: int, size: int, folder: str = f"artifacts/{MLP}") -> Payload:
    """So many files, in the signed manifest alone."""

    def bend(forge: Forge) -> bytes:
        files = [{"name": f"{folder}/{i}", "size": size, "sha256": "0" * 64} for i in range(count)]
        forge.manifest["files"] = [*forge.listed(), *files]
        return forge.bundle()

    return bend


variants(
    Kind.TOO_MANY,
    ("files", many(10_001, 0)),
    ("files of one cell", many(501, 0)),
)
variants(
    Kind.TOO_LARGE,
    ("cell in all", many(3, 100 << 20)),
    ("bundle in all", many(3, 200 << 20)),
    ("names in all", many(40_000, 0, "artifacts/" + "x" * 90 + "/" + "y" * 90)),
)


# --- files that are not the manifest's ----------------------------------------------------------


@payload(Kind.MISMATCH)
def file_that_was_changed(forge: Forge) -> bytes:
    manifest, *_ = forge.members()
    forge.files["log.txt"] = forge.files["log.txt"].replace(b"2", b"3")
    return gz([manifest, *forge.members()[1:], END])


@payload(Kind.MISMATCH)
def file_that_grew(forge: Forge) -> bytes:
    manifest, *_ = forge.members()
    forge.files["log.txt"] += b"more"
    return gz([manifest, *forge.members()[1:], END])


@payload(Kind.MISMATCH)
def file_that_is_missing(forge: Forge) -> bytes:
    return gz([*forge.members()[:-1], END])


@payload(Kind.MISMATCH)
def file_that_is_not_listed(forge: Forge) -> bytes:
    return gz([*forge.members(), tar_member(f"results/{MLP}.2.json", document(MLP, 2)), END])


@payload(Kind.MISMATCH)
def files_in_another_sequence(forge: Forge) -> bytes:
    manifest, *files = forge.members()
    return gz([manifest, *reversed(files), END])


@payload(Kind.LAYOUT)
def no_summary(forge: Forge) -> bytes:
    del forge.files["exec.json"]
    return forge.bundle()


# --- signatures ---------------------------------------------------------------------------------


@payload(Kind.UNSIGNED)
def no_manifest(forge: Forge) -> bytes:
    return gz([*forge.members()[1:], END])


@payload(Kind.UNSIGNED)
def empty_archive(forge: Forge) -> bytes:
    return gz([END])


@payload(Kind.UNSIGNED)
def no_signature(forge: Forge) -> bytes:
    forge.signers = ()
    return forge.bundle()


@payload(Kind.UNREGISTERED)
def unknown_key(forge: Forge) -> bytes:
    forge.signers = (forge.unknown_key,)
    return forge.bundle()


@payload(Kind.UNREGISTERED)
def unregistered_agent(forge: Forge) -> bytes:
    del forge.agents["intel-lab-1"]
    return forge.bundle()


class Impostor:
    """Has one key, and says that it has another."""

    def __init__(self, forge: Forge) -> None:
        self.fingerprint = forge.key.fingerprint
        self._key = forge.unknown_key

    def sign(self, data: bytes) -> bytes:
        """With its own."""
        return self._key.sign(data)


def enveloped(forge: Forge, **changed: object) -> bytes:
    """The honest bundle in another envelope."""
    envelope = json.loads(forge.envelope())
    data = json.dumps({**envelope, **changed}).encode()
    return gz([tar_member(MANIFEST, data), *forge.members()[1:], END])


@payload(Kind.SIGNATURE)
def wrong_key_behind_the_right_name(forge: Forge) -> bytes:
    envelope = json.loads(forge.envelope())
    other = signed.seal(MANIFEST_TYPE, b"{}", [Impostor(forge)])
    return enveloped(forge, signatures=json.loads(other)["signatures"], payload=envelope["payload"])


@payload(Kind.SIGNATURE)
def manifest_that_was_changed(forge: Forge) -> bytes:
    honest = json.loads(forge.envelope())
    forge.manifest["pool"] = "amd-cpu"
    return enveloped(forge, signatures=honest["signatures"])


@payload(Kind.SIGNATURE)
def signature_of_another_kind_of_document(forge: Forge) -> bytes:
    """What an agent signed as something else is no manifest, whatever it says."""
    payload_ = json.loads(forge.envelope())["payload"]
    raw = __import__("base64").b64decode(payload_)
    other = json.loads(signed.seal(WARRANT_TYPE, raw, [forge.key]))
    return enveloped(forge, signatures=other["signatures"])


@payload(Kind.SIGNATURE)
def signature_that_is_too_short(forge: Forge) -> bytes:
    signature = {"keyid": forge.key.fingerprint, "sig": "AAAA"}
    return enveloped(forge, signatures=[signature])


@payload(Kind.SYNTAX)
def signature_that_is_no_base64(forge: Forge) -> bytes:
    signature = {"keyid": forge.key.fingerprint, "sig": "*" * 88}
    return enveloped(forge, signatures=[signature])


@payload(Kind.LENGTH)
def a_thousand_signatures(forge: Forge) -> bytes:
    """Each one costs a verification."""
    signatures = json.loads(forge.envelope())["signatures"]
    return enveloped(forge, signatures=signatures * 1000)


@payload(Kind.LENGTH)
def nine_signatures(forge: Forge) -> bytes:
    return enveloped(forge, signatures=json.loads(forge.envelope())["signatures"] * 9)


@payload(Kind.SCHEMA)
def another_kind_of_document(forge: Forge) -> bytes:
    return enveloped(forge, payloadType=WARRANT_TYPE)


@payload(Kind.SCHEMA)
def envelope_with_one_key_too_many(forge: Forge) -> bytes:
    return enveloped(forge, algorithm="none")


@payload(Kind.KEY_REVOKED)
def revoked_key(forge: Forge) -> bytes:
    revoked = {"key": forge.key.public, "since": dt.date(2026, 11, 19), "reason": "lost"}
    forge.agents["intel-lab-1"] = agent("lab-1", revoked=(revoked,))
    return forge.bundle()


def dated(begin: dt.date, end: dt.date | None) -> Payload:
    """The agent's key counts on those days."""

    def bend(forge: Forge) -> bytes:
        key = {"key": forge.key.public, "from": begin, "until": end}
        forge.agents["intel-lab-1"] = agent("lab-1", keys=(key,))
        return forge.bundle()

    return bend


variants(
    Kind.KEY_EXPIRED,
    ("expired key", dated(dt.date(2026, 1, 1), dt.date(2026, 11, 19))),
    ("key of tomorrow", dated(dt.date(2026, 11, 21), None)),
)


# --- whose job ----------------------------------------------------------------------------------


def claiming(**fields: object) -> Payload:
    """A genuine signature under a claim that is not true."""

    def bend(forge: Forge) -> bytes:
        forge.manifest.update(fields)
        return forge.bundle()

    return bend


variants(
    Kind.OTHER_AGENT,
    ("in another agent's name", claiming(agent="intel-lab-2")),
    ("in nobody's name", claiming(agent="")),
)
variants(Kind.OTHER_POOL, ("another pool", claiming(pool="nvidia-gpu")))
variants(
    Kind.UNKNOWN_JOB,
    ("unknown job", claiming(nonce="f" * 32)),
    ("nonce that is a path", claiming(nonce="../../escaped")),
)
variants(
    Kind.OTHER_JOB,
    ("another job", claiming(job="run.jax.intel-cpu")),
    ("another digest", claiming(digest="e" * 64)),
)
variants(
    Kind.SCHEMA,
    ("manifest of version 2", claiming(schema=2)),
    ("manifest with one key too many", claiming(admin=True)),
    ("manifest whose files are an object", claiming(files={})),
)


@payload(Kind.OTHER_AGENT)
def answer_to_another_agents_job(forge: Forge) -> bytes:
    forge.signers = (forge.other_key,)
    forge.manifest["agent"] = "intel-lab-2"
    return forge.bundle()


@payload(Kind.QUARANTINED)
def quarantined_agent(forge: Forge) -> bytes:
    forge.quarantined = ("intel-lab-1",)
    return forge.bundle()


@payload(Kind.REPLAY)
def replayed_bundle(forge: Forge) -> bytes:
    assert isinstance(forge.send(), Taken)
    return forge.bundle()


@payload(Kind.REPLAY)
def second_answer_with_other_results(forge: Forge) -> bytes:
    assert isinstance(forge.send(), Taken)
    forge.files[RESULT] = document(MLP, status="fail", phase="compare", message="wrong")
    return forge.bundle()


# --- JSON ---------------------------------------------------------------------------------------


def raw(data: bytes, name: str = RESULT) -> Payload:
    """A document, signed like any other."""

    def bend(forge: Forge) -> bytes:
        forge.files[name] = data
        return forge.bundle()

    return bend


def spliced(old: bytes, new: bytes) -> Payload:
    """A result in which a text is replaced."""
    whole = document(MLP)
    assert whole.count(old) == 1, old
    return raw(whole.replace(old, new))


def result(**fields: Any) -> Payload:
    """A result with other fields."""
    return raw(document(MLP, **fields))


variants(
    Kind.DEPTH,
    ("lists within lists", raw(b"[" * 100_000 + b"]" * 100_000)),
    ("objects within objects", raw(b'{"a":' * 100_000)),
    ("lists in a string's place", spliced(b'"message": ""', b'"message": ' + b"[" * 999)),
    ("lists in the summary", raw(b"[" * 17 + b"]" * 17, "exec.json")),
)
variants(
    Kind.NUMBER,
    ("1e400", spliced(b'"seconds": 1.5', b'"seconds": 1e400')),
    ("-1e400", spliced(b'"seconds": 1.5', b'"seconds": -1e400')),
    ("2^63", spliced(b'"dropped_bytes": 0', b'"dropped_bytes": 9223372036854775808')),
    ("a million digits", spliced(b'"attempt": 1', b'"attempt": 1' + b"0" * 1_000_000)),
    ("a million decimals", spliced(b'"seconds": 1.5', b'"seconds": 1.' + b"5" * 1_000_000)),
    ("NaN", spliced(b'"seconds": 1.5', b'"seconds": NaN')),
    ("-Infinity", spliced(b'"seconds": 1.5', b'"seconds": -Infinity')),
)
variants(
    Kind.IMPLAUSIBLE,
    ("NaN as text", result(seconds="NaN")),
    ("Infinity as text", result(seconds="Infinity")),
    ("negative time", result(seconds=-1.0)),
    ("a year", result(seconds=31_536_000.0)),
    ("NaN in a stage", result(stages=[{"stage": "x", "seconds": "NaN", "exit": "ok"}])),
    ("waiting for NaN", result(queued_seconds="NaN")),
    ("negative memory", result(peak_memory_bytes=-1)),
    ("more memory than there is", result(peak_memory_bytes=1 << 62)),
    ("kernel that took less than nothing", result(kernel_ns=[5, -5])),
    ("began before the job was given", result(started="2026-11-01T00:00:00Z")),
    ("began next year", result(started="2027-11-20T00:00:00Z")),
    ("began in year 0", result(started="0000-01-01T00:00:00Z")),
    ("began at no time", result(started="yesterday")),
)
variants(
    Kind.SYNTAX,
    ("hexadecimal number", spliced(b'"attempt": 1', b'"attempt": 0x1')),
    ("leading zero", spliced(b'"attempt": 1', b'"attempt": 01')),
    ("digits that are not ASCII", spliced(b'"attempt": 1', '"attempt": \u0661'.encode())),
    ("comment", spliced(b'"attempt": 1', b'"attempt": 1 /* one */')),
    ("two documents", raw(document(MLP) * 2)),
    ("document that is cut short", raw(document(MLP)[:-1])),
    ("text that does not end", raw(b'{"a": "' + b'\\"' * 1_000_000)),
    ("nothing at all", raw(b"")),
    ("NUL in JSON", spliced(b'"message": ""', b'"message": "a\0b"')),
    ("newline in JSON text", spliced(b'"message": ""', b'"message": "a\nb"')),
    ("pickle", raw(b"\x80\x04\x95".decode("latin-1").encode())),
)
variants(
    Kind.DUPLICATE_KEY,
    ("status twice", spliced(b'"status": "pass"', b'"status": "fail", "status": "pass"')),
    ("status twice, once escaped", spliced(b'"tier"', b'"st\\u0061tus": "fail", "tier"')),
)
variants(
    Kind.SCHEMA,
    ("unknown key", result(admin=True)),
    ("key of Python", result(__class__="os.system")),
    ("missing key", raw(b'{"cell": "x"}')),
    ("list instead of a result", raw(b"[]")),
    ("text instead of a number", result(seconds="1.5")),
    ("number instead of text", result(message=1)),
    ("true instead of a number", result(attempt=True)),
    ("null instead of text", result(message=None)),
    ("unknown status", result(status="green")),
)
variants(
    Kind.ENCODING,
    ("invalid UTF-8", spliced(b'"message": ""', b'"message": "\xff\xfe"')),
    ("overlong UTF-8", spliced(b'"message": ""', b'"message": "\xc0\xaf"')),
    ("surrogate in UTF-8", spliced(b'"message": ""', b'"message": "\xed\xa0\x80"')),
    ("UTF-16", raw(document(MLP).decode().encode("utf-16"))),
    ("byte order mark", raw(b"\xef\xbb\xbf" + document(MLP))),
    ("log that is not UTF-8", raw(b"\xff\n", "log.txt")),
)
variants(
    Kind.TEXT,
    ("terminal escape in a name", named(f"artifacts/{MLP}/\x1b[2J")),
    ("bidi in a name", named(f"artifacts/{MLP}/\u202egnp.exe".encode().decode("latin-1"))),
    ("lone surrogate", spliced(b'"message": ""', b'"message": "\\ud800"')),
    ("NUL by its number", spliced(b'"message": ""', b'"message": "\\u0000"')),
    ("terminal escape", result(message="\x1b[2J\x1b]0;owned\x07")),
    ("terminal escape of one byte", result(message="\x9b31m")),
    ("backspaces", result(last_words="fail\b\b\b\bpass")),
    ("carriage return", result(last_words="fail\rpass")),
    ("bidi override", result(message="\u202egnp.exe")),
    ("bidi isolate", result(message="\u2066x\u2069")),
    ("zero-width space", result(message="pa\u200bss")),
    ("line separator", result(message="a\u2028b")),
    ("terminal escape in a key", result(versions={"\x1b[2J": "1"})),
    ("terminal escape in the log", raw(b"\x1b[2J", "log.txt")),
    ("bidi in the summary", raw(json.dumps({"a": "\u202e"}).encode(), "exec.json")),
)
variants(
    Kind.LENGTH,
    ("message of a mebibyte", result(message="x" * (1 << 20))),
    ("key of a kibibyte", result(versions={"x" * 1024: "1"})),
    ("list of a million numbers", result(kernel_ns=[1] * 1_000_000)),
)


# --- what results claim -------------------------------------------------------------------------

variants(
    Kind.FOREIGN_CELL,
    ("result of another cell", named("results/torch_cpu.odd.f32@intel-cpu.1.json")),
    ("artifact of another cell", named("artifacts/torch_cpu.odd.f32@intel-cpu/x")),
    ("result of the same cell elsewhere", named("results/torch_cpu.mlp.f32@amd-cpu.1.json")),
)
variants(
    Kind.ATTEMPT,
    ("another cell inside", raw(document(SUM))),
    ("another attempt inside", raw(document(MLP, 2))),
    ("attempt 7 alone", raw(document(MLP, 7), f"results/{MLP}.7.json")),
)
variants(
    Kind.VERDICT,
    ("skipped", result(status="skip")),
    ("failure that nobody expects", result(status="xfail", expectation="known (nowhere)")),
    ("expected without an expectation", result(status="xfail")),
    ("pass with an expectation", result(expectation="known (nowhere)")),
    (
        "expectation of another cell",
        result(status="xfail", expectation="f16 is not there yet (tracked elsewhere)"),
    ),
)
variants(
    Kind.FINGERPRINT,
    ("no fingerprint", result(fingerprint="")),
    ("fingerprint that is text", result(fingerprint="<b>" + "0" * 29)),
    (
        "fingerprint of another cell",
        result(fingerprint=json.loads(document(SUM))["fingerprint"]),
    ),
)
variants(
    Kind.OTHER_JOB,
    ("another program", result(workload_sha256="ff")),
    ("other constants", result(constants={"BATCH": 1})),
)
variants(Kind.OTHER_AGENT, ("result in another agent's name", result(agent="intel-lab-2")))


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bend"), [pytest.param(kind, bend, id=name) for name, kind, bend in PAYLOADS]
)
def test_refused_and_nothing_written(forge: Forge, kind: Kind, bend: Payload) -> None:
    bent = bend(forge)
    path = forge.root / "sent.results.tar.gz"
    if isinstance(bent, bytes):
        path.write_bytes(bent)
    before = everything(forge.root)
    outcome = forge.send(path if isinstance(bent, bytes) else bent)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.kind == kind, str(outcome)
    assert everything(forge.root) == before
    assert str(outcome).isprintable()
    assert len(outcome.why) <= 300
    assert outcome.agent in ("", "intel-lab-1", "intel-lab-2")
    assert outcome.job in ("", forge.warrant.job)


def test_the_suite_is_large_and_its_names_are_unique() -> None:
    names = [name for name, _, _ in PAYLOADS]
    assert len(set(names)) == len(names) > 100


INTAKE_KINDS = set(Kind) - {Kind.EXPIRED, Kind.REPOSITORY, Kind.CHANGED}
"""The others are an agent's, of jobs."""


def test_every_kind_of_refusal_is_met() -> None:
    assert {kind for _, kind, _ in PAYLOADS} == INTAKE_KINDS


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_line_of_advice(kind: Kind) -> None:
    assert kind.advice.isprintable()
    assert kind.advice.endswith(".")
    assert 20 < len(kind.advice) < 100


def test_who_and_which_job_is_told_once_it_is_known(forge: Forge) -> None:
    forge.files["log.txt"] = b"\x1b"
    refusal = forge.send()
    assert str(refusal) == (
        "refused (text) run.pytorch.intel-cpu of intel-lab-1: log.txt: has the character U+001B. "
        "The text acts on terminals. lh-ci cleans what it packs: use it."
    )


def test_nobody_is_named_for_what_others_claim(forge: Forge) -> None:
    """Whoever writes another's name into a bundle must not get that agent into trouble."""
    forge.signers = (forge.other_key,)
    refusal = forge.send()
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.agent, refusal.job) == (Kind.OTHER_AGENT, "intel-lab-2", "")


def test_a_revoked_key_names_its_agent(forge: Forge) -> None:
    refusal = forge.send(revoked_key(forge))
    assert isinstance(refusal, Refusal)
    assert refusal.agent == "intel-lab-1"


def test_fingerprints_are_of_registered_keys(forge: Forge) -> None:
    assert public.fingerprint(forge.agents["intel-lab-1"].keys[0].key) == forge.key.fingerprint


def test_bits_that_flip_anywhere_are_refused(forge: Forge) -> None:
    """Some hundred bytes of the archive, in headers, envelope, files and padding alike."""
    whole = b"".join([*forge.members(), END])
    before: dict[str, Any] | None = None
    for position in range(0, len(whole), 29):
        bent = bytearray(whole)
        bent[position] ^= 0x10
        path = forge.root / "sent.results.tar.gz"
        path.write_bytes(gzip.compress(bytes(bent), 1))
        outcome = forge.send(path, NOW)
        assert isinstance(outcome, Refusal), position
        path.unlink()
        after = everything(forge.root)
        assert before in (None, after), position
        before = after
