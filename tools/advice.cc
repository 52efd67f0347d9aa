#include "tools/advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "quant/layer_noise.h"
#include "quant/rounded.h"
#include "quant/sensitivity.h"
#include "tools/markup.h"
#include "tools/measured_model.h"
#include "tools/table.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

constexpr double kWorthTraining = 3;  // points that are left after every remedy
constexpr double kTrainingCost = 3;   // forward, and about twice that backward
constexpr uint64_t kNoiseSamples = 16;
constexpr size_t kMostKept = 3;
constexpr double kClearly = 0.1;  // points

class Walk {
 public:
  Walk(const ModelFile& model, const AdviceRequest& r) : model_(model), r_(r) {}

  Result<Advice> run() {
    LATHE_TRY(data_, Dataset::load(r_.calibration.data));
    LATHE_TRY(const ChosenSplit chosen, data_->for_choices());
    split_ = chosen.split;
    LATHE_TRY(baseline_, score(model_.graph));
    out_.samples = baseline_.samples.size();
    out_.split = split_->name();
    out_.value = make_report(r_.metric, *split_, baseline_, nullptr, false).all.value;
    LATHE_CHECK_OK(find_causes());
    LATHE_CHECK_OK(try_remedies());
    LATHE_CHECK_OK(name_operators());
    LATHE_CHECK_OK(time_epoch());
    return std::move(out_);
  }

 private:
  Result<ModelScores> score(const Graph& graph) {
    EvalRequest request;
    request.metric = r_.metric;
    request.limit = r_.limit;
    request.session = r_.session;
    request.progress = "";
    return score_graph(graph, r_.model, *data_, *split_, request);
  }

  Result<AdviceRow> judge(const std::string& what, const Graph& graph) {
    LATHE_TRY(const ModelScores scores, score(graph));
    const EvalReport report = make_report(r_.metric, *split_, scores, &baseline_, false);
    AdviceRow row{what, report.all.value, report.all.drop, "", 0};
    if (report.worst) row.worst_group = report.groups[*report.worst].name, row.worst_drop = report.groups[*report.worst].drop;
    return row;
  }

  Result<RemedyResult> quantized(const RemedyFlags& flags, const QuantizeOptions& options, const std::string& observer = "") {
    ModelFile copy = model_;
    CalibrationFlags calibration = r_.calibration;
    if (!observer.empty()) calibration.observer = observer;
    return quantize_with_remedies(r_.model, &copy, flags, calibration, options, r_.session);
  }

  Result<void> find_causes() {
    LATHE_TRY(plain_, quantized({}, r_.quantize));
    QuantizeOptions nothing = r_.quantize;
    nothing.keep_nodes = std::set<NodeId>(model_.graph.order().begin(), model_.graph.order().end());
    LATHE_TRY(const QuantizeResult kept, quantize_graph(model_.graph, plain_.ranges.table, nothing));
    LATHE_TRY(auto matching, match_inputs(graph_inputs(model_.graph), model_.graph.metadata, *data_));
    source_ = first_samples(*split_, std::move(matching), kNoiseSamples);
    LATHE_TRY(const double same, output_sqnr(model_.graph, kept.graph, source_, r_.session));
    out_.float_is_kept = std::isinf(same);
    LATHE_TRY(const Graph weights, with_rounded_weights(model_.graph, plain_.quantized.graph));
    LATHE_TRY(out_.causes.emplace_back(), judge("weights alone in INT8", weights));
    LATHE_TRY(const Graph activations, with_rounded_activations(model_.graph, plain_.ranges.table, r_.quantize));
    LATHE_TRY(out_.causes.emplace_back(), judge("activations alone in INT8", activations));
    return {};
  }

  Result<void> attempt(const std::string& what, Result<RemedyResult> tried) {
    if (!tried) return tl::unexpected(std::move(tried.error()));
    LATHE_TRY(out_.remedies.emplace_back(), judge(what, tried->quantized.graph));
    // Less is noise, and what was tried first is simpler.
    if (out_.remedies.size() > 1 && out_.remedies.back().drop > out_.remedies[out_.best].drop - kClearly) return {};
    out_.best = out_.remedies.size() - 1;
    out_.network = std::move(*tried);
    return {};
  }

