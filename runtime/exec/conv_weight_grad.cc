// Conv2dWeightGrad: dw[o][p][q][i] = sum over images and output pixels of dy[.., o] x[.., i], x at the input pixel that tap (p,
// q) reads there.
//
// For one tap it is a product of matrices: dy^T [oc][pixels] times x's pixels [pixels][ic]. dy is transposed once; a task takes a
// tap and a range of input channels, packs x's pixels as the segment GEMM's panels, some rows of output at a time, and adds their
// product to sums of its own (the GEMM's residual, which kernels may read past the end of, so that it cannot be dw). Pixels whose tap lies in the padding are left out. Tasks are the same
// whatever the number of threads, and so are the sums.
#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/layout/layout.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::kGemmPanel;
using kernels::round_up;

constexpr uint32_t kX = 0, kDy = 1;
constexpr uint32_t kGemmKernel = 0, kPackKernel = 1, kTransposeKernel = 2;
// Channels of a task, and packed bytes that stay near.
constexpr uint32_t kBlockChannels = 64, kPackedBytes = 131072;

struct GradAxis {
  uint32_t in, out, kernel, stride, dilation, pad;
};
struct WeightGradParams {
  GradAxis h, w;
  uint32_t images, groups, ic, oc, icg, ocg;
  uint32_t block_channels, channel_tasks, block_rows;
  uint32_t slots_at, slot_bytes, sums_at;  // scratch: dy transposed, then the slots' panels, with the sums in each at sums_at
};

constexpr uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Outputs [begin, end) along an axis whose tap `t` lies inside the input.
struct Inside {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
};
Inside inside(const GradAxis& a, uint32_t t) {
  const int32_t shift = static_cast<int32_t>(t * a.dilation) - static_cast<int32_t>(a.pad);
  const uint32_t begin = shift >= 0 ? 0 : ceil_div(static_cast<uint32_t>(-shift), a.stride);
  const int32_t room = static_cast<int32_t>(a.in) - shift;  // outputs o with o * stride < room
  const uint32_t end = room <= 0 ? 0 : smaller(ceil_div(static_cast<uint32_t>(room), a.stride), a.out);
  return {begin, end < begin ? begin : end};
}

Status check_axis(const PrepareInput& in, const Conv2dWeightGradAttrs& a, uint32_t i, GradAxis* axis) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t size = in.shape(kX)[1 + i], out = in.shape(kDy)[1 + i], kernel = a.kernel[i], stride = a.stride[i],
                dilation = a.dilation[i], before = a.pad[i], after = a.pad[2 + i];
  const int64_t positive[] = {size, out, kernel, stride, dilation};
  for (const int64_t v : positive)
    if (v < 1 || v > kMost) return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(v));
  const int64_t extent = (kernel - 1) * dilation + 1, padded = size + before + after;
  if (before < 0 || after < 0 || before > kMost || after > kMost || extent > padded || (padded - extent) / stride + 1 != out)
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(out), static_cast<uint32_t>(padded));
  const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
  *axis = {u(size), u(out), u(kernel), u(stride), u(dilation), u(before)};
  return {};
}

Status set_geometry(const PrepareInput& in, const Conv2dWeightGradAttrs& a, WeightGradParams* p) {
  const Shape &x = in.shape(kX), &dy = in.shape(kDy), &dw = in.shape(in.out());
  if (x.rank != 4 || dy.rank != 4 || dw.rank != 4) return refuse(in, Code::kCorrupt, 4, x.rank);
  if (a.groups < 1 || x[3] < 1 || dy[3] < 1 || x[3] % a.groups != 0 || dy[3] % a.groups != 0 || x[0] != dy[0])
    return refuse(in, Code::kCorrupt, static_cast<uint32_t>(x[3]), static_cast<uint32_t>(dy[3]));
  if (dw[0] != dy[3] || dw[1] != a.kernel[0] || dw[2] != a.kernel[1] || dw[3] != x[3] / a.groups)
    return refuse(in, Code::kCorrupt, static_cast<uint32_t>(dy[3]), static_cast<uint32_t>(dw[0]));
  if (const Status s = check_axis(in, a, 0, &p->h); !s.ok()) return s;
  if (const Status s = check_axis(in, a, 1, &p->w); !s.ok()) return s;
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  p->images = u(x[0]);
  p->groups = u(a.groups);
  p->ic = u(x[3]);
  p->oc = u(dy[3]);
  p->icg = p->ic / p->groups;
  p->ocg = p->oc / p->groups;
  return {};
}

