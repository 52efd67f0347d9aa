#!/usr/bin/env python3
"""Checks the archives of instruction sets: check_isa_symbols.py NM ARCHIVE...

A weak symbol (an inline function, a template) that is compiled with an ISA's flags may be the one that the linker keeps for the whole
program, which then crashes on older CPUs. So an ISA's archive has no weak symbol, and every strong one carries the ISA's name, which
the archive's name ends with: libkernels_<isa>.a.
"""
import pathlib
import subprocess
import sys

WEAK = "uvwVW"


def problems(nm, archive):
    isa = pathlib.Path(archive).stem.split("kernels_", 1)[1]
    listing = subprocess.run([nm, "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    strong = 0
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) != 3:
            continue
        _, kind, name = fields
        if kind in WEAK:
            yield f"{archive}: weak symbol {name}"
        elif kind.isupper():
            strong += 1
            if "_" + isa not in name:
                yield f"{archive}: symbol {name} does not carry '_{isa}'"
    if strong == 0:
        yield f"{archive}: no symbol at all"


def main():
    nm, archives = sys.argv[1], sys.argv[2:]
    found = [p for a in archives for p in problems(nm, a)]
    for p in found:
        print(p)
    print(f"{len(archives)} archives, {len(found)} problems")
    return 1 if found or not archives else 0


if __name__ == "__main__":
    sys.exit(main())
