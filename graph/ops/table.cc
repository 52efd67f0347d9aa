// The op table: one OpDef per line of ops.def, each defined constinit in its family's file (a missing one is a link error).
#include "graph/ops/table.h"

namespace lathe {
namespace {

enum class OpIndex : size_t {
#define LATHE_OP(name, number, attrs) k##name,
#include "runtime/ops.def"
#undef LATHE_OP
};

constexpr const OpDef* kTable[] = {
#define LATHE_OP(name, number, attrs) &ops::k##name,
#include "runtime/ops.def"
#undef LATHE_OP
};

}  // namespace

const OpDef& op_def(Op op) {
  size_t index = 0;
  switch (op) {
#define LATHE_OP(name, number, attrs) \
  case Op::k##name: index = static_cast<size_t>(OpIndex::k##name); break;
#include "runtime/ops.def"
#undef LATHE_OP
  }
  return *kTable[index];
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* def : kTable)
    if (name == op_name(def->op)) return def;
  return nullptr;
}

}  // namespace lathe
