// Removes nodes that nobody reads and constants that no node uses. Assign stays: it writes a variable.
#include "graph/passes/passes.h"

namespace lathe::passes {

Result<void> dead_code(Rewriter& rewriter) {
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
