"""Containers that are none, or too much of one."""

from __future__ import annotations

import dataclasses
import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib

from orchestrator.fleet.bundle import MANIFEST
from orchestrator.fleet.refusal import Kind
from tests.fleet.forge import (
    END,
    MLP,
    Forge,
    document,
    gz,
    tar_header,
    tar_member,
)
from tests.fleet.hostile.registry import ARTIFACT, RESULT, Payload, payload, variants

# --- the container ----------------------------------------------------------------------------


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


# --- too much ---------------------------------------------------------------------------------


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


# --- files that are not the manifest's --------------------------------------------------------


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
