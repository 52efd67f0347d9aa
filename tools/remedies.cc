#include "tools/remedies.h"

#include <cmath>
#include <cstdio>

#include "quant/adaround.h"
#include "quant/bias_correction.h"
#include "quant/equalize.h"
#include "quant/layer_noise.h"
#include "quant/smooth.h"
#include "tools/markup.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr uint64_t kSamples = 64;  // that steps look at, and gains are measured on

class Course {
 public:
  Course(const std::string& path, ModelFile* model, const RemedyFlags& flags, const CalibrationFlags& calibration,
         const QuantizeOptions& options, const SessionOptions& session)
      : path_(path), model_(*model), flags_(flags), calibration_(calibration), options_(options), session_(session),
        original_(model->graph) {
    options_.weight_mse = false;
  }

  Result<RemedyResult> run() {
    LATHE_CHECK_OK(check());
    LATHE_CHECK_OK(quantize(true));
    if (flags_.given() && out_.ranges.run) LATHE_CHECK_OK(choose_samples());
    if (flags_.equalize) LATHE_CHECK_OK(step("equalize", [&](Remedy* r) { return equalized(r); }));
    if (flags_.smooth) LATHE_CHECK_OK(step("smooth", [&](Remedy* r) { return smoothed(r); }));
    if (flags_.weight_mse) LATHE_CHECK_OK(step("weight MSE", [&](Remedy* r) { return clipped(r); }));
    if (flags_.adaround) LATHE_CHECK_OK(step("AdaRound", [&](Remedy* r) { return rounded(r); }));
    if (!flags_.bias_correction.empty())
      LATHE_CHECK_OK(step("bias correction, " + flags_.bias_correction, [&](Remedy* r) { return corrected(r); }));
    return std::move(out_);
  }

 private:
  Result<void> check() const {
    const auto needs = [&](const char* flag, const char* why) {
      return fail(Code::kInvalidArgument, std::string(flag) + " " + why + ": give --data set.toml");
    };
    if (!calibration_.data.empty()) return {};
    if (flags_.equalize) return needs("--equalize", "changes what calibration sees");
    if (flags_.smooth) return needs("--smooth", "looks at samples");
    if (flags_.adaround) return needs("--adaround", "fits layers to samples");
    if (flags_.bias_correction == "empirical") return needs("--bias-correction=empirical", "compares means over samples");
    return {};
  }

  // Calibrates anew if the graph's values have changed.
  Result<void> quantize(bool calibrate) {
    if (calibrate) {
      LATHE_TRY(out_.ranges, find_ranges(path_, model_, calibration_, session_));
    }
    LATHE_TRY(out_.quantized, quantize_graph(model_.graph, out_.ranges.table, options_));
    return {};
  }

  Result<void> choose_samples() {
    data_ = out_.ranges.run->data;  // later calibrations load the set anew; this one stays
    LATHE_TRY(auto matching, match_inputs(graph_inputs(original_), original_.metadata, *data_));
    const std::vector<uint32_t>& observed = out_.ranges.run->observed;
    const uint64_t count = std::min<uint64_t>(kSamples, observed.size());
    std::vector<uint32_t> chosen;
    for (uint64_t i = 0; i < count; ++i) chosen.push_back(observed[i * observed.size() / count]);
    source_ = sample_source(*data_->split(out_.ranges.run->split), std::move(matching), std::move(chosen));
    out_.samples = count;
    LATHE_TRY(db_, output_sqnr(original_, out_.quantized.graph, source_, session_));
    return {};
  }

  template <class F> Result<void> step(const std::string& name, F&& take) {
    Remedy r{name, 0, {}, db_, NAN};
    LATHE_CHECK_OK(take(&r));
    if (out_.samples > 0) {
      LATHE_TRY(db_, output_sqnr(original_, out_.quantized.graph, source_, session_));
      r.after_db = db_;
    }
    out_.remedies.push_back(std::move(r));
    return {};
  }

  Result<void> equalized(Remedy* r) {
    EqualizeResult result = equalize(model_.graph);
    LATHE_CHECK_OK(verify(model_.graph));
    r->layers = result.pairs.size();
    r->skipped = std::move(result.skipped);
    return quantize(true);
  }

