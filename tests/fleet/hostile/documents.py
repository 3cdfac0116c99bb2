"""Documents and what they claim."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.fleet.refusal import Kind
from tests.fleet.forge import (
    MLP,
    SUM,
    Forge,
    document,
)
from tests.fleet.hostile.registry import RESULT, Payload, named, variants

# --- JSON -------------------------------------------------------------------------------------


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
    ("summary of another version", raw(b'{"job": "x"}', "exec.json")),
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


# --- what results claim -----------------------------------------------------------------------

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
