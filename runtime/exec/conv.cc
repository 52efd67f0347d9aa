#include "runtime/exec/conv_paths.h"
#include "runtime/exec/conv_winograd.h"

namespace lathe {
namespace {

using kernels::GemmGeometry;
using kernels::kGemmPanel;

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

// Output pixels that one kernel call computes, with the taps that it computes them from.
struct Rect {
  ConvSpan rows, cols;
};

// Calls fn(rect) for rectangles that together are the task's output.
template <class F>
void for_each_rect(const ConvParams& p, const Task& t, const F& fn) {
  const uint32_t end_row = t.row + t.rows;
  const ConvSpan all_cols{0, p.w.out, 0, p.w.kernel};
  const uint32_t cuts[] = {0, p.w.inside, p.w.inside_end, p.w.out};
  const auto in_three = [&](const ConvSpan& rows) {
    for (int i = 0; i < 3; ++i) {
      if (cuts[i] < cuts[i + 1]) fn(Rect{rows, {cuts[i], cuts[i + 1], 0, p.w.kernel}});
    }
  };
  if (p.border == ConvBorder::kNone || p.border == ConvBorder::kCopyAll) {
    return fn(Rect{{t.row, end_row, 0, p.h.kernel}, all_cols});
  }
  if (p.border == ConvBorder::kSkip || p.border == ConvBorder::kSkipRows) {
    for (ConvSpan rows{0, t.row, 0, 0}; rows.end < end_row;) {
      rows = span_from(p.h, rows.end, end_row);
      if (p.border == ConvBorder::kSkipRows) {
        in_three(rows);
        continue;
      }
      for (ConvSpan cols{}; cols.end < p.w.out;) {
        cols = span_from(p.w, cols.end, p.w.out);
        fn(Rect{rows, cols});
      }
    }
    return;
  }
  // Rows that see padding whole, the others in three parts.
  for (uint32_t row = t.row, end; row < end_row; row = end) {
    const bool inside = row >= p.h.inside && row < p.h.inside_end;
    const uint32_t limit = row < p.h.inside ? p.h.inside : inside ? p.h.inside_end : end_row;
    end = limit < end_row ? limit : end_row;
    const ConvSpan rows{row, end, 0, p.h.kernel};
    if (inside) {
      in_three(rows);
    } else {
      fn(Rect{rows, all_cols});
    }
  }
}

// Whether a rectangle's taps reach into the padding.
bool sees_padding(const ConvParams& p, const Rect& r) {
  if (p.border == ConvBorder::kNone || p.border == ConvBorder::kSkip) return false;
  if (r.cols.first < p.w.inside || r.cols.end > p.w.inside_end) return true;
  return p.border != ConvBorder::kSkipRows && (r.rows.first < p.h.inside || r.rows.end > p.h.inside_end);
}

// Copies `n` elements of pixels without the gaps between them.
template <class T>
void copy_pixels(const ConvParams& p, const T* x, uint32_t n, T* to) {
  if (p.x_pixel == p.ic) {
    __builtin_memcpy(to, x, n * sizeof(T));
    return;
  }
  for (uint32_t i = 0; i < n; i += p.ic, x += p.x_pixel) __builtin_memcpy(to + i, x, p.ic * sizeof(T));
}

// Copies the input that a rectangle sees, padding included: window(rows) x window(cols) pixels.
template <class Path>
void copy_padded(const ConvParams& p, const typename Path::T* image, const Rect& r, typename Path::T* to) {
  const uint32_t rows = p.h.window(r.rows.end - r.rows.first), cols = p.w.window(r.cols.end - r.cols.first);
  const int32_t first_row = p.h.start(r.rows.first), first_col = p.w.start(r.cols.first);
  const int32_t in_cols = static_cast<int32_t>(p.w.in), end_col = first_col + static_cast<int32_t>(cols);
  const int32_t col = first_col < 0 ? 0 : first_col, col_end = end_col < in_cols ? end_col : in_cols;
  const uint32_t before = static_cast<uint32_t>(col - first_col) * p.ic;
  const uint32_t inner = col < col_end ? static_cast<uint32_t>(col_end - col) * p.ic : 0;
  for (uint32_t i = 0; i < rows; ++i, to += cols * p.ic) {
    const int32_t row = first_row + static_cast<int32_t>(i);
    if (row < 0 || row >= static_cast<int32_t>(p.h.in) || inner == 0) {
      Path::fill(p, to, cols * p.ic);
      continue;
    }
    Path::fill(p, to, before);
    copy_pixels(p, image + (static_cast<size_t>(row) * p.w.in + static_cast<uint32_t>(col)) * p.x_pixel, inner, to + before);
    Path::fill(p, to + before + inner, cols * p.ic - before - inner);
  }
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

  // Everything but pixels and segments, which are those of one tap: packed elements of a panel are 16 per k.
  typename Path::GemmArgs gemm_args() const {
    typename Path::GemmArgs g{};
    Path::set_constants(p, &g);
    const uint32_t seg = Path::gemm_seg_elems(p), per_row = p.segs / p.h.kernel;
    g.geo.y_row_step = p.w.out * p.y_pixel;
    g.geo.y_col_step = p.y_pixel;
    g.geo.residual_row_step = p.w.out * p.residual_pixel;
    g.geo.residual_col_step = p.residual_pixel;
    g.geo.w_seg_row_step = per_row * seg;
    g.geo.w_panel_step = p.segs * seg;
    return g;
  }

  // Channels [c, c + n) of group `group`, for output pixels from `pixel` on; w: their weights from element w_at of a panel on.
  void set_place(typename Path::GemmArgs* g, size_t pixel, uint32_t group, uint32_t c, uint32_t n, uint32_t w_at) const {
    const uint32_t padded_n = kernels::round_up(p.n, kGemmPanel);
    Path::set_weights(w, group * (padded_n / kGemmPanel) + c / kGemmPanel, w_at, g);
    path.set_channels(group * padded_n + c, g);
    g->y = y + pixel * p.y_pixel + group * p.n + c;
    g->residual = residual == nullptr ? nullptr : residual + pixel * p.residual_pixel + group * p.n + c;
    g->geo.n = n;
  }

  void matrix(typename Path::GemmFn fn, uint32_t index) const {
    const Task t = task_at(p, index, p.images * p.h.out * p.w.out);
    typename Path::GemmArgs g = gemm_args();
    g.geo.rows = g.geo.seg_rows = g.geo.seg_cols = 1;
    g.geo.cols = t.rows;
    g.geo.a_col_step = p.x_pixel;
    g.geo.seg_k = p.ic;
    Path::set_taps(p, 1, &g);
    set_place(&g, t.row, 0, t.c, t.n, 0);
    g.a = x + static_cast<size_t>(t.row) * p.x_pixel;
    fn(g);
  }

  // Where a rectangle finds its input: the pixel that tap 0 of its first output pixel sees, or would see before the image, and the
  // elements from there to the next row and pixel.
  struct Input {
    const T* first;
    uint32_t row, pixel;
  };

  void rect(typename Path::GemmFn fn, typename Path::GemmArgs* g, const Task& t, const Rect& r, const Input& in, uint32_t group,
            uint32_t c, uint32_t n) const {
    GemmGeometry& geo = g->geo;
    geo.rows = r.rows.end - r.rows.first;
    geo.cols = r.cols.end - r.cols.first;
    geo.a_row_step = p.h.stride * in.row;
    geo.a_col_step = p.w.stride * in.pixel;
    geo.a_seg_row_step = static_cast<int32_t>(p.h.dilation * in.row);
    const uint32_t taps = r.cols.tap_end - r.cols.tap;
    const bool row_is_packed = p.segs == p.h.kernel, row_is_segment = row_is_packed && in.pixel == p.ic;
    const uint32_t tap_k = row_is_packed ? p.seg_k / p.w.kernel : p.seg_k;
    const uint32_t col_w = row_is_packed ? Path::gemm_tap_elems(tap_k) : Path::gemm_seg_elems(p);
    const uint32_t col_step = p.w.dilation * in.pixel - (row_is_packed ? Path::tap_in_segment(tap_k) : 0);
    geo.a_seg_col_step = static_cast<int32_t>(col_step);
    geo.seg_rows = taps == 0 ? 0 : r.rows.tap_end - r.rows.tap;
    geo.seg_cols = row_is_segment ? 1 : taps;
    geo.seg_k = row_is_segment ? taps * tap_k : tap_k;
    geo.w_seg_col_step = col_w;
    Path::set_taps(p, row_is_segment ? taps : 1, g);
    set_place(g, (static_cast<size_t>(t.image) * p.h.out + r.rows.first) * p.w.out + r.cols.first, group, c, n,
              r.rows.tap * geo.w_seg_row_step + r.cols.tap * col_w);
    g->a = in.first + static_cast<size_t>(r.rows.tap) * p.h.dilation * in.row +
           static_cast<size_t>(r.cols.tap) * col_step + group * (p.ic / p.groups);
    fn(*g);
  }

  // Calls fn(group, first channel, channels) for the blocks of channels that a kernel call takes.
  template <class F>
  void for_each_channels(const Task& t, const F& fn) const {
    const uint32_t most = p.call_panels * kGemmPanel;
    for (uint32_t group = 0; group < p.groups; ++group) {
      for (uint32_t c = t.c; c < t.c + t.n; c += most) fn(group, c, t.c + t.n - c < most ? t.c + t.n - c : most);
    }
  }

  // Copies a rectangle's input if its taps reach into the padding.
  Input input_of(const Task& t, const Rect& r, uint8_t* scratch) const {
    const uint32_t row = p.w.in * p.x_pixel;
    const T* image = x + static_cast<size_t>(t.image) * p.h.in * row;
    if (sees_padding(p, r)) {
      auto* copy = reinterpret_cast<T*>(scratch);
      copy_padded<Path>(p, image, r, copy);
      return {copy, p.w.window(r.cols.end - r.cols.first) * p.ic, p.ic};
    }
    return {image + static_cast<ptrdiff_t>(p.h.start(r.rows.first)) * static_cast<ptrdiff_t>(row) +
                static_cast<ptrdiff_t>(p.w.start(r.cols.first)) * static_cast<ptrdiff_t>(p.x_pixel),
            row, p.x_pixel};
  }

  // Mostly in place, channels are outside and rectangles inside, so that the weights of a call stay near; a large copy is used up
  // before the next.
  void dense(typename Path::GemmFn fn, uint32_t index, uint8_t* scratch) const {
    const Task t = task_at(p, index, p.h.out);
    typename Path::GemmArgs g = gemm_args();
    if (p.border == ConvBorder::kCopyAll || p.border == ConvBorder::kCopyEdges) {
      for_each_rect(p, t, [&](const Rect& r) {
        const Input input = input_of(t, r, scratch);
        for_each_channels(t, [&](uint32_t group, uint32_t c, uint32_t n) { rect(fn, &g, t, r, input, group, c, n); });
      });
      return;
    }
    for_each_channels(t, [&](uint32_t group, uint32_t c, uint32_t n) {
      for_each_rect(p, t, [&](const Rect& r) { rect(fn, &g, t, r, input_of(t, r, scratch), group, c, n); });
    });
  }

  void depthwise(typename Path::DwFn fn, uint32_t index, uint8_t* scratch) const {
    const Task t = task_at(p, index, p.h.out);
    typename Path::DwArgs d{};
    Path::set_constants(p, &d);
    const uint32_t row = p.w.in * p.x_pixel;
    auto* pad = reinterpret_cast<T*>(scratch);
    if (p.border != ConvBorder::kNone) Path::fill(p, pad, row);
    d.in.a = x + static_cast<size_t>(t.image) * p.h.in * row + t.c / p.multiplier;
    d.in.pad_row = pad + t.c / p.multiplier;
    d.in.rows = p.h.in;
    d.in.cols = p.w.in;
    d.in.row_step = row;
    d.in.col_step = p.x_pixel;
    d.in.row0 = p.h.start(t.row);
    d.in.col0 = p.w.start(0);
    d.in.stride_h = p.h.stride;
    d.in.stride_w = p.w.stride;
    d.in.dilation_h = p.h.dilation;
    d.in.dilation_w = p.w.dilation;
    d.in.kh = p.h.kernel;
    d.in.kw = p.w.kernel;
    d.w = w + static_cast<size_t>(t.c / kGemmPanel) * Path::dw_panel_elems(p);
    path.set_channels(t.c, &d);
    const size_t pixel = (static_cast<size_t>(t.image) * p.h.out + t.row) * p.w.out;
    d.y = y + pixel * p.y_pixel + t.c;
    d.residual = residual == nullptr ? nullptr : residual + pixel * p.residual_pixel + t.c;
    d.y_row_step = p.w.out * p.y_pixel;
    d.y_col_step = p.y_pixel;
    d.residual_row_step = p.w.out * p.residual_pixel;
    d.residual_col_step = p.residual_pixel;
    d.rows = t.rows;
    d.cols = p.w.out;
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
      case ConvMode::kDense: return runner.dense(ctx.kernel<typename Path::GemmFn>(step), task, mine);
      case ConvMode::kDepthwise: return runner.depthwise(ctx.kernel<typename Path::DwFn>(step), task, mine);
      case ConvMode::kWide:
      case ConvMode::kWinograd: return;  // run_conv has sent them elsewhere
    }
  });
}

}  // namespace

void run_conv(const RunContext& ctx, const BoundStep& step) {
  const ConvParams& p = ctx.params<ConvParams>(step);
  if (p.mode == ConvMode::kWide) {
    run_wide_conv(ctx, step, p, false);
  } else if (p.mode == ConvMode::kWinograd) {
    run_winograd(ctx, step, p);
  } else if (p.pieces != 0) {
    run<SparsePath>(ctx, step, p);
  } else if (p.quantized != 0) {
    run<QuantizedPath>(ctx, step, p);
  } else if (p.elem_bytes == 2) {
    run<FloatPath<uint16_t>>(ctx, step, p);
  } else {
    run<FloatPath<float>>(ctx, step, p);
  }
}

void run_Conv2d(const RunContext& ctx, const BoundStep& step) { run_conv(ctx, step); }

}  // namespace lathe
