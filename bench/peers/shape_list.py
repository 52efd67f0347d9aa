"""The shapes of bench/kernels/shapes.inc, for Python."""
import pathlib
import re

LIST = pathlib.Path(__file__).resolve().parent.parent / "kernels" / "shapes.inc"


def shapes(macro):
    """Rows of numbers, such as (m, n, k) for LATHE_BENCH_GEMM."""
    return [tuple(map(int, row.split(","))) for row in re.findall(rf"^{macro}\(([\d, ]+)\)", LIST.read_text(), re.M)]
