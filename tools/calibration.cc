#include "tools/calibration.h"

#include <algorithm>

#include "base/cancel.h"
#include "base/progress.h"
#include "quant/observed.h"
#include "tools/data_binding.h"

namespace lathe::tools {
std::vector<ModelInput> graph_inputs(const Graph& graph) {
  std::vector<ModelInput> inputs;
  for (const ValueId v : graph.inputs()) {
    ModelInput input{graph.value(v).name, graph.value(v).type.dtype, {}};
    for (const Dim d : graph.value(v).type.dims) input.dims.push_back(graph.dims().value(d).value_or(-1));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

void CalibrationFlags::add_to(Arguments& args) {
  args.option("--data", data, "data set (TOML); reads its split calib, else train");
  args.option("--samples", samples, "calibration samples, spread evenly over the split").show_default().positive();
  args.option("--observer", observer,
              "minmax, moving-average, percentile, entropy, mse, or auto: for every tensor the one that disturbs the outputs least")
      .show_default();
  args.option("--percentile", percentile, "of the values that --observer percentile keeps").show_default().range(50.0, 100.0);
}

Result<CalibrationRun> run_calibration(const Graph& graph, const CalibrationFlags& flags, const SessionOptions& session) {
  CalibrationOptions options;
  LATHE_TRY(options.observer.kind, parse_observer(flags.observer));
  options.observer.percentile = flags.percentile;
  options.session = session;
  LATHE_TRY(Dataset data, Dataset::load(flags.data));
  LATHE_TRY(const ChosenSplit chosen, data.for_calibration());
  LATHE_TRY(const auto matching, match_inputs(graph_inputs(graph), graph.metadata, data));
  const uint64_t count = std::min<uint64_t>(flags.samples, chosen.split->size());
  Progress progress("calibrating", count);
  SampleSource source;
  source.count = count;
  source.fill = [&](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    LATHE_CHECK_OK(check_cancelled());
    for (size_t k = 0; k < matching.size(); ++k)
      LATHE_CHECK_OK(chosen.split->fill(matching[k], i * chosen.split->size() / count, inputs[k]));
    return {};
  };
  source.on_progress = [&](uint64_t done) { progress.update(done); };
  LATHE_TRY(Calibration calibration, calibrate(graph, source, options));
  std::string split = chosen.split->name();
  return CalibrationRun{std::move(calibration), std::move(data), std::move(split), chosen.note};
}

Result<Ranges> find_ranges(const std::string& path, const ModelFile& lowered, const CalibrationFlags& flags,
                           const SessionOptions& session) {
  Ranges ranges;
  if (!flags.data.empty()) {
    LATHE_TRY(CalibrationRun run, run_calibration(lowered.graph, flags, session));
    ranges.observed = observed_values(run.calibration);
    ranges.table = ranges_of(run.calibration);
    ranges.run = std::move(run);
    return ranges;
  }
  ranges.observed = lowered.calib;
  if (ranges.observed.empty())
    return fail(Code::kInvalidArgument, path + ": has no calibration; give --data set.toml, or run `lathe calibrate` first");
  ranges.table = ranges_of(ranges.observed);
  return ranges;
}

void store_preprocessing(const Dataset& data, std::map<std::string, std::string>* metadata) {
  (*metadata)[kPreprocessingKey] = to_text(data.preprocessing());
  (*metadata)[kPreprocessingHashKey] = to_hex(preprocessing_hash(data.preprocessing()));
}

}  // namespace lathe::tools
