// The transposed product against sums in double, at tile edges, with gaps between pixels, added to and overwritten.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/gemm_tn/gemm_tn.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kRows[] = {1, 5, 6, 7, 8, 9, 16, 17};
const uint32_t kColumns[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70};

}  // namespace

TEST_CASE("a transposed product is the sum over pixels, and two halves add up to the whole bit for bit") {
  std::mt19937 rng(3);
  for_each_kernel<GemmTnF32Fn>(Family::kGemmTnF32, [&](const Kernel& kernel, GemmTnF32Fn fn, GemmTnF32Fn) {
    CAPTURE(std::string(kernel.name));
    for (const uint32_t m : kRows) {
      for (const uint32_t n : kColumns) {
        CAPTURE(m);
        CAPTURE(n);
        const uint32_t rows = 4, cols = 3, a_col = m + 2, a_row = a_col * cols + 1, b_col = n + 3, b_row = 2 * b_col * cols,
                       y_step = n + 1;
        std::vector<float> a(rows * a_row + m), b(rows * b_row + n);
        fill_floats(rng, a.data(), a.size(), -1, 1);
        fill_floats(rng, b.data(), b.size(), -1, 1);
        GemmTnF32Args g{a.data(), b.data(), nullptr, rows, cols, a_row, a_col, b_row, b_col, m, n, y_step, 0};
        Guarded<float> whole(m * y_step, 4), halves(m * y_step, 4);
        g.y = whole.data();
        fn(g);
        REQUIRE(whole.intact(m, n, y_step));
        for (uint32_t r = 0; r < m; ++r) {
          for (uint32_t c = 0; c < n; ++c) {
            double sum = 0;
            for (uint32_t i = 0; i < rows; ++i)
              for (uint32_t j = 0; j < cols; ++j)
                sum += double{a[i * a_row + j * a_col + r]} * double{b[i * b_row + j * b_col + c]};
            REQUIRE(std::abs(sum - double{whole.data()[r * y_step + c]}) < 1e-5);
          }
        }
        g.y = halves.data();
        g.rows = rows / 2;
        fn(g);
        g.a += g.rows * a_row;
        g.b += g.rows * b_row;
        g.add = 1;
        fn(g);
        for (uint32_t r = 0; r < m; ++r)
          for (uint32_t c = 0; c < n; ++c) REQUIRE(halves.data()[r * y_step + c] == whole.data()[r * y_step + c]);
      }
    }
  });
}

}  // namespace lathe::kernels
