// Comparisons, logic and choices.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

namespace code {
constexpr int32_t kLess = 58, kGreater = 61, kGreaterEqual = 62, kLessEqual = 63, kNotEqual = 72;
constexpr int32_t kSelect = 64, kLogicalOr = 84, kLogicalAnd = 86;
}

Result<ValueId> all_true(NodeImport& n) {
  Builder& b = n.builder();
  return b.graph.add_constant(b.value_name(n.name() + ":true"), {DType::kBool, {}}, Constant::of(std::vector<uint8_t>{1}));
}

}  // namespace

// Greater is less the other way round, not equal the contrary of equal.
Result<void> import_comparison(NodeImport& n) {
  ValueId v[2];
  for (size_t i = 0; i < 2; ++i) {
    LATHE_TRY(v[i], n.value(i));
    LATHE_TRY(v[i], n.real(v[i]));
  }
  switch (n.op().code) {
    case code::kLess: return n.finish(Op::kLess, NoAttrs{}, {v[0], v[1]});
    case code::kGreater: return n.finish(Op::kLess, NoAttrs{}, {v[1], v[0]});
    case code::kLessEqual: return n.finish(Op::kLessEqual, NoAttrs{}, {v[0], v[1]});
    case code::kGreaterEqual: return n.finish(Op::kLessEqual, NoAttrs{}, {v[1], v[0]});
    case code::kNotEqual: {
      LATHE_TRY(const ValueId equal, n.emit("equal", Op::kEqual, NoAttrs{}, {v[0], v[1]}));
      LATHE_TRY(const ValueId yes, all_true(n));
      return n.finish(Op::kBitXor, NoAttrs{}, {equal, yes});
    }
    default: return n.finish(Op::kEqual, NoAttrs{}, {v[0], v[1]});
  }
}

Result<void> import_logical(NodeImport& n) {
  LATHE_TRY(const ValueId a, n.value(0));
  LATHE_TRY(const ValueId b, n.value(1));
  const int32_t number = n.op().code;
  const Op op = number == code::kLogicalOr ? Op::kBitOr : number == code::kLogicalAnd ? Op::kBitAnd : Op::kBitXor;
  return n.finish(op, NoAttrs{}, {a, b});
}

Result<void> import_logical_not(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId yes, all_true(n));
  return n.finish(Op::kBitXor, NoAttrs{}, {x, yes});
}

// A vector of conditions of SELECT is for the first axis, not the last as broadcasting would have it.
Result<void> import_select(NodeImport& n) {
  LATHE_TRY(ValueId condition, n.value(0));
  LATHE_TRY(ValueId a, n.value(1));
  LATHE_TRY(a, n.real(a));
  LATHE_TRY(ValueId b, n.value(2));
  LATHE_TRY(b, n.real(b));
  if (n.op().code == code::kSelect && n.rank(condition) == 1 && n.rank(a) > 1) {
    std::vector<Dim> dims(n.rank(a), n.dims().constant(1));
    dims[0] = n.type(condition).dims[0];
    LATHE_TRY(condition, n.reshaped("rows", condition, dims));
  }
  LATHE_TRY(const ValueId y, n.emit("chosen", Op::kWhere, NoAttrs{}, {condition, a, b}));
  return n.finish_value(y);
}

}  // namespace lathe::tflite
