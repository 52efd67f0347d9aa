// ConvTranspose2d: a segment GEMM per phase and group (conv_geometry.h), whose output pixels lie a stride apart.
//
// Tasks are blocks of output rows. Where a tap of some output pixel would read outside of the input, a task copies the input rows
// that it needs into its slot's scratch, with the zero point (float: 0) around them; else kernels read the input in place.
#include "runtime/exec/checks.h"
#include "runtime/exec/conv_paths.h"
#include "runtime/exec/conv_winograd.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct Geometry {
  uint32_t ih, iw, oh, ow, kh, kw;
  uint32_t stride_h, stride_w, dilation_h, dilation_w;
  uint32_t pad_top, pad_left;
  uint32_t copies;    // 1: input goes through scratch
  uint32_t row;       // elements of a row of input as kernels see it, which starts with column first_col
  int32_t first_col;
};

// `conv`: the operands' constants, channels, and the cut into blocks of rows; nothing else of it is used.
struct ConvTransposeParams {
  ConvParams conv;
  Geometry geometry;
};

constexpr int32_t floor_div(int64_t a, int64_t b) { return static_cast<int32_t>(a >= 0 ? a / b : -((-a + b - 1) / b)); }

// Input positions that taps of outputs [begin, end) can read along one axis.
struct Span {
  int32_t first, last;
};
Span input_span(uint32_t begin, uint32_t end, uint32_t pad, uint32_t kernel, uint32_t stride, uint32_t dilation) {
  const int64_t reach = static_cast<int64_t>(kernel - 1) * dilation;
  return {-floor_div(reach - begin - pad, stride), floor_div(static_cast<int64_t>(end) - 1 + pad, stride)};
}
Span input_rows(const Geometry& g, uint32_t begin, uint32_t end) {
  return input_span(begin, end, g.pad_top, g.kh, g.stride_h, g.dilation_h);
}

// Outputs of one phase among [begin, end) of an axis, `stride` apart, with their taps.
struct PhaseRange {
  uint32_t first, count;
  PhaseTaps taps;
  int32_t input;  // that tap 0 of the first output reads
};
PhaseRange phase_range(uint32_t phase, uint32_t begin, uint32_t end, uint32_t pad, uint32_t kernel, uint32_t stride,
                       uint32_t dilation) {
  PhaseRange r{};
  r.first = begin + (phase + stride - (begin + pad) % stride) % stride;
  if (r.first >= end) return r;
  r.count = (end - r.first - 1) / stride + 1;
  r.taps = phase_taps(kernel, stride, dilation, phase);
  const int64_t from = static_cast<int64_t>(r.first) + pad - static_cast<int64_t>(r.taps.first) * dilation;
  r.input = floor_div(from, stride);
  return r;
}

template <class Path>
struct Runner {
  using T = typename Path::T;
  const ConvParams& p;
  const Geometry& g;
  Path path;
  const T* x;
  const typename Path::W* w;
  const T* residual;
  T* y;

  Runner(const RunContext& ctx, const BoundStep& s, const ConvTransposeParams& all)
      : p(all.conv),
        g(all.geometry),
        path(ctx, s),
        x(ctx.in<T>(s, kConvX)),
        w(ctx.in<typename Path::W>(s, kConvW)),
        residual(Path::residual(ctx, s)),
        y(ctx.out<T>(s, 0)) {}

