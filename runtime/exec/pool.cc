// MaxPool2d and AvgPool2d over NHWC tensors. Of halves a task widens the input rows of one output row at a time, in its slot's
// scratch.
#include "kernels/pool/pool.h"

#include "runtime/exec/checks.h"
#include "runtime/exec/half_tiles.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;
using kernels::PoolGeometry;

struct PoolParams {
  PoolGeometry g;
  kernels::CountRule rule;
  uint32_t quantized;
  uint32_t half_rows, result_at, slot_bytes;  // halves: input rows under a window; floats of a slot before those of the result
  uint32_t image_in, image_out;  // elements of an image
  Split split;                   // outer: images, inner: output rows
  int32_t lowest;                // MaxPool2d
  kernels::AvgPoolConstants avg;
};

// Largest extent of a padded axis, so that all window arithmetic fits 31 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 28;

// Output positions along an axis, ONNX: floor or ceil of (padded - window) / stride, plus 1. In ceil mode some frameworks
// drop a last window that would begin in the padding after the input; the output's shape says which, so both are taken.
bool check_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t after,
                bool ceil_mode) {
  if (kernel < 1 || stride < 1 || dilation < 1 || before < 0 || after < 0) return false;
  if (kernel > kMaxExtent || dilation > kMaxExtent || stride > kMaxExtent || before > kMaxExtent || after > kMaxExtent)
    return false;
  const int64_t window = dilation * (kernel - 1) + 1, padded = in + before + after;
  if (padded > kMaxExtent || window > padded) return false;
  const int64_t whole = (padded - window) / stride + 1, rest = (padded - window) % stride;
  if (out * stride + window > int64_t{1} << 30) return false;
  return out == whole || (ceil_mode && rest != 0 && out == whole + 1);
}

Status prepare_geometry(const PrepareInput& in, PoolParams* p) {
  const Pool2dAttrs a = in.program->attrs<Pool2dAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (x.rank != 4 || y.rank != 4) return refuse(in, Code::kUnsupported, 4, x.rank);
  if (x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3])
    return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  const bool ceil_mode = a.ceil_mode != 0;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!check_axis(x.dims[1 + i], y.dims[1 + i], a.kernel[i], a.stride[i], a.dilation[i], a.pad[i], a.pad[2 + i], ceil_mode)) {
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[1 + i]), static_cast<uint32_t>(y.dims[1 + i]));
    }
  }
  if (static_cast<int64_t>(a.kernel[0]) * a.kernel[1] > int64_t{1} << 22) return refuse(in, Code::kUnsupported, 1u << 22);
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  p->g = {u(x.dims[1]),   u(x.dims[2]),   u(x.dims[3]),     u(y.dims[1]),     u(y.dims[2]), u(a.kernel[0]), u(a.kernel[1]),
          u(a.stride[0]), u(a.stride[1]), u(a.dilation[0]), u(a.dilation[1]), u(a.pad[0]),  u(a.pad[1])};
  p->rule = {a.count_pad != 0 ? 1u : 0u, u(a.pad[2]), u(a.pad[3])};
  p->image_in = x.elems(1, 4);
  p->image_out = y.elems(1, 4);
  p->split = split_work(u(x.dims[0]), p->g.out_h, elems(in, 0), in.threads, 1);
  return {};
}

// Adds `count` to a list of distinct numbers; false if it is full.
bool add_count(kernels::AvgPoolConstants* c, uint32_t count) {
  for (uint32_t i = 0; i < c->count_entries; ++i) {
    if (c->counts[i] == count) return true;
  }
  if (c->count_entries == kernels::kMaxPoolCounts) return false;
  c->counts[c->count_entries++] = count;
  return true;
}

