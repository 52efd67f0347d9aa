// Every distinct operator of a model, alone: same operator, kernels, attributes and shapes are one benchmark, `count` says how
// often the model has it, and us x count is its part of a run.
//
//   bench/model_ops --model int8.lathe [--node conv1] [--batch 1] [--threads 1] [--isa avx2] [--benchmark_format=json ...]
//
// The model runs once, so that every operator finds the data that its place in the network gives it.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <map>

#include "runtime/host/cpu.h"
#include "runtime/host/team.h"
#include "tests/runtime/core_run.h"
#include "tools/arguments.h"
#include "tools/measured_model.h"

namespace lathe::bench {
namespace {

// A model bound whole, whose steps can run one by one.
struct Model {
  explicit Model(std::unique_ptr<Team> t) : team(std::move(t)), parallel(team->parallel()) {}
  std::shared_ptr<const LoadedProgram> loaded;
  std::unique_ptr<Team> team;
  Parallel parallel;
  test::CoreRun core;
  std::vector<std::vector<uint8_t>> buffers;  // of inputs and outputs
};

struct DistinctStep {
  uint32_t step;
  uint32_t count;
  double macs;
};

Result<std::unique_ptr<Model>> open_model(const tools::MeasureFlags& flags) {
  LATHE_TRY(tools::MeasuredModel measured, tools::open_measured(flags));
  LATHE_TRY(auto team, Team::create(measured.session.threads, usable_cpus()));
  auto model = std::make_unique<Model>(std::move(team));
  model->loaded = measured.model.program;
  BindOptions options;
  options.isa = measured.session.isa;
  options.storage = storage_for(options.isa);
  options.threads = measured.session.threads;
  options.table = full_exec_table();
  options.index = exec_index;
  std::vector<Shape> shapes;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (size_t i = 0; i < measured.runner.input_count(); ++i) shapes.push_back(measured.runner.input_shape(i));
  const Status bound = model->core.bind(model->loaded->program, shapes, options);
  if (!bound.ok()) return fail(bound.code, flags.model + ": cannot be bound as one plan");
  constexpr size_t kTail = 64;
  for (size_t i = 0; i < measured.runner.input_count(); ++i) {
    const uint8_t* data = measured.runner.input(i);
    const size_t bytes = static_cast<size_t>(shapes[i].elems()) * dtype_bytes(measured.runner.input_tensor(i).dtype);
    model->buffers.emplace_back(data, data + bytes + kTail);
  }
  for (size_t i = 0; i < measured.runner.output_count(); ++i) {
    const size_t elems = measured.runner.output_shape(i).elems();
    model->buffers.emplace_back(elems * dtype_bytes(measured.runner.output_tensor(i).dtype) + kTail);
  }
  for (size_t i = 0; i < model->buffers.size(); ++i) {
    if (i < shapes.size())
      inputs.push_back(model->buffers[i].data());
    else
      outputs.push_back(model->buffers[i].data());
  }
  model->core.run(inputs, outputs, nullptr, model->parallel);
  return model;
}

// What tells steps apart: operator, kernels, attributes, types and shapes; printable but for the attributes' bytes.
struct StepKey {
  std::string text, attrs;
  bool operator<(const StepKey& o) const { return std::tie(text, attrs) < std::tie(o.text, o.attrs); }
};

StepKey step_key(const Model& m, uint32_t step) {
  const Program& program = m.loaded->program;
  const ProgramStep& s = program.step(step);
  const Binding& b = m.core.binding;
  StepKey key;
  key.text = step < m.loaded->step_ops.size() ? m.loaded->step_ops[step] : "op" + std::to_string(s.op);
  for (uint32_t k = b.kernel_first[step]; k < b.kernel_first[step + 1]; ++k) key.text += std::string("/") + b.kernels[k]->name;
  for (uint32_t i = 0; i < s.n_in + s.n_out; ++i) {
    const uint32_t t = program.operand(s, i);
    if (t == kNoTensor) continue;
    const bool vector = program.tensor(t).layout == Layout::kPadded16;  // bias and multipliers follow from the weights
    if (!vector) key.text += (i == s.n_in ? "=" : i == 0 ? "/" : ",") + tools::shape_text(b.dims.shapes[t]);
    key.attrs += static_cast<char>(program.tensor(t).dtype);
  }
  const auto* attrs = reinterpret_cast<const char*>(&program.header()) + program.header().attr_at + s.attrs;
  key.attrs.append(attrs, s.attr_bytes);
  return key;
}

std::map<StepKey, DistinctStep> distinct_steps(const Model& m, const std::string& node) {
  std::map<StepKey, DistinctStep> out;
  const Program& program = m.loaded->program;
  for (uint32_t s = 0; s < program.step_count(); ++s) {
    const std::string name = s < m.loaded->step_names.size() ? m.loaded->step_names[s] : std::to_string(s);
    if (!node.empty() && name != node) continue;
    const uint32_t dim = program.step(s).macs_dim;
    const double macs = dim == kNoTensor ? 0 : static_cast<double>(m.core.binding.dims.values[dim]);
    const auto [at, fresh] = out.insert({step_key(m, s), DistinctStep{s, 0, macs}});
    ++at->second.count;
  }
  return out;
}

void measure(benchmark::State& state, const Model& m, const DistinctStep& d) {
  const Team::Turn turn(*m.team);
  for (auto _ : state) run_steps(m.core.binding.plan, full_exec_table(), m.core.memory, m.parallel, nullptr, d.step, d.step + 1);
  state.counters["count"] = d.count;
  const double gop = 2 * d.macs * static_cast<double>(state.iterations()) / 1e9;
  if (d.macs > 0) state.counters["GOPS"] = benchmark::Counter(gop, benchmark::Counter::kIsRate);
}

int run(const tools::MeasureFlags& flags, const std::string& node) {
  auto opened = open_model(flags);
  if (!opened) {
    std::fprintf(stderr, "model_ops: %s\n", opened.error().message.c_str());
    return 1;
  }
  const Model& model = **opened;
  const auto steps = distinct_steps(model, node);
  if (steps.empty()) {
    std::fprintf(stderr, "model_ops: %s has no node '%s'\n", flags.model.c_str(), node.c_str());
    return 1;
  }
  size_t number = 0;  // attributes alone may tell two apart: names stay unique
  for (const auto& [key, step] : steps) {
    const std::string name = std::to_string(number++) + "/" + key.text;
    benchmark::RegisterBenchmark(name.c_str(), [&model, d = step](benchmark::State& state) { measure(state, model, d); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lathe::tools::MeasureFlags flags;
  std::string node;
  lathe::tools::CommandLine line("time every distinct operator of a model alone");
  lathe::tools::Arguments args = line.arguments();
  args.option("--model", flags.model, ".lathe or .onnx file").required();
  args.option("--node", node, "only what this node is");
  args.option("--batch", flags.batch, "samples per run").show_default();
  flags.session.add_to(args);
  flags.import.add_to(args);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  return lathe::bench::run(flags, node);
}
