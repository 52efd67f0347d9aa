// A dense row-major tensor on the host, as files hold it and as `lathe run` passes it on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lathe/dtype.h"

namespace lathe {

struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;     // empty: one element
  std::vector<std::byte> bytes;  // elems() * dtype_bytes(dtype)

  uint64_t elems() const;
  // Requires: T is as large as the dtype says.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Bytes of a tensor; false if a dim is negative or the product does not fit 63 bits.
bool checked_tensor_bytes(DType dtype, std::span<const int64_t> dims, uint64_t* bytes);

// "3x32x32"; "scalar" for no dims.
std::string dims_text(std::span<const int64_t> dims);
// From a name of dtype.def ("f32", "u8"); names the choices if there is none such.
Result<DType> parse_dtype(const std::string& text);

bool is_float(DType dtype);
// Element i of `data` as a double (exact but for s64 beyond 2^53).
double element_as_double(DType dtype, const std::byte* data, uint64_t i);
// All elements as float32, rounded to nearest; s64 and f64 lose what float32 cannot hold.
HostTensor to_f32(const HostTensor& tensor);
// Index of the first element that is NaN or infinite, or `elems`. Integers are finite.
uint64_t first_non_finite(DType dtype, const std::byte* data, uint64_t elems);

}  // namespace lathe