  // Input rows `rows` of an image with padding around them.
  void copy(const T* image, Span rows, T* to) const {
    const int32_t cols = static_cast<int32_t>(g.row / p.ic), iw = static_cast<int32_t>(g.iw);
    const int32_t begin = g.first_col > 0 ? g.first_col : 0;
    const int32_t end = g.first_col + cols < iw ? g.first_col + cols : iw;
    for (int32_t r = rows.first; r <= rows.last; ++r, to += g.row) {
      if (r < 0 || r >= static_cast<int32_t>(g.ih) || begin >= end) {
        Path::fill(p, to, g.row);
        continue;
      }
      const uint32_t left = static_cast<uint32_t>(begin - g.first_col) * p.ic;
      const uint32_t inner = static_cast<uint32_t>(end - begin) * p.ic;
      Path::fill(p, to, left);
      __builtin_memcpy(to + left, image + (static_cast<size_t>(r) * g.iw + static_cast<size_t>(begin)) * p.ic, inner * sizeof(T));
      Path::fill(p, to + left + inner, g.row - left - inner);
    }
  }

  // What a phase's calls have in common; `input` is input row `row0`, column first_col.
  typename Path::GemmArgs phase_args(const PhaseRange& rows, const PhaseRange& cols, const T* input, int32_t row0) const {
    typename Path::GemmArgs args{};
    Path::set_constants(p, &args);
    const uint32_t seg = Path::gemm_seg_elems(p);
    args.a = input + static_cast<ptrdiff_t>(rows.input - row0) * static_cast<ptrdiff_t>(g.row) +
          static_cast<ptrdiff_t>(cols.input - g.first_col) * static_cast<ptrdiff_t>(p.ic);
    args.w = w + static_cast<size_t>(rows.taps.first * g.kw + cols.taps.first) * seg;
    kernels::GemmGeometry& geo = args.geo;
    geo.rows = rows.count;
    geo.cols = cols.count;
    geo.a_row_step = g.row;
    geo.a_col_step = p.ic;
    geo.y_row_step = geo.residual_row_step = g.stride_h * g.ow * p.oc;
    geo.y_col_step = geo.residual_col_step = g.stride_w * p.oc;
    geo.seg_rows = cols.taps.count == 0 ? 0 : rows.taps.count;
    geo.seg_cols = cols.taps.count;
    geo.seg_k = p.seg_k;
    geo.a_seg_row_step = -static_cast<int32_t>(rows.taps.back * g.row);
    geo.a_seg_col_step = -static_cast<int32_t>(cols.taps.back * p.ic);
    geo.w_seg_row_step = rows.taps.step * g.kw * seg;
    geo.w_seg_col_step = cols.taps.step * seg;
    geo.w_panel_step = p.segs * seg;
    geo.n = p.n;
    return args;
  }

  void phase(typename Path::GemmFn fn, const PhaseRange& rows, const PhaseRange& cols, uint32_t number, uint32_t image,
             const T* input, int32_t row0) const {
    typename Path::GemmArgs args = phase_args(rows, cols, input, row0);
    const size_t at = ((static_cast<size_t>(image) * g.oh + rows.first) * g.ow + cols.first) * p.oc;
    const uint32_t padded_n = kernels::round_up(p.n, kGemmPanel);
    for (uint32_t group = 0; group < p.groups; ++group) {
      path.set_channels(group * padded_n, &args, static_cast<size_t>(number) * p.groups * padded_n);
      args.y = y + at + group * p.n;
      args.residual = residual == nullptr ? nullptr : residual + at + group * p.n;
      fn(args);
      args.a = static_cast<const T*>(args.a) + p.seg_k;
      args.w += static_cast<size_t>(padded_n / kGemmPanel) * args.geo.w_panel_step;
    }
  }

  void task(typename Path::GemmFn fn, uint32_t index, uint8_t* scratch) const {
    const uint32_t image = index / p.row_tasks, begin = index % p.row_tasks * p.block_rows;
    const uint32_t end = g.oh - begin < p.block_rows ? g.oh : begin + p.block_rows;
    const T* input = x + static_cast<size_t>(image) * g.ih * g.iw * p.ic;
    int32_t row0 = 0;
    if (g.copies != 0) {
      const Span rows = input_rows(g, begin, end);
      copy(input, rows, reinterpret_cast<T*>(scratch));
      input = reinterpret_cast<const T*>(scratch);
      row0 = rows.first;
    }
    for (uint32_t a = 0; a < g.stride_h; ++a) {
      const PhaseRange rows = phase_range(a, begin, end, g.pad_top, g.kh, g.stride_h, g.dilation_h);
      for (uint32_t b = 0; b < g.stride_w && rows.count != 0; ++b) {
        const PhaseRange cols = phase_range(b, 0, g.ow, g.pad_left, g.kw, g.stride_w, g.dilation_w);
        if (cols.count != 0) phase(fn, rows, cols, a * g.stride_w + b, image, input, row0);
      }
    }
  }
};

