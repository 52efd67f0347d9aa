#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/amax/amax.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {

TEST_CASE("the largest magnitude of every row, wherever it stands, and NaN passed over") {
  std::mt19937 rng(5);
  for_each_kernel<AmaxF32Fn>(Family::kAmaxF32, [&](const Kernel& k, AmaxF32Fn fn, AmaxF32Fn) {
    CAPTURE(std::string(k.name));
    for (const uint32_t n : {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 40u, 71u}) {
      CAPTURE(n);
      const uint32_t rows = n + 1, stride = n + 3;
      std::vector<float> x(rows * stride, 1e30f);
      for (uint32_t r = 0; r < rows; ++r) {
        fill_floats(rng, x.data() + r * stride, n, -1, 1);
        if (r < n) x[r * stride + r] = r % 2 == 0 ? -2.5f : 3.5f;
        if (r > 1 && r < n) x[r * stride] = std::numeric_limits<float>::quiet_NaN();
      }
      Guarded<float> y(rows, 4);
      fn({x.data(), y.data(), rows, n, stride});
      REQUIRE(y.intact(1, rows, 0));
      for (uint32_t r = 0; r < n; ++r) REQUIRE(y.data()[r] == (r % 2 == 0 ? 2.5f : 3.5f));
      float last = 0;
      for (uint32_t i = 0; i < n; ++i) last = std::fmax(last, std::fabs(x[n * stride + i]));
      REQUIRE(y.data()[n] == last);
    }
  });
}

}  // namespace lathe::kernels