  Result<void> try_remedies() {
    const QuantizeOptions& q = r_.quantize;
    LATHE_CHECK_OK(attempt("INT8 as asked", plain_));
    QuantizeOptions per_channel = q;
    per_channel.per_channel = true;
    if (!q.per_channel) LATHE_CHECK_OK(attempt("per-channel weights", quantized({}, per_channel)));
    const auto with = [](auto&& set) {
      RemedyFlags f;
      set(f);
      return f;
    };
    LATHE_CHECK_OK(attempt("equalization", quantized(with([](RemedyFlags& f) { f.equalize = true; }), q)));
    LATHE_CHECK_OK(attempt("bias correction", quantized(with([](RemedyFlags& f) { f.bias_correction = "empirical"; }), q)));
    LATHE_CHECK_OK(attempt("AdaRound", quantized(with([](RemedyFlags& f) { f.adaround = true; }), q)));
    LATHE_CHECK_OK(attempt("observer auto", quantized({}, q, "auto")));
    const bool norms = std::any_of(model_.graph.order().begin(), model_.graph.order().end(),
                                   [&](NodeId n) { return op_def(model_.graph.node(n).op).channel_affine; });
    if (norms) LATHE_CHECK_OK(attempt("SmoothQuant", quantized(with([](RemedyFlags& f) { f.smooth = true; }), q)));
    const RemedyFlags all = with([](RemedyFlags& f) {
      f.equalize = f.smooth = f.adaround = true;
      f.bias_correction = "empirical";
    });
    LATHE_CHECK_OK(attempt("all of these", quantized(all, per_channel, "auto")));
    return with_sensitive_layers_float(all, per_channel);
  }

  Result<void> with_sensitive_layers_float(const RemedyFlags& all, QuantizeOptions options) {
    LATHE_TRY(const std::vector<Layer> layers, int8_layers(model_.graph, options));
    LATHE_TRY(SampleRunner reference, SampleRunner::create(model_.graph, r_.session));
    std::vector<std::pair<double, size_t>> noise;
    for (size_t i = 0; i < layers.size(); ++i) {
      LATHE_TRY(const QuantizeResult alone, quantize_isolated(model_.graph, plain_.ranges.table, options, layers, i, Isolation::kAlone));
      LATHE_TRY(const LayerError error, layer_error(model_.graph, reference, alone.graph, layers[i], source_, r_.session));
      noise.emplace_back(-error.kl, i);
    }
    std::sort(noise.begin(), noise.end());
    std::string names;
    for (size_t k = 0; k < std::min(kMostKept, noise.size()); ++k) {
      sensitive_.push_back(layers[noise[k].second].name);
      options.keep_float.push_back(sensitive_.back());
      names += (names.empty() ? "" : ", ") + sensitive_.back();
    }
    if (names.empty()) return {};
    return attempt("all, and float: " + names, quantized(all, options, "auto"));
  }

  Result<void> name_operators() {
    for (const QuantizeRow& row : plain_.quantized.rows)
      if (!row.int8 && row.reason == "no integer kernel" && row.share > 0.001)
        out_.replace.push_back(row.node + " (" + row.op + "): has no integer kernel");
    for (const std::string& name : sensitive_) out_.replace.push_back(name + ": disturbs the outputs most in INT8");
    return {};
  }

  Result<void> time_epoch() {
    const DataSplit* train = data_->split("train");
    if (train == nullptr) return {};
    LATHE_TRY(auto program, compile_for_host(model_.graph));
    LATHE_TRY(Runner runner, make_runner({}, {std::move(program), {}, 0}, r_.session));
    LATHE_TRY(const auto us, measure({&runner}, 0.5));
    out_.train_samples = train->size();
    out_.epoch_seconds = kTrainingCost * percentile(us[0], 0.5) * 1e-6 * static_cast<double>(train->size());
    return {};
  }

  const ModelFile& model_;
  const AdviceRequest& r_;
  std::optional<Dataset> data_;
  const DataSplit* split_ = nullptr;
  ModelScores baseline_;
  SampleSource source_;
  RemedyResult plain_;
  std::vector<std::string> sensitive_;
  Advice out_;
};

}  // namespace

void AdviceFlags::add_to(Arguments& args) {
  args.flag("--advise", advise, "say what the drop comes from, what each remedy recovers and whether training with quantization is worth it; "
                                "writes the best network found");
  args.option("--releases", releases, "with --advise: over how many releases the cost of training would spread").show_default().positive();
  args.option("--train-budget", train_budget_hours, "with --advise: hours that training may take").show_default().positive();
  args.option("--epochs", epochs, "with --advise: epochs that training would take").show_default().positive();
}