template <class Path>
void run(const RunContext& ctx, const BoundStep& step) {
  const auto& params = ctx.params<ConvTransposeParams>(step);
  const Runner<Path> runner(ctx, step, params);
  uint8_t* scratch = ctx.scratch(step);
  ctx.parallel(params.conv.images * params.conv.row_tasks, [&](uint32_t task, uint32_t slot) {
    runner.task(ctx.kernel<typename Path::GemmFn>(step), task, scratch + static_cast<size_t>(slot) * params.conv.slot_bytes);
  });
}

// Largest size of anything along the way; keeps 32-bit arithmetic exact.
constexpr int64_t kMaxElems = 0x7fffffff / 8;

// Whether an axis is consistent: positive steps, pads not negative, and the output that the op's shape rule gives.
Status check_axis(const PrepareInput& in, const ConvTranspose2dAttrs& a, uint32_t axis, int64_t size, int64_t out,
                  int64_t kernel) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t positive[] = {kernel, a.stride[axis], a.dilation[axis]};
  const int64_t not_negative[] = {a.pad[axis], a.pad[2 + axis], a.output_pad[axis]};
  for (const int64_t v : positive) {
    if (v < 1 || v > kMost) return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(v));
  }
  for (const int64_t v : not_negative) {
    if (v < 0 || v > kMost) return refuse(in, Code::kInvalidArgument, 0, static_cast<uint32_t>(v));
  }
  const int64_t extent = (kernel - 1) * a.dilation[axis] + 1;
  const int64_t expected = (size - 1) * a.stride[axis] + extent + a.output_pad[axis] - a.pad[axis] - a.pad[2 + axis];
  if (size < 1 || expected != out || out < 1)
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(expected), static_cast<uint32_t>(out));
  if (expected + extent > kMaxElems) return refuse(in, Code::kUnsupported, static_cast<uint32_t>(kMaxElems));
  return {};
}

Status check_geometry(const PrepareInput& in, const ConvTranspose2dAttrs& a, const Shape& x, const Shape& w, const Shape& y) {
  if (x.rank != 4 || w.rank != 4 || y.rank != 4) return refuse(in, Code::kCorrupt, 4, x.rank);
  if (a.groups < 1 || w[0] < 1 || w[3] < 1 || w[0] % a.groups != 0)
    return refuse(in, Code::kCorrupt, static_cast<uint32_t>(a.groups), static_cast<uint32_t>(w[0]));
  const int64_t ic = static_cast<int64_t>(w[3]) * a.groups;
  if (ic != x[3] || y[3] != w[0] || y[0] != x[0])
    return refuse(in, Code::kCorrupt, static_cast<uint32_t>(ic), static_cast<uint32_t>(x[3]));
  for (uint32_t axis = 0; axis < 2; ++axis) {
    const Status s = check_axis(in, a, axis, x[1 + axis], y[1 + axis], w[1 + axis]);
    if (!s.ok()) return s;
  }
  const int64_t phases = static_cast<int64_t>(a.stride[0]) * a.stride[1], taps = static_cast<int64_t>(w[1]) * w[2];
  if (phases > kMaxPhases) return refuse(in, Code::kUnsupported, kMaxPhases, static_cast<uint32_t>(phases));
  if (taps > kMaxPhases * 16) return refuse(in, Code::kUnsupported, kMaxPhases * 16, static_cast<uint32_t>(taps));
  return {};
}

