// Graphs inside nodes (branches of If, bodies of Loop) and functions that a model defines: their nodes are imported in the place
// of the node that uses them, once for each use.
//
// Limits, because a small file can ask for much: kMaxNesting levels and kMaxNestedNodes nodes in all.
#pragma once
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

inline constexpr int kMaxNesting = 16;
inline constexpr size_t kMaxNestedNodes = 100000;

class NestedGraphs final : public NestedImporter {
 public:
  using ImportNode = std::function<Result<void>(const NodeProto&)>;
  // `used`: names that some node or output reads; those of nested nodes join them.
  NestedGraphs(const ModelProto& model, Builder& builder, std::set<std::string_view>& used, ImportNode import_node)
      : model_(model), builder_(builder), used_(used), import_node_(std::move(import_node)) {}

  Result<std::vector<Binding>> import_body(const GraphProto& body, const std::vector<Binding>& inputs) override;

  // The function that a node calls, or nullptr.
  const FunctionProto* find(const NodeProto& node) const;
  // The nodes of `f`, whose results become the outputs of `call`. Errors: as import_body.
  Result<void> import_function(const FunctionProto& f, const NodeProto& call);

 private:
  class Scope;
  Result<void> import_nodes(const std::vector<NodeProto>& nodes, std::set<std::string_view> given);
  Result<std::vector<Binding>> results(const std::vector<std::string_view>& names) const;

  const ModelProto& model_;
  Builder& builder_;
  std::set<std::string_view>& used_;
  ImportNode import_node_;
  int depth_ = 0;
  size_t nodes_ = 0;
  bool over_limit_ = false;  // said once; nothing nested is imported from then on
};

}  // namespace lathe::onnx
