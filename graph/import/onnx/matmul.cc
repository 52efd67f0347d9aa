// Matrix products with a constant right-hand side: FullyConnected has its weight as [n, k].
#include "graph/import/onnx/importer.h"

namespace lathe::onnx {
namespace {

Result<std::shared_ptr<const ConstTensor>> matrix_operand(NodeImport& n, size_t i) {
  LATHE_TRY(auto t, n.constant(i));
  if (!t) return fail(Code::kUnsupported, "right-hand side '" + std::string(n.proto().inputs[i]) + "' is not constant");
  if (t->dims.size() != 2)
    return fail(Code::kUnsupported,
                "a right-hand side of rank " + std::to_string(t->dims.size()) + " is not supported, only matrices");
  if (t->dtype != DType::kF32)
    return fail(Code::kUnsupported, std::string("a right-hand side of type ") + dtype_name(t->dtype) + " is not supported");
  return t;
}

ConstTensor scaled(const ConstTensor& t, float factor) {
  if (factor == 1.0f) return t;
  std::vector<float> values(t.bytes.as<float>().begin(), t.bytes.as<float>().end());
  for (float& v : values) v *= factor;
  return {t.name, t.dtype, t.dims, Constant::of(values)};
}

// Whether c is one vector for all rows of a result with `columns` columns.
bool is_bias(const ConstTensor& c, int64_t columns) {
  const size_t rank = c.dims.size();
  return c.dtype == DType::kF32 && (rank == 1 || (rank == 2 && c.dims[0] == 1)) && c.dims[rank - 1] == columns;
}

// beta * C, to be added to the product: C may be of any shape that broadcasts.
Result<void> finish_with_addend(NodeImport& n, ValueId product, float beta) {
  LATHE_TRY(ValueId c, n.value(2));
  if (beta != 1.0f) {
    const ConstTensor factor{n.builder().value_name(n.name() + ":beta"), DType::kF32, {}, Constant::of(std::vector<float>{beta})};
    LATHE_TRY(const ValueId b, n.builder().constant(factor));
    LATHE_TRY(c, n.emit("scaled_c", Op::kMul, BinaryAttrs{}, {c, b}));
  }
  return n.finish(Op::kAdd, BinaryAttrs{}, {product, c}, 0, "add");
}

}  // namespace

// alpha * A' * B' + beta * C, with A' and B' transposed on request.
Result<void> import_gemm(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  LATHE_TRY(const float beta, n.real("beta", 1.0f));
  LATHE_TRY(const bool trans_a, n.flag("transA", false));
  LATHE_TRY(const bool trans_b, n.flag("transB", false));
  LATHE_TRY(const auto b, matrix_operand(n, 1));
  LATHE_TRY(ValueId a, n.value(0));
  if (n.rank(a) != 2) return fail(Code::kInvalidArgument, "the left-hand side has rank " + std::to_string(n.rank(a)) + ", not 2");
  const ConstTensor w = scaled(trans_b ? *b : permuted(*b, {1, 0}), alpha);
  LATHE_TRY(const ValueId weight, n.builder().constant(w));
  if (trans_a) {
    PermAttrs swap;
    swap.perm = Ints{2, {1, 0}};
    LATHE_TRY(a, n.emit("transposed", Op::kTranspose, swap, {a}));
  }
  if (!n.has_input(2) || beta == 0.0f) return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight});

  LATHE_TRY(const auto c, n.constant(2));
  if (c && is_bias(*c, w.dims[0])) {
    ConstTensor vector = scaled(*c, beta);
    vector.dims = {w.dims[0]};
    LATHE_TRY(const ValueId bias, n.builder().constant(vector));
    return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight, bias});
  }
  LATHE_TRY(const ValueId product, n.emit("", Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight}));
  return finish_with_addend(n, product, beta);
}

Result<void> import_matmul(NodeImport& n) {
  LATHE_TRY(const auto b, matrix_operand(n, 1));
  LATHE_TRY(const ValueId a, n.value(0));
  LATHE_TRY(const ValueId weight, n.builder().constant(permuted(*b, {1, 0})));
  return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight});
}

}  // namespace lathe::onnx
