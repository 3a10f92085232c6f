"""A question as code: what to type to ask it from a shell or from Python."""

from __future__ import annotations

import json
from typing import Any

from reticent.home import ServedModel
from reticent.schemas import Categorical, Schema, plain_number
from reticent.service.dashboard.forms import date_example


def example_row(schema: Schema) -> dict[str, Any]:
    """Return a row that a schema allows: middles of ranges and first levels."""
    row: dict[str, Any] = {}
    for name in schema.sources:
        spec = schema.columns.get(name)
        if isinstance(spec, Categorical):
            row[name] = spec.levels[0]
        elif spec is None:
            row[name] = date_example(schema, name) or "some words"
        else:
            middle = (spec.low + spec.high) / 2
            row[name] = plain_number(float(f"{middle:.4g}"))
    return row


def snippets(
    model: ServedModel, address: str, row: dict[str, Any] | None
) -> dict[str, str]:
    """Return how to ask for a row with curl, with our client and with httpx.

    Parameters
    ----------
    model : ServedModel
        What is asked.
    address : str
        Where the service is.
    row : dict or None
        The row; an example if there is none.
    """
    asked = example_row(model.stored.schema) if row is None else row
    url = f"{address}/v1/models/{model.name}/predict"
    body = json.dumps({"rows": [asked]}, ensure_ascii=False)
    quoted = body.replace("'", "'\\''")
    return {
        "curl": (
            f"curl -s {url} \\\n"
            '  -H "Authorization: Bearer $RETICENT_KEY" \\\n'
            '  -H "Content-Type: application/json" \\\n'
            f"  -d '{quoted}'"
        ),
        "Python": (
            "import os\n\n"
            "from reticent.client import Client\n\n"
            f'with Client({address!r}, key=os.environ["RETICENT_KEY"]) as client:\n'
            f"    reply = client.predict({model.name!r}, [{asked!r}])\n"
            "    print(reply.answers, reply.answers_left)"
        ),
        "httpx": (
            "import os\n\nimport httpx\n\n"
            "reply = httpx.post(\n"
            f"    {url!r},\n"
            '    headers={"X-API-Key": os.environ["RETICENT_KEY"]},\n'
            f'    json={{"rows": [{asked!r}]}},\n'
            ")\n"
            "print(reply.json())"
        ),
    }
