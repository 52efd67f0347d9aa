// Operator numbers and their attribute structs, from ops.def.
#pragma once
#include <stdint.h>

#include "runtime/attrs_move.h"

namespace lathe {

enum class Op : uint16_t {
#define LATHE_OP(name, number, attrs) k##name = number,
#include "runtime/ops.def"
#undef LATHE_OP
};

// Name as in ops.def; nullptr for a number that is not there.
constexpr const char* op_name(Op op) {
  switch (op) {
#define LATHE_OP(name, number, attrs) \
  case Op::k##name: return #name;
#include "runtime/ops.def"
#undef LATHE_OP
  }
  return nullptr;
}

// Size of the attribute struct as it stands in files; 0 for none or an unknown number.
constexpr uint32_t op_attr_bytes(Op op) {
  switch (op) {
#define LATHE_OP(name, number, attrs) \
  case Op::k##name: return attrs::kEmpty ? 0 : static_cast<uint32_t>(sizeof(attrs));
#include "runtime/ops.def"
#undef LATHE_OP
  }
  return 0;
}

}  // namespace lathe
