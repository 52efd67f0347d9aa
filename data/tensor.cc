#include "data/tensor.h"

#include <cmath>
#include <cstring>

#include "base/cursor.h"

namespace lathe {
namespace {

template <class T>
T load(const std::byte* data, uint64_t i) {
  T v;
  std::memcpy(&v, data + i * sizeof(T), sizeof(T));
  return v;
}

// IEEE binary16: sign, 5 exponent bits (bias 15), 10 mantissa bits.
double half_to_double(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const int mantissa = h & 1023;
  double v = 0;
  if (exponent == 31) {
    v = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    v = std::ldexp(mantissa, -24);
  } else {
    v = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return (h & 0x8000) != 0 ? -v : v;
}

double bfloat_to_double(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f = 0;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

}  // namespace

uint64_t HostTensor::elems() const {
  uint64_t n = 1;
  for (const int64_t d : dims) n *= static_cast<uint64_t>(d);
  return n;
}

bool checked_tensor_bytes(DType dtype, std::span<const int64_t> dims, uint64_t* bytes) {
  uint64_t n = dtype_bytes(dtype);
  bool empty = false;
  for (const int64_t d : dims) {
    if (d < 0) return false;
    empty |= d == 0;
    if (!checked_mul(n, d == 0 ? 1 : static_cast<uint64_t>(d), &n) || n > static_cast<uint64_t>(INT64_MAX)) return false;
  }
  *bytes = empty ? 0 : n;
  return true;
}

std::string dims_text(std::span<const int64_t> dims) {
  if (dims.empty()) return "scalar";
  std::string out;
  for (const int64_t d : dims) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out;
}

Result<DType> parse_dtype(const std::string& text) {
  std::string names;
#define LATHE_DTYPE(name, number, bytes, label) \
  if (text == label) return DType::k##name;     \
  names += names.empty() ? label : ", " label;
#include "lathe/dtype.def"
#undef LATHE_DTYPE
  return fail(Code::kInvalidArgument, "unknown dtype '" + text + "' (known: " + names + ")");
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

double element_as_double(DType dtype, const std::byte* data, uint64_t i) {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data, i);
    case DType::kF64:
      return load<double>(data, i);
    case DType::kF16:
      return half_to_double(load<uint16_t>(data, i));
    case DType::kBF16:
      return bfloat_to_double(load<uint16_t>(data, i));
    case DType::kS8:
      return load<int8_t>(data, i);
    case DType::kU8:
      return load<uint8_t>(data, i);
    case DType::kBool:
      return load<uint8_t>(data, i) != 0 ? 1 : 0;
    case DType::kS16:
      return load<int16_t>(data, i);
    case DType::kU16:
      return load<uint16_t>(data, i);
    case DType::kS32:
      return load<int32_t>(data, i);
    case DType::kU32:
      return load<uint32_t>(data, i);
    case DType::kS64:
      return static_cast<double>(load<int64_t>(data, i));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(data, i));
  }
  return 0;
}

HostTensor to_f32(const HostTensor& tensor) {
  if (tensor.dtype == DType::kF32) return tensor;
  HostTensor out{DType::kF32, tensor.dims, {}};
  const uint64_t n = tensor.elems();
  out.bytes.resize(n * sizeof(float));
  for (uint64_t i = 0; i < n; ++i) {
    const float v = static_cast<float>(element_as_double(tensor.dtype, tensor.bytes.data(), i));
    std::memcpy(out.bytes.data() + i * sizeof v, &v, sizeof v);
  }
  return out;
}

uint64_t first_non_finite(DType dtype, const std::byte* data, uint64_t elems) {
  if (!is_float(dtype)) return elems;
  for (uint64_t i = 0; i < elems; ++i)
    if (!std::isfinite(element_as_double(dtype, data, i))) return i;
  return elems;
}

}  // namespace lathe
