#include "tools/int8_model.h"

#include "tools/self_check.h"

namespace lathe::tools {

Result<Int8Outcome> make_int8(ModelFile* lowered, const Int8Request& r) {
  const bool choose = r.choose || r.mixed.given();
  if (choose && r.calibration.data.empty()) return fail(Code::kInvalidArgument, "a budget is judged on data: give --data set.toml");
  if (choose && (r.remedies.adaround || !r.remedies.bias_correction.empty()))
    return fail(Code::kInvalidArgument, "--adaround and --bias-correction fit a network that is INT8 already: leave out the budgets");
  Int8Outcome out;
  LATHE_TRY(out.plain, quantize_with_remedies(r.model, lowered, r.remedies, r.calibration, r.options(), r.session));
  if (!choose) return out;
  QuantizeOptions quantize = r.options();
  quantize.weight_mse = r.remedies.weight_mse;
  const Ranges& ranges = out.plain.ranges;
  LATHE_TRY(out.mixed, r.mixed.choose(r.model, lowered->graph, ranges.table, ranges.run->data, quantize, r.session, r.baseline));
  return out;
}

Result<void> complete_int8(const KeepList& keep, const Ranges& ranges, const SessionOptions& session, Graph* graph, WriteOptions* options) {
  keep.store(&graph->metadata);
  options->calib = ranges.observed;
  if (!ranges.run) return {};
  store_origin(*ranges.run, &graph->metadata);
  LATHE_TRY(options->tests, make_self_checks(*graph, ranges.run->data, session));
  return {};
}

}  // namespace lathe::tools
