// Elementwise kernels for AVX-512.
#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/eltwise/simd_loops.h"

namespace lathe::kernels {
namespace {

// A table of 256 bytes as 128 words in four registers. VPERMI2W looks six bits up in two of them, and the result takes the
// index's place where the mask allows: bits 1 .. 6 of a byte name a word of the lower or, if bit 7 is set, of the upper half;
// bit 0 names its byte. Even and odd bytes go separately, as words.
struct ByteTable {
  __m512i part[4];
  [[gnu::always_inline]] __m512i words(__m512i index, __mmask32 upper) const {
    const __m512i v = _mm512_mask2_permutex2var_epi16(part[0], index, ~upper, part[1]);
    return _mm512_mask2_permutex2var_epi16(part[2], v, upper, part[3]);
  }
  [[gnu::always_inline]] __m512i operator()(__m512i index) const {
    const __m512i even = words(_mm512_srli_epi16(index, 1), _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80)));
    const __m512i odd = words(_mm512_srli_epi16(index, 9), _mm512_movepi16_mask(index));
    const __mmask32 even_high = _mm512_test_epi16_mask(index, _mm512_set1_epi16(1)),
                    odd_low = _mm512_testn_epi16_mask(index, _mm512_set1_epi16(0x100));
    // The low byte of one, the high byte of the other.
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16(0xff), _mm512_mask_srli_epi16(even, even_high, even, 8),
                                     _mm512_mask_slli_epi16(odd, odd_low, odd, 8), 0xca);
  }
};

// to_index turns a stored byte into a table index, to_stored a table entry into a stored byte: both by xor.
void lut_8(const Lut8Args& g, uint8_t to_index, uint8_t to_stored) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  const __m512i index_flip = _mm512_set1_epi8(static_cast<char>(to_index)),
                stored_flip = _mm512_set1_epi8(static_cast<char>(to_stored));
  ByteTable table;
  for (int i = 0; i < 4; ++i) table.part[i] = _mm512_xor_si512(_mm512_loadu_si512(g.table + 64 * i), stored_flip);
  uint32_t i = 0;
  for (; i + 64 <= g.n; i += 64) _mm512_storeu_si512(y + i, table(_mm512_xor_si512(_mm512_loadu_si512(x + i), index_flip)));
  if (i < g.n) {
    const __mmask64 lanes = (uint64_t{1} << (g.n - i)) - 1;
    _mm512_mask_storeu_epi8(y + i, lanes, table(_mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, x + i), index_flip)));
  }
}

}  // namespace

void unary_f32_x86_avx512(const UnaryF32Args& g) { unary_f32<Lanes>(g); }
void binary_f32_x86_avx512(const BinaryF32Args& g) { binary_f32<Lanes>(g); }
void binary_s8_x86_avx512(const BinaryS8Args& g) { binary_8<Lanes, false>(g); }
void binary_u8_x86_avx512(const BinaryS8Args& g) { binary_8<Lanes, true>(g); }
void lut_s8_x86_avx512(const Lut8Args& g) { lut_8(g, 0x80, 0); }
void lut_u8_x86_avx512(const Lut8Args& g) { lut_8(g, 0, 0x80); }
void regrid_s8_x86_avx512(const RegridS8Args& g) { regrid_8<Lanes, false>(g); }
void regrid_u8_x86_avx512(const RegridS8Args& g) { regrid_8<Lanes, true>(g); }
void quantize_f32_s8_x86_avx512(const QuantizeF32Args& g) { quantize_8<Lanes, false>(g); }
void quantize_f32_u8_x86_avx512(const QuantizeF32Args& g) { quantize_8<Lanes, true>(g); }
void dequantize_s8_f32_x86_avx512(const DequantizeF32Args& g) { dequantize_8<Lanes, false>(g); }
void dequantize_u8_f32_x86_avx512(const DequantizeF32Args& g) { dequantize_8<Lanes, true>(g); }

}  // namespace lathe::kernels
