"""Adds to ``forms.json`` what it lacks: the bytes of a stored form's number, as today's code writes them. What is there stays as it is.

python -m tests.data.write_forms
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.data.forms import FORMS

GOLDEN = Path(__file__).parent / "forms.json"


def main() -> None:
    golden: dict[str, dict[str, str]] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    for form in FORMS:
        kept = golden.setdefault(form.name, {})
        for number, value in form.values.items():
            kept.setdefault(str(number), form.encode(value).decode("latin-1"))
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
