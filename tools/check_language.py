"""Check that code and docs are in plain English: short sentences, the field's words, 100 columns.

    python tools/check_language.py          # every text of the project
    python tools/check_language.py FILE...  # these only

The rules: a sentence has at most 25 words. A line has at most 100 columns, unless it is code in a
page, a table row or a link that cannot be wrapped. Nobody outside this project knows its private
words, so they are not used. Neither are constructions that have to be read twice.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
WORDS = 25

CONSTRUCTIONS = {
    r"\b[Ww]ho(?:m)?ever\b": "name the person or thing in place of 'whoever'",
    r"\b[Aa]s whom\b": "reword 'as whom'",
    r"\buntil when\b": "say 'the deadline' or 'the time until'",
    r"\bfor how long it may\b": "say 'how long it may'",
    r"^(?:Have|Let) (?:the |a |an |it |them |\*)": "use the verb itself: 'do X', not 'have X done'",
    r"^(?:What|Who) [a-z ]{8,60} (?:is|are|was|has|gets|goes) (?!it\b|they\b|you\b|the\b|this\b)"
    r"[^?]*$": "a clause is the subject: name the thing",
}
PRIVATE = {
    "strays": "late grants",
    "debts": "cleanup",
    "heir": "successor",
    "courier": "batch connection",
    "keeper": "renewer",
    "lookout": "Sentinel monitor",
    "farewell": "releases on close",
    "hasten": "renew_now",
    "orphaned": "abandoned",
    "sitting out": "remote window",
    "retire_number": "a number per hold",
    "poke": "wake",
}
_PRIVATE = re.compile(r"\b(" + "|".join(re.escape(word) for word in PRIVATE) + r")s?\b")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z*`\"(])")


class Finding(NamedTuple):
    """One thing to put in plain words."""

    path: str
    line: int
    text: str


class Prose(NamedTuple):
    """A paragraph and the line where it begins."""

    line: int
    text: str


def files() -> list[str]:
    """Return the texts that people read, relative to the root; a copy without git has the same."""
    roots = ("src", "tests", "docs", "benchmarks", "faultlab", "tools", "examples")
    found = [path for root in roots for path in (ROOT / root).rglob("*")]
    found += ROOT.iterdir()
    return sorted(
        path.relative_to(ROOT).as_posix()
        for path in found
        if path.suffix in (".py", ".md", ".lua", ".c") and path.is_file()
    )


def prose(path: str, text: str) -> Iterator[Prose]:
    """Yield the paragraphs of *text* that are English."""
    if path.endswith(".py"):
        yield from _python_prose(text)
    elif path.endswith(".md"):
        yield from _markdown_prose(text)
    else:
        marker = "--" if path.endswith(".lua") else "*"
        lines = [
            (number, line.strip()[len(marker) :].strip())
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip().startswith(marker)
            and "  " not in line.strip()[4:]
            and not line.endswith(";")  # C that stores through a pointer
        ]
        yield from _paragraphs(lines)


def _python_prose(text: str) -> Iterator[Prose]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and (doc := ast.get_docstring(node, clean=True)):
            first = node.body[0].lineno
            lines = [(first + n, line.strip()) for n, line in enumerate(doc.splitlines())]
            yield from _paragraphs(_without_code(lines))
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(
            ("#!", "# type", "# noqa")
        ):
            comment = re.sub(r"\s+# (noqa|type:|pyright:|fmt:).*", "", token.string)
            if comments and token.start[0] > comments[-1][0] + 1:
                comments.append((token.start[0], ""))
            comments.append((token.start[0], comment.lstrip("# ").strip()))
    yield from _paragraphs(comments)


def _markdown_prose(text: str) -> Iterator[Prose]:
    yield from _paragraphs(_without_code(list(enumerate(text.splitlines(), 1))))


def _without_code(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return *lines* with fenced code, tables, headings and targets of links blanked out."""
    fenced, kept = False, list[tuple[int, str]]()
    for number, line in lines:
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        drop = fenced or bare.startswith(("```", "|", "#", "<", ">>>", "...", "![", "[!"))
        drop = drop or re.match(r"\[[^\]]+\]: https?:", bare) is not None
        kept.append((number, "" if drop else line))
    return kept


def _paragraphs(lines: list[tuple[int, str]]) -> Iterator[Prose]:
    start, gathered = 0, list[str]()
    for number, line in [*lines, (0, "")]:
        bare = line.strip()
        item = re.match(
            r"(?:[*\-+]|\d+\.)\s+|[a-z_*]+: (?=[a-z])|(?:Args|Raises|Returns|Cost):$", bare
        )
        if gathered and (not bare or item):
            yield Prose(start, " ".join(gathered))
            gathered = []
        if bare:
            if not gathered:
                start = number
            gathered.append(bare[item.end() :] if item else bare)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; code in backquotes counts as one word."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "Code", text)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    yield from _SENTENCE_END.split(plain)


def check(path: str) -> Iterator[Finding]:
    """Yield what *path* says in a way that is hard to read."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= path.endswith(".md") and line.lstrip().startswith("```")
        unbreakable = (
            fenced or line.lstrip().startswith("|") or " " not in line.strip() or "http" in line
        )
        if len(line) > COLUMNS and not unbreakable:
            yield Finding(path, number, f"{len(line)} columns")
    for paragraph in prose(path, text):
        for sentence in sentences(paragraph.text):
            count = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
            if count > WORDS:
                yield Finding(path, paragraph.line, f"{count} words: {sentence[:70]}...")
            for pattern, advice in CONSTRUCTIONS.items():
                if re.search(pattern, sentence):
                    yield Finding(path, paragraph.line, f"{advice}: {sentence[:70]}")
            if path.startswith(("src/", "docs/")):
                for word in _PRIVATE.findall(sentence.lower()):
                    yield Finding(path, paragraph.line, f"{word!r}: say {PRIVATE[word]!r}")


def main() -> int:
    """Print what is hard to read; return 1 if there is something."""
    parser = argparse.ArgumentParser(description="Check that code and docs are in plain English.")
    parser.add_argument("file", nargs="*", help="relative to the root; default: all")
    chosen = parser.parse_args().file or files()
    found = sorted(finding for path in chosen for finding in check(path))
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.text}")
    print(f"plain English: {len(found)} findings in {len(chosen)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
