#include "tools/qat_training.h"

#include "graph/lineage.h"
#include "graph/pass.h"
#include "quant/decide.h"

namespace lathe::tools {

void QatFlags::add_to(Arguments& args) {
  const Argument on = args.flag("--qat", qat, "train with quantization: the result is INT8, as `quantize` writes it, and so is what split val judges; with "
                                              "--base-lr at 10 % of it");
  args.flag("--per-tensor", per_tensor, "for --qat: one weight scale per tensor instead of one per output channel").needs(on);
  args.option("--weight-bits", weight_bits, "for --qat: of each weight, stored as INT8 all the same").show_default().range(2, 8).needs(on);
  args.flag("--equalize", equalize, "for --qat: start from equalized channels, as `quantize --equalize`").needs(on);
  args.flag("--weight-mse", weight_mse, "for --qat: start from weight scales of least squared error").needs(on);
  args.flag("--fixed-steps", fixed_steps, "for --qat: keep the calibrated scales instead of learning them").needs(on);
  keep.add_to(args);
  calibration.add_choices_to(args);
}

Result<QatResult> train_quantized(const std::string& path, ModelFile model, const Dataset& data, const QatFlags& flags,
                                  TrainRequest request) {
  LATHE_CHECK_OK(check_is_float(model.graph));
  if (request.from_scratch) return fail(Code::kInvalidArgument, "--qat starts from a trained network: leave out --from-scratch");
  if (request.trainer.sparsity != 0) return fail(Code::kInvalidArgument, "--qat folds batch normalizations, which --sparsity works on");
  const Graph original = model.graph;
  LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
  QatResult result;
  LATHE_TRY(result.keep, flags.keep.read());
  QuantizeOptions quantize{.per_channel = !flags.per_tensor,
                           .weight_bits = static_cast<int32_t>(flags.weight_bits),
                           .keep_float = result.keep.entries};
  CalibrationFlags calibration = flags.calibration;
  calibration.data = data.description().path;
  RemedyFlags remedies;
  remedies.equalize = flags.equalize;
  remedies.weight_mse = flags.weight_mse;
  LATHE_TRY(result.start, quantize_with_remedies(path, &model, remedies, calibration, quantize, request.session));
  quantize.weight_mse = flags.weight_mse;
  LATHE_TRY(Graph graph, qat::insert(model.graph, result.start.ranges.table, quantize, {.learn_steps = !flags.fixed_steps}));
  set_lineage(original, &graph);
  const auto integers = [&](const Graph& trained) -> Result<Graph> {
    LATHE_TRY(qat::Converted converted, qat::convert(trained, quantize));
    return std::move(converted.graph);
  };
  request.judged = integers;
  LATHE_TRY(result.training, train_model(graph, data, request));
  LATHE_TRY(result.graph, integers(result.training.graph));
  return result;
}

}  // namespace lathe::tools
