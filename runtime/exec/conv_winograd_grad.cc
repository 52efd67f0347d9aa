// Gradients of weights by tiles: for each of 36 points, sums over tiles of dy's point times x's. A task transforms all channels
// of x and its own of dy.
#include "kernels/gemm_tn/gemm_tn.h"
#include "runtime/exec/conv_weight_grad.h"

namespace lathe {
namespace {

using kernels::kWinogradPoints;
using kernels::kWinogradTile;

constexpr uint32_t kProductKernel = 0, kInputKernel = 1, kGradientKernel = 2;
// Points of a block: larger than a near cache, because the sums of all points pass once per block.
constexpr uint64_t kBlockBytes = 1u << 20;
constexpr uint32_t kLanes = 16;

}  // namespace

TileGrid weight_grad_grid(const WeightGradParams& p) {
  const uint64_t bytes = 4ull * kWinogradPoints * (static_cast<uint64_t>(p.ic) + p.rows);
  return tile_grid(p.chunk_images, p.h.out, p.w.out, bytes, kBlockBytes);
}

void winograd_weight_grad_task(const RunContext& ctx, const BoundStep& step, const WeightGradParams& p, uint32_t task,
                               uint32_t slot) {
  TileGrid grid = weight_grad_grid(p);
  const uint32_t chunk = task / p.row_tasks, first_image = chunk * p.chunk_images;
  const uint32_t x_step = point_step(grid.block_tiles(), p.ic), dy_step = point_step(grid.block_tiles(), p.rows);
  const uint32_t first = task % p.row_tasks * p.rows, oc = p.oc - first < p.rows ? p.oc - first : p.rows;
  if (p.images - first_image < p.chunk_images) grid.images = p.images - first_image;
  float* sums = reinterpret_cast<float*>(ctx.scratch(step)) + static_cast<size_t>(chunk) * p.chunk_elems;
  sums += static_cast<size_t>(first) * p.ic;
  float* v = reinterpret_cast<float*>(ctx.scratch(step) + p.slots_at + static_cast<size_t>(slot) * p.slot_bytes);
  float* z = v + static_cast<size_t>(kWinogradPoints) * x_step;
  const size_t x_image = static_cast<size_t>(p.h.in) * p.w.in * p.ic, dy_image = static_cast<size_t>(p.h.out) * p.w.out * p.oc;
  const float* x = ctx.in<float>(step, kWeightGradX) + first_image * x_image;
  const float* dy = ctx.in<float>(step, kWeightGradDy) + first_image * dy_image + first;
  const auto input = ctx.kernel<kernels::WinogradInputF32Fn>(step, kInputKernel);
  const auto gradient = ctx.kernel<kernels::WinogradGradientF32Fn>(step, kGradientKernel);
  const auto product = ctx.kernel<kernels::GemmTnF32Fn>(step, kProductKernel);
  const uint32_t units = grid.units();
  for (uint32_t begin = 0; begin < units; begin += grid.block_units) {
    const uint32_t end = units - begin < grid.block_units ? units : begin + grid.block_units;
    const uint32_t tiles = each_unit(grid, begin, end, [&](const TileUnit& u, uint32_t before) {
      input({.x = x + u.image * x_image,
             .rows = p.h.in,
             .cols = p.w.in,
             .channels = p.ic,
             .pixel = p.ic,
             .row = p.h.start(u.row * kWinogradTile),
             .col = p.w.start(u.col * kWinogradTile),
             .tiles = u.tiles,
             .v = v + static_cast<size_t>(before) * p.ic,
             .point_step = x_step});
      gradient({.x = dy + u.image * dy_image,
                .rows = p.h.out,
                .cols = p.w.out,
                .channels = oc,
                .pixel = p.oc,
                .row = static_cast<int32_t>(u.row * kWinogradTile),
                .col = static_cast<int32_t>(u.col * kWinogradTile),
                .tiles = u.tiles,
                .v = z + static_cast<size_t>(before) * oc,
                .point_step = dy_step});
    });
    for (uint32_t point = 0; point < kWinogradPoints; ++point)
      product({.a = z + static_cast<size_t>(point) * dy_step,
               .b = v + static_cast<size_t>(point) * x_step,
               .y = sums + static_cast<size_t>(point) * p.oc * p.ic,
               .rows = 1,
               .cols = tiles,
               .a_row_step = 0,
               .a_col_step = oc,
               .b_row_step = 0,
               .b_col_step = p.ic,
               .m = oc,
               .n = p.ic,
               .y_step = p.ic,
               .add = begin == 0 ? 0u : 1u});
  }
}

void winograd_weight_grad_finish(const RunContext& ctx, const BoundStep& step, const WeightGradParams& p, uint32_t o) {
  const float* sums = reinterpret_cast<const float*>(ctx.scratch(step)) + static_cast<size_t>(o) * p.ic;
  float* dw = ctx.out<float>(step, 0) + static_cast<size_t>(o) * 9 * p.ic;
  for (uint32_t i = 0; i < p.ic; i += kLanes) {
    const uint32_t n = p.ic - i < kLanes ? p.ic - i : kLanes;
    float points[kWinogradPoints * kLanes] = {}, taps[9 * kLanes];
    for (uint32_t chunk = 0; chunk < p.chunks; ++chunk) {
      for (uint32_t point = 0; point < kWinogradPoints; ++point) {
        const float* from = sums + static_cast<size_t>(chunk) * p.chunk_elems + static_cast<size_t>(point) * p.oc * p.ic + i;
        for (uint32_t l = 0; l < n; ++l) points[point * kLanes + l] += from[l];
      }
    }
    kernels::winograd_weight_gradient(points, taps);
    for (uint32_t t = 0; t < 9; ++t)
      for (uint32_t l = 0; l < n; ++l) dw[static_cast<size_t>(t) * p.ic + i + l] = taps[t * kLanes + l];
  }
}

}  // namespace lathe
