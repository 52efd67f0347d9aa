// lathe bench-device: what a network's operators cost on this device in INT8, FP16 and FP32, and whether INT8 is worth it.
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>

#include "base/json.h"
#include "graph/pass.h"
#include "quant/observed.h"
#include "tools/calibration.h"
#include "tools/device_costs.h"
#include "tools/markup.h"
#include "tools/mixed_flags.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, output = kCostTableFile;
  double seconds = 1;
  bool fresh = false, json = false;
  SessionFlags session;
  ImportFlags import;
};

struct Outcome {
  Graph graph;
  DeviceCosts costs;
  std::string device;
  uint32_t threads = 1;
};

std::string us_text(double us) { return std::isfinite(us) ? formatted("%.2f", us) : "-"; }

// Where both are possible.
bool int8_wins(const PrecisionCosts& us) { return us[0] < us[1]; }

void print_text(const Outcome& o) {
  Table rows({"operator", "nodes", "INT8 us", "FP16 us", "FP32 us", "INT8 beats FP16"});
  std::map<std::string, size_t> nodes;
  std::vector<size_t> first;
  for (size_t i = 0; i < o.graph.order().size(); ++i)
    if (nodes[node_signature(o.graph, o.graph.node(o.graph.order()[i]))]++ == 0) first.push_back(i);
  size_t both = 0, wins = 0;
  for (const size_t i : first) {
    const PrecisionCosts& us = o.costs.costs.nodes[i];
    const bool comparable = std::isfinite(us[0]) && std::isfinite(us[1]);
    both += comparable, wins += comparable && int8_wins(us);
    const std::string name = node_signature(o.graph, o.graph.node(o.graph.order()[i]));
    rows.add({name, std::to_string(nodes[name]), us_text(us[0]), us_text(us[1]), us_text(us[2]),
              !comparable ? "" : int8_wins(us) ? "yes" : "no"});
  }
  std::printf("%s", rows.text().c_str());
  Table borders({"value", "quantize us", "dequantize us", "narrow us", "widen us"});
  std::set<std::string> seen;
  for (ValueId v = 0; v < o.costs.costs.borders.size(); ++v) {
    const BorderCosts& b = o.costs.costs.borders[v];
    if (b.quantize == 0 && b.widen == 0) continue;
    const std::string type = print_type(o.graph.dims(), o.graph.value(v).type);
    if (!seen.insert(type).second) continue;
    borders.add({type, us_text(b.quantize), us_text(b.dequantize), us_text(b.narrow), us_text(b.widen)});
  }
  std::printf("%s", borders.text().c_str());
  std::printf("%s, %u threads: INT8 beats FP16 for %zu of %zu kinds of operators; %zu entries were measured\n", o.device.c_str(),
              o.threads, wins, both, o.costs.measured);
}

void print_json(const Outcome& o) {
  Tree ops = Tree::array(), out = Tree::table();
  for (size_t i = 0; i < o.graph.order().size(); ++i) {
    const Node& node = o.graph.node(o.graph.order()[i]);
    const PrecisionCosts& us = o.costs.costs.nodes[i];
    Tree row = Tree::table();
    row.set("node", node.name).set("op", op_name(node.op)).set("signature", node_signature(o.graph, node));
    constexpr const char* kKeys[] = {"int8_us", "fp16_us", "fp32_us"};
    for (size_t p = 0; p < kPrecisions; ++p)
      if (std::isfinite(us[p])) row.set(kKeys[p], us[p]);
    if (std::isfinite(us[0]) && std::isfinite(us[1])) row.set("int8_beats_fp16", int8_wins(us));
    ops.push(std::move(row));
  }
  out.set("device", o.device).set("threads", o.threads).set("measured", o.costs.measured).set("ops", std::move(ops));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> run(const Options& o) {
  LATHE_CHECK_OK(check_writable(o.output));
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
  RangeTable ranges = ranges_of(model.calib);
  if (ranges.empty()) {
    LATHE_TRY(ranges, random_ranges(model.graph, session));
  }
  Outcome outcome{std::move(model.graph), {}, device_name(session), session.threads};
  LATHE_TRY(CostTable table, CostTable::open(o.output, outcome.device));
  if (o.fresh) table.clear();
  const CostRequest request{.quantize = {}, .session = session, .seconds = o.seconds};
  LATHE_TRY(outcome.costs, device_costs(outcome.graph, ranges, request, &table));
  LATHE_CHECK_OK(table.save());
  if (o.json)
    print_json(outcome);
  else
    print_text(outcome);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  args.option("-o,--output", o->output, "table of costs to add to, for `quantize --cost-table`").show_default();
  args.option("--seconds", o->seconds, "how long to measure the network in each precision").show_default().range(0.01, 3600.0);
  args.flag("--fresh", o->fresh, "forget what the table knows of this device");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_bench_device{"bench-device", "measure what operators cost on this device in INT8, FP16 and FP32",
                              "lathe bench-device model.lathe -o lathe-costs.json", setup};

}  // namespace lathe::tools