Status cut_tasks(const PrepareInput& in, WeightGradParams* p, Prepared* out) {
  p->block_channels = smaller(round_up(p->icg, kGemmPanel), kBlockChannels);
  p->channel_tasks = ceil_div(p->icg, p->block_channels);
  const uint32_t row_bytes = 4 * p->block_channels * p->w.out;  // at most 2^28
  p->block_rows = smaller(kPackedBytes / row_bytes == 0 ? 1 : kPackedBytes / row_bytes, p->h.out);
  const uint64_t transposed = static_cast<uint64_t>(elems(in, kDy)) * 4 + 64;
  const uint64_t panels = static_cast<uint64_t>(row_bytes) * p->block_rows + 64;
  const uint64_t sums = static_cast<uint64_t>(p->ocg) * p->block_channels * 4 + 64, slot = panels + 64 + sums;
  const uint64_t scratch = transposed + 64 + (slot + 64) * (in.threads > 1 ? in.threads : 1);
  if (scratch > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(scratch >> 10));
  p->slots_at = round_up(static_cast<uint32_t>(transposed), 64);
  p->slot_bytes = round_up(static_cast<uint32_t>(slot), 64);
  p->sums_at = round_up(static_cast<uint32_t>(panels), 64);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

struct GradTask {
  uint32_t group, row, col, channel, channels;  // tap (row, col); channel of the group
};

GradTask task_at(const WeightGradParams& p, uint32_t index) {
  GradTask t{};
  t.channel = index % p.channel_tasks * p.block_channels;
  t.channels = smaller(p.icg - t.channel, p.block_channels);
  index /= p.channel_tasks;
  t.col = index % p.w.kernel;
  index /= p.w.kernel;
  t.row = index % p.h.kernel;
  t.group = index / p.h.kernel;
  return t;
}

// Pixels of x that outputs [row, row + rows) x cols of an image read, as panels [16 channels][rows][cols].
void pack_pixels(const WeightGradParams& p, kernels::GemmPackF32Fn pack, const GradTask& t, const float* image, uint32_t row,
                 uint32_t rows, const Inside& cols, float* packed) {
  const uint32_t first = cols.begin * p.w.stride + t.col * p.w.dilation - p.w.pad;
  for (uint32_t c = 0; c < t.channels; c += kGemmPanel) {
    for (uint32_t r = 0; r < rows; ++r, packed += static_cast<size_t>(cols.size()) * kGemmPanel) {
      const uint32_t at = (row + r) * p.h.stride + t.row * p.h.dilation - p.h.pad;
      pack({image + (static_cast<size_t>(at) * p.w.in + first) * p.ic + p.icg * t.group + t.channel + c, p.w.stride * p.ic, 1,
            cols.size(), smaller(t.channels - c, kGemmPanel), 1.0f, packed});
    }
  }
}

class Runner {
 public:
  Runner(const RunContext& ctx, const BoundStep& step)
      : p_(ctx.params<WeightGradParams>(step)),
        gemm_(ctx.kernel<kernels::GemmF32Fn>(step, kGemmKernel)),
        pack_(ctx.kernel<kernels::GemmPackF32Fn>(step, kPackKernel)),
        transpose_(ctx.kernel<kernels::TransposeFn>(step, kTransposeKernel)),
        x_(ctx.in<float>(step, kX)),
        dy_(ctx.in<float>(step, kDy)),
        dw_(ctx.out<float>(step, 0)),
        transposed_(reinterpret_cast<float*>(ctx.scratch(step))) {}

  void transpose(uint32_t image) const {
    const uint32_t pixels = p_.h.out * p_.w.out;
    const size_t at = static_cast<size_t>(image) * pixels * p_.oc;
    transpose_({dy_ + at, transposed_ + at, pixels, p_.oc, static_cast<int32_t>(p_.oc * 4), static_cast<int32_t>(pixels * 4), 4});
  }

  void task(const GradTask& t, float* packed) const {
    float* dw = dw_ + ((static_cast<size_t>(t.group) * p_.ocg * p_.h.kernel + t.row) * p_.w.kernel + t.col) * p_.icg + t.channel;
    const Inside rows = inside(p_.h, t.row), cols = inside(p_.w, t.col);
    float* sums = packed + p_.sums_at / 4;
    bool first = true;
    for (uint32_t image = 0; image < p_.images && cols.size() != 0; ++image) {
      for (uint32_t row = rows.begin; row < rows.end; row += p_.block_rows) {
        add(t, image, row, smaller(p_.block_rows, rows.end - row), cols, first, sums, packed);
        first = false;
      }
    }
    for (uint32_t o = 0; o < p_.ocg; ++o)
      for (uint32_t i = 0; i < t.channels; ++i)
        dw[static_cast<size_t>(o) * weight_step() + i] = first ? 0 : sums[static_cast<size_t>(o) * t.channels + i];
  }

 private:
  uint32_t weight_step() const { return p_.h.kernel * p_.w.kernel * p_.icg; }

  void add(const GradTask& t, uint32_t image, uint32_t row, uint32_t rows, const Inside& cols, bool first, float* sums,
           float* packed) const {
    const uint32_t pixels = p_.h.out * p_.w.out;
    pack_pixels(p_, pack_, t, x_ + static_cast<size_t>(image) * p_.h.in * p_.w.in * p_.ic, row, rows, cols, packed);
    const bool whole = cols.size() == p_.w.out;  // rows follow one another: one segment
    kernels::GemmF32Args g{};
    g.geo = kernels::gemm_f32_matrix(p_.ocg, t.channels, rows * cols.size(), pixels, t.channels);
    if (!whole) {
      g.geo.seg_rows = rows;
      g.geo.seg_k = cols.size();
      g.geo.a_seg_row_step = static_cast<int32_t>(p_.w.out);
      g.geo.w_seg_row_step = cols.size() * kGemmPanel;
    }
    g.a = transposed_ + (static_cast<size_t>(image) * p_.oc + t.group * p_.ocg) * pixels + row * p_.w.out + cols.begin;
    g.w = packed;
    g.y = sums;
    g.residual = first ? nullptr : sums;
    g.lo = -kInfinity;
    g.hi = kInfinity;
    gemm_(g);
  }

  const WeightGradParams& p_;
  kernels::GemmF32Fn gemm_;
  kernels::GemmPackF32Fn pack_;
  kernels::TransposeFn transpose_;
  const float *x_, *dy_;
  float *dw_, *transposed_;
};

}  // namespace

