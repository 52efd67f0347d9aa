// Block-sparse segment GEMM on AVX2, u8 storage, exact: products in 16 bits as in the dense kernel. Tiles of up to 6 rows x 1
// panel in 12 accumulators. Bytes of a row are widened as they are multiplied: a mask leaves the even ones of a quad, a shift the
// odd ones. The dense kernel widens a block of rows once for all panels; here that would be undone for every block that is left out.
#include <immintrin.h>

#include "kernels/gemm/half_quads_x86_avx2.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/gemm_sparse/tiles.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

struct Avx2 {
  using A = uint8_t;
  static constexpr int kMaxRows = 6;
  Requantize q;
  const float* scale = nullptr;
  uint32_t n = 0;

  explicit Avx2(const GemmS8Args& g)
      : q(make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero)) {}
  void begin_panel(const float* panel_scale, uint32_t channels) { scale = panel_scale, n = channels; }

  template <int kRows>
  struct Sums {
    __m256i acc[kRows][2];

    LATHE_INLINE explicit Sums(const int32_t* bias) {
      LATHE_UNROLL
      for (int i = 0; i < 2 * kRows; ++i) acc[i / 2][i % 2] = _mm256_load_si256(reinterpret_cast<const __m256i*>(bias) + i % 2);
    }

    template <bool kOdd>
    LATHE_INLINE void add_half(const uint8_t* const* row, ptrdiff_t at, const int8_t* block) {
      const __m256i weights[] = {half_quads<kOdd>(block), half_quads<kOdd>(block + 32)};
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        int32_t quad;
        __builtin_memcpy(&quad, row[r] + at, sizeof(quad));
        __m256i v = _mm256_set1_epi32(quad);
        v = kOdd ? _mm256_srli_epi16(v, 8) : _mm256_and_si256(v, _mm256_set1_epi16(0xff));
        dot(acc[r][0], v, weights[0]);
        dot(acc[r][1], v, weights[1]);
      }
    }

    LATHE_INLINE void add(const uint8_t* const* row, ptrdiff_t at, const uint16_t* quad, const int8_t* block, uint32_t count) {
      for (; count > 0; --count, ++quad, block += kSparseBlock) {
        add_half<false>(row, at + 4 * ptrdiff_t{*quad}, block);
        add_half<true>(row, at + 4 * ptrdiff_t{*quad}, block);
      }
    }

    // Two rows at a time.
    LATHE_INLINE void finish(const Avx2& m, const Pixels<uint8_t, uint8_t>& px) const {
      const __m256 scale[] = {_mm256_load_ps(m.scale), _mm256_load_ps(m.scale + 8)};
      LATHE_UNROLL
      for (int r = 0; r < kRows; r += 2) {
        __m256i v[4] = {};
        LATHE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = r + i / 2;
          if (row >= kRows) continue;
          const uint8_t* residual = px.residual == nullptr ? nullptr : px.residual + px.residual_at[row] + 8 * (i % 2);
          v[i] = requantize8(m.q, acc[row][i % 2], scale[i % 2], residual);
        }
        const __m256i bytes = _mm256_min_epu8(pack_ordered(m.q, v[0], v[1], v[2], v[3]), m.q.hi_bytes);
        store_bytes16(px.y + px.y_at[r], _mm256_castsi256_si128(bytes), m.n);
        if (r + 1 < kRows) store_bytes16(px.y + px.y_at[r + 1], _mm256_extracti128_si256(bytes, 1), m.n);
      }
    }
  };
};

}  // namespace

void gemm_sparse_u8s8s32_6x16x4_x86_avx2(const GemmSparseS8Args& g) { gemm_sparse_s8<Avx2>(g); }

}  // namespace lathe::kernels
