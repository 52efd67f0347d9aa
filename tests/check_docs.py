#!/usr/bin/env python3
"""Checks the documents against the tree: check_docs.py ROOT

Every file that a document in docs/ or the README names in backquotes exists. In docs/adding-an-op.md every indented line of code that follows a
paragraph ending in a file's name stands in that file: a worked example that has drifted from the code misleads.
"""
import pathlib
import re
import sys

FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:cc|h|def|inc|py|sh|toml|md|build))`")
QUOTED = ["docs/adding-an-op.md"]


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def missing_files(root, name, text):
    for path in FILE.findall(text):
        if not (root / path).is_file():
            yield f"{name}: there is no {path}"


def drifted_code(root, name, text):
    """Lines indented by four after a paragraph whose last file name is the source that they are quoted from."""
    source, checked = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("    "):
            if line.strip():
                files = FILE.findall(line)
                source = files[-1] if files else None
            continue
        if source is None or not (root / source).is_file():
            continue
        checked += 1
        lines = {squeeze(l) for l in (root / source).read_text(encoding="utf-8").splitlines()}
        if squeeze(line) not in lines:
            yield f"{name}:{number}: not in {source}: {line.strip()}"
    if checked == 0:
        yield f"{name}: quotes no code"


def main():
    root = pathlib.Path(sys.argv[1])
    found, count = [], 0
    for file in sorted([*(root / "docs").glob("*.md"), *root.glob("README.md")]):
        name, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        count += 1
        found += missing_files(root, name, text)
        if name in QUOTED:
            found += drifted_code(root, name, text)
    print("\n".join(found + [f"{count} documents, {len(found)} problems"]))
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
