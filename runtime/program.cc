// The structural check of PLAN. Everything is checked in the order in which later checks and every reader rely on it: header,
// table bounds, dims, tensors, steps, segments. All sums and products are made in 64 bits from 32-bit fields, so none can
// overflow.
#include "runtime/program.h"

#include "runtime/arity.h"

namespace lathe {
namespace {

constexpr Status corrupt(uint32_t where, uint64_t needed, uint64_t got) {
  constexpr uint64_t kMax = 0xffffffffu;
  return {Code::kCorrupt, where, static_cast<uint32_t>(needed < kMax ? needed : kMax),
          static_cast<uint32_t>(got < kMax ? got : kMax)};
}

// One bit per tensor; on the stack, so that the check needs no memory from the caller.
class TensorSet {
 public:
  bool has(uint32_t i) const { return (words_[i / 32] >> (i % 32) & 1) != 0; }
  // Returns false if i was in the set already.
  bool add(uint32_t i) {
    if (has(i)) return false;
    words_[i / 32] |= 1u << (i % 32);
    return true;
  }

 private:
  uint32_t words_[kMaxTensors / 32] = {};
};

bool finite(float v) { return v - v == 0; }

// What dtype can hold, for quantization parameters; false for a type that cannot carry them.
bool quant_range(DType t, int64_t* lo, int64_t* hi) {
  switch (t) {
    case DType::kS8: *lo = -128, *hi = 127; return true;
    case DType::kU8: *lo = 0, *hi = 255; return true;
    case DType::kS16: *lo = -32768, *hi = 32767; return true;
    case DType::kS32: *lo = -2147483648LL, *hi = 2147483647; return true;
    default: return false;
  }
}

// Attribute members as every prepare() may rely on them: list counts within their arrays, floats not NaN.
struct MemberCheck {
  bool ok = true;
  void operator()(const char*, const Ints& v) { ok = ok && v.count >= 0 && v.count <= static_cast<int32_t>(kMaxRank); }
  void operator()(const char*, float v) { ok = ok && v == v; }
  void operator()(const char*, int32_t) {}
  template <unsigned N> void operator()(const char*, const int32_t (&)[N]) {}
};

template <class A> bool attrs_ok(const A& a) {
  MemberCheck check;
  A::visit(a, check);
  return check.ok;
}

bool attrs_ok(const Program& p, const ProgramStep& s) {
  switch (static_cast<Op>(s.op)) {
#define LATHE_OP(name, number, attrs_type) \
  case Op::k##name: return attrs_ok(p.attrs<attrs_type>(s));
#include "runtime/ops.def"
#undef LATHE_OP
  }
  return false;
}

Status check_table(const ProgramHeader& h, uint32_t which, uint32_t count, uint32_t record, uint32_t least, uint32_t at) {
  if (record < least || record % 4 != 0) return corrupt(which, least, record);
  if (at % 4 != 0 || at < sizeof(ProgramHeader)) return corrupt(which, sizeof(ProgramHeader), at);
  const uint64_t end = at + static_cast<uint64_t>(count) * record;
  return end <= h.bytes ? Status{} : corrupt(which, end, h.bytes);
}

Status check_header(Bytes plan) {
  if (plan.data == nullptr || reinterpret_cast<uintptr_t>(plan.data) % 8 != 0) return {Code::kInvalidArgument, 0, 8, 0};
  if (plan.size < sizeof(ProgramHeader)) return corrupt(0, sizeof(ProgramHeader), plan.size);
  const ProgramHeader& h = *reinterpret_cast<const ProgramHeader*>(plan.data);
  if (h.magic != kProgramMagic) return corrupt(0, kProgramMagic, h.magic);
  if (h.major != kProgramMajor) return {Code::kVersion, 0, kProgramMajor, h.major};
  if (h.bytes != plan.size) return corrupt(0, h.bytes, plan.size);

  // `where` of a table that is out of bounds: 1 dims, 2 tensors, 3 steps, 4 operands, 5 attributes, 6 segments.
  const Status tables[] = {
      check_table(h, 1, h.dim_count, h.dim_bytes, sizeof(ProgramDim), h.dim_at),
      check_table(h, 2, h.tensor_count, h.tensor_bytes, sizeof(ProgramTensor), h.tensor_at),
      check_table(h, 3, h.step_count, h.step_bytes, sizeof(ProgramStep), h.step_at),
      check_table(h, 4, h.operand_count, sizeof(uint32_t), sizeof(uint32_t), h.operand_at),
      check_table(h, 6, h.segment_count, sizeof(uint32_t), sizeof(uint32_t), h.segment_at),
  };
  for (const Status& s : tables)
    if (!s.ok()) return s;
  if (h.attr_at % 4 != 0 || static_cast<uint64_t>(h.attr_at) + h.attr_total > h.bytes) return corrupt(5, h.attr_total, h.attr_at);
  if (h.tensor_count > kMaxTensors) return corrupt(2, kMaxTensors, h.tensor_count);
  // Symbols and ports are arrays that bind() makes: no more of them than records that were really there.
  if (h.symbol_count > h.dim_count) return corrupt(1, h.dim_count, h.symbol_count);
  const uint64_t ports = static_cast<uint64_t>(h.input_count) + h.output_count + h.variable_count;
  return ports <= h.tensor_count ? Status{} : corrupt(2, h.tensor_count, ports);
}

Status check_dims(const Program& p) {
  const ProgramHeader& h = p.header();
  for (uint32_t i = 0; i < h.dim_count; ++i) {
    const ProgramDim& d = p.dim(i);
    switch (d.op) {
      case DimOp::kConst: break;
      case DimOp::kSymbol:
        if (d.a < 0 || static_cast<uint32_t>(d.a) >= h.symbol_count)
          return corrupt(i, h.symbol_count, static_cast<uint32_t>(d.a));
        break;
      case DimOp::kValue:
        if (d.a < 0 || static_cast<uint32_t>(d.a) >= h.tensor_count)
          return corrupt(i, h.tensor_count, static_cast<uint32_t>(d.a));
        if (d.b < 0) return corrupt(i, 0, static_cast<uint32_t>(d.b));
        break;
      case DimOp::kAdd:
      case DimOp::kSub:
      case DimOp::kMul:
      case DimOp::kFloorDiv:
      case DimOp::kCeilDiv:
      case DimOp::kMin:
      case DimOp::kMax:
        if (d.a < 0 || static_cast<uint32_t>(d.a) >= i) return corrupt(i, i, static_cast<uint32_t>(d.a));
        if (d.b < 0 || static_cast<uint32_t>(d.b) >= i) return corrupt(i, i, static_cast<uint32_t>(d.b));
        break;
      default: return {Code::kVersion, i, 0, static_cast<uint32_t>(d.op)};
    }
  }
  return {};
}

// Constant dims, whose elements fit stored_bytes; how many of a block-sparse form are stored, prepare() finds out.
Status check_size(const Program& p, uint32_t index, const ProgramTensor& t) {
  Shape shape;
  shape.rank = t.rank;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const ProgramDim& d = p.dim(t.dims[i]);
    if (d.op != DimOp::kConst) return corrupt(index, 0, t.dims[i]);
    shape.dims[i] = d.a;
  }
  uint32_t elems = 0;
  if (!checked_elems(shape, dtype_bytes(t.dtype), &elems)) return corrupt(index, 0x7fffffff, 0xffffffffu);
  uint64_t least = elems;
  if (t.layout == Layout::kPadded16) least = (least + 15) / 16 * 16;
  least *= dtype_bytes(t.dtype);
  if (t.layout == Layout::kGemmSparseS8) least = 0;
  return least <= t.stored_bytes ? Status{} : corrupt(index, least, t.stored_bytes);
}

// Bytes in WEIGHTS: constants must be there whole; a variable without any starts as zeros.
Status check_stored(const Program& p, uint32_t index, const ProgramTensor& t) {
  if (t.kind == TensorKind::kVariable && t.stored_bytes == 0) return {};
  const uint64_t end = static_cast<uint64_t>(t.offset_units) * kUnitBytes + t.stored_bytes;
  if (end > p.weights().size) return corrupt(index, end, p.weights().size);
  return check_size(p, index, t);
}

Status check_quant(uint32_t index, const ProgramTensor& t) {
  const QuantParams& q = t.quant;
  int64_t lo = 0, hi = 0;
  if (!quant_range(t.dtype, &lo, &hi)) return corrupt(index, 0, static_cast<uint32_t>(t.dtype));
  if (!(q.scale > 0) || !finite(q.scale)) return corrupt(index, 0, 0);
  if (q.qmin < lo || q.qmax > hi || q.qmin > q.zero_point || q.zero_point > q.qmax)
    return corrupt(index, static_cast<uint32_t>(q.qmin), static_cast<uint32_t>(q.qmax));
  return {};
}

Status check_tensors(const Program& p) {
  const ProgramHeader& h = p.header();
  // Ports of the three kinds, side by side: every one is taken exactly once.
  const uint32_t first_port[] = {0, h.input_count, h.input_count + h.output_count};
  const uint32_t port_count[] = {h.input_count, h.output_count, h.variable_count};
  TensorSet ports;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < h.tensor_count; ++i) {
    const ProgramTensor& t = p.tensor(i);
    if (dtype_bytes(t.dtype) == 0) return {Code::kVersion, i, 0, static_cast<uint32_t>(t.dtype)};
    if (t.kind > TensorKind::kTemporary)
      return corrupt(i, static_cast<uint32_t>(TensorKind::kTemporary), static_cast<uint32_t>(t.kind));
    if (t.layout > Layout::kWinogradF32)
      return {Code::kVersion, i, static_cast<uint32_t>(Layout::kWinogradF32), static_cast<uint32_t>(t.layout)};
    if (t.layout != Layout::kPlain && t.kind != TensorKind::kConstant && t.kind != TensorKind::kTemporary)
      return corrupt(i, 0, static_cast<uint32_t>(t.layout));
    if ((t.flags & ~(kTensorHasQuant | kTensorForeignRead)) != 0)
      return {Code::kVersion, i, kTensorHasQuant | kTensorForeignRead, t.flags};
    if (t.rank > kMaxRank) return corrupt(i, kMaxRank, t.rank);
    for (uint32_t k = 0; k < t.rank; ++k)
      if (t.dims[k] >= h.dim_count) return corrupt(i, h.dim_count, t.dims[k]);
    Status s;
    if ((t.flags & kTensorHasQuant) != 0 && !(s = check_quant(i, t)).ok()) return s;
    if ((t.kind == TensorKind::kConstant || t.kind == TensorKind::kVariable) && !(s = check_stored(p, i, t)).ok()) return s;
    if (is_packed_temporary(t) && !(s = check_size(p, i, t)).ok()) return s;
    if (t.kind == TensorKind::kConstant || t.kind == TensorKind::kTemporary) continue;
    const uint32_t kind = static_cast<uint32_t>(t.kind) - static_cast<uint32_t>(TensorKind::kInput);
    if (t.port >= port_count[kind] || !ports.add(first_port[kind] + t.port)) return corrupt(i, port_count[kind], t.port);
    ++taken;
  }
  const uint32_t all = h.input_count + h.output_count + h.variable_count;
  return taken == all ? Status{} : corrupt(h.tensor_count, all, taken);
}

