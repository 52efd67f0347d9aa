// Depthwise and pooling kernels, on whole images.
#include "bench/kernels/buffer.h"
#include "bench/kernels/kernel_case.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/pool/pool.h"

namespace lathe::bench {
namespace {

using namespace lathe::kernels;

double image_bytes(const BenchShape& s, double elem_bytes) {
  return (static_cast<double>(s.h) * s.w + static_cast<double>(s.oh()) * s.ow()) * s.c * elem_bytes;
}
double taps(const BenchShape& s) { return static_cast<double>(s.oh()) * s.ow() * s.c * s.kernel * s.kernel; }
size_t in_elems(const BenchShape& s) { return static_cast<size_t>(s.h) * s.w * s.c; }
size_t out_elems(const BenchShape& s) { return static_cast<size_t>(s.oh()) * s.ow() * s.c; }

template <class Args>
void set_geometry(const BenchShape& s, Args* d) {
  d->in.rows = s.h, d->in.cols = s.w;
  d->in.row_step = s.w * s.c, d->in.col_step = s.c;
  d->in.row0 = d->in.col0 = -static_cast<int32_t>(s.pad);
  d->in.stride_h = d->in.stride_w = s.stride;
  d->in.dilation_h = d->in.dilation_w = 1;
  d->in.kh = d->in.kw = s.kernel;
  d->y_row_step = s.ow() * s.c, d->y_col_step = s.c;
  d->rows = s.oh(), d->cols = s.ow(), d->n = s.c;
  d->multiplier = 1;
}

PoolGeometry pool_geometry(const BenchShape& s) {
  return {.in_h = s.h,
          .in_w = s.w,
          .c = s.c,
          .out_h = s.oh(),
          .out_w = s.ow(),
          .kernel_h = s.kernel,
          .kernel_w = s.kernel,
          .stride_h = s.stride,
          .stride_w = s.stride,
          .dilation_h = 1,
          .dilation_w = 1,
          .pad_top = s.pad,
          .pad_left = s.pad};
}

// T: how values lie in memory. Halves hold small normal numbers, whatever bits a buffer starts with.
template <class Args, class T>
KernelCase dwconv_real_case(const Kernel& k, const BenchShape& s) {
  struct Data {
    explicit Data(const BenchShape& shape)
        : a(in_elems(shape) + 32),
          pad(static_cast<size_t>(shape.w) * shape.c + 32),
          y(out_elems(shape)),
          w(dwconv_f32_packed_elems(shape.c, shape.kernel, shape.kernel)),
          bias(round_up(shape.c, kGemmPanel)) {
      if constexpr (std::is_integral_v<T>) {
        for (Buffer<T>* b : {&a, &pad, &w})
          for (size_t i = 0; i < b->size(); ++i) b->data()[i] = static_cast<T>(0x3000 | (b->data()[i] & 0x7ff));
      }
    }
    Buffer<T> a, pad, y, w;
    Buffer<float> bias;
  };
  auto data = std::make_shared<Data>(s);
  Args d{};
  set_geometry(s, &d);
  d.in.a = data->a.data(), d.in.pad_row = data->pad.data(), d.w = data->w.data(), d.bias = data->bias.data();
  d.y = data->y.data(), d.lo = 0, d.hi = 6;
  const auto fn = reinterpret_cast<void (*)(const Args&)>(k.fn);
  return {&k, s, 2 * taps(s), image_bytes(s, sizeof(T)), ProbeUse::kF32, [data, d, fn] { fn(d); }};
}

// A pooling kernel over all rows; set(args) fills what its family has beside geometry, x and y.
template <class Fn, class Args, class T, class Set>
KernelCase pool_case(const Kernel& k, const BenchShape& s, const Set& set) {
  struct Data {
    explicit Data(const BenchShape& shape) : x(in_elems(shape)), y(out_elems(shape)) {}
    Buffer<T> x, y;
    Args args{};
  };
  auto data = std::make_shared<Data>(s);
  data->args.g = pool_geometry(s);
  data->args.x = data->x.data(), data->args.y = data->y.data();
  data->args.row_begin = 0, data->args.row_end = s.oh();
  set(&data->args);
  const auto fn = reinterpret_cast<Fn>(k.fn);
  return {&k, s, 0, image_bytes(s, sizeof(T)), ProbeUse::kNone, [data, fn] { fn(data->args); }};
}

// One constant per count of taps that can occur in a square window.
AvgPoolConstants pool_constants(const BenchShape& s) {
  AvgPoolConstants c{.x_zero = 128, .zero_point = 128, .lo = 0, .hi = 255, .count_entries = 0, .counts = {}, .m = {}};
  for (uint32_t a = 1; a <= s.kernel; ++a) {
    for (uint32_t b = 1; b <= s.kernel; ++b) {
      if (multiplier_for(c, a * b) != 0 || c.count_entries == kMaxPoolCounts) continue;
      c.counts[c.count_entries] = a * b;
      c.m[c.count_entries++] = 1.0f / static_cast<float>(a * b);
    }
  }
  return c;
}

}  // namespace

KernelCase dwconv_s8_case(const Kernel& k, const BenchShape& s) {
  struct Data {
    explicit Data(const BenchShape& shape)
        : a(in_elems(shape) + 64),
          pad(static_cast<size_t>(shape.w) * shape.c + 64),
          y(out_elems(shape)),
          w(dwconv_s8_packed_bytes(shape.c, shape.kernel, shape.kernel)),
          bias(round_up(shape.c, kGemmPanel), 0),
          scale(round_up(shape.c, kGemmPanel), 1e-2f) {}
    Buffer<uint8_t> a, pad, y;
    Buffer<int8_t> w;
    Buffer<int32_t> bias;
    Buffer<float> scale;
  };
  auto data = std::make_shared<Data>(s);
  const Buffer<int8_t> plain(static_cast<size_t>(s.c) * s.kernel * s.kernel);
  dwconv_s8_pack(plain.data(), s.c, s.kernel, s.kernel, data->w.data());
  DwConvS8Args d{};
  set_geometry(s, &d);
  d.in.a = data->a.data(), d.in.pad_row = data->pad.data(), d.w = data->w.data(), d.bias = data->bias.data();
  d.scale = data->scale.data(), d.y = data->y.data(), d.zero_point = 128, d.lo = 0, d.hi = 255;
  const auto fn = reinterpret_cast<DwConvS8Fn>(k.fn);
  return {&k, s, 2 * taps(s), image_bytes(s, 1), ProbeUse::kS8, [data, d, fn] { fn(d); }};
}

KernelCase dwconv_f32_case(const Kernel& k, const BenchShape& s) { return dwconv_real_case<DwConvF32Args, float>(k, s); }
KernelCase dwconv_f16_case(const Kernel& k, const BenchShape& s) { return dwconv_real_case<DwConvF16Args, uint16_t>(k, s); }

KernelCase max_pool_s8_case(const Kernel& k, const BenchShape& s) {
  const int32_t lowest = k.storage == Storage::kU8 ? 0 : -128;
  return pool_case<MaxPoolS8Fn, MaxPoolS8Args, uint8_t>(k, s, [lowest](MaxPoolS8Args* a) { a->lowest = lowest; });
}

KernelCase max_pool_f32_case(const Kernel& k, const BenchShape& s) {
  return pool_case<MaxPoolF32Fn, MaxPoolF32Args, float>(k, s, [](MaxPoolF32Args*) {});
}

KernelCase avg_pool_s8_case(const Kernel& k, const BenchShape& s) {
  auto constants = std::make_shared<AvgPoolConstants>(pool_constants(s));
  KernelCase c = pool_case<AvgPoolS8Fn, AvgPoolS8Args, uint8_t>(k, s, [&](AvgPoolS8Args* a) { a->c = constants.get(); });
  c.run = [constants, run = c.run] { run(); };
  return c;
}

KernelCase avg_pool_f32_case(const Kernel& k, const BenchShape& s) {
  return pool_case<AvgPoolF32Fn, AvgPoolF32Args, float>(k, s, [](AvgPoolF32Args*) {});
}

}  // namespace lathe::bench
