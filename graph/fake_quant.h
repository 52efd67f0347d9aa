// Values on grids in graphs for training: what stands behind a FakeQuant whose scales are known.
#pragma once
#include <optional>
#include <vector>

#include "graph/ir.h"

namespace lathe {

struct OnGrid {
  NodeId node;    // the FakeQuant
  ValueId real;   // what it rounds
  Quant quant;    // the grid
};
// Nothing for a value that no FakeQuant makes, or one whose scales depend on an input or a variable.
std::optional<OnGrid> on_grid(const Graph& graph, ValueId v);

// What the value is without its FakeQuant, if it has one.
ValueId without_grid(const Graph& graph, ValueId v);

}  // namespace lathe
