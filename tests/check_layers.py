#!/usr/bin/env python3
"""Checks the tree of sources: check_layers.py ROOT

Include directions: a folder includes only what its row of LAYERS allows (docs/ARCHITECTURE.md gives the reasons). Smells: intrinsics or ISA
macros outside an ISA's file, heap-using headers in the freestanding core, getenv in places of its own, an op tested by name above the op
table, code switched off, vague file names, files that are too long. Before it looks at ROOT it plants every fault in a small tree of its own and
demands to see it: a check that cannot fail is worth nothing.
"""
import pathlib
import re
import sys
import tempfile

# Folder -> folders that it may include, besides itself; the longest folder that matches a file is its layer. None: everything.
HOST = {"include", "base", "runtime", "runtime/host"}
LAYERS = {
    "include": set(),
    "kernels": {"include"},
    "runtime": {"include", "kernels"},
    "runtime/host": {"include", "kernels", "runtime", "base"},
    "base": {"include"},
    "data": HOST,
    "graph": HOST,
    "quant": HOST | {"data", "graph"},
    "prune": HOST | {"data", "graph"},
    "train": HOST | {"data", "graph"},
    "serve": HOST | {"data"},
    "tools": None,
    "tests": None,
    "bench": None,
    "docs": None,
    "examples": None,
}
CORE = {"kernels", "runtime"}
CORE_HEADERS = {"stdint.h", "stddef.h"}

SOURCES = {".cc", ".h", ".inc", ".def"}
ISA_FILE = re.compile(r"kernels/\w+/(\w+_)?(x86_(avx2|avx512|avx512vnni)|arm_(neon|dotprod)|cortexm)(_\w+)?\.(cc|h)")
ISA_HEADER = re.compile(r"(\w*intrin|arm_neon|arm_acle|xsimd/.*)(\.h|\.hpp)?")
ISA_MACRO = re.compile(r"\b(__AVX\w*|__SSE\w*|__FMA__|__F16C__|__ARM_NEON\w*|__ARM_FEATURE\w*)")
GETENV_FILES = {"runtime/host/cpu.cc", "data/description.cc"}  # LATHE_ISA; ${VARIABLES} in paths of data sets
OP_TEST = re.compile(r"(==|!=|\bcase)\s*(lathe::)?Op::k|Op::k\w+\s*(==|!=)")
OP_BLIND = ("quant", "prune", "train", "serve", "tools")
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|managers?|misc)(_|$)")
MAX_LINES = 600