Result<Advice> advise(const ModelFile& model, const AdviceRequest& request) { return Walk(model, request).run(); }

std::vector<std::string> verdict(const Advice& a, const AdviceRequest& r) {
  std::vector<std::string> lines;
  const AdviceRow &plain = a.remedies[0], &best = a.remedies[a.best];
  if (!a.float_is_kept) lines.push_back("with every operator left float the converted network differs from the float one: look for a bug in the conversion first");
  const double weights = a.causes[0].drop, activations = a.causes[1].drop;
  lines.push_back(formatted("the drop of %.2f comes %s (weights alone %.2f, activations alone %.2f)", plain.drop,
                            weights > 2 * activations ? "from the weights" : activations > 2 * weights ? "from the activations" : "from both",
                            weights, activations));
  lines.push_back(formatted("best: %s, with a drop of %.2f", best.what.c_str(), best.drop));
  if (best.drop <= kWorthTraining) {
    lines.push_back(formatted("training with quantization is not worth it: no more than %.0f are left", kWorthTraining));
    return lines;
  }
  const double hours = a.epoch_seconds * static_cast<double>(r.flags.epochs) / 3600;
  std::string text = formatted("more than %.0f are left after every remedy: training with quantization could win them back", kWorthTraining);
  if (a.epoch_seconds == 0) {
    lines.push_back(text + ", but the data set has no split 'train'");
  } else {
    text += formatted("; %llu epochs of %llu samples take about %.2g hours (estimated: %.0f times the measured float runs), %.2g per release over %llu",
                      static_cast<unsigned long long>(r.flags.epochs), static_cast<unsigned long long>(a.train_samples), hours, kTrainingCost,
                      hours / static_cast<double>(r.flags.releases), static_cast<unsigned long long>(r.flags.releases));
    lines.push_back(text + (hours <= r.flags.train_budget_hours ? ", within" : ", beyond") +
                    formatted(" the budget of %.2g hours", r.flags.train_budget_hours));
  }
  for (const std::string& line : a.replace) lines.push_back("or replace " + line);
  return lines;
}

void print_advice(const Advice& a, const AdviceRequest& r) {
  std::printf("%s of the float network: %s on %llu samples of split '%s'\n", r.metric.name().c_str(), value_text(r.metric, a.value).c_str(),
              static_cast<unsigned long long>(a.samples), a.split.c_str());
  Table table({"network", r.metric.name(), "drop", "recovered", "worst group"});
  const double lost = a.remedies[0].drop;
  const auto add = [&](const AdviceRow& row, bool cause) {
    table.add({row.what, value_text(r.metric, row.value), formatted("%.2f", row.drop), cause ? "" : formatted("%.2f", lost - row.drop),
               row.worst_group.empty() ? "" : row.worst_group + formatted(" %.2f", row.worst_drop)});
  };
  for (const AdviceRow& row : a.causes) add(row, true);
  for (const AdviceRow& row : a.remedies) add(row, false);
  std::printf("%s", table.text().c_str());
  for (const std::string& line : verdict(a, r)) std::printf("%s\n", line.c_str());
  if (a.samples < kFewSamples)
    std::printf("note: fewer than %llu samples: differences of this size are noise\n", static_cast<unsigned long long>(kFewSamples));
}

Tree advice_json(const Advice& a, const AdviceRequest& r) {
  const auto rows = [](const std::vector<AdviceRow>& all) {
    Tree out = Tree::array();
    for (const AdviceRow& row : all) {
      Tree t = Tree::table();
      t.set("network", row.what).set("value", row.value).set("drop", row.drop);
      if (!row.worst_group.empty()) t.set("worst_group", row.worst_group).set("worst_group_drop", row.worst_drop);
      out.push(std::move(t));
    }
    return out;
  };
  Tree lines = Tree::array();
  for (const std::string& line : verdict(a, r)) lines.push(line);
  Tree out = Tree::table();
  out.set("metric", r.metric.name()).set("float", a.value).set("samples", a.samples).set("split", a.split).set("float_is_kept", a.float_is_kept);
  out.set("causes", rows(a.causes)).set("remedies", rows(a.remedies)).set("best", a.remedies[a.best].what).set("epoch_seconds", a.epoch_seconds);
  return out.set("advice", std::move(lines));
}

}  // namespace lathe::tools
