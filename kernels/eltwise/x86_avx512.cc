// Elementwise kernels for AVX-512. Tables stay with AVX2: without VBMI wider vectors gain nothing there.
#include "kernels/math/x86_avx512_lanes.h"

#include "kernels/eltwise/simd_loops.h"

namespace lathe::kernels {

void unary_f32_x86_avx512(const UnaryF32Args& g) { unary_f32<Lanes>(g); }
void binary_f32_x86_avx512(const BinaryF32Args& g) { binary_f32<Lanes>(g); }
void binary_s8_x86_avx512(const BinaryS8Args& g) { binary_8<Lanes, false>(g); }
void binary_u8_x86_avx512(const BinaryS8Args& g) { binary_8<Lanes, true>(g); }
void regrid_s8_x86_avx512(const RegridS8Args& g) { regrid_8<Lanes, false>(g); }
void regrid_u8_x86_avx512(const RegridS8Args& g) { regrid_8<Lanes, true>(g); }
void quantize_f32_s8_x86_avx512(const QuantizeF32Args& g) { quantize_8<Lanes>(g); }
void quantize_f32_u8_x86_avx512(const QuantizeF32Args& g) { quantize_8<Lanes>(g); }
void dequantize_s8_f32_x86_avx512(const DequantizeF32Args& g) { dequantize_8<Lanes, false>(g); }
void dequantize_u8_f32_x86_avx512(const DequantizeF32Args& g) { dequantize_8<Lanes, true>(g); }

}  // namespace lathe::kernels
