#include "tools/prune_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/cancel.h"
#include "base/progress.h"
#include "graph/grad/gradient.h"
#include "graph/grad/training_form.h"
#include "graph/lower/load.h"
#include "graph/rewriter.h"
#include "tools/calibration.h"
#include "tools/data_binding.h"
#include "tools/evaluation.h"
#include "tools/runner.h"
#include "train/losses.h"

namespace lathe::tools {
namespace {

const DataSplit& split_of(const ScoreData& d) { return *d.data.split(d.split); }

// Runs a graph whose first inputs are the model's, batch by batch.
class Batches {
 public:
  // `fill_rest` fills what the graph has beyond the model's inputs: sample `index` as row `row`. `seen` looks at each batch's
  // results.
  using FillRest = std::function<void(Runner&, uint64_t index, uint32_t row)>;
  using Seen = std::function<void(Runner&)>;

  Batches(const ScoreData& data, std::string what) : data_(data), what_(std::move(what)) {}

  Result<void> run(const Graph& model, const Graph& graph, const FillRest& fill_rest, const Seen& seen) {
    const DataSplit& split = split_of(data_);
    LATHE_TRY(const auto matching, match_inputs(graph_inputs(model), model.metadata, data_.data));
    LATHE_TRY(auto program, compile_for_host(graph));
    LATHE_TRY(Runner runner, Runner::create(std::move(program), data_.session));
    const uint64_t count = std::min(data_.samples, split.size());
    const auto batch = runner.batch_is_open() ? static_cast<uint32_t>(std::min<uint64_t>(data_.batch, count)) : 1u;
    LATHE_TRY(const auto shapes, runner.shapes_for(batch));
    LATHE_CHECK_OK(runner.bind(shapes));
    Progress progress(what_, count);
    for (uint64_t first = 0; first + batch <= count; first += batch) {
      LATHE_CHECK_OK(check_cancelled());
      for (uint32_t b = 0; b < batch; ++b) {
        const uint64_t index = (first + b) * split.size() / count;
        for (size_t k = 0; k < matching.size(); ++k)
          LATHE_CHECK_OK(split.fill(matching[k], index, runner.input(k) + b * data_.data.inputs()[matching[k]].bytes));
        fill_rest(runner, index, b);
      }
      LATHE_CHECK_OK(runner.run());
      seen(runner);
      progress.update(first + batch);
    }
    return {};
  }

 private:
  const ScoreData& data_;
  std::string what_;
};

// The graph with variables for the constants, a loss, and its gradients as results behind the model's own.
struct Differentiated {
  Graph graph;
  std::vector<size_t> outputs;  // by constant; 0 where the loss does not depend on it
};

Result<ValueId> add_loss(Graph& graph, const DataSplit& split) {
  const ValueId y = split.has_labels() ? logits_of(graph, graph.outputs()[0]) : graph.outputs()[0];
  if (split.has_labels()) {
    const TensorType labels{DType::kS32,
                            {graph.value(y).type.dims.empty() ? graph.dims().constant(1) : graph.value(y).type.dims[0]}};
    return train::cross_entropy(graph, y, graph.add_input(graph.fresh_name("labels"), labels));
  }
  if (split.has_targets())
    return train::mean_squared(graph, y, graph.add_input(graph.fresh_name("targets"), graph.value(y).type));
  return fail(Code::kInvalidArgument, "split '" + split.name() + "' has neither labels nor targets: gradients need a loss");
}

Result<Differentiated> differentiate(const Graph& model, std::span<const ValueId> constants, const DataSplit& split) {
  Differentiated out{model, {}};
  Graph& graph = out.graph;
  Rewriter rewriter(graph);
  std::vector<ValueId> variables;
  for (const ValueId v : constants) {
    const Value constant = graph.value(v);
    variables.push_back(graph.add_variable(graph.fresh_name(constant.name + ":scored"), constant.type, constant.constant));
    rewriter.replace(v, variables.back());
  }
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_TRY(const ValueId loss, add_loss(graph, split));
  LATHE_TRY(const std::vector<ValueId> gradients, add_gradients(graph, loss, variables));
  for (const ValueId g : gradients) {
    out.outputs.push_back(g == kNoId ? 0 : graph.outputs().size());
    if (g != kNoId) graph.add_output(g);
  }
  return out;
}

void fill_label(const DataSplit& split, Runner& runner, uint64_t index, uint32_t row) {
  const size_t input = runner.input_count() - 1;
  if (split.has_labels()) {
    reinterpret_cast<int32_t*>(runner.input(input))[row] = split.label(index);
    return;
  }
  const auto target = split.target(index);
  std::copy(target.begin(), target.end(), reinterpret_cast<float*>(runner.input(input)) + row * target.size());
}

// Mean |a| of activations, which become outputs of a copy of the graph.
class Magnitudes {
 public:
  Magnitudes(const Graph& model, std::span<const prune::Member> activations)
      : graph_(model), activations_(activations), sums_(activations.size()) {
    for (const prune::Member& a : activations) {
      const auto at = std::find(graph_.outputs().begin(), graph_.outputs().end(), a.value);
      outputs_.push_back(static_cast<size_t>(at - graph_.outputs().begin()));
      if (at == graph_.outputs().end()) graph_.add_output(a.value);
    }
  }
  const Graph& graph() const { return graph_; }

