// Element types, quantization parameters and constants of a TFLite file on our terms.
#include <cmath>
#include <cstring>

#include "graph/import/tflite/importer.h"
#include "graph/op_def.h"
#include "lathe/float16.h"

namespace lathe::tflite {
namespace {

constexpr int32_t kUint8Shift = 128;  // q - 128: uint8 values become s8

template <class T> T element(std::span<const std::byte> bytes, size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

Result<Constant> shifted(Builder& b, std::span<const std::byte> bytes) {
  std::vector<int8_t> out(bytes.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int8_t>(static_cast<uint8_t>(bytes[i]) ^ 0x80);
  return b.copy(out);
}

// From an element type that is wider or narrower than f32.
template <class T, class F> Result<Constant> to_f32(Builder& b, std::span<const std::byte> bytes, F convert) {
  std::vector<float> out(bytes.size() / sizeof(T));
  LATHE_CHECK_OK(b.charge(out.size() * sizeof(float)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = convert(element<T>(bytes, i));
  return Constant::of(out);
}

Result<Constant> constant_bytes(Builder& b, const FileTensor& t) {
  if (t.type == fbs::TensorType_FLOAT16) return to_f32<uint16_t>(b, t.data, half_to_float);
  if (t.type == fbs::TensorType_FLOAT64) return to_f32<double>(b, t.data, [](double v) { return static_cast<float>(v); });
  if (t.type == fbs::TensorType_UINT8 && !t.scales.empty()) return shifted(b, t.data);
  return b.share(t.data, type_bytes(t.type));
}

}  // namespace

Result<DType> dtype_of(const FileTensor& t) {
  switch (t.type) {
    case fbs::TensorType_FLOAT32:
    case fbs::TensorType_FLOAT16:
    case fbs::TensorType_FLOAT64: return DType::kF32;
    case fbs::TensorType_INT8: return DType::kS8;
    case fbs::TensorType_UINT8: return t.scales.empty() ? DType::kU8 : DType::kS8;
    case fbs::TensorType_INT16: return DType::kS16;
    case fbs::TensorType_UINT16: return DType::kU16;
    case fbs::TensorType_INT32: return DType::kS32;
    case fbs::TensorType_INT64: return DType::kS64;
    case fbs::TensorType_BOOL: return DType::kBool;
    default: return fail(Code::kUnsupported, "element type " + type_name(t.type) + " is not supported");
  }
}

Result<std::optional<Quant>> quant_of(const FileTensor& t) {
  const bool real = t.type == fbs::TensorType_INT8 || t.type == fbs::TensorType_UINT8 || t.type == fbs::TensorType_INT16 ||
                    t.type == fbs::TensorType_INT32;
  if (t.scales.empty() || !real) return std::optional<Quant>();
  const int32_t shift = t.type == fbs::TensorType_UINT8 ? kUint8Shift : 0;
  Quant q{.scales = {t.scales.begin(), t.scales.end()}, .zero_points = {}, .axis = t.scales.size() == 1 ? -1 : t.axis};
  for (size_t i = 0; i < t.scales.size(); ++i) {
    const int64_t z = t.zero_points.empty() ? 0 : t.zero_points[i];
    if (z < INT16_MIN || z > INT16_MAX) return fail(Code::kInvalidArgument, "zero point " + std::to_string(z));
    q.zero_points.push_back(static_cast<int32_t>(z) - shift);
  }
  if (t.type == fbs::TensorType_INT16) q.qmin = INT16_MIN, q.qmax = INT16_MAX;
  if (t.type == fbs::TensorType_INT32) q.qmin = INT32_MIN, q.qmax = INT32_MAX;
  return std::optional<Quant>(std::move(q));
}

// Integers of 32 bits and more are biases, shapes and indices: their scales, if any, follow from the operands'.
Result<ValueId> Builder::add_constant(int32_t tensor) {
  const auto i = static_cast<size_t>(tensor);
  const FileTensor& t = file.tensors[i];
  LATHE_TRY(const DType dtype, dtype_of(t));
  if (t.data.empty()) return fail(Code::kUnsupported, "it is empty");
  LATHE_TRY(auto quant, quant_of(t));
  if (dtype != DType::kS8 && dtype != DType::kS16) quant.reset();
  const TensorType type{dtype, dims_of(t.dims)};
  if (quant) {
    LATHE_CHECK_OK(check_quant(graph.dims(), type, *quant));
  }
  LATHE_TRY(Constant bytes, constant_bytes(*this, t));
  return graph.add_constant(names[i], type, std::move(bytes), std::move(quant));
}

Result<std::vector<float>> Builder::real_elements(ValueId v) {
  const Value& value = graph.value(v);
  if (value.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "'" + value.name + "' is not constant");
  LATHE_CHECK_OK(charge(value.constant.bytes.size() / dtype_bytes(value.type.dtype) * sizeof(float)));
  if (value.type.dtype == DType::kF32) {
    const std::span<const float> data = value.constant.as<float>();
    return std::vector<float>(data.begin(), data.end());
  }
  const bool is_wide = value.type.dtype == DType::kS16;
  if ((value.type.dtype != DType::kS8 && !is_wide) || !value.quant)
    return fail(Code::kUnsupported, "'" + value.name + "' is " + dtype_name(value.type.dtype) + ", which has no real values");
  const Quant& q = *value.quant;
  size_t inner = value.constant.bytes.size() / dtype_bytes(value.type.dtype);
  std::vector<float> out(inner);
  for (int32_t i = 0; i <= q.axis; ++i)
    inner /= static_cast<size_t>(*graph.dims().value(value.type.dims[static_cast<size_t>(i)]));
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t c = q.axis == -1 ? 0 : i / inner % q.scales.size();
    const int32_t v = is_wide ? value.constant.as<int16_t>()[i] : value.constant.as<int8_t>()[i];
    out[i] = static_cast<float>(v - q.zero_points[c]) * q.scales[c];
  }
  return out;
}

Result<ValueId> Builder::state(int32_t tensor) {
  const auto i = static_cast<size_t>(tensor);
  if (values[i] != kNoId) return values[i];
  const FileTensor& t = file.tensors[i];
  if (!t.is_variable) return fail(Code::kUnsupported, "state '" + names[i] + "' is no variable");
  size_t elems = 1;
  for (const int32_t d : t.dims)
    if (d < 1 || __builtin_mul_overflow(elems, static_cast<size_t>(d), &elems) || elems > INT32_MAX / sizeof(float))
      return fail(Code::kUnsupported, "state '" + names[i] + "' is empty or too large");
  LATHE_CHECK_OK(charge(elems * sizeof(float)));
  values[i] = graph.add_variable(names[i], {DType::kF32, dims_of(t.dims)}, Constant::of(std::vector<float>(elems, 0.0f)));
  return values[i];
}

}  // namespace lathe::tflite
