// Where the sparse kernels win, from timing both on AVX512-VNNI and AVX2 (bench/README.md, Block-sparse weights, has the command
// and the figures). Dense kernels share an activation among up to four panels and a tile's start and end among all its blocks:
// - few zeros: VNNI wins from a quarter on, AVX2, whose dense kernel widens activations once for all panels, from two fifths on;
// - short k: a tile of a few blocks is mostly start and end, which the dense kernel has for four panels at once;
// - few rows, where that is worse: a tile of one row takes a wait for its sums and as long to end as one of four;
// - one panel of up to 8 channels: the dense kernels compute half of it.
#include "kernels/gemm_sparse/gemm_sparse.h"

namespace lathe::kernels {
namespace {

constexpr uint32_t kKeptPercent = 55, kKeptPercentHalfPanel = 25;
constexpr uint32_t kManyPixels = 32, kQuadsOfMany = 12, kQuadsOfFew = 128;

}  // namespace

bool gemm_sparse_s8_pays(const SparseShape& shape, uint64_t pixels, uint64_t blocks) {
  if (shape.quads() > kSparseMostQuads) return false;
  const uint32_t least = pixels < kManyPixels ? kQuadsOfFew : kQuadsOfMany;
  if (static_cast<uint64_t>(shape.segs) * shape.quads() < least) return false;
  const uint32_t percent = shape.n <= kGemmPanel / 2 ? kKeptPercentHalfPanel : kKeptPercent;
  return blocks * 100 <= shape.blocks() * percent;
}

}  // namespace lathe::kernels
