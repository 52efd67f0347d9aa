// The only way a pass edits a graph. Edits keep ids stable and are visible at once; order() of a graph that is being iterated
// must be copied first (Rewriter::nodes()). Types of results are inferred on every change, and again for all readers of a changed
// type. The first edit that fails (a failed inference, a broken order) is reported by ok(); every later edit does nothing.
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
  ValueId insert(NodeId before, Op op, Attrs attrs, std::vector<ValueId> inputs, std::string name,
                 std::optional<Quant> quant = {});
  ValueId constant(std::string name, TensorType type, Constant bytes, std::optional<Quant> quant = {});
  // Other bytes, as many, for a constant that readers know by its name: its name and type stay. Not for small integers, whose values
  // types depend on.
  void set_constant(ValueId constant, Constant bytes);
  // Every reader of `from` (nodes and graph outputs) reads `to`, but for the node that makes `to`: so a value can be wrapped. If
  // `from` was a graph output, `to` takes over its name, and must be a temporary that is no output itself; else the output stays
  // as it is.
  void replace(ValueId from, ValueId to);
  void set_input(NodeId node, size_t index, ValueId value);  // appends missing operands up to index
  void set_inputs(NodeId node, std::vector<ValueId> inputs);
  void set_attrs(NodeId node, Attrs attrs);
  // Both at once, where one without the other would give other types.
  void set_node(NodeId node, Attrs attrs, std::vector<ValueId> inputs);
  void set_moments(NodeId node, ChannelMoments moments);
  // Moves a node down to directly before `before`. Its readers must stand behind that place.
  void move(NodeId node, NodeId before);
  // Names the node that makes `result`, and its one result with it unless that is a graph output or another value has the name.
  void rename_producer(ValueId result, std::string name);
  // Puts a new node where `node`, which has one result, stands: readers read its result, which it returns, and it takes over name
  // and place. Quantization parameters are those of the old result, if it has any.
  ValueId substitute(NodeId node, Op op, Attrs attrs, std::vector<ValueId> inputs);
  void erase(NodeId node);  // its results must have no readers
  // Removes nodes whose results nobody reads (Assign stays) and unread constants; returns how many nodes went.
  int sweep();
  int edits() const { return edits_; }
  Result<void> ok() const;

 private:
  bool fail_edit(Code code, std::string message);
  void update(NodeId node, Node changed);         // stores `changed` if it infers
  bool store_types(Node& node, const std::vector<struct Inferred>& types);
  void propagate(std::vector<NodeId> changed);  // re-infers readers until nothing changes
  bool defined_before(ValueId value, NodeId node) const;
  void rename(ValueId value, std::string name);
  void kill_value(ValueId value);

  Graph& graph_;
  int edits_ = 0;
  std::optional<Error> error_;
};

}  // namespace lathe
