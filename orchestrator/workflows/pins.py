"""GitHub's actions, each at the commit of a release: a tag can be moved, a commit cannot."""

from __future__ import annotations

from collections.abc import Mapping

ACTIONS: Mapping[str, str] = {
    "checkout": "3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "setup-python": "5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "upload-artifact": "043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1",
    "download-artifact": "3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1",
    "upload-pages-artifact": "fc324d3547104276b827a68afc52ff2a11cc49c9 # v5.0.0",
    "deploy-pages": "368f82528645a54fb793d4d04e342629a3f51346 # v5.0.1",
}
"""Repository below `actions/` to commit and release."""
