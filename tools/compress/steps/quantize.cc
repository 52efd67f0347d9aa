// quantize: INT8 for everything, or by operator what is fastest here while the gates hold.
#include "base/file.h"
#include "base/hash.h"
#include "graph/pass.h"
#include "tools/compress/step.h"
#include "tools/int8_model.h"
#include "tools/markup.h"
#include "tools/model.h"

namespace lathe::tools {
namespace {

// Networks that a search judges, about; and how much longer calibrating takes than running.
constexpr double kSearchNetworks = 12, kCalibrationCost = 3;

struct Options {
  CalibrationFlags calibration;
  RemedyFlags remedies;
  KeepFlags keep;
  bool mixed = true, per_channel = true;
  std::optional<double> target_ms;
};

class Quantize final : public Step {
 public:
  explicit Quantize(Options options) : o_(std::move(options)) {}

  std::string what() const override {
    std::string text = o_.mixed ? "INT8, FP16 or FP32 by operator" : "INT8";
    text += formatted(", %llu calibration samples, observer %s", static_cast<unsigned long long>(o_.calibration.samples), o_.calibration.observer.c_str());
    for (const auto& [given, name] : {std::pair(o_.remedies.equalize, "equalize"), {o_.remedies.smooth, "smooth"}, {o_.remedies.weight_mse, "weight_mse"},
                                      {o_.remedies.adaround, "adaround"}, {!o_.remedies.bias_correction.empty(), "bias_correction"}})
      if (given) text += std::string(", ") + name;
    return text;
  }

  double seconds(const StepCosts& c) const override {
    const auto samples = static_cast<double>(std::min<uint64_t>(o_.calibration.samples, c.calib));
    const double calibrating = kCalibrationCost * samples * c.sample_seconds;
    return o_.mixed ? calibrating + kSearchNetworks * static_cast<double>(c.choices) * c.sample_seconds + 7 * c.measure_seconds : calibrating;
  }

  Result<std::string> contents() const override {
    std::string text;
    LATHE_TRY(const KeepList keep, o_.keep.read());
    text = keep.hash;
    if (!o_.calibration.samples_from.empty()) {
      LATHE_TRY(const std::string list, read_text_file(o_.calibration.samples_from));
      text += to_hex(hash128(list));
    }
    return text;
  }

  Result<void> run(const StepInput& in, StepOutput* out) const override {
    LATHE_TRY(ModelFile model, load_model(in.model, {}));
    LATHE_TRY(const Graph original, load_graph(in.original, {}));
    LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
    Int8Request request{.model = in.model, .remedies = o_.remedies, .calibration = o_.calibration, .per_channel = o_.per_channel};
    request.calibration.data = in.data->description().path;
    LATHE_TRY(request.keep, o_.keep.read());
    request.session = in.session;
    request.baseline = &original;
    request.choose = o_.mixed;
    if (o_.mixed) request.mixed = budget(in);
    LATHE_TRY(Int8Outcome result, make_int8(&model, request));
    out->write.targets = {Target::kHost};
    LATHE_CHECK_OK(complete_int8(request.keep, result.plain.ranges, in.session, &result.graph(), &out->write));
    describe(request, result, out);
    out->graph = std::move(result.graph());
    return {};
  }

 private:
  MixedFlags budget(const StepInput& in) const {
    MixedFlags flags;
    flags.max_drop = in.gates.max_drop;
    flags.max_group_drop = in.gates.max_group_drop;
    flags.target_ms = o_.target_ms;
    flags.metric = in.metric.name();
    flags.cost_table = in.cost_table;
    flags.limit = in.limit;
    flags.seconds = in.seconds;
    return flags;
  }

