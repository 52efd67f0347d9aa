// Kernels of batch normalization against sums in double, at every number of channels and with few and many rows.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kChannels[] = {1, 3, 7, 8, 9, 16, 17, 31, 64, 70};
const uint32_t kRows[] = {1, 3, 4, 5, 37};

struct Data {
  uint32_t rows, c;
  std::vector<float> x, dy, mean, factor, bias, slope, offset;
  NormalizeClamp clamp;
  double at(const std::vector<float>& v, uint32_t r, uint32_t k) const { return double{v[size_t{r} * c + k]}; }
  double apart(uint32_t r, uint32_t k) const { return at(x, r, k) - double{mean[k]}; }
  double normal(uint32_t r, uint32_t k) const { return apart(r, k) * double{factor[k]} + double{bias[k]}; }
  double through(uint32_t r, uint32_t k) const {
    const double n = normal(r, k);
    return clamp.clamps == 0 || (n > double{clamp.lo} && n < double{clamp.hi}) ? at(dy, r, k) : 0.0;
  }
  // No n stands where rounding decides on which side of the clamp it is.
  bool decided() const {
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t k = 0; k < c; ++k)
        if (std::min(std::abs(normal(r, k) - double{clamp.lo}), std::abs(normal(r, k) - double{clamp.hi})) < 1e-5) return false;
    return true;
  }
};

Data random_data(std::mt19937& rng, uint32_t rows, uint32_t c, bool clamps) {
  Data d{rows,
         c,
         std::vector<float>(rows * c),
         std::vector<float>(rows * c),
         std::vector<float>(c),
         std::vector<float>(c),
         std::vector<float>(c),
         std::vector<float>(c),
         std::vector<float>(c),
         {}};
  for (std::vector<float>* v : {&d.x, &d.dy, &d.mean, &d.factor, &d.bias, &d.slope, &d.offset})
    fill_floats(rng, v->data(), v->size(), -2, 2);
  d.clamp = clamps ? NormalizeClamp{0.0f, 3.0f, 1} : NormalizeClamp{-HUGE_VALF, HUGE_VALF, 0};
  return d;
}

template <class F>
void for_each_data(uint32_t seed, const F& fn) {
  std::mt19937 rng(seed);
  for (const uint32_t c : kChannels) {
    for (const uint32_t rows : kRows) {
      for (const bool clamps : {false, true}) {
        Data d = random_data(rng, rows, c, clamps);
        while (!d.decided()) d = random_data(rng, rows, c, clamps);
        CAPTURE(c);
        CAPTURE(rows);
        CAPTURE(clamps);
        fn(d);
      }
    }
  }
}

bool near(double a, float b) { return std::abs(a - double{b}) < 2e-4; }

}  // namespace

TEST_CASE("channel sums are sums and squares around the block's mean, far from zero too") {
  for_each_kernel<ChannelSumsF32Fn>(Family::kChannelSumsF32, [&](const Kernel& kernel, ChannelSumsF32Fn fn, ChannelSumsF32Fn) {
    CAPTURE(std::string(kernel.name));
    for_each_data(1, [&](Data& d) {
      for (float& v : d.x) v += 50;
      Guarded<float> sum(d.c, 4), squares(d.c, 8);
      fn({d.x.data(), d.rows, d.c, sum.data(), squares.data()});
      for (uint32_t k = 0; k < d.c; ++k) {
        double expected = 0, around = 0;
        for (uint32_t r = 0; r < d.rows; ++r) expected += d.at(d.x, r, k);
        for (uint32_t r = 0; r < d.rows; ++r) around += std::pow(d.at(d.x, r, k) - expected / d.rows, 2);
        REQUIRE(std::abs(expected - double{sum.data()[k]}) < 1e-2);
        REQUIRE(std::abs(around - double{squares.data()[k]}) < 1e-3);
      }
      REQUIRE(sum.intact(1, d.c, 0));
      REQUIRE(squares.intact(1, d.c, 0));
    });
  });
}

TEST_CASE("normalizing is the formula, clamped, and a NaN stays one") {
  for_each_kernel<NormalizeF32Fn>(Family::kNormalizeF32, [&](const Kernel& kernel, NormalizeF32Fn fn, NormalizeF32Fn) {
    CAPTURE(std::string(kernel.name));
    for_each_data(2, [&](Data& d) {
      Guarded<float> y(d.x.size(), 4);
      fn({d.x.data(), d.mean.data(), d.factor.data(), d.bias.data(), y.data(), d.rows, d.c, d.clamp});
      for (uint32_t r = 0; r < d.rows; ++r)
        for (uint32_t k = 0; k < d.c; ++k)
          REQUIRE(near(std::min(std::max(d.normal(r, k), double{d.clamp.lo}), double{d.clamp.hi}), y.data()[r * d.c + k]));
      REQUIRE(y.intact(1, d.x.size(), 0));
      d.x[0] = std::nanf("");
      fn({d.x.data(), d.mean.data(), d.factor.data(), d.bias.data(), y.data(), d.rows, d.c, d.clamp});
      REQUIRE(std::isnan(y.data()[0]));
    });
  });
}

TEST_CASE("sums of gradients pass through the clamp, and so does the gradient, in place") {
  for_each_kernel<NormalizeSumsF32Fn>(Family::kNormalizeSumsF32,
                                      [&](const Kernel& kernel, NormalizeSumsF32Fn fn, NormalizeSumsF32Fn) {
                                        CAPTURE(std::string(kernel.name));
                                        for_each_data(3, [&](Data& d) {
                                          Guarded<float> sum(d.c, 4), product(d.c, 8);
                                          fn({d.x.data(), d.dy.data(), d.mean.data(), d.factor.data(), d.bias.data(), d.rows, d.c,
                                              d.clamp, sum.data(), product.data()});
                                          for (uint32_t k = 0; k < d.c; ++k) {
                                            double expected = 0, times = 0;
                                            for (uint32_t r = 0; r < d.rows; ++r)
                                              expected += d.through(r, k), times += d.through(r, k) * d.apart(r, k);
                                            REQUIRE(near(expected, sum.data()[k]));
                                            REQUIRE(near(times, product.data()[k]));
                                          }
                                          REQUIRE(sum.intact(1, d.c, 0));
                                          REQUIRE(product.intact(1, d.c, 0));
                                        });
                                      });
  for_each_kernel<NormalizeGradF32Fn>(
      Family::kNormalizeGradF32, [&](const Kernel& kernel, NormalizeGradF32Fn fn, NormalizeGradF32Fn) {
        CAPTURE(std::string(kernel.name));
        for_each_data(4, [&](Data& d) {
          Guarded<float> dx(d.x.size(), 4);
          std::copy(d.dy.begin(), d.dy.end(), dx.data());
          fn({d.x.data(), dx.data(), d.mean.data(), d.factor.data(), d.bias.data(), d.slope.data(), d.offset.data(), dx.data(),
              d.rows, d.c, d.clamp});
          for (uint32_t r = 0; r < d.rows; ++r)
            for (uint32_t k = 0; k < d.c; ++k)
              REQUIRE(near(double{d.factor[k]} * d.through(r, k) - double{d.slope[k]} * d.apart(r, k) - double{d.offset[k]},
                           dx.data()[r * d.c + k]));
          REQUIRE(dx.intact(1, d.x.size(), 0));
        });
      });
}

}  // namespace lathe::kernels
