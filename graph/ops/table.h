// Declarations of every op's definition, from ops.def.
#pragma once
#include "graph/op_def.h"

namespace lathe::ops {

#define LATHE_OP(name, number, attrs) extern const OpDef k##name;
#include "runtime/ops.def"
#undef LATHE_OP

}  // namespace lathe::ops
