#include "quant/sample_runner.h"

#include "graph/lower/load.h"
#include "lathe/arith.h"
#include "lathe/float16.h"
#include "runtime/host/ports.h"

namespace lathe {
namespace {

// Shapes of all graph inputs for one sample.
Result<std::vector<Shape>> sample_shapes(const Graph& graph) {
  std::vector<Shape> shapes;
  const std::vector<std::optional<int64_t>> ones(graph.dims().symbol_count(), 1);
  for (const ValueId v : graph.inputs()) {
    Shape s;
    s.rank = static_cast<uint32_t>(graph.value(v).type.dims.size());
    for (uint32_t i = 0; i < s.rank; ++i) {
      LATHE_TRY(const int64_t d, graph.dims().evaluate(graph.value(v).type.dims[i], ones));
      s.dims[i] = static_cast<int32_t>(d);
    }
    shapes.push_back(s);
  }
  return shapes;
}

bool is_quantized(const ProgramTensor& t) { return t.dtype == DType::kS8 && (t.flags & kTensorHasQuant) != 0; }

// One buffer per input and output, and pointers to them.
struct Buffers {
  std::vector<std::vector<uint64_t>> storage;
  std::vector<void*> pointers;
  void add(size_t bytes) {
    storage.emplace_back(bytes / sizeof(uint64_t) + 9);  // kernels may read past the end
    pointers.push_back(storage.back().data());
  }
};

}  // namespace

struct SampleRunner::State {
  std::shared_ptr<const LoadedProgram> loaded;
  std::unique_ptr<HostSession> session;
  std::vector<uint32_t> input_ids, output_ids;
  Buffers inputs, outputs;
  std::span<const ValueId> activations;
  const Visitor* visit = nullptr;
  std::vector<float> real;  // the copy that a visitor sees

  void look(uint32_t tensor, const uint8_t* data) {
    if (data == nullptr || activations[tensor] == kNoId) return;
    const size_t count = session->tensor_shape(tensor).elems();
    const ProgramTensor& t = loaded->program.tensor(tensor);
    if (t.dtype == DType::kF32) return (*visit)(tensor, {reinterpret_cast<float*>(const_cast<uint8_t*>(data)), count});
    real.resize(count);
    // Inside a plan 8-bit values may be stored with their top bit turned (runtime/bound.h); the caller's inputs never are.
    const uint8_t flip = session->plan().storage == kernels::Storage::kU8 && t.kind != TensorKind::kInput ? 0x80 : 0;
    for (size_t i = 0; i < count; ++i)
      real[i] = t.dtype == DType::kS8 ? dequantize(static_cast<int8_t>(data[i] ^ flip), t.quant.scale, t.quant.zero_point)
                                      : half_to_float(reinterpret_cast<const uint16_t*>(data)[i]);
    (*visit)(tensor, real);
  }
  static void after(void* self, uint32_t step) {
    auto& s = *static_cast<State*>(self);
    const Program& program = s.loaded->program;
    const ProgramStep& done = program.step(step);
    for (uint32_t i = 0; i < done.n_out; ++i) {
      const uint32_t t = program.output(done, i);
      s.look(t, s.session->tensor_data(t));
    }
  }
};

Result<SampleRunner> SampleRunner::create(const Graph& graph, const SessionOptions& options, Sees sees) {
  LATHE_TRY(const ProgramImage image, lower(graph, Target::kHost));
  auto state = std::make_shared<State>();
  LATHE_TRY(state->loaded, load_program(image));
  const Program& program = state->loaded->program;
  SessionOptions dense = options;
  dense.elide = false;  // every activation is looked at
  LATHE_TRY(state->session, HostSession::create(state->loaded, dense));
  LATHE_TRY(const std::vector<Shape> shapes, sample_shapes(graph));
  LATHE_CHECK_OK(state->session->bind(shapes));
  state->input_ids = port_tensors(program, TensorKind::kInput);
  state->output_ids = port_tensors(program, TensorKind::kOutput);
  for (size_t i = 0; i < state->input_ids.size(); ++i)
    state->inputs.add(shapes[i].elems() * dtype_bytes(program.tensor(state->input_ids[i]).dtype));
  for (uint32_t i = 0; i < state->output_ids.size(); ++i) {
    const bool open = state->session->is_open(i);
    state->outputs.add(open ? 0 : state->session->output_shape(i).elems() * dtype_bytes(program.tensor(state->output_ids[i]).dtype));
  }
  SampleRunner runner(state);
  runner.activations_.assign(program.tensor_count(), kNoId);
  for (uint32_t t = 0; t < program.tensor_count(); ++t) {
    const ProgramTensor& x = program.tensor(t);
    const bool real = sees == Sees::kReal && (is_quantized(x) || x.dtype == DType::kF16);
    if ((x.dtype == DType::kF32 || real) && x.kind != TensorKind::kConstant) runner.activations_[t] = image.tensor_values[t];
  }
  return runner;
}

size_t SampleRunner::row(uint32_t tensor) const {
  const Shape& shape = state_->session->tensor_shape(tensor);
  return static_cast<size_t>(shape[shape.rank - 1]);
}

const Shape& SampleRunner::shape(uint32_t tensor) const { return state_->session->tensor_shape(tensor); }

Result<void> SampleRunner::run(const SampleSource& source, uint64_t index, const Visitor& visit) {
  State& s = *state_;
  LATHE_CHECK_OK(source.fill(index, s.inputs.pointers));
  s.activations = activations_;
  s.visit = &visit;
  s.session->set_hook({nullptr, &State::after, &s});
  for (size_t i = 0; i < s.input_ids.size(); ++i) s.look(s.input_ids[i], static_cast<const uint8_t*>(s.inputs.pointers[i]));
  const std::vector<const void*> inputs(s.inputs.pointers.begin(), s.inputs.pointers.end());
  return s.session->run(inputs, s.outputs.pointers);
}

std::vector<std::span<const float>> SampleRunner::outputs() const {
  const State& s = *state_;
  std::vector<std::span<const float>> out;
  for (uint32_t i = 0; i < s.output_ids.size(); ++i) {
    if (s.loaded->program.tensor(s.output_ids[i]).dtype != DType::kF32) {
      out.emplace_back();
      continue;
    }
    const void* data = s.session->is_open(i) ? static_cast<const void*>(s.session->output_data(i)) : s.outputs.pointers[i];
    out.emplace_back(static_cast<const float*>(data), s.session->output_shape(i).elems());
  }
  return out;
}

}  // namespace lathe
