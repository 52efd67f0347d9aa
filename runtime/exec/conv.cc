#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/gemm.h"
#include "runtime/exec/conv_params.h"

namespace lathe {
namespace {

using kernels::kGemmPanel;

// The two element types: what a kernel call needs from the step's operands.
struct FloatPath {
  using T = float;
  using W = float;
  using GemmArgs = kernels::GemmF32Args;
  using GemmFn = kernels::GemmF32Fn;
  using DwArgs = kernels::DwConvF32Args;
  using DwFn = kernels::DwConvF32Fn;

  const float* bias;

  FloatPath(const RunContext& ctx, const BoundStep& s) : bias(ctx.in<float>(s, kConvBiasF32)) {}
  static const float* residual(const RunContext& ctx, const BoundStep& s) {
    return s.n_in > conv_residual(false) ? ctx.in<float>(s, conv_residual(false)) : nullptr;
  }
  // Packed elements of one segment of a panel.
  static uint32_t gemm_seg_elems(const ConvParams& p) { return kernels::gemm_f32_panel_elems(1, p.seg_k); }
  static uint32_t dw_panel_elems(const ConvParams& p) { return p.kh * p.kw * kGemmPanel; }
  // Everything that is the same for all calls of a step.
  template <class Args>
  static void set_constants(const ConvParams& p, Args* a) {
    a->lo = p.lo;
    a->hi = p.hi;
  }
  // Per-channel operands from channel c on (in the padded numbering).
  template <class Args>
  void set_channels(uint32_t c, Args* a) const {
    a->bias = bias == nullptr ? nullptr : bias + c;
  }
  static void fill(const ConvParams&, float* to, uint32_t n) { __builtin_memset(to, 0, n * sizeof(float)); }
};

struct QuantizedPath {
  using T = uint8_t;  // s8 or u8: kernels know
  using W = int8_t;
  using GemmArgs = kernels::GemmS8Args;
  using GemmFn = kernels::GemmS8Fn;
  using DwArgs = kernels::DwConvS8Args;
  using DwFn = kernels::DwConvS8Fn;

  const int32_t* bias;
  const float* scale;

  QuantizedPath(const RunContext& ctx, const BoundStep& s)
      : bias(ctx.in<int32_t>(s, ctx.storage() == kernels::Storage::kU8 ? kConvBiasU8 : kConvBiasS8)),
        scale(ctx.in<float>(s, kConvScale)) {}
  static const uint8_t* residual(const RunContext& ctx, const BoundStep& s) {
    return s.n_in > conv_residual(true) ? ctx.in<uint8_t>(s, conv_residual(true)) : nullptr;
  }
  static uint32_t gemm_seg_elems(const ConvParams& p) { return kernels::gemm_s8_panel_bytes(1, p.seg_k); }
  static uint32_t dw_panel_elems(const ConvParams& p) { return kernels::dwconv_s8_packed_bytes(kGemmPanel, p.kh, p.kw); }
  template <class Args>
  static void set_constants(const ConvParams& p, Args* a) {
    a->zero_point = p.zero_point;
    a->lo = p.lo_q;
    a->hi = p.hi_q;
    a->residual_zero = p.residual_zero;
    a->residual_scale = p.residual_scale;
  }
  template <class Args>
  void set_channels(uint32_t c, Args* a) const {
    a->bias = bias + c;
    a->scale = scale + c;
  }
  static void fill(const ConvParams& p, uint8_t* to, uint32_t n) { __builtin_memset(to, p.pad_value, n); }
};

// The part of a step that one task does: rows [row, row + rows) of an image (a matrix: of all), channels [c, c + n) of each
// group.
struct Task {
  uint32_t image, row, rows, c, n;
};

Task task_at(const ConvParams& p, uint32_t index, uint32_t all_rows) {
  const uint32_t panel_task = index % p.panel_tasks, block = index / p.panel_tasks;
  Task t;
  t.image = block / p.row_tasks;
  t.row = block % p.row_tasks * p.block_rows;
  t.rows = all_rows - t.row < p.block_rows ? all_rows - t.row : p.block_rows;
  t.c = panel_task * p.task_panels * kGemmPanel;
  const uint32_t most = p.task_panels * kGemmPanel;
  t.n = p.n - t.c < most ? p.n - t.c : most;
  return t;
}

// Copies the input rows under a task's output rows with padding around them.
template <class Path>
void copy_padded(const ConvParams& p, const typename Path::T* x, const Task& t, typename Path::T* to) {
  const uint32_t inner = p.iw * p.ic, left = p.pad_left * p.ic, right = p.row - left - inner;
  const uint32_t rows = (t.rows - 1) * p.stride_h + p.row_count;
  const typename Path::T* image = x + static_cast<size_t>(t.image) * p.ih * inner;
  for (uint32_t r = 0; r < rows; ++r, to += p.row) {
    const uint32_t above = t.row * p.stride_h + r;  // row in the padded image
    if (above < p.pad_top || above - p.pad_top >= p.ih) {
      Path::fill(p, to, p.row);
      continue;
    }
    Path::fill(p, to, left);
    __builtin_memcpy(to + left, image + static_cast<size_t>(above - p.pad_top) * inner, inner * sizeof(*to));
    Path::fill(p, to + left + inner, right);
  }
}

// Where a kernel finds the input of the task's first output pixel, padding included.
template <class Path>
const typename Path::T* task_input(const ConvParams& p, const typename Path::T* x, const Task& t, uint8_t* scratch) {
  if (p.copies == 0) return x + (static_cast<size_t>(t.image) * p.ih + static_cast<size_t>(t.row) * p.stride_h) * p.row;
  auto* padded = reinterpret_cast<typename Path::T*>(scratch);
  copy_padded<Path>(p, x, t, padded);
  return padded;
}

template <class Path>
struct Runner {
  using T = typename Path::T;
  const ConvParams& p;
  Path path;
  const T* x;
  const typename Path::W* w;
  const T* residual;
  T* y;

