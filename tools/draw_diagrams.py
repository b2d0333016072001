"""Draw the diagrams of the documentation: docs/pictures/NAME.mmd becomes NAME.svg.

python tools/draw_diagrams.py            # write the pictures
python tools/draw_diagrams.py --check    # fail if one is not what would be written

The sources are sequence diagrams in the language of Mermaid, of which this reads what they use.
Mermaid's own pictures are twice as wide, and on a telephone nobody can read them.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, LINE, LETTER = 440, 16, 6.9
"""Of a picture, between two lines of text, and of a letter, in pixels."""
INK, FAINT, GROUND = "#24292f", "#8c959f", "#fff8c5"
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="13" text-anchor="middle" \
role="img">
<rect width="100%" height="100%" rx="10" fill="#ffffff" stroke="#d0d7de"/>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0L8 4L0 8z" fill="{ink}"/></marker></defs>"""
_MESSAGE = re.compile(r"(\w+)(--?)(>>|x)(\w+): (.*)")
_NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: (.*)")
_PARTICIPANT = re.compile(r"participant (\w+) as (.*)")


@dataclass(slots=True)
class Drawing:
    """A picture that grows downwards; *y* is where the next thing begins."""

    names: dict[str, str]
    y: float = 52
    drawn: list[str] = field(default_factory=list[str])
    loops: list[float] = field(default_factory=list[float])

    @property
    def step(self) -> float:
        """How far the lines of two neighbours are apart."""
        return WIDTH / len(self.names)

    def at(self, name: str) -> float:
        """Return where the line of *name* is."""
        return self.step * (list(self.names).index(name) + 0.5)

    def text(self, text: str, middle: float, room: float, *, on: str = "#ffffff") -> None:
        """Write *text* around *middle* on the colour *on*, in as many lines as *room* takes."""
        for line in textwrap.wrap(text, max(10, int(room / LETTER))):
            self.y += LINE
            half = len(line) * LETTER / 2
            at = f'x="{middle - half:g}" y="{self.y - 12:g}" width="{2 * half:g}"'
            self.drawn += [
                f'<rect {at} height="{LINE}" fill="{on}"/>',
                f'<text x="{middle:g}" y="{self.y:g}" fill="{INK}">{escape(line)}</text>',
            ]

    def message(self, sender: str, receiver: str, text: str, *, dashed: bool) -> None:
        """Draw an arrow below its text."""
        begin, end = self.at(sender), self.at(receiver)
        self.text(text, (begin + end) / 2, abs(begin - end) - 8)
        self.y += 7
        gap, dashes = (3 if end > begin else -3), ' stroke-dasharray="5 4"' if dashed else ""
        self.drawn.append(
            f'<path d="M{begin:g} {self.y:g}H{end - gap:g}" stroke="{INK}" marker-end="url(#a)"'
            f"{dashes}/>"
        )
        self.y += 6

    def end_of(self, name: str, text: str) -> None:
        """Draw a cross on the line of *name*, and *text* below it."""
        x, y = self.at(name), self.y + 12
        self.drawn.append(
            f'<path d="M{x - 6:g} {y - 6:g}l12 12m0 -12l-12 12" stroke="#cf222e" stroke-width="3"/>'
        )
        self.y += 18
        self.text(text, x, self.step)
        self.y += 6

    def note(self, first: str, last: str, text: str) -> None:
        """Draw a box over the lines from *first* to *last*."""
        middle = (self.at(first) + self.at(last)) / 2
        width = abs(self.at(last) - self.at(first)) + self.step - 10
        top, at = self.y + 4, len(self.drawn)
        self.y += 6
        self.text(text, middle, width - 8, on=GROUND)
        self.y += 8
        box = f'x="{middle - width / 2:g}" y="{top:g}" width="{width:g}" height="{self.y - top:g}"'
        self.drawn.insert(at, f'<rect {box} rx="4" fill="{GROUND}" stroke="#d4a72c"/>')
        self.y += 6

    def loop(self, text: str) -> None:
        """Begin a frame with *text* at its top."""
        self.y += 8
        self.loops.append(self.y)
        self.text(text, WIDTH / 2, WIDTH - 20)
        self.y += 4

    def end(self) -> None:
        """End the frame that was begun last."""
        top = self.loops.pop()
        self.y += 4
        self.drawn.append(
            f'<rect x="6" y="{top:g}" width="{WIDTH - 12}" height="{self.y - top:g}" rx="4" '
            f'fill="none" stroke="{FAINT}" stroke-dasharray="3 3"/>'
        )
        self.y += 6

    def svg(self) -> str:
        """Return the picture."""
        height = round(self.y + 12)
        lines = [_HEAD.format(width=WIDTH, height=height, ink=INK)]
        for name, title in self.names.items():
            x, half = self.at(name), self.step / 2 - 5
            box = f'x="{x - half:g}" y="10" width="{2 * half:g}" height="30" rx="4"'
            at = f'x="{x:g}" y="30" fill="#ffffff" font-weight="600"'
            lines += [
                f'<path d="M{x:g} 40V{height - 8}" stroke="{FAINT}"/>',
                f'<rect {box} fill="#0f766e"/>',
                f"<text {at}>{escape(title)}</text>",
            ]
        return "\n".join([*lines, *self.drawn, "</svg>", ""])


def draw(source: str) -> str:
    """Return the picture of a sequence diagram."""
    lines = [line.strip() for line in source.splitlines()[1:]]
    told = (_PARTICIPANT.fullmatch(line) for line in lines)
    names = {str(found[1]): str(found[2]) for found in told if found}
    drawing = Drawing(names)
    for line in lines:
        if found := _MESSAGE.fullmatch(line):
            sender, dashes, head, receiver, text = found.groups()
            if head == "x":
                drawing.end_of(sender, text)
            else:
                drawing.message(sender, receiver, text, dashed=dashes == "--")
        elif found := _NOTE.fullmatch(line):
            drawing.note(found[1], found[2] or found[1], found[3])
        elif line.startswith("loop "):
            drawing.loop(line.removeprefix("loop "))
        elif line == "end":
            drawing.end()
        else:
            assert _PARTICIPANT.fullmatch(line), line
    return drawing.svg()


def main(words: Sequence[str] | None = None) -> int:
    """Write the pictures, or return 1 if one is another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(words)
    for source in sorted(PICTURES.glob("*.mmd")):
        picture, drawn = source.with_suffix(".svg"), draw(source.read_text(encoding="utf-8"))
        if given.check and picture.read_text(encoding="utf-8") != drawn:
            return 1
        if not given.check:
            picture.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
