// The only way a pass edits a graph. Edits keep ids stable and are visible at once; order() of a graph that is being
// iterated must be copied first (Rewriter::nodes()). Types of results are inferred on every change; a failed inference aborts the edit and is
// reported by ok().
#pragma once
#include <string>
#include <vector>

#include "graph/ir.h"

namespace lathe {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}
  Graph& graph() { return graph_; }
  // A snapshot of the live nodes, in order.
  std::vector<NodeId> nodes() const;

  // Inserts a node directly before `before` (kNoId: at the end) and returns its first result.
  ValueId insert(NodeId before, Op op, Attrs attrs, std::vector<ValueId> inputs, std::string name, std::optional<Quant> quant = {});
  ValueId constant(std::string name, TensorType type, Constant bytes, std::optional<Quant> quant = {});
  // Every reader of `from` (nodes and graph outputs) reads `to`. If `from` was a graph output its name moves to `to` when that is a temporary.
  void replace(ValueId from, ValueId to);
  void set_input(NodeId node, size_t index, ValueId value);  // appends missing operands up to index
  void set_attrs(NodeId node, Attrs attrs);
  void erase(NodeId node);  // its results must have no readers
  // Removes nodes without readers (Assign stays) and unread constants; returns how many nodes went.
  int sweep();
  // Re-infers types from `node` on, for readers of changed types.
  int edits() const { return edits_; }
  Result<void> ok() const;

 private:
  Graph& graph_;
  int edits_ = 0;
  std::optional<Error> error_;
};

}  // namespace lathe
