#include "quant/mixed.h"

#include <algorithm>
#include <map>

#include "graph/op_def.h"
#include "quant/half.h"

namespace lathe {
namespace {

size_t index_of(Precision p) { return static_cast<size_t>(p); }

// A value that nodes may exchange in any precision: its maker (or none: the outside, in float32) and its readers.
struct Edge {
  ValueId value = kNoId;
  size_t maker = SIZE_MAX;
  std::vector<size_t> readers;
  bool is_output = false;
};

// The graph as the choice sees it.
class Problem {
 public:
  Problem(const Graph& graph, const MixedCosts& costs) : costs_(costs), group_(graph.order().size()) {
    std::vector<size_t> maker(graph.value_count(), SIZE_MAX);
    std::map<ValueId, Edge> edges;
    const auto exchanged = [&](ValueId v) {
      return v != kNoId && graph.value(v).type.dtype == DType::kF32 && graph.value(v).kind != ValueKind::kConstant;
    };
    for (size_t i = 0; i < group_.size(); ++i) {
      const Node& node = graph.node(graph.order()[i]);
      for (const ValueId v : node.inputs)
        if (exchanged(v)) edges[v].readers.push_back(i);
      for (const ValueId v : node.outputs) {
        maker[v] = i;
        if (exchanged(v)) edges[v].maker = i;
      }
      group_[i] = i;
      const OpDef& def = op_def(node.op);
      if (def.quant_out.role != QuantRole::kSameAs || def.quant_out.index < 0) continue;
      const ValueId source = node.inputs[static_cast<size_t>(def.quant_out.index)];
      if (exchanged(source) && maker[source] != SIZE_MAX) group_[i] = group_[maker[source]];
    }
    for (auto& [v, edge] : edges) {
      edge.value = v;
      edge.is_output = graph.is_output(v);
      edges_.push_back(std::move(edge));
    }
    find_groups();
  }

  size_t size() const { return group_.size(); }

  double us(const Assignment& a) const {
    double total = 0;
    for (size_t i = 0; i < a.size(); ++i) total += costs_.nodes[i][index_of(a[i])];
    for (const Edge& e : edges_) total += border_us(e, a);
    return total;
  }

  // Whether node i decides for itself, and for what moves its result.
  bool leads(size_t i) const { return group_[i] == i; }

  // Gives a leader and its group the precision and adds what that changes; false, with nothing changed, if one cannot have it.
  bool assign(Assignment* a, size_t leader, Precision p, double* us) const {
    const Group& group = groups_[leader];
    double change = 0;
    for (const size_t i : group.nodes) {
      if (costs_.nodes[i][index_of(p)] == kImpossible) return false;
      change += costs_.nodes[i][index_of(p)] - costs_.nodes[i][index_of((*a)[i])];
    }
    for (const size_t e : group.edges) change -= border_us(edges_[e], *a);
    for (const size_t i : group.nodes) (*a)[i] = p;
    for (const size_t e : group.edges) change += border_us(edges_[e], *a);
    *us += change;
    return true;
  }

  // All in `p`; nodes that cannot have it, in FP32.
  Assignment uniform(Precision p) const {
    Assignment a(size(), Precision::kFloat);
    double ignored = 0;
    for (size_t i = 0; i < size(); ++i)
      if (leads(i)) assign(&a, i, p, &ignored);
    return a;
  }

 private:
  double border_us(const Edge& e, const Assignment& a) const {
    const Precision from = e.maker == SIZE_MAX ? Precision::kFloat : a[e.maker];
    bool wanted[kPrecisions] = {};
    for (const size_t r : e.readers) wanted[index_of(a[r])] = true;
    wanted[index_of(Precision::kFloat)] = wanted[index_of(Precision::kFloat)] || e.is_output;
    wanted[index_of(from)] = false;
    const BorderCosts& c = costs_.borders[e.value];
    double us = 0;
    const bool any = wanted[0] || wanted[1] || wanted[2];
    if (from == Precision::kInt8 && any) us += c.dequantize;
    if (from == Precision::kHalf && any) us += c.widen;
    if (wanted[index_of(Precision::kInt8)]) us += c.quantize;
    if (wanted[index_of(Precision::kHalf)]) us += c.narrow;
    return us;
  }