  Runner(const RunContext& ctx, const BoundStep& s, const ConvParams& params)
      : p(params),
        path(ctx, s),
        x(ctx.in<T>(s, kConvX)),
        w(ctx.in<typename Path::W>(s, kConvW)),
        residual(Path::residual(ctx, s)),
        y(ctx.out<T>(s, 0)) {}

  // A rectangle of output pixels whose first one sees the input at step a_row, a_col per pixel.
  typename Path::GemmArgs gemm_args(uint32_t rows, uint32_t cols) const {
    typename Path::GemmArgs g{};
    Path::set_constants(p, &g);
    const uint32_t seg = Path::gemm_seg_elems(p);
    g.geo.rows = rows;
    g.geo.cols = cols;
    g.geo.a_row_step = p.stride_h * p.row;
    g.geo.a_col_step = p.stride_w * p.ic;
    g.geo.y_row_step = g.geo.residual_row_step = p.ow * p.oc;
    g.geo.y_col_step = g.geo.residual_col_step = p.oc;
    g.geo.seg_rows = p.kh;
    g.geo.seg_cols = p.segs / p.kh;
    g.geo.seg_k = p.seg_k;
    g.geo.a_seg_row_step = static_cast<int32_t>(p.tap_row);
    g.geo.a_seg_col_step = static_cast<int32_t>(p.tap_col);
    g.geo.w_seg_row_step = g.geo.seg_cols * seg;
    g.geo.w_seg_col_step = seg;
    g.geo.w_panel_step = p.segs * seg;
    return g;
  }

  // Channels [c, c + n) of group `group`, for output pixels from `pixel` on.
  void set_place(typename Path::GemmArgs* g, size_t pixel, uint32_t group, uint32_t c, uint32_t n) const {
    const uint32_t padded_n = kernels::round_up(p.n, kGemmPanel);
    g->w = w + (static_cast<size_t>(group) * (padded_n / kGemmPanel) + c / kGemmPanel) * g->geo.w_panel_step;
    path.set_channels(group * padded_n + c, g);
    const size_t at = pixel * p.oc + group * p.n + c;
    g->y = y + at;
    g->residual = residual == nullptr ? nullptr : residual + at;
    g->geo.n = n;
  }

  void matrix(typename Path::GemmFn fn, uint32_t index) const {
    const Task t = task_at(p, index, p.images * p.oh * p.ow);
    typename Path::GemmArgs g = gemm_args(1, t.rows);
    set_place(&g, t.row, 0, t.c, t.n);
    g.a = x + static_cast<size_t>(t.row) * p.ic;
    fn(g);
  }