  Result<void> smoothed(Remedy* r) {
    LATHE_TRY(SmoothResult result, smooth(model_.graph, source_, session_));
    LATHE_CHECK_OK(verify(model_.graph));
    r->layers = result.norms.size();
    r->skipped = std::move(result.skipped);
    return quantize(true);
  }

  Result<void> clipped(Remedy* r) {
    options_.weight_mse = true;
    for (const QuantizeRow& row : out_.quantized.rows) r->layers += row.int8 && row.share > 0;
    return quantize(false);
  }

  Result<void> rounded(Remedy* r) {
    LATHE_TRY(const auto layers, round_adaptively(model_.graph, out_.quantized.graph, source_, session_, {}));
    for (const RoundedLayer& layer : layers) {
      r->layers += layer.changed > 0;
      if (layer.changed == 0) r->skipped.push_back(layer.node + ": no rounding is better than the nearest");
    }
    return verify(out_.quantized.graph);
  }

  Result<void> corrected(Remedy* r) {
    LATHE_TRY(BiasCorrection result, flags_.bias_correction == "empirical"
                                         ? correct_biases(model_.graph, out_.quantized.graph, source_, session_)
                                         : correct_biases_from_moments(model_.graph, out_.quantized.graph));
    r->layers = result.layers.size();
    r->skipped = std::move(result.skipped);
    return verify(out_.quantized.graph);
  }

  const std::string& path_;
  ModelFile& model_;
  const RemedyFlags& flags_;
  const CalibrationFlags& calibration_;
  QuantizeOptions options_;
  const SessionOptions& session_;
  const Graph original_;
  std::optional<Dataset> data_;
  SampleSource source_;
  double db_ = NAN;
  RemedyResult out_;
};

std::string decibels(double db) { return std::isnan(db) ? "-" : std::isinf(db) ? "exact" : formatted("%.1f", db); }

}  // namespace

void RemedyFlags::add_to(Arguments& args) {
  args.flag("--equalize", equalize, "even out the channels of neighbouring layers' weights first; the float network stays the same");
  args.flag("--smooth", smooth, "let norms hand the size of their channels to the layers behind (SmoothQuant); the float network stays the same");
  args.flag("--weight-mse", weight_mse, "weight scales of least squared error instead of those that reach the largest weight");
  args.flag("--adaround", adaround, "round weights up or down so that each layer's result is nearest to float (AdaRound)");
  args.flag("--bias-correction{empirical}", bias_correction,
            "let biases take back the shift of the mean that INT8 makes, as samples show it (default), or =analytic: as batch norms say, "
            "without data");
}

Result<RemedyResult> quantize_with_remedies(const std::string& path, ModelFile* model, const RemedyFlags& flags,
                                            const CalibrationFlags& calibration, const QuantizeOptions& options,
                                            const SessionOptions& session) {
  const std::string& kind = flags.bias_correction;
  if (!kind.empty() && kind != "empirical" && kind != "analytic")
    return fail(Code::kInvalidArgument, "--bias-correction is '" + kind + "', must be empirical or analytic");
  return Course(path, model, flags, calibration, options, session).run();
}

Tree remedies_json(const std::vector<Remedy>& remedies) {
  Tree rows = Tree::array();
  for (const Remedy& r : remedies) {
    Tree row = Tree::table(), skipped = Tree::array();
    for (const std::string& s : r.skipped) skipped.push(s);
    row.set("name", r.name).set("layers", r.layers);
    if (std::isfinite(r.before_db)) row.set("sqnr_db_before", r.before_db);
    if (std::isfinite(r.after_db)) row.set("sqnr_db_after", r.after_db);
    rows.push(row.set("skipped", std::move(skipped)));
  }
  return rows;
}

void print_remedies(const RemedyResult& result) {
  if (result.remedies.empty()) return;
  Table table({"remedy", "layers", "output dB before", "after"});
  for (const Remedy& r : result.remedies)
    table.add({r.name, std::to_string(r.layers), decibels(r.before_db), decibels(r.after_db)});
  std::printf("%s", table.text().c_str());
  if (result.samples > 0)
    std::printf("signal to quantization noise of the outputs over %llu calibration samples\n",
                static_cast<unsigned long long>(result.samples));
  for (const Remedy& r : result.remedies)
    for (const std::string& line : r.skipped) std::printf("not by %s: %s\n", r.name.c_str(), line.c_str());
}

}  // namespace lathe::tools
