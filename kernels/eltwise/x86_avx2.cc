// Elementwise kernels for AVX2.
#include "kernels/math/x86_avx2_lanes.h"
#include "kernels/math/x86_avx2_storage.h"

#include "kernels/eltwise/simd_loops.h"

namespace lathe::kernels {
namespace {

// A table of 256 bytes as sixteen rows of 16, each kept as its difference (xor) from the one before, but for rows 0 and 8. PSHUFB
// looks an index's low four bits up and gives 0 where its top bit is set; every step takes 16 from the index. It has met all rows
// of its half up to its own, whose xor is that row, when it turns negative.
struct ByteTable {
  __m256i rows[16];
  ByteTable(const int8_t* table, __m256i flip) {
    __m256i before = _mm256_setzero_si256();
    for (int h = 0; h < 16; ++h) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * h));
      const __m256i row = _mm256_xor_si256(_mm256_broadcastsi128_si256(bytes), flip);
      rows[h] = h % 8 == 0 ? row : _mm256_xor_si256(row, before);
      before = row;
    }
  }
  [[gnu::always_inline]] __m256i operator()(__m256i index) const {
    const __m256i step = _mm256_set1_epi8(16);
    __m256i lower = index, upper = _mm256_xor_si256(index, _mm256_set1_epi8(-128));
    __m256i a = _mm256_shuffle_epi8(rows[0], lower), b = _mm256_shuffle_epi8(rows[8], upper);
    for (int h = 1; h < 8; ++h) {
      lower = _mm256_subs_epi8(lower, step);
      upper = _mm256_subs_epi8(upper, step);
      a = _mm256_xor_si256(a, _mm256_shuffle_epi8(rows[h], lower));
      b = _mm256_xor_si256(b, _mm256_shuffle_epi8(rows[h + 8], upper));
    }
    return _mm256_xor_si256(a, b);
  }
};

// to_index turns a stored byte into a table index, to_stored a table entry into a stored byte: both by xor.
void lut_8(const Lut8Args& g, uint8_t to_index, uint8_t to_stored) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  uint32_t i = 0;
  if (g.n >= 32) {
    const __m256i index_flip = _mm256_set1_epi8(static_cast<char>(to_index)),
                  stored_flip = _mm256_set1_epi8(static_cast<char>(to_stored));
    const ByteTable table(g.table, stored_flip);
    for (; i + 32 <= g.n; i += 32) {
      const __m256i index = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), index_flip);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), table(index));
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
void quantize_f32_s8_x86_avx2(const QuantizeF32Args& g) { quantize_8<Lanes, false>(g); }
void quantize_f32_u8_x86_avx2(const QuantizeF32Args& g) { quantize_8<Lanes, true>(g); }
void dequantize_s8_f32_x86_avx2(const DequantizeF32Args& g) { dequantize_8<Lanes, false>(g); }
void dequantize_u8_f32_x86_avx2(const DequantizeF32Args& g) { dequantize_8<Lanes, true>(g); }
void widen_f16_x86_avx2(const WidenF16Args& g) { convert(g.x, g.y, g.n); }
void narrow_f16_x86_avx2(const NarrowF16Args& g) { convert(g.x, g.y, g.n); }

}  // namespace lathe::kernels
