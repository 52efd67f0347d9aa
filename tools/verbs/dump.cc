// lathe dump: what is in a model: inputs, outputs, graph, costs, metadata.
#include <cstdio>
#include <map>
#include <memory>

#include "base/json.h"
#include "graph/cost.h"
#include "graph/op_def.h"
#include "graph/pass.h"
#include "tools/model.h"
#include "tools/print_graph.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, stop_after;
  bool full = false, lowered = false, print_changed = false, json = false;
  ImportFlags import;
};

std::string type_text(const Graph& graph, const TensorType& type) {
  std::string s = std::string(dtype_name(type.dtype)) + "[";
  for (size_t i = 0; i < type.dims.size(); ++i) s += (i == 0 ? "" : ",") + graph.dims().text(type.dims[i]);
  return s + "]";
}

uint64_t parameter_bytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (const NodeId n : graph.order()) bytes += node_parameter_bytes(graph, graph.node(n));
  return bytes;
}

Tree ports_json(const Graph& graph, const std::vector<ValueId>& values) {
  Tree list = Tree::array();
  for (const ValueId v : values)
    list.push(Tree(Tree::table().set("name", graph.value(v).name).set("type", type_text(graph, graph.value(v).type))));
  return list;
}

void print_json(const Graph& graph) {
  std::map<std::string, int> ops;
  for (const NodeId n : graph.order()) ++ops[op_name(graph.node(n).op)];
  Tree op_table = Tree::table(), facts = Tree::table(), out = Tree::table();
  for (const auto& [op, count] : ops) op_table.set(op, count);
  for (const auto& [key, value] : graph.metadata) facts.set(key, value);
  out.set("inputs", ports_json(graph, graph.inputs()))
      .set("outputs", ports_json(graph, graph.outputs()))
      .set("ops", std::move(op_table));
  out.set("macs", total_macs(graph)).set("parameter_bytes", parameter_bytes(graph)).set("metadata", std::move(facts));
  std::printf("%s\n", to_json(out).c_str());
}

void print_text(const Graph& graph, bool full) {
  std::printf("%s", print(graph, full).c_str());
  std::printf("%zu nodes, %.3f M multiply-accumulates at batch 1, %llu bytes of parameters\n", graph.order().size(),
              total_macs(graph) / 1e6, static_cast<unsigned long long>(parameter_bytes(graph)));
}

Result<void> run(const Options& o) {
  LATHE_TRY(Graph graph, load_graph(o.model, o.import));
  if (o.lowered) {
    PassOptions options;
    options.stop_after = o.stop_after;
    if (o.print_changed) options.on_changed = print_changed_graph;
    LATHE_CHECK_OK(run_passes(graph, lowering_passes(), options));
  }
  if (o.json)
    print_json(graph);
  else
    print_text(graph, o.full);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file").required();
  args.flag("--full", o->full, "with the contents of every constant");
  const Argument lowered = args.flag("--lowered", o->lowered, "after the passes that lowering applies");
  args.flag("--print-changed", o->print_changed, "with --lowered: the graph after every pass that changed it").needs(lowered);
  args.option("--stop-after", o->stop_after, "with --lowered: name of the last pass to run").needs(lowered);
  args.flag("--json", o->json, "print inputs, outputs, counts and metadata as JSON");
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_dump{"dump", "show what is in a model", "lathe dump model.lathe --lowered", setup};

}  // namespace lathe::tools
