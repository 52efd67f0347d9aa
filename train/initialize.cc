#include "train/initialize.h"

#include <cmath>

#include "base/random.h"
#include "graph/grad/training_form.h"
#include "graph/rewriter.h"

namespace lathe::train {
namespace {

std::vector<float> start(const Trained& t, const TensorType& type, const DimTable& dims, size_t elems, Random random) {
  if (t.role == ParameterRole::kBias) return std::vector<float>(elems, 0.0f);
  if (t.role == ParameterRole::kScale) return std::vector<float>(elems, 1.0f);
  const int64_t width = type.dims.empty() ? 1 : dims.value(type.dims.back()).value_or(1);
  const double variance =
      t.role == ParameterRole::kWeight ? 2.0 / static_cast<double>(t.fan_in) : 1.0 / static_cast<double>(width);
  std::vector<float> values(elems);
  for (float& v : values) v = static_cast<float>(std::sqrt(variance) * random.normal());
  return values;
}

}  // namespace

Result<void> initialize(Graph& model, uint64_t seed) {
  Graph copy = model;
  LATHE_TRY(const TrainingForm form, make_training_form(copy));
  Rewriter rewriter(model);
  uint64_t number = 0;
  for (const auto* list : {&form.parameters, &form.statistics}) {
    for (const Trained& t : *list) {
      const ValueId v = model.find_value(t.constant);
      const Value& value = model.value(v);
      const size_t elems = value.constant.bytes.size() / sizeof(float);
      rewriter.set_constant(v, Constant::of(start(t, value.type, model.dims(), elems, Random(seed, {number++}))));
    }
  }
  return rewriter.ok();
}

}  // namespace lathe::train
