#include "tools/print_graph.h"

#include <cstdio>

namespace lathe::tools {

void print_changed_graph(const Pass& pass, const Graph& after, int edits) {
  std::printf("== after %s (%d edits)\n%s\n", pass.name, edits, print(after).c_str());
}

}  // namespace lathe::tools