  void add(Runner& runner) {
    for (size_t k = 0; k < activations_.size(); ++k)
      add_one(reinterpret_cast<const float*>(runner.output(outputs_[k])), runner.output_shape(outputs_[k]), activations_[k].axis,
              &sums_[k]);
    ++batches_;
  }

  std::vector<std::vector<double>> means() const {
    std::vector<std::vector<double>> out = sums_;
    for (auto& by_index : out)
      for (double& v : by_index) v /= static_cast<double>(batches_);
    return out;
  }

 private:
  // Adds the mean of |a| by index along `axis`.
  static void add_one(const float* a, const Shape& shape, uint32_t axis, std::vector<double>* sums) {
    size_t outer = 1, inner = 1;
    for (uint32_t d = 0; d < shape.rank; ++d) {
      if (d < axis) outer *= static_cast<size_t>(shape[d]);
      if (d > axis) inner *= static_cast<size_t>(shape[d]);
    }
    const auto length = static_cast<size_t>(shape[axis]);
    sums->resize(length, 0);
    const double places = static_cast<double>(outer * inner);
    for (size_t o = 0; o < outer; ++o)
      for (size_t c = 0; c < length; ++c)
        for (size_t i = 0; i < inner; ++i) (*sums)[c] += std::fabs(static_cast<double>(*a++)) / places;
  }

