"""What mkdocs does to each page: programs for threads get tabs with the same for asyncio and trio.

A program qualifies if it stands alone, and opens one client in a ``with`` statement or closes it at
its end. Its functions become coroutine functions. Its other faces are made from it, so no page can
forget one. A program for asyncio gets a tab for trio, if it asks nothing of asyncio that trio does
not have by the same name. The tests run them all.
"""

from __future__ import annotations

import ast
import functools
import re
import runpy
import textwrap
from pathlib import Path

FACES = Path(__file__).resolve().parent.parent / "src" / "interlock" / "asyncio"
FENCE = re.compile(
    r"^```python\n((?:# [^\n]*\n)?(?:import|from) .*?)^```$", re.MULTILINE | re.DOTALL
)
NOT_SIMPLE = re.compile(
    r"^\s*(?:async |@(?!client\.))|thread|asyncio[^:]|subprocess|next\(|redis\.Redis|gevent",
    re.MULTILINE,
)
NOT_OURS = ("open(", "contextlib.closing(")
"""What a ``with`` statement enters that is the same for tasks."""
CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[\w)*])(?=[(.{])|(?<=[_/:,])(?=\w)")
"""Where a long name may go on in the next line."""
CHANGELOG_MARK = "<!-- CHANGELOG.md -->"
COMMANDS_MARK = "<!-- COMMANDS -->"
OPENS = re.compile(r"^with interlock\.connect\(|enter_context\(interlock\.connect\(", re.MULTILINE)
FOR_TASKS = re.compile(r"^asyncio\.run\(main\(\)\)\n\Z", re.MULTILINE)
SAME_IN_TRIO = re.compile(r"interlock\.asyncio|import asyncio|asyncio\.(?:run|sleep)\(")
CLOSES = re.compile(
    r"^client = (interlock\.connect\([^\n]*\))\n(.*)^client\.close\(\)\n", re.MULTILINE | re.DOTALL
)


@functools.cache
def awaited_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the methods of the asyncio face that are awaited, and those that are iterated over."""
    awaited, iterated = set[str](), set[str]()
    for path in FACES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_"):
                many = any(isinstance(inside, ast.Yield) for inside in ast.walk(node))
                (iterated if many else awaited).add(node.name)
    return frozenset(awaited | {"wait"}), frozenset(iterated)


def qualifies(block: str, library: str = "asyncio") -> bool:
    """Return whether a program for *library* can be made from the program *block*."""
    code = re.sub(r"#.*", "", _in_a_block(block))
    if FOR_TASKS.search(code):
        return library == "trio" and "asyncio" not in SAME_IN_TRIO.sub("", code)
    return OPENS.search(code) is not None and not NOT_SIMPLE.search(code)


def _in_a_block(block: str) -> str:
    """Return *block* with a ``with`` statement, if it closes its client at its end."""

    def opened(found: re.Match[str]) -> str:
        body = textwrap.indent(found[2].strip("\n"), "    ").replace("\n\n\n", "\n\n")
        return f"with {found[1]} as client:\n{body}\n"

    return CLOSES.sub(opened, block)


def face(block: str, library: str) -> str:
    """Return the program *block* for *library*: asyncio or trio."""
    if FOR_TASKS.search(block):
        return _for_trio(block)
    imports, before, lines = _parted(_awaiting(_in_a_block(block)))
    body = "\n".join(lines)
    body = body.replace("interlock.connect(", f"interlock.{library}.connect(")
    body = body.replace("\n\n\n", "\n\n").replace("this thread", "this task")
    body = re.sub(r"\binterlock\.(Hold|RedLock)\b", r"interlock.asyncio.\1", body)
    body = body.replace("time.sleep(", f"await {library}.sleep(")
    body = body.replace("contextlib.ExitStack(", "contextlib.AsyncExitStack(")
    body = body.replace("stack.enter_context(", "await stack.enter_async_context(")
    title = [line for line in imports if line.startswith("#")]
    named = [line for line in imports if line not in ("import interlock", "import time", *title)]
    ours = [line for line in named if "interlock" in line]
    first = [line for line in named if line not in ours]
    first = sorted([*first, f"import {library}"], key=lambda line: line.split()[1])
    program = "\n".join([*title, *first, "", f"import interlock.{library}", *ours, *before])
    program += "\n\n\nasync def main() -> None:\n"
    program += textwrap.indent(body.strip("\n"), "    ")
    return program + f"\n\n\n{library}.run(main{'()' if library == 'asyncio' else ''})\n"


def _for_trio(block: str) -> str:
    """Return the program *block* for trio, which is one for asyncio."""
    program = block.replace("asyncio.run(main())", "trio.run(main)")
    return re.sub(r"\basyncio\b", "trio", program)


def _parted(block: str) -> tuple[list[str], list[str], list[str]]:
    """Return the title and imports of *block*, what stands before its last class, and the rest."""
    lines = block.splitlines()
    end = next(
        number
        for number, line in enumerate(lines)
        if line and not line.startswith(("import ", "from ", "# "))
    )
    classes = [node for node in ast.parse(block).body if isinstance(node, ast.ClassDef)]
    begin = max([end, *(node.end_lineno or 0 for node in classes)])
    imports = [line for line in lines[:end] if line]
    before = lines[len("\n".join(lines[:end]).rstrip("\n").splitlines()) : begin]
    return imports, before if classes else [], lines[begin:]


def _awaiting(block: str) -> str:
    """Return *block* with the words ``async`` and ``await`` where tasks need them."""
    awaited, iterated = awaited_names()
    tree = ast.parse(block)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    items = [node for node in ast.walk(tree) if isinstance(node, ast.withitem)]
    entered = {ast.unparse(item.optional_vars) for item in items if item.optional_vars}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {inside for node in classes for inside in ast.walk(node)}
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node not in methods
    ]
    own = {node.name for node in functions}
    inserted = [(node.lineno, node.col_offset, "async ") for node in functions]
    # Others call methods, and do not wait.
    for node in (each for each in ast.walk(tree) if each not in methods):
        parent = parents.get(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in own:
            inserted.append((node.lineno, node.col_offset, "await "))
        if isinstance(node, ast.With) and not ast.unparse(node.items[0]).startswith(NOT_OURS):
            inserted.append((node.lineno, node.col_offset, "async "))
        if isinstance(node, ast.For) and ast.unparse(node.iter) in entered:
            inserted.append((node.lineno, node.col_offset, "async "))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in iterated and isinstance(parent, ast.For):
            inserted.append((parent.lineno, parent.col_offset, "async "))
        # A decorator may be called like a method that is awaited.
        decorates = isinstance(parent, ast.FunctionDef) and node in parent.decorator_list
        if node.func.attr in awaited and not (decorates or isinstance(parent, ast.withitem)):
            inside = isinstance(parent, ast.Attribute | ast.Subscript)
            inserted.append((node.lineno, node.col_offset, "(await " if inside else "await "))
            if inside:
                assert node.end_lineno is not None
                assert node.end_col_offset is not None
                inserted.append((node.end_lineno, node.end_col_offset, ")"))
    lines = block.splitlines()
    for line, column, text in sorted(inserted, reverse=True):
        whole = lines[line - 1]
        lines[line - 1] = whole[:column] + text + whole[column:]
    return "\n".join(lines) + "\n"


def tabs(found: re.Match[str]) -> str:
    """Return the block *found* of a page, as one tab for each library that it can be made for."""
    block = found[1]
    if not qualifies(block, "trio"):
        return found[0]
    if qualifies(block):
        programs = {"Threads": block, "asyncio": face(block, "asyncio")}
    else:
        programs = {"asyncio": block}
    programs["trio"] = face(block, "trio")
    return "\n".join(
        f'=== "{title}"\n\n' + textwrap.indent(f"```python\n{program}```\n", "    ")
        for title, program in programs.items()
    )


def with_changelog(markdown: str) -> str:
    """Return the page with the text of ``CHANGELOG.md`` in place of its mark."""
    if CHANGELOG_MARK not in markdown:
        return markdown
    text = (FACES.parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    return markdown.replace(CHANGELOG_MARK, text[text.index("\n## ") + 1 :])


def with_commands(markdown: str) -> str:
    """Return the page with the options of every command in place of their mark."""
    if COMMANDS_MARK not in markdown:
        return markdown
    commands = runpy.run_path(str(Path(__file__).with_name("commands.py")))
    return markdown.replace(COMMANDS_MARK, commands["sections"]())


def with_joints(found: re.Match[str]) -> str:
    """Return the cell *found* of a table with places where a narrow window may wrap its code."""

    def wrapped(code: re.Match[str]) -> str:
        parts = re.split(r"(<[^>]*>|&\w+;|&#\d+;)", code[0].replace(r"\|", "|"))
        return "".join(
            each if odd % 2 else JOINT.sub("<wbr>", each) for odd, each in enumerate(parts)
        )

    return CODE.sub(wrapped, found[0])


def on_post_page(output: str, **_: object) -> str:
    """Return the finished page, whose tables fit a telephone; mkdocs calls this."""
    return CELL.sub(with_joints, output)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page with tabs, the changelog and the commands; mkdocs calls this."""
    return FENCE.sub(tabs, with_commands(with_changelog(markdown)))
