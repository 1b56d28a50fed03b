"""The README as a package index can show it: a hook of the build, named in [tool.hatch.metadata.hooks.custom].

An index shows pictures and follows links only where they are absolute. `HARSANYINET_README_URL`, set when a release is
built, says where the files of the README are published, such as https://HOST/OWNER/NAME/raw/v1.0.0: then all pictures
and links begin with it. Where it is not set, no address is made up: a picture becomes its description and a link to a
page its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]+)\]\((?!https?:|mailto:|#)([^)]+)\)")


def for_an_index(text: str, address: str) -> str:
    """A page whose relative pictures and links begin with an address, or without one are words."""

    def anew(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if address:
            return f"{picture}[{words}]({address.rstrip('/')}/{target})"
        return f"*Picture: {words}.*" if picture else words

    return RELATIVE.sub(anew, text)


class ReadmeHook(MetadataHookInterface):
    """Puts the page into the metadata of wheel and sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the readme, which pyproject.toml declares dynamic."""
        address = os.environ.get("HARSANYINET_README_URL", "")
        if address and not address.startswith("https://"):
            raise ValueError(f"HARSANYINET_README_URL must begin with https://, however: {address}")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, address)}
