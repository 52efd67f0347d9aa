// Winograd's transformations: put together by plain products they are the convolution and its gradients; and every kernel against
// the reference at the image's edges and at every number of channels.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/gemm/gemm.h"
#include "kernels/winograd/winograd.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

constexpr uint32_t kPoints = kWinogradPoints;

struct Image {
  uint32_t rows, cols, channels;
  std::vector<float> v;
  Image(uint32_t r, uint32_t c, uint32_t n) : rows(r), cols(c), channels(n), v(size_t{r} * c * n) {}
  double at(int r, int c, uint32_t k) const {
    if (r < 0 || c < 0 || r >= static_cast<int>(rows) || c >= static_cast<int>(cols)) return 0;
    return double{v[(static_cast<size_t>(r) * cols + static_cast<size_t>(c)) * channels + k]};
  }
};
Image random_image(std::mt19937& rng, uint32_t rows, uint32_t cols, uint32_t channels) {
  Image image(rows, cols, channels);
  fill_floats(rng, image.v.data(), image.v.size(), -1, 1);
  return image;
}

uint32_t tiles_along(uint32_t n) { return (n + kWinogradTile - 1) / kWinogradTile; }

template <class Fn>
Fn reference(Family family) {
  return reinterpret_cast<Fn>(select(family, Storage::kS8, kIsaScalar)->fn);
}

// All tiles of an image whose first begins `pad` pixels outside: [point][tile][channel].
template <class Fn>
std::vector<float> points_of(Fn fn, const Image& x, uint32_t oh, uint32_t ow, int32_t pad) {
  const uint32_t rows = tiles_along(oh), cols = tiles_along(ow), tiles = rows * cols;
  std::vector<float> v(size_t{kPoints} * tiles * x.channels);
  for (uint32_t r = 0; r < rows; ++r)
    fn({x.v.data(), x.rows, x.cols, x.channels, x.channels, static_cast<int32_t>(4 * r) - pad, -pad, cols,
        v.data() + size_t{r} * cols * x.channels, tiles * x.channels});
  return v;
}

}  // namespace

TEST_CASE("points, products and back are the convolution, its turned form, and the gradient of its weights") {
  std::mt19937 rng(5);
  const uint32_t ic = 3, oc = 5, size = 7, pad = 1, tiles = 4;
  const Image x = random_image(rng, size, size, ic), dy = random_image(rng, size, size, oc);
  std::vector<float> w(oc * 9 * ic), bias(16, 0.5f);
  fill_floats(rng, w.data(), w.size(), -1, 1);
  const std::vector<float> v = points_of(reference<WinogradInputF32Fn>(Family::kWinogradInputF32), x, size, size, pad);
  for (const bool turned : {false, true}) {
    CAPTURE(turned);
    std::vector<float> packed(winograd_packed_elems(oc, ic)), m(kPoints * tiles * oc);
    winograd_pack_f32(w.data(), oc, ic, turned, packed.data());
    for (uint32_t p = 0; p < kPoints; ++p)
      for (uint32_t t = 0; t < tiles; ++t)
        for (uint32_t o = 0; o < oc; ++o)
          for (uint32_t i = 0; i < ic; ++i)
            m[(p * tiles + t) * oc + o] += v[(p * tiles + t) * ic + i] * packed[(p * ic + i) * kGemmPanel + o];
    Image y(size, size, oc);
    for (uint32_t r = 0; r < 2; ++r)
      reference<WinogradOutputF32Fn>(Family::kWinogradOutputF32)(
          {m.data() + r * 2 * oc, tiles * oc, bias.data(), nullptr, y.v.data(), size, size, oc, 4 * r, 0, 2, -1.0f, 100.0f});
    for (int r = 0; r < int{size}; ++r) {
      for (int c = 0; c < int{size}; ++c) {
        for (uint32_t o = 0; o < oc; ++o) {
          double sum = 0.5;
          for (int t = 0; t < 9; ++t)
            for (uint32_t i = 0; i < ic; ++i)
              sum +=
                  x.at(r + t / 3 - 1, c + t % 3 - 1, i) * double{w[(o * 9 + static_cast<uint32_t>(turned ? 8 - t : t)) * ic + i]};
          REQUIRE(std::abs(std::max(sum, -1.0) - y.at(r, c, o)) < 2e-5);
        }
      }
    }
  }
  const std::vector<float> z = points_of(reference<WinogradGradientF32Fn>(Family::kWinogradGradientF32), dy, size, size, 0);
  for (uint32_t o = 0; o < oc; ++o) {
    float u[kPoints * 16] = {}, dw[9 * 16];
    for (uint32_t p = 0; p < kPoints; ++p)
      for (uint32_t t = 0; t < tiles; ++t)
        for (uint32_t i = 0; i < ic; ++i) u[p * 16 + i] += z[(p * tiles + t) * oc + o] * v[(p * tiles + t) * ic + i];
    winograd_weight_gradient(u, dw);
    for (int t = 0; t < 9; ++t) {
      for (uint32_t i = 0; i < ic; ++i) {
        double sum = 0;
        for (int r = 0; r < int{size}; ++r)
          for (int c = 0; c < int{size}; ++c) sum += dy.at(r, c, o) * x.at(r + t / 3 - 1, c + t % 3 - 1, i);
        REQUIRE(std::abs(sum - double{dw[static_cast<uint32_t>(t) * 16 + i]}) < 1e-4);
      }
    }
  }
}