// One multiplier per distinct number of counted taps.
Status prepare_counts(const PrepareInput& in, PoolParams* p) {
  kernels::AvgPoolConstants rows{}, columns{};
  for (uint32_t oh = 0; oh < p->g.out_h; ++oh) {
    if (!add_count(&rows, kernels::counted_rows(p->g, p->rule, oh)))
      return refuse(in, Code::kUnsupported, kernels::kMaxPoolCounts);
  }
  for (uint32_t ow = 0; ow < p->g.out_w; ++ow) {
    if (!add_count(&columns, kernels::counted_columns(p->g, p->rule, ow)))
      return refuse(in, Code::kUnsupported, kernels::kMaxPoolCounts);
  }
  kernels::AvgPoolConstants& c = p->avg;
  for (uint32_t i = 0; i < rows.count_entries; ++i) {
    for (uint32_t j = 0; j < columns.count_entries; ++j) {
      const uint32_t n = rows.counts[i] * columns.counts[j];
      if (n != 0 && !add_count(&c, n)) return refuse(in, Code::kUnsupported, kernels::kMaxPoolCounts);
    }
  }
  const QuantParams x = in.quant(0), y = in.quant(in.out());
  for (uint32_t i = 0; i < c.count_entries; ++i) {
    const double m = static_cast<double>(x.scale) / (static_cast<double>(y.scale) * c.counts[i]);
    if (!round_multiplier(m, &c.m[i])) return refuse(in, Code::kInvalidArgument);
  }
  c.x_zero = x.zero_point;
  c.zero_point = y.zero_point;
  c.lo = y.qmin;
  c.hi = y.qmax;
  return {};
}

Status add_half_scratch(const PrepareInput& in, PoolParams* p, Prepared* out) {
  const uint64_t reach = uint64_t{p->g.kernel_h - 1} * p->g.dilation_h + 1;
  const uint64_t rows = reach < p->g.in_h ? reach : p->g.in_h;
  const uint64_t slot = (rows * p->g.in_w * p->g.c + uint64_t{p->g.out_w} * p->g.c) * 4 / 64 * 64 + 128;
  const uint64_t bytes = slot * (p->split.tasks() > 1 && in.threads > 1 ? in.threads : 1);
  if (bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(bytes >> 10));
  p->half_rows = static_cast<uint32_t>(reach);
  p->slot_bytes = static_cast<uint32_t>(slot);
  p->result_at = static_cast<uint32_t>(rows * p->g.in_w * p->g.c);
  out->scratch_bytes = static_cast<uint32_t>(bytes);
  return use_half_kernels(in, out) ? Status{} : refuse(in, Code::kUnsupported);
}

// Fills in what both pools share and picks one of the two families.
Status prepare_pool(const PrepareInput& in, Family f32, Family s8, Prepared* out, PoolParams** p) {
  *p = &out->make<PoolParams>();
  const bool q8 = is_q8_in_storage(in, 0) && is_q8(in, in.out()), half = is_f16(in, 0) && is_f16(in, in.out());
  if (!q8 && !half && !(is_f32(in, 0) && is_f32(in, in.out()))) return unsupported_operand(in, 0);
  (*p)->quantized = q8 ? 1 : 0;
  out->exact_input_mask = 1;
  if (const Status s = prepare_geometry(in, *p); !s.ok()) return s;
  const bool ok = out->use(q8 ? kernels::select(s8, in.storage, in.isa) : kernels::select(f32, kernels::Storage::kS8, in.isa));
  if (!ok) return refuse(in, Code::kUnsupported);
  return half ? add_half_scratch(in, *p, out) : Status{};
}

// Calls f(first element of the image in x, the same in y, first row, end row, slot) for every image of a task.
template <class F> void for_each_image(const RunContext& ctx, const PoolParams& p, const F& f) {
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t slot) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t i = t.outer_begin; i < t.outer_end; ++i) f(i * p.image_in, i * p.image_out, t.inner_begin, t.inner_end, slot);
  });
}

// Output row oh by itself: the input rows under its window are the image, the rest of the window is padding. The rows that a mean
// counts stay the same, but for a window without any input, whose mean is 0 in any case.
struct HalfRow {
  PoolGeometry g;
  uint32_t first;  // input row

  HalfRow(const PoolParams& p, uint32_t oh) : g(p.g) {
    const int32_t from = static_cast<int32_t>(oh * p.g.stride_h) - static_cast<int32_t>(p.g.pad_top);
    const int32_t to = from + static_cast<int32_t>(p.half_rows), size = static_cast<int32_t>(p.g.in_h);
    const int32_t begin = from < 0 ? 0 : from < size ? from : size, end = to < begin ? begin : to < size ? to : size;
    first = static_cast<uint32_t>(begin);
    g.in_h = static_cast<uint32_t>(end - begin);
    g.pad_top = from < 0 ? static_cast<uint32_t>(-from) : 0;
    g.out_h = 1;
  }
};

