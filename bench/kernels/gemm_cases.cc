// GEMM kernels, on matrices and on whole convolutions.
#include <algorithm>

#include "bench/kernels/buffer.h"
#include "bench/kernels/kernel_case.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_sparse/gemm_sparse.h"

namespace lathe::bench {
namespace {

using namespace lathe::kernels;

// What a shape means to a GEMM kernel. An image has its padding in memory, as run_conv() gives it to kernels: a segment per
// kernel row.
struct Problem {
  uint32_t n, segs, seg_k, zeros;
  size_t a_elems, y_elems;
  double ops, elems;  // two per multiply-add; read and written once
  GemmGeometry geo;   // but for the steps in w
};

Problem problem_of(const BenchShape& s) {
  Problem p{};
  p.zeros = s.zeros;
  if (s.kind == ShapeKind::kGemm) {
    p.n = s.n, p.segs = 1, p.seg_k = s.k;
    p.a_elems = static_cast<size_t>(s.m) * s.k, p.y_elems = static_cast<size_t>(s.m) * s.n;
    p.geo = gemm_s8_matrix(s.m, s.n, s.k, s.k, s.n);
  } else {
    const uint32_t row = (s.w + 2 * s.pad) * s.c;
    p.n = s.oc, p.segs = s.kernel, p.seg_k = s.kernel * s.c;
    p.a_elems = static_cast<size_t>(s.h + 2 * s.pad) * row, p.y_elems = static_cast<size_t>(s.oh()) * s.ow() * s.oc;
    p.geo.rows = s.oh(), p.geo.cols = s.ow(), p.geo.n = s.oc;
    p.geo.a_row_step = s.stride * row, p.geo.a_col_step = s.stride * s.c;
    p.geo.y_row_step = s.ow() * s.oc, p.geo.y_col_step = s.oc;
    p.geo.seg_rows = s.kernel, p.geo.seg_cols = 1, p.geo.seg_k = p.seg_k;
    p.geo.a_seg_row_step = static_cast<int32_t>(row);
  }
  const double depth = static_cast<double>(p.segs) * p.seg_k;
  p.ops = 2 * static_cast<double>(p.y_elems) * depth;
  p.elems = static_cast<double>(p.a_elems + p.y_elems) + depth * p.n;
  return p;
}

GemmGeometry with_s8_weights(Problem p) {
  p.geo.w_seg_row_step = round_up(p.seg_k, kGemmQuad) * kGemmPanel;
  p.geo.w_panel_step = gemm_s8_panel_bytes(p.segs, p.seg_k);
  return p.geo;
}
GemmGeometry with_f32_weights(Problem p) {
  p.geo.w_seg_row_step = p.seg_k * kGemmPanel;
  p.geo.w_panel_step = gemm_f32_panel_elems(p.segs, p.seg_k);
  return p.geo;
}

struct DataS8 {
  explicit DataS8(const Problem& p)
      : a(p.a_elems + 64),
        y(p.y_elems),
        w(gemm_s8_packed_bytes(p.n, p.segs, p.seg_k)),
        bias(round_up(p.n, kGemmPanel), 0),
        w_zero(round_up(p.n, kGemmPanel), 3),
        scale(round_up(p.n, kGemmPanel), 1e-3f) {
    const Buffer<int8_t> plain(static_cast<size_t>(p.n) * p.segs * p.seg_k);
    gemm_s8_pack(plain.data(), p.n, p.segs, p.seg_k, w.data());
    args.geo = with_s8_weights(p);
    args.a = a.data(), args.w = w.data(), args.bias = bias.data(), args.scale = scale.data(), args.y = y.data();
    args.zero_point = 128, args.lo = 0, args.hi = 255;
  }
  Buffer<uint8_t> a, y;
  Buffer<int8_t> w;
  Buffer<int32_t> bias, w_zero;
  Buffer<float> scale;
  GemmS8Args args{};
};

// A kernel row's taps are pieces of their own if a quad starts with each.
SparseShape sparse_shape(const Problem& p) {
  return {p.n, p.segs, p.seg_k, p.segs > 1 && p.seg_k / p.segs % kGemmQuad == 0 ? p.segs : 1};
}

// Weights of which `zeros` percent of the blocks are zero, spread at random.
struct DataSparseS8 : DataS8 {
  explicit DataSparseS8(const Problem& p) : DataS8(p), shape(sparse_shape(p)) {
    Buffer<int8_t> plain(static_cast<size_t>(p.n) * p.segs * p.seg_k);
    clear_blocks(p, plain.data());
    packed = Buffer<int8_t>(gemm_sparse_s8_packed_bytes(plain.data(), shape));
    gemm_sparse_s8_pack(plain.data(), shape, packed.data());
    static_cast<GemmS8Args&>(sparse_args) = args;
    sparse_args.w = packed.data();
    sparse_args.geo.w_seg_row_step = sparse_args.seg_pieces = shape.pieces_per_seg;
    sparse_args.pieces = shape.pieces();
  }
  static void clear_blocks(const Problem& p, int8_t* w) {
    std::minstd_rand rng(7);
    const size_t per_channel = static_cast<size_t>(p.segs) * p.seg_k;
    for (uint32_t c = 0; c < p.n; c += kGemmPanel) {
      for (size_t seg = 0; seg < per_channel; seg += p.seg_k) {
        for (uint32_t k = 0; k < p.seg_k; k += kGemmQuad) {
          if (rng() % 100 >= p.zeros) continue;
          for (uint32_t i = c; i < std::min(c + kGemmPanel, p.n); ++i)
            std::fill_n(w + i * per_channel + seg + k, std::min(kGemmQuad, p.seg_k - k), int8_t{0});
        }
      }
    }
  }
  SparseShape shape;
  Buffer<int8_t> packed{0};
  GemmSparseS8Args sparse_args{};
};

// 8-bit operands with a float result.
struct DataS8F32 : DataS8 {
  explicit DataS8F32(const Problem& p) : DataS8(p), real(p.y_elems) {
    real_args.geo = args.geo;
    real_args.a = a.data(), real_args.w = w.data(), real_args.bias = bias.data(), real_args.scale = scale.data();
    real_args.row_scale = &row_scale, real_args.y = real.data(), real_args.lo = -6, real_args.hi = 6;
  }
  Buffer<float> real;
  float row_scale = 0.02f;
  GemmS8F32Args real_args{};
};

// T: how activations and weights lie in memory. Halves hold small normal numbers, whatever bits a buffer starts with.
template <class T>
struct DataReal {
  explicit DataReal(const Problem& p)
      : a(p.a_elems + 32), y(p.y_elems), w(gemm_f32_packed_elems(p.n, p.segs, p.seg_k)), bias(round_up(p.n, kGemmPanel)) {
    if constexpr (std::is_integral_v<T>) {
      for (Buffer<T>* b : {&a, &w})
        for (size_t i = 0; i < b->size(); ++i) b->data()[i] = static_cast<T>(0x3000 | (b->data()[i] & 0x7ff));
    }
    args.geo = with_f32_weights(p);
    args.a = a.data(), args.w = w.data(), args.bias = bias.data(), args.y = y.data(), args.lo = 0, args.hi = 6;
  }
  Buffer<T> a, y, w;
  Buffer<float> bias;
  GemmRealArgs<T> args{};
};

// `call` runs the kernel on the data.
template <class Data, class Call>
KernelCase case_of(const Kernel& k, const BenchShape& s, double elem_bytes, ProbeUse peak, const Call& call) {
  const Problem p = problem_of(s);
  auto data = std::make_shared<Data>(p);
  return {&k, s, p.ops, p.elems * elem_bytes, peak, [data, call] { call(*data); }};
}

}  // namespace

KernelCase gemm_s8_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmS8Fn>(k.fn);
  return case_of<DataS8>(k, s, 1, ProbeUse::kS8, [fn](const DataS8& d) { fn(d.args); });
}
KernelCase gemm_s8_zw_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmS8ZwFn>(k.fn);
  return case_of<DataS8>(k, s, 1, ProbeUse::kS8, [fn](const DataS8& d) { fn({d.args, d.w_zero.data()}); });
}
bool is_stored_sparse(const BenchShape& s) {
  const SparseShape shape = sparse_shape(problem_of(s));
  const uint64_t pixels = s.kind == ShapeKind::kGemm ? s.m : uint64_t{s.oh()} * s.ow();
  return s.zeros > 0 && gemm_sparse_s8_pays(shape, pixels, shape.blocks() * (100 - s.zeros) / 100);
}
KernelCase gemm_sparse_s8_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmSparseS8Fn>(k.fn);
  return case_of<DataSparseS8>(k, s, 1, ProbeUse::kS8, [fn](const DataSparseS8& d) { fn(d.sparse_args); });
}
KernelCase gemm_s8_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmS8F32Fn>(k.fn);
  return case_of<DataS8F32>(k, s, 1, ProbeUse::kS8, [fn](const DataS8F32& d) { fn(d.real_args); });
}
KernelCase gemm_f32_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmF32Fn>(k.fn);
  return case_of<DataReal<float>>(k, s, 4, ProbeUse::kF32, [fn](const DataReal<float>& d) { fn(d.args); });
}
KernelCase gemm_f16_case(const Kernel& k, const BenchShape& s) {
  const auto fn = reinterpret_cast<GemmF16Fn>(k.fn);
  return case_of<DataReal<uint16_t>>(k, s, 2, ProbeUse::kF32, [fn](const DataReal<uint16_t>& d) { fn(d.args); });
}

}  // namespace lathe::bench
