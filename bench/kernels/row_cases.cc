// Elementwise kernels, softmax, means and moves, on rows of values.
#include "bench/kernels/buffer.h"
#include "bench/kernels/kernel_case.h"
#include "kernels/amax/amax.h"
#include "kernels/eltwise/eltwise.h"
#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/layout/layout.h"
#include "kernels/norm/norm.h"
#include "kernels/pool/pool.h"
#include "kernels/softmax/softmax.h"

namespace lathe::bench {
namespace {

using namespace lathe::kernels;

// A kernel that reads elements of X and writes elements of Y, as many; set(args, data) fills the family's other fields.
template <class X, class Y>
struct RowData {
  explicit RowData(size_t n) : x(n), x2(n), y(n) {}
  Buffer<X> x, x2;  // x2: a second operand, for those that have one
  Buffer<Y> y;
};
template <class Fn, class Args, class X, class Y, class Set>
KernelCase row_case(const Kernel& k, const BenchShape& s, const Set& set) {
  const size_t n = static_cast<size_t>(s.m) * s.n;
  auto data = std::make_shared<RowData<X, Y>>(n);
  Args args{};
  args.y = data->y.data();
  set(&args, *data);
  const auto fn = reinterpret_cast<Fn>(k.fn);
  return {&k, s, 0, static_cast<double>(n) * (sizeof(X) + sizeof(Y)), ProbeUse::kNone, [data, args, fn] { fn(args); }};
}

uint32_t all(const BenchShape& s) { return s.m * s.n; }

// Tables that outlive every case.
template <class T>
const T* table() {
  static const Buffer<T> values(256 + 64);
  return values.data();
}

}  // namespace

KernelCase mean_s8_case(const Kernel& k, const BenchShape& s) {
  return row_case<MeanS8Fn, MeanS8Args, uint8_t, uint8_t>(k, s, [&](MeanS8Args* a, auto& d) {
    a->x = d.x.data(), a->n = s.n, a->k = s.m, a->step = 1, a->k_step = s.n;
    a->c = {.x_zero = 128, .m = 1.0f / static_cast<float>(s.m), .zero_point = 128, .lo = 0, .hi = 255};
  });
}
KernelCase mean_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<MeanF32Fn, MeanF32Args, float, float>(
      k, s, [&](MeanF32Args* a, auto& d) { a->x = d.x.data(), a->n = s.n, a->k = s.m, a->step = 1, a->k_step = s.n; });
}

KernelCase unary_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<UnaryF32Fn, UnaryF32Args, float, float>(
      k, s, [&](UnaryF32Args* a, auto& d) { a->x = d.x.data(), a->n = all(s), a->op = UnaryOp::kSigmoid; });
}
KernelCase binary_f32_case(const Kernel& k, const BenchShape& s) {
  KernelCase c = row_case<BinaryF32Fn, BinaryF32Args, float, float>(k, s, [&](BinaryF32Args* a, auto& d) {
    a->a = d.x.data(), a->b = d.x2.data(), a->rows = s.m, a->n = s.n, a->a_row = a->b_row = a->y_row = s.n;
    a->a_step = a->b_step = 1, a->op = BinaryOp::kAdd, a->lo = 0, a->hi = 6;
  });
  c.bytes *= 1.5;
  return c;
}
KernelCase binary_s8_case(const Kernel& k, const BenchShape& s) {
  KernelCase c = row_case<BinaryS8Fn, BinaryS8Args, uint8_t, uint8_t>(k, s, [&](BinaryS8Args* a, auto& d) {
    a->a = d.x.data(), a->b = d.x2.data(), a->rows = s.m, a->n = s.n, a->a_row = a->b_row = a->y_row = s.n;
    a->a_step = a->b_step = 1, a->op = BinaryOp::kAdd;
    a->c.a_zero = 128, a->c.b_zero = 120, a->c.m_a = 0.9f, a->c.m_b = 0.4f, a->c.zero_point = 128, a->c.lo = 0, a->c.hi = 255;
  });
  c.bytes *= 1.5;
  return c;
}
KernelCase lut8_case(const Kernel& k, const BenchShape& s) {
  return row_case<Lut8Fn, Lut8Args, uint8_t, uint8_t>(
      k, s, [&](Lut8Args* a, auto& d) { a->x = d.x.data(), a->n = all(s), a->table = table<int8_t>(); });
}
KernelCase regrid_s8_case(const Kernel& k, const BenchShape& s) {
  return row_case<RegridS8Fn, RegridS8Args, uint8_t, uint8_t>(k, s, [&](RegridS8Args* a, auto& d) {
    a->x = d.x.data(), a->n = all(s);
    a->c.x_zero = 128, a->c.m_pos = a->c.m_neg = 0.7f, a->c.zero_point = 120, a->c.lo = 0, a->c.hi = 255;
  });
}
KernelCase quantize_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<QuantizeF32Fn, QuantizeF32Args, float, uint8_t>(k, s, [&](QuantizeF32Args* a, auto& d) {
    a->x = d.x.data(), a->n = all(s);
    a->c.scale = 0.0078f, a->c.zero_point = 128, a->c.lo = 0, a->c.hi = 255;
  });
}
KernelCase dequantize_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<DequantizeF32Fn, DequantizeF32Args, uint8_t, float>(k, s, [&](DequantizeF32Args* a, auto& d) {
    a->x = d.x.data(), a->n = all(s), a->c.scale = 0.0078f, a->c.zero_point = 128;
  });
}

