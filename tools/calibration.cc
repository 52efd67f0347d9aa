#include "tools/calibration.h"

#include <algorithm>
#include <numeric>

#include "base/cancel.h"
#include "base/progress.h"
#include "data/screen.h"
#include "quant/observed.h"
#include "tools/data_binding.h"
#include "tools/sample_list.h"

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
  add_choices_to(args);
}

void CalibrationFlags::add_choices_to(Arguments& args) {
  const Argument set = args.find("--data");
  args.option("--samples-from", samples_from, "calibrate on the set that `lathe calibrate --build` wrote to this file")
      .type_name("FILE")
      .needs(set);
  args.option("--samples", samples, "calibration samples, spread evenly over the split").show_default().positive();
  args.option("--observer", observer,
              "minmax, moving-average, percentile, entropy, mse, or auto: for every tensor the one that disturbs the outputs least")
      .show_default();
  args.option("--percentile", percentile, "of the values that --observer percentile keeps").show_default().range(50.0, 100.0);
  args.option("--on-nan", on_nan, "what to do with a sample that holds or causes NaN or infinity: fail or skip")
      .show_default()
      .one_of({"fail", "skip"});
}

SampleSource sample_source(const DataSplit& split, std::vector<size_t> matching, std::vector<uint32_t> which) {
  SampleSource source;
  source.count = which.size();
  source.fill = [&split, matching = std::move(matching), which = std::move(which)](
                    uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    for (size_t k = 0; k < matching.size(); ++k) LATHE_CHECK_OK(split.fill(matching[k], which[i], inputs[k]));
    return check_cancelled();
  };
  return source;
}

SampleSource first_samples(const DataSplit& split, std::vector<size_t> matching, uint64_t count) {
  std::vector<uint32_t> which(std::min(count, split.size()));
  std::iota(which.begin(), which.end(), 0u);
  return sample_source(split, std::move(matching), std::move(which));
}

namespace {

// Which samples of which split the flags mean.
struct Wanted {
  ChosenSplit chosen;
  std::vector<uint32_t> samples;
};

Result<Wanted> find_samples(const Dataset& data, const CalibrationFlags& flags) {
  Wanted out;
  if (!flags.samples_from.empty()) {
    LATHE_TRY(const SampleList list, read_sample_list(flags.samples_from));
    LATHE_TRY(out.chosen.split, split_of(list, data));
    LATHE_TRY(out.samples, find_listed(list, *out.chosen.split));
    return out;
  }
  LATHE_TRY(out.chosen, data.for_calibration());
  const uint64_t all = out.chosen.split->size(), count = std::min<uint64_t>(flags.samples, all);
  for (uint64_t i = 0; i < count; ++i) out.samples.push_back(static_cast<uint32_t>(i * all / count));
  return out;
}

std::vector<uint32_t> without_skipped(const Wanted& wanted, const Calibration& calibration) {
  std::vector<uint32_t> observed;
  size_t skipped = 0;
  for (size_t i = 0; i < wanted.samples.size(); ++i) {
    if (skipped < calibration.skipped.size() && calibration.skipped[skipped].index == i) ++skipped;
    else observed.push_back(wanted.samples[i]);
  }
  return observed;
}

Result<std::string> hash_of_samples(const DataSplit& split, const std::vector<uint32_t>& samples) {
  std::vector<Hash128> contents;
  for (const uint32_t i : samples) {
    LATHE_TRY(contents.emplace_back(), split.hash(i));
  }
  return to_hex(hash_of_set(std::move(contents)));
}

}  // namespace

Result<CalibrationRun> run_calibration(const Graph& graph, const CalibrationFlags& flags, const SessionOptions& session) {
  CalibrationOptions options;
  LATHE_TRY(options.observer.kind, parse_observer(flags.observer));
  options.observer.percentile = flags.percentile;
  options.session = session;
  options.skip_non_finite = flags.on_nan == "skip";
  LATHE_TRY(Dataset data, Dataset::load(flags.data, {.allow_non_finite = options.skip_non_finite}));
  LATHE_TRY(const Wanted wanted, find_samples(data, flags));
  const DataSplit& split = *wanted.chosen.split;
  LATHE_TRY(auto matching, match_inputs(graph_inputs(graph), graph.metadata, data));
  SampleSource source = sample_source(split, std::move(matching), wanted.samples);
  Progress progress("calibrating", source.count);
  source.on_progress = [&](uint64_t done) { progress.update(done); };
  LATHE_TRY(Calibration calibration, calibrate(graph, source, options));
  CalibrationRun run;
  if (!wanted.chosen.note.empty()) run.notes.push_back(wanted.chosen.note);
  for (const SkippedSample& s : calibration.skipped)
    run.notes.push_back("skipped " + split.where(wanted.samples[s.index]) + ": tensor '" + s.tensor + "' holds NaN or infinity");
  if (!calibration.skipped.empty()) run.notes.push_back(std::to_string(calibration.skipped.size()) + " samples were skipped");
  run.observed = without_skipped(wanted, calibration);
  LATHE_TRY(run.hash, hash_of_samples(split, run.observed));
  run.calibration = std::move(calibration);
  run.split = split.name();
  run.data = std::move(data);
  return run;
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

void store_origin(const CalibrationRun& run, std::map<std::string, std::string>* metadata) {
  store_preprocessing(run.data, metadata);
  (*metadata)[kCalibrationHashKey] = run.hash;
  (*metadata)[kCalibrationSamplesKey] = std::to_string(run.calibration.samples);
}

void store_preprocessing(const Dataset& data, std::map<std::string, std::string>* metadata) {
  (*metadata)[kPreprocessingKey] = to_text(data.preprocessing());
  (*metadata)[kPreprocessingHashKey] = to_hex(preprocessing_hash(data.preprocessing()));
}

}  // namespace lathe::tools
