"""Getting the base image: found, pulled, or made; and apt's sources for making it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.config.models import Pins
from orchestrator.engines import apt, base_image
from orchestrator.engines.apt import Source
from orchestrator.engines.base_image import Base, find_base, get_base
from orchestrator.engines.commands import ProgramTimeoutError, follow
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings
from tests.engines.fake_docker import FakeApi, add_cli, add_image

PINS = Pins.model_validate_json(
    """{"schema": 1, "base": "debian:bookworm-slim", "base_suite": "bookworm",
    "llvm": {"version": "22.1.8", "packages": {"lld-22": "1"}}, "stacks": {}}"""
)
PULLS = 'echo "Pulling from library/debian"; echo x > "$IMAGES/debian_bookworm-slim"; exit 0'
REFUSES = 'echo "no such host"; exit 1'


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


def add_mmdebstrap(folder: Path, body: str) -> None:
    program = folder / "mmdebstrap"
    program.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > "$IMAGES/mmdebstrap"\n{body}\n')
    program.chmod(0o755)


@pytest.fixture
def get(tmp_path: Path, images: Path) -> Callable[..., Base]:
    def get(lines: list[str] | None = None, pull: str = REFUSES, **settings: object) -> Base:
        cli = add_cli(tmp_path / "bin", pull=pull)
        environ = {"PATH": str(tmp_path / "bin"), "IMAGES": str(images)}
        chosen = Settings(**settings)  # type: ignore[arg-type]
        lines = [] if lines is None else lines
        return get_base(FakeApi(images).client(), cli, environ, chosen, PINS, lines.append)

    return get


class TestFinding:
    def test_nothing_is_there(self, images: Path) -> None:
        assert find_base(FakeApi(images).client(), Settings(), PINS) is None

    def test_the_pinned_one_wins_over_one_made_here(self, images: Path) -> None:
        add_image(images, "lh/base:bookworm", "made")
        add_image(images, "debian:bookworm-slim", "pulled", pulled=True)
        found = find_base(FakeApi(images).client(), Settings(), PINS)
        assert found is not None
        assert (found.image.id, found.origin) == ("sha256:pulled", "from its registry")

    def test_one_made_here_stands_in_for_the_pinned_one(self, images: Path) -> None:
        add_image(images, "lh/base:bookworm", "made")
        found = find_base(FakeApi(images).client(), Settings(), PINS)
        assert found is not None
        assert (found.reference, found.origin) == ("lh/base:bookworm", "made on this machine")

    def test_nothing_stands_in_for_one_that_the_user_named(self, images: Path) -> None:
        add_image(images, "lh/base:bookworm", "made")
        settings = Settings(base_image="mirror.example/debian:12")
        assert find_base(FakeApi(images).client(), settings, PINS) is None


class TestGetting:
    def test_it_is_pulled(self, get: Callable[..., Base]) -> None:
        assert get(pull=PULLS).reference == "debian:bookworm-slim"

    def test_it_is_made_where_no_registry_answers(
        self, get: Callable[..., Base], tmp_path: Path, images: Path
    ) -> None:
        (tmp_path / "bin").mkdir()
        add_mmdebstrap(tmp_path / "bin", 'echo "I: extracting archives..."')
        lines: list[str] = []
        base = get(lines, apt_sources="http://mirror.example/debian")
        assert base.reference == "lh/base:bookworm"
        assert "base image: no registry (no such host); making it with mmdebstrap" in lines
        assert "base image: extracting archives" in lines
        argv = (images / "mmdebstrap").read_text().splitlines()
        assert {"--variant=minbase", "--include=ca-certificates", "bookworm"} <= set(argv)
        assert argv[-3:] == [
            "deb http://mirror.example/debian bookworm main",
            "deb http://mirror.example/debian bookworm-updates main",
            "deb http://mirror.example/debian-security bookworm-security main",
        ]

    def test_one_that_the_user_named_is_never_replaced(
        self, get: Callable[..., Base], tmp_path: Path, images: Path
    ) -> None:
        (tmp_path / "bin").mkdir()
        add_mmdebstrap(tmp_path / "bin", "exit 0")
        with pytest.raises(
            InfrastructureError, match=r"LH_BASE_IMAGE: mirror\.example/d:12 .*no such"
        ):
            get(base_image="mirror.example/d:12")
        assert not (images / "mmdebstrap").exists()

    def test_neither_registry_nor_mmdebstrap(self, get: Callable[..., Base]) -> None:
        with pytest.raises(InfrastructureError, match=r"LH_BASE_IMAGE.* or install mmdebstrap"):
            get()

    def test_a_registry_that_is_silent(
        self, get: Callable[..., Base], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(base_image, "_FIRST_WORD_S", 0.05)
        with pytest.raises(InfrastructureError, match=r"cannot be pulled: no answer\. "):
            get(pull="exec sleep 60")

    def test_mmdebstrap_fails(self, get: Callable[..., Base], tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        add_mmdebstrap(
            tmp_path / "bin", 'echo "I: x"; echo "E: unable to pick chroot mode"; exit 1'
        )
        with pytest.raises(InfrastructureError, match=r"(?s)E: unable to pick.*LH_APT_SOURCES"):
            get()

    def test_a_full_disk(self, get: Callable[..., Base], tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        add_mmdebstrap(tmp_path / "bin", 'echo "E: tar: No space left on device"; exit 1')
        with pytest.raises(InfrastructureError, match="disk is full; TMPDIR"):
            get()


ONE_LINE = dedent(
    """\
    # deb http://old.example/debian bookworm main
    deb [arch=amd64 signed-by=/etc/key.gpg] http://mirror.example/debian/ bookworm main contrib # x
    deb-src http://mirror.example/debian bookworm main
    deb http://mirror.example/debian bookworm-updates main
    deb https://packages.example/apt tools-bookworm main
    """
)
STANZAS = dedent(
    """\
    Types: deb deb-src
    # a comment
    URIs: http://mirror.example/debian
    Suites: bookworm bookworm-updates
    Components: main
     contrib
    Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

    Types: deb
    URIs: http://mirror.example/debian-security
    Suites: bookworm-security
    Components: main
    Trusted: yes

    Types: deb
    Enabled: no
    URIs: http://off.example/debian
    Suites: bookworm
    Components: main
    """
)


class TestApt:
    def test_one_line_format(self) -> None:
        first, *rest = apt.parse(ONE_LINE)
        assert first == Source(
            uri="http://mirror.example/debian",
            suite="bookworm",
            components=("main", "contrib"),
            options=("arch=amd64", "signed-by=/etc/key.gpg"),
        )
        assert [source.suite for source in rest] == ["bookworm-updates", "tools-bookworm"]

    def test_stanzas(self) -> None:
        found = apt.parse(STANZAS)
        assert [source.suite for source in found] == [
            "bookworm",
            "bookworm-updates",
            "bookworm-security",
        ]
        assert found[0].components == ("main", "contrib")
        assert found[2].line() == (
            "deb [trusted=yes] http://mirror.example/debian-security bookworm-security main"
        )

    @pytest.mark.parametrize("text", [ONE_LINE, STANZAS])
    def test_lines_are_read_back_as_they_were(self, text: str) -> None:
        sources = apt.parse(text)
        assert apt.parse("\n".join(source.line() for source in sources)) == sources

    def test_of_this_machine_only_the_release_and_no_options(self, tmp_path: Path) -> None:
        (tmp_path / "sources.list.d").mkdir()
        (tmp_path / "sources.list").write_text(ONE_LINE)
        (tmp_path / "sources.list.d" / "debian.sources").write_text(STANZAS)
        lines = [source.line() for source in apt.host_sources("bookworm", tmp_path)]
        assert lines == [
            "deb http://mirror.example/debian bookworm main",
            "deb http://mirror.example/debian bookworm-updates main",
            "deb http://mirror.example/debian-security bookworm-security main",
        ]

    def test_a_machine_of_another_release_has_none(self, tmp_path: Path) -> None:
        (tmp_path / "sources.list").write_text("deb http://mirror.example/debian trixie main\n")
        assert apt.host_sources("bookworm", tmp_path) == ()

    def test_updates_alone_are_no_distribution(self) -> None:
        updates = Source(uri="http://x", suite="bookworm-updates", components=("main",))
        assert apt.of_release([updates], "bookworm") == ()

    def test_a_setting_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "x.sources").write_text(STANZAS)
        found = apt.setting_sources(str(tmp_path / "x.sources"), "bookworm")
        assert found[0].options == ("signed-by=/usr/share/keyrings/debian-archive-keyring.gpg",)

    def test_a_setting_that_is_neither_file_nor_mirror(self, tmp_path: Path) -> None:
        with pytest.raises(InfrastructureError, match=r"LH_APT_SOURCES: .*none: No such file"):
            apt.setting_sources(str(tmp_path / "none"), "bookworm")

    def test_a_file_without_entries(self, tmp_path: Path) -> None:
        (tmp_path / "empty.list").write_text("# nothing\n")
        with pytest.raises(InfrastructureError, match="has no `deb` entry"):
            apt.setting_sources(str(tmp_path / "empty.list"), "bookworm")


class TestFollow:
    def test_lines_of_both_streams_and_the_status(self) -> None:
        lines: list[str] = []
        argv = ["bash", "-c", "echo out; echo err >&2; printf last; exit 3"]
        assert follow(argv, environ={"PATH": "/usr/bin:/bin"}, on_line=lines.append) == 3
        assert lines == ["out", "err", "last"]

    def test_a_program_that_is_not_there(self) -> None:
        with pytest.raises(InfrastructureError, match="/nonexistent could not be started: No such"):
            follow(["/nonexistent"], environ={}, on_line=print)

    @pytest.mark.parametrize(
        ("limits", "message"),
        [({"quiet_s": 0.05}, "said nothing for 0.05 s"), ({"total_s": 0.05}, "longer than 0.05 s")],
    )
    def test_deadlines(self, limits: dict[str, float], message: str) -> None:
        with pytest.raises(ProgramTimeoutError, match=message):
            follow(["/bin/sleep", "60"], environ={}, on_line=print, **limits)

    def test_whatever_ends_it_early_ends_its_children_too(self, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        # the child holds the pipe open: reading it ends only when the child has
        script = f"mkfifo {fifo}; (exec sleep 60 > {fifo}) & exec 3< {fifo}; echo ready; wait"

        def interrupt(line: str) -> None:
            assert line == "ready"
            held.append(fifo.open("rb"))
            raise KeyboardInterrupt

        held: list[object] = []
        with pytest.raises(KeyboardInterrupt):
            follow(["bash", "-c", script], environ={"PATH": "/usr/bin:/bin"}, on_line=interrupt)
        (pipe,) = held
        with pipe:  # type: ignore[attr-defined]
            assert pipe.read() == b""  # type: ignore[attr-defined]