  void find_groups() {
    groups_.resize(size());
    for (size_t i = 0; i < size(); ++i) groups_[group_[i]].nodes.push_back(i);
    for (size_t e = 0; e < edges_.size(); ++e) {
      std::set<size_t> touched;
      if (edges_[e].maker != SIZE_MAX) touched.insert(group_[edges_[e].maker]);
      for (const size_t r : edges_[e].readers) touched.insert(group_[r]);
      for (const size_t g : touched) groups_[g].edges.push_back(e);
    }
  }

  struct Group {
    std::vector<size_t> nodes, edges;
  };

  const MixedCosts& costs_;
  std::vector<size_t> group_;   // by position: the first node of those that must agree
  std::vector<Group> groups_;   // by that node
  std::vector<Edge> edges_;
};

// Changes the run of nodes whose change helps most, until none does.
double improve(const Problem& problem, Assignment* a) {
  // Changes smaller than this share are noise of the sums.
  constexpr double kLeast = 1e-9;
  for (;;) {
    const double now = problem.us(*a);
    double best = now * (1 - kLeast);
    Assignment winner;
    for (size_t first = 0; first < problem.size(); ++first) {
      for (size_t p = 0; p < kPrecisions; ++p) {
        Assignment trial = *a;
        double us = now;
        for (size_t last = first; last < problem.size(); ++last) {
          if (!problem.leads(last)) continue;
          if (!problem.assign(&trial, last, static_cast<Precision>(p), &us)) break;
          if (us < best) best = us, winner = trial;
        }
      }
    }
    if (winner.empty()) return now;
    *a = std::move(winner);
  }
}

}  // namespace

const char* precision_text(Precision precision) {
  constexpr const char* kNames[] = {"INT8", "FP16", "FP32"};
  return kNames[index_of(precision)];
}

double predicted_us(const Graph& graph, const MixedCosts& costs, const Assignment& assignment) {
  return Problem(graph, costs).us(assignment);
}

Assignment fastest_assignment(const Graph& graph, const MixedCosts& costs) {
  const Problem problem(graph, costs);
  Assignment best;
  double best_us = kImpossible;
  for (size_t p = 0; p < kPrecisions; ++p) {
    Assignment a = problem.uniform(static_cast<Precision>(p));
    const double us = improve(problem, &a);
    if (us < best_us || best.empty()) best = std::move(a), best_us = us;
  }
  return best;
}

Result<MixedResult> mixed_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                                const Assignment& assignment) {
  QuantizeOptions quantize = options;
  HalfOptions half;
  half.ranges = ranges;
  half.only = std::set<std::string>();
  for (size_t i = 0; i < assignment.size(); ++i) {
    const NodeId n = graph.order()[i];
    if (assignment[i] != Precision::kInt8) quantize.keep_nodes.insert(n);
    if (assignment[i] == Precision::kHalf) half.only->insert(graph.node(n).name);
  }
  LATHE_TRY(QuantizeResult integer, quantize_graph(graph, ranges, quantize));
  LATHE_TRY(HalfResult halved, half_graph(integer.graph, half));
  LATHE_CHECK_OK(verify(halved.graph));
  MixedResult result{std::move(halved.graph), {}, {}, {}, integer.widened_channels, std::move(halved.clamped)};
  std::map<std::string, const HalfRow*> rows;
  for (const HalfRow& r : halved.rows) rows[r.node] = &r;
  for (const QuantizeRow& r : integer.rows) {
    const HalfRow& h = *rows.at(r.node);
    result.actual.push_back(r.int8 ? Precision::kInt8 : h.half ? Precision::kHalf : Precision::kFloat);
    result.not_int8.push_back(r.reason);
    result.not_half.push_back(h.reason);
  }
  return result;
}

}  // namespace lathe
