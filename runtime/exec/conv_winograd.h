// Convolutions of training by Winograd's tiles (kernels/winograd/winograd.h), and what their parts share: 3x3 kernels of stride 1
// whose weights a Pack made, so that inference, whose weights are constants, keeps the sums it has.
#pragma once
#include <stdint.h>

#include "kernels/winograd/winograd.h"
#include "runtime/exec/conv_params.h"
#include "runtime/exec/split.h"

namespace lathe {

// Whether tiles are faster than taps: narrow layers spend their time in the transformations, small images in tiles that lie half
// outside.
constexpr bool winograd_pays(int64_t ic, int64_t oc, int64_t oh, int64_t ow) { return ic >= 8 && oc >= 8 && oh >= 6 && ow >= 6; }

// Rows of tiles of `images`, each cut into parts of at most `part` tiles; a block is what is transformed before it is multiplied.
struct TileGrid {
  uint32_t images, rows, cols;  // tiles of an image
  uint32_t part, parts;         // tiles of a part, parts of a row
  uint32_t block_units;         // units (parts of rows) of a block
  constexpr uint32_t units() const { return images * rows * parts; }
  constexpr uint32_t block_tiles() const { return block_units * part; }
};
// `bytes` is what all points of one tile take, `target` what those of a block should.
constexpr TileGrid tile_grid(uint32_t images, uint32_t oh, uint32_t ow, uint64_t bytes, uint64_t target) {
  TileGrid g{images, ceil_div(oh, kernels::kWinogradTile), ceil_div(ow, kernels::kWinogradTile), 0, 0, 1};
  const uint64_t fit = target / bytes == 0 ? 1 : target / bytes;
  g.part = fit < g.cols ? static_cast<uint32_t>(fit) : g.cols;
  g.parts = ceil_div(g.cols, g.part);
  if (g.parts == 1 && fit / g.cols > 1) g.block_units = static_cast<uint32_t>(fit / g.cols);
  return g;
}

// Elements from one point of a block to the next: an odd number of cache lines, because the points of a tile are written together
// and must not fall on the same sets of a cache.
constexpr uint32_t point_step(uint32_t tiles, uint32_t channels) { return (ceil_div(tiles * channels, 16) | 1) * 16; }

// One unit: where its tiles begin and how many they are.
struct TileUnit {
  uint32_t image, row, col, tiles;
};
constexpr TileUnit tile_unit(const TileGrid& g, uint32_t index) {
  const uint32_t row = index / g.parts, col = index % g.parts * g.part;
  return {row / g.rows, row % g.rows, col, g.cols - col < g.part ? g.cols - col : g.part};
}

// Calls fn(unit, tiles before it) for units [begin, end); returns all their tiles.
template <class F>
uint32_t each_unit(const TileGrid& g, uint32_t begin, uint32_t end, const F& fn) {
  uint32_t tiles = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const TileUnit u = tile_unit(g, i);
    fn(u, tiles);
    tiles += u.tiles;
  }
  return tiles;
}

// For Conv2d and ConvTranspose2d, when prepare_conv_operands() has taken weights that lie as kWinogradF32: sizes and pads of the
// convolution (a transposed one is that of turned weights) are filled in p->h and p->w. Fills the rest.
Status prepare_winograd(const PrepareInput& in, ConvParams* p, Prepared* out);
void run_winograd(const RunContext& ctx, const BoundStep& step, const ConvParams& p);

}  // namespace lathe
