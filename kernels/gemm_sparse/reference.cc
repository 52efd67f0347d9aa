// Reference of the block-sparse segment GEMM: the contract, element by element.
#include "kernels/gemm_sparse/gemm_sparse.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

// bias + sum a w of channel c of the panel for the pixel at `a`; partial sums of a folded bias may wrap.
template <class T>
int32_t sum_of(const GemmSparseS8Args& g, const SparsePanel& panel, const T* a, int32_t bias, uint32_t c) {
  uint32_t acc = static_cast<uint32_t>(bias);
  for (uint32_t i = 0; i < g.geo.seg_rows; ++i) {
    for (uint32_t j = 0; j < g.geo.seg_cols; ++j) {
      const ptrdiff_t at =
          static_cast<ptrdiff_t>(i) * g.geo.a_seg_row_step + static_cast<ptrdiff_t>(j) * g.geo.a_seg_col_step;
      const uint32_t piece = g.first_piece + i * g.geo.w_seg_row_step + j * g.geo.w_seg_col_step;
      for (uint32_t b = panel.first[piece]; b < panel.first[piece + g.seg_pieces]; ++b) {
        const T* quad = a + at + static_cast<ptrdiff_t>(panel.quad[b]) * kGemmQuad;
        const int8_t* w = panel.blocks + static_cast<size_t>(b) * kSparseBlock + c * kGemmQuad;
        for (uint32_t k = 0; k < kGemmQuad; ++k) acc += static_cast<uint32_t>(int32_t{quad[k]} * w[k]);
      }
    }
  }
  return static_cast<int32_t>(acc);
}

template <class T>  // uint8_t or int8_t: how activations lie in memory
void gemm_sparse_s8(const GemmSparseS8Args& g) {
  for (uint32_t pixel = 0; pixel < g.geo.rows * g.geo.cols; ++pixel) {
    const size_t i = pixel / g.geo.cols, j = pixel % g.geo.cols;
    const T* a = static_cast<const T*>(g.a) + i * g.geo.a_row_step + j * g.geo.a_col_step;
    const T* residual = g.residual == nullptr
                            ? nullptr
                            : static_cast<const T*>(g.residual) + i * g.geo.residual_row_step + j * g.geo.residual_col_step;
    T* y = static_cast<T*>(g.y) + i * g.geo.y_row_step + j * g.geo.y_col_step;
    for (uint32_t c = 0; c < g.geo.n; ++c) {
      const SparsePanel panel = sparse_panel(g.w, g.first_panel + c / kGemmPanel, g.pieces);
      const int32_t sum = sum_of(g, panel, a, g.bias[c], c % kGemmPanel);
      const int32_t q = residual == nullptr
                            ? requantize(sum, g.scale[c], g.zero_point, g.lo, g.hi)
                            : requantize_residual(sum, g.scale[c], residual[c], g.residual_zero, g.residual_scale,
                                                  g.zero_point, g.lo, g.hi);
      y[c] = static_cast<T>(q);
    }
  }
}

}  // namespace

void gemm_sparse_u8s8s32_scalar(const GemmSparseS8Args& g) { gemm_sparse_s8<uint8_t>(g); }
void gemm_sparse_s8s8s32_scalar(const GemmSparseS8Args& g) { gemm_sparse_s8<int8_t>(g); }

}  // namespace lathe::kernels
