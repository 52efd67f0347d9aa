#include "runtime/plan/bind.h"

#include "runtime/plan/arena.h"
#include "runtime/plan/views.h"

namespace lathe {
namespace {

constexpr uint32_t kNever = 0xffffffffu;

// Memory in the arena that several tensors may share: aliases (Reshape), results computed in place, and parts of a whole.
struct Buffer {
  uint32_t bytes;
  uint32_t first, last;  // steps
};

constexpr uint64_t align_up(uint64_t v, uint64_t align) { return (v + align - 1) & ~(align - 1); }

class Binder {
 public:
  Binder(const Program& program, const BindOptions& options, const PlanMemory& memory, Binding* out)
      : p_(program), o_(options), memory_(memory), out_(*out), plan_(out->plan),
        begin_(options.segment == nullptr ? 0 : options.segment->begin),
        end_(options.segment == nullptr ? program.step_count() : options.segment->end),
        carried_(options.segment == nullptr ? nullptr : options.segment->carried) {}

  Status run() {
    Status s = reserve();
    if (!s.ok()) return s;
    find_uses();
    for (uint32_t i = begin_; i < end_; ++i)
      if (!(s = ask_step(i)).ok()) return s;
    const ForeignMemory foreign{o_.external_ports && carried_ == nullptr, o_.padded_inputs, carried_};
    if (!find_views(p_, out_.dims.shapes, traits_, foreign, o_.elide, memory_, &views_))
      return {Code::kOutOfMemory, 0, p_.tensor_count(), 0};
    out_.strides = views_.strides;
    if (!(s = place_fixed()).ok()) return s;
    if (carried_ == nullptr) place_ports();
    else place_carried();
    for (uint32_t i = begin_; i < end_; ++i)
      if (!(s = bind_step(i)).ok()) return s;
    out_.kernel_first = kernel_first_;
    return pack();
  }

 private:
  const Shape& shape(uint32_t t) const { return out_.dims.shapes[t]; }
  uint32_t bytes_of(uint32_t t) const {
    const ProgramTensor& x = p_.tensor(t);
    return is_packed_temporary(x) ? x.stored_bytes : shape(t).elems() * dtype_bytes(x.dtype);
  }
  bool flipped(uint32_t t) const {
    const ProgramTensor& x = p_.tensor(t);
    return o_.storage == kernels::Storage::kU8 && x.dtype == DType::kS8 && (x.flags & kTensorHasQuant) != 0;
  }
  bool in_arena(uint32_t t) const { return buffer_[t] != kNever; }

  Status reserve() {
    const ProgramHeader& h = p_.header();
    if (h.segment_count != 1 && o_.segment == nullptr) return {Code::kUnsupported, 0, 1, h.segment_count};
    tensors_ = memory_.array<BoundTensor>(h.tensor_count);
    steps_ = memory_.array<BoundStep>(h.step_count);
    ports_ = memory_.array<BoundPort>(h.input_count + h.output_count);
    variables_ = memory_.array<BoundVariable>(h.variable_count);
    buffer_ = memory_.array<uint32_t>(h.tensor_count);
    at_ = memory_.array<uint32_t>(h.tensor_count);
    last_use_ = memory_.array<uint32_t>(h.tensor_count);
    buffers_ = memory_.array<Buffer>(h.tensor_count);
    scratch_ = memory_.array<uint32_t>(h.step_count);
    unread_ = memory_.array<uint32_t>(h.step_count);
    elided_ = memory_.array<uint8_t>(h.step_count);
    traits_ = memory_.array<StepTraits>(h.step_count);
    kernel_first_ = memory_.array<uint32_t>(h.step_count + 1ull);
    params_ = memory_.array<uint8_t>(static_cast<uint64_t>(h.step_count) * kMaxParamsBytes);
    kernels_ = memory_.array<const kernels::Kernel*>(static_cast<uint64_t>(h.step_count) * kMaxStepKernels);
    fns_ = memory_.array<kernels::AnyFn>(static_cast<uint64_t>(h.step_count) * kMaxStepKernels);
    if (!tensors_ || !steps_ || !ports_ || !variables_ || !buffer_ || !at_ || !last_use_ || !buffers_ || !scratch_ || !unread_ ||
        !elided_ || !traits_ || !kernel_first_ || !params_ || !kernels_ || !fns_)
      return {Code::kOutOfMemory, 0, h.tensor_count, 0};
    plan_ = {};
    plan_.tensors = tensors_, plan_.steps = steps_, plan_.params = params_, plan_.kernels = fns_, plan_.ports = ports_,
    plan_.variables = variables_;
    plan_.operands = h.operand_count == 0 ? nullptr : p_.operands();
    plan_.tensor_count = h.tensor_count, plan_.step_count = h.step_count;
    plan_.input_count = h.input_count, plan_.output_count = h.output_count, plan_.variable_count = h.variable_count;
    plan_.storage = o_.storage;
    out_.kernels = kernels_;
    out_.unread = unread_;
    out_.elided = elided_;
    out_.operand_count = h.operand_count;
    for (uint32_t t = 0; t < h.tensor_count; ++t) buffer_[t] = last_use_[t] = kNever;
    return {};
  }

