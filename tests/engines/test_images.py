"""Names of images, and what is passed to the builds that make them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from orchestrator.engines.docker_host import Image
from orchestrator.engines.images import Built, ImageBuilder, folder_digest, llvm_tag, stack_tag
from orchestrator.engines.pins import read_pins
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.settings import Settings
from tests.engines.fake_docker import HOST, FakeApi, add_cli, add_image

PINS = """\
schema: 1
base: debian:bookworm-slim
base_suite: bookworm
base_python: "3.11"
llvm:
  version: 22.1.8
  packages: {mlir-22-tools: "1:22.1.8-1~deb12u1", lld-22: "1:22.1.8-1~deb12u1"}
stacks:
  pytorch:
    proven: 2026-11-21
    python: ["3.11", "3.12"]
    packages:
      torch: 2.13.0+cpu
      numpy: 2.4.6
    indexes: {torch: "https://index.example/whl/cpu"}
  jax:
    proven: 2026-11-21
    python: ["3.11"]
    packages: {jax: 0.10.2}
"""
TORCH = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for folder in ("llvm", "pytorch", "jax"):
        (root / "images" / folder).mkdir(parents=True)
        (root / "images" / folder / "Dockerfile").write_text(f"FROM {folder}\n")
    (root / "images" / "pins.yaml").write_text(PINS)
    return root


def edit(root: Path, old: str, new: str) -> None:
    file = root / "images" / "pins.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def tags(root: Path, base: str = "sha256:1") -> dict[str, str]:
    pins = read_pins(root)
    names = {stack: stack_tag(root, pins, stack, base) for stack in pins.stacks}
    return names | {"llvm": llvm_tag(root, pins, base)}


def changed(root: Path, change: Callable[[], object]) -> set[str]:
    before = tags(root)
    change()
    after = tags(root)
    return {name for name, tag in after.items() if tag != before[name]}


class TestTags:
    def test_a_tag_is_a_repository_and_twelve_hex_digits(self, root: Path) -> None:
        for name, tag in tags(root).items():
            assert re.fullmatch(rf"lh/{name}:[0-9a-f]{{12}}", tag)

    def test_the_same_inputs_elsewhere_have_the_same_tag(self, root: Path, tmp_path: Path) -> None:
        shutil.copytree(root, tmp_path / "elsewhere")
        assert tags(root) == tags(tmp_path / "elsewhere")

    def test_a_version_of_a_stack_changes_that_stack_alone(self, root: Path) -> None:
        assert changed(root, lambda: edit(root, "numpy: 2.4.6", "numpy: 2.4.7")) == {"pytorch"}

    def test_a_version_of_llvm_changes_everything(self, root: Path) -> None:
        def change() -> None:
            edit(root, 'lld-22: "1:22.1.8-1', 'lld-22: "1:22.1.8-2')

        assert changed(root, change) == {"llvm", "pytorch", "jax"}

    def test_a_package_of_one_architecture_changes_its_stack_and_is_installed_there(
        self, root: Path
    ) -> None:
        old = "    indexes: {torch"
        new = f"    system: {{a: '1'}}\n    system_of: {{x86_64: {{b: '2'}}}}\n{old}"
        assert changed(root, lambda: edit(root, old, new)) == {"pytorch"}
        assert changed(root, lambda: edit(root, "b: '2'", "b: '3'")) == {"pytorch"}
        pins = read_pins(root).stacks["pytorch"]
        assert pins.system_for("x86_64") == {"a": "1", "b": "3"}
        assert pins.system_for("aarch64") == {"a": "1"}

    def test_an_index_changes_its_stack(self, root: Path) -> None:
        assert changed(root, lambda: edit(root, "/whl/cpu", "/whl/other")) == {"pytorch"}

    def test_a_file_beside_the_dockerfile_counts(self, root: Path) -> None:
        file = root / "images" / "jax" / "deep" / "extra.sh"

        def change() -> None:
            file.parent.mkdir()
            file.write_text("true\n")

        assert changed(root, change) == {"jax"}

    def test_the_dockerfile_of_llvm_changes_everything(self, root: Path) -> None:
        file = root / "images" / "llvm" / "Dockerfile"
        assert changed(root, lambda: file.write_text("FROM x\n")) == {"llvm", "pytorch", "jax"}

    def test_another_base_changes_everything(self, root: Path) -> None:
        before, after = tags(root), tags(root, "sha256:2")
        assert all(before[name] != after[name] for name in before)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (
                'proven: 2026-11-21\n    python: ["3.11"]',
                'proven: 2027-01-01\n    python: ["3.11"]',
            ),
            ('["3.11", "3.12"]', '["3.11", "3.13"]'),
            ("      numpy: 2.4.6\n", "      numpy: 2.4.6 # why\n"),
        ],
        ids=["date", "pythons elsewhere", "comment"],
    )
    def test_what_is_not_in_the_image_changes_nothing(self, root: Path, old: str, new: str) -> None:
        assert changed(root, lambda: edit(root, old, new)) == set()

    def test_the_order_of_packages_changes_nothing(self, root: Path) -> None:
        lines = "      torch: 2.13.0+cpu\n", "      numpy: 2.4.6\n"
        assert changed(root, lambda: edit(root, "".join(lines), "".join(lines[::-1]))) == set()

    def test_a_file_that_moves_changes_the_digest(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x")
        before = folder_digest(tmp_path)
        (tmp_path / "a").rename(tmp_path / "b")
        assert folder_digest(tmp_path) != before


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A repository, an engine and a client, none of them real."""

    root: Path
    images: Path
    wheels: Path
    bin: Path
    api: FakeApi
    lines: list[str]

    def builder(self, **settings: object) -> ImageBuilder:
        chosen = Settings(**{"wheels": (self.wheels,), **settings})  # type: ignore[arg-type]
        environ = {
            "PATH": str(self.bin),
            "IMAGES": str(self.images),
            "PIP_CONFIG_FILE": "/dev/null",
        }
        return ImageBuilder(
            self.root, read_pins(self.root), chosen, self.api.client(), HOST, environ
        )

    def ensure(self, stack: str, *, force: bool = False, **settings: object) -> Built:
        return self.builder(**settings).ensure(stack, self.lines.append, force=force)

    def last(self, name: str) -> str:
        return (self.images / "last" / name).read_text()

    def argv(self) -> list[str]:
        return self.last("argv").splitlines()


