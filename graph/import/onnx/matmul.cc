// Matrix products. With a constant matrix on the right they are FullyConnected, which has its weight as [n, k].
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// Operand 1 as a weight: a constant float matrix; null if it is none.
Result<std::shared_ptr<const ConstTensor>> weight_operand(NodeImport& n) {
  LATHE_TRY(auto t, n.weight(1));
  return t && t->dims.size() == 2 && t->is_real() ? t : nullptr;
}

ConstTensor scaled(const ConstTensor& t, float factor) {
  if (factor == 1.0f) return t;
  const ConstTensor real = dequantized(t);
  std::vector<float> values(real.bytes.as<float>().begin(), real.bytes.as<float>().end());
  for (float& v : values) v *= factor;
  return {t.name, real.dtype, t.dims, Constant::of(values)};
}

// Whether c is one vector for all rows of a result with `columns` columns.
bool is_bias(const ConstTensor& c, int64_t columns) {
  const size_t rank = c.dims.size();
  return c.is_real() && (rank == 1 || (rank == 2 && c.dims[0] == 1)) && c.dims[rank - 1] == columns;
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

constexpr Ints kSwap{2, {1, 0}};

Result<void> gemm_of_activations(NodeImport& n, ValueId a, const MatMulAttrs& attrs, float beta) {
  LATHE_TRY(const ValueId b, n.value(1));
  if (n.rank(b) != 2)
    return fail(Code::kInvalidArgument, "the right-hand side has rank " + std::to_string(n.rank(b)) + ", not 2");
  if (!n.has_input(2) || beta == 0.0f) return n.finish(Op::kMatMul, attrs, {a, b});
  LATHE_TRY(const ValueId product, n.emit("", Op::kMatMul, attrs, {a, b}));
  return finish_with_addend(n, product, beta);
}

}  // namespace

// alpha * A' * B' + beta * C, with A' and B' transposed on request.
Result<void> import_gemm(NodeImport& n) {
  LATHE_TRY(const float alpha, n.real("alpha", 1.0f));
  LATHE_TRY(const float beta, n.real("beta", 1.0f));
  LATHE_TRY(const bool trans_a, n.flag("transA", false));
  LATHE_TRY(const bool trans_b, n.flag("transB", false));
  LATHE_TRY(const auto b, weight_operand(n));
  LATHE_TRY(ValueId a, n.value(0));
  if (n.rank(a) != 2) return fail(Code::kInvalidArgument, "the left-hand side has rank " + std::to_string(n.rank(a)) + ", not 2");
  if (trans_a) {
    LATHE_TRY(a, n.emit("transposed", Op::kTranspose, PermAttrs{kSwap}, {a}));
  }
  if (!b) {
    MatMulAttrs attrs;
    attrs.b_perm = trans_b ? kSwap : Ints{};
    attrs.scale = alpha;
    return gemm_of_activations(n, a, attrs, beta);
  }
  const ConstTensor w = scaled(trans_b ? *b : permuted(*b, {1, 0}), alpha);
  LATHE_TRY(const ValueId weight, n.builder().constant(w));
  if (!n.has_input(2) || beta == 0.0f) return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight});

  LATHE_TRY(const auto c, n.weight(2));
  if (c && is_bias(*c, w.dims[0])) {
    ConstTensor vector = scaled(*c, beta);
    if (vector.quant && vector.quant->axis >= 0 && vector.dims.size() != 1) vector = dequantized(vector);
    vector.dims = {w.dims[0]};
    LATHE_TRY(const ValueId bias, n.builder().constant(vector));
    return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight, bias});
  }
  LATHE_TRY(const ValueId product, n.emit("", Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight}));
  return finish_with_addend(n, product, beta);
}

// A constant matrix is a weight. Otherwise both operands are activations; ONNX gives an operand of rank 1 an axis of one element
// for the product, which goes again afterwards.
Result<void> import_matmul(NodeImport& n) {
  LATHE_TRY(const auto matrix, weight_operand(n));
  LATHE_TRY(ValueId a, n.value(0));
  if (matrix) {
    LATHE_TRY(const ValueId weight, n.builder().constant(permuted(*matrix, {1, 0})));
    return n.finish(Op::kFullyConnected, FullyConnectedAttrs{}, {a, weight});
  }
  LATHE_TRY(ValueId b, n.value(1));
  const bool row = n.rank(a) == 1, column = n.rank(b) == 1;
  if (!row && !column) return n.finish(Op::kMatMul, MatMulAttrs{}, {a, b});
  if (n.rank(a) == 0 || n.rank(b) == 0) return fail(Code::kInvalidArgument, "an operand has rank 0, must have at least 1");
  if (row) {
    LATHE_TRY(const ValueId target, n.integers_constant("row", {1, -1}));
    LATHE_TRY(a, n.emit("row", Op::kReshape, NoAttrs{}, {a, target}));
  }
  if (column) {
    LATHE_TRY(const ValueId target, n.integers_constant("column", {-1, 1}));
    LATHE_TRY(b, n.emit("column", Op::kReshape, NoAttrs{}, {b, target}));
  }
  LATHE_TRY(const ValueId product, n.emit("", Op::kMatMul, MatMulAttrs{}, {a, b}));
  // A single element: its mean has no axes.
  if (row && column) return n.finish(Op::kMean, ReduceAttrs{Ints{2, {0, 1}}, 0}, {product}, 0, "product");
  std::vector<Dim> dims = n.type(product).dims;
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - 2);
  return finish_reshaped(n, product, dims, "product");
}

}  // namespace lathe::onnx
