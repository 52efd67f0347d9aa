// fp16: the model as it is, stored in half precision: a version of its own, for devices without INT8.
#include "graph/pass.h"
#include "quant/half.h"
#include "quant/observed.h"
#include "tools/compress/step.h"
#include "tools/markup.h"
#include "tools/model.h"

namespace lathe::tools {
namespace {

class Half final : public Step {
 public:
  explicit Half(std::vector<std::string> keep) : keep_(std::move(keep)) {}
  std::string what() const override { return keep_.empty() ? "half precision, aside" : formatted("half precision, aside; %zu names stay float", keep_.size()); }
  double seconds(const StepCosts&) const override { return 0; }

  Result<void> run(const StepInput& in, StepOutput* out) const override {
    LATHE_TRY(ModelFile model, load_model(in.model, {}));
    LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
    LATHE_TRY(HalfResult half, half_graph(model.graph, {.keep_float = keep_, .ranges = ranges_of(model.calib)}));
    size_t converted = 0;
    for (const HalfRow& row : half.rows) converted += row.half;
    out->lines.push_back(formatted("%zu of %zu operators are FP16", converted, half.rows.size()));
    for (const std::string& constant : half.clamped) out->lines.push_back("note: elements clamped to 65504: " + constant);
    out->write.targets = {Target::kHost};
    out->graph = std::move(half.graph);
    return {};
  }

 private:
  std::vector<std::string> keep_;
};

Result<std::unique_ptr<Step>> parse(TableReader& table, const std::string&) {
  std::vector<std::string> keep;
  if (table.get("keep") != nullptr) {
    LATHE_TRY(keep, table.strings("keep"));
  }
  return std::make_unique<Half>(std::move(keep));
}

}  // namespace

const StepKind kStep_fp16{"fp16", 1, StepRole::kAside, false, false, "fp16", parse};

}  // namespace lathe::tools