  // Panels outside, rows inside: the weights of a call's panels stay in the cache while the task's rows pass.
  void bands(typename Path::GemmFn fn, uint32_t index, uint8_t* scratch) const {
    const Task t = task_at(p, index, p.oh);
    const T* input = task_input<Path>(p, x, t, scratch);
    typename Path::GemmArgs g = gemm_args(t.rows, p.ow);
    const uint32_t most = p.call_panels * kGemmPanel;
    for (uint32_t group = 0; group < p.groups; ++group) {
      for (uint32_t c = t.c; c < t.c + t.n; c += most) {
        set_place(&g, (static_cast<size_t>(t.image) * p.oh + t.row) * p.ow, group, c, t.c + t.n - c < most ? t.c + t.n - c : most);
        g.a = input + group * (p.ic / p.groups);
        fn(g);
      }
    }
  }

  void depthwise(typename Path::DwFn fn, uint32_t index, uint8_t* scratch) const {
    const Task t = task_at(p, index, p.oh);
    typename Path::DwArgs d{};
    Path::set_constants(p, &d);
    auto* pad = reinterpret_cast<T*>(scratch);
    if (p.pads != 0) Path::fill(p, pad, p.row);
    d.in.a = x + static_cast<size_t>(t.image) * p.ih * p.row + t.c / p.multiplier;
    d.in.pad_row = pad + t.c / p.multiplier;
    d.in.rows = p.ih;
    d.in.cols = p.iw;
    d.in.row_step = p.row;
    d.in.col_step = p.ic;
    d.in.row0 = static_cast<int32_t>(t.row * p.stride_h) - static_cast<int32_t>(p.pad_top);
    d.in.col0 = -static_cast<int32_t>(p.pad_left);
    d.in.stride_h = p.stride_h;
    d.in.stride_w = p.stride_w;
    d.in.dilation_h = p.dilation_h;
    d.in.dilation_w = p.dilation_w;
    d.in.kh = p.kh;
    d.in.kw = p.kw;
    d.w = w + static_cast<size_t>(t.c / kGemmPanel) * Path::dw_panel_elems(p);
    path.set_channels(t.c, &d);
    const size_t at = (static_cast<size_t>(t.image) * p.oh + t.row) * p.ow * p.oc + t.c;
    d.y = y + at;
    d.residual = residual == nullptr ? nullptr : residual + at;
    d.y_row_step = d.residual_row_step = p.ow * p.oc;
    d.y_col_step = d.residual_col_step = p.oc;
    d.rows = t.rows;
    d.cols = p.ow;
    d.n = t.n;
    d.multiplier = p.multiplier;
    fn(d);
  }
};

template <class Path>
void run(const RunContext& ctx, const BoundStep& step, const ConvParams& p) {
  const Runner<Path> runner(ctx, step, p);
  const uint32_t tasks = (p.mode == ConvMode::kMatrix ? 1 : p.images) * p.row_tasks * p.panel_tasks;
  uint8_t* scratch = ctx.scratch(step);
  ctx.parallel(tasks, [&](uint32_t task, uint32_t slot) {
    uint8_t* mine = scratch + static_cast<size_t>(slot) * p.slot_bytes;
    switch (p.mode) {
      case ConvMode::kMatrix: return runner.matrix(ctx.kernel<typename Path::GemmFn>(step), task);
      case ConvMode::kBands: return runner.bands(ctx.kernel<typename Path::GemmFn>(step), task, mine);
      case ConvMode::kDepthwise: return runner.depthwise(ctx.kernel<typename Path::DwFn>(step), task, mine);
    }
  });
}

}  // namespace

void run_conv(const RunContext& ctx, const BoundStep& step) {
  const ConvParams& p = ctx.params<ConvParams>(step);
  if (p.quantized != 0) {
    run<QuantizedPath>(ctx, step, p);
  } else {
    run<FloatPath>(ctx, step, p);
  }
}

void run_Conv2d(const RunContext& ctx, const BoundStep& step) { run_conv(ctx, step); }

}  // namespace lathe
