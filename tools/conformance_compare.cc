#include "tools/conformance_compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "lathe/float16.h"
#include "tools/runner.h"

namespace lathe::tools {
namespace {

constexpr double kRelative = 1e-3, kAbsolute = 1e-7;
constexpr double kBfloat16Unit = 0x1p-7;  // largest distance of neighbours, relative

bool is_signed_byte_form(DType dtype, bool is_quantized, DType file) {
  return dtype == DType::kS8 && is_quantized && file == DType::kU8;
}

float round_to_bfloat16(float v) {
  if (!std::isfinite(v)) return v;
  const auto bits = std::bit_cast<uint32_t>(v);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

// How one element is compared.
struct Tolerance {
  double relative = kRelative;
  float (*round)(float) = nullptr;
};

Tolerance tolerance_of(int32_t elem_type) {
  if (elem_type == static_cast<int32_t>(onnx::ElemType::kFloat16))
    return {kRelative, [](float v) { return half_to_float(float_to_half(v)); }};
  if (elem_type == static_cast<int32_t>(onnx::ElemType::kBfloat16)) return {kBfloat16Unit, round_to_bfloat16};
  return {};
}

bool agrees(double a, double b, double relative) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= kAbsolute + relative * std::fabs(b);
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

// Collects the elements that differ.
class Differences {
 public:
  explicit Differences(size_t shown) : shown_(shown) {}
  void add(size_t index, const std::string& computed, const std::string& expected) {
    if (count_++ < shown_)
      text_ += (text_.empty() ? "element " : ", element ") + std::to_string(index) + " is " + computed + ", expected " + expected;
  }
  Result<void> result(size_t elems) const {
    if (count_ == 0) return {};
    return fail(Code::kInvalidArgument, std::to_string(count_) + " of " + std::to_string(elems) + " elements differ: " + text_);
  }

 private:
  size_t shown_, count_ = 0;
  std::string text_;
};

void compare_floats(const Computed& c, const onnx::ConstTensor& expected, const Tolerance& tolerance, Differences* differences) {
  const auto want = expected.bytes.as<float>();
  for (size_t i = 0; i < want.size(); ++i) {
    float v;
    std::memcpy(&v, c.bytes + i * sizeof v, sizeof v);
    if (tolerance.round != nullptr) v = tolerance.round(v);
    if (!agrees(v, want[i], tolerance.relative)) differences->add(i, number(v), number(want[i]));
  }
}

void compare_integers(const Computed& c, const onnx::ConstTensor& expected, Differences* differences) {
  const std::vector<int64_t> want = expected.ints();
  const auto bytes = std::as_bytes(std::span<const uint8_t>(c.bytes, want.size() * dtype_bytes(c.dtype)));
  const auto have = onnx::ConstTensor{"", c.dtype, expected.dims, Constant::copy(bytes)}.ints();
  const int64_t shift = is_signed_byte_form(c.dtype, c.is_quantized, expected.dtype) ? 128 : 0;
  for (size_t i = 0; i < want.size(); ++i)
    if (have[i] + shift != want[i]) differences->add(i, std::to_string(have[i] + shift), std::to_string(want[i]));
}

}  // namespace

Result<void> copy_tensor(const onnx::ConstTensor& from, const ProgramTensor& input, uint8_t* to) {
  const bool shifted = is_signed_byte_form(input.dtype, (input.flags & kTensorHasQuant) != 0, from.dtype);
  if (input.dtype != from.dtype && !shifted)
    return fail(Code::kInvalidArgument, "input '" + from.name + "' is " + dtype_name(from.dtype) + " in the case and " +
                                            dtype_name(input.dtype) + " in the program");
  std::memcpy(to, from.bytes.bytes.data(), from.bytes.bytes.size());
  for (size_t i = 0; shifted && i < from.bytes.bytes.size(); ++i) to[i] ^= 0x80;
  return {};
}

Result<void> compare_output(const Computed& computed, const onnx::ConstTensor& expected, int32_t elem_type, size_t shown) {
  if (computed.dtype != expected.dtype && !is_signed_byte_form(computed.dtype, computed.is_quantized, expected.dtype))
    return fail(Code::kInvalidArgument,
                std::string("it is ") + dtype_name(computed.dtype) + ", expected " + dtype_name(expected.dtype));
  const auto& dims = expected.dims;
  const Shape& s = computed.shape;
  if (s.rank != dims.size() || !std::equal(dims.begin(), dims.end(), s.dims))
    return fail(Code::kInvalidArgument, "its shape is " + shape_text(s) + ", expected " + onnx::dims_text(dims));
  Differences differences(shown);
  if (computed.dtype == DType::kF32) compare_floats(computed, expected, tolerance_of(elem_type), &differences);
  else compare_integers(computed, expected, &differences);
  return differences.result(expected.elems());
}

}  // namespace lathe::tools