Status check_step_record(const Program& p, uint32_t index, const ProgramStep& s) {
  const ProgramHeader& h = p.header();
  const Op op = static_cast<Op>(s.op);
  if (op_name(op) == nullptr) return {Code::kUnsupported, index, 0, s.op};
  const Arity arity = op_arity(op);
  if (s.version == 0 || s.version > arity.version) return {Code::kVersion, index, arity.version, s.version};
  if (s.n_in < arity.min_in || s.n_in > arity.max_in)
    return corrupt(index, s.n_in < arity.min_in ? arity.min_in : arity.max_in, s.n_in);
  if (s.n_out != arity.out) return corrupt(index, arity.out, s.n_out);
  const uint64_t end = static_cast<uint64_t>(s.operands) + s.n_in + s.n_out;
  if (end > h.operand_count) return corrupt(index, end, h.operand_count);
  if (s.attrs % 4 != 0 || s.attr_bytes % 4 != 0 || s.attr_bytes > op_attr_bytes(op))
    return corrupt(index, op_attr_bytes(op), s.attr_bytes);
  const uint64_t attr_end = static_cast<uint64_t>(s.attrs) + s.attr_bytes;
  if (attr_end > h.attr_total) return corrupt(index, attr_end, h.attr_total);
  if (s.macs_dim != kNoTensor && s.macs_dim >= h.dim_count) return corrupt(index, h.dim_count, s.macs_dim);
  return attrs_ok(p, s) ? Status{} : corrupt(index, 0, 0);
}

