// Element types of tensors: number in files, size and name. From dtype.def.
#pragma once
#include <stdint.h>

namespace lathe {

enum class DType : uint8_t {
#define LATHE_DTYPE(name, number, bytes, text) k##name = number,
#include "lathe/dtype.def"
#undef LATHE_DTYPE
};

// Bytes per element; 0 for a number that is not in dtype.def.
constexpr uint32_t dtype_bytes(DType t) {
  switch (t) {
#define LATHE_DTYPE(name, number, bytes, text) \
  case DType::k##name: return bytes;
#include "lathe/dtype.def"
#undef LATHE_DTYPE
  }
  return 0;
}

// Lower-case name as text form, CLI and TOML use it; nullptr for a number that is not in dtype.def.
constexpr const char* dtype_name(DType t) {
  switch (t) {
#define LATHE_DTYPE(name, number, bytes, text) \
  case DType::k##name: return text;
#include "lathe/dtype.def"
#undef LATHE_DTYPE
  }
  return nullptr;
}

}  // namespace lathe
