"""Names and kinds of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orchestrator.fleet.refusal import Kind
from tests.fleet.forge import (
    END,
    MLP,
    Forge,
    gz,
    tar_header,
    tar_member,
)
from tests.fleet.hostile.registry import ARTIFACT, Payload, named, payload, variants

# --- names ------------------------------------------------------------------------------------


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


# --- kinds of files ---------------------------------------------------------------------------

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
