"""The images that `lh-ci` built, for those who want them gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from docker import APIClient
from docker.errors import NotFound

from orchestrator.engines.docker_host import connect, engine_errors, find_host

_OURS = "lh/"


@dataclass(frozen=True, kw_only=True)
class StoredImage:
    """An image of ours."""

    tag: str
    size: int
    """Bytes, layers that it shares with others included."""


class Images:
    """The images of a Docker engine that are ours."""

    def __init__(self, client: APIClient) -> None:
        """Takes a client that answered."""
        self._client = client

    def all(self) -> tuple[StoredImage, ...]:
        """By tag; stacks before what they are built on, so that they can go in this order.

        Raises:
            InfrastructureError: the engine does not answer.
        """
        with engine_errors("listing images"):
            found = self._client.images()
        images = {
            tag: StoredImage(tag=tag, size=int(entry.get("Size", 0)))
            for entry in found
            for tag in entry.get("RepoTags") or ()
            if tag.startswith(_OURS)
        }
        shared = ("lh/llvm:", "lh/base:")
        return tuple(
            sorted(images.values(), key=lambda image: (image.tag.startswith(shared), image.tag))
        )

    def remove(self, tag: str) -> None:
        """Removes a tag, and its layers where nothing else needs them.

        Raises:
            InfrastructureError: a container uses it, or the engine does not answer.
        """
        with engine_errors(f"removing image {tag}"), contextlib.suppress(NotFound):
            self._client.remove_image(tag)


@contextlib.contextmanager
def open_images(environ: Mapping[str, str]) -> Iterator[Images]:
    """The images of the engine that answers. Raises InfrastructureError when none does."""
    client = connect(find_host(environ))
    try:
        yield Images(client)
    finally:
        client.close()
