#include "tools/device_costs.h"

#include <algorithm>
#include <numeric>

#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "quant/calibrate.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

std::string dims_text(const Graph& graph, ValueId v) {
  if (v == kNoId) return "-";
  const std::vector<std::optional<int64_t>> ones(graph.dims().symbol_count(), 1);
  std::string text;
  for (const Dim d : graph.value(v).type.dims) {
    const auto n = graph.dims().evaluate(d, ones);
    text += (text.empty() ? "" : "x") + (n ? std::to_string(*n) : "?");
  }
  return text.empty() ? "scalar" : text;
}

int64_t elems_of(const Graph& graph, ValueId v) {
  const std::vector<std::optional<int64_t>> ones(graph.dims().symbol_count(), 1);
  int64_t n = 1;
  for (const Dim d : graph.value(v).type.dims) n *= graph.dims().evaluate(d, ones).value_or(1);
  return n;
}

std::string with_threads(const std::string& key, const SessionOptions& session) {
  return key + " t" + std::to_string(session.threads);
}

// Of the node at position `i`.
std::string node_key(const Graph& graph, size_t i, Precision p, const CostRequest& request) {
  const std::string key = with_threads(node_signature(graph, graph.node(graph.order()[i])) + " " + precision_text(p), request.session);
  return request.batch == 1 ? key : key + " b" + std::to_string(request.batch);
}

// Microseconds of a network's steps, added up by node: the least of the medians of some rounds, because what disturbs a machine
// only ever adds.
Result<std::map<std::string, double>> profile_graph(const Graph& graph, const CostRequest& request) {
  LATHE_TRY(auto program, compile_for_host(graph));
  const HostModel model{std::move(program), {}, 0};
  MeasureFlags flags;
  flags.batch = request.batch;
  LATHE_TRY(Runner runner, make_runner(flags, model, request.session));
  Profiler profiler(runner.session(), *model.program);
  constexpr int kRounds = 3;
  std::map<std::string, double> us;
  for (int round = 0; round < kRounds; ++round) {
    LATHE_CHECK_OK(profile_runs(runner, profiler, request.seconds / kRounds));
    for (const ProfileRow& r : profiler.rows(ProfileBy::kNode)) {
      const auto [it, first] = us.emplace(r.name, r.p50_ns / 1e3);
      if (!first) it->second = std::min(it->second, r.p50_ns / 1e3);
    }
  }
  return us;
}

// Profiles `network`, made from `graph`, and stores what the nodes at the positions `which` cost; those alike get their mean. How many
// entries are new.
Result<size_t> profile_into(const Graph& graph, const Graph& network, const std::vector<size_t>& which, Precision p,
                            const CostRequest& request, CostTable* table) {
  LATHE_TRY(const auto us, profile_graph(network, request));
  std::map<std::string, std::vector<double>> by_key;
  for (const size_t i : which) {
    const auto it = us.find(graph.node(graph.order()[i]).name);
    by_key[node_key(graph, i, p, request)].push_back(it == us.end() ? 0 : it->second);  // a node that lowering folded costs nothing
  }
  size_t added = 0;
  for (const auto& [name, times] : by_key) {
    double sum = 0;
    for (const double t : times) sum += t;
    added += !table->find(name).has_value();
    table->set(name, sum / static_cast<double>(times.size()));
  }
  return added;
}

class Measuring {
 public:
  Measuring(const Graph& graph, const RangeTable& ranges, const CostRequest& request, CostTable* table)
      : graph_(graph), ranges_(ranges), request_(request), table_(table) {}

  Result<DeviceCosts> run() {
    DeviceCosts out;
    out.costs.nodes.assign(graph_.order().size(), {kImpossible, kImpossible, kImpossible});
    for (size_t p = 0; p < kPrecisions; ++p) LATHE_CHECK_OK(add_precision(static_cast<Precision>(p), &out));
    LATHE_CHECK_OK(add_borders(&out));
    return out;
  }

 private:
  std::string key(size_t i, Precision p) const { return node_key(graph_, i, p, request_); }

  Result<void> add_precision(Precision p, DeviceCosts* out) {
    LATHE_TRY(const MixedResult network, mixed_graph(graph_, ranges_, request_.quantize, Assignment(out->costs.nodes.size(), p)));
    if (p == Precision::kInt8) out->not_int8 = network.not_int8;
    if (p == Precision::kHalf) out->not_half = network.not_half;
    std::vector<size_t> able;
    bool known = true;
    for (size_t i = 0; i < network.actual.size(); ++i) {
      if (network.actual[i] != p) continue;
      able.push_back(i);
      known = known && table_->find(key(i, p)).has_value();
    }
    if (!known) {
      LATHE_TRY(const size_t added, profile_into(graph_, network.graph, able, p, request_, table_));
      out->measured += added;
    }
    for (const size_t i : able) out->costs.nodes[i][static_cast<size_t>(p)] = *table_->find(key(i, p));
    return {};
  }