// Operands exist, are written before they are read, and written once.
Status check_step_operands(const Program& p, uint32_t index, const ProgramStep& s, TensorSet* written) {
  const uint32_t tensors = p.tensor_count();
  const Arity arity = op_arity(static_cast<Op>(s.op));
  for (uint32_t i = 0; i < s.n_in; ++i) {
    const uint32_t t = p.operand(s, i);
    if (t == kNoTensor && i >= arity.required) continue;
    if (t >= tensors) return corrupt(index, tensors, t);
    const TensorKind kind = p.tensor(t).kind;
    const bool made_by_step = kind == TensorKind::kTemporary || kind == TensorKind::kOutput;
    if (made_by_step && !written->has(t)) return corrupt(index, i, t);
  }
  for (uint32_t i = 0; i < s.n_out; ++i) {
    const uint32_t t = p.output(s, i);
    if (t >= tensors) return corrupt(index, tensors, t);
    const TensorKind kind = p.tensor(t).kind;
    if (kind != TensorKind::kTemporary && kind != TensorKind::kOutput)
      return corrupt(index, static_cast<uint32_t>(TensorKind::kTemporary), static_cast<uint32_t>(kind));
    if (!written->add(t)) return corrupt(index, s.n_in + i, t);
  }
  // Assign is the one writer of variables: its first operand.
  if (static_cast<Op>(s.op) == Op::kAssign && p.tensor(p.operand(s, 0)).kind != TensorKind::kVariable)
    return corrupt(index, 0, p.operand(s, 0));
  return {};
}

