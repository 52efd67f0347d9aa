#include "runtime/host/segmented_session.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "runtime/host/bind_error.h"
#include "runtime/host/ports.h"
#include "runtime/host/session_base.h"

namespace lathe {
namespace {

constexpr uint64_t kTail = 64;  // readable bytes behind memory that kernels read in whole vectors

// One segment bound for the shapes of the inputs and the data that its dims depend on.
struct SegmentPlan {
  std::vector<Shape> inputs;
  std::vector<int64_t> data;  // by dim record; 0 where it is not known or does not depend on data
  PlanBlocks blocks;
  Binding binding;
};

// Memory of one carried tensor: it only grows.
struct Carried {
  Block block{0};
  uint64_t size = 0;
};

class SegmentedSession final : public SessionBase {
 public:
  SegmentedSession(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team)
      : SessionBase(std::move(loaded), options, std::move(team)) {
    const ProgramHeader& h = program().header();
    producers_.assign(h.tensor_count, kNoTensor);
    plans_.resize(h.segment_count);
    data_.assign(h.dim_count, 0);
    known_.assign(h.dim_count, 0);
    find_carried();
    memory_.external = pointers_.data();
  }

  // Dims may only come from integers that a step before makes, and variables must have their size before any step has run.
  Result<void> check() const {
    for (uint32_t i = 0; i < program().header().dim_count; ++i) {
      const ProgramDim& d = program().dim(i);
      if (d.op != DimOp::kValue) continue;
      const ProgramTensor& t = program().tensor(static_cast<uint32_t>(d.a));
      if (producers_[static_cast<uint32_t>(d.a)] == kNoTensor || (t.dtype != DType::kS64 && t.dtype != DType::kS32) ||
          (t.flags & kTensorHasQuant) != 0)
        return fail(Code::kCorrupt, "plan is damaged: dim record " + std::to_string(i) + " depends on a tensor without integers");
    }
    for (const uint32_t t : port_tensors(program(), TensorKind::kVariable))
      if (depends_on_data(t))
        return fail(Code::kUnsupported, "variable " + std::to_string(program().tensor(t).port) + " has a size that depends on data");
    return {};
  }

  Result<void> bind(std::span<const Shape> inputs) override {
    LATHE_CHECK_OK(check_bind(inputs));
    const std::vector<Shape> before = std::move(shapes_);
    shapes_.assign(inputs.begin(), inputs.end());
    forget_data();
    if (auto done = use_segment(0); !done) {
      shapes_ = before;
      return done;
    }
    return {};
  }

  bool is_open(uint32_t output) const override { return depends_on_data(output_tensors_[output]); }
  const uint8_t* output_data(uint32_t output) const override { return pointers_[carried_[output_tensors_[output]]]; }

  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    LATHE_CHECK_OK(check_run(inputs, outputs));
    const Team::Turn turn(*team_);
    forget_data();
    for (uint32_t s = 0; s < plans_.size(); ++s) {
      LATHE_CHECK_OK(use_segment(s));
      if (s == 0) LATHE_CHECK_OK(copy_inputs(inputs));
      const uint32_t begin = s == 0 ? 0 : program().segment_end(s - 1), end = program().segment_end(s);
      run_segment(begin, end);
      LATHE_CHECK_OK(read_data(begin, end));
    }
    return copy_outputs(outputs);
  }

  uint64_t arena_bytes() const override {
    uint64_t bytes = SessionBase::arena_bytes();
    for (const Carried& c : memories_) bytes += c.size;
    return bytes;
  }

 private:
  bool depends_on_data(uint32_t tensor) const {
    const ProgramTensor& t = program().tensor(tensor);
    return std::any_of(t.dims, t.dims + t.rank, [&](uint32_t d) { return depends_on_data_[d] != 0; });
  }
  uint32_t segment_of(uint32_t step) const {
    uint32_t s = 0;
    while (program().segment_end(s) <= step) ++s;
    return s;
  }
  const Binding* binding_of(uint32_t step) const override {
    const auto& plans = plans_[segment_of(step)];
    return plans.empty() ? nullptr : &plans.front().binding;
  }