KernelCase widen_f16_case(const Kernel& k, const BenchShape& s) {
  return row_case<WidenF16Fn, WidenF16Args, uint16_t, float>(k, s,
                                                             [&](WidenF16Args* a, auto& d) { a->x = d.x.data(), a->n = all(s); });
}
KernelCase narrow_f16_case(const Kernel& k, const BenchShape& s) {
  return row_case<NarrowF16Fn, NarrowF16Args, float, uint16_t>(
      k, s, [&](NarrowF16Args* a, auto& d) { a->x = d.x.data(), a->n = all(s); });
}

KernelCase softmax_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<SoftmaxF32Fn, SoftmaxF32Args, float, float>(
      k, s, [&](SoftmaxF32Args* a, auto& d) { a->x = d.x.data(), a->rows = s.m, a->n = s.n; });
}
KernelCase softmax_s8_case(const Kernel& k, const BenchShape& s) {
  return row_case<SoftmaxS8Fn, SoftmaxS8Args, uint8_t, uint8_t>(
      k, s, [&](SoftmaxS8Args* a, auto& d) { a->x = d.x.data(), a->rows = s.m, a->n = s.n, a->table = table<uint16_t>(); });
}

KernelCase layer_norm_f32_case(const Kernel& k, const BenchShape& s) {
  return row_case<LayerNormF32Fn, LayerNormF32Args, float, float>(k, s, [&](LayerNormF32Args* a, auto& d) {
    a->x = d.x.data(), a->scale = a->bias = d.x2.data(), a->rows = s.m, a->n = s.n, a->epsilon = 1e-5f;
  });
}
KernelCase layer_norm_s8_case(const Kernel& k, const BenchShape& s) {
  auto vectors = std::make_shared<Buffer<float>>(s.n);
  KernelCase c = row_case<LayerNormS8Fn, LayerNormS8Args, uint8_t, uint8_t>(k, s, [&](LayerNormS8Args* a, auto& d) {
    a->x = d.x.data(), a->g = a->b = vectors->data(), a->rows = s.m, a->n = s.n;
    a->c = {.c = 1e-2f, .zero_point = 128, .lo = 0, .hi = 255};
  });
  c.run = [vectors, run = c.run] { run(); };
  return c;
}

KernelCase amax_f32_case(const Kernel& k, const BenchShape& s) {
  KernelCase c = row_case<AmaxF32Fn, AmaxF32Args, float, float>(
      k, s, [&](AmaxF32Args* a, auto& d) { a->x = d.x.data(), a->rows = s.m, a->n = a->x_row = s.n; });
  c.bytes = 4.0 * all(s);
  return c;
}

// Rows run along k, as an attention's keys do.
KernelCase gemm_pack_s8_case(const Kernel& k, const BenchShape& s) {
  const auto b = std::make_shared<Buffer<uint8_t>>(all(s));
  const auto packed = std::make_shared<Buffer<int8_t>>(gemm_s8_packed_bytes(s.m, 1, s.n));
  const auto bias = std::make_shared<Buffer<int32_t>>(round_up(s.m, kGemmPanel));
  const GemmPackS8Args args{b->data(), 1, s.n, s.n, s.m, 0x80, -128, packed->data(), bias->data()};
  const auto fn = reinterpret_cast<GemmPackS8Fn>(k.fn);
  return {&k, s, 0, 2.0 * all(s), ProbeUse::kNone, [b, packed, bias, args, fn] { fn(args); }};
}
KernelCase gemm_pack_f32_case(const Kernel& k, const BenchShape& s) {
  const auto b = std::make_shared<Buffer<float>>(all(s));
  const auto packed = std::make_shared<Buffer<float>>(gemm_f32_packed_elems(s.m, 1, s.n));
  const GemmPackF32Args args{b->data(), 1, s.n, s.n, s.m, 0.5f, packed->data()};
  const auto fn = reinterpret_cast<GemmPackF32Fn>(k.fn);
  return {&k, s, 0, 8.0 * all(s), ProbeUse::kNone, [b, packed, args, fn] { fn(args); }};
}

KernelCase transpose_case(const Kernel& k, const BenchShape& s) {
  return row_case<TransposeFn, TransposeArgs, uint8_t, uint8_t>(k, s, [&](TransposeArgs* a, auto& d) {
    a->x = d.x.data(), a->rows = s.m, a->cols = s.n, a->elem_bytes = 1;
    a->x_row = static_cast<int32_t>(s.n), a->y_row = static_cast<int32_t>(s.m);
  });
}
KernelCase copy_case(const Kernel& k, const BenchShape& s) {
  return row_case<CopyFn, CopyArgs, uint8_t, uint8_t>(k, s, [&](CopyArgs* a, auto& d) {
    a->x = d.x.data(), a->rows = s.m, a->n = s.n, a->elem_bytes = 1, a->x_step = 1;
    a->x_row = a->y_row = static_cast<int32_t>(s.n);
  });
}

}  // namespace lathe::bench
