// Tensors of an ONNX file as typed bytes: raw, typed lists, external files.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/import/onnx/model_proto.h"
#include "graph/ir.h"

namespace lathe::onnx {

// A constant with concrete dims. Floats of any width are f32 here.
struct ConstTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  Constant bytes;
  // An integer tensor with parameters stands for real numbers: the constant operand of a DequantizeLinear.
  std::optional<Quant> quant = {};
  bool is_real() const { return dtype == DType::kF32 || quant.has_value(); }

  size_t elems() const { return bytes.bytes.size() / dtype_bytes(dtype); }
  // Requires: dtype is an integer or bool.
  std::vector<int64_t> ints() const;
};

// The dtype that stands for an ONNX element type, or kUnsupported. f16, bf16 and f64 give kF32.
Result<DType> dtype_of(int32_t elem_type);
// The ONNX type whose elements lie like those of `dtype`; 0 if there is none.
int32_t elem_type_of(DType dtype);
// Lower-case ONNX name, or the number.
std::string elem_type_name(int32_t elem_type);

// Product of dims times `elem_bytes`, or an error that prints the dims: negative, or over 2^31 - 1 bytes.
Result<size_t> checked_bytes(const std::vector<int64_t>& dims, size_t elem_bytes);
std::string dims_text(const std::vector<int64_t>& dims);

// An error that names the tensor if a float is NaN. Infinities stay: attention masks are made of them.
Result<void> check_numbers(const ConstTensor& t);

// The real numbers that t stands for, as f32; t itself if it has no parameters.
ConstTensor dequantized(const ConstTensor& t);

// A new tensor with axes permuted, and the axis of its parameters with them: result axis i is axis perm[i]. Shares the bytes
// where axes of size 1 are all that moves. Requires: perm is a permutation of t's axes.
ConstTensor permuted(const ConstTensor& t, const std::vector<int32_t>& perm);

// What becomes of finite float64 values that float32 does not reach.
enum class BeyondFloat : uint8_t { kError, kInfinity };

// Turns the file's tensors into ConstTensors. Holds what they need to stay alive.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const void> owner, std::filesystem::path folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}
  // Shares the file's bytes if they need no conversion and are aligned to their element; else copies. Errors name the tensor.
  Result<ConstTensor> read(const TensorProto& t, BeyondFloat beyond = BeyondFloat::kError);
  // Whether the bytes lie in the file or one of its external files.
  bool owns(const Constant& c) const;

 private:
  struct Raw {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
  };
  Result<Raw> raw_bytes(const TensorProto& t);
  Result<Raw> external_bytes(const TensorProto& t);
  Result<Raw> map_external(const std::string& location);

  std::shared_ptr<const void> owner_;
  std::filesystem::path folder_;
  std::map<std::string, Raw> files_;
};

}  // namespace lathe::onnx