  std::string border_key(const char* what, int64_t elems) const {
    return with_threads(std::string(what) + " " + std::to_string(elems), request_.session);
  }

  Result<void> add_borders(DeviceCosts* out) {
    std::vector<int64_t> missing;
    const auto sizes = exchanged_sizes();
    for (const auto& [v, n] : sizes)
      if (!table_->find(border_key("quantize", n))) missing.push_back(n);
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    for (const int64_t n : missing) {
      LATHE_CHECK_OK(measure_border(n));
      out->measured += 4;
    }
    out->costs.borders.resize(graph_.value_count());
    for (const auto& [v, n] : sizes)
      out->costs.borders[v] = {*table_->find(border_key("quantize", n)), *table_->find(border_key("dequantize", n)),
                               *table_->find(border_key("narrow", n)), *table_->find(border_key("widen", n))};
    return {};
  }

  // Values that nodes may exchange in any precision.
  std::map<ValueId, int64_t> exchanged_sizes() const {
    std::map<ValueId, int64_t> sizes;
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(v);
      if (!value.dead && value.kind != ValueKind::kConstant && value.type.dtype == DType::kF32) sizes[v] = elems_of(graph_, v);
    }
    return sizes;
  }

  Result<void> measure_border(int64_t n) {
    const std::string f32 = " : f32[" + std::to_string(n) + "]", s8 = " : s8[" + std::to_string(n) + "]";
    const auto cast = [](DType to) { return "{to=" + std::to_string(static_cast<int>(to)) + "}\n"; };
    LATHE_TRY(const Graph chain, parse_graph("graph {\n  input %x" + f32 + "\n  %h = Cast \"narrow\" (%x) " + cast(DType::kF16) +
                                             "  %w = Cast \"widen\" (%h) " + cast(DType::kF32) + "  %q" + s8 +
                                             " quant(scale=0.0078125, zero_point=0) = Quantize \"quantize\" (%w)\n"
                                             "  %y = Dequantize \"dequantize\" (%q)\n  output %y\n}\n"));
    CostRequest brief = request_;
    brief.seconds = std::min(0.05, request_.seconds);
    LATHE_TRY(auto us, profile_graph(chain, brief));
    for (const char* what : {"quantize", "dequantize", "narrow", "widen"}) table_->set(border_key(what, n), us[what]);
    return {};
  }

  const Graph& graph_;
  const RangeTable& ranges_;
  const CostRequest& request_;
  CostTable* table_;
};

}  // namespace

std::string node_signature(const Graph& graph, const Node& node) {
  std::string text = op_name(node.op);
  for (const ValueId v : node.inputs) text += " " + dims_text(graph, v);
  text += " >";
  for (const ValueId v : node.outputs) text += " " + dims_text(graph, v);
  return text;
}

Result<DeviceCosts> device_costs(const Graph& graph, const RangeTable& ranges, const CostRequest& request, CostTable* table) {
  return Measuring(graph, ranges, request, table).run();
}

Result<std::map<std::string, double>> float_times(const Graph& graph, const CostRequest& request, CostTable* table) {
  std::vector<size_t> all(graph.order().size());
  std::iota(all.begin(), all.end(), size_t{0});
  const bool known = std::all_of(all.begin(), all.end(),
                                 [&](size_t i) { return table->find(node_key(graph, i, Precision::kFloat, request)).has_value(); });
  if (!known) {
    LATHE_TRY([[maybe_unused]] const size_t added, profile_into(graph, graph, all, Precision::kFloat, request, table));
  }
  std::map<std::string, double> us;
  for (const size_t i : all) us[graph.node(graph.order()[i]).name] = *table->find(node_key(graph, i, Precision::kFloat, request));
  return us;
}

Result<RangeTable> random_ranges(const Graph& graph, const SessionOptions& session) {
  SampleSource source;
  source.count = 1;
  source.fill = [&](uint64_t, const std::vector<void*>& inputs) -> Result<void> {
    uint32_t state = 1;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const TensorType& type = graph.value(graph.inputs()[k]).type;
      const auto n = static_cast<size_t>(elems_of(graph, graph.inputs()[k]));
      std::fill_n(static_cast<char*>(inputs[k]), n * dtype_bytes(type.dtype), 0);
      if (type.dtype != DType::kF32) continue;
      for (size_t i = 0; i < n; ++i) {
        state = state * 1664525u + 1013904223u;
        static_cast<float*>(inputs[k])[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      }
    }
    return {};
  };
  LATHE_TRY(const Calibration calibration, calibrate(graph, source, {.observer = {}, .session = session}));
  return ranges_of(calibration);
}

}  // namespace lathe::tools
