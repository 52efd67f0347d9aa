// MaskedSoftmax: one row of scores at a time. A key that the window, the length or a mask of -infinity hides counts as -infinity
// whatever its score is; a row that is hidden whole gives zeros.
#include "kernels/math/math.h"
#include "runtime/exec/broadcast.h"
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

constexpr float kHidden = -kInfinity;

struct MaskedSoftmaxParams {
  uint32_t m, n;  // queries, keys
  uint32_t rows_per_batch;
  uint32_t mask_kind;  // 0: none, 1: bool, 2: f32
  uint32_t mask_rank;  // axes of the rows: all but the last
  uint32_t mask_dims[kMaxRank], mask_strides[kMaxRank];
  uint32_t mask_step;  // 0: one mask value per row
  MaskedSoftmaxAttrs a;
  Split split;  // outer: rows
};

// The mask's element for key 0 of `row`.
uint32_t mask_at(const MaskedSoftmaxParams& p, uint32_t row) {
  uint32_t at = 0;
  for (uint32_t i = p.mask_rank; i-- > 0;) {
    at += row % p.mask_dims[i] * p.mask_strides[i];
    row /= p.mask_dims[i];
  }
  return at;
}

struct Window {
  int64_t begin, end;
};

// Keys that the query of `row` sees.
Window window_of(const MaskedSoftmaxParams& p, const int64_t* lengths, uint32_t row) {
  const int64_t query = row % p.m;
  int64_t length = p.n, position = p.a.offset + query;
  if (lengths != nullptr) {
    const int64_t given = lengths[row / p.rows_per_batch];
    length = given < 0 ? 0 : given > length ? length : given;
    position = length - static_cast<int64_t>(p.m) + query;
  }
  Window w{0, length};
  if (p.a.left >= 0 && position - p.a.left > w.begin) w.begin = position - p.a.left;
  if (p.a.right >= 0 && position + p.a.right + 1 < w.end) w.end = position + p.a.right + 1;
  return w;
}

struct Mask {
  const uint8_t* seen;
  const float* added;
  uint32_t at, step;
};

// Masked scores of one row; whether any key is seen.
bool mask_row(const float* x, const Mask& mask, const Window& w, uint32_t n, float* y) {
  bool any = false;
  for (uint32_t j = 0; j < n; ++j) {
    const uint32_t at = mask.at + j * mask.step;
    const float added = mask.seen != nullptr    ? (mask.seen[at] != 0 ? 0.0f : kHidden)
                        : mask.added != nullptr ? mask.added[at]
                                                : 0.0f;
    const bool seen = j >= w.begin && j < w.end && added != kHidden;
    y[j] = seen ? x[j] + added : kHidden;
    any = any || seen;
  }
  return any;
}

void normalize_row(float* y, uint32_t n, bool any) {
  float highest = kHidden;
  for (uint32_t j = 0; j < n; ++j) highest = max_f32(highest, y[j]);
  float sum = 0;
  for (uint32_t j = 0; j < n; ++j) {
    y[j] = any && y[j] != kHidden ? kernels::exp_f32(y[j] - highest) : 0.0f;
    sum += y[j];
  }
  if (!any) return;
  for (uint32_t j = 0; j < n; ++j) y[j] /= sum;
}

Status prepare_mask(const PrepareInput& in, MaskedSoftmaxParams* p) {
  const Shape &x = in.shape(0), &mask = in.shape(1);
  const DType dtype = in.tensor(1).dtype;
  if ((dtype != DType::kBool && dtype != DType::kF32) || !is_plain(in, 1)) return unsupported_operand(in, 1);
  if (mask.rank > x.rank) return refuse(in, Code::kInvalidArgument, x.rank, mask.rank);
  p->mask_kind = dtype == DType::kBool ? 1 : 2;
  p->mask_rank = x.rank - 1;
  uint32_t stride = 1;
  for (uint32_t i = 0; i < x.rank; ++i) {  // from the last axis
    const uint32_t axis = x.rank - 1 - i, size = i < mask.rank ? static_cast<uint32_t>(mask.dims[mask.rank - 1 - i]) : 1;
    if (size != 1 && size != static_cast<uint32_t>(x.dims[axis]))
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[axis]), size);
    const uint32_t step = size == 1 ? 0 : stride;
    if (i == 0) p->mask_step = step;
    else p->mask_dims[axis] = static_cast<uint32_t>(x.dims[axis]), p->mask_strides[axis] = step;
    stride *= size;
  }
  return {};
}

}  // namespace

Status prepare_MaskedSoftmax(const PrepareInput& in, Prepared* out) {
  const Shape& x = in.shape(0);
  if (!is_f32(in, 0) || !is_f32(in, in.out())) return unsupported_operand(in, 0);
  if (x.rank < 2 || !(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  MaskedSoftmaxParams& p = out->make<MaskedSoftmaxParams>();
  p.a = in.program->attrs<MaskedSoftmaxAttrs>(*in.step);
  if (p.a.left < -1 || p.a.right < -1) return refuse(in, Code::kInvalidArgument);
  p.m = static_cast<uint32_t>(x.dims[x.rank - 2]);
  p.n = static_cast<uint32_t>(x.dims[x.rank - 1]);
  const uint32_t rows = x.elems(0, x.rank - 1);
  p.rows_per_batch = x.elems(1, x.rank - 1);
  if (in.step->n_in > 1 && in.has(1))
    if (const Status s = prepare_mask(in, &p); !s.ok()) return s;
  if (in.step->n_in > 2 && in.has(2)) {
    const Shape& lengths = in.shape(2);
    if (in.tensor(2).dtype != DType::kS64 || !is_plain(in, 2)) return unsupported_operand(in, 2);
    if (lengths.rank != 1 || lengths.dims[0] != x.dims[0])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[0]), lengths.elems());
  }
  p.split = split_work(p.n == 0 ? 0 : rows, 1, rows * p.n, in.threads, 1);
  out->share_input_mask = 1;
  out->exact_input_mask = 7;
  return {};
}

void run_MaskedSoftmax(const RunContext& ctx, const BoundStep& step) {
  const MaskedSoftmaxParams& p = ctx.params<MaskedSoftmaxParams>(step);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  const int64_t* lengths = ctx.in<int64_t>(step, 2);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t row = t.outer_begin; row < t.outer_end; ++row) {
      Mask mask{nullptr, nullptr, 0, p.mask_step};
      if (p.mask_kind == 1) mask.seen = ctx.in<uint8_t>(step, 1);
      if (p.mask_kind == 2) mask.added = ctx.in<float>(step, 1);
      if (p.mask_kind != 0) mask.at = mask_at(p, row);
      const bool any = mask_row(x + row * p.n, mask, window_of(p, lengths, row), p.n, y + row * p.n);
      if (p.a.normalize != 0) normalize_row(y + row * p.n, p.n, any);
    }
  });
}

}  // namespace lathe
