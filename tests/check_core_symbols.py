#!/usr/bin/env python3
"""Checks that the freestanding core is freestanding.

    check_core_symbols.py NM ARCHIVE

Every symbol that the archive needs from outside must be one of mem* or a helper that compilers emit on their own; no object may hold
writable data, zeroed data or static constructors.
"""
import re
import subprocess
import sys

# libgcc and compiler-rt: integer and float arithmetic that a target lacks, and addresses in position-independent code.
HELPERS = re.compile(
    r"""mem(cpy|move|set|cmp)$
      | _GLOBAL_OFFSET_TABLE_$
      | __aeabi_\w+$
      | __gnu_(f2h|h2f)_ieee$
      | __(u|)(div|mod|divmod|mul|ashl|ashr|lshr|cmp)[sdt]i[234]$
      | __(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord)[sd]f[23]$
      | __(fix|fixuns|float|floatun|floatuns)[sdt][fi][sdt][fi]$
      | __(extend|trunc)[hsd]f[hsd]f2$
      | __(clz|ctz|popcount|bswap)[sd]i2$
      | __mulo[sd]i4$
    """, re.VERBOSE)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(nm, archive):
    """Names that members define, and for names that members need one member that does."""
    defined, needed, member = set(), {}, ''
    for line in run(nm, archive).splitlines():
        fields = line.split()
        if line.endswith(':'):
            member = line[:-1]
        elif len(fields) >= 2 and fields[-2] in 'Uw':
            needed.setdefault(fields[-1], member)
        elif len(fields) == 3:
            defined.add(fields[2])
    return defined, needed


def writable_sections(objdump, archive):
    """Sections with contents that start-up would have to copy, clear or call. Tables of addresses (.data.rel.ro) are constants."""
    pattern = r'^\s*\d+ (\.(?:data|bss|tdata|tbss|init_array|ctors)\S*)\s+([0-9a-f]+)'
    for name, length in re.findall(pattern, run(objdump, '-h', archive), re.MULTILINE):
        if int(length, 16) and not name.startswith('.data.rel.ro'):
            yield name, int(length, 16)


def main():
    nm, archive = sys.argv[1:]
    defined, needed = symbols(nm, archive)
    outside = sorted(n for n in needed if n not in defined and not HELPERS.match(n))
    for name in outside:
        print(f'{needed[name]} needs {name}')
    writable = list(writable_sections(re.sub(r'(gcc-)?nm$', 'objdump', nm), archive))
    for name, length in writable:
        print(f'section {name} of {length} bytes is writable or runs at start-up')
    print(f'{len(defined)} symbols defined, {len(needed.keys() - defined)} needed from outside, {len(outside)} of them not allowed')
    return 1 if outside or writable or not defined else 0


if __name__ == '__main__':
    sys.exit(main())
