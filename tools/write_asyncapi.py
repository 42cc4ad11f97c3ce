"""Writes docs/asyncapi.yaml from the registry of messages."""

from __future__ import annotations

from pathlib import Path

import yaml

from fault_contracts.asyncapi import asyncapi_document

TARGET = Path(__file__).resolve().parent.parent / "docs" / "asyncapi.yaml"


def asyncapi_text() -> str:
    """The document as it lies in docs/."""
    return yaml.dump(asyncapi_document(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class _Plain(yaml.SafeDumper):
    """Without YAML anchors: the same schema twice is written twice."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


if __name__ == "__main__":
    TARGET.write_text(asyncapi_text(), encoding="utf-8")
    print(f"wrote {TARGET.name}")
