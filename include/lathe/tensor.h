// What a model says about one of its inputs or outputs.
//
// Plain values. Data itself is never wrapped: Session::run() takes pointers to dense row-major arrays.
#pragma once
#include <optional>
#include <string>

#include "lathe/dtype.h"
#include "lathe/quant.h"
#include "lathe/shape.h"

namespace lathe {

struct TensorInfo {
  // As in the imported model; "0", "1", ... in a stripped file.
  std::string name;
  DType dtype = DType::kF32;
  // Dims that the caller chooses at Session::bind() are -1: the batch, most often.
  Shape shape;
  // For 8-bit integers: real = (q - zero_point) * scale. Without them the numbers mean themselves.
  std::optional<QuantParams> quant;
};

// Bytes of a dense array of `shape`. Requires: no dim is -1.
constexpr uint64_t tensor_bytes(DType dtype, const Shape& shape) { return uint64_t{shape.elems()} * dtype_bytes(dtype); }

}  // namespace lathe