void set_geometry(const ConvTranspose2dAttrs& a, const Shape& x, const Shape& w, const Shape& y, ConvTransposeParams* p) {
  const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
  p->conv.images = u(x[0]);
  p->conv.ic = u(x[3]);
  p->geometry = {.ih = u(x[1]), .iw = u(x[2]), .oh = u(y[1]), .ow = u(y[2]), .kh = u(w[1]), .kw = u(w[2]),
                 .stride_h = u(a.stride[0]), .stride_w = u(a.stride[1]), .dilation_h = u(a.dilation[0]),
                 .dilation_w = u(a.dilation[1]), .pad_top = u(a.pad[0]), .pad_left = u(a.pad[1]), .copies = 0, .row = 0,
                 .first_col = 0};
}

// Below this many multiply-adds waking a second thread costs more than it brings; bytes of padded input that a task keeps near
// (scalar targets have little memory).
constexpr uint64_t kParallelMacs = 200000;
constexpr uint32_t kScratchTarget = 131072, kScalarScratchTarget = 4096;

Status cut_tasks(const PrepareInput& in, uint64_t macs, ConvTransposeParams* params, Prepared* out) {
  ConvParams& p = params->conv;
  Geometry& g = params->geometry;
  const uint32_t elem = p.elem_bytes;
  const Span rows = input_rows(g, 0, g.oh), cols = input_span(0, g.ow, g.pad_left, g.kw, g.stride_w, g.dilation_w);
  const bool inside = rows.first >= 0 && rows.last < static_cast<int32_t>(g.ih) && cols.first >= 0 &&
                      cols.last < static_cast<int32_t>(g.iw);
  g.copies = inside ? 0 : 1;
  g.first_col = inside ? 0 : cols.first;
  const int64_t row = (inside ? static_cast<int64_t>(g.iw) : int64_t{cols.last} - cols.first + 1) * p.ic;
  const int64_t reach = static_cast<int64_t>(g.kh - 1) * g.dilation_h / g.stride_h + 2;  // rows of input under one of output
  if (row * (reach + g.oh) > kMaxElems) return refuse(in, Code::kUnsupported, static_cast<uint32_t>(kMaxElems));
  g.row = static_cast<uint32_t>(row);
  const uint32_t threads = macs < kParallelMacs || in.threads == 0 ? 1 : in.threads;
  uint32_t block = ceil_div(g.oh, threads);
  if (g.copies != 0) {
    const uint32_t target = in.isa == kernels::kIsaScalar ? kScalarScratchTarget : kScratchTarget;
    const uint32_t fit = target / (g.row * elem), taken = static_cast<uint32_t>(reach);
    const uint32_t most = fit > taken ? (fit - taken) * g.stride_h : g.stride_h;
    if (block > most) block = most;
  }
  p.block_rows = block;
  p.row_tasks = ceil_div(g.oh, block);
  if (g.copies != 0) {
    const uint32_t copied = (block - 1) / g.stride_h + static_cast<uint32_t>(reach);
    p.slot_bytes = kernels::round_up(copied * g.row * elem + 64, 64);
  }
  const uint64_t slots = static_cast<uint64_t>(p.images) * p.row_tasks > 1 && in.threads > 1 ? in.threads : 1;
  if (slots * p.slot_bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory);
  out->scratch_bytes = static_cast<uint32_t>(slots * p.slot_bytes);
  // Kernels read a residual element before they write the result in its place.
  const uint32_t residual = conv_residual(p.quantized != 0);
  if (in.has(residual)) out->share_input_mask = 1u << residual;
  if (p.quantized != 0) out->unread_input_mask = 1u << (in.storage == kernels::Storage::kU8 ? kConvBiasS8 : kConvBiasU8);
  return {};
}

