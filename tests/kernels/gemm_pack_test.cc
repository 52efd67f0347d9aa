// Run-time packing against the reference, and the reference against gemm's own packers.
#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/gemm_pack/gemm_pack.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kColumns[] = {1, 7, 8, 9, 15, 16, 17, 33};
const uint32_t kDepths[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 35};

// A matrix of `outer` runs of `inner` elements, `row` apart; transposed: the runs go along k.
struct MatrixShape {
  uint32_t k, n;
  bool transposed;
  uint32_t inner() const { return transposed ? k : n; }
  uint32_t outer() const { return transposed ? n : k; }
  uint32_t row() const { return inner() + 5; }
};

template <class F> void for_each_shape(const F& fn) {
  for (const uint32_t k : kDepths) {
    for (const uint32_t n : kColumns) {
      for (const bool transposed : {false, true}) {
        CAPTURE(k);
        CAPTURE(n);
        CAPTURE(transposed);
        fn(MatrixShape{k, n, transposed});
      }
    }
  }
}

}  // namespace

TEST_CASE("8-bit packing at run time gives gemm's panels and the folded bias, bit for bit") {
  std::mt19937 rng(7);
  for_each_kernel<GemmPackS8Fn>(Family::kGemmPackS8, [&](const Kernel& kernel, GemmPackS8Fn fn, GemmPackS8Fn) {
    CAPTURE(std::string(kernel.name));
    for_each_shape([&](const MatrixShape& s) {
      for (const uint32_t flip : {0u, 0x80u}) {
        Guarded<uint8_t> b(s.outer() * s.row() + 64, 3);
        fill_ints(rng, b.data(), b.size(), 0, 255);
        std::fill_n(b.data(), std::min<size_t>(b.size(), 9), static_cast<uint8_t>(flip == 0 ? 0x80 : 0));  // -128
        const uint32_t k_stride = s.transposed ? 1 : s.row(), n_stride = s.transposed ? s.row() : 1;
        std::vector<int8_t> weights;
        std::vector<int32_t> bias(round_up(s.n, 16), 0);
        for (uint32_t c = 0; c < s.n; ++c) {
          for (uint32_t k = 0; k < s.k; ++k) {
            weights.push_back(static_cast<int8_t>(b.data()[k * k_stride + c * n_stride] ^ flip));
            bias[c] += -255 * weights.back();
          }
        }
        std::vector<int8_t> packed(gemm_s8_packed_bytes(s.n, 1, s.k));
        gemm_s8_pack(weights.data(), s.n, 1, s.k, packed.data());

        Guarded<int8_t> got(packed.size());
        Guarded<int32_t> got_bias(bias.size());
        fn({b.data(), k_stride, n_stride, s.k, s.n, flip, -255, got.data(), got_bias.data()});
        REQUIRE(std::equal(packed.begin(), packed.end(), got.data()));
        REQUIRE(std::equal(bias.begin(), bias.end(), got_bias.data()));
        REQUIRE(got.intact(1, packed.size(), 0));
        REQUIRE(got_bias.intact(1, bias.size(), 0));
      }
    });
  });
}

TEST_CASE("float packing at run time gives gemm's panels, scaled") {
  std::mt19937 rng(8);
  for_each_kernel<GemmPackF32Fn>(Family::kGemmPackF32, [&](const Kernel& kernel, GemmPackF32Fn fn, GemmPackF32Fn) {
    CAPTURE(std::string(kernel.name));
    for_each_shape([&](const MatrixShape& s) {
      Guarded<float> b(s.outer() * s.row() + 16, 4);
      fill_floats(rng, b.data(), b.size(), -3, 3);
      const uint32_t k_stride = s.transposed ? 1 : s.row(), n_stride = s.transposed ? s.row() : 1;
      std::vector<float> weights;
      for (uint32_t c = 0; c < s.n; ++c)
        for (uint32_t k = 0; k < s.k; ++k) weights.push_back(b.data()[k * k_stride + c * n_stride] * 0.3f);
      std::vector<float> packed(gemm_f32_packed_elems(s.n, 1, s.k));
      gemm_f32_pack(weights.data(), s.n, 1, s.k, packed.data());

      Guarded<float> got(packed.size());
      fn({b.data(), k_stride, n_stride, s.k, s.n, 0.3f, got.data()});
      REQUIRE(std::equal(packed.begin(), packed.end(), got.data()));
      REQUIRE(got.intact(1, packed.size(), 0));
    });
  });
}

TEST_CASE("the reference packs a matrix with gaps in both directions") {
  const uint32_t k = 5, n = 19;
  std::vector<uint8_t> b(k * 3 + n * 16);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 37);
  std::vector<int8_t> weights, packed(gemm_s8_packed_bytes(n, 1, k)), got(packed.size());
  std::vector<int32_t> bias(32);
  for (uint32_t c = 0; c < n; ++c)
    for (uint32_t i = 0; i < k; ++i) weights.push_back(static_cast<int8_t>(b[i * 3 + c * 16]));
  gemm_s8_pack(weights.data(), n, 1, k, packed.data());
  const auto reference = reinterpret_cast<GemmPackS8Fn>(select(Family::kGemmPackS8, Storage::kS8, kIsaScalar)->fn);
  reference({b.data(), 3, 16, k, n, 0, 1, got.data(), bias.data()});
  CHECK(got == packed);
}

}  // namespace lathe::kernels