  // The last step that reads each tensor; outputs of the program are read after all steps.
  void find_uses() {
    for (uint32_t i = begin_; i < end_; ++i) {
      const ProgramStep& s = p_.step(i);
      for (uint32_t k = 0; k < s.n_in; ++k)
        if (const uint32_t t = p_.operand(s, k); t != kNoTensor) last_use_[t] = i;
    }
  }

  // Tensors that live across segments are the caller's to keep.
  void place_carried() {
    for (uint32_t t = 0; t < p_.tensor_count(); ++t) {
      const ProgramTensor& x = p_.tensor(t);
      if (x.kind == TensorKind::kInput || x.kind == TensorKind::kOutput)
        ports_[x.kind == TensorKind::kInput ? x.port : plan_.input_count + x.port] = {t, 0, PortMode::kUnused};
      if (carried_[t] != kNoTensor) tensors_[t] = {static_cast<uint32_t>(Region::kExternal) + carried_[t], 0};
    }
  }

  // Constants lie in WEIGHTS; variables one after another in their own region, in order of tensors.
  Status place_fixed() {
    uint64_t end = 0;
    for (uint32_t t = 0; t < p_.tensor_count(); ++t) {
      const ProgramTensor& x = p_.tensor(t);
      if (x.kind == TensorKind::kConstant) {
        const uint64_t at = static_cast<uint64_t>(x.offset_units) * kUnitBytes;
        if (at > 0xffffffffu) return {Code::kUnsupported, t, 0xffffffffu, x.offset_units};
        tensors_[t] = {static_cast<uint32_t>(Region::kWeights), static_cast<uint32_t>(at)};
      } else if (x.kind == TensorKind::kVariable) {
        const uint64_t source = static_cast<uint64_t>(x.offset_units) * kUnitBytes;
        const uint64_t next = align_up(end + bytes_of(t), o_.align);
        if (next + o_.tail > 0x7fffffffu || source > 0x7fffffffu) return {Code::kOutOfMemory, t, 0x7fffffffu, 0xffffffffu};
        tensors_[t] = {static_cast<uint32_t>(Region::kVariables), static_cast<uint32_t>(end)};
        variables_[x.port] = {static_cast<uint32_t>(end), bytes_of(t),
                              x.stored_bytes == 0 ? kNoTensor : static_cast<uint32_t>(source),
                              flipped(t) ? PortMode::kFlip : PortMode::kCopy};
        end = next;
      }
    }
    plan_.variable_bytes = end == 0 ? 0 : static_cast<uint32_t>(end + o_.tail);
    return {};
  }

  // The caller's memory serves an input if nobody reads past its end, or may, and if it is in the plan's storage; an output if no
  // step reads it.
  void place_ports() {
    for (uint32_t t = 0; t < p_.tensor_count(); ++t) {
      const ProgramTensor& x = p_.tensor(t);
      const bool input = x.kind == TensorKind::kInput;
      if (!input && x.kind != TensorKind::kOutput) continue;
      const uint32_t port = input ? x.port : plan_.input_count + x.port;
      const bool padded = (x.flags & kTensorForeignRead) != 0 || o_.padded_inputs;
      const bool can_share = input ? padded || reads_exactly(p_, traits_, views_, t) : last_use_[t] == kNever;
      ports_[port] = {t, bytes_of(t), flipped(t) ? PortMode::kFlip : PortMode::kCopy};
      if (input && last_use_[t] == kNever) {
        ports_[port].mode = PortMode::kUnused;
      } else if (o_.external_ports && can_share && !flipped(t)) {
        ports_[port].mode = PortMode::kDirect;
        tensors_[t] = {static_cast<uint32_t>(Region::kExternal) + port, 0};
      } else if (input) {
        new_buffer(t, 0);
      }
      if (!input) last_use_[t] = p_.step_count();
    }
  }

  uint32_t new_buffer(uint32_t tensor, uint32_t step) {
    const uint32_t last = last_use_[tensor] == kNever ? step : last_use_[tensor];
    buffers_[buffer_count_] = {bytes_of(tensor), step, last};
    return buffer_[tensor] = buffer_count_++;
  }

  // The buffer of `tensor` lives until its last use.
  void keep(uint32_t tensor, uint32_t step) { join(tensor, tensor, 0, step); }

