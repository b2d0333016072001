"""Draw the diagrams of the documentation: docs/pictures/NAME.mmd (Mermaid) becomes NAME.svg.

    npm install --prefix /tmp/mermaid mermaid@11
    python tools/draw_diagrams.py /tmp/mermaid/node_modules/mermaid/dist/mermaid.min.js

It takes Chromium and playwright (the extra `monitoring`). The pictures are kept in the
repository, so that the pages load nothing from elsewhere. Each names the digest of its source,
which a test checks.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"
_SETTINGS = (
    "{startOnLoad: false, theme: 'neutral', fontFamily: 'sans-serif', deterministicIds: true}"
)


def mark(source: Path) -> str:
    """Return the comment that a picture of *source* begins with."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return f"<!-- {source.name}, SHA-256 {digest} -->"


def main() -> None:
    """Draw all diagrams with the Mermaid that the command line names."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of an extra

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=sys.argv[1])
        page.evaluate(f"mermaid.initialize({_SETTINGS})")
        for source in sorted(PICTURES.glob("*.mmd")):
            drawn = page.evaluate(
                "async ([id, text]) => (await mermaid.render(id, text)).svg",
                [source.stem, source.read_text(encoding="utf-8")],
            )
            picture = source.with_suffix(".svg")
            picture.write_text(f"{mark(source)}\n{_with_size(drawn)}\n", encoding="utf-8")
        browser.close()


def _with_size(drawn: str) -> str:
    """Give a picture the size of its view box, and a white ground under it in the dark."""
    found = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', drawn)
    assert found, drawn[:300]
    width, height = (round(float(text)) for text in found.groups())
    sized = re.sub(r' width="100%"', f' width="{width}" height="{height}"', drawn, count=1)
    return sized.replace('style="', 'style="background: white; ', 1)


if __name__ == "__main__":
    main()