@pytest.fixture
def bench(root: Path, tmp_path: Path) -> Bench:
    images, wheels = tmp_path / "engine", tmp_path / "wheels"
    images.mkdir()
    wheels.mkdir()
    (wheels / TORCH).write_text("a wheel")
    add_cli(tmp_path / "bin")
    add_image(images, "debian:bookworm-slim", "base", pulled=True)
    api = FakeApi(images)
    return Bench(root=root, images=images, wheels=wheels, bin=tmp_path / "bin", api=api, lines=[])


class TestBuilding:
    def test_a_missing_image_is_built_on_the_shared_one(self, bench: Bench) -> None:
        built = bench.ensure("pytorch")
        llvm = llvm_tag(bench.root, read_pins(bench.root), "sha256:base")
        assert not built.cached
        assert built.tag == stack_tag(bench.root, read_pins(bench.root), "pytorch", "sha256:base")
        assert built.base.origin == "from its registry"
        assert f"LLVM_IMAGE={llvm}" in bench.argv()

    def test_an_image_that_is_there_is_not_built(self, bench: Bench) -> None:
        first = bench.ensure("jax")
        shutil.rmtree(bench.images / "last")
        (bench.bin / "docker").unlink()  # nothing of it is needed any more
        again = bench.ensure("jax")
        assert again.cached
        assert again.image == first.image
        assert not (bench.images / "last").exists()

    def test_the_shared_image_is_built_once(self, bench: Bench) -> None:
        bench.ensure("jax")
        llvm = llvm_tag(bench.root, read_pins(bench.root), "sha256:base")
        before = bench.api.inspect_image(llvm)["Id"]
        bench.ensure("pytorch")
        assert bench.api.inspect_image(llvm)["Id"] == before

    def test_force_builds_afresh_and_drops_the_old_image(self, bench: Bench) -> None:
        old = bench.ensure("jax")
        new = bench.ensure("jax", force=True)
        assert new.image.id != old.image.id
        assert not new.cached
        assert "--no-cache" in bench.argv()
        assert ("remove_image", old.image.id) in bench.api.calls

    def test_pinned_wheels_of_this_machine_are_staged_and_the_rest_is_pinned(
        self, bench: Bench
    ) -> None:
        (bench.wheels / "other-1.0-py3-none-any.whl").write_text("not pinned")
        bench.ensure("pytorch")
        staged = [file.name for file in (bench.images / "last/context/wheels").iterdir()]
        assert staged == [TORCH]
        assert bench.last("context/requirements.txt") == f"/wheels/{TORCH}\nnumpy==2.4.6\n"

    def test_the_context_has_the_folder_of_the_stack(self, bench: Bench) -> None:
        (bench.root / "images" / "jax" / "patch.diff").write_text("a patch")
        bench.ensure("jax")
        assert bench.last("context/Dockerfile") == "FROM jax\n"
        assert bench.last("context/patch.diff") == "a patch"
        assert bench.last("context/requirements.txt") == "jax==0.10.2\n"

    def test_ca_and_pip_arguments_are_secrets_and_nothing_else(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        (tmp_path / "ca.pem").write_text("certificates")
        mirror = "--index-url=https://user:pass word@mirror.example/simple"
        bench.ensure("jax", ca_bundle=tmp_path / "ca.pem", pip_args=(mirror,))
        assert bench.last("ca") == "certificates"
        assert f"'{mirror}'" in bench.last("pip-args")
        assert "--retries=1" in bench.last("pip-args")
        assert "mirror.example" not in bench.last("argv") + bench.last("context/requirements.txt")

    def test_llvm_gets_exact_versions_and_apt_sources_as_a_secret(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            ImageBuilder, "_stack", lambda *_, **__: Image(id="x", size=0, pulled=False)
        )
        bench.ensure("jax", apt_sources="http://mirror.example/debian")
        argv = bench.argv()
        assert "PACKAGES=mlir-22-tools=1:22.1.8-1~deb12u1 lld-22=1:22.1.8-1~deb12u1" in argv
        assert {"LLVM_MAJOR=22", "LLVM_VERSION=22.1.8", "PYTHON_VERSION=3.11"} <= set(argv)
        assert "BASE_IMAGE=debian:bookworm-slim" in argv
        assert "deb http://mirror.example/debian-security bookworm-security main\n" in bench.last(
            "apt-sources"
        )

    def test_arguments_of_the_user_come_before_the_context(self, bench: Bench) -> None:
        bench.ensure("jax", build_args=("--network=host",))
        assert bench.argv()[-2] == "--network=host"

    def test_the_client_is_pointed_at_the_engine_that_runs_the_containers(
        self, bench: Bench
    ) -> None:
        bench.ensure("jax")
        assert {f"DOCKER_HOST={HOST.url}", "DOCKER_BUILDKIT=1"} <= set(bench.last("env").split())

    def test_progress_says_what_is_built(self, bench: Bench) -> None:
        bench.ensure("jax")
        assert "jax: [builder 1/1] RUN x" in bench.lines


class TestFailing:
    def test_an_index_that_is_silent_fails_before_any_build(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def silent(*_: object) -> str:
            raise requests.ConnectionError

        monkeypatch.setattr("orchestrator.engines.index_pages._fetch", silent)
        (bench.wheels / TORCH).unlink()
        with pytest.raises(InfrastructureError, match=r"torch 2\.13\.0\+cpu .*LH_WHEELS"):
            bench.ensure("pytorch")
        assert not (bench.images / "last").exists()

    def test_a_stack_without_a_dockerfile(self, bench: Bench) -> None:
        (bench.root / "images/jax/Dockerfile").unlink()
        with pytest.raises(DefinitionError, match=r"images/jax/Dockerfile: there is no such file"):
            bench.ensure("jax")

    def test_a_stack_that_does_not_know_the_python_of_the_base(self, bench: Bench) -> None:
        edit(bench.root, 'base_python: "3.11"', 'base_python: "3.13"')
        with pytest.raises(DefinitionError, match=r"pins\.yaml:18:5 .*does not list 3\.13"):
            bench.ensure("jax")

    def test_a_build_that_fails_is_explained(self, bench: Bench) -> None:
        add_cli(
            bench.bin,
            build="""echo "#7 [llvm 2/4] RUN : \\"packages\\"; apt-get"
            echo "#7 1.0 E: Version '1:22.1.8-1~deb12u1' for 'lld-22' was not found"
            echo "#7 ERROR: executor failed running [/bin/sh -c x]: exit code: 100"; exit 1""",
        )
        with pytest.raises(DefinitionError, match=r"pins\.yaml:7:\d+ .*lld-22: .* no version 1:22"):
            bench.ensure("jax")

    def test_a_client_that_builds_into_another_engine(self, bench: Bench) -> None:
        add_cli(bench.bin, build="exit 0")
        with pytest.raises(InfrastructureError, match="talks to another engine"):
            bench.ensure("jax")

    def test_a_full_disk_while_staging(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("orchestrator.engines.images.os.link", full)
        monkeypatch.setattr("orchestrator.engines.images.shutil.copyfile", full)
        with pytest.raises(InfrastructureError, match=r"No space left on device.*TMPDIR"):
            bench.ensure("pytorch")

    def test_no_base_and_no_way_to_get_one(self, bench: Bench) -> None:
        (bench.images / "debian_bookworm-slim").unlink()
        with pytest.raises(InfrastructureError, match=r"no such host.*LH_BASE_IMAGE.*mmdebstrap"):
            bench.ensure("jax")