  // `tensor` lies in the buffer of `other`, `offset` bytes from it.
  void join(uint32_t tensor, uint32_t other, uint32_t offset, uint32_t step) {
    buffer_[tensor] = buffer_[other];
    at_[tensor] = at_[other] + offset;
    Buffer& b = buffers_[buffer_[tensor]];
    const uint32_t last = last_use_[tensor] == kNever ? step : last_use_[tensor];
    b.last = last > b.last ? last : b.last;
  }

  Status prepare(uint32_t index, const PrepareInput& in, Prepared* prepared) {
    const uint32_t entry = o_.index(in.step->op);
    if (entry > 0xffff) return {Code::kUnsupported, index, 0, in.step->op};
    Status status = o_.table[entry].prepare(in, prepared);
    if (!status.ok()) status.where = index;
    return status;
  }

  // What a step can do with its operands, before the planner decides where they lie.
  Status ask_step(uint32_t index) {
    Prepared prepared;
    const ProgramStep& step = p_.step(index);
    for (uint32_t k = 0; k < static_cast<uint32_t>(step.n_in) + step.n_out; ++k) {
      const uint32_t t = p_.operand(step, k);
      if (t != kNoTensor && out_.dims.open[t] != 0) return {Code::kUnsupported, index, 0, kNoTensor};
    }
    const PrepareInput in{&p_, &step, out_.dims.shapes, o_.isa, o_.storage, o_.threads};
    if (const Status s = prepare(index, in, &prepared); !s.ok()) return s;
    traits_[index] = {prepared.share_input_mask, prepared.exact_input_mask, prepared.strided_input_mask,
                      prepared.alias_input0,     prepared.strided_output,   prepared.pieces};
    return {};
  }

  Status bind_step(uint32_t index) {
    const ProgramStep& s = p_.step(index);
    Prepared prepared;
    const PrepareInput in{&p_, &s, out_.dims.shapes, o_.isa, o_.storage, o_.threads, views_.strides, views_.wholes};
    if (const Status status = prepare(index, in, &prepared); !status.ok()) return status;
    steps_[index] = {static_cast<uint16_t>(o_.index(s.op)), s.n_in, s.operands, out_.params_bytes, out_.kernel_count, 0};
    __builtin_memcpy(params_ + out_.params_bytes, prepared.params, prepared.params_bytes);
    out_.params_bytes += static_cast<uint32_t>(align_up(prepared.params_bytes, 8));
    kernel_first_[index] = out_.kernel_count;
    for (uint32_t k = 0; k < prepared.kernel_count; ++k) {
      kernels_[out_.kernel_count] = prepared.kernels[k];
      fns_[out_.kernel_count++] = prepared.kernels[k]->fn;
    }
    kernel_first_[index + 1] = out_.kernel_count;
    scratch_[index] = prepared.scratch_bytes;
    unread_[index] = prepared.unread_input_mask;
    for (uint32_t k = 0; k < s.n_out; ++k) place_output(index, s, k, prepared);
    elided_[index] = prepared.elided || is_alias(s, prepared) ? 1 : 0;
    return {};
  }

  bool is_alias(const ProgramStep& s, const Prepared& prepared) const {
    const uint32_t x = p_.input(s, 0), y = p_.output(s, 0);
    if (!prepared.alias_input0 || x == kNoTensor) return false;
    if (in_arena(x) || in_arena(y)) return buffer_[x] == buffer_[y] && at_[x] == at_[y];
    return tensors_[x].region == tensors_[y].region && tensors_[x].offset == tensors_[y].offset;
  }

  // A part lies in its whole, which gets its place with the first part.
  void place_view(uint32_t t, uint32_t step) {
    const uint32_t whole = views_.wholes[t], offset = views_.offsets[t] * dtype_bytes(p_.tensor(t).dtype);
    if (!in_arena(whole) && static_cast<Region>(tensors_[whole].region) == Region::kNone) {
      if (views_.wholes[whole] != kNoTensor) place_view(whole, step);
      else new_buffer(whole, step);
    }
    if (in_arena(whole)) join(t, whole, offset, step);
    else tensors_[t] = {tensors_[whole].region, tensors_[whole].offset + offset};
  }

  void place_output(uint32_t index, const ProgramStep& s, uint32_t k, const Prepared& prepared) {
    const uint32_t t = p_.output(s, k);
    if (static_cast<Region>(tensors_[t].region) != Region::kNone) return;  // the caller's memory
    if (in_arena(t)) return keep(t, index);                                // came with its parts
    if (views_.wholes[t] != kNoTensor) return place_view(t, index);
    if (k == 0 && prepared.alias_input0 && alias(index, s, t)) return;
    if (k == 0)
      for (uint32_t i = 0; i < s.n_in && i < kMaxSharedInputs; ++i)
        if ((prepared.share_input_mask >> i & 1) != 0 && share(index, s, i, t, prepared.share_input_mask)) return;
    new_buffer(t, index);
  }