# Templates of generated sources have names like $NAME.h.
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([\w./+-]+)[">]', re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def layer_of(path):
    """The layer of a file, or None for one that is in no layer."""
    parts = path.split("/")[:-1]
    for n in range(len(parts), 0, -1):
        folder = "/".join(parts[:n])
        if folder in LAYERS:
            return folder
    return None


def target_of(root, path, name):
    """Path under `root` of what `name` includes, or None if that is no source of the project."""
    for folder in ("", "include/", path.rsplit("/", 1)[0] + "/") + (("tests/",) if layer_of(path) in ("tests", "bench") else ()):
        if (root / (folder + name)).is_file():
            return folder + name
    return None


def include_problems(root, path, text):
    layer = layer_of(path)
    for quote, name in INCLUDE.findall(text):
        target = target_of(root, path, name)
        if target is None:
            # *_generated.h is flatc's and lies in the build directory, as do the models that examples embed.
            if quote == '"' and not name.endswith("_generated.h") and layer != "examples":
                yield f'includes "{name}", which is no file of the project'
            if ISA_HEADER.fullmatch(name):
                if layer not in ("tests", "bench") and not ISA_FILE.fullmatch(path):
                    yield f"includes <{name}> outside an ISA's file"
            elif layer in CORE and quote == "<" and name not in CORE_HEADERS:
                yield f"is freestanding, but includes <{name}>"
            continue
        to = layer_of(target)
        allowed = LAYERS[layer]
        if allowed is not None and to != layer and to not in allowed:
            yield f"is in {layer}/, which may not include {to}/: {name}"


def smell_problems(path, text):
    layer = layer_of(path)
    code = COMMENT.sub("", text)
    if layer not in ("tests", "bench"):
        if "getenv" in code and path not in GETENV_FILES:
            yield "calls getenv; the environment is read in " + ", ".join(sorted(GETENV_FILES))
        if ISA_MACRO.search(code) and not ISA_FILE.fullmatch(path):
            yield f"tests {ISA_MACRO.search(code).group(1)} outside an ISA's file"
    if layer in OP_BLIND and OP_TEST.search(code):
        yield f"tests an op by name ({OP_TEST.search(code).group(0)}); that belongs in the op table"
    if re.search(r"^\s*#\s*if\s+0\b", code, re.M):
        yield "has code switched off by #if 0"
    if VAGUE.search(pathlib.PurePosixPath(path).stem):
        yield "has a name that says nothing"
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"has {lines} lines, at most {MAX_LINES} are allowed"


def tree_problems(root):
    """(number of files, problems) of all sources under `root`."""
    count, found = 0, []
    for top in sorted({folder.split("/")[0] for folder in LAYERS}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            count += 1
            path = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8")
            found += [f"{path}: {p}" for p in (*include_problems(root, path, text), *smell_problems(path, text))]
    return count, found


# A tree without a fault: one header for each layer, and what it may do.
CLEAN = {
    "include/lathe/a.h": "#include <memory>\n",
    "kernels/a.h": '#include <stdint.h>\n#include "lathe/a.h"\n',
    "kernels/gemm/x86_avx2.cc": '#include <immintrin.h>\n#include "kernels/a.h"\n#ifdef __AVX2__\n#endif\n',
    "kernels/gemm/requantize_x86_avx512.h": "#include <immintrin.h>\n",
    "runtime/a.h": '#include "kernels/a.h"\n',
    "runtime/host/a.h": '#include <vector>\n#include "base/a.h"\n#include "runtime/a.h"\n',
    "runtime/host/cpu.cc": "// getenv once\nconst char* s = getenv(\"LATHE_ISA\");\n",
    "base/a.h": "#include <string>\n",
    "data/a.h": '#include "runtime/host/a.h"\n',
    "graph/a.h": '#include "base/a.h"\n#include "x_generated.h"\nbool b = op == Op::kAdd;\n',
    "quant/a.h": '#include "graph/a.h"\n#include "data/a.h"\n// op == Op::kAdd is not asked here\nauto op = Op::kQuantize;\n',
    "tools/a.cc": '#include "quant/a.h"\n#include <immintrin_like.h>\n',
    "tests/a.cc": '#include "quant/a.h"\nauto s = getenv("X");\n',
}

# (file, text appended to it, what must be reported)
FAULTS = [
    ("include/lathe/a.h", '#include "kernels/a.h"\n', "include/, which may not include kernels/"),
    ("kernels/a.h", '#include "runtime/a.h"\n', "kernels/, which may not include runtime/"),
    ("kernels/a.h", "#include <vector>\n", "is freestanding, but includes <vector>"),
    ("kernels/a.h", "#include <immintrin.h>\n", "outside an ISA's file"),
    ("kernels/a.h", "#ifdef __AVX512F__\n#endif\n", "tests __AVX512F__ outside an ISA's file"),
    ("kernels/gemm/x86_avx2.cc", "#include <algorithm>\n", "is freestanding, but includes <algorithm>"),
    ("runtime/a.h", '#include "runtime/host/a.h"\n', "runtime/, which may not include runtime/host/"),
    ("runtime/a.h", '#include "base/a.h"\n', "runtime/, which may not include base/"),
    ("runtime/a.h", "#include <string>\n", "is freestanding, but includes <string>"),
    ("runtime/host/a.h", '#include "graph/a.h"\n', "runtime/host/, which may not include graph/"),
    ("base/a.h", '#include "runtime/a.h"\n', "base/, which may not include runtime/"),
    ("data/a.h", '#include "graph/a.h"\n', "data/, which may not include graph/"),
    ("data/a.h", '#include "kernels/a.h"\n', "data/, which may not include kernels/"),
    ("graph/a.h", '#include "data/a.h"\n', "graph/, which may not include data/"),
    ("graph/a.h", '#include "quant/a.h"\n', "graph/, which may not include quant/"),
    ("graph/a.h", '#include "gone.h"\n', "no file of the project"),
    ("quant/a.h", '#include "tools/a.cc"\n', "quant/, which may not include tools/"),
    ("quant/a.h", "bool b = op == Op::kAdd;\n", "tests an op by name"),
    ("quant/a.h", "switch (op) { case Op::kAdd: break; }\n", "tests an op by name"),
    ("quant/a.h", 'auto s = getenv("X");\n', "calls getenv"),
    ("base/a.h", "#if 0\n#endif\n", "switched off"),
    ("base/string_utils.h", "\n", "name that says nothing"),
    ("base/a.h", "\n" * 600, "has 601 lines"),
]


def planted(path=None, text=""):
    """Problems of the clean tree with `text` appended to `path`."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, content in CLEAN.items() | ({(path, "")} if path and path not in CLEAN else set()):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content + (text if name == path else ""))
        return tree_problems(root)[1]


def self_test():
    """Faults that this script does not see, and false alarms."""
    failures = [f"false alarm: {p}" for p in planted()]
    for path, text, expected in FAULTS:
        found = planted(path, text)
        if len(found) != 1 or not found[0].startswith(path) or expected not in found[0]:
            failures.append(f"planted '{text.strip()[:60]}' in {path}, expected '{expected}', found {found}")
    return failures


def main():
    broken = self_test()
    if broken:
        print("\n".join(broken))
        return 1
    root = pathlib.Path(sys.argv[1])
    count, found = tree_problems(root)
    print("\n".join(found + [f"{count} files, {len(found)} problems; {len(FAULTS)} planted faults were seen"]))
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