Status check_steps(const Program& p) {
  TensorSet written;
  for (uint32_t i = 0; i < p.step_count(); ++i) {
    Status s = check_step_record(p, i, p.step(i));
    if (s.ok()) s = check_step_operands(p, i, p.step(i), &written);
    if (!s.ok()) return s;
  }
  for (uint32_t i = 0; i < p.tensor_count(); ++i)
    if (p.tensor(i).kind == TensorKind::kOutput && !written.has(i)) return corrupt(p.step_count(), p.tensor(i).port, i);
  return {};
}

Status check_segments(const Program& p) {
  const uint32_t count = p.header().segment_count;
  if (count == 0) return corrupt(0, 1, 0);
  for (uint32_t i = 0, begin = 0; i < count; begin = p.segment_end(i), ++i)
    if (p.segment_end(i) < begin) return corrupt(i, begin, p.segment_end(i));
  return p.segment_end(count - 1) == p.step_count() ? Status{} : corrupt(count - 1, p.step_count(), p.segment_end(count - 1));
}

}  // namespace

Status program_open(Bytes plan, Bytes weights, Program* out) {
  Status s = check_header(plan);
  if (!s.ok()) return s;
  if (weights.size != 0 && (weights.data == nullptr || reinterpret_cast<uintptr_t>(weights.data) % kUnitBytes != 0))
    return {Code::kInvalidArgument, 0, kUnitBytes, 0};
  Program p;
  p.header_ = reinterpret_cast<const ProgramHeader*>(plan.data);
  p.weights_ = weights;
  if (!(s = check_dims(p)).ok() || !(s = check_tensors(p)).ok() || !(s = check_steps(p)).ok() || !(s = check_segments(p)).ok())
    return s;
  *out = p;
  return {};
}

}  // namespace lathe
