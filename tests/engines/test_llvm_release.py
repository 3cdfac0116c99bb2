"""The LLVM release: found, fetched by fake apt tools, or reported missing with the reason."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.config.models import LlvmPin
from orchestrator.engines import llvm_release
from orchestrator.engines.debs import Package, parse_packages
from orchestrator.engines.llvm_release import TOOLS, ReleaseFinder, ask_version, wrap
from orchestrator.engines.locks import exclusive
from orchestrator.errors import UsageError
from orchestrator.settings import Settings

PIN = LlvmPin(
    version="22.1.8",
    packages={"mlir-22-tools": "1:22.1.8-1", "clang-22": "1:22.1.8-1", "llvm-22": "1:22.1.8-1"},
)
SHOWN = """\
Package: mlir-22-tools
Source: llvm-toolchain-22
Version: 1:22.1.8-1
Size: 27000000
Depends: libc6 (>= 2.36), libllvm22 (= 1:22.1.8-1), libz3-4 | libz3-5, libffi8, libobjc-12-dev

Package: clang-22
Source: llvm-toolchain-22 (1:22.1.8)
Version: 1:22.1.8-1
Size: 200000
Depends: libllvm22, binutils, libclang-common-22-dev

Package: libllvm22
Source: llvm-toolchain-22
Version: 1:22.1.8-1
Size: 29000000
Pre-Depends: dpkg:any
Depends: libedit2 (>= 2.11)

Package: libz3-4
Source: z3
Version: 4.8.12-3
Size: 6000000
Depends: libc6

Package: libedit2
Source: libedit
Version: 3.1-1
Size: 90000

Package: libffi8
Source: libffi
Version: 3.4-1
Size: 20000

Package: binutils
Version: 2.40-2
Size: 60000
"""
# Each knows only as much of its original as is asked of it.
APT_CACHE = """\
#!/bin/sh
for word; do
    awk -v RS= -v ORS='\\n\\n' -v name="${word%%=*}" '$2 == name' SHOWN
done
"""
APT_GET = """\
#!/bin/sh
echo "$*" >> LOG
case "$*" in
*update*) echo 'W: Failed to fetch https://mirror.example/InRelease'; exit 100 ;;
esac
test -e FAILS && cat FAILS && exit 100
for word; do
    case "$word" in *=1:*|*=4.*|*=3.*) touch "${word%%=*}.deb" ;; esac
done
"""
DPKG_DEB = """\
#!/bin/sh
bin="$3/usr/lib/llvm-22/bin"
mkdir -p "$bin" "$3/usr/lib/llvm-22/lib" "$3/usr/lib/x86_64-linux-gnu"
for tool in mlir-opt mlir-translate clang ld.lld; do
    printf '#!/bin/sh\\necho "Debian LLVM version VERSION"\\n' > "$bin/$tool"
    chmod +x "$bin/$tool"
