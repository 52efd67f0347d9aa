// The time of one training step of an imported classifier: forward, backward and SGD with momentum, on random inputs.
//
//   bench/training_step resnet20.onnx --batch 128 --threads 2 --steps 10 [--profile]
//
// Prints one line of JSON: {"ms": median, "min_ms", "steps", "batch", "threads", "isa", "arena_mb", "loss"}; with --profile a
// line per op before it, milliseconds of a step. bench/peers/training.py sets it beside PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>

#include "graph/grad/gradient.h"
#include "graph/grad/training_form.h"
#include "graph/import/import.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "tools/arguments.h"
#include "train/losses.h"
#include "train/optimizer.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

struct StepFlags {
  std::string model;
  uint32_t batch = 128, threads = 1, steps = 10;
  bool profile = false;
};

// The graph of one step: inputs x, labels, rate; outputs logits, loss.
Result<Graph> step_graph(const std::string& model) {
  LATHE_TRY(Graph graph, import_model(model));
  LATHE_TRY(const TrainingForm form, make_training_form(graph));
  const ValueId logits = graph.outputs()[0];
  const Dim batch = graph.value(logits).type.dims[0];
  const ValueId labels = graph.add_input("labels", {DType::kS32, {batch}}), rate = graph.add_input("rate", {DType::kF32, {}});
  LATHE_TRY(const ValueId loss, train::cross_entropy(graph, logits, labels));
  std::vector<ValueId> of;
  for (const Trained& t : form.parameters) of.push_back(t.variable);
  LATHE_TRY(const std::vector<ValueId> gradients, add_gradients(graph, loss, of));
  std::vector<train::Parameter> parameters;
  for (size_t i = 0; i < of.size(); ++i)
    if (gradients[i] != kNoId) parameters.push_back({of[i], gradients[i]});
  LATHE_CHECK_OK(train::add_sgd(graph, parameters, rate, {.weight_decay = 5e-4f}));
  graph.add_output(loss);
  return graph;
}

struct Profile {
  const std::vector<std::string>* ops;
  std::map<std::string, double> ms;
  Clock::time_point begin;
};

StepHook hook_of(Profile* profile) {
  StepHook hook{};
  hook.self = profile;
  hook.before = [](void* self, uint32_t) { static_cast<Profile*>(self)->begin = Clock::now(); };
  hook.after = [](void* self, uint32_t step) {
    auto* p = static_cast<Profile*>(self);
    p->ms[(*p->ops)[step]] += ms_since(p->begin);
  };
  return hook;
}

void print_profile(const Profile& profile, uint32_t runs) {
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [op, ms] : profile.ms) rows.emplace_back(ms / runs, op);
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [ms, op] : rows) std::printf("%9.3f ms  %s\n", ms, op.c_str());
}

// Random images in [-1, 1) and labels below the number of classes.
struct Batch {
  std::vector<float> x;
  std::vector<int32_t> labels;
};
Batch random_batch(const Shape& x, uint32_t batch, int32_t classes) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  Batch b{std::vector<float>(x.elems()), std::vector<int32_t>(batch)};
  for (float& v : b.x) v = value(random);
  for (int32_t& l : b.labels) l = static_cast<int32_t>(random() % static_cast<uint32_t>(classes));
  return b;
}

Result<void> measure(const StepFlags& flags) {
  LATHE_TRY(const Graph graph, step_graph(flags.model));
  LATHE_TRY(const auto program, compile_for_host(graph));
  LATHE_TRY(const kernels::IsaSet isa, machine_isa());
  LATHE_TRY(const auto session, HostSession::create(program, {.isa = isa, .threads = flags.threads}));
  Shape x{}, labels{};
  for (const Dim d : graph.value(graph.inputs()[0]).type.dims)
    x.dims[x.rank++] = static_cast<int32_t>(graph.dims().value(d).value_or(flags.batch));
  x.dims[0] = labels.dims[labels.rank++] = static_cast<int32_t>(flags.batch);
  const Shape shapes[] = {x, labels, {}};
  LATHE_CHECK_OK(session->bind(shapes));
  const Batch batch = random_batch(x, flags.batch, session->output_shape(0)[1]);
  const float rate = 0.01f;
  float loss = 0;
  const void* const inputs[] = {batch.x.data(), batch.labels.data(), &rate};
  std::vector<float> logits(session->output_shape(0).elems());
  void* const outputs[] = {logits.data(), &loss};
  LATHE_CHECK_OK(session->run(inputs, outputs));
  Profile profile{&program->step_ops, {}, {}};
  if (flags.profile) session->set_hook(hook_of(&profile));
  std::vector<double> ms;
  for (uint32_t i = 0; i < flags.steps; ++i) {
    const Clock::time_point begin = Clock::now();
    LATHE_CHECK_OK(session->run(inputs, outputs));
    ms.push_back(ms_since(begin));
  }
  if (flags.profile) print_profile(profile, flags.steps);
  std::sort(ms.begin(), ms.end());
  std::printf(
      "{\"ms\": %.3f, \"min_ms\": %.3f, \"steps\": %u, \"batch\": %u, \"threads\": %u, \"isa\": \"%s\", \"arena_mb\": %.1f, "
      "\"loss\": %.6f}\n",
      ms[ms.size() / 2], ms[0], flags.steps, flags.batch, flags.threads, isa_text(isa),
      static_cast<double>(session->arena_bytes()) / 1e6, static_cast<double>(loss));
  return {};
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  lathe::bench::StepFlags flags;
  lathe::tools::CommandLine line("time a training step: cross-entropy, gradients, SGD with momentum");
  lathe::tools::Arguments args = line.arguments();
  args.option("model", flags.model, "classifier as .onnx, its batch normalization unfolded").required();
  args.option("--batch", flags.batch, "images of a step");
  args.option("--threads", flags.threads, "threads");
  args.option("--steps", flags.steps, "steps to time");
  args.flag("--profile", flags.profile, "print time by op");
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  if (flags.batch == 0 || flags.steps == 0) {
    std::fprintf(stderr, "training_step: batch and steps must be above 0\n");
    return 2;
  }
  if (const auto done = lathe::bench::measure(flags); !done) {
    std::fprintf(stderr, "training_step: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