  // Output `t` is input 0's bytes. Not for constants whose bytes are not in the plan's storage, nor for variables, which change
  // under the alias, nor for a result that must outlive the call in the caller's hands while the input is the caller's too.
  bool alias(uint32_t index, const ProgramStep& s, uint32_t t) {
    const uint32_t x = p_.input(s, 0);
    if (x == kNoTensor || bytes_of(x) != bytes_of(t) || flipped(x) != flipped(t)) return false;
    if (in_arena(x)) {
      join(t, x, 0, index);
      return true;
    }
    const TensorKind kind = p_.tensor(x).kind;
    if (kind != TensorKind::kConstant || flipped(x) || p_.tensor(t).kind == TensorKind::kOutput) return false;
    tensors_[t] = tensors_[x];
    return true;
  }

  // In place: the input's memory ends its life here, in this role only, and has exactly the output's size.
  bool share(uint32_t index, const ProgramStep& s, uint32_t i, uint32_t t, uint32_t mask) {
    const uint32_t x = p_.input(s, i);
    if (x == kNoTensor || !in_arena(x) || bytes_of(x) != bytes_of(t) || buffers_[buffer_[x]].last != index) return false;
    if (views_.strides[x] != 0) return false;
    for (uint32_t j = 0; j < s.n_in; ++j) {
      const uint32_t other = p_.input(s, j);
      if (other == kNoTensor || buffer_[other] != buffer_[x]) continue;
      const bool same = at_[other] == at_[x] && bytes_of(other) == bytes_of(t) && views_.strides[other] == 0;
      if (!same || j >= kMaxSharedInputs || (mask >> j & 1) == 0) return false;
    }
    join(t, x, 0, index);
    return true;
  }

  Status pack() {
    const uint32_t steps = p_.step_count();
    ArenaItem* items = memory_.array<ArenaItem>(static_cast<uint64_t>(buffer_count_) + steps);
    if (items == nullptr) return {Code::kOutOfMemory, 0, buffer_count_, 0};
    uint32_t count = 0;
    for (uint32_t b = 0; b < buffer_count_; ++b) items[count++] = {buffers_[b].bytes, buffers_[b].first, buffers_[b].last, 0};
    for (uint32_t i = 0; i < steps; ++i)
      if (scratch_[i] != 0) items[count++] = {scratch_[i], i, i, 0};
    ArenaSize size;
    const Status s = pack_arena(items, count, o_.align, memory_, &size);
    if (!s.ok()) return s;
    for (uint32_t t = 0; t < p_.tensor_count(); ++t)
      if (in_arena(t)) tensors_[t] = {static_cast<uint32_t>(Region::kArena), items[buffer_[t]].offset + at_[t]};
    count = buffer_count_;
    for (uint32_t i = 0; i < steps; ++i)
      if (scratch_[i] != 0) steps_[i].scratch = items[count++].offset;
    plan_.arena_bytes = size.bytes == 0 ? 0 : size.bytes + o_.tail;
    plan_.arena_lower_bound = size.lower_bound;
    return {};
  }

  const Program& p_;
  const BindOptions& o_;
  const PlanMemory& memory_;
  Binding& out_;
  BoundPlan& plan_;
  const uint32_t begin_, end_;     // the steps to bind
  const uint32_t* const carried_;  // BindSegment::carried, or null
  BoundTensor* tensors_ = nullptr;
  BoundStep* steps_ = nullptr;
  BoundPort* ports_ = nullptr;
  BoundVariable* variables_ = nullptr;
  uint32_t* buffer_ = nullptr;    // by tensor: its buffer, kNever outside the arena
  uint32_t* at_ = nullptr;        // by tensor: bytes from its buffer's start
  uint32_t* last_use_ = nullptr;  // by tensor: step, kNever if none
  Buffer* buffers_ = nullptr;
  uint32_t buffer_count_ = 0;
  uint32_t* scratch_ = nullptr;  // by step: bytes
  uint32_t* unread_ = nullptr;   // by step
  uint8_t* elided_ = nullptr;    // by step
  StepTraits* traits_ = nullptr;  // by step
  Views views_;
  uint32_t* kernel_first_ = nullptr;
  uint8_t* params_ = nullptr;
  const kernels::Kernel** kernels_ = nullptr;
  kernels::AnyFn* fns_ = nullptr;
};

}  // namespace

Status bind(const Program& program, const BoundDims& dims, const BindOptions& options, const PlanMemory& memory, Binding* out) {
  *out = {};
  out->dims = dims;
  return Binder(program, options, memory, out).run();
}

}  // namespace lathe