done
"""
DPKG_QUERY = """\
#!/bin/sh
echo "installed libffi8"
echo "installed libc6"
echo "config-files libedit2"
"""


class FakeApt:
    """Tools of that name in a folder, and what they were asked."""

    def __init__(self, folder: Path, version: str = "22.1.8") -> None:
        folder.mkdir()
        self._folder = folder
        self._log = folder / "asked"
        self.fails = folder / "fails"
        self.shown = folder / "shown"
        self.shown.write_text(SHOWN)
        for name, text in {
            "apt-cache": APT_CACHE.replace("SHOWN", str(self.shown)),
            "apt-get": APT_GET.replace("LOG", str(self._log)).replace("FAILS", str(self.fails)),
            "dpkg-deb": DPKG_DEB.replace("VERSION", version),
            "dpkg-query": DPKG_QUERY,
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self._folder}:{os.environ['PATH']}"}

    @property
    def asked(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def apt(tmp_path: Path) -> FakeApt:
    return FakeApt(tmp_path / "apt")


def finder(tmp_path: Path, apt: FakeApt | None = None, **settings: str) -> ReleaseFinder:
    (tmp_path / "state").mkdir(exist_ok=True)
    return ReleaseFinder(
        folder=tmp_path / "state",
        settings=Settings(**settings),  # type: ignore[arg-type]
        environ=apt.environ if apt else {"PATH": str(tmp_path / "nothing")},
        system=tmp_path / "system",
    )


def release(prefix: Path, version: str = "22.1.8", **others: str) -> Path:
    (prefix / "bin").mkdir(parents=True)
    for tool in TOOLS:
        path = prefix / "bin" / tool
        path.write_text(f"#!/bin/sh\necho LLVM version {others.get(tool, version)}\n")
        path.chmod(0o755)
    return prefix


def nothing_said(line: str) -> None:
    pytest.fail(f"said: {line}")


# --- without fetching -----------------------------------------------------------------------------


def test_the_installed_release_is_taken_when_it_is_the_pinned_one(tmp_path: Path) -> None:
    prefix = release(tmp_path / "system" / "llvm-22")
    found = finder(tmp_path).find(PIN, nothing_said)
    assert (found.prefix, found.version, found.note) == (prefix, "22.1.8", str(prefix))


def test_a_release_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = release(tmp_path / "system" / "llvm-22")
    finder(tmp_path).find(PIN, nothing_said)
    monkeypatch.setattr(llvm_release, "ask_version", lambda _: pytest.fail("asked again"))
    assert finder(tmp_path).find(PIN, nothing_said).prefix == prefix


def test_a_release_that_changed_is_asked_again(tmp_path: Path, apt: FakeApt) -> None:
    prefix = release(tmp_path / "system" / "llvm-22")
    assert finder(tmp_path, apt).find(PIN, nothing_said).prefix == prefix
    tool = prefix / "bin" / "clang"
    tool.write_text("#!/bin/sh\necho 22.1.9\n")
    os.utime(tool, ns=(1, 1))
    assert finder(tmp_path, apt).find(PIN, lambda _: None).prefix == tmp_path / "state" / "22.1.8"


@pytest.mark.parametrize(
    "others", [{"clang": "22.1.7"}, {"ld.lld": "no version"}, dict.fromkeys(TOOLS, "22.1.7")]
)
def test_another_release_is_not_taken(tmp_path: Path, others: dict[str, str]) -> None:
    release(tmp_path / "system" / "llvm-22", **others)
    found = finder(tmp_path).find(PIN, lambda _: None)
    assert found.prefix is None


def test_a_release_named_by_the_setting_may_have_any_version(tmp_path: Path) -> None:
    prefix = release(tmp_path / "mine", "23.0.0")
    found = finder(tmp_path, llvm_prefix=str(prefix)).find(PIN, nothing_said)
    assert (found.prefix, found.version) == (prefix, "23.0.0")
    assert found.note == f"{prefix} (LH_LLVM_PREFIX)"


@pytest.mark.parametrize("broken", ["missing", "other"])
def test_an_incomplete_release_named_by_the_setting_is_refused(tmp_path: Path, broken: str) -> None:
    prefix = release(tmp_path / "mine", clang="22.1.7" if broken == "other" else "22.1.8")
    if broken == "missing":
        (prefix / "bin" / "ld.lld").unlink()
    with pytest.raises(UsageError, match=r"no complete LLVM release: .* mlir-opt, mlir-translate"):
        finder(tmp_path, llvm_prefix=str(prefix)).find(PIN, nothing_said)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    release(tmp_path / "system" / "llvm-22")
    found = finder(tmp_path, llvm_prefix="none").find(PIN, nothing_said)
    assert (found.prefix, found.note) == (None, "turned off by LH_LLVM_PREFIX=none")


# --- fetching -------------------------------------------------------------------------------------


def test_packages_are_fetched_and_unpacked(tmp_path: Path, apt: FakeApt) -> None:
    said: list[str] = []
    found = finder(tmp_path, apt).find(PIN, said.append)
    target = tmp_path / "state" / "22.1.8"
    assert (found.prefix, found.version, found.note) == (target, "22.1.8", str(target))
    assert said == [
        "LLVM 22.1.8: fetching 5 packages (62 MB)",
        f"LLVM 22.1.8: unpacked in {target}",
    ]
    (download,) = apt.asked
    assert sorted(download.partition(" download ")[2].split()) == [
        *("clang-22=1:22.1.8-1", "libedit2=3.1-1", "libllvm22=1:22.1.8-1", "libz3-4=4.8.12-3"),
        "mlir-22-tools=1:22.1.8-1",
    ]
    assert "-o APT::Sandbox::User= " in download
    assert sorted(p.name for p in (tmp_path / "state").iterdir()) == [
        *("22.1.8", "22.1.8.lock", "versions.json")
    ]


def test_a_fetched_release_is_found_again(tmp_path: Path, apt: FakeApt) -> None:
    first = finder(tmp_path, apt).find(PIN, lambda _: None)
    assert finder(tmp_path, apt).find(PIN, nothing_said) == first
    assert len(apt.asked) == 1


def test_a_pin_that_the_systems_lists_lack_gets_lists_of_our_own(
    tmp_path: Path, apt: FakeApt
) -> None:
    apt.shown.write_text(SHOWN.replace("Package: clang-22", "Package: clang-21"))
    said: list[str] = []
    found = finder(tmp_path, apt).find(PIN, said.append)
    assert said[0] == "asking apt's sources what they have"
    assert found.prefix is None
    assert found.note == (
        "LLVM 22.1.8 could not be fetched: apt knows no clang-22 1:22.1.8-1: "
        "Failed to fetch https://mirror.example/InRelease"
    )
    (update,) = apt.asked
    assert update.endswith(" update")
    assert "Dir::State::lists=" in update


def test_sources_of_our_own(tmp_path: Path, apt: FakeApt) -> None:
    found = finder(tmp_path, apt, apt_sources="https://mirror.example/debian").find(
        PIN, lambda _: None
    )
    assert found.prefix is not None
    update, download = apt.asked
    for asked in (update, download):
        assert "-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=" in asked


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("Err:1 x\nE: Failed to fetch clang\nE: Unable to fetch", "Failed to fetch clang"),
        ("tar: x: No space left on device\n", "tar: x: No space left on device"),
        ("what is this\n", "what is this"),
        ("", "env: exit code 100"),
    ],
)
def test_a_download_that_fails_is_told_and_not_tried_again_at_once(
    tmp_path: Path, apt: FakeApt, says: str, reason: str
) -> None:
    apt.fails.write_text(says)
    said: list[str] = []
    found = finder(tmp_path, apt).find(PIN, said.append)
    told = f"LLVM 22.1.8 could not be fetched: {reason}"
    assert (found.prefix, found.version, found.note) == (None, "", told)
    assert said[-1] == told
    apt.fails.unlink()
    again = finder(tmp_path, apt).find(PIN, nothing_said)
    assert again.note == f"{told} (tried 0 min ago)"
    forced = finder(tmp_path, apt).find(PIN, lambda _: None, force=True)
    assert forced.prefix is not None


def test_a_failure_of_long_ago_is_tried_again(tmp_path: Path, apt: FakeApt) -> None:
    apt.fails.write_text("E: Failed to fetch clang\n")
    finder(tmp_path, apt).find(PIN, lambda _: None)
    apt.fails.unlink()
    os.utime(tmp_path / "state" / "22.1.8.failed", (0, 0))
    assert finder(tmp_path, apt).find(PIN, lambda _: None).prefix is not None


def test_packages_that_do_not_run_here_are_not_kept(tmp_path: Path) -> None:
    found = finder(tmp_path, FakeApt(tmp_path / "apt", version="22.1.9")).find(PIN, lambda _: None)
    assert found.note == "LLVM 22.1.8 could not be fetched: what apt gave is 22.1.9"
    assert not (tmp_path / "state" / "22.1.8").exists()


def test_what_a_killed_fetch_left_is_removed(tmp_path: Path, apt: FakeApt) -> None:
    releases = finder(tmp_path, apt)
    left, others = (releases.folder / f".fetch-{v}-abc" for v in ("22.1.8", "21.1.0"))
    left.mkdir()
    others.mkdir()
    releases.find(PIN, lambda _: None)
    assert not left.exists(), "by the next fetch of that release"
    with exclusive(releases.folder / "21.1.0.lock", "LLVM 21.1.0", nothing_said):
        assert releases.sweep() == []
    assert releases.sweep() == [str(others)]
    assert not others.exists()


def test_a_machine_without_apt(tmp_path: Path) -> None:
    found = finder(tmp_path).find(PIN, lambda _: None)
    assert found.note == (
        "LLVM 22.1.8 could not be fetched: this machine has no apt-get to fetch it with"
    )


# --- parts ----------------------------------------------------------------------------------------


def test_tools_find_the_libraries_beside_them(tmp_path: Path) -> None:
    llvm = tmp_path / "it's here" / "root" / "usr" / "lib" / "llvm-22"
    (llvm / "bin").mkdir(parents=True)
    (llvm / "lib").mkdir()
    (llvm.parent / "x86_64-linux-gnu").mkdir()
    for tool in TOOLS:
        (llvm / "bin" / tool).write_text('#!/bin/sh\necho 22.1.8 "$LD_LIBRARY_PATH" "$@"\n')
        (llvm / "bin" / tool).chmod(0o755)
    base = tmp_path / "it's here"
    wrap(base, "22")
    assert ask_version(base) == "22.1.8"
    said = subprocess.check_output([base / "bin" / "mlir-opt", "a b", "c"], env={}, text=True)
    here = f"{base}/bin/.."
    assert said == (
        f"22.1.8 {here}/root/usr/lib/llvm-22/lib:{here}/root/usr/lib/x86_64-linux-gnu a b c\n"
    )
    assert (base / "lib").resolve() == llvm / "lib"


def test_what_apt_shows_is_read() -> None:
    packages = parse_packages(SHOWN)
    assert packages[0] == Package(
        name="mlir-22-tools",
        version="1:22.1.8-1",
        source="llvm-toolchain-22",
        size=27000000,
        needs=("libc6", "libllvm22", "libz3-4", "libffi8", "libobjc-12-dev"),
    )
    assert packages[1].source == "llvm-toolchain-22"
    assert packages[2].needs == ("dpkg", "libedit2")
    assert packages[-1].source == "binutils"