// Calls pool(row, floats in, floats out) for every output row of halves.
template <class F> void run_half(const RunContext& ctx, const BoundStep& step, const PoolParams& p, const F& pool) {
  const HalfKernels half(ctx, step);
  const uint32_t in_row = p.g.in_w * p.g.c, out_row = p.g.out_w * p.g.c;
  for_each_image(ctx, p, [&](uint32_t xi, uint32_t yi, uint32_t begin, uint32_t end, uint32_t slot) {
    auto* wide = reinterpret_cast<float*>(ctx.scratch(step) + static_cast<size_t>(slot) * p.slot_bytes);
    float* result = wide + p.result_at;
    for (uint32_t oh = begin; oh < end; ++oh) {
      const HalfRow row(p, oh);
      half.widen({ctx.in<uint16_t>(step, 0) + xi + static_cast<size_t>(row.first) * in_row, wide, row.g.in_h * in_row});
      pool(row, wide, result);
      half.narrow({result, ctx.out<uint16_t>(step, 0) + yi + static_cast<size_t>(oh) * out_row, out_row});
    }
  });
}

}  // namespace

Status prepare_MaxPool2d(const PrepareInput& in, Prepared* out) {
  PoolParams* p = nullptr;
  if (const Status s = prepare_pool(in, Family::kMaxPoolF32, Family::kMaxPoolS8, out, &p); !s.ok()) return s;
  if (p->quantized != 0 && !same_bytes(in, 0)) return unsupported_operand(in, in.out());
  p->lowest = in.quant(in.out()).qmin;
  return {};
}

void run_MaxPool2d(const RunContext& ctx, const BoundStep& step) {
  const PoolParams& p = ctx.params<PoolParams>(step);
  if (p.quantized != 0) {
    const auto kernel = ctx.kernel<kernels::MaxPoolS8Fn>(step);
    for_each_image(ctx, p, [&](uint32_t xi, uint32_t yi, uint32_t begin, uint32_t end, uint32_t) {
      kernel({p.g, ctx.in<uint8_t>(step, 0) + xi, ctx.out<uint8_t>(step, 0) + yi, begin, end, p.lowest});
    });
  } else if (p.half_rows != 0) {
    const auto kernel = ctx.kernel<kernels::MaxPoolF32Fn>(step);
    run_half(ctx, step, p, [&](const HalfRow& row, const float* x, float* y) { kernel({row.g, x, y, 0, 1}); });
  } else {
    const auto kernel = ctx.kernel<kernels::MaxPoolF32Fn>(step);
    for_each_image(ctx, p, [&](uint32_t xi, uint32_t yi, uint32_t begin, uint32_t end, uint32_t) {
      kernel({p.g, ctx.in<float>(step, 0) + xi, ctx.out<float>(step, 0) + yi, begin, end});
    });
  }
}

Status prepare_AvgPool2d(const PrepareInput& in, Prepared* out) {
  PoolParams* p = nullptr;
  if (const Status s = prepare_pool(in, Family::kAvgPoolF32, Family::kAvgPoolS8, out, &p); !s.ok()) return s;
  return p->quantized != 0 ? prepare_counts(in, p) : Status{};
}

void run_AvgPool2d(const RunContext& ctx, const BoundStep& step) {
  const PoolParams& p = ctx.params<PoolParams>(step);
  if (p.quantized != 0) {
    const auto kernel = ctx.kernel<kernels::AvgPoolS8Fn>(step);
    for_each_image(ctx, p, [&](uint32_t xi, uint32_t yi, uint32_t begin, uint32_t end, uint32_t) {
      kernel({p.g, p.rule, ctx.in<uint8_t>(step, 0) + xi, ctx.out<uint8_t>(step, 0) + yi, begin, end, &p.avg});
    });
  } else if (p.half_rows != 0) {
    const auto kernel = ctx.kernel<kernels::AvgPoolF32Fn>(step);
    run_half(ctx, step, p, [&](const HalfRow& row, const float* x, float* y) { kernel({row.g, p.rule, x, y, 0, 1}); });
  } else {
    const auto kernel = ctx.kernel<kernels::AvgPoolF32Fn>(step);
    for_each_image(ctx, p, [&](uint32_t xi, uint32_t yi, uint32_t begin, uint32_t end, uint32_t) {
      kernel({p.g, p.rule, ctx.in<float>(step, 0) + xi, ctx.out<float>(step, 0) + yi, begin, end});
    });
  }
}

}  // namespace lathe
