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

bool is_leaf(DimOp op) { return op == DimOp::kConst || op == DimOp::kSymbol || op == DimOp::kValue; }

// The values of all dim records. `known[i]` is 0 where one depends on data that is not there yet.
Status evaluate_records(const Program& p, const int64_t* symbols, const DataDims* data, int64_t* values, uint8_t* known) {
  for (uint32_t i = 0; i < p.header().dim_count; ++i) {
    const ProgramDim& d = p.dim(i);
    if (d.op == DimOp::kValue) {
      if (p.header().segment_count == 1) return {Code::kUnsupported, i, 0, static_cast<uint32_t>(d.a)};
      known[i] = data != nullptr && data->known[i] != 0;
      values[i] = known[i] != 0 ? data->values[i] : 0;
      continue;
    }
    known[i] = is_leaf(d.op) || (known[d.a] != 0 && known[d.b] != 0);
    if (known[i] == 0) continue;
    // A symbol that is no input's axis has no value; whatever uses it cannot be bound.
    if (d.op == DimOp::kSymbol && symbols[d.a] < 0) return {Code::kUnsupported, i, 0, static_cast<uint32_t>(d.a)};
    if (!evaluate(d, values, symbols, &values[i])) return {Code::kCorrupt, i, 0, 0};
  }
  return {};
}

// The shape of one tensor; `open` if it has a dim that is not known.
Status make_shape(const Program& p, uint32_t t, const int64_t* values, const uint8_t* known, Shape* shape, uint8_t* open) {
  const ProgramTensor& tensor = p.tensor(t);
  const uint32_t where = p.header().dim_count + t;
  shape->rank = tensor.rank;
  for (uint32_t k = 0; k < tensor.rank; ++k) {
    const int64_t v = values[tensor.dims[k]];
    if (known[tensor.dims[k]] == 0) *open = 1;
    if (v < 0 || v > INT32_MAX) return {Code::kCorrupt, where, 0x7fffffff, as_dim(v)};
    shape->dims[k] = known[tensor.dims[k]] == 0 ? -1 : static_cast<int32_t>(v);
  }
  uint32_t elems = 0;
  if (*open == 0 && !checked_elems(*shape, dtype_bytes(tensor.dtype), &elems))
    return {Code::kCorrupt, where, 0x7fffffff, 0xffffffffu};
  return {};
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

Status evaluate_dims(const Program& p, const Shape* inputs, const PlanMemory& memory, BoundDims* out, const DataDims* data) {
  const ProgramHeader& h = p.header();
  int64_t* symbols = memory.array<int64_t>(h.symbol_count);
  int64_t* values = memory.array<int64_t>(h.dim_count);
  uint8_t* known = memory.array<uint8_t>(h.dim_count);
  Shape* shapes = memory.array<Shape>(h.tensor_count);
  uint8_t* open = memory.array<uint8_t>(h.tensor_count);
  if (symbols == nullptr || values == nullptr || known == nullptr || shapes == nullptr || open == nullptr)
    return {Code::kOutOfMemory, 0, h.tensor_count, 0};

  Status s = bind_symbols(p, inputs, symbols);
  if (s.ok()) s = evaluate_records(p, symbols, data, values, known);
  if (s.ok()) s = check_inputs(p, inputs, values);
  for (uint32_t t = 0; s.ok() && t < h.tensor_count; ++t) s = make_shape(p, t, values, known, &shapes[t], &open[t]);
  if (!s.ok()) return s;
  *out = {values, shapes, open};
  return {};
}

}  // namespace lathe
