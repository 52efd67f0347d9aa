#include "tools/compress/step.h"

#include <filesystem>

namespace lathe::tools {

namespace {

const StepKind* const kKinds[] = {
#define LATHE_STEP(name) &kStep_##name,
#include "tools/compress/steps.inc"
#undef LATHE_STEP
};

}  // namespace

const StepKind* find_step_kind(std::string_view name) {
  for (const StepKind* kind : kKinds)
    if (name == kind->name) return kind;
  return nullptr;
}

std::string step_kind_names() {
  std::string text;
  for (const StepKind* kind : kKinds) text += (text.empty() ? "" : ", ") + std::string(kind->name);
  return text;
}

std::string recipe_path(const std::string& folder, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() || folder.empty() ? path : (std::filesystem::path(folder) / p).lexically_normal().string();
}

Result<double> positive_or(TableReader& table, std::string_view key, double otherwise) {
  LATHE_TRY(const double value, table.number_or(key, otherwise));
  const Tree* at = table.get(key);
  if (at != nullptr && !(value > 0)) return table.error(*at, "'" + std::string(key) + "' must be above 0");
  return value;
}

}  // namespace lathe::tools
