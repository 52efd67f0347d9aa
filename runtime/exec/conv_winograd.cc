// A task is a block of tiles: its input goes into points, 36 products of matrices follow, and their results come back as pixels,
// all while the points are near. Every tile is computed for itself, so that results do not depend on the cut.
#include "runtime/exec/conv_winograd.h"

#include "kernels/gemm/gemm.h"
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

using kernels::kWinogradPoints;
using kernels::kWinogradTile;

constexpr uint32_t kInputKernel = 0, kGemmKernel = 1, kOutputKernel = 2;
// Points of a block, input and output together.
constexpr uint64_t kBlockBytes = 393216;

TileGrid grid_of(const ConvParams& p) {
  const uint64_t bytes = 4ull * kWinogradPoints * (static_cast<uint64_t>(p.ic) + p.oc);
  return tile_grid(p.images, p.h.out, p.w.out, bytes, kBlockBytes);
}

struct WinogradRunner {
  const ConvParams& p;
  TileGrid grid;
  kernels::WinogradInputF32Fn input;
  kernels::GemmF32Fn gemm;
  kernels::WinogradOutputF32Fn output;
  const float *x, *w, *bias, *residual;
  float* y;

  WinogradRunner(const RunContext& ctx, const BoundStep& s, const ConvParams& params)
      : p(params),
        grid(grid_of(params)),
        input(ctx.kernel<kernels::WinogradInputF32Fn>(s, kInputKernel)),
        gemm(ctx.kernel<kernels::GemmF32Fn>(s, kGemmKernel)),
        output(ctx.kernel<kernels::WinogradOutputF32Fn>(s, kOutputKernel)),
        x(ctx.in<float>(s, kConvX)),
        w(ctx.in<float>(s, kConvW)),
        bias(ctx.in<float>(s, kConvBiasF32)),
        residual(s.n_in > conv_residual(false) ? ctx.in<float>(s, conv_residual(false)) : nullptr),
        y(ctx.out<float>(s, 0)) {}

  void multiply(uint32_t tiles, const float* v, float* m) const {
    kernels::GemmF32Args g{};
    g.geo = kernels::gemm_f32_matrix(tiles, p.oc, p.ic, p.ic, p.oc);
    g.lo = -kInfinity;
    g.hi = kInfinity;
    const size_t in_step = point_step(grid.block_tiles(), p.ic), out_step = point_step(grid.block_tiles(), p.oc);
    for (uint32_t point = 0; point < kWinogradPoints; ++point) {
      g.a = v + point * in_step;
      g.w = w + point * static_cast<size_t>(kernels::gemm_f32_packed_elems(p.oc, 1, p.ic));
      g.y = m + point * out_step;
      gemm(g);
    }
  }

  void task(uint32_t index, float* v) const {
    const uint32_t begin = index * grid.block_units, left = grid.units() - begin;
    const uint32_t end = begin + (left < grid.block_units ? left : grid.block_units);
    const uint32_t in_step = point_step(grid.block_tiles(), p.ic), out_step = point_step(grid.block_tiles(), p.oc);
    float* m = v + static_cast<size_t>(kWinogradPoints) * in_step;
    const size_t image_in = static_cast<size_t>(p.h.in) * p.w.in * p.ic,
                 image_out = static_cast<size_t>(p.h.out) * p.w.out * p.oc;
    const uint32_t tiles = each_unit(grid, begin, end, [&](const TileUnit& u, uint32_t before) {
      input({.x = x + u.image * image_in,
             .rows = p.h.in,
             .cols = p.w.in,
             .channels = p.ic,
             .pixel = p.ic,
             .row = p.h.start(u.row * kWinogradTile),
             .col = p.w.start(u.col * kWinogradTile),
             .tiles = u.tiles,
             .v = v + static_cast<size_t>(before) * p.ic,
             .point_step = in_step});
    });
    multiply(tiles, v, m);
    each_unit(grid, begin, end, [&](const TileUnit& u, uint32_t before) {
      output({.m = m + static_cast<size_t>(before) * p.oc,
              .point_step = out_step,
              .bias = bias,
              .residual = residual == nullptr ? nullptr : residual + u.image * image_out,
              .y = y + u.image * image_out,
              .rows = p.h.out,
              .cols = p.w.out,
              .channels = p.oc,
              .row = u.row * kWinogradTile,
              .col = u.col * kWinogradTile,
              .tiles = u.tiles,
              .lo = p.lo,
              .hi = p.hi});
    });
  }
};

}  // namespace

Status prepare_winograd(const PrepareInput& in, ConvParams* p, Prepared* out) {
  const ConvAxis axes[] = {p->h, p->w};
  for (const ConvAxis& a : axes)
    if (a.kernel != 3 || a.stride != 1 || a.dilation != 1 || a.pad > 2) return refuse(in, Code::kCorrupt, 3, a.kernel);
  if (p->quantized != 0 || p->elem_bytes != 4 || p->groups != 1) return refuse(in, Code::kCorrupt, 1, p->groups);
  p->mode = ConvMode::kWinograd;
  const TileGrid grid = grid_of(*p);
  const uint64_t widest = static_cast<uint64_t>(grid.block_tiles()) * (p->ic > p->oc ? p->ic : p->oc);
  if (widest > 0x7fffffff / (8 * kWinogradPoints)) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(widest >> 10));
  const uint64_t slot =
      4ull * kWinogradPoints * (point_step(grid.block_tiles(), p->ic) + point_step(grid.block_tiles(), p->oc)) + 64;
  const uint64_t scratch = slot * (in.threads > 1 ? in.threads : 1);
  if (scratch > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(scratch >> 10));
  p->slot_bytes = static_cast<uint32_t>(slot);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  // A result is written after the residual there was read.
  if (in.has(conv_residual(false))) out->share_input_mask = 1u << conv_residual(false);
  out->exact_input_mask = 1u << kConvX;
  const auto pick = [&](kernels::Family f) { return out->use(kernels::select(f, kernels::Storage::kS8, in.isa)); };
  const bool ok =
      pick(kernels::Family::kWinogradInputF32) && pick(kernels::Family::kGemmF32) && pick(kernels::Family::kWinogradOutputF32);
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_winograd(const RunContext& ctx, const BoundStep& step, const ConvParams& p) {
  const WinogradRunner runner(ctx, step, p);
  uint8_t* scratch = ctx.scratch(step);
  ctx.parallel(ceil_div(runner.grid.units(), runner.grid.block_units), [&](uint32_t task, uint32_t slot) {
    runner.task(task, reinterpret_cast<float*>(scratch + static_cast<size_t>(slot) * p.slot_bytes));
  });
}

}  // namespace lathe
