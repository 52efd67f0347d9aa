#include "runtime/plan/dims.h"

namespace lathe {
namespace {

// floor (up = false) or ceiling of a / b. Returns false for b = 0 and for INT64_MIN / -1.
bool divide(int64_t a, int64_t b, bool up, int64_t* out) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  int64_t q = a / b;
  const int64_t r = a % b;
  if (r != 0) {
    const bool negative = (r < 0) != (b < 0);
    if (up && !negative) ++q;
    if (!up && negative) --q;
  }
  *out = q;
  return true;
}

// Value of record `i` from those before it. Returns false on overflow or division by zero.
bool evaluate(const ProgramDim& d, const int64_t* values, const int64_t* symbols, int64_t* out) {
  if (d.op == DimOp::kConst || d.op == DimOp::kSymbol) {
    *out = d.op == DimOp::kConst ? d.a : symbols[d.a];
    return true;
  }
  const int64_t a = values[d.a], b = values[d.b];
  switch (d.op) {
    case DimOp::kAdd: return !__builtin_add_overflow(a, b, out);
    case DimOp::kSub: return !__builtin_sub_overflow(a, b, out);
    case DimOp::kMul: return !__builtin_mul_overflow(a, b, out);
    case DimOp::kFloorDiv: return divide(a, b, false, out);
    case DimOp::kCeilDiv: return divide(a, b, true, out);
    case DimOp::kMin: *out = a < b ? a : b; return true;
    case DimOp::kMax: *out = a > b ? a : b; return true;
    default: return false;
  }
}

uint32_t as_dim(int64_t v) { return v < 0 ? 0 : v > INT32_MAX ? 0x7fffffffu : static_cast<uint32_t>(v); }

// Calls f(tensor, port) for every input until one is not ok.
template <class F> Status for_inputs(const Program& p, F&& f) {
  for (uint32_t t = 0; t < p.tensor_count(); ++t) {
    const ProgramTensor& tensor = p.tensor(t);
    if (tensor.kind != TensorKind::kInput) continue;
    const Status s = f(tensor, tensor.port);
    if (!s.ok()) return s;
  }
  return {};
}

// Symbols take the value of the first input axis that is just them.
Status bind_symbols(const Program& p, const Shape* inputs, int64_t* symbols) {
  for (uint32_t i = 0; i < p.header().symbol_count; ++i) symbols[i] = -1;
  return for_inputs(p, [&](const ProgramTensor& t, uint32_t port) -> Status {
    const Shape& s = inputs[port];
    if (s.rank != t.rank) return {Code::kInvalidArgument, port * kMaxRank, t.rank, s.rank};
    for (uint32_t k = 0; k < t.rank; ++k) {
      const ProgramDim& d = p.dim(t.dims[k]);
      // An empty batch has no result; whoever has nothing to run does not run.
      if (s.dims[k] == 0 && d.op == DimOp::kSymbol) return {Code::kInvalidArgument, port * kMaxRank + k, 1, 0};
      if (s.dims[k] < 0) return {Code::kInvalidArgument, port * kMaxRank + k, 0, static_cast<uint32_t>(s.dims[k])};
      if (d.op == DimOp::kSymbol && symbols[d.a] < 0) symbols[d.a] = s.dims[k];
    }
    return {};
  });
}

// Every input axis has the value that its dim says: constants, repeated symbols, expressions.
Status check_inputs(const Program& p, const Shape* inputs, const int64_t* values) {
  return for_inputs(p, [&](const ProgramTensor& t, uint32_t port) -> Status {
    for (uint32_t k = 0; k < t.rank; ++k) {
      const int64_t want = values[t.dims[k]];
      if (want != inputs[port].dims[k])
        return {Code::kInvalidArgument, port * kMaxRank + k, as_dim(want), static_cast<uint32_t>(inputs[port].dims[k])};
    }
    return {};
  });
}

}  // namespace

Status evaluate_dims(const Program& p, const Shape* inputs, const PlanMemory& memory, BoundDims* out) {
  const ProgramHeader& h = p.header();
  int64_t* symbols = memory.array<int64_t>(h.symbol_count);
  int64_t* values = memory.array<int64_t>(h.dim_count);
  Shape* shapes = memory.array<Shape>(h.tensor_count);
  if (symbols == nullptr || values == nullptr || shapes == nullptr) return {Code::kOutOfMemory, 0, h.tensor_count, 0};

  Status s = bind_symbols(p, inputs, symbols);
  if (!s.ok()) return s;
  for (uint32_t i = 0; i < h.dim_count; ++i) {
    const ProgramDim& d = p.dim(i);
    if (d.op == DimOp::kValue) return {Code::kUnsupported, i, 0, static_cast<uint32_t>(d.a)};
    // A symbol that is no input's axis has no value; whatever uses it cannot be bound.
    if (d.op == DimOp::kSymbol && symbols[d.a] < 0) return {Code::kUnsupported, i, 0, static_cast<uint32_t>(d.a)};
    if (!evaluate(d, values, symbols, &values[i])) return {Code::kCorrupt, i, 0, 0};
  }
  if (!(s = check_inputs(p, inputs, values)).ok()) return s;

  for (uint32_t t = 0; t < h.tensor_count; ++t) {
    const ProgramTensor& tensor = p.tensor(t);
    shapes[t].rank = tensor.rank;
    for (uint32_t k = 0; k < tensor.rank; ++k) {
      const int64_t v = values[tensor.dims[k]];
      if (v < 0 || v > INT32_MAX) return {Code::kCorrupt, h.dim_count + t, 0x7fffffff, as_dim(v)};
      shapes[t].dims[k] = static_cast<int32_t>(v);
    }
    uint32_t elems = 0;
    if (!checked_elems(shapes[t], dtype_bytes(tensor.dtype), &elems))
      return {Code::kCorrupt, h.dim_count + t, 0x7fffffff, 0xffffffffu};
  }
  *out = {values, shapes};
  return {};
}

}  // namespace lathe
