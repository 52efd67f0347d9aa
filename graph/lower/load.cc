#include "graph/lower/load.h"

#include "graph/pass.h"
#include "runtime/host/model.h"

namespace lathe {

Result<std::shared_ptr<const LoadedProgram>> load_program(ProgramImage image) {
  const auto owner = std::make_shared<const ProgramImage>(std::move(image));
  auto loaded = std::make_shared<LoadedProgram>();
  const Status status =
      program_open({owner->plan.data(), owner->plan.size()}, {owner->weights.get(), owner->weights_bytes}, &loaded->program);
  if (!status.ok()) return fail(status.code, "lowering made a program that does not open: " + describe_program_error(status));
  loaded->owner = owner;
  loaded->input_names = owner->input_names;
  loaded->output_names = owner->output_names;
  loaded->symbol_names = owner->symbol_names;
  loaded->variable_names = owner->variable_names;
  for (const StepInfo& step : owner->steps) {
    loaded->step_names.push_back(step.name);
    loaded->step_ops.push_back(step.op);
  }
  return loaded;
}

Result<std::shared_ptr<const LoadedProgram>> compile_for_host(const Graph& graph) {
  Graph copy = graph;
  LATHE_CHECK_OK(run_passes(copy, lowering_passes()));
  LATHE_TRY(ProgramImage image, lower(copy, Target::kHost));
  return load_program(std::move(image));
}

}  // namespace lathe
