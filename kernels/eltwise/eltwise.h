// Elementwise kernels: one-input functions, binary operators, tables, regrid, quantize and dequantize.
//
// All of them are serial and safe in place: y may be exactly x, a or b (the same elements at the same index), never a partial
// overlap. They read and write exactly the elements named; no alignment is needed. 8-bit kernels exist per storage
// (kernels/isa.h): zero points and clamps are those of the storage, that is shifted by 128 for u8. 8-bit results follow
// lathe/arith.h and are equal bit for bit on every ISA; float results carry a tolerance (kernels/math/).
// Constants stand apart from pointers, so that a plan can hold them for a target of another word size.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// y[i] = f(x[i]).
enum class UnaryOp : uint32_t {
  kClamp,      // min(max(x, a), b); NaN stays NaN
  kSigmoid,    // 1 / (1 + exp(-x))
  kTanh,
  kExp,
  kSqrt,       // correctly rounded; negative gives NaN
  kLeakyRelu,  // x >= 0 ? x : a * x
  kHardSwish,  // x * min(max(x + 3, 0), 6) / 6
  kErf,
  kGelu,       // x (1 + erf(x / sqrt 2)) / 2
  kGeluTanh,   // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  kSilu,       // x / (1 + exp(-x))
};
struct UnaryF32Args {
  const float* x;
  float* y;
  uint32_t n;
  UnaryOp op;
  float a, b;
};
using UnaryF32Fn = void (*)(const UnaryF32Args&);

enum class BinaryOp : uint32_t { kAdd, kSub, kMul, kDiv };

// y[r][i] = clamp(a[r][i * a_step] op b[r][i * b_step], lo, hi) for r < rows, i < n. Row strides are in elements and may be 0
// (broadcast); a_step and b_step are 1, or 0 for one value per row. NaN results stay NaN. lo, hi may be infinite.
struct BinaryF32Args {
  const float* a;
  const float* b;
  float* y;
  uint32_t rows, n;
  uint32_t a_row, b_row, y_row;
  uint32_t a_step, b_step;
  BinaryOp op;
  float lo, hi;
};
using BinaryF32Fn = void (*)(const BinaryF32Args&);

// The same over 8-bit values: add_quantized, sub_quantized (m_a = s_a / s_y, m_b = s_b / s_y) or mul_quantized
// (m_a = s_a s_b / s_y; m_b unused); kDiv does not exist. A constant operand lies in files as s8 whatever the plan's storage:
// a_flip, b_flip = 0x80 says that its bytes must be read with the top bit turned to become the plan's storage, else 0.
struct BinaryS8Constants {
  uint32_t a_flip, b_flip;
  int32_t a_zero, b_zero;
  float m_a, m_b;
  int32_t zero_point, lo, hi;
};
struct BinaryS8Args {
  const void* a;
  const void* b;
  void* y;
  uint32_t rows, n;
  uint32_t a_row, b_row, y_row;
  uint32_t a_step, b_step;
  BinaryOp op;
  BinaryS8Constants c;
};
using BinaryS8Fn = void (*)(const BinaryS8Args&);

// y[i] = table[q + 128], q the value of x[i]; the table holds s8 results for q = -128 ... 127 and is the same for both
// storages (u8: the stored byte is the index, and 128 is added to the result).
struct Lut8Args {
  const void* x;
  void* y;
  uint32_t n;
  const int8_t* table;  // 256 entries
};
using Lut8Fn = void (*)(const Lut8Args&);

// y[i] = R(float(x[i] - x_zero) * m, zero_point), with m = m_neg where x[i] < x_zero (leaky ReLU) and m_pos elsewhere.
// Regrid: m_pos = m_neg = s_x / s_y. x_flip as in BinaryS8Constants.
struct RegridConstants {
  uint32_t x_flip;
  int32_t x_zero;
  float m_pos, m_neg;
  int32_t zero_point, lo, hi;
};
struct RegridS8Args {
  const void* x;
  void* y;
  uint32_t n;
  RegridConstants c;
};
using RegridS8Fn = void (*)(const RegridS8Args&);

// y[i] = R(x[i] / scale, zero_point): true division; NaN gives lo.
struct QuantizeConstants {
  float scale;
  int32_t zero_point, lo, hi;
};
struct QuantizeF32Args {
  const float* x;
  void* y;
  uint32_t n;
  QuantizeConstants c;
};
using QuantizeF32Fn = void (*)(const QuantizeF32Args&);

// y[i] = float(x[i] - zero_point) * scale. x_flip as in BinaryS8Constants.
struct DequantizeConstants {
  uint32_t x_flip;
  float scale;
  int32_t zero_point;
};
struct DequantizeF32Args {
  const void* x;
  float* y;
  uint32_t n;
  DequantizeConstants c;
};
using DequantizeF32Fn = void (*)(const DequantizeF32Args&);

// Half precision (lathe/float16.h) to float32, exactly, and back, rounding half to even. Equal bit for bit on every ISA.
struct WidenF16Args {
  const uint16_t* x;
  float* y;
  uint32_t n;
};
using WidenF16Fn = void (*)(const WidenF16Args&);
struct NarrowF16Args {
  const float* x;
  uint16_t* y;
  uint32_t n;
};
using NarrowF16Fn = void (*)(const NarrowF16Args&);

}  // namespace lathe::kernels
