// Builds small programs for tests, byte by byte as lowering would, without a graph:
//
//   ProgramBuilder b;
//   const uint32_t x = b.input(DType::kF32, {b.symbol(), 8});
//   const uint32_t y = b.output(DType::kF32, {b.symbol(), 8});
//   b.step(Op::kTanh, NoAttrs{}, {x}, {y});
//   const BuiltProgram program = b.build();
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "runtime/program.h"

namespace lathe::test {

// A dim: a constant, or the index of a record.
struct TestDim {
  int32_t value = 0;
  bool record = false;
  TestDim(int v) : value(v) {}  // NOLINT: dims are written as plain numbers
  static TestDim at(uint32_t index) {
    TestDim d(static_cast<int>(index));
    d.record = true;
    return d;
  }
};

struct AlignedDelete {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
};
template <class T> using Aligned = std::unique_ptr<T[], AlignedDelete>;
// `n` zeroed bytes on a 64-byte boundary and, as WEIGHTS wants them, at least 64 readable ones behind them.
inline Aligned<uint8_t> aligned_bytes(size_t n) {
  const size_t bytes = (n + 63) / 64 * 64 + 64;
  auto* p = static_cast<uint8_t*>(::operator new(bytes, std::align_val_t{64}));
  std::memset(p, 0, bytes);
  return Aligned<uint8_t>(p);
}

// PLAN and WEIGHTS bytes. weights has 64 readable bytes behind its end.
struct BuiltProgram {
  std::vector<uint64_t> plan_words;
  size_t plan_bytes = 0;
  Aligned<uint8_t> weights;
  size_t weights_bytes = 0;

  uint8_t* plan_data() { return reinterpret_cast<uint8_t*>(plan_words.data()); }
  Bytes plan() const { return {reinterpret_cast<const uint8_t*>(plan_words.data()), plan_bytes}; }
  Bytes weights_view() const { return {weights.get(), weights_bytes}; }
  Status open(Program* out) const { return program_open(plan(), weights_view(), out); }
};

class ProgramBuilder {
 public:
  // Dim records. symbol(0) always gives the same record, so that it can be named again.
  TestDim symbol(int32_t number = 0) {
    symbol_count_ = number + 1 > symbol_count_ ? number + 1 : symbol_count_;
    for (size_t i = 0; i < dims_.size(); ++i)
      if (dims_[i].op == DimOp::kSymbol && dims_[i].a == number) return TestDim::at(static_cast<uint32_t>(i));
    return record(DimOp::kSymbol, number, 0);
  }
  TestDim expression(DimOp op, TestDim a, TestDim b) { return record(op, resolve(a), resolve(b)); }
  TestDim record(DimOp op, int32_t a, int32_t b) {
    dims_.push_back({op, {}, a, b});
    return TestDim::at(static_cast<uint32_t>(dims_.size() - 1));
  }

  uint32_t input(DType t, const std::vector<TestDim>& dims, std::optional<QuantParams> q = {}) {
    return port(TensorKind::kInput, inputs_++, t, dims, q);
  }
  uint32_t output(DType t, const std::vector<TestDim>& dims, std::optional<QuantParams> q = {}) {
    return port(TensorKind::kOutput, outputs_++, t, dims, q);
  }
  uint32_t temp(DType t, const std::vector<TestDim>& dims, std::optional<QuantParams> q = {}) {
    return port(TensorKind::kTemporary, 0, t, dims, q);
  }
  // A constant of canonical shape `dims`, stored as `bytes`.
  uint32_t constant_bytes(DType t, const std::vector<TestDim>& dims, const void* bytes, size_t n, Layout layout = Layout::kPlain,
                          std::optional<QuantParams> q = {}) {
    const uint32_t index = port(TensorKind::kConstant, 0, t, dims, q);
    tensors_[index].layout = layout;
    store(index, bytes, n);
    return index;
  }
  template <class T>
  uint32_t constant(DType t, const std::vector<TestDim>& dims, const std::vector<T>& values, Layout layout = Layout::kPlain,
                    std::optional<QuantParams> q = {}) {
    return constant_bytes(t, dims, values.data(), values.size() * sizeof(T), layout, q);
  }
  // Starts as zeros if `bytes` is null.
  uint32_t variable(DType t, const std::vector<TestDim>& dims, const void* bytes, size_t n, std::optional<QuantParams> q = {}) {
    const uint32_t index = port(TensorKind::kVariable, variables_++, t, dims, q);
    if (bytes != nullptr) store(index, bytes, n);
    return index;
  }