Status prepare_Conv2dWeightGrad(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<Conv2dWeightGradAttrs>(*in.step);
  const uint32_t operands[] = {kX, kDy, in.out()};
  for (const uint32_t i : operands)
    if (!is_f32(in, i)) return unsupported_operand(in, i);
  auto& p = out->make<WeightGradParams>();
  if (const Status s = set_geometry(in, attrs, &p); !s.ok()) return s;
  if (const Status s = cut_tasks(in, &p, out); !s.ok()) return s;
  const auto pick = [&](kernels::Family f) { return out->use(kernels::select(f, kernels::Storage::kS8, in.isa)); };
  const bool ok =
      pick(kernels::Family::kGemmF32) && pick(kernels::Family::kGemmPackF32) && pick(kernels::Family::kTranspose);
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Conv2dWeightGrad(const RunContext& ctx, const BoundStep& step) {
  const WeightGradParams& p = ctx.params<WeightGradParams>(step);
  const Runner runner(ctx, step);
  uint8_t* slots = ctx.scratch(step) + p.slots_at;
  ctx.parallel(p.images, [&](uint32_t image, uint32_t) { runner.transpose(image); });
  ctx.parallel(p.groups * p.h.kernel * p.w.kernel * p.channel_tasks, [&](uint32_t index, uint32_t slot) {
    runner.task(task_at(p, index), reinterpret_cast<float*>(slots + static_cast<size_t>(slot) * p.slot_bytes));
  });
}

}  // namespace lathe
