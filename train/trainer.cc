#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/rewriter.h"
#include "train/non_finite.h"
#include "train/training_program.h"

namespace lathe::train {
namespace {

constexpr const char* kSteps = "steps";  // of state()

// Exponents of all ones are infinities and NaN.
bool all_finite(std::span<const std::byte> bytes) {
  const auto* v = reinterpret_cast<const uint32_t*>(bytes.data());
  uint32_t bad = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(uint32_t); ++i) bad |= static_cast<uint32_t>((v[i] & 0x7f800000u) == 0x7f800000u);
  return bad == 0;
}

HostTensor counter(uint64_t v) {
  HostTensor t{DType::kS64, {1}, std::vector<std::byte>(sizeof v)};
  std::memcpy(t.bytes.data(), &v, sizeof v);
  return t;
}

}  // namespace

struct Trainer::Impl {
  Impl(const Graph& model, TrainerOptions options, const SessionOptions& session)
      : model(model), options(std::move(options)), session(session) {}

  Graph model;
  TrainerOptions options;
  SessionOptions session;
  std::optional<TrainingProgram> steps, gradients;
  // Of all variables of `steps`: what they hold between steps, and room for what the next one makes.
  VariableBytes values, next;
  bool written = false;      // whether the session holds `values`
  std::vector<Shape> bound;  // by input, of the last step
  uint64_t made = 0;
  bool diverged = false;

  Result<float> step(const StepData& data, float rate) {
    diverged = false;
    LATHE_CHECK_OK(steps->load(data));
    // A new plan may lay variables out anew, from their initial values.
    if (!written || bound != data.shapes) steps->write(values);
    written = true;
    bound = data.shapes;
    const auto t = static_cast<float>(made);
    LATHE_TRY(const float loss, steps->run(rate, std::min(options.average, (1 + t) / (10 + t))));
    steps->read(&next);
    const std::string broken = first_broken();
    if (std::isfinite(loss) && broken.empty()) {
      values.swap(next);
      ++made;
      return loss;
    }
    written = false;
    diverged = true;
    LATHE_TRY(const std::string first, find_non_finite(*steps, values));
    const std::string what =
        std::isfinite(loss) ? "'" + broken + "' becomes NaN or infinite" : "the loss is " + std::to_string(loss);
    return fail(Code::kInvalidArgument, "step " + std::to_string(made + 1) + ": " + what +
                                            (first.empty() ? "" : "; the first tensor that is not finite is " + first));
  }

  // Name of the first parameter or statistic whose next value is not finite.
  std::string first_broken() const {
    for (const auto* list : {&steps->graph().parameters, &steps->graph().statistics})
      for (const TrainedVariable& v : *list)
        if (!all_finite(next[steps->port(v.trained.variable)])) return v.trained.constant;
    return "";
  }
};

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Result<Trainer> Trainer::create(const Graph& model, const TrainerOptions& options, const SessionOptions& session) {
  auto impl = std::make_unique<Impl>(model, options, session);
  LATHE_TRY(TrainingGraph graph, make_step_graph(model, options));
  LATHE_TRY(impl->steps, TrainingProgram::create(std::move(graph), session));
  impl->values = impl->next = impl->steps->initial();
  return Trainer(std::move(impl));
}

Result<float> Trainer::step(const StepData& data, float rate) { return impl_->step(data, rate); }
uint64_t Trainer::steps() const { return impl_->made; }
bool Trainer::diverged() const { return impl_->diverged; }

Result<std::vector<ParameterGradient>> Trainer::gradients(const StepData& data) {
  Impl& m = *impl_;
  if (!m.gradients) {
    LATHE_TRY(TrainingGraph graph, make_gradient_graph(m.model, m.options));
    LATHE_TRY(m.gradients, TrainingProgram::create(std::move(graph), m.session));
  }
  LATHE_CHECK_OK(m.gradients->load(data));
  const auto& from = m.steps->graph().parameters;
  const auto& to = m.gradients->graph().parameters;
  VariableBytes values = m.gradients->initial();
  std::vector<ParameterGradient> result;
  for (size_t i = 0; i < to.size(); ++i) {
    const std::vector<std::byte>& v = m.values[m.steps->port(from[i].trained.variable)];
    values[m.gradients->port(to[i].trained.variable)] = v;
    result.push_back({to[i].trained.constant, {reinterpret_cast<const float*>(v.data()), v.size() / sizeof(float)}, {}});
  }
  m.gradients->write(values);
  LATHE_CHECK_OK(m.gradients->run(0, 0));
  for (size_t i = 0; i < to.size(); ++i) result[i].gradient = m.gradients->gradient(i);
  return result;
}

Result<Graph> Trainer::trained(bool averaged) const {
  const Impl& m = *impl_;
  Graph model = m.model;
  Rewriter rewriter(model);
  for (const auto* list : {&m.steps->graph().parameters, &m.steps->graph().statistics}) {
    for (const TrainedVariable& v : *list) {
      const ValueId variable = averaged && v.average != kNoId ? v.average : v.trained.variable;
      rewriter.set_constant(model.find_value(v.trained.constant), Constant::copy(m.values[m.steps->port(variable)]));
    }
  }
  LATHE_CHECK_OK(rewriter.ok());
  return model;
}

std::vector<NamedTensor> Trainer::state() const {
  const Impl& m = *impl_;
  std::vector<NamedTensor> state{{kSteps, counter(m.made)}};
  const LoadedProgram& program = m.steps->program();
  const Graph& graph = m.steps->graph().graph;
  for (uint32_t port = 0; port < m.values.size(); ++port) {
    const TensorType& type = graph.value(graph.find_value(program.variable_names[port])).type;
    HostTensor tensor{type.dtype, {}, m.values[port]};
    for (const Dim d : type.dims) tensor.dims.push_back(graph.dims().value(d).value_or(0));
    state.push_back({program.variable_names[port], std::move(tensor)});
  }
  return state;
}

Result<void> Trainer::restore(const std::vector<NamedTensor>& state) {
  Impl& m = *impl_;
  const std::vector<std::string>& names = m.steps->program().variable_names;
  if (state.size() != names.size() + 1)
    return fail(Code::kInvalidArgument, "the state has " + std::to_string(state.size()) + " tensors, this training has " +
                                            std::to_string(names.size() + 1));
  if (state[0].name != kSteps || state[0].tensor.bytes.size() != sizeof m.made)
    return fail(Code::kInvalidArgument, "the state does not begin with a number of steps");
  VariableBytes values(names.size());
  for (size_t port = 0; port < names.size(); ++port) {
    const NamedTensor& t = state[port + 1];
    if (t.name != names[port] || t.tensor.bytes.size() != m.values[port].size())
      return fail(Code::kInvalidArgument, "the state holds '" + t.name + "' of " + std::to_string(t.tensor.bytes.size()) +
                                              " bytes in place of '" + names[port] + "' of " +
                                              std::to_string(m.values[port].size()));
    values[port] = t.tensor.bytes;
  }
  m.values = std::move(values);
  std::memcpy(&m.made, state[0].tensor.bytes.data(), sizeof m.made);
  m.written = false;
  return {};
}

void Trainer::reset() {
  impl_->values = impl_->steps->initial();
  impl_->made = 0;
  impl_->written = false;
}

std::vector<std::string> Trainer::parameters() const {
  std::vector<std::string> names;
  for (const TrainedVariable& v : impl_->steps->graph().parameters) names.push_back(v.trained.constant);
  return names;
}

}  // namespace lathe::train