namespace {

const uint32_t kChannels[] = {1, 7, 8, 9, 15, 16, 17, 33};

// Both transformations into points: `kernel` against the reference on a part of the channels of an image, tiles beginning
// outside, and nothing else written.
template <class Fn>
void check_to_points(Family family) {
  std::mt19937 rng(6);
  for_each_kernel<Fn>(family, [&](const Kernel& kernel, Fn fn, Fn expected) {
    CAPTURE(std::string(kernel.name));
    for (const uint32_t channels : kChannels) {
      for (const int32_t row : {-2, -1, 0, 2, 6}) {
        CAPTURE(channels);
        CAPTURE(row);
        const Image x = random_image(rng, 8, 11, channels + 2);
        const uint32_t tiles = 3, step = tiles * channels + 5;
        Guarded<float> v(kPoints * step, 4);
        std::vector<float> e(kPoints * step);
        WinogradTilesF32Args g{x.v.data() + 1, 8, 11, channels, channels + 2, row, -1, tiles, v.data(), step};
        fn(g);
        g.v = e.data();
        expected(g);
        REQUIRE(v.intact(kPoints, tiles * channels, step));
        for (uint32_t p = 0; p < kPoints; ++p)
          for (uint32_t k = 0; k < tiles * channels; ++k) REQUIRE(std::abs(v.data()[p * step + k] - e[p * step + k]) <= 1e-4f);
      }
    }
  });
}

}  // namespace

TEST_CASE("every kernel transforms into points as the reference does, at the image's edges") {
  check_to_points<WinogradInputF32Fn>(Family::kWinogradInputF32);
  check_to_points<WinogradGradientF32Fn>(Family::kWinogradGradientF32);
}

TEST_CASE("every kernel transforms back as the reference does, with bias, residual and clamp, inside the image alone") {
  std::mt19937 rng(7);
  for_each_kernel<WinogradOutputF32Fn>(Family::kWinogradOutputF32,
                                       [&](const Kernel& kernel, WinogradOutputF32Fn fn, WinogradOutputF32Fn expected) {
                                         CAPTURE(std::string(kernel.name));
                                         for (const uint32_t channels : kChannels) {
                                           for (const bool whole : {false, true}) {
                                             CAPTURE(channels);
                                             const uint32_t rows = 6, cols = 10, tiles = 3, step = tiles * channels;
                                             std::vector<float> m(kPoints * step), bias(channels);
                                             fill_floats(rng, m.data(), m.size(), -1, 1);
                                             fill_floats(rng, bias.data(), bias.size(), -1, 1);
                                             m[0] = std::nanf("");
                                             const Image residual = random_image(rng, rows, cols, channels);
                                             Guarded<float> y(residual.v.size(), 4), e(residual.v.size(), 4);
                                             WinogradOutputF32Args g{m.data(),
                                                                     step,
                                                                     whole ? bias.data() : nullptr,
                                                                     whole ? residual.v.data() : nullptr,
                                                                     y.data(),
                                                                     rows,
                                                                     cols,
                                                                     channels,
                                                                     4,
                                                                     0,
                                                                     tiles,
                                                                     whole ? -3.0f : -HUGE_VALF,
                                                                     whole ? 4.0f : HUGE_VALF};
                                             fn(g);
                                             g.y = e.data();
                                             expected(g);
                                             const size_t first = size_t{4} * cols * channels;
                                             for (size_t k = first; k < residual.v.size(); ++k) {
                                               const float a = y.data()[k], b = e.data()[k];
                                               REQUIRE((std::isnan(a) ? std::isnan(b) : std::abs(a - b) <= 1e-3f));
                                             }
                                             REQUIRE(std::isnan(y.data()[first]));
                                             Guarded<float> rest(residual.v.size(), 4);
                                             std::copy(y.data() + first, y.data() + residual.v.size(), rest.data() + first);
                                             REQUIRE(std::equal(y.data(), y.data() + first, rest.data(),
                                                                [](float a, float b) { return std::memcmp(&a, &b, 4) == 0; }));
                                             REQUIRE(y.intact(1, residual.v.size(), 0));
                                           }
                                         }
                                       });
}

}  // namespace lathe::kernels
