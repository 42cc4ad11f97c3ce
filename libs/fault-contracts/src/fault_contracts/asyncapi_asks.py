"""The questions (fault_contracts.asks) as AsyncAPI request/reply operations."""

from __future__ import annotations

from typing import Any

from fault_contracts.asks import AskSpec
from fault_contracts.subjects import ROOT, Kind


def ask_channels(ask: AskSpec) -> list[tuple[str, dict[str, Any]]]:
    """Where it is asked, and where the reply goes: an inbox that the asker names in each request."""
    asked, answered = _ask_names(ask)
    return [
        (
            asked,
            {
                "address": f"{ROOT}.{Kind.ASK}.{ask.what}.asked.v1.{{cluster}}.{{key}}",
                "description": f"{ask.summary} Key: {ask.key}; core NATS request, not stored.",
                "messages": {asked: {"$ref": f"#/components/messages/{asked}"}},
                "parameters": {name: {"$ref": f"#/components/parameters/{name}"} for name in ("cluster", "key")},
            },
        ),
        (
            answered,
            {
                "address": None,
                "description": "The reply subject of the request.",
                "messages": {answered: {"$ref": f"#/components/messages/{answered}"}},
            },
        ),
    ]


def ask_operations(ask: AskSpec) -> list[tuple[str, dict[str, Any]]]:
    """The asker sends, the answerer receives; both name the reply."""
    asked, answered = _ask_names(ask)
    return [
        (
            f"{who}/{action}/{asked}",
            {
                "action": action,
                "channel": {"$ref": f"#/channels/{asked}"},
                "messages": [{"$ref": f"#/channels/{asked}/messages/{asked}"}],
                "reply": {
                    "address": {
                        "location": "$message.header#/replyTo",
                        "description": "The reply of the NATS message.",
                    },
                    "channel": {"$ref": f"#/channels/{answered}"},
                    "messages": [{"$ref": f"#/channels/{answered}/messages/{answered}"}],
                },
            },
        )
        for who, action in (*((asker, "send") for asker in ask.askers), (ask.answerer, "receive"))
    ]


def ask_messages(ask: AskSpec) -> list[tuple[str, dict[str, Any]]]:
    """The bodies of question and answer."""
    return [
        (name, {"name": name, "contentType": _content_type(fields), "payload": _body(fields)})
        for name, fields in zip(_ask_names(ask), (ask.question, ask.answer), strict=True)
    ]


def _ask_names(ask: AskSpec) -> tuple[str, str]:
    return f"{Kind.ASK}.{ask.what}.asked.v1", f"{Kind.ASK}.{ask.what}.answered.v1"


def _content_type(fields: dict[str, str] | str) -> str:
    return "text/plain" if isinstance(fields, str) else "application/json"


def _body(fields: dict[str, str] | str) -> dict[str, Any]:
    if isinstance(fields, str):
        return {"type": "string", "description": fields}
    if not fields:
        return {"description": "Empty body.", "maxLength": 0}
    return {
        "type": "object",
        "required": list(fields),
        "properties": {name: {"description": meaning} for name, meaning in fields.items()},
    }
