// IEEE half precision as a storage format: conversion to and from float32 in integers, for targets without instructions for it.
//
// Every half is a float, so widening is exact; narrowing rounds half to even, overflows to infinity, and keeps subnormals. A NaN
// stays one, quiet, with the top of its payload. That is what F16C, AVX-512 and Arm do, bit for bit. Pure functions,
// freestanding.
#pragma once
#include <stdint.h>

namespace lathe {

// The largest finite half.
inline constexpr float kMaxHalf = 65504.0f;

constexpr float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000 | fraction << 13 | (fraction != 0 ? 0x400000u : 0u));
  if (exponent != 0) return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
}

constexpr uint16_t float_to_half(float f) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, f), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
  if (x > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (x >> 13 & 0x3ff));
  if (x >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and more round to infinity
  uint32_t kept, rest, half;  // the result before rounding; what is cut off; half a unit of the result
  if (x >= 0x38800000) {
    const uint32_t rebiased = x - (112u << 23);
    kept = rebiased >> 13, rest = rebiased & 0x1fff, half = 0x1000;
  } else {
    const uint32_t shift = 126 - (x >> 23), significand = (x & 0x7fffff) | 0x800000;  // results are multiples of 2^-24
    if (shift > 24) return static_cast<uint16_t>(sign);
    kept = significand >> shift, rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  }
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  return static_cast<uint16_t>(sign | kept);
}

// bfloat16 is the upper half of a float: widening is exact, narrowing rounds half to even. A NaN stays one, quiet.
constexpr float bfloat_to_float(uint16_t b) { return __builtin_bit_cast(float, static_cast<uint32_t>(b) << 16); }
constexpr uint16_t float_to_bfloat(float f) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, f);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace lathe
