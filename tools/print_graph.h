// Showing graphs while passes run (--print-changed).
#pragma once
#include "graph/pass.h"

namespace lathe::tools {

// Prints the pass's name, its number of edits and the graph after it, to stdout.
void print_changed_graph(const Pass& pass, const Graph& after, int edits);

}  // namespace lathe::tools
