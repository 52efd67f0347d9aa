// Mean over axes. One reduced run of neighbouring axes goes straight to the kernel; scattered axes are first brought together
// in scratch.
#include "kernels/pool/pool.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/nd_copy.h"

namespace lathe {
namespace {

using kernels::Family;

// The input as [outer][k][inner] (inner 1: rows of k contiguous values), means over k. Of scattered axes that is the scratch
// copy.
struct MeanParams {
  uint32_t quantized, rearranged;
  uint32_t k, inner;
  Split split;  // outer: outer, inner: inner
  kernels::MeanConstants q8;
  NdCopy copy;
};

constexpr uint32_t kMeanKernel = 0, kCopyKernel = 1;

// Neighbouring axes of the input that are all reduced or all kept, dims of 1 dropped.
struct Group {
  uint32_t size;
  bool reduced;
};

uint32_t group_axes(const Shape& x, const bool* reduced, Group* groups) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < x.rank; ++i) {
    const uint32_t size = static_cast<uint32_t>(x.dims[i]);
    if (size == 1) continue;
    if (count > 0 && groups[count - 1].reduced == reduced[i]) groups[count - 1].size *= size;
    else groups[count++] = {size, reduced[i]};
  }
  return count;
}

// Kept groups first, then reduced ones: a copy to [kept][reduced] in scratch.
Family prepare_rearrangement(const Group* groups, uint32_t count, uint32_t bytes, uint32_t threads, MeanParams* p) {
  uint32_t x_stride[kMaxRank];
  uint32_t stride = bytes;
  for (uint32_t i = count; i-- > 0;) {
    x_stride[i] = stride;
    stride *= groups[i].size;
  }
  CopyDim dims[kMaxRank];
  uint32_t order[kMaxRank], at = 0;
  const bool passes[] = {false, true};
  for (const bool reduced : passes) {
    for (uint32_t i = 0; i < count; ++i) {
      if (groups[i].reduced == reduced) order[at++] = i;
    }
  }
  uint32_t y_stride = bytes;
  for (uint32_t j = count; j-- > 0;) {
    dims[j] = {groups[order[j]].size, static_cast<int32_t>(x_stride[order[j]]), static_cast<int32_t>(y_stride)};
    y_stride *= groups[order[j]].size;
  }
  return nd_copy_prepare(dims, count, bytes, threads, &p->copy);
}

Status read_axes(const PrepareInput& in, bool* reduced) {
  const ReduceAttrs a = in.program->attrs<ReduceAttrs>(*in.step);
  const Shape& x = in.shape(0);
  for (int32_t i = 0; i < a.axes.count; ++i) {
    const uint32_t axis = static_cast<uint32_t>(a.axes[i]);
    if (axis >= x.rank || reduced[axis]) return refuse(in, Code::kInvalidArgument, x.rank, axis);
    reduced[axis] = true;
  }
  return {};
}

Status prepare_q8(const PrepareInput& in, MeanParams* p) {
  const QuantParams x = in.quant(0), y = in.quant(in.out());
  if (p->k >= 1u << 23) return refuse(in, Code::kUnsupported, 1u << 23, p->k);  // 255 k < 2^31
  if (!round_multiplier(static_cast<double>(x.scale) / (static_cast<double>(y.scale) * p->k), &p->q8.m))
    return refuse(in, Code::kInvalidArgument);
  p->q8.x_zero = x.zero_point;
  p->q8.zero_point = y.zero_point;
  p->q8.lo = y.qmin;
  p->q8.hi = y.qmax;
  return {};
}

}  // namespace

Status prepare_Mean(const PrepareInput& in, Prepared* out) {
  MeanParams& p = out->make<MeanParams>();
  const bool q8 = is_q8_in_storage(in, 0) && is_q8(in, in.out());
  if (!q8 && !(is_f32(in, 0) && is_f32(in, in.out()))) return unsupported_operand(in, 0);
  bool reduced[kMaxRank] = {};
  if (const Status s = read_axes(in, reduced); !s.ok()) return s;
  Group groups[kMaxRank];
  const uint32_t count = group_axes(in.shape(0), reduced, groups);
  uint32_t kept = 1, runs = 0, run_at = 0;
  p.k = 1;
  for (uint32_t i = 0; i < count; ++i) {
    if (groups[i].reduced) {
      p.k *= groups[i].size;
      run_at = i;
      ++runs;
    } else {
      kept *= groups[i].size;
    }
  }
  if (kept != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, kept, elems(in, in.out()));
  if (p.k == 0) return refuse(in, Code::kInvalidArgument, 1, 0);
  uint32_t outer = kept;
  p.inner = 1;
  if (runs <= 1) {
    for (uint32_t i = run_at + 1; i < count && runs == 1; ++i) p.inner *= groups[i].size;
    outer = kept == 0 ? 0 : kept / p.inner;
  }
  p.quantized = q8 ? 1 : 0;
  out->exact_input_mask = 1;
  p.rearranged = runs > 1 ? 1 : 0;
  p.split = split_work(outer, p.inner, elems(in, 0), in.threads, 16);
  bool ok = out->use(q8 ? kernels::select(Family::kMeanS8, in.storage, in.isa)
                        : kernels::select(Family::kMeanF32, kernels::Storage::kS8, in.isa));
  if (runs > 1) {
    const Family family = prepare_rearrangement(groups, count, elem_bytes(in, 0), in.threads, &p);
    ok = out->use(kernels::select(family, kernels::Storage::kS8, in.isa)) && ok;
    out->scratch_bytes = elems(in, 0) * elem_bytes(in, 0);
  }
  if (!ok) return refuse(in, Code::kUnsupported);
  return q8 ? prepare_q8(in, &p) : Status{};
}

namespace {

// f(first value, first mean, means, distance of means, distance of values) for every kernel call of a task.
template <class F> void for_each_block(const MeanParams& p, uint32_t task, const F& f) {
  const TaskRange t = task_range(p.split, task);
  if (p.inner == 1) {
    f(t.outer_begin * p.k, t.outer_begin, t.outer_end - t.outer_begin, p.k, 1u);
    return;
  }
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
    f(o * p.k * p.inner + t.inner_begin, o * p.inner + t.inner_begin, t.inner_end - t.inner_begin, 1u, p.inner);
  }
}

}  // namespace

void run_Mean(const RunContext& ctx, const BoundStep& step) {
  const MeanParams& p = ctx.params<MeanParams>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  if (p.rearranged != 0) {
    nd_copy_run(ctx, p.copy, ctx.kernel<kernels::AnyFn>(step, kCopyKernel), x, ctx.scratch(step));
    x = ctx.scratch(step);
  }
  if (p.quantized != 0) {
    const auto kernel = ctx.kernel<kernels::MeanS8Fn>(step, kMeanKernel);
    uint8_t* y = ctx.out<uint8_t>(step, 0);
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      for_each_block(p, task, [&](uint32_t xi, uint32_t yi, uint32_t n, uint32_t distance, uint32_t k_step) {
        kernel({x + xi, y + yi, n, p.k, distance, k_step, p.q8});
      });
    });
  } else {
    const auto kernel = ctx.kernel<kernels::MeanF32Fn>(step, kMeanKernel);
    const float* values = reinterpret_cast<const float*>(x);
    float* y = ctx.out<float>(step, 0);
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      for_each_block(p, task, [&](uint32_t xi, uint32_t yi, uint32_t n, uint32_t distance, uint32_t k_step) {
        kernel({values + xi, y + yi, n, p.k, distance, k_step});
      });
    });
  }
}

}  // namespace lathe