  template <class A>
  void step(Op op, const A& attrs, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out, TestDim macs = 0) {
    ProgramStep s{};
    s.op = static_cast<uint16_t>(op);
    s.version = 1;
    s.n_in = static_cast<uint16_t>(in.size());
    s.n_out = static_cast<uint16_t>(out.size());
    s.operands = static_cast<uint32_t>(operands_.size());
    s.attrs = static_cast<uint32_t>(attrs_.size());
    s.attr_bytes = A::kEmpty ? 0 : sizeof(A);
    s.macs_dim = static_cast<uint32_t>(resolve(macs));
    operands_.insert(operands_.end(), in.begin(), in.end());
    operands_.insert(operands_.end(), out.begin(), out.end());
    const auto* bytes = reinterpret_cast<const uint8_t*>(&attrs);
    attrs_.insert(attrs_.end(), bytes, bytes + s.attr_bytes);
    steps_.push_back(s);
  }

  // What follows is bound when the steps so far have run.
  void end_segment() { segment_ends_.push_back(static_cast<uint32_t>(steps_.size())); }

  ProgramTensor& tensor(uint32_t i) { return tensors_[i]; }
  std::vector<ProgramStep>& steps() { return steps_; }
  size_t tensor_count() const { return tensors_.size(); }

  BuiltProgram build() const {
    ProgramHeader h{};
    h.magic = kProgramMagic;
    h.major = kProgramMajor, h.minor = kProgramMinor;
    std::vector<uint8_t> body;
    const auto add = [&](const auto& v) {
      const auto at = static_cast<uint32_t>(sizeof h + body.size());
      const auto* p = reinterpret_cast<const uint8_t*>(v.data());
      body.insert(body.end(), p, p + v.size() * sizeof(v[0]));
      return at;
    };
    h.dim_count = static_cast<uint32_t>(dims_.size()), h.dim_bytes = sizeof(ProgramDim), h.dim_at = add(dims_);
    h.tensor_count = static_cast<uint32_t>(tensors_.size()), h.tensor_bytes = sizeof(ProgramTensor), h.tensor_at = add(tensors_);
    h.step_count = static_cast<uint32_t>(steps_.size()), h.step_bytes = sizeof(ProgramStep), h.step_at = add(steps_);
    h.operand_count = static_cast<uint32_t>(operands_.size()), h.operand_at = add(operands_);
    h.attr_total = static_cast<uint32_t>(attrs_.size()), h.attr_at = add(attrs_);
    h.symbol_count = static_cast<uint32_t>(symbol_count_);
    h.input_count = inputs_, h.output_count = outputs_, h.variable_count = variables_;
    std::vector<uint32_t> ends = segment_ends_;
    ends.push_back(h.step_count);
    h.segment_count = static_cast<uint32_t>(ends.size()), h.segment_at = add(ends);
    h.bytes = static_cast<uint32_t>(sizeof h + body.size());

    BuiltProgram out;
    out.plan_bytes = h.bytes;
    out.plan_words.resize((h.bytes + 7) / 8);
    std::memcpy(out.plan_data(), &h, sizeof h);
    std::memcpy(out.plan_data() + sizeof h, body.data(), body.size());
    out.weights_bytes = weights_.size();
    out.weights = aligned_bytes(weights_.size());
    if (!weights_.empty()) std::memcpy(out.weights.get(), weights_.data(), weights_.size());
    return out;
  }

 private:
  int32_t resolve(TestDim d) {
    if (d.record) return d.value;
    for (size_t i = 0; i < dims_.size(); ++i)
      if (dims_[i].op == DimOp::kConst && dims_[i].a == d.value) return static_cast<int32_t>(i);
    dims_.push_back({DimOp::kConst, {}, d.value, 0});
    return static_cast<int32_t>(dims_.size() - 1);
  }
  uint32_t port(TensorKind kind, uint32_t number, DType dtype, const std::vector<TestDim>& dims, std::optional<QuantParams> q) {
    ProgramTensor t{};
    t.dtype = dtype;
    t.kind = kind;
    t.rank = static_cast<uint8_t>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) t.dims[i] = static_cast<uint32_t>(resolve(dims[i]));
    t.port = number;
    if (q) {
      t.flags = kTensorHasQuant;
      t.quant = *q;
    }
    tensors_.push_back(t);
    return static_cast<uint32_t>(tensors_.size() - 1);
  }
  void store(uint32_t index, const void* bytes, size_t n) {
    weights_.resize((weights_.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes);
    tensors_[index].offset_units = static_cast<uint32_t>(weights_.size() / kUnitBytes);
    tensors_[index].stored_bytes = static_cast<uint32_t>(n);
    const auto* p = static_cast<const uint8_t*>(bytes);
    weights_.insert(weights_.end(), p, p + n);
  }

  std::vector<ProgramDim> dims_;
  std::vector<ProgramTensor> tensors_;
  std::vector<ProgramStep> steps_;
  std::vector<uint32_t> operands_, segment_ends_;
  std::vector<uint8_t> attrs_, weights_;
  uint32_t inputs_ = 0, outputs_ = 0, variables_ = 0;
  int32_t symbol_count_ = 0;
};

}  // namespace lathe::test
