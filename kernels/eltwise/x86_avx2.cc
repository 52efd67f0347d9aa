// Elementwise kernels for AVX2.
#include "kernels/math/x86_avx2_lanes.h"
#include "kernels/math/x86_avx2_storage.h"

#include "kernels/eltwise/simd_loops.h"

namespace lathe::kernels {
namespace {

// A table of 256 bytes as sixteen rows of 16. For row h, x ^ 16 h is below 16 exactly for indices of that row; adding 0x70
// with saturation then leaves the top bit clear for those alone, and pshufb gives 0 for every other lane, so that the sixteen
// results can be or-ed.
__m256i look_up(__m256i index, const __m256i* rows) {
  const __m256i bias = _mm256_set1_epi8(0x70);
  __m256i result = _mm256_setzero_si256();
  for (int h = 0; h < 16; ++h) {
    const __m256i in_row = _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(16 * h))), bias);
    result = _mm256_or_si256(result, _mm256_shuffle_epi8(rows[h], in_row));
  }
  return result;
}

// to_index turns a stored byte into a table index, to_stored a table entry into a stored byte: both by xor.
void lut_8(const Lut8Args& g, uint8_t to_index, uint8_t to_stored) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  uint32_t i = 0;
  if (g.n >= 32) {
    const __m256i index_flip = _mm256_set1_epi8(static_cast<char>(to_index)),
                  stored_flip = _mm256_set1_epi8(static_cast<char>(to_stored));
    __m256i rows[16];
    for (int h = 0; h < 16; ++h) {
      const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(g.table + 16 * h));
      rows[h] = _mm256_xor_si256(_mm256_broadcastsi128_si256(row), stored_flip);
    }
    for (; i + 32 <= g.n; i += 32) {
      const __m256i index = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), index_flip);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), look_up(index, rows));
    }
  }
  for (; i < g.n; ++i)
    y[i] = static_cast<uint8_t>(static_cast<uint8_t>(g.table[static_cast<uint8_t>(x[i] ^ to_index)]) ^ to_stored);
}

// Whole vectors, then one that begins with the last elements and ends with zeros.
template <class From, class To>
void convert(const From* x, To* y, uint32_t n) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, load8(x + i), 8);
  if (i == n) return;
  From rest[8] = {};
  for (uint32_t j = 0; j < n - i; ++j) rest[j] = x[i + j];
  store8(y + i, load8(rest), n - i);
}

}  // namespace

void unary_f32_x86_avx2(const UnaryF32Args& g) { unary_f32<Lanes>(g); }
void binary_f32_x86_avx2(const BinaryF32Args& g) { binary_f32<Lanes>(g); }
void binary_s8_x86_avx2(const BinaryS8Args& g) { binary_8<Lanes, false>(g); }
void binary_u8_x86_avx2(const BinaryS8Args& g) { binary_8<Lanes, true>(g); }
void lut_s8_x86_avx2(const Lut8Args& g) { lut_8(g, 0x80, 0); }
void lut_u8_x86_avx2(const Lut8Args& g) { lut_8(g, 0, 0x80); }
void regrid_s8_x86_avx2(const RegridS8Args& g) { regrid_8<Lanes, false>(g); }
void regrid_u8_x86_avx2(const RegridS8Args& g) { regrid_8<Lanes, true>(g); }
void quantize_f32_s8_x86_avx2(const QuantizeF32Args& g) { quantize_8<Lanes>(g); }
void quantize_f32_u8_x86_avx2(const QuantizeF32Args& g) { quantize_8<Lanes>(g); }
void dequantize_s8_f32_x86_avx2(const DequantizeF32Args& g) { dequantize_8<Lanes, false>(g); }
void dequantize_u8_f32_x86_avx2(const DequantizeF32Args& g) { dequantize_8<Lanes, true>(g); }
void widen_f16_x86_avx2(const WidenF16Args& g) { convert(g.x, g.y, g.n); }
void narrow_f16_x86_avx2(const NarrowF16Args& g) { convert(g.x, g.y, g.n); }

}  // namespace lathe::kernels