  // Inputs, outputs, what a later segment reads, and what becomes dims.
  void find_carried() {
    const Program& p = program();
    carried_.assign(p.tensor_count(), kNoTensor);
    const auto carry = [&](uint32_t t) {
      if (carried_[t] == kNoTensor) carried_[t] = carried_count_++;
    };
    for (const uint32_t t : input_tensors_) carry(t);
    for (const uint32_t t : output_tensors_) carry(t);
    for (uint32_t i = 0; i < p.step_count(); ++i) {
      const ProgramStep& s = p.step(i);
      for (uint32_t k = 0; k < s.n_in; ++k) {
        const uint32_t t = p.operand(s, k);
        if (t != kNoTensor && producers_[t] != kNoTensor && segment_of(producers_[t]) != segment_of(i)) carry(t);
      }
      for (uint32_t k = 0; k < s.n_out; ++k) producers_[p.output(s, k)] = i;
    }
    depends_on_data_.assign(p.header().dim_count, 0);
    for (uint32_t i = 0; i < p.header().dim_count; ++i) {
      const ProgramDim& d = p.dim(i);
      const bool leaf = d.op == DimOp::kConst || d.op == DimOp::kSymbol;
      if (d.op == DimOp::kValue) carry(static_cast<uint32_t>(d.a));
      depends_on_data_[i] = d.op == DimOp::kValue || (!leaf && (depends_on_data_[d.a] != 0 || depends_on_data_[d.b] != 0));
    }
    memories_.resize(carried_count_);
    pointers_.assign(carried_count_, nullptr);
  }

  void forget_data() {
    std::fill(data_.begin(), data_.end(), 0);
    std::fill(known_.begin(), known_.end(), uint8_t{0});
  }

  // Makes or finds the plan of a segment (a cache of its own for each), and memory for what it writes.
  Result<void> use_segment(uint32_t s) {
    auto& plans = plans_[s];
    const auto found = std::find_if(plans.begin(), plans.end(),
                                    [&](const SegmentPlan& p) { return p.inputs == shapes_ && p.data == data_; });
    if (found != plans.end()) {
      plans.splice(plans.begin(), plans, found);
    } else {
      std::list<SegmentPlan> fresh(1);
      LATHE_CHECK_OK(make_plan(s, &fresh.front()));
      plans.splice(plans.begin(), fresh);
      if (plans.size() > kPlanCache) plans.pop_back();
    }
    LATHE_CHECK_OK(use(plans.front().binding));
    return reserve(s);
  }

  Result<void> make_plan(uint32_t s, SegmentPlan* plan) {
    plan->inputs = shapes_;
    plan->data = data_;
    const PlanMemory memory = plan->blocks.memory();
    BoundDims dims;
    const DataDims data{data_.data(), known_.data()};
    Status status = evaluate_dims(program(), shapes_.data(), memory, &dims, &data);
    if (!status.ok()) return fail(status.code, shape_error(*loaded_, shapes_, status));
    const BindSegment segment{s == 0 ? 0 : program().segment_end(s - 1), program().segment_end(s), carried_.data()};
    BindOptions options = bind_options();
    options.segment = &segment;
    status = lathe::bind(program(), dims, options, memory, &plan->binding);
    if (!status.ok()) return fail(status.code, step_error(*loaded_, status));
    return {};
  }

  uint64_t bytes_of(uint32_t t) const { return uint64_t{tensor_shape(t).elems()} * dtype_bytes(program().tensor(t).dtype); }

