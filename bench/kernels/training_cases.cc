// Kernels of training: transposed products, Winograd's transformations, batch normalization.
#include "bench/kernels/buffer.h"
#include "bench/kernels/kernel_case.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/gemm_tn/gemm_tn.h"
#include "kernels/winograd/winograd.h"

namespace lathe::bench {
namespace {

using namespace lathe::kernels;

uint32_t tiles_along(uint32_t n) { return (n + kWinogradTile - 1) / kWinogradTile; }

// An image and all its tiles' points.
struct TileData {
  explicit TileData(const BenchShape& s)
      : image(static_cast<size_t>(s.h) * s.w * s.c),
        points(static_cast<size_t>(kWinogradPoints) * tiles_along(s.h) * tiles_along(s.w) * s.c) {}
  Buffer<float> image, points;
};

double tile_bytes(const TileData& d) { return 4.0 * static_cast<double>(d.image.size() + d.points.size()); }

template <class Fn>
KernelCase to_points_case(const Kernel& k, const BenchShape& s) {
  const auto d = std::make_shared<TileData>(s);
  const uint32_t cols = tiles_along(s.w), step = tiles_along(s.h) * cols * s.c;
  const auto fn = reinterpret_cast<Fn>(k.fn);
  return {&k, s, 0, tile_bytes(*d), ProbeUse::kNone, [=] {
            for (uint32_t r = 0; r < tiles_along(s.h); ++r)
              fn({d->image.data(), s.h, s.w, s.c, s.c, static_cast<int32_t>(4 * r) - 1, -1, cols,
                  d->points.data() + static_cast<size_t>(r) * cols * s.c, step});
          }};
}

// y[m,n] = a[k,m]^T b[k,n].
struct ProductData {
  explicit ProductData(const BenchShape& s)
      : a(static_cast<size_t>(s.k) * s.m), b(static_cast<size_t>(s.k) * s.n), y(static_cast<size_t>(s.m) * s.n) {}
  Buffer<float> a, b, y;
};

// Rows of channels, with vectors over the channels.
struct NormalData {
  explicit NormalData(const BenchShape& s)
      : x(static_cast<size_t>(s.m) * s.n), dy(x.size()), y(x.size()), v(s.n), sums(2 * s.n) {}
  Buffer<float> x, dy, y, v, sums;
};
template <class Run>
KernelCase normal_case(const Kernel& k, const BenchShape& s, double passes, const Run& run) {
  const auto d = std::make_shared<NormalData>(s);
  return {&k, s, 0, passes * 4.0 * static_cast<double>(d->x.size()), ProbeUse::kNone, [=] { run(*d); }};
}
constexpr NormalizeClamp kRelu{0.0f, __builtin_inff(), 1};

}  // namespace

KernelCase gemm_tn_f32_case(const Kernel& k, const BenchShape& s) {
  const auto d = std::make_shared<ProductData>(s);
  const auto fn = reinterpret_cast<GemmTnF32Fn>(k.fn);
  const double bytes = 4.0 * static_cast<double>(d->a.size() + d->b.size() + d->y.size());
  return {&k, s, 2.0 * s.m * s.n * s.k, bytes, ProbeUse::kF32,
          [=] { fn({d->a.data(), d->b.data(), d->y.data(), 1, s.k, 0, s.m, 0, s.n, s.m, s.n, s.n, 0}); }};
}

KernelCase winograd_input_f32_case(const Kernel& k, const BenchShape& s) { return to_points_case<WinogradInputF32Fn>(k, s); }
KernelCase winograd_gradient_f32_case(const Kernel& k, const BenchShape& s) {
  return to_points_case<WinogradGradientF32Fn>(k, s);
}
KernelCase winograd_output_f32_case(const Kernel& k, const BenchShape& s) {
  const auto d = std::make_shared<TileData>(s);
  const uint32_t cols = tiles_along(s.w), step = tiles_along(s.h) * cols * s.c;
  const auto fn = reinterpret_cast<WinogradOutputF32Fn>(k.fn);
  return {&k, s, 0, tile_bytes(*d), ProbeUse::kNone, [=] {
            for (uint32_t r = 0; r < tiles_along(s.h); ++r)
              fn({d->points.data() + static_cast<size_t>(r) * cols * s.c, step, nullptr, nullptr, d->image.data(), s.h, s.w, s.c,
                  4 * r, 0, cols, 0.0f, __builtin_inff()});
          }};
}

KernelCase channel_sums_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<ChannelSumsF32Fn>(k.fn);
  return normal_case(k, s, 2, [=](NormalData& d) { fn({d.x.data(), s.m, s.n, d.sums.data(), d.sums.data() + s.n}); });
}
KernelCase normalize_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<NormalizeF32Fn>(k.fn);
  return normal_case(k, s, 2, [=](NormalData& d) {
    fn({d.x.data(), d.v.data(), d.v.data(), d.v.data(), d.y.data(), s.m, s.n, kRelu});
  });
}
KernelCase normalize_sums_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<NormalizeSumsF32Fn>(k.fn);
  return normal_case(k, s, 2, [=](NormalData& d) {
    fn({d.x.data(), d.dy.data(), d.v.data(), d.v.data(), d.v.data(), s.m, s.n, kRelu, d.sums.data(), d.sums.data() + s.n});
  });
}
KernelCase normalize_grad_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<NormalizeGradF32Fn>(k.fn);
  return normal_case(k, s, 3, [=](NormalData& d) {
    const float* v = d.v.data();
    fn({d.x.data(), d.dy.data(), v, v, v, v, v, d.y.data(), s.m, s.n, kRelu});
  });
}

}  // namespace lathe::bench
