#include "train/training_program.h"

#include <algorithm>
#include <cstring>

#include "graph/lower/load.h"

namespace lathe::train {
namespace {

// The shape of an input that holds `count` elements: its first dim is what the others leave.
Result<Shape> shape_for(const Graph& graph, ValueId input, size_t count) {
  const Value& value = graph.value(input);
  Shape shape;
  shape.rank = static_cast<uint32_t>(value.type.dims.size());
  size_t rest = 1;
  for (uint32_t i = 1; i < shape.rank; ++i) {
    const auto n = graph.dims().value(value.type.dims[i]);
    if (!n || *n < 1)
      return fail(Code::kUnsupported, "'" + value.name + "' has the unknown dim " + graph.dims().text(value.type.dims[i]));
    shape.dims[i] = static_cast<int32_t>(*n);
    rest *= static_cast<size_t>(*n);
  }
  if (count % rest != 0 || count / rest > 0x7fffffff)
    return fail(Code::kInvalidArgument, "'" + value.name + "' takes " + print_type(graph.dims(), value.type) + ", got " +
                                            std::to_string(count) + " values");
  shape.dims[0] = static_cast<int32_t>(count / rest);
  return shape;
}

struct Array {
  const void* data;
  size_t count;
};

Array array_of(Extra extra, const StepData& d) {
  switch (extra) {
    case Extra::kLabels: return {d.labels.data(), d.labels.size()};
    case Extra::kMixedLabels: return {d.mixed_labels.data(), d.mixed_labels.size()};
    case Extra::kMix: return {d.mix.data(), d.mix.size()};
    case Extra::kTargets: return {d.targets.data(), d.targets.size()};
    case Extra::kTeacher: return {d.teacher.data(), d.teacher.size()};
    case Extra::kRate:
    case Extra::kDecay: break;
  }
  return {nullptr, 0};
}

}  // namespace

Result<TrainingProgram> TrainingProgram::create(TrainingGraph graph, const SessionOptions& options) {
  TrainingProgram made;
  made.graph_ = std::move(graph);
  made.options_ = options;
  LATHE_TRY(made.program_, compile_for_host(made.graph_.graph));
  LATHE_TRY(made.session_, HostSession::create(made.program_, options));
  const Graph& g = made.graph_.graph;
  made.ports_.assign(g.value_count(), 0);
  for (uint32_t port = 0; port < made.program_->variable_names.size(); ++port)
    made.ports_[g.find_value(made.program_->variable_names[port])] = port;
  made.inputs_.assign(g.inputs().size(), nullptr);
  made.outputs_.resize(g.outputs().size());
  made.output_pointers_.assign(g.outputs().size(), nullptr);
  const bool with_gradients =
      std::find(made.graph_.extras.begin(), made.graph_.extras.end(), Extra::kRate) == made.graph_.extras.end();
  made.loss_output_ = g.outputs().size() - 1 - (with_gradients ? made.graph_.parameters.size() : 0);
  made.rates_ = std::make_unique<float[]>(2);
  return made;
}

VariableBytes TrainingProgram::initial() const {
  VariableBytes values;
  for (const std::string& name : program_->variable_names) {
    const std::span<const std::byte> bytes = graph_.graph.value(graph_.graph.find_value(name)).constant.bytes;
    values.emplace_back(bytes.begin(), bytes.end());
  }
  return values;
}

Result<void> TrainingProgram::load(const StepData& data) {
  const Graph& g = graph_.graph;
  const size_t own = g.inputs().size() - graph_.extras.size();
  if (data.inputs.size() != own || data.shapes.size() != own)
    return fail(Code::kInvalidArgument,
                "the network has " + std::to_string(own) + " inputs, the batch " + std::to_string(data.inputs.size()));
  LATHE_CHECK_OK(check_labels(data.labels));
  LATHE_CHECK_OK(check_labels(data.mixed_labels));
  std::vector<Shape> shapes = data.shapes;
  for (size_t i = 0; i < own; ++i) inputs_[i] = data.inputs[i];
  for (size_t i = 0; i < graph_.extras.size(); ++i) {
    const Extra extra = graph_.extras[i];
    if (extra == Extra::kRate || extra == Extra::kDecay) {
      shapes.push_back({});
      inputs_[own + i] = rates_.get() + (extra == Extra::kDecay ? 1 : 0);
      continue;
    }
    const Array array = array_of(extra, data);
    LATHE_TRY(const Shape shape, shape_for(g, g.inputs()[own + i], array.count));
    shapes.push_back(shape);
    inputs_[own + i] = array.data;
  }
  if (shapes == shapes_) return {};
  LATHE_CHECK_OK(session_->bind(shapes));
  shapes_ = std::move(shapes);
  for (uint32_t o = 0; o < outputs_.size(); ++o) {
    if (session_->is_open(o)) continue;
    const size_t bytes = size_t{session_->output_shape(o).elems()} * dtype_bytes(g.value(g.outputs()[o]).type.dtype);
    outputs_[o].resize((bytes + sizeof(float) - 1) / sizeof(float));
    output_pointers_[o] = outputs_[o].data();
  }
  return {};
}

Result<void> TrainingProgram::check_labels(std::span<const int32_t> labels) const {
  if (graph_.classes == 0) return {};
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= graph_.classes)
      return fail(Code::kInvalidArgument, "label " + std::to_string(i) + " of the batch is " + std::to_string(labels[i]) +
                                              ", the network has " + std::to_string(graph_.classes) + " classes");
  return {};
}

Result<float> TrainingProgram::run(float rate, float decay) {
  rates_[0] = rate, rates_[1] = decay;
  LATHE_CHECK_OK(session_->run(inputs_, output_pointers_));
  return outputs_[loss_output_][0];
}

void TrainingProgram::write(const VariableBytes& values) {
  for (uint32_t port = 0; port < values.size(); ++port) session_->write_variable(port, values[port]);
}

void TrainingProgram::read(VariableBytes* values) const {
  for (uint32_t port = 0; port < values->size(); ++port) session_->read_variable(port, (*values)[port]);
}

std::span<const float> TrainingProgram::gradient(size_t i) const { return outputs_[loss_output_ + 1 + i]; }

Result<std::unique_ptr<HostSession>> TrainingProgram::open_session() const {
  SessionOptions options = options_;
  options.elide = false;
  LATHE_TRY(auto session, HostSession::create(program_, options));
  LATHE_CHECK_OK(session->bind(shapes_));
  return session;
}

}  // namespace lathe::train