  Graph graph_;
  std::span<const prune::Member> activations_;
  std::vector<size_t> outputs_;
  std::vector<std::vector<double>> sums_;
  size_t batches_ = 0;
};

// The user groups of a split that are large enough, and which of them each sample is in.
class UserGroups {
 public:
  explicit UserGroups(const ScoreData& data) {
    const DataSplit& split = split_of(data);
    const uint64_t count = std::min(data.samples, split.size());
    for (const GroupColumn& column : split.groups()) {
      std::map<std::string, std::vector<uint64_t>> members;
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t index = k * split.size() / count;
        members[column.values[index]].push_back(index);
      }
      for (const auto& [value, which] : members) {
        if (which.size() < kFewInGroup) continue;
        for (const uint64_t index : which) by_sample_[index].push_back(static_cast<uint32_t>(names_.size()));
        names_.push_back(column.name + "=" + value);
      }
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  std::span<const uint32_t> of(uint64_t sample) const {
    const auto found = by_sample_.find(sample);
    return found == by_sample_.end() ? std::span<const uint32_t>{} : std::span(found->second);
  }

 private:
  std::vector<std::string> names_;
  std::map<uint64_t, std::vector<uint32_t>> by_sample_;
};

// A copy of the graph that also puts out `values`, and which output each is.
Result<Graph> with_outputs(const Graph& model, std::span<const ValueId> values, std::vector<size_t>* outputs) {
  Graph graph = model;
  for (const ValueId v : values) {
    if (graph.value(v).type.dtype != DType::kF32)
      return fail(Code::kUnsupported, "value '" + graph.value(v).name + "' is no float32: heads are judged in float32");
    const auto at = std::find(graph.outputs().begin(), graph.outputs().end(), v);
    outputs->push_back(static_cast<size_t>(at - graph.outputs().begin()));
    if (at == graph.outputs().end()) graph.add_output(v);
  }
  return graph;
}

}  // namespace

Result<ScoreData> load_score_data(const std::string& toml, uint64_t samples, const SessionOptions& session) {
  LATHE_TRY(Dataset data, Dataset::load(toml));
  std::string split = "train";
  if (data.split(split) == nullptr) {
    LATHE_TRY(const ChosenSplit chosen, data.for_choices());
    split = chosen.split->name();
  }
  ScoreData out{std::move(data), std::move(split), samples, 32, session};
  return out;
}

prune::GradientSource gradient_source(const ScoreData& data) {
  return [&data](const Graph& model, std::span<const ValueId> constants, const prune::GradientSink& sink) -> Result<void> {
    const DataSplit& split = split_of(data);
    LATHE_TRY(const Differentiated d, differentiate(model, constants, split));
    std::vector<std::vector<float>> zeros(constants.size());
    for (size_t k = 0; k < constants.size(); ++k)
      if (d.outputs[k] == 0) zeros[k].resize(model.value(constants[k]).constant.as<float>().size());
    std::vector<std::span<const float>> gradients(constants.size());
    return Batches(data, "gradients")
        .run(
            model, d.graph, [&](Runner& runner, uint64_t index, uint32_t row) { fill_label(split, runner, index, row); },
            [&](Runner& runner) {
              for (size_t k = 0; k < constants.size(); ++k) {
                const size_t elems = model.value(constants[k]).constant.as<float>().size();
                gradients[k] = d.outputs[k] == 0 ? std::span<const float>(zeros[k])
                                                 : std::span(reinterpret_cast<const float*>(runner.output(d.outputs[k])), elems);
              }
              sink(gradients);
            });
  };
}

prune::ActivationSource activation_source(const ScoreData& data) {
  return [&data](const Graph& model, std::span<const prune::Member> activations) -> Result<std::vector<std::vector<double>>> {
    Magnitudes magnitudes(model, activations);
    LATHE_CHECK_OK(
        Batches(data, "activations")
            .run(
                model, magnitudes.graph(), [](Runner&, uint64_t, uint32_t) {}, [&](Runner& runner) { magnitudes.add(runner); }));
    return magnitudes.means();
  };
}

prune::HeadSource head_source(const ScoreData& data) {
  auto groups = std::make_shared<const UserGroups>(data);
  prune::HeadSource source;
  source.groups = groups->names();
  source.run = [&data, groups](const Graph& model, std::span<const ValueId> values, const prune::SampleSink& sink) -> Result<void> {
    ScoreData single = data;
    single.batch = 1;
    std::vector<size_t> outputs;
    LATHE_TRY(const Graph graph, with_outputs(model, values, &outputs));
    std::vector<std::span<const float>> seen(values.size());
    uint64_t sample = 0;
    return Batches(single, "heads").run(
        model, graph, [&](Runner&, uint64_t index, uint32_t) { sample = index; },
        [&](Runner& runner) {
          for (size_t k = 0; k < values.size(); ++k)
            seen[k] = {reinterpret_cast<const float*>(runner.output(outputs[k])), runner.output_shape(outputs[k]).elems()};
          sink(seen, groups->of(sample));
        });
  };
  return source;
}

}  // namespace lathe::tools
