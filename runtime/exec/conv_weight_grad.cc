// Conv2dWeightGrad: dw[o][p][q][i] = sum over images and output pixels of dy[.., o] x[.., i], x at the input pixel that tap (p,
// q) reads there.
//
// For one tap and image it is a product of matrices: dy^T [oc][pixels] times x's pixels [pixels][ic], both read in place
// (kernels/gemm_tn); pixels whose tap lies in the padding are left out. 3x3 kernels of stride 1 go by tiles instead
// (conv_winograd_grad.cc). A task adds up some rows of one chunk of images; then the chunks are added in order.
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_tn/gemm_tn.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/conv_weight_grad.h"

namespace lathe {
namespace {

constexpr uint32_t kX = kWeightGradX, kDy = kWeightGradDy;
// Rows of a task's sums.
constexpr uint32_t kTaskRows = 64, kWinogradTaskRows = 128;

constexpr uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Outputs [begin, end) along an axis whose tap `t` lies inside the input.
struct Inside {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
};
Inside inside(const ConvAxis& a, uint32_t t) {
  const int32_t shift = static_cast<int32_t>(t * a.dilation) - static_cast<int32_t>(a.pad);
  const uint32_t begin = shift >= 0 ? 0 : ceil_div(static_cast<uint32_t>(-shift), a.stride);
  const int32_t room = static_cast<int32_t>(a.in) - shift;  // outputs o with o * stride < room
  const uint32_t end = room <= 0 ? 0 : smaller(ceil_div(static_cast<uint32_t>(room), a.stride), a.out);
  return {begin, end < begin ? begin : end};
}

Status check_axis(const PrepareInput& in, const Conv2dWeightGradAttrs& a, uint32_t i, ConvAxis* axis) {
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
  *axis = {u(size), u(out), u(kernel), u(stride), u(dilation), u(before), 0, 0};
  return {};
}

Status set_geometry(const PrepareInput& in, const Conv2dWeightGradAttrs& a, WeightGradParams* p) {
  const Shape &x = in.shape(kX), &dy = in.shape(kDy), &dw = in.shape(in.out());
  if (x.rank != 4 || dy.rank != 4 || dw.rank != 4) return refuse(in, Code::kCorrupt, 4, x.rank);
  if (a.groups < 1 || x[0] < 1 || x[3] < 1 || dy[3] < 1 || x[3] % a.groups != 0 || dy[3] % a.groups != 0 || x[0] != dy[0])
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

// The vectors that rows of n elements take, m of them.
constexpr uint64_t vectors(uint32_t m, uint32_t n) { return static_cast<uint64_t>(m) * ceil_div(n, 16); }

bool by_tiles(const WeightGradParams& p) {
  const ConvAxis axes[] = {p.h, p.w};
  for (const ConvAxis& a : axes)
    if (a.kernel != 3 || a.stride != 1 || a.dilation != 1 || a.pad > 2) return false;
  return p.groups == 1 && winograd_pays(p.ic, p.oc, p.h.out, p.w.out);
}

Status cut_tasks(const PrepareInput& in, WeightGradParams* p, Prepared* out) {
  p->winograd = by_tiles(*p) ? 1 : 0;
  p->swapped = p->winograd == 0 && vectors(p->icg, p->ocg) < vectors(p->ocg, p->icg) ? 1 : 0;
  const uint64_t sums =
      static_cast<uint64_t>(p->winograd != 0 ? kernels::kWinogradPoints : p->h.kernel * p->w.kernel) * p->oc * p->icg;
  if (sums > 0x7fffffff / 8) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(sums >> 10));
  const uint64_t most = sums == 0 || kMaxSums / sums == 0 ? 1 : kMaxSums / sums;
  const uint32_t chunks = smaller(smaller(p->images, kMaxChunks), most < kMaxChunks ? static_cast<uint32_t>(most) : kMaxChunks);
  p->chunk_images = ceil_div(p->images, chunks);
  p->chunks = ceil_div(p->images, p->chunk_images);
  p->chunk_elems = static_cast<uint32_t>(sums);
  const uint32_t rows = p->winograd != 0 ? p->oc : p->swapped != 0 ? p->icg : p->ocg;
  p->rows = smaller(rows, p->winograd != 0 ? kWinogradTaskRows : kTaskRows);
  p->row_tasks = ceil_div(rows, p->rows);
  uint64_t scratch = static_cast<uint64_t>(p->chunks) * sums * 4 + 64;
  if (p->winograd != 0) {
    const uint32_t tiles = weight_grad_grid(*p).block_tiles();
    const uint64_t widest = static_cast<uint64_t>(tiles) * (p->ic > p->rows ? p->ic : p->rows);
    if (widest > 0x7fffffff / (8 * kernels::kWinogradPoints))
      return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(widest >> 10));
    p->slots_at = kernels::round_up(static_cast<uint32_t>(scratch), 64);
    p->slot_bytes = 4 * kernels::kWinogradPoints * (point_step(tiles, p->ic) + point_step(tiles, p->rows));
    scratch = p->slots_at + static_cast<uint64_t>(p->slot_bytes) * (in.threads > 1 ? in.threads : 1);
  }
  if (scratch > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(scratch >> 10));
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

class Runner {
 public:
  Runner(const RunContext& ctx, const BoundStep& step)
      : p_(ctx.params<WeightGradParams>(step)),
        product_(ctx.kernel<kernels::GemmTnF32Fn>(step)),
        x_(ctx.in<float>(step, kX)),
        dy_(ctx.in<float>(step, kDy)),
        dw_(ctx.out<float>(step, 0)),
        sums_(reinterpret_cast<float*>(ctx.scratch(step))) {}

