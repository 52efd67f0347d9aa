// Operators on matrices that are the last two axes: Trilu, which keeps one triangle, and Det.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct TriluParams {
  uint32_t elem_bytes, columns, rows;
  uint32_t upper;
  int32_t k;
  uint32_t zero;  // an element's bytes for the real number 0, if it is quantized
  Split split;    // outer: rows of all matrices
};

struct DetParams {
  uint32_t n;
  Split split;  // outer: matrices
};

// More would take minutes for one matrix.
constexpr uint32_t kMaxDetRows = 512;

template <class T> void run_rows(const RunContext& ctx, const BoundStep& step, const TriluParams& p) {
  const T* x = ctx.in<T>(step, 0);
  T* y = ctx.out<T>(step, 0);
  const T zero = static_cast<T>(p.zero);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t row = t.outer_begin; row < t.outer_end; ++row) {
      // The diagonal passes this row at column `at`; upper keeps what is right of it, lower what is left, both keep it.
      const int64_t at = static_cast<int64_t>(row % p.rows) + p.k;
      for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
        const bool kept = p.upper != 0 ? static_cast<int64_t>(i) >= at : static_cast<int64_t>(i) <= at;
        y[row * p.columns + i] = kept ? x[row * p.columns + i] : zero;
      }
    }
  });
}

// Gaussian elimination with row pivoting; `a` is overwritten.
float determinant(float* a, uint32_t n) {
  double det = 1;
  for (uint32_t c = 0; c < n; ++c) {
    uint32_t pivot = c;
    for (uint32_t r = c + 1; r < n; ++r) {
      const float v = a[r * n + c], best = a[pivot * n + c];
      if ((v < 0 ? -v : v) > (best < 0 ? -best : best)) pivot = r;
    }
    const float p = a[pivot * n + c];
    if (p == 0) return 0;
    for (uint32_t i = c; i < n && pivot != c; ++i) {
      const float v = a[pivot * n + i];
      a[pivot * n + i] = a[c * n + i];
      a[c * n + i] = v;
    }
    det *= static_cast<double>(pivot != c ? -p : p);
    for (uint32_t r = c + 1; r < n; ++r) {
      const float f = a[r * n + c] / p;
      for (uint32_t i = c + 1; i < n; ++i) a[r * n + i] -= f * a[c * n + i];
    }
  }
  return static_cast<float>(det);
}

}  // namespace

Status prepare_Trilu(const PrepareInput& in, Prepared* out) {
  const TriluAttrs a = in.program->attrs<TriluAttrs>(*in.step);
  const Shape& x = in.shape(0);
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  if (x.rank < 2 || !(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, 2, x.rank);
  TriluParams& p = out->make<TriluParams>();
  p.elem_bytes = elem_bytes(in, 0);
  p.rows = static_cast<uint32_t>(x.dims[x.rank - 2]);
  p.columns = static_cast<uint32_t>(x.dims[x.rank - 1]);
  p.upper = a.upper != 0 ? 1 : 0;
  p.k = a.k;
  p.zero = has_quant(in, 0) ? static_cast<uint32_t>(in.quant(0).zero_point) : 0;
  p.split = split_work(x.elems(0, x.rank - 1), p.columns, elems(in, 0), in.threads, 64);
  out->exact_input_mask = out->share_input_mask = 1;
  return {};
}

void run_Trilu(const RunContext& ctx, const BoundStep& step) {
  const TriluParams& p = ctx.params<TriluParams>(step);
  switch (p.elem_bytes) {
    case 1: return run_rows<uint8_t>(ctx, step, p);
    case 2: return run_rows<uint16_t>(ctx, step, p);
    case 4: return run_rows<uint32_t>(ctx, step, p);
    default: return run_rows<uint64_t>(ctx, step, p);
  }
}

Status prepare_Det(const PrepareInput& in, Prepared* out) {
  const Shape& x = in.shape(0);
  if (!is_f32(in, 0)) return unsupported_operand(in, 0);
  if (!is_f32(in, in.out())) return unsupported_operand(in, in.out());
  if (x.rank < 2 || x.dims[x.rank - 1] != x.dims[x.rank - 2]) return refuse(in, Code::kInvalidArgument, 2, x.rank);
  DetParams& p = out->make<DetParams>();
  p.n = static_cast<uint32_t>(x.dims[x.rank - 1]);
  const uint32_t matrices = x.elems(0, x.rank - 2);
  if (p.n > kMaxDetRows) return refuse(in, Code::kUnsupported, kMaxDetRows, p.n);
  if (matrices != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, matrices, elems(in, in.out()));
  p.split = split_work(matrices, 1, elems(in, 0), in.threads, 1);
  const uint64_t scratch = uint64_t{4} * p.n * p.n * in.threads;
  if (scratch > 0x7fffffffu) return refuse(in, Code::kUnsupported, 0x7fffffffu, p.n);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  out->exact_input_mask = 1;
  return {};
}

void run_Det(const RunContext& ctx, const BoundStep& step) {
  const DetParams& p = ctx.params<DetParams>(step);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  const uint32_t size = p.n * p.n;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t slot) {
    const TaskRange t = task_range(p.split, task);
    float* a = reinterpret_cast<float*>(ctx.scratch(step)) + slot * size;
    for (uint32_t m = t.outer_begin; m < t.outer_end; ++m) {
      for (uint32_t i = 0; i < size; ++i) a[i] = x[m * size + i];
      y[m] = determinant(a, p.n);
    }
  });
}

}  // namespace lathe