// Of stride 1: the convolution with turned weights, whose padding is what this one's leaves of the kernel.
Status prepare_turned(const PrepareInput& in, const ConvTranspose2dAttrs& a, ConvTransposeParams* params, Prepared* out) {
  const Geometry& g = params->geometry;
  if (a.pad[0] > 2 || a.pad[1] > 2 || a.output_pad[0] != 0 || a.output_pad[1] != 0) return refuse(in, Code::kCorrupt, 2);
  params->conv.h = {g.ih, g.oh, g.kh, g.stride_h, g.dilation_h, 2 - g.pad_top, 0, 0};
  params->conv.w = {g.iw, g.ow, g.kw, g.stride_w, g.dilation_w, 2 - g.pad_left, 0, 0};
  return prepare_winograd(in, &params->conv, out);
}

}  // namespace

Status prepare_ConvTranspose2d(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<ConvTranspose2dAttrs>(*in.step);
  const Shape &x = in.shape(kConvX), &w = in.shape(kConvW), &y = in.shape(in.out());
  Status s = check_geometry(in, attrs, x, w, y);
  if (!s.ok()) return s;
  auto& params = out->make<ConvTransposeParams>();
  ConvParams& p = params.conv;
  if (in.tensor(kConvX).dtype == DType::kS16) {
    const auto axis = [&](uint32_t i) {
      return ConvAxis{static_cast<uint32_t>(x[1 + i]), static_cast<uint32_t>(y[1 + i]), static_cast<uint32_t>(w[1 + i]),
                      static_cast<uint32_t>(attrs.stride[i]), static_cast<uint32_t>(attrs.dilation[i]),
                      static_cast<uint32_t>(attrs.pad[i]), 0, 0};
    };
    const WideConv wide{static_cast<uint32_t>(x[0]), static_cast<uint32_t>(attrs.groups), axis(0), axis(1), attrs.lo, attrs.hi};
    return prepare_wide_conv(in, wide, &p, out);
  }
  const ConvPacking packing = conv_transpose_packing(attrs, static_cast<uint32_t>(w[0]), static_cast<uint32_t>(w[1]),
                                                     static_cast<uint32_t>(w[2]), static_cast<uint32_t>(w[3]));
  s = prepare_conv_operands(in, packing, attrs.lo, attrs.hi, &p, static_cast<uint32_t>(attrs.stride[0] * attrs.stride[1]));
  if (!s.ok()) return s;
  if (p.pieces != 0)
    return {Code::kUnsupported, 0, static_cast<uint32_t>(Layout::kGemmS8), static_cast<uint32_t>(Layout::kGemmSparseS8)};
  set_geometry(attrs, x, w, y, &params);
  if (in.tensor(kConvW).layout == Layout::kWinogradF32) return prepare_turned(in, attrs, &params, out);
  const uint64_t macs = static_cast<uint64_t>(p.images) * params.geometry.ih * params.geometry.iw * packing.weight_elems();
  s = cut_tasks(in, macs, &params, out);
  if (!s.ok()) return s;
  const kernels::Kernel* kernel =
      kernels::select(conv_family(p, false), p.quantized != 0 ? in.storage : kernels::Storage::kS8, in.isa);
  return out->use(kernel) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_ConvTranspose2d(const RunContext& ctx, const BoundStep& step) {
  const ConvParams& p = ctx.params<ConvTransposeParams>(step).conv;
  if (p.mode == ConvMode::kWide) {
    run_wide_conv(ctx, step, p, true);
  } else if (p.mode == ConvMode::kWinograd) {
    run_winograd(ctx, step, p);
  } else if (p.quantized != 0) {
    run<QuantizedPath>(ctx, step);
  } else if (p.elem_bytes == 2) {
    run<FloatPath<uint16_t>>(ctx, step);
  } else {
    run<FloatPath<float>>(ctx, step);
  }
}

}  // namespace lathe
