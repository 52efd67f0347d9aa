// Mixed precision from the command line, for `quantize`.
#pragma once
#include <optional>
#include <string>

#include "tools/mixed_choice.h"

namespace lathe::tools {

inline constexpr const char* kCostTableFile = "lathe-costs.json";

struct MixedFlags {
  std::optional<double> max_drop, max_group_drop, target_ms;
  std::string metric = "accuracy", cost_table = kCostTableFile, picture;
  uint64_t limit = 2000;
  double seconds = 1;
  void add_to(Arguments& args);
  // Whether a budget asks for a choice.
  bool given() const { return max_drop || max_group_drop || target_ms; }
  // Costs that were missing are in the table's file afterwards. `baseline`: MixedRequest's. Errors: choose_mixed()'s.
  Result<MixedChoice> choose(const std::string& model, const Graph& graph, const RangeTable& ranges, const Dataset& data,
                             const QuantizeOptions& quantize, const SessionOptions& session, const Graph* baseline = nullptr) const;
  void print_text(const MixedChoice& choice) const;
  Tree json(const MixedChoice& choice) const;
};

}  // namespace lathe::tools
