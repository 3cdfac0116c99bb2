"""Why a job or a result from elsewhere is not taken, each kind with what to do about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from orchestrator.text import one_line


class Kind(enum.StrEnum):
    """What is wrong. A value's name is for records, its `advice` for people."""

    advice: str

    def __new__(cls, value: str, advice: str) -> Kind:
        """A string that carries one line of advice."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.advice = advice
        return member

    # the file
    CONTAINER = "container", "Pack it with lh-ci: one gzip member of a plain ustar archive."
    TRUNCATED = "truncated", "It was cut short on its way: send it again."
    TOO_LARGE = "too-large", "Keep less: artifacts of failed cells only, fewer cells in a job."
    TOO_MANY = "too-many", "Keep fewer files: artifacts of failed cells only."
    RATIO = "ratio", "It unfolds like an archive bomb. Pack it with lh-ci, which avoids that."
    LINK = "link", "Results have no links: look at what wrote this file."
    SPECIAL = "special", "Results are plain files alone: look at what wrote this file."
    PATH = "path", "The name leads elsewhere, or is none of ours: look at what wrote this file."
    COLLISION = "collision", "Two names are one file on some machines: rename an artifact."
    LAYOUT = "layout", "A bundle has results/, artifacts/, exec.json, log.txt and run.json alone."
    MISMATCH = "mismatch", "The files are not those that were signed: send it again, then ask why."
    # who signed
    UNSIGNED = "unsigned", "Sign it with a registered key: lh-ci keys show."
    SIGNATURE = (
        "signature",
        "It was changed after it was signed, or by somebody else: find out who.",
    )
    UNREGISTERED = "unregistered", "Nobody registered has this key: send the agent's file first."
    KEY_EXPIRED = "key-expired", "The key does not count today: rotate it, or correct the clock."
    KEY_REVOKED = "key-revoked", "The key was revoked: find out who still uses it."
    QUARANTINED = "quarantined", "The agent is given health jobs alone until one of them passes."
    # text
    ENCODING = "encoding", "Text is UTF-8 without a byte order mark."
    SYNTAX = "syntax", "It is not JSON: look at what wrote this file."
    DEPTH = "depth", "It is nested deeper than anything we write: look at what wrote it."
    DUPLICATE_KEY = "duplicate-key", "A key is there twice, so readers disagree on what it says."
    NUMBER = "number", "The number is none that we write: whole up to 64 bits, or finite."
    TEXT = "text", "The text acts on terminals. lh-ci cleans what it packs: use it."
    LENGTH = "length", "The text or list is longer than anything we write."
    SCHEMA = "schema", "It lacks a key, or has one too many: use lh-ci of the same version."
    # what it claims
    OTHER_AGENT = "other-agent", "It names another agent than the one that signed, or was asked."
    OTHER_POOL = "other-pool", "It names another pool than the job was given for."
    OTHER_JOB = "other-job", "It was made from other files than those of the job it names."
    UNKNOWN_JOB = "unknown-job", "No such job was given to this agent: look at what it runs."
    REPLAY = "replay", "It was taken already. Nothing is lost; look at what sends it again."
    FOREIGN_CELL = "foreign-cell", "The job has no such cell: look at what wrote this result."
    ATTEMPT = "attempt", "Attempts are numbered from 1, and named as in their files."
    FINGERPRINT = "fingerprint", "Fingerprints are 32 hexadecimal digits, one for each cell."
    VERDICT = "verdict", "Only an expectation of the matrix makes a failure expected."
    IMPLAUSIBLE = "implausible", "A value cannot be. Look at the agent's clock and memory first."
    # jobs
    EXPIRED = "expired", "The job is too old, or a clock is off: ask for it anew."
    REPOSITORY = "repository", "The owner of this machine does not run that repository."
    CHANGED = "changed", "The job's files are not those that were signed: fetch it again."


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Something that was not taken."""

    kind: Kind
    why: str
    """One line, harmless on a terminal; it may quote what was refused."""
    agent: str = ""
    """Whose signature it has; empty when that could not be told."""
    job: str = ""
    """The job that it answers; empty when that could not be told."""
    declined: bool = False
    """It is a job that the agent would not run, and says so over its signature."""

    def __str__(self) -> str:
        """For people: what, of whom, and what to do."""
        if self.declined:
            return f"refused: {self.agent} would not run it ({self.kind}): {self.why}. " + (
                self.kind.advice
            )
        what = f" {self.job}" * bool(self.job) + f" of {self.agent}" * bool(self.agent)
        return f"refused ({self.kind}){what}: {self.why}. {self.kind.advice}"


class Refused(Exception):  # noqa: N818  it never leaves this package
    """Carries what is wrong to where it becomes a `Refusal`."""

    def __init__(self, kind: Kind, why: str) -> None:
        """Takes the kind and a sentence without a full stop, of any text."""
        self.kind = kind
        self.why = one_line(why, 300)
        super().__init__(self.why)