  // Rows of the sums of one group and chunk.
  void task(uint32_t index) const {
    const uint32_t block = index % p_.row_tasks, group = index / p_.row_tasks % p_.groups,
                   chunk = index / p_.row_tasks / p_.groups;
    const uint32_t m = p_.swapped != 0 ? p_.icg : p_.ocg, n = p_.swapped != 0 ? p_.ocg : p_.icg;
    const uint32_t first = block * p_.rows, count = smaller(m - first, p_.rows), taps = p_.h.kernel * p_.w.kernel;
    float* sums = sums_ + static_cast<size_t>(chunk) * p_.chunk_elems + (static_cast<size_t>(group) * taps * m + first) * n;
    for (uint32_t t = 0; t < taps; ++t)
      for (uint32_t e = 0; e < count * n; ++e) sums[static_cast<size_t>(t) * m * n + e] = 0;
    const uint32_t begin = chunk * p_.chunk_images, end = smaller(p_.images, begin + p_.chunk_images);
    for (uint32_t image = begin; image < end; ++image)
      for (uint32_t t = 0; t < taps; ++t) add(image, group, t, first, count, sums + static_cast<size_t>(t) * m * n);
  }

  // Channel o of dw: the chunks in order.
  void finish(uint32_t o) const {
    const uint32_t taps = p_.h.kernel * p_.w.kernel, group = o / p_.ocg, of_group = o % p_.ocg;
    const size_t per_tap = static_cast<size_t>(p_.icg) * p_.ocg, group_at = static_cast<size_t>(group) * taps * per_tap;
    const size_t row_at = p_.swapped != 0 ? of_group : static_cast<size_t>(of_group) * p_.icg,
                 step = p_.swapped != 0 ? p_.ocg : 1;
    float* dw = dw_ + static_cast<size_t>(o) * taps * p_.icg;
    for (uint32_t t = 0; t < taps; ++t, dw += p_.icg) {
      const float* from = sums_ + group_at + t * per_tap + row_at;
      for (uint32_t i = 0; i < p_.icg; ++i) dw[i] = from[i * step];
      for (uint32_t chunk = 1; chunk < p_.chunks; ++chunk) {
        from += p_.chunk_elems;
        for (uint32_t i = 0; i < p_.icg; ++i) dw[i] += from[i * step];
      }
    }
  }

 private:
  void add(uint32_t image, uint32_t group, uint32_t tap, uint32_t first, uint32_t count, float* sums) const {
    const uint32_t row = tap / p_.w.kernel, col = tap % p_.w.kernel;
    const Inside rows = inside(p_.h, row), cols = inside(p_.w, col);
    if (rows.size() == 0 || cols.size() == 0) return;
    const uint32_t in_row = rows.begin * p_.h.stride + row * p_.h.dilation - p_.h.pad;
    const uint32_t in_col = cols.begin * p_.w.stride + col * p_.w.dilation - p_.w.pad;
    const float* x = x_ + ((static_cast<size_t>(image) * p_.h.in + in_row) * p_.w.in + in_col) * p_.ic + group * p_.icg;
    const float* dy =
        dy_ + ((static_cast<size_t>(image) * p_.h.out + rows.begin) * p_.w.out + cols.begin) * p_.oc + group * p_.ocg;
    const uint32_t x_row = p_.h.stride * p_.w.in * p_.ic, x_col = p_.w.stride * p_.ic, dy_row = p_.w.out * p_.oc;
    kernels::GemmTnF32Args g{.a = dy + first,
                             .b = x,
                             .y = sums,
                             .rows = rows.size(),
                             .cols = cols.size(),
                             .a_row_step = dy_row,
                             .a_col_step = p_.oc,
                             .b_row_step = x_row,
                             .b_col_step = x_col,
                             .m = count,
                             .n = p_.icg,
                             .y_step = p_.icg,
                             .add = 1};
    if (p_.swapped != 0)
      g = {.a = x + first,
           .b = dy,
           .y = sums,
           .rows = rows.size(),
           .cols = cols.size(),
           .a_row_step = x_row,
           .a_col_step = x_col,
           .b_row_step = dy_row,
           .b_col_step = p_.oc,
           .m = count,
           .n = p_.ocg,
           .y_step = p_.ocg,
           .add = 1};
    product_(g);
  }

  const WeightGradParams& p_;
  kernels::GemmTnF32Fn product_;
  const float *x_, *dy_;
  float *dw_, *sums_;
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
  out->exact_input_mask = 3;
  const auto pick = [&](kernels::Family f) { return out->use(kernels::select(f, kernels::Storage::kS8, in.isa)); };
  bool ok = pick(kernels::Family::kGemmTnF32);
  if (p.winograd != 0) ok = ok && pick(kernels::Family::kWinogradInputF32) && pick(kernels::Family::kWinogradGradientF32);
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Conv2dWeightGrad(const RunContext& ctx, const BoundStep& step) {
  const WeightGradParams& p = ctx.params<WeightGradParams>(step);
  if (p.winograd != 0) {
    ctx.parallel(p.chunks * p.row_tasks,
                 [&](uint32_t task, uint32_t slot) { winograd_weight_grad_task(ctx, step, p, task, slot); });
    return ctx.parallel(p.oc, [&](uint32_t o, uint32_t) { winograd_weight_grad_finish(ctx, step, p, o); });
  }
  const Runner runner(ctx, step);
  ctx.parallel(p.chunks * p.groups * p.row_tasks, [&](uint32_t task, uint32_t) { runner.task(task); });
  ctx.parallel(p.oc, [&](uint32_t o, uint32_t) { runner.finish(o); });
}

}  // namespace lathe
