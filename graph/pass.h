// The pass driver: explicit ordered lists, verify() after every pass.
//
// A pass is one file in graph/passes/ with one function and one line in a list of pass.cc. It does one kind of rewrite.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "graph/rewriter.h"

namespace lathe {

struct Pass {
  const char* name;                       // kebab-case, as --stop-after takes it
  Result<void> (*run)(Rewriter& rewriter);  // count of changes is rewriter.edits()
};

// What `import` applies: shape and constant folding, transpose cancelling, dead code. The graph stays trainable (BN unfolded,
// nothing fused).
std::span<const Pass> import_passes();
// What lowering and quantizing apply on top: BN folding, pad, activation and residual fusion, clean-up.
std::span<const Pass> lowering_passes();

struct PassOptions {
  std::function<void(const Pass&, const Graph& after, int edits)> on_changed;  // --print-changed
  std::string stop_after;  // name of the last pass to run; empty: all
};

// Runs passes in order. Error: the pass's own, or verify()'s with the pass's name; an unknown stop_after is an error that lists
// the names.
Result<void> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options = {});

}  // namespace lathe