  static void describe(const Int8Request& request, const Int8Outcome& result, StepOutput* out) {
    for (const std::string& note : result.plain.ranges.run->notes) out->lines.push_back("note: " + note);
    if (!result.mixed) {
      size_t int8 = 0;
      for (const QuantizeRow& row : result.plain.quantized.rows) int8 += row.int8;
      out->lines.push_back(formatted("%zu of %zu operators are INT8", int8, result.plain.quantized.rows.size()));
      if (!result.plain.remedies.empty()) out->details.set("remedies", remedies_json(result.plain.remedies));
      return;
    }
    size_t count[kPrecisions] = {};
    for (const MixedRow& row : result.mixed->rows) ++count[static_cast<size_t>(row.precision)];
    out->lines.push_back(formatted("%zu operators INT8, %zu FP16, %zu FP32; %zu networks judged", count[0], count[1], count[2], result.mixed->evaluations));
    if (count[static_cast<size_t>(Precision::kInt8)] == 0) out->lines.push_back("note: no operator is faster in INT8 here within the gates");
    out->details = request.mixed.json(*result.mixed);
  }

  Options o_;
};

Result<void> parse_calibration(TableReader& table, const std::string& folder, CalibrationFlags* c) {
  LATHE_TRY(const int64_t samples, table.integer_or("samples", 1, INT32_MAX, static_cast<int64_t>(c->samples)));
  c->samples = static_cast<uint64_t>(samples);
  LATHE_TRY(c->observer, table.string_or("observer", c->observer));
  if (const auto observer = parse_observer(c->observer); !observer) return table.error(*table.get("observer"), observer.error().message);
  LATHE_TRY(c->percentile, table.number_or("percentile", c->percentile));
  LATHE_TRY(c->samples_from, table.string_or("samples_from", ""));
  if (!c->samples_from.empty()) c->samples_from = recipe_path(folder, c->samples_from);
  return {};
}

Result<void> parse_remedies(TableReader& table, RemedyFlags* r) {
  LATHE_TRY(r->equalize, table.boolean_or("equalize", false));
  LATHE_TRY(r->smooth, table.boolean_or("smooth", false));
  LATHE_TRY(r->weight_mse, table.boolean_or("weight_mse", false));
  LATHE_TRY(r->adaround, table.boolean_or("adaround", false));
  LATHE_TRY(r->bias_correction, table.string_or("bias_correction", ""));
  const std::string& kind = r->bias_correction;
  if (!kind.empty() && kind != "empirical" && kind != "analytic")
    return table.error(*table.get("bias_correction"), "'bias_correction' is '" + kind + "', must be empirical or analytic");
  return {};
}

Result<std::unique_ptr<Step>> parse(TableReader& table, const std::string& folder) {
  Options o;
  LATHE_CHECK_OK(parse_calibration(table, folder, &o.calibration));
  LATHE_CHECK_OK(parse_remedies(table, &o.remedies));
  const bool fits_int8 = o.remedies.adaround || !o.remedies.bias_correction.empty();
  LATHE_TRY(o.mixed, table.boolean_or("mixed", !fits_int8));
  if (const Tree* mixed = table.get("mixed"); mixed != nullptr && o.mixed && fits_int8)
    return table.error(*mixed, "adaround and bias_correction fit a network that is INT8 throughout: leave out 'mixed'");
  LATHE_TRY(const bool per_tensor, table.boolean_or("per_tensor", false));
  o.per_channel = !per_tensor;
  if (table.get("keep") != nullptr) {
    LATHE_TRY(o.keep.given, table.strings("keep"));
    for (std::string& entry : o.keep.given)
      if (entry.ends_with(".toml")) entry = recipe_path(folder, entry);
  }
  if (const Tree* target = table.get("target_latency"); target != nullptr) {
    LATHE_TRY(o.target_ms, positive_or(table, "target_latency", 0));
    if (!o.mixed) return table.error(*target, "'target_latency' needs a choice of precisions: set mixed = true");
  }
  return std::make_unique<Quantize>(std::move(o));
}

}  // namespace

const StepKind kStep_quantize{"quantize", 1, StepRole::kInteger, true, false, "int8-mixed", parse};

}  // namespace lathe::tools
