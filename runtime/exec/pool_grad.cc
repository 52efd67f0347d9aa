// Gradients of MaxPool2d and AvgPool2d: x and dy give dx. A maximum's gradient goes to the first tap that holds it, an
// average's to all taps that it counts. One task per image, so that no two tasks add to one element.
#include "kernels/pool/pool.h"
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

using kernels::PoolGeometry;

struct PoolGradParams {
  PoolGeometry g;
  kernels::CountRule rule;
  uint32_t images;
};

// Output positions along an axis as MaxPool2d and AvgPool2d count them.
bool axis_fits(int64_t in, int64_t out, const Pool2dAttrs& a, uint32_t i) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t kernel = a.kernel[i], stride = a.stride[i], dilation = a.dilation[i], before = a.pad[i], after = a.pad[2 + i];
  const int64_t positive[] = {in, out, kernel, stride, dilation, before + 1, after + 1};
  for (const int64_t v : positive)
    if (v < 1 || v > kMost) return false;
  const int64_t window = dilation * (kernel - 1) + 1, padded = in + before + after;
  if (window > padded || out * stride + window > int64_t{1} << 30) return false;
  const int64_t whole = (padded - window) / stride + 1;
  return out == whole || (a.ceil_mode != 0 && (padded - window) % stride != 0 && out == whole + 1);
}

Status prepare_grad(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<Pool2dAttrs>(*in.step);
  const Shape &x = in.shape(0), &dy = in.shape(1), &dx = in.shape(in.out());
  const uint32_t operands[] = {0, 1, in.out()};
  for (const uint32_t i : operands)
    if (!is_f32(in, i)) return unsupported_operand(in, i);
  if (x.rank != 4 || dy.rank != 4 || !(x == dx) || x[0] != dy[0] || x[3] != dy[3])
    return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, 1));
  for (uint32_t i = 0; i < 2; ++i)
    if (!axis_fits(x[1 + i], dy[1 + i], a, i))
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x[1 + i]), static_cast<uint32_t>(dy[1 + i]));
  const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
  auto& p = out->make<PoolGradParams>();
  p.g = {u(x[1]),        u(x[2]),        u(x[3]),          u(dy[1]),         u(dy[2]),    u(a.kernel[0]), u(a.kernel[1]),
         u(a.stride[0]), u(a.stride[1]), u(a.dilation[0]), u(a.dilation[1]), u(a.pad[0]), u(a.pad[1])};
  p.rule = {a.count_pad != 0 ? 1u : 0u, u(a.pad[2]), u(a.pad[3])};
  p.images = u(x[0]);
  out->exact_input_mask = 3;
  return {};
}

// A window: its taps inside x, and the position of the first of all its taps.
struct GradWindow {
  int32_t top, left;
  kernels::TapRange rows, cols;
};
GradWindow window_at(const PoolGeometry& g, uint32_t oh, uint32_t ow) {
  const int32_t top = static_cast<int32_t>(oh * g.stride_h) - static_cast<int32_t>(g.pad_top);
  const int32_t left = static_cast<int32_t>(ow * g.stride_w) - static_cast<int32_t>(g.pad_left);
  return {top, left, kernels::taps_inside(top, g.kernel_h, g.dilation_h, g.in_h),
          kernels::taps_inside(left, g.kernel_w, g.dilation_w, g.in_w)};
}

// Calls f(element of the tap's first channel) for a window's taps inside x.
template <class F> void each_tap(const PoolGeometry& g, const GradWindow& w, const F& f) {
  for (uint32_t i = w.rows.first; i < w.rows.last; ++i) {
    for (uint32_t j = w.cols.first; j < w.cols.last; ++j) {
      const int32_t row = w.top + static_cast<int32_t>(i * g.dilation_h), col = w.left + static_cast<int32_t>(j * g.dilation_w);
      f((static_cast<uint32_t>(row) * g.in_w + static_cast<uint32_t>(col)) * g.c);
    }
  }
}

// Zeroes dx, then calls f(window, oh, ow, x, dy of the window, dx) for all windows of all images.
template <class F> void each_window(const RunContext& ctx, const BoundStep& step, const F& f) {
  const PoolGradParams& p = ctx.params<PoolGradParams>(step);
  const PoolGeometry& g = p.g;
  const size_t image_in = static_cast<size_t>(g.in_h) * g.in_w * g.c, image_out = static_cast<size_t>(g.out_h) * g.out_w * g.c;
  ctx.parallel(p.images, [&](uint32_t image, uint32_t) {
    const float *x = ctx.in<float>(step, 0) + image * image_in, *dy = ctx.in<float>(step, 1) + image * image_out;
    float* dx = ctx.out<float>(step, 0) + image * image_in;
    for (size_t i = 0; i < image_in; ++i) dx[i] = 0;
    for (uint32_t oh = 0; oh < g.out_h; ++oh)
      for (uint32_t ow = 0; ow < g.out_w; ++ow, dy += g.c) f(window_at(g, oh, ow), oh, ow, x, dy, dx);
  });
}

}  // namespace

Status prepare_MaxPool2dGrad(const PrepareInput& in, Prepared* out) { return prepare_grad(in, out); }
Status prepare_AvgPool2dGrad(const PrepareInput& in, Prepared* out) { return prepare_grad(in, out); }

void run_MaxPool2dGrad(const RunContext& ctx, const BoundStep& step) {
  const PoolGeometry& g = ctx.params<PoolGradParams>(step).g;
  each_window(ctx, step, [&](const GradWindow& w, uint32_t, uint32_t, const float* x, const float* dy, float* dx) {
    for (uint32_t c = 0; c < g.c; ++c) {
      constexpr uint32_t kNone = 0xffffffff;
      uint32_t best = kNone;
      each_tap(g, w, [&](uint32_t at) {
        const float v = x[at + c];
        if (v == v && (best == kNone || v > x[best + c])) best = at;
      });
      if (best != kNone) dx[best + c] += dy[c];
    }
  });
}

void run_AvgPool2dGrad(const RunContext& ctx, const BoundStep& step) {
  const PoolGradParams& p = ctx.params<PoolGradParams>(step);
  each_window(ctx, step, [&](const GradWindow& w, uint32_t oh, uint32_t ow, const float*, const float* dy, float* dx) {
    const uint32_t count = kernels::counted_rows(p.g, p.rule, oh) * kernels::counted_columns(p.g, p.rule, ow);
    if (count == 0) return;
    const float share = 1.0f / static_cast<float>(count);
    each_tap(p.g, w, [&](uint32_t at) {
      for (uint32_t c = 0; c < p.g.c; ++c) dx[at + c] += dy[c] * share;
    });
  });
}

}  // namespace lathe
