// Copies and transposes of every element size, at tile edges, with strides.
#include <doctest/doctest.h>

#include "kernels/layout/layout.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {

TEST_CASE("transposes move every element and nothing else") {
  const uint32_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 34, 65, 70};
  for_each_kernel<TransposeFn>(Family::kTranspose, [&](const Kernel& k, TransposeFn fn, TransposeFn) {
    CAPTURE(std::string(k.name));
    for (const uint32_t bytes : {1u, 2u, 4u, 8u}) {
      for (const uint32_t rows : sizes) {
        for (const uint32_t cols : sizes) {
          // Dense and spread rows of y: dense ones have ways of their own.
          const uint32_t gap = rows == 3 ? cols % 2 : 2;
          const uint32_t x_row = (cols + 3) * bytes, y_row = (rows + gap) * bytes;
          std::vector<uint8_t> x(1 + rows * x_row);
          std::mt19937 rng(rows * 100 + cols);
          fill_ints(rng, x.data(), x.size(), 0, 255);
          Guarded<uint8_t> y(cols * y_row, 1);
          fn({x.data() + 1, y.data(), rows, cols, static_cast<int32_t>(x_row), static_cast<int32_t>(y_row), bytes});
          REQUIRE(y.intact(cols, rows * bytes, y_row));
          bool equal = true;
          for (uint32_t r = 0; r < rows; ++r) {
            for (uint32_t c = 0; c < cols; ++c)
              equal = equal && std::memcmp(y.data() + c * y_row + r * bytes, x.data() + 1 + r * x_row + c * bytes, bytes) == 0;
          }
          REQUIRE(equal);
        }
      }
    }
  });
}

TEST_CASE("copies follow row and element strides, backwards too") {
  for_each_kernel<CopyFn>(Family::kCopy, [&](const Kernel& k, CopyFn fn, CopyFn) {
    CAPTURE(std::string(k.name));
    for (const int32_t bytes : {1, 2, 4, 8}) {
      for (const int32_t n : {1, 2, 4, 5, 8, 16, 33, 64}) {
        for (const int32_t step : {1, 2, 3, -1, -2}) {
          constexpr int32_t kRows = 3;
          const int32_t span = n * (step < 0 ? -step : step) * bytes, x_row = step == 3 ? -span : span + 2, y_row = n * bytes + 1;
          std::vector<uint8_t> x(static_cast<size_t>(kRows * (span + 2)));
          std::mt19937 rng(static_cast<uint32_t>(n));
          fill_ints(rng, x.data(), x.size(), 0, 255);
          const uint8_t* first = x.data() + (x_row < 0 ? (kRows - 1) * span : 0) + (step < 0 ? (n - 1) * -step * bytes : 0);
          Guarded<uint8_t> y(static_cast<size_t>(kRows * y_row), 1);
          fn({first, y.data(), kRows, static_cast<uint32_t>(n), x_row, y_row, step * bytes, static_cast<uint32_t>(bytes)});
          REQUIRE(y.intact(kRows, static_cast<size_t>(n * bytes), static_cast<size_t>(y_row)));
          for (int32_t r = 0; r < kRows; ++r) {
            for (int32_t i = 0; i < n; ++i) {
              REQUIRE(std::memcmp(y.data() + r * y_row + i * bytes, first + r * x_row + i * step * bytes,
                                  static_cast<size_t>(bytes)) == 0);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("fill repeats the low bytes of a value") {
  for (const uint32_t bytes : {1u, 2u, 4u, 8u}) {
    Guarded<uint8_t> y(5 * bytes, 1);
    fill(y.data(), 5, bytes, 0x8877665544332211u);
    CHECK(y.intact(1, 5 * bytes, 0));
    for (uint32_t i = 0; i < 5 * bytes; ++i) CHECK(y.data()[i] == 0x11 * (i % bytes + 1));
  }
}

}  // namespace lathe::kernels
