// Block-sparse segment GEMM on AVX512-VNNI, u8 storage: tiles of up to 12 rows x 1 panel. A block is one load of weights and, for
// each row, four bytes that are broadcast and multiplied. Few rows sum up several blocks side by side, because a dot product
// takes four cycles.
#include <immintrin.h>

#include "kernels/gemm/finish_x86_avx512.h"
#include "kernels/gemm/tile_x86_avx512vnni.h"
#include "kernels/gemm_sparse/tiles.h"

namespace lathe::kernels {
namespace {

struct Vnni {
  using A = uint8_t;
  static constexpr int kMaxRows = 12;
  ByteEnd end;

  explicit Vnni(const GemmS8Args& g) : end{} { set_end(g, &end); }
  void begin_panel(const float* scale, uint32_t n) {
    end.scale = scale;
    end.set_width(n);
  }

  template <int kRows>
  struct Sums {
    static constexpr int kChains = kRows >= 4 ? 1 : kRows >= 2 ? 2 : 4;
    __m512i acc[kChains][kRows];

    inline __attribute__((always_inline)) explicit Sums(const int32_t* bias) {
      LATHE_UNROLL
      for (int i = 0; i < kChains; ++i) {
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) acc[i][r] = i == 0 ? _mm512_load_si512(bias) : _mm512_setzero_si512();
      }
    }

    inline __attribute__((always_inline)) void add_block(const uint8_t* const* row, ptrdiff_t at, const int8_t* block,
                                                         int chain) {
      const __m512i weights = _mm512_load_si512(block);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) dot(acc[chain][r], broadcast4(row[r], at), weights);
    }

    inline __attribute__((always_inline)) void add(const uint8_t* const* row, ptrdiff_t at, const uint16_t* quad,
                                                   const int8_t* block, uint32_t count) {
      for (; count >= kChains; count -= kChains, quad += kChains, block += kChains * kSparseBlock) {
        LATHE_UNROLL
        for (int i = 0; i < kChains; ++i) add_block(row, at + 4 * ptrdiff_t{quad[i]}, block + i * int{kSparseBlock}, i);
      }
      if constexpr (kChains > 1) {
        for (; count > 0; --count, ++quad, block += kSparseBlock) add_block(row, at + 4 * ptrdiff_t{*quad}, block, 0);
      }
    }

    inline __attribute__((always_inline)) __m512i at(int r, int) const { return acc[0][r]; }

    inline __attribute__((always_inline)) void finish(const Vnni& m, const BytePixels& px) {
      LATHE_UNROLL
      for (int i = 1; i < kChains; ++i) {
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) acc[0][r] = _mm512_add_epi32(acc[0][r], acc[i][r]);
      }
      finish_any<kRows, 1>(m.end, px, *this);
    }
  };
};

}  // namespace

void gemm_sparse_u8s8s32_12x16x4_x86_avx512vnni(const GemmSparseS8Args& g) { gemm_sparse_s8<Vnni>(g); }

}  // namespace lathe::kernels
