// Scalar elementwise kernels: what every other kernel of these families is compared with, and what targets without SIMD run.
#include "kernels/eltwise/eltwise.h"
#include "kernels/math/math.h"
#include "lathe/arith.h"
#include "lathe/float16.h"

namespace lathe::kernels {
namespace {

// NaN stays NaN.
float clamp_f32(float v, float lo, float hi) { return v < lo ? lo : (v > hi ? hi : v); }

float unary(UnaryOp op, float x, float a, float b) {
  switch (op) {
    case UnaryOp::kClamp: return clamp_f32(x, a, b);
    case UnaryOp::kSigmoid: return sigmoid_f32(x);
    case UnaryOp::kTanh: return tanh_f32(x);
    case UnaryOp::kExp: return exp_f32(x);
    case UnaryOp::kSqrt: return sqrt_f32(x);
    case UnaryOp::kLeakyRelu: return x >= 0 ? x : a * x;
    case UnaryOp::kHardSwish: return x * (clamp_f32(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
    case UnaryOp::kErf: return erf_f32(x);
    case UnaryOp::kGelu: return gelu_f32(x);
    case UnaryOp::kGeluTanh: return gelu_tanh_f32(x);
    case UnaryOp::kSilu: return silu_f32(x);
  }
  return kNaN;
}

float binary(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
  }
  return kNaN;
}

// An 8-bit value of storage T; `flip` turns the top bit of an operand that lies in the other storage.
template <class T> int32_t value_of(T stored, uint32_t flip) { return static_cast<T>(static_cast<uint8_t>(stored) ^ flip); }

int32_t binary_8(BinaryOp op, const BinaryS8Constants& c, int32_t a, int32_t b) {
  switch (op) {
    case BinaryOp::kAdd: return add_quantized(a, c.a_zero, c.m_a, b, c.b_zero, c.m_b, c.zero_point, c.lo, c.hi);
    case BinaryOp::kSub: return sub_quantized(a, c.a_zero, c.m_a, b, c.b_zero, c.m_b, c.zero_point, c.lo, c.hi);
    default: return mul_quantized(a, c.a_zero, b, c.b_zero, c.m_a, c.zero_point, c.lo, c.hi);
  }
}

template <class T> void binary_rows_8(const BinaryS8Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    const T* a = static_cast<const T*>(g.a) + r * g.a_row;
    const T* b = static_cast<const T*>(g.b) + r * g.b_row;
    T* y = static_cast<T*>(g.y) + r * g.y_row;
    for (uint32_t i = 0; i < g.n; ++i) {
      y[i] = static_cast<T>(binary_8(g.op, g.c, value_of(a[i * g.a_step], g.c.a_flip), value_of(b[i * g.b_step], g.c.b_flip)));
    }
  }
}

template <class T> void regrid_8(const RegridS8Args& g) {
  const T* x = static_cast<const T*>(g.x);
  T* y = static_cast<T*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) {
    const int32_t q = value_of(x[i], g.c.x_flip);
    y[i] = static_cast<T>(regrid(q, g.c.x_zero, q < g.c.x_zero ? g.c.m_neg : g.c.m_pos, g.c.zero_point, g.c.lo, g.c.hi));
  }
}

template <class T> void quantize_8(const QuantizeF32Args& g) {
  T* y = static_cast<T*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) y[i] = static_cast<T>(quantize(g.x[i], g.c.scale, g.c.zero_point, g.c.lo, g.c.hi));
}

template <class T> void dequantize_8(const DequantizeF32Args& g) {
  const T* x = static_cast<const T*>(g.x);
  for (uint32_t i = 0; i < g.n; ++i) g.y[i] = dequantize(value_of(x[i], g.c.x_flip), g.c.scale, g.c.zero_point);
}

}  // namespace

void unary_f32_scalar(const UnaryF32Args& g) {
  for (uint32_t i = 0; i < g.n; ++i) g.y[i] = unary(g.op, g.x[i], g.a, g.b);
}

void binary_f32_scalar(const BinaryF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    const float* a = g.a + r * g.a_row;
    const float* b = g.b + r * g.b_row;
    float* y = g.y + r * g.y_row;
    for (uint32_t i = 0; i < g.n; ++i) y[i] = clamp_f32(binary(g.op, a[i * g.a_step], b[i * g.b_step]), g.lo, g.hi);
  }
}

void binary_s8_scalar(const BinaryS8Args& g) { binary_rows_8<int8_t>(g); }
void binary_u8_scalar(const BinaryS8Args& g) { binary_rows_8<uint8_t>(g); }

void lut_s8_scalar(const Lut8Args& g) {
  const int8_t* x = static_cast<const int8_t*>(g.x);
  int8_t* y = static_cast<int8_t*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) y[i] = g.table[x[i] + 128];
}
void lut_u8_scalar(const Lut8Args& g) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) y[i] = static_cast<uint8_t>(g.table[x[i]] + 128);
}

void regrid_s8_scalar(const RegridS8Args& g) { regrid_8<int8_t>(g); }
void regrid_u8_scalar(const RegridS8Args& g) { regrid_8<uint8_t>(g); }
void quantize_f32_s8_scalar(const QuantizeF32Args& g) { quantize_8<int8_t>(g); }
void quantize_f32_u8_scalar(const QuantizeF32Args& g) { quantize_8<uint8_t>(g); }
void dequantize_s8_f32_scalar(const DequantizeF32Args& g) { dequantize_8<int8_t>(g); }
void dequantize_u8_f32_scalar(const DequantizeF32Args& g) { dequantize_8<uint8_t>(g); }

void widen_f16_scalar(const WidenF16Args& g) {
  for (uint32_t i = 0; i < g.n; ++i) g.y[i] = half_to_float(g.x[i]);
}
void narrow_f16_scalar(const NarrowF16Args& g) {
  for (uint32_t i = 0; i < g.n; ++i) g.y[i] = float_to_half(g.x[i]);
}

}  // namespace lathe::kernels
