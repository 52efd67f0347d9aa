// Small networks in text form, layer by layer, and what every cut of one must satisfy.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "prune/groups.h"
#include "prune/rewrite.h"

namespace lathe::test {

struct ConvOptions {
  int64_t kernel = 3;
  int64_t groups = 1;
  int64_t stride = 1;
  bool padded = true;
  bool bias = false;
};

// Writes a graph. Each function appends one layer with random weights and returns the name of its result.
class Net {
 public:
  std::string input(const std::string& name, const std::string& type);
  std::string constant(const std::string& name, const std::vector<int64_t>& dims, float lo = -0.5f, float hi = 0.5f);
  std::string integers(const std::string& name, const std::vector<int64_t>& values);
  std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& operands,
                   const std::string& attrs = "");
  std::string conv(const std::string& name, const std::string& x, int64_t ic, int64_t oc, const ConvOptions& options = {});
  std::string batch_norm(const std::string& name, const std::string& x, int64_t channels, int axis = 3);
  std::string relu(const std::string& name, const std::string& x) { return node(name, "Clamp", {x}, "lo=0"); }
  // Convolution, batch normalization, ReLU.
  std::string block(const std::string& name, const std::string& x, int64_t ic, int64_t oc, const ConvOptions& options = {});
  std::string linear(const std::string& name, const std::string& x, int64_t in, int64_t out, bool bias = true);
  std::string layer_norm(const std::string& name, const std::string& x, int64_t channels, int axis);
  std::string reshape(const std::string& name, const std::string& x, const std::vector<int64_t>& target);
  std::string transpose(const std::string& name, const std::string& x, const std::string& perm);
  std::string slice(const std::string& name, const std::string& x, int axis, int64_t begin, int64_t end, int64_t step = 1);
  // Mean over height and width, then a linear layer to `classes`; the output of the graph.
  void head(const std::string& x, int64_t channels, int64_t classes = 3);
  void output(const std::string& name) { text_ += "output %" + name + "\n"; }

  Graph graph() const;

 private:
  std::string text_;
  uint32_t seed_ = 1;
};

std::vector<prune::Group> groups_of(const Graph& graph, const prune::GroupOptions& options = {});
// The group of that name; a missing one ends the test case.
size_t group_named(const std::vector<prune::Group>& groups, const std::string& name);
// "conv1 16" for every group that can be cut, "fc 3 frozen: why" for the others, one per line, with heads and averaged noted.
std::string described(const std::vector<prune::Group>& groups);

// Cuts of that share of every group that can be cut, channels chosen by `seed`.
std::vector<prune::Cut> random_cuts(const std::vector<prune::Group>& groups, double share, uint32_t seed = 1);
// Cuts and masks, proves that both agree, and returns the cut graph.
Graph proved(const Graph& graph, const std::vector<prune::Group>& groups, const std::vector<prune::Cut>& cuts,
             double tolerance = 1e-4);
// Elements of all constants of floating point.
int64_t parameters(const Graph& graph);
// Dims of a value as text: [2,8,8,16].
std::string dims_of(const Graph& graph, const std::string& value);

}  // namespace lathe::test