  Result<void> reserve(uint32_t s) {
    for (uint32_t t = 0; t < program().tensor_count(); ++t) {
      const bool input = program().tensor(t).kind == TensorKind::kInput;
      if (carried_[t] == kNoTensor || (input ? s != 0 : segment_of(producers_[t]) != s)) continue;
      Carried& c = memories_[carried_[t]];
      LATHE_CHECK_OK(grow(&c.block, &c.size, bytes_of(t) + kTail));
      pointers_[carried_[t]] = c.block.data();
    }
    return {};
  }

  // Between the caller's s8 and the plan's storage.
  void flip(uint8_t* to, uint64_t bytes, const ProgramTensor& t) const {
    if (plan().storage != kernels::Storage::kU8 || t.dtype != DType::kS8 || (t.flags & kTensorHasQuant) == 0) return;
    for (uint64_t i = 0; i < bytes; ++i) to[i] ^= 0x80;
  }

  Result<void> copy_inputs(std::span<const void* const> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint32_t t = input_tensors_[i];
      const uint64_t bytes = bytes_of(t);
      if (inputs[i] == nullptr && bytes != 0) return null_port(true, i);
      if (bytes != 0) std::memcpy(pointers_[carried_[t]], inputs[i], bytes);
      flip(pointers_[carried_[t]], bytes, program().tensor(t));
    }
    return {};
  }

  // Outputs whose shape was known before may be copied to the caller; all can be read where they are.
  Result<void> copy_outputs(std::span<void* const> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint32_t t = output_tensors_[i];
      uint8_t* from = pointers_[carried_[t]];
      const uint64_t bytes = bytes_of(t);
      flip(from, bytes, program().tensor(t));
      if (is_open(static_cast<uint32_t>(i)) || bytes == 0) continue;
      if (outputs[i] == nullptr) return null_port(false, i);
      std::memcpy(outputs[i], from, bytes);
    }
    return {};
  }

  // Dims that the steps of a segment made.
  Result<void> read_data(uint32_t begin, uint32_t end) {
    for (uint32_t i = 0; i < program().header().dim_count; ++i) {
      const ProgramDim& d = program().dim(i);
      if (d.op != DimOp::kValue) continue;
      const auto t = static_cast<uint32_t>(d.a), element = static_cast<uint32_t>(d.b);
      if (producers_[t] < begin || producers_[t] >= end) continue;
      const std::string where = "step " + std::to_string(producers_[t]) + ": element " + std::to_string(element);
      const uint32_t count = tensor_shape(t).elems();
      if (element >= count)
        return fail(Code::kInvalidArgument, where + " is needed as a dim, there are " + std::to_string(count));
      const uint8_t* at = pointers_[carried_[t]];
      int64_t value = 0;
      if (program().tensor(t).dtype == DType::kS64) std::memcpy(&value, at + element * 8, 8);
      else value = reinterpret_cast<const int32_t*>(at)[element];
      if (value < 0 || value > INT32_MAX)
        return fail(Code::kInvalidArgument, where + " is " + std::to_string(value) + ", which is no dim");
      data_[i] = value;
      known_[i] = 1;
    }
    return {};
  }

  std::vector<uint32_t> producers_;                       // by tensor: its step, kNoTensor if none
  std::vector<uint32_t> carried_;                         // by tensor: its position among the carried ones, or kNoTensor
  uint32_t carried_count_ = 0;
  std::vector<uint8_t> depends_on_data_;                  // by dim record
  std::vector<std::list<SegmentPlan>> plans_;             // by segment, most recently used first
  std::vector<Shape> shapes_;
  std::vector<int64_t> data_;  // by dim record, of this run
  std::vector<uint8_t> known_;
  std::vector<Carried> memories_;
  std::vector<uint8_t*> pointers_;
};

}  // namespace

Result<std::unique_ptr<HostSession>> make_segmented_session(std::shared_ptr<const LoadedProgram> program,
                                                            const SessionOptions& options, std::unique_ptr<Team> team) {
  auto session = std::make_unique<SegmentedSession>(std::move(program), options, std::move(team));
  LATHE_CHECK_OK(session->check());
  return session;
}

}  // namespace lathe
