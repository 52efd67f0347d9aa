// Structured pruning of a network: groups, importance, costs, a target, one cut and its proof. What `lathe prune` and `lathe
// compress` share.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tree.h"
#include "graph/ir.h"
#include "prune/criteria.h"
#include "prune/rewrite.h"
#include "runtime/host/session.h"

namespace lathe::tools {

// What importance is divided by: measured time, parameters, or nothing.
enum class PruneBy : uint8_t { kTime, kParameters, kNothing };
Result<PruneBy> parse_prune_by(const std::string& name);         // time, parameters, nothing
Result<prune::Residue> parse_residue(const std::string& name);  // absorb, absorb-padded, drop

struct PruneRequest {
  std::string model;  // opens errors
  // Exactly one of these. ratio: of the channels that can go; threshold: below which a channel goes (of |gamma| for gamma, else
  // of the importance relative to the group's mean); macs: at most that many at batch 1; latency: at most that many milliseconds
  // of the float network on this machine, with the session's threads and `batch`.
  std::optional<double> ratio, threshold, target_macs, target_ms;

  prune::Criterion criterion = prune::Criterion::kL1;
  PruneBy by = PruneBy::kTime;
  bool uniform = false;  // the same share of every group
  bool heads = false;       // attention heads, too
  bool only_heads = false;  // nothing else
  double max_group_ratio = 0.9;
  uint32_t multiple = 0;  // that counts are brought to; 0: what kernels like
  std::vector<std::string>
      keep;  // groups that stay whole: names or patterns of groups, of their constants, or of nodes that read these
  // Of constants that channels leave behind. Empty: absorbed for gamma, where a channel that goes emits little else; dropped for
  // the other criteria, whose channels emitted more than the constant that is left of them.
  std::optional<prune::Residue> residue = {};
  uint64_t seed = 1;

  std::string data;  // set.toml, for criteria that need one
  uint64_t samples = 512;

  SessionOptions session = {};
  uint32_t batch = 1;
  double seconds = 0.5;    // of measuring each network
  std::string cost_table;  // a file that measurements are taken from and added to; empty: none
  bool measure = true;     // latency before and after
};

struct GroupPlan {
  std::string name;
  uint32_t channels = 0;
  std::vector<uint32_t> goes;
  std::string stays;          // why it cannot lose channels; empty: it can
  std::vector<double> shown;  // prune::Importance::shown
  double cost = 0;            // of a channel: microseconds, parameters, or 1
};

struct NetworkSize {
  uint64_t parameters = 0, bytes = 0;  // float constants; bytes of all constants
  double macs = 0;                     // at batch 1
  std::optional<double> ms;            // median
};

struct PrunePlan {
  std::vector<GroupPlan> groups;
  uint64_t channels = 0, gone = 0;  // channels: of groups that can lose some
  NetworkSize before, after;
  std::vector<prune::ResidueRow> residues;
  size_t networks = 0;  // that were measured to meet a latency
  std::vector<std::string> notes;
};

struct PruneOutcome {
  Graph graph;
  PrunePlan plan;
  prune::Proof proof;
};

// Errors: a quantized model (prune before), no group that can lose channels, a target out of reach (with the nearest
// figure), a request without its data, those of the criterion, of cutting and of measuring; a network whose masked form computes
// something else.
Result<PruneOutcome> prune_model(const Graph& graph, const PruneRequest& request);

// Whether a group stays whole by one of these names or patterns: its own, of a constant of it, or of a node that reads one.
bool is_kept(const Graph& graph, const prune::Group& group, const std::vector<std::string>& keep);

NetworkSize network_size(const Graph& graph);

// The plan as tables: groups with histograms, figures before and after, notes.
std::string plan_text(const PrunePlan& plan, const PruneRequest& request);
std::string sizes_text(const NetworkSize& before, const NetworkSize& after, const SessionOptions& session, uint32_t batch);
std::string proof_text(const prune::Proof& proof);
Tree size_json(const NetworkSize& size);
Tree proof_json(const prune::Proof& proof);
Tree plan_json(const PruneOutcome& outcome, const PruneRequest& request);

}  // namespace lathe::tools
